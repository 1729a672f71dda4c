"""The leading subspace of a stream of rows by RSRM on the Grassmann manifold: one long run, centred on the fly."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from retrax._moments import Moments

BATCH_SIZE = 25
"""Samples for each of the two gradients of a step. With 25 to 50, one pass over MNIST reaches 99.9 % of full PCA."""
FIRST_ROWS = 500
"""At least so many rows give the start, by a singular value decomposition, and the first, large batch."""
BLOCK_STEPS, BLOCK_BYTES = 32, 2**24
"""The steps of a block, at the most; fewer where its rows would take more memory."""


class Subspace:
    """Estimates the `rank` leading principal directions of rows that come in blocks of `block_length`.

    A row enters as √(n/(n+1)) (x - m) with m the mean of the n rows before its block: its second moment is then the
    covariance itself, at every time, although the mean is not known.
    """

    def __init__(self, width: int, rank: int, dtype: np.dtype, seed: int) -> None:
        self.rank, self.dtype, self.seed = rank, dtype, seed
        step = 2 * BATCH_SIZE
        steps = max(1, min(BLOCK_STEPS, BLOCK_BYTES // (step * width * dtype.itemsize)))
        self.first_rows = step * -(-max(FIRST_ROWS, 2 * rank) // step)
        self.block_length = self.first_rows + step * steps
        self.moments = Moments(width, full=False)
        self.projected = np.zeros((rank, rank))
        self.blocks = 0
        self._run: Any = None
        self._saved: bytes | None = None

    @property
    def basis(self) -> np.ndarray:
        """The d×r orthonormal basis where the run is."""
        return np.asarray(self._resumed().x, dtype=np.float64)

    def add(self, rows: np.ndarray, weights: np.ndarray) -> None:
        """Take the steps that a block is good for."""
        white = self._centred(rows, weights)
        if self.blocks == 0:
            self._start(white)
        before = self.basis
        self._measure(white @ before.astype(rows.dtype))
        self._resumed().advance(batches=white * self.dtype.type(self.scale))
        # The basis has turned a little: what was measured is read in its new coordinates.
        turn = before.T @ self.basis
        self.projected = turn.T @ self.projected @ turn
        self.moments.add(rows, weights)

    def _centred(self, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        known, weight = self.moments.weight, float(weights.sum())
        if known > 0:
            mean, factor = self.moments.mean, known / (known + 1)
        else:
            mean, factor = (weights @ rows.astype(np.float64)) / weight, weight / max(weight - 1, 1)
        centred = rows - mean.astype(rows.dtype)
        centred *= np.sqrt(factor * weights / np.mean(weights)).astype(rows.dtype)[:, None]
        return centred

    def _start(self, white: np.ndarray) -> None:
        first = white[: self.first_rows]
        # The right singular vectors through the small Gram matrix; rounding is orthogonalised away.
        _, vectors = np.linalg.eigh((first @ first.T).astype(np.float64))
        leading = first.T.astype(np.float64) @ vectors[:, ::-1][:, : self.rank]
        self.first_point = np.linalg.qr(leading)[0]
        # The objective is of size 1, whatever the units of the data.
        self.scale = float(1 / max(np.sqrt(np.mean(np.einsum("ij,ij->i", white, white))), np.finfo(np.float32).tiny))
        self._run = self._new_run()

    def _measure(self, scores: np.ndarray) -> None:
        """Variances along the basis: averages whose weights grow with time, as the basis gets better.

        γ_t = 2/(t+1), the polynomial-decay averaging of Shamir & Zhang (2013).
        """
        self.blocks += 1
        moment = (scores.T @ scores).astype(np.float64) / len(scores)
        self.projected += (2 / (self.blocks + 1)) * (moment - self.projected)

    # --- the run, and how it is kept when the estimator is pickled ---------------------------------------------------

    def _arguments(self) -> tuple[Any, Any, dict[str, Any]]:
        import retrax as rx
        from retrax.problems import pca

        width = len(self.moments.mean)
        problem = rx.Problem(
            pca.loss,
            rx.Grassmann(width, self.rank),
            rx.Pushed(np.empty((0, width), dtype=self.dtype)),
            riemannian_gradient=pca.riemannian_gradient,
            gradients=pca.riemannian_gradients,
        )
        sizes = {"batch_size": BATCH_SIZE, "first_batch_size": self.first_rows}
        return problem, rx.rsrm(), {**sizes, "x0": self.first_point, "seed": self.seed, "dtype": self.dtype.name}

    def _new_run(self) -> Any:
        import retrax as rx

        problem, method, arguments = self._arguments()
        return rx.Run(problem, method, **arguments)

    def _resumed(self) -> Any:
        if self._run is None and self._saved is not None:
            import retrax as rx

            problem, method, arguments = self._arguments()
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "run"
                path.write_bytes(self._saved)
                self._run = rx.Run.load(path, problem, method, **arguments)
            self._saved = None
        return self._run

    def __getstate__(self) -> dict[str, Any]:
        """All but the compiled programs."""
        state = self.__dict__.copy()
        if self._run is not None:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "run"
                self._run.save(path)
                state["_saved"], state["_run"] = path.read_bytes(), None
        return state
