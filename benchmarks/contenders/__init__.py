"""The contenders. Each module turns a case into repetitions of some steps: see `benchmarks.timing.Contender`."""
