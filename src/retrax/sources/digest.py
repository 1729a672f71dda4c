"""A checksum of samples that can be added up in parts and in any order: over chunks, devices, processes and time.

Σ mix(number of the sample, its bytes) mod 2⁶⁴. It tells data sets apart that differ by accident; it is no signature.
"""

import functools

import numpy as np

_CHUNK_BYTES = 2**22
_MULTIPLIERS = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64)
"""Of the generator SplitMix64 (Steele, Lea & Flood 2014), whose output function mixes all bits."""


def digest_rows(rows: np.ndarray, first: int = 0) -> int:
    """The checksum of samples number first, first + 1, ..."""
    if rows.size == 0:
        return 0
    step = max(1, _CHUNK_BYTES // max(1, rows[:1].nbytes))
    parts = (_digest_chunk(rows[start : start + step], first + start) for start in range(0, len(rows), step))
    return sum(parts) % 2**64


def digest_text(parts: list[int]) -> str:
    """The checksums of a sample's parts as one word."""
    return " ".join(f"{part:016x}" for part in parts)


def _digest_chunk(rows: np.ndarray, first: int) -> int:
    content = np.ascontiguousarray(rows).reshape(len(rows), -1).view(np.uint8)
    words = -(-content.shape[1] // 8)
    padded = np.zeros((len(rows), 8 * words), dtype=np.uint8)
    padded[:, : content.shape[1]] = content
    hashed = padded.view(np.uint64) @ _weights(words)
    numbers = np.arange(first + 1, first + 1 + len(rows), dtype=np.uint64)
    return int(np.sum(_mixed(_mixed(hashed) + numbers * _MULTIPLIERS[0])))


@functools.lru_cache(maxsize=8)
def _weights(count: int) -> np.ndarray:
    """Odd numbers: a word that changes changes the sum."""
    return np.random.Generator(np.random.Philox(key=19)).integers(0, 2**64, count, dtype=np.uint64) | np.uint64(1)


def _mixed(values: np.ndarray) -> np.ndarray:
    values = (values ^ (values >> np.uint64(30))) * _MULTIPLIERS[1]
    values = (values ^ (values >> np.uint64(27))) * _MULTIPLIERS[2]
    return values ^ (values >> np.uint64(31))
