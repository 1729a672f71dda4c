"""Recursive momentum that finds its own gain ρ, as a Kalman filter, and knows whether its direction is worth a step."""

from typing import Any, ClassVar, NamedTuple

from retrax import _linalg
from retrax._tree import combine, pytree, subtract
from retrax.estimators.base import Estimate, Squares, zeros
from retrax.manifolds.base import Manifold, plus
from retrax.typing import Anchored, Array, Oracle, Point, Step, Tangent


class GainMemory(NamedTuple):
    """What the filter knows before the next batch is drawn."""

    error: Array
    """e², the expected ‖d - grad F‖²."""
    variance: Array
    """v, the variance of one sample's gradient; a batch of n has σ² = v/n."""
    smoothness: Array
    """L̂², the running mean of ‖Δ‖² / ‖step‖²."""
    share: Array
    """φ, the share of the noise that lies along d."""
    moves: Array
    """Steps that moved, as a floating number."""
    rho: Array
    """ρ of the last update."""


@pytree
class AutomaticMomentum:
    """d_t = T d_{t-1} + Δ_t + ρ_t i_t: RSRM's estimator with the gain ρ_t that leaves the smallest expected error.

    On a step that moved, Δ = grad f_S(x_t) - T grad f_S(x_{t-1}) on one batch S of n samples and the innovation is
    i = grad f_S(x_t) - T d - Δ, which is line 5 of Algorithm 1. With e² the expected squared error of d,
    s² = L̂² ‖step‖² that of Δ and σ² = v/n that of the batch, ρ = (e² + s²) / (e² + s² + σ²), and then e² = ρ σ². All
    of them are known before S is drawn, as the proof of Lemma 1 asks; L̂², v and φ are running means of
    ‖Δ‖²/‖step‖², of n max(0, ‖i‖² - e² - s²) and of cos²∠(i, T d).

    The direction is worth a step if ‖d‖² ≥ e² min(`tolerated`, `significance` φ): either the decrease that d promises
    exceeds √`significance` of its standard deviations, or d is long beside its error. If not, the point stays,
    Δ = s = 0, and all evaluations go to fresh samples (n is twice as large): at rest the error falls as a mean's does.

    A step draws twice the batch size, and uses the second half only at rest. Cost: 2b SFO a step, moving or not.
    """

    significance: float = 3.0
    tolerated: float = 0.1
    weight: float = 0.01
    evaluations: ClassVar[int] = 2
    keeps_last: ClassVar[bool] = True

    def draws(self, batch_size: int) -> int:
        """Fresh samples for a step at rest, beside those of a pair."""
        return 2 * batch_size

    def cost(self, drawn: int) -> int:
        """A pair on half of the samples, or each of them once."""
        return drawn

    def init(self, manifold: Manifold, x: Point) -> GainMemory:
        """Nothing known."""
        return GainMemory(*(zeros(manifold, x),) * 6)

    def second_point(self, last: Step, memory: GainMemory) -> Point:
        """x_{t-1}."""
        return last.point

    def reset(self, manifold: Manifold, oracle: Oracle, x: Point) -> tuple[Estimate, GainMemory]:
        """d = grad f_S(x); two halves of S tell its error. A batch that cannot be divided may be all noise."""
        nothing = zeros(manifold, x)
        halves = oracle.parts(oracle.size // 2)
        if halves is None:
            direction = oracle(x)
            error = manifold.inner(x, direction, direction)
        else:
            first, second = halves[0](x), halves[1](x)
            share = halves[0].size / oracle.size
            direction = combine(share, first, 1 - share, second)
            difference = subtract(first, second)
            error = manifold.inner(x, difference, difference) / 4
        memory = GainMemory(error, oracle.size * error, nothing, 0.1 + nothing, nothing, 1 + nothing)
        moves = self._moves(manifold.inner(x, direction, direction), memory)
        return Estimate(direction, direction, moves=moves), memory

    def update(
        self, manifold: Manifold, oracle: Oracle, x: Point, last: Step, memory: GainMemory, t: Any
    ) -> tuple[Estimate, GainMemory]:
        """One step of the filter."""
        moved = last.size > 0
        pair = _evaluated(oracle, x, last.point, moved)
        carried, carried_gradient = (manifold.transport(last.point, x, u) for u in (last.vector, pair.elsewhere))
        difference = subtract(pair.gradient, carried_gradient)
        moving = _linalg.namespace(moved).where(moved, 1 + 0 * memory.error, 0 * memory.error)
        # Moving, i = T g(x_{t-1}) - T d; at rest, the mean over both halves less T d.
        correction = subtract(carried_gradient, carried)
        fresh = (1 - moving) * (pair.others / (pair.samples + pair.others))
        products = manifold.gram(x, (carried, difference, correction))
        seen = _Seen(
            moving=moving,
            samples=pair.samples + (1 - moving) * pair.others,
            length=last.size**2 * products[..., 0, 0],
            carried=products[..., 0, 0],
            difference=products[..., 1, 1],
            innovation=_quadratic(products, (0, fresh, 1), (0, fresh, 1)),
            along=_quadratic(products, (1, 0, 0), (0, fresh, 1)),
        )
        memory = self._filtered(seen, memory, t)
        # T d + Δ + ρ i, in terms of these three.
        weights = (1, moving + memory.rho * fresh, memory.rho)
        direction = plus(manifold, plus(manifold, carried, weights[1], difference), weights[2], correction)
        squares = Squares(
            difference=seen.difference,
            gradient=_quadratic(products, (1, 1, 1), (1, 1, 1)),
            direction=_quadratic(products, weights, weights),
        )
        estimate = Estimate(
            direction,
            pair.gradient,
            Anchored(last.point, pair.elsewhere),
            pair.samples,
            one_step_back=True,
            moves=self._moves(squares.direction, memory),
            squares=squares,
        )
        return estimate, memory

    def _filtered(self, seen: "_Seen", memory: GainMemory, t: Any) -> GainMemory:
        """The gain from what was known before the batch, and then what the batch has told."""
        xp = _linalg.namespace(memory.error)
        known = memory.smoothness > 0
        noise = seen.moving * xp.where(known, memory.smoothness * seen.length, seen.difference)  # s²
        expected = memory.error + noise
        rho = expected / _linalg.positive(expected + memory.variance / seen.samples)

        moves = memory.moves + seen.moving
        faster = seen.moving * _linalg.at_least(2 / (moves + 1), self.weight)
        slower = _linalg.at_least(1 / (t + 10) + 0 * memory.error, self.weight)
        excess = seen.samples * _linalg.at_least(seen.innovation - expected, 0.0)
        cosine = seen.along**2 / _linalg.positive(seen.innovation * seen.carried)
        return GainMemory(
            error=rho * memory.variance / seen.samples,
            variance=memory.variance + slower * (excess - memory.variance),
            smoothness=memory.smoothness
            + faster * (seen.difference / _linalg.positive(seen.length) - memory.smoothness),
            share=memory.share + slower * (cosine - memory.share),
            moves=moves,
            rho=rho,
        )

    def _moves(self, squared: Array, memory: GainMemory) -> Array:
        """Whether a direction with ‖d‖² = `squared` is worth a step; the first ten are, to learn the smoothness."""
        xp = _linalg.namespace(memory.error)
        bound = self.significance * memory.share
        bound = xp.where(bound < self.tolerated, bound, self.tolerated + 0 * bound)
        return (squared >= memory.error * bound) | (memory.moves < 10)

    def info(self, memory: GainMemory, t: Any) -> dict[str, Array]:
        """ρ, and e as "estimated_error"."""
        return {"rho": memory.rho, "estimated_error": _linalg.safe_sqrt(memory.error)}


class _Seen(NamedTuple):
    """What a step has shown: squared norms, an inner product, and how many samples it is from."""

    moving: Array
    """1 where the step moved, 0 at rest."""
    samples: Array
    length: Array
    """‖step‖², taken as η² ‖T d‖²."""
    carried: Array
    """‖T d‖²."""
    difference: Array
    """‖Δ‖²."""
    innovation: Array
    """‖i‖²."""
    along: Array
    """⟨i, T d⟩."""


class _Pair(NamedTuple):
    """Gradients at x_t and at x_{t-1}: on the same samples after a move, on others at rest."""

    gradient: Tangent
    elsewhere: Tangent
    samples: int
    """Evaluated at x_t."""
    others: int
    """At rest, further samples evaluated at x_{t-1} = x_t."""


def _evaluated(oracle: Oracle, x: Point, y: Point, moved: Array) -> _Pair:
    """Both gradients; a batch that cannot be divided serves as a pair in any case."""
    halves = oracle.parts(oracle.size // 2)
    if halves is None:
        return _Pair(*oracle.pair(x, y), oracle.size, 0)
    first, second = halves
    return _Pair(first(x), first.or_else(moved, second)(y), first.size, second.size)


def _quadratic(products: Array, first: tuple[Any, ...], second: tuple[Any, ...]) -> Array:
    """⟨Σ aᵢ uᵢ, Σ bⱼ uⱼ⟩ from the inner products of the u's; weights that are the number 0 are left out."""
    pairs = [(i, j) for i in range(3) for j in range(3) if not (_is_zero(first[i]) or _is_zero(second[j]))]
    return sum(first[i] * second[j] * products[..., i, j] for i, j in pairs)


def _is_zero(weight: Any) -> bool:
    return isinstance(weight, int) and weight == 0
