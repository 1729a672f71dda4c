"""`python -m benchmarks.estimators [--only SUITE] [--out DIR] [--write-docs]`."""

import argparse
import json
import os
import pathlib
import tempfile
from typing import Any

# One thread for every contender, in this process and those it starts; before NumPy is loaded.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

from benchmarks.estimators import emg, ica, means, pca, tables  # noqa: E402

SUITES = ("pca", "means", "emg", "ica")
RESULTS = pathlib.Path(__file__).parents[1] / "results"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.estimators", description="Estimators beside others.")
    parser.add_argument("--only", choices=SUITES, action="append", help="this suite; may be repeated")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS, help="where results go (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=10**6, help="rows of the large file, 4 KB each")
    parser.add_argument("--sample", type=int, default=10**6, help="rows of it that IncrementalPCA gets")
    parser.add_argument("--write-docs", action="store_true", help="put the last results into docs/estimators.md")
    options = parser.parse_args()
    path = options.out / "estimators.json"
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if options.write_docs:
        tables.write(results)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    for suite in options.only or SUITES:
        with tempfile.TemporaryDirectory() as name:
            results[suite] = []
            for row in _rows(suite, pathlib.Path(name), options.rows, options.sample):
                results[suite].append(row)
                path.write_text(json.dumps(results, indent=1), encoding="utf-8")
                print(json.dumps(row), flush=True)


def _rows(suite: str, folder: pathlib.Path, rows: int, sample: int) -> Any:
    if suite == "pca":
        return pca.run(folder, rows, sample)
    if suite == "means":
        return means.run(folder, repetitions=3)
    return (emg if suite == "emg" else ica).run(folder)


if __name__ == "__main__":
    main()
