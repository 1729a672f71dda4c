"""Mean and scatter of weighted rows, block by block: exact, in one pass, in memory that does not grow with the rows."""

import numpy as np


class Moments:
    """Σw, the mean, and either the scatter matrix Σ w (x-m)(x-m)ᵀ or, with `full=False`, its diagonal.

    Blocks are joined by the update of Chan, Golub & LeVeque (1983):
    S = S₁ + S₂ + (W₁W₂/(W₁+W₂)) δδᵀ with δ = m₂ - m₁, each block centred on its own mean, which does not cancel.
    """

    def __init__(self, width: int, full: bool = True) -> None:
        self.weight = 0.0
        self.mean = np.zeros(width)
        self.scatter = np.zeros((width, width) if full else width)

    def copy(self) -> "Moments":
        """One that can be added to without changing this one."""
        other = Moments.__new__(Moments)
        other.weight, other.mean, other.scatter = self.weight, self.mean.copy(), self.scatter.copy()
        return other

    def add(self, rows: np.ndarray, weights: np.ndarray) -> None:
        """Join a block; products are taken in the dtype of the rows, sums over blocks in double precision."""
        weight = float(weights.sum())
        if weight == 0:
            return
        mean = (weights @ rows.astype(np.float64, copy=False)) / weight
        centred = rows - mean.astype(rows.dtype)
        if np.any(weights != 1):
            centred *= np.sqrt(weights, dtype=rows.dtype)[:, None]
        total = self.weight + weight
        delta = mean - self.mean
        if self.scatter.ndim == 2:
            self.scatter += centred.T @ centred
            self.scatter += np.outer(delta * (self.weight * weight / total), delta)
        else:
            self.scatter += np.einsum("ij,ij->j", centred, centred, dtype=np.float64)
            self.scatter += delta**2 * (self.weight * weight / total)
        self.mean += delta * (weight / total)
        self.weight = total

    @property
    def trace(self) -> float:
        """The sum of the diagonal of the scatter."""
        return float(np.trace(self.scatter) if self.scatter.ndim == 2 else self.scatter.sum())
