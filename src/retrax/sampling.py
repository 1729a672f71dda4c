"""Random numbers as pure functions of (seed, stream, position): nothing to carry, so resuming is exact.

Drawn on the host by NumPy's counter-based Philox generator; every driver and every source sees the same samples.
"""

import functools

import numpy as np

_WORDS_PER_BLOCK = 4
_BATCHES, _LARGE_BATCHES, _OUTPUT, _START, _EVALUATION, _GENERATED = range(6)


def _words(seed: int, stream: int, start: int, count: int) -> np.ndarray:
    """Random 64-bit words number start, ..., start + count - 1 of a stream."""
    block, skip = divmod(start, _WORDS_PER_BLOCK)
    generator = np.random.Philox(key=np.array([seed, stream], dtype=np.uint64), counter=block)
    return generator.random_raw(skip + count)[skip:]


def _uniforms(seed: int, stream: int, start: int, count: int) -> np.ndarray:
    """Numbers in [0, 1) with 53 random bits."""
    return (_words(seed, stream, start, count) >> np.uint64(11)) * 2.0**-53


def _generator(seed: int, stream: int, position: int = 0) -> np.random.Generator:
    key = np.array([seed, stream], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=[0, position, 0, 0]))


def batch_indices(seed: int, start: int, count: int, n: int) -> np.ndarray:
    """Samples number start, ..., start + count - 1 of the run's mini-batches, drawn from range(n) with replacement."""
    return (_uniforms(seed, _BATCHES, start, count) * n).astype(np.int32 if n < 2**31 else np.int64)


def large_batch_indices(seed: int, step: int, size: int, n: int) -> np.ndarray:
    """The large batch of a step: `size` of range(n), without replacement, in rising order (kind to files)."""
    return _subset(_generator(seed, _LARGE_BATCHES, step), size, n)


def evaluation_indices(seed: int, size: int, n: int) -> np.ndarray:
    """The fixed sample on which a run is measured where measuring on all the data is too dear."""
    return _subset(_generator(seed, _EVALUATION), size, n)


def _subset(generator: np.random.Generator, size: int, n: int) -> np.ndarray:
    return np.sort(generator.choice(n, size, replace=False, shuffle=False))


def start_generator(seed: int) -> np.random.Generator:
    """For the random starting point."""
    return _generator(seed, _START)


@functools.lru_cache(maxsize=64)
def next_output_step(seed: int, current: int, replacements: int) -> int:
    """The step at which the uniformly drawn iterate x̃ is replaced next; `current` was the last such step.

    A reservoir of one keeps x_t with probability 1/t, so P(next > s) = current / s: the steps between need no draw.
    """
    if current == 0:
        return 1
    uniform = 1.0 - float(_uniforms(seed, _OUTPUT, replacements, 1)[0])
    return int(current / uniform) + 1


def sample_generator(seed: int, purpose: str, block: int) -> np.random.Generator:
    """For samples that are made up: those of mini-batches ("steps"), of large batches or of records, block by block."""
    return _generator(seed, _GENERATED + ("steps", "restarts", "records").index(purpose), block)
