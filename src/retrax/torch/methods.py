"""The optimizers by name. Each is a recipe of `retrax.methods` with torch's signature; the formulas are there."""

import dataclasses
from collections.abc import Callable
from typing import Any

from retrax import methods, schedules
from retrax.torch.optimizer import Parameters, RiemannianOptimizer


def _rsrm(learning_rate: Any, rho: float | str, rho_decay: bool, step_size: str) -> methods.Method:
    if step_size not in ("auto", "schedule"):
        raise ValueError(f"step_size must be 'auto' or 'schedule', not {step_size!r}")
    if isinstance(rho, str) and rho != "auto":
        raise ValueError(f"rho must be a number between 0 and 1, or 'auto', not {rho!r}")
    own = step_size == "auto" and schedules.is_number(learning_rate)
    constant = schedules.is_number(rho) and not rho_decay
    return methods.rsrm(None if own else learning_rate, schedules.constant(float(rho)) if constant else rho)


def _ramsgrad(learning_rate: Any, momentum: float, beta: float, epsilon: float) -> methods.Method:
    return _unbiased(methods.ramsgrad(learning_rate, momentum, beta, epsilon))


def _radam(learning_rate: Any, momentum: float, beta: float, epsilon: float) -> methods.Method:
    return _unbiased(methods.radam(learning_rate, momentum, beta, epsilon))


def _crmsprop(learning_rate: Any, beta: float, epsilon: float) -> methods.Method:
    return _unbiased(methods.crmsprop(learning_rate, beta, epsilon))


def _unbiased(method: methods.Method) -> methods.Method:
    """With second moments divided by their weight: a β of 0.999 is else a first step 32 times as long as the rest."""
    return dataclasses.replace(method, scaling=dataclasses.replace(method.scaling, unbiased=True))


def _untuned(recipe: Callable[..., methods.Method]) -> Callable[..., methods.Method]:
    """A recipe without a learning rate, as one with: a number stands for the method's own step size."""

    def with_rate(learning_rate: Any, **options: Any) -> methods.Method:
        method = recipe(**options)
        return method if schedules.is_number(learning_rate) else dataclasses.replace(method, step_size=learning_rate)

    return with_rate


class RSRM(RiemannianOptimizer):
    """Riemannian stochastic recursive momentum (Han & Gao 2021): variance reduction without large batches.

    Not for networks: there a second gradient of a sample buys less than a fresh sample (the table in docs/torch.md);
    `RDoG`, `MARS` and `RADAM` train them better. RSRM is for statistics on manifolds: smooth losses, many samples.

    d_t = grad f_S(x_t) + (1 - ρ_t) T(d_{t-1} - grad f_S(x_{t-1})), ρ_t = ρ₀ t^(-2/3), η_t = lr · t^(-1/3).
    Without `lr` each parameter finds its own step size from the gradients seen, and without `rho` then its own ρ_t too
    (`rx.rsrm()`); `lr` in the groups is 1 then, a factor that schedulers may change. With `lr` and no `rho`, ρ₀ = 0.1.
    `step(closure)` calls the closure at x_{t-1} and at x_t, on the same batch. The first step is a plain gradient step
    on whatever batch the closure sees; the paper gives it a larger one. `rho_decay=False` keeps ρ_t = ρ₀: networks,
    whose gradients are not smooth, need a ρ that does not vanish.
    """

    recipe = staticmethod(_rsrm)

    def __init__(
        self,
        params: Parameters,
        lr: float | None = None,
        rho: float | str | None = None,
        rho_decay: bool = True,
        **common: Any,
    ) -> None:
        if rho is None:
            rho = "auto" if lr is None else 0.1
        common.setdefault("step_size", "auto" if lr is None else "schedule")
        super().__init__(params, 1.0 if lr is None else lr, rho=rho, rho_decay=rho_decay, **common)


class MARS(RiemannianOptimizer):
    """Recursive momentum from one gradient a step (Yuan, Liu, Wu, Zhou & Gu 2024), on manifolds; η_t = lr · t^(-1/2).

    d_t = (1 - ρ) T d_{t-1} + ρ g_t + γ (1 - ρ)(g_t - T g_{t-1}): RSRM with the gradient of the step before, on its own
    batch, in place of a second evaluation. No closure needed.
    """

    recipe = staticmethod(methods.mars)

    def __init__(self, params: Parameters, lr: float, rho: float = 0.05, gamma: float = 0.025, **common: Any) -> None:
        super().__init__(params, lr, rho=rho, gamma=gamma, **common)


class RSGD(RiemannianOptimizer):
    """Riemannian SGD (Bonnabel 2013): x_{t+1} = R(-η_t grad f_S(x_t)), η_t = lr · t^(-1/2). The baseline."""

    recipe = staticmethod(methods.rsgd)

    def __init__(self, params: Parameters, lr: float, **common: Any) -> None:
        super().__init__(params, lr, **common)


class CSGDM(RiemannianOptimizer):
    """SGD with transported momentum (Kumar Roy, Mhammedi & Harandi 2018); η_t = lr · t^(-1/2).

    d_t = β T d_{t-1} + (1-β) grad f_S(x_t), begun with the first gradient.
    The default momentum is the usual one; `retrax.csgd_m` has what the RSRM paper prints, 0.999.
    """

    recipe = staticmethod(methods.csgd_m)

    def __init__(self, params: Parameters, lr: float, momentum: float = 0.9, **common: Any) -> None:
        super().__init__(params, lr, momentum=momentum, **common)


