"""The slope checks pass what is right and fail what is wrong."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx
from retrax.manifolds.base import NamedTransport


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(80, 6))


def loss(x, batch):
    return -jnp.mean(jnp.sum((batch @ x) ** 2, axis=-1))


def test_right_gradient_passes_with_slope_two(rows):
    check = rx.check_gradient(rx.Problem(loss, rx.Grassmann(6, 2), rows))
    assert check.passed
    assert check.slope == pytest.approx(2, abs=0.1)
    assert str(check).startswith("pass: gradient: slope ")


def test_gradient_with_a_wrong_factor_fails(rows):
    wrong = rx.Problem(loss, rx.Grassmann(6, 2), rows, gradient=lambda x, b: -(b.T @ (b @ x)) / len(b))
    check = rx.check_gradient(wrong)
    assert not check
    assert check.slope == pytest.approx(1, abs=0.1)


def test_gradient_off_the_tangent_space_fails(rows):
    wrong = rx.Problem(loss, rx.Grassmann(6, 2), rows, riemannian_gradient=lambda x, b: -2 * (b.T @ (b @ x)) / len(b))
    check = rx.check_gradient(wrong)
    assert not check
    assert check.defect > 1e-3


MANIFOLDS = [
    rx.Euclidean(3, 2),
    rx.Sphere(4),
    rx.Stiefel(6, 3),
    rx.Stiefel(5, 2, retraction="cayley", transport="rotation"),
    rx.Grassmann(6, 2),
    rx.Grassmann(6, 2, retraction="exp", transport="parallel"),
    rx.SPD(4),
    rx.SPD(3, retraction="second-order"),
    rx.Product({"a": rx.SPD(3), "b": (rx.Stiefel(5, 2), rx.Euclidean())}),
]


@pytest.mark.parametrize("manifold", MANIFOLDS, ids=str)
def test_every_manifold_passes(manifold):
    assert rx.check_retraction(manifold)
    assert rx.check_transport(manifold)


class _Broken(rx.Sphere):
    """A sphere whose choices lie about themselves."""

    retractions: ClassVar = {"normalise": lambda self, x, u: (x + 2 * u) / jnp.linalg.norm(x + 2 * u)}
    transports: ClassVar = {"projection": NamedTransport(lambda self, x, y, u: self.project(y, u), isometric=True)}


def test_broken_retraction_and_transport_fail():
    assert rx.check_retraction(_Broken(4)).slope == pytest.approx(1, abs=0.1)
    assert not rx.check_retraction(_Broken(4))
    assert not rx.check_transport(_Broken(4))
