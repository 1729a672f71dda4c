"""What is not valid is refused at once, with a message that names the choices."""

import functools
import re

import numpy as np
import pytest

from retrax.manifolds import (
    SPD,
    Euclidean,
    FixedRank,
    GeneralizedStiefel,
    Grassmann,
    Lorentz,
    Oblique,
    PoincareBall,
    Positive,
    Power,
    Product,
    Simplex,
    SpecialOrthogonal,
    Sphere,
    Stiefel,
    Symmetric,
)

SIZES = {
    Euclidean: (3,),
    FixedRank: (4, 3, 2),
    GeneralizedStiefel: (4, 2),
    Grassmann: (4, 2),
    Lorentz: (3,),
    Oblique: (3, 2),
    PoincareBall: (3,),
    Positive: (3,),
    SPD: (3,),
    Simplex: (3,),
    SpecialOrthogonal: (3,),
    Sphere: (3,),
    Stiefel: (4, 2),
    Symmetric: (3,),
}
MADE = {cls: functools.partial(cls, *sizes) for cls, sizes in SIZES.items()}


@pytest.mark.parametrize("cls", MADE, ids=lambda c: c.__name__)
@pytest.mark.parametrize("kind", ["retraction", "transport"])
@pytest.mark.parametrize("name", ["no such thing", "", "Parallel", None, ["exp"]])
def test_unknown_names_are_refused_with_the_choices(cls, kind, name):
    with pytest.raises(ValueError, match=f"has no {kind}") as caught:
        MADE[cls](**{kind: name})
    for choice in getattr(MADE[cls](), f"{kind}s"):
        assert repr(choice) in str(caught.value)
    assert repr(name) in str(caught.value)
    assert cls.__name__ in str(caught.value)


@pytest.mark.parametrize("cls", MADE, ids=lambda c: c.__name__)
def test_each_choice_of_the_table_is_accepted_and_shown(cls):
    for retraction in MADE[cls]().retractions:
        for transport in MADE[cls]().transports:
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
        lambda: Positive(2, size),
        lambda: Power(Sphere(2), size),
        lambda: Oblique(2, size),
        lambda: PoincareBall(size),
        lambda: Lorentz(size),
        lambda: SpecialOrthogonal(size),
        lambda: Simplex(size),
        lambda: Symmetric(size),
        lambda: FixedRank(3, size, 1),
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
        (SpecialOrthogonal(2), np.diag([1.0, -1.0])),
        (Oblique(3, 2), np.ones((3, 2))),
        (PoincareBall(3), np.array([1.0, 0.0, 0.0])),
        (Lorentz(2), np.array([-1.0, 0.0, 0.0])),
        (Simplex(3), np.array([0.5, 0.5, 0.0])),
        (Positive(3), np.array([1.0, 0.0, 1.0])),
        (Symmetric(2), np.array([[1.0, 0.5], [0.0, 1.0]])),
        (Power(Sphere(3), 2), np.array([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]])),
        (GeneralizedStiefel(2, 1), np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 1.0]])),
        (FixedRank(2, 2, 1), np.array([[1.0], [0.0], [0.0], [1.0], [0.0]])),
    ],
    ids=lambda value: type(value).__name__,
)
def test_points_off_the_manifold(manifold, x):
    with pytest.raises(ValueError, match="x0 is not on") as caught:
        manifold.check_point(x)
    assert "violation" in str(caught.value)
    assert manifold._remedy in str(caught.value)
    batch = np.stack([manifold.random_point(np.random.default_rng(0).standard_normal(x.shape)), x])
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


@pytest.mark.parametrize("manifold", [Product((Sphere(2), Sphere(3))), "Sphere", None])
def test_powers_of_something_else(manifold):
    with pytest.raises(TypeError, match="Power takes a manifold"):
        Power(manifold, 3)


def test_a_product_that_is_not_positive_definite():
    with pytest.raises(ValueError, match="its B is not positive definite"):
        GeneralizedStiefel(2, 1).check_point(np.array([[1.0, 1.0, 0.0], [0.0, 0.0, -1.0]]))


def test_ranks_beyond_the_sides():
    with pytest.raises(ValueError, match=r"GeneralizedStiefel\(3, 4\) is empty: r must be at most d"):
        GeneralizedStiefel(3, 4)
    with pytest.raises(ValueError, match=r"FixedRank\(4, 3, 4\) is empty: k must be at most min\(m, n\)"):
        FixedRank(4, 3, 4)


@pytest.mark.parametrize(
    ("metric", "transports"), [("log-euclidean", "'parallel'"), ("bures-wasserstein", "'projection'")]
)
def test_metrics_have_their_own_transports(metric, transports):
    for name in ("identity", "projection", "parallel"):
        if repr(name) != transports:
            with pytest.raises(ValueError, match=f"SPD has no transport '{name}' \\(.*choose from {transports}"):
                SPD(3, metric=metric, transport=name)
    for unknown in ("euclidean", None, ["log-euclidean"]):
        with pytest.raises(
            ValueError, match=r"SPD has no metric .*choose from 'affine-invariant', 'log-euclidean', 'b"
        ):
            SPD(3, metric=unknown)
    assert SPD(3, metric=metric) != SPD(3)
    assert repr(metric) in repr(SPD(3, metric=metric))