class CRMSProp(RiemannianOptimizer):
    """RMSProp's scaling entry by entry in the ambient space, then projection; η_t = lr · t^(-1/2).

    β = 0.999 and moments divided by their weight, as in Adam; `retrax.crmsprop` has the paper's 0.9, undivided.
    """

    recipe = staticmethod(_crmsprop)

    def __init__(
        self, params: Parameters, lr: float, beta: float = 0.999, epsilon: float = 1e-8, **common: Any
    ) -> None:
        super().__init__(params, lr, beta=beta, epsilon=epsilon, **common)


class RAMSGrad(RiemannianOptimizer):
    """RAMSGRAD (Bécigneul & Ganea 2019): momentum over the running maximum of the averaged ‖grad f_S‖², one number per
    parameter; η_t = lr · t^(-1/2).

    Momentum and β as in Adam, and moments divided by their weight; `retrax.ramsgrad` has what the RSRM paper prints.
    """

    recipe = staticmethod(_ramsgrad)

    def __init__(
        self,
        params: Parameters,
        lr: float,
        momentum: float = 0.9,
        beta: float = 0.999,
        epsilon: float = 1e-8,
        **common: Any,
    ) -> None:
        super().__init__(params, lr, momentum=momentum, beta=beta, epsilon=epsilon, **common)


class RADAM(RiemannianOptimizer):
    """RADAM (Bécigneul & Ganea 2019): as RAMSGrad, with the averaged ‖grad f_S‖² itself instead of its maximum."""

    recipe = staticmethod(_radam)

    def __init__(
        self,
        params: Parameters,
        lr: float,
        momentum: float = 0.9,
        beta: float = 0.999,
        epsilon: float = 1e-8,
        **common: Any,
    ) -> None:
        super().__init__(params, lr, momentum=momentum, beta=beta, epsilon=epsilon, **common)


class RASA(RiemannianOptimizer):
    """RASA (Kasai, Jawanpuria & Mishra 2019): adapts the row ("L") and column ("R") subspaces of matrices.

    A vector is scaled entry by entry, a kernel of a convolution along its last two axes; η_t = lr · t^(-1/2).
    """

    recipe = staticmethod(methods.rasa)

    def __init__(
        self,
        params: Parameters,
        lr: float,
        sides: str = "LR",
        beta: float = 0.9,
        epsilon: float = 1e-8,
        **common: Any,
    ) -> None:
        super().__init__(params, lr, sides=sides, beta=beta, epsilon=epsilon, **common)


class RSVRG(RiemannianOptimizer):
    """RSVRG (Zhang, Reddi & Sra 2016): d_t = grad f_S(x_t) - T(grad f_S(x̄) - ḡ); constant step size.

    `restart(full_closure)` makes the current point the anchor x̄ with its gradient ḡ: call it once per pass over the
    data. Between restarts `step(closure)` calls the closure at x̄ and at x_t.
    """

    recipe = staticmethod(methods.rsvrg)

    def __init__(self, params: Parameters, lr: float, **common: Any) -> None:
        super().__init__(params, lr, **common)


class RSRG(RiemannianOptimizer):
    """RSRG (Kasai, Sato & Mishra 2018): RSRM with ρ ≡ 0 and a constant step size.

    `restart(full_closure)` begins the estimate anew: call it once per pass over the data.
    """

    recipe = staticmethod(methods.rsrg)

    def __init__(self, params: Parameters, lr: float, **common: Any) -> None:
        super().__init__(params, lr, **common)


class RDoG(RiemannianOptimizer):
    """RDoG (Dodd, Sharrock & Nemeth 2024): distance from the start over the root of the summed squared gradients.

    Each parameter has a distance and a step size of its own. lr multiplies the step size; the method's own is 1. An
    average of the iterates is better than the last one (docs/torch.md). `initial_distance` is larger than that of
    `retrax.rdog`, 1e-6: it was chosen on a network (docs/torch.md).
    """

    recipe = staticmethod(_untuned(methods.rdog))

    def __init__(
        self,
        params: Parameters,
        lr: float = 1.0,
        initial_distance: float = 1e-4,
        curvature: float = 0.0,
        **common: Any,
    ) -> None:
        super().__init__(params, lr, initial_distance=initial_distance, curvature=curvature, **common)


class RDoWG(RDoG):
    """RDoWG (Dodd, Sharrock & Nemeth 2024): as RDoG, with gradients weighted by the squared distance."""

    recipe = staticmethod(_untuned(methods.rdowg))


class NRDoG(RDoG):
    """NRDoG (Dodd, Sharrock & Nemeth 2024): RDoG on gradients of unit length."""

    recipe = staticmethod(_untuned(methods.nrdog))


class StormPlus(RiemannianOptimizer):
    """STORM+ (Levy, Kavis & Cevher 2021) with transports: momentum weight and step size from the gradients seen.

    Each parameter has its own. `step(closure)` calls the closure at x_{t-1} and at x_t, on the same batch. lr
    multiplies the step size; the method's own is 1.
    """

    recipe = staticmethod(_untuned(methods.storm_plus))

    def __init__(self, params: Parameters, lr: float = 1.0, **common: Any) -> None:
        super().__init__(params, lr, **common)
