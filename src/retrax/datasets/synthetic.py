"""Seeded synthetic data: the samples of SYN1-3 (PCA) and the matrices of RC SYN1 (centroid).

The paper gives only sizes for these; every other choice made here is a documented parameter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retrax._arguments import LONGEST_AXIS, integer, is_real

from .errors import DataError

SPECTRA = ("gap", "exponential")


def pca(n: int, d: int, rank: int, *, spectrum: str | ArrayLike = "gap", seed: int = 0) -> NDArray[np.float64]:
    """Draw `n` Gaussian samples in `d` dimensions whose covariance has a given spectrum.

    The covariance is Q diag(λ) Qᵀ with Q a Haar random orthogonal matrix and λ the *variances*
    (not standard deviations) that `variances(d, rank, spectrum)` returns. The mean is zero in law, not in sample.

    Returns:
        An (n, d) array of samples, one per row.
    """
    eigenvalues = variances(d, rank, spectrum)
    if not _whole(n, 1):
        raise DataError(f"a data set needs at least one sample, not n={n!r}")
    generator = np.random.default_rng(integer(seed, "seed", least=0))
    rotation = haar(d, generator)
    return (generator.standard_normal((n, d)) * np.sqrt(eigenvalues)) @ rotation.T


def variances(d: int, rank: int, spectrum: str | ArrayLike = "gap") -> NDArray[np.float64]:
    """The `d` covariance eigenvalues λ of a spectrum, k counted from 0.

    - "gap": λ_k = 4^(-k/(rank-1)) for k < rank, falling from 1 to 1/4, then λ_k = exp(-(k-rank)/20)/10:
      a drop by a factor 2.5 at `rank`, wide enough to survive sampling at n = 10⁴.
    - "exponential": λ_k = exp(-k/20), no gap anywhere.
    - an array of `d` non-negative variances: used as given.
    """
    if not (_whole(d, 2) and _whole(rank, 1) and rank < d):
        raise DataError(f"rank must be at least 1 and below d={d!r}, not {rank!r}")
    k = np.arange(d)
    if isinstance(spectrum, str):
        if spectrum == "gap":
            return np.where(k < rank, 4.0 ** (-k / max(rank - 1, 1)), np.exp(-(k - rank) / 20) / 10)
        if spectrum == "exponential":
            return np.exp(-k / 20)
        raise DataError(f"unknown spectrum {spectrum!r}: choose {' or '.join(SPECTRA)}, or give {d} variances")
    given = np.asarray(spectrum)
    if given.dtype.kind not in "fiu":
        raise DataError(f"a spectrum is {d} finite, non-negative variances, not {spectrum!r}")
    given = given.astype(np.float64)
    if given.shape != (d,) or not np.all(np.isfinite(given)) or np.any(given < 0):
        raise DataError(f"a spectrum is {d} finite, non-negative variances; got an array of shape {given.shape}")
    return given


def syn1(seed: int = 0, *, spectrum: str | ArrayLike = "gap") -> NDArray[np.float64]:
    """SYN1 of the paper: (n, d, r) = (10⁴, 100, 10)."""
    return pca(10_000, 100, 10, spectrum=spectrum, seed=seed)


def syn2(seed: int = 0, *, spectrum: str | ArrayLike = "gap") -> NDArray[np.float64]:
    """SYN2 of the paper: SYN1 in d = 500 dimensions."""
    return pca(10_000, 500, 10, spectrum=spectrum, seed=seed)


def syn3(seed: int = 0, *, spectrum: str | ArrayLike = "gap") -> NDArray[np.float64]:
    """SYN3 of the paper: SYN1 with rank r = 20."""
    return pca(10_000, 100, 20, spectrum=spectrum, seed=seed)


def spd(n: int = 5000, d: int = 10, condition: float = 20, seed: int = 0) -> NDArray[np.float64]:
    """Draw `n` symmetric positive definite d×d matrices, each of condition number `condition` (RC SYN1).

    Each is V diag(λ) Vᵀ with λ logarithmically spaced from 1/condition to 1. Haar random V would make the
    centroid a multiple of the identity, too easy a target; a congruence A · Aᵀ moves it but spoils the
    condition number. So V holds the eigenvectors of A Q diag(λ) Qᵀ Aᵀ, with Q Haar and one A for
    all samples (symmetric, singular values from 1 to 3), and the spectrum is kept.

    Returns:
        An (n, d, d) array, exactly symmetric.
    """
    if not (_whole(n, 1) and _whole(d, 2) and is_real(condition) and 1 <= condition < np.inf):
        raise DataError(f"need n >= 1, d >= 2 and condition >= 1, not n={n!r}, d={d!r}, condition={condition!r}")
    generator = np.random.default_rng(integer(seed, "seed", least=0))
    eigenvalues = np.geomspace(1 / condition, 1, d)
    frame = haar(d, generator)
    congruence = (frame * np.geomspace(1, 3, d)) @ frame.T
    factors = congruence @ (haar(d, generator, n) * np.sqrt(eigenvalues))
    _, vectors = np.linalg.eigh(factors @ factors.transpose(0, 2, 1))
    matrices = (vectors * eigenvalues) @ vectors.transpose(0, 2, 1)
    return (matrices + matrices.transpose(0, 2, 1)) / 2


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and least <= int(value) <= LONGEST_AXIS


def haar(d: int, generator: np.random.Generator, *leading: int) -> NDArray[np.float64]:
    """Random orthogonal d×d matrices, uniform on O(d), with `leading` batch axes."""
    q, r = np.linalg.qr(generator.standard_normal((*leading, d, d)))
    # QR alone is not uniform: its signs depend on the routine, so the diagonal of R is made positive.
    signs = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    return q * signs[..., None, :]
