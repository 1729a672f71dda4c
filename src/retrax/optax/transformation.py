"""A `retrax.Method` as an optax transformation: all parameters are one point of a product manifold.

The updates are the differences y - x to the retracted point y, so that `optax.apply_updates` gives y up to one
rounding, which the next retraction removes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from retrax import _linalg
from retrax.manifolds import Euclidean, Manifold, Power, Product
from retrax.manifolds.base import check_shape
from retrax.methods import Method, State
from retrax.typing import Point, Tangent

GradientFunction = Callable[[Any], Any]


class RiemannianState(NamedTuple):
    """What a transformation carries."""

    taken: jax.Array
    """The number of steps."""
    state: State
    """The method's."""


class Transformation(optax.GradientTransformationExtraArgs):
    """`init(params)` and `update(gradients, state, params, *, gradient_fn, second_gradients, restart)`.

    A two-point method needs the gradient of the same batch at a second point: either `gradient_fn`, a function of the
    parameters, or `second_gradients`, evaluated at `second_params(state, params)`. `restart=True` begins a fresh
    estimate from the gradients given (RSVRG's anchor, on a large batch); the first update always does.
    """

    second_params: Callable[[RiemannianState, Any], Any]
    """Where the second gradient is wanted; the parameters themselves at the first update."""


def transform(method: Method, manifolds: Any = None) -> Transformation:
    """A method as an optax transformation.

    `manifolds`: a manifold (for parameters that are one array), a pytree of manifolds that begins like the parameters
    (what it does not name, or names None, is Euclidean), or a function (path, leaf) -> manifold or None, where the path
    is a string such as "['layer']['kernel']". A leaf with leading axes is many points.
    """
    if not isinstance(method, Method):
        raise TypeError(f"method must be a retrax method such as rx.rsrm(0.1), not {method!r}")
    known = manifolds if callable(manifolds) else _by_path(manifolds)

    def init(params: Any) -> RiemannianState:
        manifold, x = _point(known, params)
        if not any(map(_linalg.is_traced, jax.tree.leaves(x))):
            manifold.check_point(x, name="params")
        return RiemannianState(jnp.zeros((), jnp.int32), method.init(manifold, x))

    def second_params(state: RiemannianState, params: Any) -> Any:
        _, x = _point(known, params)
        point = _where(state.taken == 0, x, method.estimator.second_point(state.state.last, state.state.memory))
        return _unpoint(point, params)

    def update(
        updates: Any,
        state: RiemannianState,
        params: Any = None,
        *,
        gradient_fn: GradientFunction | None = None,
        second_gradients: Any = None,
        restart: bool = False,
        **others: Any,
    ) -> tuple[Any, RiemannianState]:
        if params is None:
            raise ValueError("on a manifold an update depends on the point: call update(gradients, state, params)")
        manifold, x = _point(known, params)
        gradient = manifold.gradient(x, _leaves_like(updates, params))
        t = (state.taken + 1).astype(jnp.result_type(*jax.tree.leaves(x)))

        def begin() -> tuple[Point, State]:
            return method.restart(manifold, _Given(x, gradient), x, state.state, t)

        def go_on() -> tuple[Point, State]:
            oracle = _Given(x, gradient)
            if method.evaluations > 1:
                y = method.estimator.second_point(state.state.last, state.state.memory)
                found = _second(method, y, params, gradient_fn, second_gradients)
                oracle.second = manifold.gradient(y, _leaves_like(found, params))
            return method.step(manifold, oracle, x, state.state, t)

        if method.evaluations > 1 and gradient_fn is None and second_gradients is None and not restart:
            raise TypeError(
                f"{method.name} compares the gradients of one batch at two points: give update(..., gradient_fn=f), "
                "where f(params) is the gradient on the same batch, or second_gradients="
            )
        moved, new = begin() if restart else _first_or_later(state.taken == 0, begin, go_on)
        difference = jax.tree.map(lambda b, a: (b - a).astype(a.dtype), moved, x)
        return _unpoint(difference, params), RiemannianState(state.taken + 1, new)

    made = Transformation(init, update)
    made.second_params = second_params
    return made


