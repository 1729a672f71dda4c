"""The optimizer: it drives a `retrax.Method` over the parameters of a torch model, and holds no formula of its own.

In torch the gradients of all parameters come from one call of a closure. A two-point method therefore first moves all
parameters to their second points, calls the closure, moves them back and calls it again; the estimators then find both
gradients ready.
"""

import dataclasses
import math
import numbers
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import torch
from torch import Tensor

from retrax.manifolds import Manifold
from retrax.methods import Method, State
from retrax.scalings import WeightDecay
from retrax.schedules import Schedule
from retrax.torch import parameters
from retrax.torch.evaluation import Closure, Evaluated, Visit, evaluate, unscale, visit, visit_both
from retrax.torch.initial import retract_
from retrax.torch.pieces import in_pieces, tensors
from retrax.torch.transaction import Transaction

Parameters = Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[dict[str, Any]]

_STACKED_ENTRIES, _STACKED_MEMBERS = 2**14, 4
"""By default stacks are made of at least so many parameters of at most so many entries: ten 64×16 matrices then step in
0.4 of the time; for fewer or larger ones the copying costs more than the saved calls (measured on a CPU)."""

_OWN_KEYS = frozenset({"params", "param_names", "name", "initial_lr"})
"""What a group may hold besides options: torch's own keys, a label, and what schedulers resume from."""

_COMMON_OPTIONS = frozenset({"lr", "manifold", "decay", "maximize", "foreach", "weight_decay", "differentiable"})
"""Options that are not the recipe's ("differentiable" is one that torch adds by itself)."""


class GroupStepSize:
    """η_t = lr · (the recipe's step size), with lr as the group holds it: torch's schedulers write it there.

    With decay=False in the group, a schedule's decay is left out, and η_t = lr.
    """

    def __init__(self, group: Mapping[str, Any], own: Any) -> None:
        self.group, self.own = group, own
        self.needs_pairs = getattr(own, "needs_pairs", False)

    def init(self, manifold: Manifold, x: Tensor) -> Any:
        """The recipe's memory."""
        return self.own.init(manifold, x)

    def apply(
        self, manifold: Manifold, x: Tensor, direction: Tensor, estimate: Any, memory: Any, t: float
    ) -> tuple[Any, Any]:
        """lr · η."""
        lr = self.group["lr"]
        if isinstance(self.own, Schedule) and not self.group["decay"]:
            return lr, memory
        size, memory = self.own.apply(manifold, x, direction, estimate, memory, t)
        return lr * size, memory


class Bucket(NamedTuple):
    """Parameters of one group that step together, stacked along a new leading axis where there are several."""

    manifold: Manifold
    members: list[Tensor]
    taken: int
    """Steps taken so far; 0 means that there is no state yet."""


class Move(NamedTuple):
    """What a bucket's step has found, before any of it is written."""

    group: dict[str, Any]
    bucket: Bucket
    point: Tensor
    state: dict[str, Any]
    sums: list[Tensor]
    """Of each tensor of the two: finite only if all entries are."""


class Stack(NamedTuple):
    """The states of a bucket's members, and the one state that they are views of."""

    parts: list[Any]
    whole: dict[str, Any]


