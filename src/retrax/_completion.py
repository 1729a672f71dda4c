"""The model of an incomplete matrix, for the problem and for the estimator: mean + b_u + c_i + X_ui, X of low rank.

b and c are ridge regressions; X minimises Σ (e_ui - X_ui)² + γ ‖X‖² over what they leave of the known entries. The norm
is Frobenius's, of all entries: γ is the weight of an unknown entry, taken as zero, beside a known one.
"""

import numpy as np

WEIGHT, RIDGES = 0.4, (15.0, 10.0)
"""γ, and the ridges of b and of c, for ratings from 0.5 to 5."""
_ROUNDS = 10


def offsets(
    rows: np.ndarray, columns: np.ndarray, values: np.ndarray, shape: tuple[int, int], ridges: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """b and c that minimise Σ (e - b_u - c_i)² + ridge · ‖·‖² by turns (Koren 2010)."""
    b, c = np.zeros(shape[0]), np.zeros(shape[1])
    of_rows, of_columns = np.bincount(rows, minlength=shape[0]), np.bincount(columns, minlength=shape[1])
    for _ in range(_ROUNDS):
        c = np.bincount(columns, values - b[rows], minlength=shape[1]) / np.maximum(of_columns + ridges[1], 1e-12)
        b = np.bincount(rows, values - c[columns], minlength=shape[0]) / np.maximum(of_rows + ridges[0], 1e-12)
    return b, c
