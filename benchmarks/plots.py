"""Pictures of step time against n, b, d and r, and of memory against steps."""

import pathlib
from typing import Any

NAMES = {"n": "samples n", "b": "batch size b", "d": "dimension d", "r": "rank r"}


def draw(growth: dict[str, Any], directory: pathlib.Path) -> list[pathlib.Path]:
    """One PNG file for each axis; medians with quartiles."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    files = []
    for axis, label in NAMES.items():
        figure, plot = pyplot.subplots(figsize=(5, 3.4), layout="constrained")
        for name in [row["name"] for row in growth[axis][0]["rows"]]:
            points = [(p["value"], row) for p in growth[axis] for row in p["rows"] if row["name"] == name]
            values = [value for value, _ in points]
            (line,) = plot.plot(values, [row["median_us"] for _, row in points], marker="o", label=name)
            plot.fill_between(
                values,
                [row["lower_quartile_us"] for _, row in points],
                [row["upper_quartile_us"] for _, row in points],
                color=line.get_color(),
                alpha=0.2,
            )
        plot.set(xscale="log", yscale="log", xlabel=label, ylabel="µs a step", title=growth["fixed"][axis])
        low, high = plot.get_ylim()
        plot.set_ylim(min(low, high / 20), high)  # More than a decade, or a flat line would look steep.
        plot.title.set_fontsize("small")
        plot.legend(fontsize="small")
        plot.grid(alpha=0.3)
        files.append(directory / f"step-time-{axis}.png")
        figure.savefig(files[-1], dpi=130)
        pyplot.close(figure)
    figure, plot = pyplot.subplots(figsize=(5, 3.4), layout="constrained")
    memory = growth["memory"]
    plot.plot([row["steps"] for row in memory], [row["resident_mb"] for row in memory], marker="o")
    plot.set(xscale="log", xlabel="steps", ylabel="MB", title="memory of the process after a run")
    plot.set_ylim(0, 1.2 * max(row["resident_mb"] for row in memory))
    plot.grid(alpha=0.3)
    files.append(directory / "memory.png")
    figure.savefig(files[-1], dpi=130)
    pyplot.close(figure)
    return files
