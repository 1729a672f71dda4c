"""The validating wrapper: it changes no number, and names what it refuses."""

import jax
import numpy as np
import pytest
import torch
from geometry_cases import BY_MANIFOLD, Case, gap

import retrax as rx


@pytest.mark.parametrize("kind", BY_MANIFOLD)
def test_valid_numbers_pass_unchanged(kind):
    manifold, batch = BY_MANIFOLD[kind][0]
    wrapped = rx.validated(manifold)
    case = Case(manifold, batch, seed=1, points="random", tangents="random", norm=0.3, condition=3.0)
    x, y, z = case.point(0), case.point(1), case.ambient()
    u, v = case.tangent(x, 0), case.tangent(x, 1)
    for operation, arguments in {
        "inner": (x, u, v),
        "norm": (x, u),
        "project": (x, z),
        "gradient": (x, z),
        "retract": (x, u),
        "transport": (x, y, u),
        "random_point": (z,),
        "random_tangent": (x, z),
        "violation": (x,),
        "exp": (x, u),
        "log": (x, y),
        "distance": (x, y),
    }.items():
        assert hasattr(wrapped, operation) == hasattr(manifold, operation)
        if hasattr(manifold, operation):
            assert gap(getattr(wrapped, operation)(*arguments), getattr(manifold, operation)(*arguments)) == 0
    assert wrapped.isometric == manifold.isometric
    assert wrapped.ambient_shape == manifold.ambient_shape
    assert wrapped == rx.validated(manifold) != rx.validated(manifold, tolerance=1e-3)
    assert repr(manifold) in repr(wrapped)


def point_and_tangent():
    manifold = rx.validated(rx.Grassmann(5, 2, transport="parallel"))
    rng = np.random.default_rng(0)
    x = manifold.random_point(rng.standard_normal((5, 2)))
    return manifold, x, manifold.random_tangent(x, rng.standard_normal((5, 2)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, x, u: m.retract(x, u + 0.1), "u of retract is not tangent to Grassmann.*ambient gradient"),
        (lambda m, x, u: m.retract(1.01 * x, u), "x of retract is not on Grassmann"),
        (lambda m, x, u: m.retract(x, np.nan * u), "u of retract contains NaN"),
        (lambda m, x, u: m.retract(np.nan * x, u), "x of retract contains NaN"),
        (lambda m, x, u: m.retract(x, u[:4]), r"u of retract has shape \(4, 2\)"),
        (lambda m, x, u: m.transport(x, 2 * x, u), "y of transport is not on"),
        (lambda m, x, u: m.transport(m.retract(x, u), x, u), "u of transport is not tangent"),
        (lambda m, x, u: m.inner(x, u, x), "v of inner is not tangent"),
        (lambda m, x, u: m.norm(x, x), "u of norm is not tangent"),
        (lambda m, x, u: m.exp(x, x), "u of exp is not tangent"),
        (lambda m, x, u: m.log(x, x + 1), "y of log is not on"),
        (lambda m, x, u: m.distance(x + 1, x), "x of distance is not on"),
    ],
)
@pytest.mark.parametrize("library", [np.asarray, torch.tensor], ids=["numpy", "torch"])
def test_what_is_wrong_is_named(call, message, library):
    manifold, x, u = point_and_tangent()
    with pytest.raises(ValueError, match=message):
        call(manifold, library(x), library(u))


def test_a_wrong_result_is_found():
    class Broken(rx.Sphere):
        def project(self, x, z):
            return z

        def retract(self, x, u):
            return x + u

    manifold = rx.validated(Broken(3))
    with pytest.raises(ValueError, match="the result of retract is not on Broken"):
        manifold.retract(np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.5, 0.0]))


def test_products_are_checked_part_by_part():
    manifold = rx.validated(rx.Product({"a": rx.Sphere(2), "b": rx.SPD(2)}))
    x = {"a": np.array([1.0, 0.0]), "b": np.eye(2)}
    manifold.retract(x, {"a": np.array([0.0, 0.1]), "b": np.eye(2)})
    with pytest.raises(ValueError, match="u of retract is not tangent"):
        manifold.retract(x, {"a": np.array([0.1, 0.0]), "b": np.eye(2)})
    with pytest.raises(ValueError, match=r"x of retract\['b'\] is not on SPD"):
        manifold.retract(x | {"b": -np.eye(2)}, x)


def test_a_run_is_the_same_and_compiled_code_is_left_alone():
    data = np.random.default_rng(0).normal(size=(50, 5))

    def loss(x, batch):
        return -((batch @ x) ** 2).sum() / batch.shape[0]

    plain = rx.Grassmann(5, 2)
    found = [
        rx.minimize(
            rx.Problem(loss, m, data=data), rx.rsrm(0.1), steps=20, batch_size=5, dtype="float64", driver=driver
        ).x
        for m, driver in ((plain, "jax"), (rx.validated(plain), "jax"), (rx.validated(plain), "eager"))
    ]
    assert gap(found[0], found[1]) <= 1e-14
    assert gap(found[0], found[2]) <= 1e-12


@pytest.mark.parametrize("bad", [3, "Sphere", rx.Sphere])
def test_only_manifolds_are_wrapped(bad):
    with pytest.raises(TypeError, match="validated takes a manifold"):
        rx.validated(bad)


def test_traced_numbers_are_not_looked_at():
    manifold, x, _ = point_and_tangent()
    jax.jit(manifold.retract)(x.astype(np.float32), x.astype(np.float32))
