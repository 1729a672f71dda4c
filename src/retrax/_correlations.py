"""Canonical correlations of two views, from the covariance of their columns side by side (Hotelling 1936)."""

import numpy as np


def covariances(both: np.ndarray, columns: int, ridge: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(C_xx, C_yy, C_xy), where the first `columns` are x's.

    To the first two, `ridge` times their mean variance is added on the diagonal.
    """
    xx, yy = both[:columns, :columns], both[columns:, columns:]
    more = [np.eye(len(c)) * (ridge * max(np.trace(c) / len(c), np.finfo(np.float64).tiny)) for c in (xx, yy)]
    return xx + more[0], yy + more[1], both[:columns, columns:]


def canonical(
    xx: np.ndarray, yy: np.ndarray, xy: np.ndarray, count: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(correlations, U, V): the singular values of C_xx^(-1/2) C_xy C_yy^(-1/2), and UᵀC_xx U = VᵀC_yy V = I.

    `count` samples were summed up: what has no more variance than their rounding is left out.
    """
    of_x, of_y = _inverse_root(xx, count), _inverse_root(yy, count)
    left, values, right = np.linalg.svd(of_x @ xy @ of_y, full_matrices=False)
    return values, of_x @ left, of_y @ right.T


def _inverse_root(covariance: np.ndarray, count: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    rounding = max(len(covariance), count) * np.finfo(np.float64).eps
    kept = values > max(values[-1], np.finfo(np.float64).tiny) * rounding
    return (vectors * np.where(kept, 1 / np.sqrt(np.where(kept, values, 1)), 0)) @ vectors.T
