"""Side-by-side measurements: `python -m benchmarks` (see docs/performance.md)."""
