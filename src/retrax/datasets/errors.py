"""The one exception of the data sets package."""

from __future__ import annotations


class DataError(ValueError):
    """A data set that cannot be found, read, checked or downloaded; the message says what to do about it."""
