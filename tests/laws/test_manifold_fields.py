"""A manifold is what its fields say: equality, hash, repr and compiled programs see a difference in any of them."""

import copy
import dataclasses
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx
from retrax.manifolds.base import ArrayManifold, NamedTransport


class Scaled(ArrayManifold):
    """What a user writes: vectors with the metric ⟨u, v⟩ = curvature · uᵀv, whose gradient is ∇f / curvature."""

    d: int
    curvature: float = 1.0
    retractions = {"addition": lambda self, x, u: x + u}  # noqa: RUF012
    transports = {"identity": NamedTransport(lambda self, x, y, u: u, isometric=True)}  # noqa: RUF012
    ambient_shape = property(lambda self: (self.d,))
    inner = lambda self, x, u, v: self.curvature * jnp.sum(u * v, axis=-1)  # noqa: E731
    project = lambda self, x, z: z  # noqa: E731
    gradient = lambda self, x, ambient_gradient: ambient_gradient / self.curvature  # noqa: E731
    random_point = lambda self, gaussian: gaussian  # noqa: E731
    violation = lambda self, x: 0 * jnp.sum(x, axis=-1)  # noqa: E731


def test_a_parametrised_manifold_gets_its_own_result():
    """Gradient descent on |x - a|²/2, all samples being a, by hand: x - a shrinks by 1 - η/curvature in each step."""
    a, x0 = np.array([0.5, -1.0, 2.0]), np.ones(3)

    def loss(x, batch):
        return jnp.mean(jnp.sum((x - batch) ** 2, axis=-1)) / 2

    method = rx.rsgd(lambda t: 0.1)  # One method and one loss, so that only the manifold tells the runs apart.
    for curvature in (1.0, 2.0, 4.0):
        problem = rx.Problem(loss, Scaled(3, curvature), data=np.tile(a, (20, 1)))
        result = rx.minimize(problem, method, steps=5, batch_size=2, x0=x0, dtype="float64")
        assert np.max(np.abs(result.x - a - (1 - 0.1 / curvature) ** 5 * (x0 - a))) <= 1e-14


def test_fields_decide_equality_hash_and_repr():
    one, two = Scaled(3, 1.0), Scaled(3, curvature=2.0)
    assert one != two
    assert one == Scaled(d=3)
    assert hash(one) != hash(two)
    assert hash(one) == hash(Scaled(3))
    assert repr(one) == "Scaled(3, curvature=1.0, retraction='addition', transport='identity')"
    assert repr(two) == "Scaled(3, curvature=2.0, retraction='addition', transport='identity')"
    assert rx.Product((one,)) != rx.Product((two,))
    assert hash(rx.Product((one,))) != hash(rx.Product((two,)))
    assert "curvature=2.0" in repr(rx.Product((two,)))


def test_one_compiled_function_serves_each_its_own_program():
    inner = jax.jit(lambda m, u: m.inner(u, u, u), static_argnums=0)
    for curvature in (1.0, 2.0):
        assert inner(Scaled(3, curvature), jnp.ones(3)) == 3 * curvature


def test_classes_with_equal_fields_differ():
    assert rx.Stiefel(4, 2, retraction="polar") != rx.Grassmann(4, 2, retraction="polar")
    assert rx.Stiefel(4, 2) != (4, 2)
    assert rx.Euclidean(3) != rx.Euclidean(3, 1)


@pytest.mark.parametrize(
    "manifold", [rx.Stiefel(4, 2), rx.Euclidean(2, 3), rx.SPD(3), rx.Product({"a": rx.Sphere(2)}), Scaled(2, 3.0)]
)
def test_copies_are_equal_and_nothing_can_be_changed(manifold):
    assert copy.deepcopy(manifold) == manifold
    for field in dataclasses.fields(manifold):
        with pytest.raises(dataclasses.FrozenInstanceError, match=r"cannot set .* make another one"):
            setattr(manifold, field.name, 5)
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete"):
            delattr(manifold, field.name)


def test_what_is_assigned_without_being_declared_is_refused():
    class Forgetful(Scaled):
        def __init__(self, d, weight):
            self._construct(d=d, curvature=1.0, retraction_name="addition", transport_name="identity")
            self.weight = weight

    with pytest.raises(TypeError, match=r"no field 'weight'.*declare it in the class body \('weight: float'\)"):
        Forgetful(3, 2.0)

    class Sly(Forgetful):
        def __init__(self, d, weight):
            self._construct(d=d, curvature=1.0, retraction_name="addition", transport_name="identity")
            object.__setattr__(self, "weight", weight)

    for operation in (hash, repr, lambda m: m == Sly(3, 1.0)):
        with pytest.raises(TypeError, match="carries weight beside its fields"):
            operation(Sly(3, 2.0))


def test_what_equality_would_overlook_is_refused():
    with pytest.raises(TypeError, match="weight is declared with compare=False"):

        class Overlooked(Scaled):
            weight: float = dataclasses.field(default=1.0, compare=False)


@pytest.mark.parametrize("value", [np.ones(2), [1.0], {"a": 1}], ids=str)
def test_arrays_are_no_fields(value):
    with pytest.raises(TypeError, match=r"Scaled cannot be compared: unhashable.*never arrays or lists"):
        Scaled(3, value)


def test_the_decorator_may_be_written_too():
    @dataclasses.dataclass(frozen=True)
    class Decorated(Scaled):
        weight: float = 1.0

    assert Decorated(3) == Decorated(3, 1.0, 1.0)
    assert Decorated(3) != Decorated(3, weight=2.0)
    assert hash(Decorated(3)) != hash(Decorated(3, weight=2.0))
    assert "weight=2.0" in repr(Decorated(3, weight=2.0))


def test_a_subclass_without_fields_of_its_own_is_constructed_as_its_parent():
    class Flat(rx.Euclidean):
        """A user's variant."""

    assert Flat(2, 3).ambient_shape == (2, 3)
    assert repr(Flat(2)) == "Flat(2, retraction='addition', transport='identity')"
    assert Flat(2) != rx.Euclidean(2)


def test_signatures_are_shown():
    expected = "(d: int, r: int, *, retraction: str = 'default', transport: str = 'default')"
    assert str(inspect.signature(rx.Stiefel)) == expected
    with pytest.raises(TypeError, match=r"missing a required argument: 'r' in Stiefel\(d: int, r: int"):
        rx.Stiefel(3)