class RiemannianOptimizer(torch.optim.Optimizer):
    """A `torch.optim.Optimizer` made from a recipe `recipe(learning_rate, **options) -> retrax.Method`.

    `params`: parameters, named parameters or groups; a group may set "manifold" (else its parameters are Euclidean)
    and any option. The step size is η_t = lr · (the method's own decay, such as t^(-1/3)); `decay=False` leaves all
    decay to lr and torch's schedulers. `maximize` goes uphill. `foreach`: step same-shaped parameters of a group as
    one stack (None: where they are small enough for it to pay). `weight_decay` λ is decoupled: a step also goes
    -η_t λ grad(‖x‖²/2), which is -η_t λ x in Euclidean space and nothing where all points have one norm.

    To make an optimizer of a method of your own, subclass with a `recipe` and pass its options by keyword.
    """

    recipe: ClassVar[Callable[..., Method]]

    def __init__(
        self,
        params: Parameters,
        lr: float,
        *,
        decay: bool = True,
        maximize: bool = False,
        foreach: bool | None = None,
        weight_decay: float = 0.0,
        **options: Any,
    ) -> None:
        self._forget()
        common = {
            "lr": lr,
            "manifold": None,
            "decay": decay,
            "maximize": maximize,
            "foreach": foreach,
            "weight_decay": weight_decay,
        }
        super().__init__(params, {**common, **options})

    def _forget(self) -> None:
        """Begin with empty caches: they are never saved, and the groups they belong to may have been replaced."""
        self._methods: dict[int, tuple[tuple[Any, ...], Method]] = {}
        self._manifolds: dict[Tensor, Manifold] = {}
        self._skeletons: dict[tuple[int, Manifold], State] = {}
        self._stacks: dict[Tensor, Stack] = {}

    # --- groups ----------------------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As in torch; checks the options, and that each parameter lies on its manifold."""
        unknown = set(param_group) - set(self.defaults) - _OWN_KEYS
        if unknown:
            raise ValueError(
                f"{type(self).__name__} has no option {', '.join(map(repr, sorted(unknown)))}; "
                f"a group may set {', '.join(name for name in self.defaults if name != 'differentiable')}"
            )
        super().add_param_group(param_group)
        try:
            self._check_group(self.param_groups[-1])
        except Exception:
            self.param_groups.pop()
            raise

    def _check_group(self, group: dict[str, Any]) -> None:
        _check_options(group)
        method = self._method(group)
        tried: set[tuple[Any, ...]] = set()
        for index, parameter in enumerate(group["params"]):
            name = parameters.name_of(group, len(self.param_groups) - 1, index)
            manifold = self._manifold(parameter, group)
            parameters.check_parameter(parameter, manifold, name)
            if (manifold, parameter.shape) not in tried:
                _check_method(method, manifold, parameter, name)
                tried.add((manifold, parameter.shape))

    def _manifold(self, parameter: Tensor, group: dict[str, Any]) -> Manifold:
        if group["manifold"] is not None:
            return group["manifold"]
        if parameter not in self._manifolds:
            self._manifolds[parameter] = parameters.manifold_of(parameter)
        return self._manifolds[parameter]

    def _method(self, group: dict[str, Any]) -> Method:
        """The group's method, made anew only when one of its options has changed."""
        options = {name: group[name] for name in self.defaults if name not in _COMMON_OPTIONS}
        values = (*options.values(), group["weight_decay"])
        known = self._methods.get(id(group))
        if known is None or known[0] != values:
            decay = type(self).recipe(1.0, **options).step_size
            made = type(self).recipe(GroupStepSize(group, decay), **options)
            if group["weight_decay"]:
                made = dataclasses.replace(made, scaling=WeightDecay(made.scaling, group["weight_decay"]))
            known = values, made
            self._methods[id(group)] = known
        return known[1]

    # --- steps -----------------------------------------------------------------------------------------------

    def step(self, closure: Closure | None = None, *, restart: bool = False, scaler: Any = None) -> Any:
        """One step of every parameter that has a gradient; returns the closure's loss at the current parameters.

        A two-point method needs the closure and calls it twice on the same batch, last at the current parameters; it
        clears the gradients before each call. Its first step, and every step with `restart=True`, calls it once.
        `scaler`: a `torch.amp.GradScaler` whose `scale(loss).backward()` the closure calls; gradients are unscaled
        here, and a step with infinite ones is skipped.
        """
        return self._undone_if_interrupted(lambda transaction: self._step(closure, restart, scaler, transaction))

    def step_on(self, module: torch.nn.Module, loss: Callable[[Any], Tensor], *inputs: Any) -> Any:
        """As `step`, of `loss(module(*inputs))`: a two-point method evaluates both points in one pass.

        The module runs once, forwards and backwards, with two sets of parameters side by side (`torch.func.vmap`). It
        must allow that: no batch norm in training mode, no branch on values. All parameters of the optimizer must be
        the module's. Pays where a pass is many small operations; see docs/torch.md for figures.
        """
        return self._undone_if_interrupted(lambda transaction: self._step_on(module, loss, inputs, transaction))

    def _undone_if_interrupted(self, act: Callable[[Transaction], Any]) -> Any:
        with torch.no_grad():
            transaction = Transaction(self.state)
            try:
                return act(transaction)
            except BaseException:
                transaction.roll_back()
                raise

    def _step(self, closure: Closure | None, restart: bool, scaler: Any, transaction: Transaction) -> Any:
        visits = self._visit_second_points(closure, restart, transaction) if self._has_pairs() else {}
        loss = None if closure is None else evaluate(closure, self._parameters())
        if scaler is None or unscale(scaler, self, visits):
            self._move(visits, restart, transaction)
        return loss

    def _step_on(self, module: torch.nn.Module, loss: Any, inputs: Any, transaction: Transaction) -> Any:
        points = self._second_points() if self._has_pairs() else {}
        found, visits = visit_both(module, loss, inputs, self._parameters(), points)
        self._move(visits, False, transaction)
        return found

    def _has_pairs(self) -> bool:
        return any(self._method(group).evaluations > 1 for group in self.param_groups)

    def _move(self, visits: Mapping[Tensor, Visit], restart: bool, transaction: Transaction) -> None:
        """Every parameter that has a gradient, by its group's method; all of them or none."""
        moves = [
            self._advance(group, self._method(group), bucket, visits, restart)
            for group in self.param_groups
            for bucket in self._buckets(group, visits)
        ]
        self._check_finite(moves)
        self._commit(moves, transaction)

    def _parameters(self) -> list[Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As in torch, but without a record for the profiler, which costs more than dropping a few gradients."""
        if not set_to_none:
            return super().zero_grad(set_to_none=False)
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def restart(self, closure: Closure) -> Any:
        """A step that begins a fresh estimate from the closure's batch: for RSVRG and RSRG, all the data."""
        return self.step(closure, restart=True)

    def _visit_second_points(
        self, closure: Closure | None, restart: bool, transaction: Transaction
    ) -> dict[Tensor, Visit]:
        """The gradients at x_{t-1} or at an anchor, for each parameter whose estimator wants them and has a state."""
        if closure is None:
            raise TypeError(
                f"{type(self).__name__} needs the gradient at two points on the same batch: call step(closure), "
                "where the closure computes the loss, calls loss.backward() and returns the loss"
            )
        points = {} if restart else self._second_points()
        if not points:
            return {}
        # Cleared here too, so that a closure without zero_grad() does not add up the gradients of two points.
        self.zero_grad()
        visits = visit(closure, points, transaction)
        self.zero_grad()
        return visits

    def _second_points(self) -> dict[Tensor, Tensor]:
        points = {}
        for group in self.param_groups:
            method = self._method(group)
            for parameter in group["params"]:
                stored = self.state.get(parameter)
                if stored and parameter.requires_grad:  # what is frozen stays where it is
                    manifold = self._manifold(parameter, group)
                    state = self._decoded(method, manifold, parameters.plain(parameter), stored)
                    points[parameter] = method.estimator.second_point(state.last, state.memory)
        return points

    def _buckets(self, group: dict[str, Any], visits: Mapping[Tensor, Visit]) -> Iterable[Bucket]:
        """The parameters that have gradients, with those that can be stacked put together."""
        members: dict[tuple[Any, ...], list[Tensor]] = {}
        for parameter in group["params"]:
            gradient = parameter.grad
            if gradient is None or (parameter in visits and visits[parameter].gradient is None):
                continue
            if gradient.layout is not torch.strided:
                raise RuntimeError(
                    f"{type(self).__name__} does not support sparse gradients; use sparse=False in the embedding"
                )
            members.setdefault(self._bucket_key(group, parameter), []).append(parameter)
        buckets = []
        for (taken, *_), together in members.items():
            manifold = self._manifold(together[0], group)
            if group["foreach"] is None and len(together) < _STACKED_MEMBERS:
                buckets += [Bucket(manifold, [parameter], taken) for parameter in together]
            else:
                buckets.append(Bucket(manifold, together, taken))
        return buckets

    def _bucket_key(self, group: dict[str, Any], parameter: Tensor) -> tuple[Any, ...]:
        """Equal for parameters that may step together; begins with the number of steps taken."""
        state = self.state.get(parameter)
        taken = state["step"] if state else 0
        foreach = group["foreach"]
        if foreach is None:
            foreach = len(group["params"]) >= _STACKED_MEMBERS and parameter.numel() <= _STACKED_ENTRIES
        if not foreach:
            return taken, id(parameter)
        return taken, self._manifold(parameter, group), parameter.shape, parameter.dtype, parameter.device

    def _advance(
        self, group: dict[str, Any], method: Method, bucket: Bucket, visits: Mapping[Tensor, Visit], restart: bool
    ) -> Move:
        """One step of a bucket: gather, and let the method work. Writes nothing."""
        manifold, members = bucket.manifold, bucket.members
        sign = -1 if group["maximize"] else 1
        x = self._point(bucket, visits)
        is_kept = method.estimator.keeps_last or method.estimator.evaluations > 1
        is_parameter = len(members) == 1 and members[0] not in visits
        continues = bucket.taken > 0 and not restart
        elsewhere = None
        if continues and visits:
            found = [visits[member] for member in members]
            elsewhere = _stacked([one.point for one in found]), _ambient(x, [one.gradient for one in found])

        def advance(x: Tensor, ambient: Tensor, elsewhere: tuple[Tensor, Tensor] | None, state: State) -> Any:
            x = x.clone() if is_kept and is_parameter else x  # parameters change in place
            oracle = Evaluated(x, _riemannian(manifold, x, ambient, sign))
            if elsewhere is not None:
                oracle.add(elsewhere[0], _riemannian(manifold, *elsewhere, sign))
            act = method.step if continues else method.restart
            moved, state = act(manifold, oracle, x, state, float(bucket.taken + 1))
            return moved, _kept(method, state)

        batched = x.ndim > len(manifold.ambient_shape)
        given = x, _ambient(x, [member.grad for member in members]), elsewhere, self._state(method, bucket, x)
        try:
            (moved, kept), sums = in_pieces(advance, batched, *given)
        except torch.linalg.LinAlgError as error:
            raise RuntimeError(
                f"the step of {self._names(bucket)} on {manifold} failed ({error}); the gradient holds NaN or infinite "
                f"entries, or lr={group['lr']} is too large; no parameter has moved"
            ) from error
        kept = {"step": bucket.taken + 1, **kept}
        if parameters.is_coarse(members[0]):
            kept["exact"] = moved
        return Move(group, bucket, moved, kept, sums)

    def _point(self, bucket: Bucket, visits: Mapping[Tensor, Visit]) -> Tensor:
        """Where the members are."""
        if len(bucket.members) > 1:
            return torch.stack([self._exact(member, bucket.manifold) for member in bucket.members])
        (member,) = bucket.members
        if member in visits and not parameters.is_coarse(member):
            return parameters.whole(visits[member].home)
        return self._exact(member, bucket.manifold)

    def _exact(self, parameter: Tensor, manifold: Manifold) -> Tensor:
        """The parameter; for a coarse dtype the float32 point of which it is the rounding."""
        point = parameters.whole(parameters.plain(parameter))
        if not parameters.is_coarse(point):
            return point
        exact = self.state[parameter]["exact"] if self.state.get(parameter) else None
        if exact is not None and torch.equal(exact.to(point.dtype), point):
            return exact
        return retract_(point.float(), manifold)  # the first step, or somebody has written into the parameter

    def _state(self, method: Method, bucket: Bucket, x: Tensor) -> State:
        if not bucket.taken:
            return method.init(bucket.manifold, x)
        return self._decoded(method, bucket.manifold, x, self._stored(bucket))

    def _stored(self, bucket: Bucket) -> Mapping[str, Any]:
        """The members' states as one; of a stack that has stepped before, the one that `_commit` took apart."""
        parts = [self.state[parameter] for parameter in bucket.members]
        known = self._stacks.get(bucket.members[0])
        if known and len(known.parts) == len(parts) and all(map(operator.is_, known.parts, parts)):
            return known.whole
        return _stack_trees(parts)

    def _decoded(self, method: Method, manifold: Manifold, x: Tensor, stored: Mapping[str, Any]) -> State:
        """The state that a step has stored, in the types that the method's parts gave it."""
        key = id(method), manifold
        if key not in self._skeletons:
            self._skeletons[key] = jax.tree.map(lambda leaf: 0, method.init(manifold, x))
        return State(*(_decode(stored[name], part) for name, part in self._skeletons[key]._asdict().items()))

    def _check_finite(self, moves: list[Move]) -> None:
        """Raise before anything is written if a new point or a new state holds NaN or infinite numbers."""
        sums = [one for move in moves for one in move.sums]
        if not sums or math.isfinite(torch.stack([one.to(sums[0].device) for one in sums]).sum()):
            return
        for move in moves:  # a sum of finite numbers may be infinite too
            if all(bool(leaf.isfinite().all()) for leaf in tensors([move.point, move.state])):
                continue
            members = move.bucket.members
            infinite = [one for one in members if one.grad is not None and not bool(one.grad.isfinite().all())]
            reason = "its gradient holds NaN or infinite entries" if infinite else f"lr={move.group['lr']} is too large"
            raise RuntimeError(
                f"the step of {self._names(move.bucket, infinite)} is not finite: {reason}; no parameter has moved"
            )

    def _names(self, bucket: Bucket, among: Sequence[Tensor] = ()) -> str:
        """The first of a bucket's parameters (or of those given) by name."""
        wanted = among[0] if among else bucket.members[0]
        for group_index, group in enumerate(self.param_groups):
            for index, parameter in enumerate(group["params"]):
                if parameter is wanted:
                    return parameters.name_of(group, group_index, index)
        return "a parameter"

    def _commit(self, moves: list[Move], transaction: Transaction) -> None:
        """The new points into the parameters, the new states into `self.state`, one plain dict for each parameter."""
        points, states = [], {}
        for move in moves:
            members = move.bucket.members
            if len(members) == 1:
                points.append((members[0], move.point))
                states[members[0]] = move.state
                continue
            parts = _split_tree(move.state, len(members))
            points += zip(members, move.point.unbind(0), strict=True)
            states.update(zip(members, parts, strict=True))
            self._stacks[members[0]] = Stack(parts, move.state)
        transaction.commit(points, states)

    # --- saving ----------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """As in torch, of plain tensors, numbers and strings: a manifold is saved as its description."""
        saved = super().state_dict()
        for group in saved["param_groups"]:
            group["manifold"] = repr(group["manifold"])
            group["method"] = type(self).__name__
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As in torch; the manifolds stay those of this optimizer, and must be the ones that were saved."""
        own = [group["manifold"] for group in self.param_groups]
        self._check_saved(state_dict)
        super().load_state_dict(state_dict)
        for group, manifold in zip(self.param_groups, own, strict=True):
            group["manifold"] = manifold
            group.pop("method", None)
        self._load_exact_states(state_dict)

    def _load_exact_states(self, state_dict: dict[str, Any]) -> None:
        """torch rounds a state to the dtype of its parameter; that of a coarse parameter is kept in float32."""
        indices = [index for group in state_dict["param_groups"] for index in group["params"]]
        for index, parameter in zip(indices, self._parameters(), strict=True):
            if parameters.is_coarse(parameter) and index in state_dict["state"]:
                self.state[parameter] = jax.tree.map(
                    lambda leaf: leaf.to(parameter.device, copy=True) if isinstance(leaf, Tensor) else leaf,  # noqa: B023
                    state_dict["state"][index],
                )

    def _check_saved(self, saved: Any) -> None:
        """Refuse the state of another method, manifold or model before anything is changed."""
        name = type(self).__name__
        if not isinstance(saved, Mapping) or not {"state", "param_groups"} <= set(saved):
            raise ValueError(f"this is not the state_dict of an optimizer, which {name}.load_state_dict needs")
        groups = saved["param_groups"]
        if len(groups) != len(self.param_groups):
            raise ValueError(f"{len(groups)} parameter groups were saved, but this {name} has {len(self.param_groups)}")
        for index, (group, theirs) in enumerate(zip(self.param_groups, groups, strict=True)):
            if theirs.get("method", name) != name:
                raise ValueError(f"group {index} was saved by {theirs['method']}, but this optimizer is {name}")
            if "manifold" not in theirs:
                raise ValueError(f"group {index} was saved by an optimizer that is not Retrax's; this one is {name}")
            if repr(group["manifold"]) != theirs["manifold"]:
                raise ValueError(
                    f"group {index} was saved with manifold {theirs['manifold']}, but this optimizer has "
                    f"{group['manifold']}"
                )
            if len(theirs["params"]) != len(group["params"]):
                raise ValueError(
                    f"group {index} was saved with {len(theirs['params'])} parameters, but this {name} has "
                    f"{len(group['params'])}"
                )
            for number, parameter in zip(theirs["params"], group["params"], strict=True):
                if number in saved["state"]:
                    self._check_saved_state(saved["state"][number], group, parameter, f"group {index}")

    def _check_saved_state(self, stored: Any, group: dict[str, Any], parameter: Tensor, where: str) -> None:
        """Refuse a parameter's state that is not one of this method for a parameter of this shape."""
        method, manifold = self._method(group), self._manifold(parameter, group)
        with torch.no_grad():
            expected = method.init(manifold, parameters.whole(parameters.plain(parameter)))._asdict()
        names = ["step", *expected, *(["exact"] if parameters.is_coarse(parameter) else [])]
        if not isinstance(stored, Mapping) or set(stored) != set(names):
            found = sorted(stored) if isinstance(stored, Mapping) else type(stored).__name__
            raise ValueError(f"{where} holds the state {found}, but {type(self).__name__} keeps {names}")
        for name, part in expected.items():
            kept = None if name == "last" and not method.estimator.keeps_last else _encode(part)
            if _shapes(stored[name]) != _shapes(kept):
                raise ValueError(
                    f"{where} holds {name}={_shapes(stored[name])}, but {type(self).__name__} on {manifold} keeps "
                    f"{_shapes(kept)} for a parameter of shape {tuple(parameter.shape)}"
                )

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._forget()
        super().__setstate__(state)
        for group in self.param_groups:  # options that a file of an earlier version does not know
            for name in self.defaults.keys() - {"differentiable"}:  # torch's own, which it does not always save
                group.setdefault(name, self.defaults[name])


def _ambient(x: Tensor, gradients: list[Any]) -> Tensor:
    """The members' gradients as one, in the precision of x."""
    given = _stacked([parameters.whole(one) for one in gradients])
    return given if given.dtype == x.dtype else given.to(x.dtype)


def _riemannian(manifold: Manifold, x: Tensor, ambient: Tensor, sign: int) -> Tensor:
    """The Riemannian gradient of sign · f, never `ambient` itself: that may be a `.grad`, which torch writes into."""
    gradient = manifold.gradient(x, ambient if sign == 1 else -ambient)
    return gradient.clone() if gradient is ambient else gradient


def _kept(method: Method, state: State) -> dict[str, Any]:
    """What is stored of a state."""
    kept = {name: _encode(part) for name, part in state._asdict().items()}
    return kept if method.estimator.keeps_last else {**kept, "last": None}


def _stacked(tensors: list[Any]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.stack(tensors)


def _stack_trees(trees: list[Any]) -> Any:
    """Trees of tensors as one tree of stacks; numbers, the counters of steps, are the same in all of them."""
    if len(trees) == 1:
        return trees[0]
    return jax.tree.map(lambda *leaves: torch.stack(leaves) if isinstance(leaves[0], Tensor) else leaves[0], *trees)


def _split_tree(tree: Any, count: int) -> list[Any]:
    """The inverse of `_stack_trees`; the parts are views."""
    leaves, structure = jax.tree.flatten(tree)
    parts = [leaf.unbind(0) if isinstance(leaf, Tensor) else (leaf,) * count for leaf in leaves]
    return [jax.tree.unflatten(structure, [part[index] for part in parts]) for index in range(count)]


def _encode(memory: Any) -> Any:
    """Named tuples as dicts, which torch can load without trusting our classes."""
    if hasattr(memory, "_asdict"):
        return {name: _encode(part) for name, part in memory._asdict().items()}
    return type(memory)(map(_encode, memory)) if isinstance(memory, tuple | list) else memory


def _decode(stored: Any, like: Any) -> Any:
    """The inverse of `_encode`, in the types of `like`."""
    if stored is None:
        return None
    if hasattr(like, "_asdict"):
        return type(like)(**{name: _decode(stored[name], part) for name, part in like._asdict().items()})
    if isinstance(like, tuple | list):
        return type(like)(_decode(*pair) for pair in zip(stored, like, strict=True))
    return stored


@torch.no_grad()
def _check_method(method: Method, manifold: Manifold, parameter: Tensor, name: str) -> None:
    """A part that refuses a manifold (a scaling of rows, where there are none) does so here, not in the first step."""
    if not parameter.numel():
        return
    try:
        method.init(manifold, parameters.whole(parameters.plain(parameter)))
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None


def _shapes(tree: Any) -> Any:
    """A state with shapes in place of tensors and numbers."""
    return jax.tree.map(lambda leaf: tuple(leaf.shape) if isinstance(leaf, Tensor) else (), tree)


def _check_options(group: Mapping[str, Any]) -> None:
    lr = group["lr"]
    if isinstance(lr, bool) or not isinstance(lr, numbers.Real | Tensor) or not 0 <= float(lr) < math.inf:
        raise ValueError(f"lr must be a finite number that is not negative, not {lr!r}")
    rate = group["weight_decay"]
    if isinstance(rate, bool) or not isinstance(rate, numbers.Real) or not 0 <= float(rate) < math.inf:
        raise ValueError(f"weight_decay must be a finite number that is not negative, not {rate!r}")
    manifold = group["manifold"]
    if manifold is not None and not isinstance(manifold, Manifold):
        raise TypeError(f"manifold must be a retrax manifold such as rx.Stiefel(64, 16), not {manifold!r}")
    for name, allowed in (("decay", (True, False)), ("maximize", (True, False)), ("foreach", (True, False, None))):
        if not any(group[name] is value for value in allowed):
            raise ValueError(f"{name} must be {' or '.join(map(repr, allowed))}, not {group[name]!r}")
    for name, value in group.items():
        if name not in _COMMON_OPTIONS | _OWN_KEYS and not isinstance(value, numbers.Real | str):
            raise TypeError(f"{name} must be a number, so that it can be saved in a state_dict; found {value!r}")