class _Given:
    """The oracle of `retrax.typing` for gradients that the caller has evaluated."""

    size = 1

    def __init__(self, x: Point, gradient: Tangent) -> None:
        self.x, self.gradient, self.second = x, gradient, gradient

    def __call__(self, x: Point) -> Tangent:
        """grad f_S at the parameters, or at the second point."""
        return self.gradient if x is self.x else self.second

    def pair(self, x: Point, y: Point) -> tuple[Tangent, Tangent]:
        """Both."""
        return self.gradient, self.second

    def parts(self, first: int) -> None:
        """The batch is known as a whole."""
        return None

    def or_else(self, condition: Any, other: Any) -> Any:
        """There are no parts to choose from."""
        raise NotImplementedError("a batch whose gradient is given cannot be divided")


def _second(method: Method, y: Point, params: Any, gradient_fn: GradientFunction | None, given: Any) -> Any:
    return given if gradient_fn is None else gradient_fn(_unpoint(y, params))


def _first_or_later(first: jax.Array, begin: Callable[[], Any], go_on: Callable[[], Any]) -> Any:
    """The one or the other; compiled, both are in the program and one of them runs."""
    if _linalg.is_traced(first):
        return jax.lax.cond(first, begin, go_on)
    return begin() if bool(first) else go_on()


def _where(condition: jax.Array, a: Any, b: Any) -> Any:
    return jax.tree.map(lambda p, q: jnp.where(condition, p, q), a, b)


# --- parameters as points --------------------------------------------------------------------------------------


def _point(known: Any, params: Any) -> tuple[Manifold, Point]:
    """The parameters as one point: the leaf itself where there is one, else a tuple on a product."""
    found = jax.tree_util.tree_flatten_with_path(params)[0]
    if not found:
        raise ValueError("there are no parameters")
    manifolds = tuple(_manifold(known, path, leaf) for path, leaf in found)
    leaves = tuple(leaf for _, leaf in found)
    return (manifolds[0], leaves[0]) if len(leaves) == 1 else (Product(manifolds), leaves)


def _unpoint(point: Point, params: Any) -> Any:
    """The inverse: a point or a tangent vector in the structure of the parameters."""
    leaves = list(point) if isinstance(point, tuple) else [point]
    return jax.tree.unflatten(jax.tree.structure(params), leaves)


def _leaves_like(tree: Any, params: Any) -> Any:
    """Gradients in the form of the point."""
    leaves = jax.tree.leaves(tree)
    if len(leaves) != len(jax.tree.leaves(params)):
        raise ValueError(f"{len(leaves)} gradients were given for {len(jax.tree.leaves(params))} parameters")
    return leaves[0] if len(leaves) == 1 else tuple(leaves)


def _manifold(known: Any, path: Any, leaf: Any) -> Manifold:
    name = jax.tree_util.keystr(path)
    found = known(name, leaf) if callable(known) else _longest(known, path)
    if found is None:
        return Euclidean(*jnp.shape(leaf))
    if not isinstance(found, Manifold):
        raise TypeError(f"params{name}: {found!r} is no manifold; give one such as rx.Stiefel(64, 16), or None")
    if isinstance(found, Product):
        raise ValueError(f"params{name}: a leaf is one array; give each factor of {found} a leaf of its own")
    check_shape(leaf, found.ambient_shape, found, f"params{name}")
    leading = jnp.shape(leaf)[: jnp.ndim(leaf) - len(found.ambient_shape)]
    return Power(found, *leading) if leading else found


def _by_path(manifolds: Any) -> dict[tuple[str, ...], Any]:
    """The manifolds by the keys that lead to them."""
    leaves = jax.tree_util.tree_flatten_with_path(manifolds, is_leaf=lambda node: isinstance(node, Manifold))[0]
    return {tuple(jax.tree_util.keystr((key,)) for key in path): found for path, found in leaves}


def _longest(known: dict[tuple[str, ...], Any], path: Any) -> Any:
    """What is known for the path, or for the part it begins with."""
    keys = tuple(jax.tree_util.keystr((key,)) for key in path)
    return next((known[keys[:end]] for end in range(len(keys), -1, -1) if keys[:end] in known), None)
