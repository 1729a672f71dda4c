"""Bad input to the ready-made problems: the error names the sample and says by how much it is off."""

import numpy as np
import pytest

import retrax as rx
from retrax.problems import data_checks


@pytest.fixture
def matrices():
    factors = np.random.default_rng(0).normal(size=(6, 3, 9))
    return factors @ factors.swapaxes(1, 2)


def test_asymmetric_sample(matrices):
    matrices[4, 0, 1] += 1
    with pytest.raises(ValueError, match=r"matrices\[4\] is not symmetric: relative asymmetry 0\.\d+"):
        rx.problems.JointDiagonalization(matrices)


def test_indefinite_sample(matrices):
    matrices[2] -= 100 * np.eye(3)
    with pytest.raises(ValueError, match=r"matrices\[2\] is not positive definite: smallest eigenvalue -\d+"):
        rx.problems.Centroid(matrices)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_singular_samples_are_refused_by_their_eigenvalues(matrices, dtype):
    """Rounding leaves Cholesky's last pivot of such a matrix on either side of zero."""
    for factor in np.random.default_rng(1).normal(size=(200, 3, 2)):
        matrices[3] = factor @ factor.T
        rounded = matrices.astype(dtype)
        if np.linalg.eigvalsh(rounded)[3, 0] > 0:
            rx.problems.Centroid(rounded)
        else:
            with pytest.raises(ValueError, match=r"matrices\[3\] is not positive definite"):
                rx.problems.Centroid(rounded)


def test_pivots_may_hide_a_smallest_eigenvalue_below_rounding():
    """L D Lᵀ with pivots D down to 2e-3: eigenvalues decide, which see -5e-16 or so."""
    lower = np.eye(28) - 0.7 * np.tri(28, k=-1)
    matrix = lower @ np.diag(0.8 ** np.arange(28)) @ lower.T
    assert np.linalg.cholesky(matrix).diagonal().min() > 0.01
    matrices = np.stack([np.eye(28), (matrix + matrix.T) / 2])
    assert not data_checks._clearly_positive_definite(matrices)
    assert data_checks._clearly_positive_definite(matrices[:1])


def test_joint_diagonalization_takes_indefinite_matrices(matrices):
    rx.problems.JointDiagonalization(matrices - 100 * np.eye(3))


@pytest.mark.parametrize("kind", ["Centroid", "JointDiagonalization"])
def test_nan_in_a_matrix(kind, matrices):
    matrices[5, 1, 1] = np.nan
    with pytest.raises(ValueError, match=r"matrices\[5\] contains NaN"):
        getattr(rx.problems, kind)(matrices)


def test_nan_in_a_row():
    rows = np.ones((5000, 3))
    rows[4500, 2] = np.inf
    with pytest.raises(ValueError, match=r"X\[4500\] contains NaN or infinite"):
        rx.problems.PCA(rows, 1)


@pytest.mark.parametrize("rank", [0, 4, -1, 1.5, True, None])
def test_rank_out_of_range(rank):
    with pytest.raises(ValueError, match="rank must be an integer from 1 to 3"):
        rx.problems.PCA(np.ones((5, 3)), rank)


@pytest.mark.parametrize("shape", [(5,), (5, 3, 2), ()])
def test_wrong_shape_for_pca(shape):
    with pytest.raises(ValueError, match="shape"):
        rx.problems.PCA(np.ones(shape), 1)


@pytest.mark.parametrize("shape", [(5, 3), (5, 3, 2), (3,)])
def test_wrong_shape_for_matrices(shape):
    with pytest.raises(ValueError, match=r"\(samples, d, d\)"):
        rx.problems.Centroid(np.ones(shape))


def test_empty_and_complex_data():
    with pytest.raises(ValueError, match="empty"):
        rx.problems.PCA(np.ones((0, 3)), 1)
    with pytest.raises(TypeError, match="real numbers"):
        rx.problems.PCA(np.ones((4, 3), dtype=complex), 1)


def test_integers_are_taken_as_numbers():
    assert rx.problems.PCA(np.arange(12).reshape(4, 3), 1).optimum < 0
