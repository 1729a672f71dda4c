"""The scikit-learn estimators beside those of scikit-learn and pyRiemann: `python -m benchmarks.estimators`."""
