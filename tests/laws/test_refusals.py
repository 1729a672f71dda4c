"""What is not valid is refused at once, with a message that names the choices."""

import re

import numpy as np
import pytest

from retrax.manifolds import SPD, Euclidean, Grassmann, Product, Sphere, Stiefel

MADE = {
    Euclidean: lambda **choices: Euclidean(3, **choices),
    Sphere: lambda **choices: Sphere(3, **choices),
    Stiefel: lambda **choices: Stiefel(4, 2, **choices),
    Grassmann: lambda **choices: Grassmann(4, 2, **choices),
    SPD: lambda **choices: SPD(3, **choices),
}


@pytest.mark.parametrize("cls", MADE, ids=lambda c: c.__name__)
@pytest.mark.parametrize("kind", ["retraction", "transport"])
@pytest.mark.parametrize("name", ["no such thing", "", "Parallel", None, ["exp"]])
def test_unknown_names_are_refused_with_the_choices(cls, kind, name):
    with pytest.raises(ValueError, match=f"has no {kind}") as caught:
        MADE[cls](**{kind: name})
    for choice in getattr(cls, f"{kind}s"):
        assert repr(choice) in str(caught.value)
    assert repr(name) in str(caught.value)
    assert cls.__name__ in str(caught.value)


@pytest.mark.parametrize("cls", MADE, ids=lambda c: c.__name__)
def test_each_choice_of_the_table_is_accepted_and_shown(cls):
    for retraction in cls.retractions:
        for transport in cls.transports:
            made = MADE[cls](retraction=retraction, transport=transport)
            assert repr(retraction) in repr(made)
            assert repr(transport) in repr(made)
            assert eval(repr(made)) == made
    assert eval(repr(Euclidean())) == Euclidean()


@pytest.mark.parametrize("transport", ["identity", "projection"])
def test_spd_says_why_it_has_no_such_transport(transport):
    with pytest.raises(ValueError, match=r"affine-invariant metric.*choose from 'parallel'"):
        SPD(3, transport=transport)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Sphere(3, transport="identity"), "not tangent at y"),
        (lambda: Stiefel(4, 2, transport="identity"), "not tangent at y"),
        (lambda: Grassmann(4, 2, transport="identity"), "not tangent at y"),
        (lambda: Stiefel(4, 2, transport="parallel"), "'rotation' is isometric"),
        (lambda: Stiefel(4, 2, retraction="exp"), "'polar' is of second order"),
        (lambda: Grassmann(4, 2, transport="rotation"), "'parallel' is Grassmann's"),
    ],
)
def test_a_reasonable_but_wrong_choice_gets_a_reason(make, reason):
    with pytest.raises(ValueError, match=reason):
        make()


@pytest.mark.parametrize("cls", [Stiefel, Grassmann])
def test_more_columns_than_rows(cls):
    with pytest.raises(ValueError, match=rf"r must be at most d; did you mean {cls.__name__}\(10, 3\)"):
        cls(3, 10)


@pytest.mark.parametrize("size", [0, -1, 2.0, "3", None, True, (3,), np.float64(2), float("nan")])
def test_sizes_that_are_not_positive_integers(size):
    for make in (
        lambda: Sphere(size),
        lambda: SPD(size),
        lambda: Stiefel(size, 1),
        lambda: Stiefel(4, size),
        lambda: Grassmann(4, size),
        lambda: Euclidean(2, size),
    ):
        with pytest.raises(ValueError, match="must be an integer of at least 1"):
            make()


def test_numpy_integers_are_integers():
    assert Stiefel(np.int64(4), np.int32(2)) == Stiefel(4, 2)


@pytest.mark.parametrize(
    ("manifold", "shape"),
    [
        (Sphere(3), (4,)),
        (Sphere(3), ()),
        (Stiefel(4, 2), (2, 4)),
        (Stiefel(4, 2), (4,)),
        (Grassmann(4, 2), (4, 3)),
        (SPD(3), (3, 2)),
        (Euclidean(3), (3, 1)),
    ],
    ids=str,
)
def test_wrong_shapes(manifold, shape):
    with pytest.raises(ValueError, match=re.escape(f"x0 has shape {shape}")) as caught:
        manifold.check_point(np.ones(shape))
    assert f"has shape {manifold.ambient_shape}" in str(caught.value)


@pytest.mark.parametrize(
    ("manifold", "x"),
    [
        (Sphere(3), np.array([1.0, 1.0, 0.0])),
        (Stiefel(4, 2), np.ones((4, 2))),
        (Grassmann(4, 2), 1.001 * np.eye(4)[:, :2]),
        (SPD(2), np.array([[1.0, 0.0], [0.0, -1.0]])),
        (SPD(2), np.array([[1.0, 0.0], [0.0, 0.0]])),
        (SPD(2), np.array([[1.0, 0.5], [0.0, 1.0]])),
        (SPD(2), np.zeros((2, 2))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_points_off_the_manifold(manifold, x):
    with pytest.raises(ValueError, match="x0 is not on") as caught:
        manifold.check_point(x)
    assert "violation" in str(caught.value)
    assert ("positive eigenvalues" if isinstance(manifold, SPD) else "random_point") in str(caught.value)
    batch = np.stack([manifold.random_point(np.eye(*x.shape) if x.ndim == 2 else np.ones(3)), x])
    with pytest.raises(ValueError, match="x0 is not on"):
        manifold.check_point(batch)


@pytest.mark.parametrize("cls", MADE, ids=lambda c: c.__name__)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_points_that_are_not_finite(cls, bad):
    manifold = MADE[cls]()
    x = manifold.random_point(np.random.default_rng(0).standard_normal(manifold.ambient_shape))
    manifold.check_point(x)
    manifold.check_point(x.astype(np.float32))
    x = np.copy(x)
    x[(0,) * x.ndim] = bad
    with pytest.raises(ValueError, match="NaN or infinite"):
        manifold.check_point(x)


@pytest.mark.parametrize("factors", [(Sphere(3), "sphere"), {"a": 3}, [Stiefel], np.eye(2)])
def test_products_of_something_else(factors):
    with pytest.raises(TypeError, match="a Product is a tuple, dict or pytree of manifolds; found"):
        Product(factors)


@pytest.mark.parametrize("factors", [(), {}, None, {"a": []}])
def test_empty_products(factors):
    with pytest.raises(ValueError, match="at least one manifold"):
        Product(factors)


def test_points_of_another_structure():
    product = Product({"a": Sphere(2), "b": (Euclidean(3), SPD(2))})
    good = {"a": np.array([1.0, 0.0]), "b": (np.ones(3), np.eye(2))}
    product.check_point(good)
    for bad in (
        {"a": good["a"]},
        {"a": good["a"], "c": good["b"]},
        {"a": good["a"], "b": (np.ones(3),)},
        (good["a"], good["b"]),
        good["a"],
    ):
        with pytest.raises(ValueError, match="x0 does not have the structure of Product"):
            product.check_point(bad)
    with pytest.raises(ValueError, match=r"x0\['b'\]\[1\] is not on SPD\(2"):
        product.check_point(good | {"b": (np.ones(3), -np.eye(2))})
    with pytest.raises(ValueError, match=r"x0\['a'\] has shape \(3,\)"):
        product.check_point(good | {"a": np.ones(3)})
