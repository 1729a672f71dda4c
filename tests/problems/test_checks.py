"""The slope checks pass what is right and fail what is wrong."""

from functools import partial
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


KINDS = {
    "Euclidean": partial(rx.Euclidean, 3, 2),
    "Sphere": partial(rx.Sphere, 4),
    "Oblique": partial(rx.Oblique, 4, 3),
    "Stiefel": partial(rx.Stiefel, 6, 3),
    "GeneralizedStiefel": partial(rx.GeneralizedStiefel, 5, 2),
    "Grassmann": partial(rx.Grassmann, 6, 2),
    "SpecialOrthogonal": partial(rx.SpecialOrthogonal, 3),
    "FixedRank": partial(rx.FixedRank, 5, 4, 2),
    "SPD": partial(rx.SPD, 4),
    "SPD, log-Euclidean": partial(rx.SPD, 3, metric="log-euclidean"),
    "SPD, Bures-Wasserstein": partial(rx.SPD, 3, metric="bures-wasserstein"),
    "Symmetric": partial(rx.Symmetric, 3),
    "Positive": partial(rx.Positive, 3),
    "Simplex": partial(rx.Simplex, 4),
    "PoincareBall": partial(rx.PoincareBall, 3, curvature=2.0),
    "Lorentz": partial(rx.Lorentz, 3, curvature=0.5),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_choice_of_every_manifold_passes(kind):
    make = KINDS[kind]
    for name in make().retractions:
        assert rx.check_retraction(make(retraction=name)), name
    for name in make().transports:
        assert rx.check_transport(make(transport=name)), name


@pytest.mark.parametrize(
    "manifold",
    [
        rx.Power(rx.Sphere(3), 4),
        rx.Product({"a": rx.SPD(3), "b": (rx.Stiefel(5, 2), rx.Euclidean())}),
    ],
    ids=str,
)
def test_composed_manifolds_pass(manifold):
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
