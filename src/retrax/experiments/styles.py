"""A fixed look for each method: colours that the colour-blind can tell apart, and dashes and markers for grey."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Style:
    """`dash` is (on, off, ...) in units of line width, empty for a solid line; `marker` is Matplotlib's."""

    light: str
    """Colour on white."""
    dark: str
    """Colour on black."""
    dash: tuple[float, ...]
    marker: str
    width: float = 1.4
    marker_size: float = 4.6
    filled: bool = True


METHODS = {
    "rsrm": Style("#c1272d", "#ff6b6b", (), "o", 2.2),
    "rsgd": Style("#0072b2", "#56b4ff", (6, 2), "s"),
    "csgd-m": Style("#008060", "#3fd3a5", (6, 2, 1, 2), "^"),
    "crmsprop": Style("#3d9ad1", "#9ad8ff", (1, 1.5), "D"),
    "ramsgrad": Style("#c77700", "#ffb84d", (3, 1.5), "v"),
    "rasa-l": Style("#b0508a", "#f29ccb", (8, 2, 1, 2, 1, 2), "P"),
    "rasa-r": Style("#7a7a1f", "#d6d65c", (4, 1, 1, 1), "X"),
    "rasa-lr": Style("#332288", "#a99bff", (10, 3), "*"),
    "rsrm-rho": Style("#7f1d4e", "#ff9cc2", (2, 1), "h"),
    "csgd-m-usual": Style("#44aa99", "#7fe3d3", (5, 1, 1, 1, 1, 1), "<"),
    "ramsgrad-usual": Style("#8a5a00", "#e0a84a", (3, 3), ">"),
    "rsrm-untuned": Style("#000000", "#ffffff", (), "s", 1.1, 4.2, filled=False),
    "rsgd-average": Style("#0b5394", "#8ec5ff", (1, 2.5), "o", 1.1, 4.2, filled=False),
    "rdog": Style("#d55e00", "#ff9e5e", (5, 2), "<"),
    "rdowg": Style("#8c4a00", "#e0a070", (2, 2), ">"),
    "nrdog": Style("#e69f00", "#ffd24d", (7, 1, 1, 1), "v"),
    "storm-plus": Style("#009e73", "#5fe0b7", (4, 1.5, 1, 1.5), "p"),
    "rsvrg": Style("#117733", "#66d188", (7, 2), "p"),
    "rsrg": Style("#555555", "#c9c9c9", (3, 1, 1, 1), "d"),
    "rspider": Style("#aa4499", "#e893da", (1, 1), "H"),
}
_SEQUENCE = ("#440154", "#414487", "#2a788e", "#1f9d8a", "#4aab4d", "#9aa100", "#c98a00")
_SEQUENCE_DARK = ("#c58bd6", "#9a9ef0", "#6fc0d6", "#5fd8c4", "#8ee08f", "#d8df4d", "#ffc64d")
_DASHES: tuple[tuple[float, ...], ...] = ((), (6, 2), (3, 1.5), (6, 2, 1, 2), (1, 1.5), (8, 2, 1, 2, 1, 2), (2, 1))
_MARKERS = "oD^pv*X"


def style_of(key: str, position: int) -> Style:
    """The style of a method, also behind a panel's name; other series take one by their position."""
    method = next((name for name in sorted(METHODS, key=len, reverse=True) if f"-{key}".endswith(f"-{name}")), None)
    if method is not None:
        return METHODS[method]
    lap, place = divmod(position, len(_SEQUENCE))
    # A second lap through the colours has other dashes and markers beside them.
    dash, marker = _DASHES[(place + 3 * lap) % len(_DASHES)], _MARKERS[(place + 2 * lap) % len(_MARKERS)]
    return Style(_SEQUENCE[place], _SEQUENCE_DARK[place], dash, marker)
