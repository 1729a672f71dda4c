"""Time to accuracy as a user feels it, for more and more samples: from the call on, compiling included.

Seconds until F lies within 10⁻², 10⁻³ and 10⁻⁴ of the first gap above the optimum; measuring F is outside the clock.
Retrax runs untuned; learning rates of geoopt and GeoJAX come from a grid, outside the clock, on the smallest n.
A contender's way is recorded as it goes, and F is taken over the distinct samples only (see `arenas`).
"""

import dataclasses
import pathlib
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

from benchmarks import arenas, racers
from benchmarks.arenas import Arena
from benchmarks.sizes import Sizes

Say = Callable[[str], None]


def run(sizes: Sizes, say: Say) -> dict[str, Any]:
    """For each problem: its targets, for each n the seconds of each contender, and what was left out."""
    entries = [
        *(_entry(lambda n, d: arenas.pca(n, d, sizes.rank), size) for size in sizes.race_pca.items()),
        _entry(lambda n, d: arenas.robust(n, d, sizes.rank), sizes.race_robust),
        _entry(arenas.centroid, sizes.race_centroid),
        _entry(arenas.joint, sizes.race_joint),
    ]
    results: dict[str, Any] = {}
    for make, counts in entries:
        arena = make()
        results[arena.label] = _race(arena, counts, sizes, say)
    return results


def _entry(make: Callable[[int, int], Arena], size: tuple[int, tuple[int, ...]]) -> tuple[Callable[[], Arena], Any]:
    return lambda: make(min(size[1]), size[0]), size[1]


def _race(arena: Arena, counts: tuple[int, ...], sizes: Sizes, say: Say) -> dict[str, Any]:
    rows, notes = [], []
    for n in counts:
        with tempfile.TemporaryDirectory(prefix="retrax-bench-") as folder:
            path = pathlib.Path(folder) / "samples.npy" if n >= sizes.race_mapped else None
            if reason := arenas.too_large(arena.bank, n, path):
                notes.append(f"n = {n:g} was left out: {reason}")
                say(f"  {arena.label}, {notes[-1]}")
                continue
            entered = dataclasses.replace(arena, data=arenas.drawn(arena.bank, n, path))
            say(f"  {arena.label}, n = {n}: {entered.data.nbytes / 1e9:.2g} GB {'in a file' if path else 'in memory'}")
            rows.append({"n": n, "seconds": _all(entered, sizes.race_seconds, say)})
            del entered  # a file that is still open would keep its room on the disk
    passes = [name for name in racers.contenders(arena) if name in racers.PASSES]
    return {
        "targets": arenas.TARGETS, "limit": sizes.race_seconds, "rows": rows, "passes": passes, "notes": notes
    }  # fmt: skip


def _all(arena: Arena, limit: float, say: Say) -> dict[str, Any]:
    """Seconds of every contender on these samples."""
    found: dict[str, Any] = {}
    for seed, (name, racer) in enumerate(racers.contenders(arena).items()):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name] = arena.times(racer(dataclasses.replace(arena, seed=seed), limit), limit)
        except MemoryError as error:
            found[name] = f"not run: {error}"
        except Exception as error:  # one contender's failure is a line, not the end
            found[name] = f"failed: {type(error).__name__}"
        say(f"  {arena.label}, n = {len(arena.data)}, {name}: {found[name]}")
    return found
