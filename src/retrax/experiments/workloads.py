"""Builds the problem that a spec names, from synthetic or real data."""

import dataclasses
import functools
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from retrax.experiments import storage
from retrax.experiments.results import Optimum
from retrax.experiments.series import Options
from retrax.experiments.specs import Experiment, ProblemSpec, UsageError

CACHE_ENVIRONMENT = "RETRAX_CACHE"


@dataclasses.dataclass(frozen=True)
class Place:
    """Where real data and their features are; None for the defaults of `retrax.datasets`."""

    data: str | None = None
    cache: str | None = None

    @property
    def cache_folder(self) -> str | None:
        """The folder of computed features: given, or named by RETRAX_CACHE."""
        return self.cache or os.environ.get(CACHE_ENVIRONMENT) or None


@dataclasses.dataclass(frozen=True)
class Description:
    """What is to be said of the data of a problem, and a digest that tells them from others."""

    note: str
    digest: str
    count: int
    dtype: str


def _spectrum_note(n: int, d: int, rank: int) -> str:
    return f"{n} Gaussian samples in {d} dimensions, variances from 1 to 1/4 up to rank {rank}, then below 1/10"


def _syn1() -> tuple[np.ndarray, str]:
    from retrax.datasets import synthetic

    return synthetic.syn1(), _spectrum_note(10_000, 100, 10)


def _syn2() -> tuple[np.ndarray, str]:
    from retrax.datasets import synthetic

    return synthetic.syn2(), _spectrum_note(10_000, 500, 10)


def _syn3() -> tuple[np.ndarray, str]:
    from retrax.datasets import synthetic

    return synthetic.syn3(), _spectrum_note(10_000, 100, 20)


ONLINE = (200_000, 8, 2)


def online(noise: int) -> tuple[np.ndarray, str]:
    """Samples with covariance diag(1, 1, 1/5, ..., 1/5) exactly, and gradients of `noise` times the usual variance.

    All but one sample in `noise` are zero and the others so much larger: the same F, fourth moments times `noise`.
    Without noise all samples are one and the same, which is another F, of rank one.
    """
    n, d, rank = ONLINE
    if noise == 0:
        return np.tile(np.eye(d)[0], (1000, 1)), f"one sample in {d} dimensions, again and again: no noise"
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((n, d)) * (generator.random((n, 1)) < 1 / noise)
    values, vectors = np.linalg.eigh(rows.T @ rows / n)
    whitened = rows @ (vectors / np.sqrt(values)) @ vectors.T
    return whitened * np.sqrt(np.where(np.arange(d) < rank, 1, 1 / 5)), (
        f"{n} samples in {d} dimensions, variance 1 in {rank} directions and 1/5 in the others, "
        f"{noise} times the noise of Gaussian ones"
    )


def _spd() -> tuple[np.ndarray, str]:
    from retrax.datasets import synthetic

    return synthetic.spd(), "5000 matrices of 10×10 with eigenvalues from 1/20 to 1 and a common tilt"


def small_joint_diagonalization(n: int = 2000, d: int = 10, seed: int = 0) -> np.ndarray:
    """Matrices Q diag(λᵢ) Qᵀ + noise with one Haar Q: almost, not quite, jointly diagonal."""
    from retrax.datasets import synthetic

    generator = np.random.default_rng(seed)
    frame = synthetic.haar(d, generator)
    eigenvalues = generator.exponential(size=(n, d))
    noise = generator.standard_normal((n, d, d)) / 10
    return (frame * eigenvalues[:, None, :]) @ frame.T + (noise + noise.transpose(0, 2, 1)) / 2


def _small_jd() -> tuple[np.ndarray, str]:
    return small_joint_diagonalization(), "2000 matrices of 10×10 with common eigenvectors, and noise of size 1/10"


SYNTHETIC: dict[str, Callable[[], tuple[np.ndarray, str]]] = {
    "syn1": _syn1,
    "syn2": _syn2,
    "syn3": _syn3,
    **{f"online-{noise}": functools.partial(online, noise) for noise in (0, 1, 4, 16)},
    "spd": _spd,
    "small-jd": _small_jd,
}
_FEATURES = {"ica": "gabor", "rc": "gradient"}


