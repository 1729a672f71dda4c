"""Orthogonal joint diagonalization by Jacobi rotations (Cardoso & Souloumiac 1996), all disjoint planes at once."""

from typing import NamedTuple

import numpy as np

from retrax.sklearn._spd import congruence


class Diagonalization(NamedTuple):
    """The basis (columns), the number of sweeps, and whether the last one turned nothing any more."""

    basis: np.ndarray
    sweeps: int
    converged: bool


def rounds(size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """A round-robin tournament: sets of disjoint pairs that together hold each pair once."""
    seats = list(range(size + size % 2))
    sets = []
    for _ in range(len(seats) - 1):
        half = len(seats) // 2
        pairs = [(p, q) for p, q in zip(seats[:half], seats[: half - 1 : -1], strict=True) if max(p, q) < size]
        first, second = (np.array([sorted(pair)[side] for pair in pairs], dtype=int) for side in (0, 1))
        sets.append((first, second))
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return sets


def diagonalize(matrices: np.ndarray, tolerance: float, most: int) -> Diagonalization:
    """The orthogonal U with the largest Σᵢ ‖diag(UᵀXᵢU)‖² that plane rotations find, from U = I.

    In the plane (p, q), with h = (x_pp - x_qq, 2x_pq) for each matrix, the best angle is
    θ = ½ atan2(β, α + √(α² + β²)) with α = Σ(h₁² - h₂²), β = 2Σ h₁h₂.
    """
    size = matrices.shape[-1]
    basis = np.eye(size)
    tournament = rounds(size)
    for sweep in range(1, most + 1):
        largest = 0.0
        for first, second in tournament:
            rotation, angle = _rotation(matrices, first, second)
            largest = max(largest, angle)
            if angle > 0:
                matrices = congruence(matrices, rotation.T)
                basis = basis @ rotation
        if largest <= tolerance:
            return Diagonalization(basis, sweep, True)
    return Diagonalization(basis, most, False)


def _rotation(matrices: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, float]:
    """The rotation of all these planes, and the sine of its largest angle."""
    difference = matrices[:, first, first] - matrices[:, second, second]
    twice = 2 * matrices[:, first, second]
    alpha = np.sum(difference**2 - twice**2, axis=0)
    beta = 2 * np.sum(difference * twice, axis=0)
    # Where all planes are isotropic, both are zero up to rounding, and there is nothing to turn.
    norm = np.hypot(alpha, beta)
    scale = np.sum(difference**2 + twice**2, axis=0)
    angle = np.where(norm > 1e-14 * scale, np.arctan2(beta, alpha + norm) / 2, 0.0)
    cosine, sine = np.cos(angle), np.sin(angle)
    rotation = np.eye(matrices.shape[-1])
    rotation[first, first] = rotation[second, second] = cosine
    rotation[first, second], rotation[second, first] = -sine, sine
    return rotation, float(np.max(np.abs(sine), initial=0.0))


class FourthMoment:
    """Σ w vech(X)vech(X)ᵀ of symmetric matrices, to which joint diagonalization owes all it needs to know.

    The objective is a quadratic form in it, so that any number of matrices can be replaced by d(d+1)/2 others.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.rows, self.columns = np.triu_indices(size)
        self._lengths = np.where(self.rows == self.columns, 1, np.sqrt(2))
        self.sum = np.zeros((len(self.rows),) * 2)

    def add(self, matrices: np.ndarray, weights: np.ndarray) -> None:
        """Join more matrices."""
        step = max(1, 2**21 // len(self.rows))
        for start in range(0, len(matrices), step):
            vectors = matrices[start : start + step, self.rows, self.columns] * self._lengths
            vectors *= np.sqrt(weights[start : start + step, None])
            self.sum += vectors.T @ vectors

    def matrices(self) -> np.ndarray:
        """At most d(d+1)/2 matrices with the same fourth moment."""
        values, vectors = np.linalg.eigh(self.sum)
        kept = values > values[-1] * 1e-15
        flat = (vectors[:, kept] * np.sqrt(values[kept])).T / self._lengths
        found = np.zeros((len(flat), self.size, self.size))
        found[:, self.rows, self.columns] = flat
        found[:, self.columns, self.rows] = flat
        return found
