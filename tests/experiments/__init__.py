"""Tests of the experiments, their figures and the report."""