@functools.lru_cache(maxsize=1)
def _samples(spec: ProblemSpec, place: Place) -> tuple[np.ndarray, str]:
    """The data of a problem and a note; DataError where they are missing. Only the last are kept: they are large."""
    array, note = _load(spec, place) if spec.real else SYNTHETIC[spec.data]()
    return np.ascontiguousarray(array), note


def samples(spec: ProblemSpec, place: Place) -> np.ndarray:
    """The data of a problem; DataError where they are missing."""
    return _samples(spec, place)[0]


@functools.cache
def described(spec: ProblemSpec, place: Place) -> Description:
    """What is to be said of them."""
    array, note = _samples(spec, place)
    digest = hashlib.blake2b(array.data, digest_size=8).hexdigest()
    return Description(note, digest, len(array), str(array.dtype))


def forget() -> None:
    """Drop the data and problems that are kept."""
    for kept in (_samples, described, build):
        kept.cache_clear()


def _load(spec: ProblemSpec, place: Place) -> tuple[np.ndarray, str]:
    from retrax import datasets
    from retrax.datasets.progress_display import reporting

    if spec.family == "pca":
        return datasets.pca_matrix(spec.data, place.data)
    kind = _FEATURES[spec.family]
    with reporting(f"{spec.data} {kind} covariances") as report:
        return datasets.features.load_covariances(spec.data, kind, place.data, place.cache_folder, report)


@functools.lru_cache(maxsize=2)
def build(spec: ProblemSpec, place: Place, options: Options = ()) -> Any:
    """The problem, with `options` as further arguments; the option `scale` multiplies the data."""
    from retrax import problems

    arguments: dict[str, Any] = dict(options)
    scale = arguments.pop("scale", 1.0)
    array = samples(spec, place)
    if scale != 1:
        array = scale * array
    try:
        if spec.family == "pca":
            return problems.PCA(array, spec.rank or 1, **arguments)
        if spec.family == "ica":
            optimum = scale**2 * _known_optimum(spec, place)
            return problems.JointDiagonalization(array, spec.rank, **arguments, optimum=optimum)
        return problems.Centroid(array, **arguments)
    except ValueError as error:
        raise UsageError(f"{spec.data} cannot be used: {error}") from error


SOLVER_VERSION = 2


def _known_optimum(spec: ProblemSpec, place: Place) -> float:
    """The optimum of a joint diagonalization, kept beside the features: with 43×43 matrices it takes a minute."""
    from retrax import problems

    path = (
        _cache_folder(place) / f"optimum-{described(spec, place).digest}-{spec.rank or 'square'}-{SOLVER_VERSION}.json"
    )
    known = storage.read(Optimum, path) if spec.real else None
    if known is not None:
        return float.fromhex(known.optimum)
    found = problems.JointDiagonalization(samples(spec, place), spec.rank).optimum
    if spec.real:
        storage.write_json(path, Optimum(found.hex()))
    return found


def _cache_folder(place: Place) -> Path:
    from retrax.datasets.registry import cache_directory

    return Path(place.cache_folder).expanduser() if place.cache_folder else cache_directory() / "features"


def is_available(spec: ProblemSpec, place: Place) -> bool:
    """Whether the data are there."""
    if not spec.real:
        return True
    from retrax import datasets

    return datasets.available(place.data)[spec.data] is not None


def at_hand(experiment: Experiment, place: Place) -> Experiment:
    """The experiment without the panels whose data are missing."""
    there = tuple(panel for panel in experiment.panels if is_available(panel.problem, place))
    keys = {panel.key for panel in there}
    series = tuple(one for one in experiment.series if not experiment.panels or one.panel in keys)
    return dataclasses.replace(experiment, panels=there, series=series)


def require(spec: ProblemSpec, place: Place) -> None:
    """DataError, with advice, where the data are missing."""
    if spec.real:
        from retrax.datasets.registry import data_directory, find_source, require_files

        require_files(find_source(spec.data), data_directory(place.data))
