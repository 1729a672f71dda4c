"""Data sets: synthetic generators, loaders of ten real ones, covariance features. Not the problems posed on them."""

from __future__ import annotations

from . import features, synthetic
from .download import fetch, verify
from .errors import DataError
from .loading import Dataset, load, pca_matrix
from .registry import REGISTRY, Archive, RegistryEntry, available, data_directory
from .tables import descendants, transitive_closure

__all__ = [
    "REGISTRY",
    "Archive",
    "DataError",
    "Dataset",
    "RegistryEntry",
    "available",
    "data_directory",
    "descendants",
    "features",
    "fetch",
    "load",
    "pca_matrix",
    "synthetic",
    "transitive_closure",
    "verify",
]
