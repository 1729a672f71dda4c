"""What notebooks show: small tables and curves as plain HTML and SVG, in the colours of the page around them."""

import html
import math
from collections.abc import Mapping, Sequence

_WIDTH, _HEIGHT, _MARGIN = 340, 120, 6


def page(title: str, rows: Mapping[str, object], picture: str = "", note: str = "") -> str:
    """A title, a table of names and values, a picture and a note."""
    cell = '<td style="text-align:left;padding:1px 10px 1px 0">'
    lines = "".join(
        f"<tr>{cell}{html.escape(name)}</td>{cell}<code>{html.escape(str(value))}</code></td></tr>"
        for name, value in rows.items()
    )
    warned = f"<p><b>Warning:</b> {html.escape(note)}</p>" if note else ""
    return f"<div><b>{html.escape(title)}</b><table>{lines}</table>{picture}{warned}</div>"


def curve(x: Sequence[float], y: Sequence[float], x_name: str, y_name: str) -> str:
    """y against x as an SVG, on a logarithmic axis where all of y is positive; empty with fewer than two points."""
    points = [(float(a), float(b)) for a, b in zip(x, y, strict=True) if math.isfinite(a) and math.isfinite(b)]
    if len(points) < 2:
        return ""
    logarithmic = all(b > 0 for _, b in points)
    heights = [math.log10(b) if logarithmic else b for _, b in points]
    across = _placed([a for a, _ in points], _MARGIN, _WIDTH - _MARGIN)
    down = _placed(heights, _HEIGHT - _MARGIN, _MARGIN)
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, down, strict=True))
    values = [b for _, b in points]
    label = f"{y_name} from {points[0][1]:.3g} to {points[-1][1]:.3g}, against {x_name} up to {points[-1][0]:.4g}"
    scale = "logarithmic" if logarithmic else "linear"
    return (
        f'<svg role="img" aria-label="{html.escape(label)}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" style="max-width:100%">'
        f'<rect x="0.5" y="0.5" width="{_WIDTH - 1}" height="{_HEIGHT - 1}" fill="none" stroke="currentColor" '
        f'stroke-opacity="0.3"/><polyline points="{path}" fill="none" stroke="currentColor" stroke-width="1.5"/></svg>'
        f"<div><small>{html.escape(label)}; {scale}, between {min(values):.3g} and {max(values):.3g}</small></div>"
    )


def _placed(values: Sequence[float], first: float, last: float) -> list[float]:
    """Values moved to the range from `first` (the smallest) to `last` (the largest)."""
    low, high = min(values), max(values)
    return [first + (last - first) * ((value - low) / (high - low) if high > low else 0.5) for value in values]
