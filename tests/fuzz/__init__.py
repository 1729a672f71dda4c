"""A fuzzer of the public API: `python -m tests.fuzz --calls 1000000`; a short run of it is a test."""
