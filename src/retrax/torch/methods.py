"""The optimizers by name. Each is a recipe of `retrax.methods` with torch's signature; the formulas are there."""

import dataclasses
from collections.abc import Callable
from typing import Any

from retrax import methods, schedules
from retrax.torch.optimizer import Parameters, RiemannianOptimizer


def _rsrm(learning_rate: Any, rho: float, rho_decay: bool) -> methods.Method:
    return methods.rsrm(learning_rate, rho if rho_decay else schedules.constant(rho))


def _untuned(recipe: Callable[..., methods.Method]) -> Callable[..., methods.Method]:
    """A recipe without a learning rate, as one with: a number stands for the method's own step size."""

    def with_rate(learning_rate: Any, **options: Any) -> methods.Method:
        method = recipe(**options)
        return method if schedules.is_number(learning_rate) else dataclasses.replace(method, step_size=learning_rate)

    return with_rate


class RSRM(RiemannianOptimizer):
    """Riemannian stochastic recursive momentum (Han & Gao 2021): variance reduction without large batches.

    d_t = grad f_S(x_t) + (1 - ρ_t) T(d_{t-1} - grad f_S(x_{t-1})), ρ_t = ρ₀ t^(-2/3), η_t = lr · t^(-1/3).
    `step(closure)` calls the closure at x_{t-1} and at x_t, on the same batch. The first step is a plain gradient step
    on whatever batch the closure sees; the paper gives it a larger one. `rho_decay=False` keeps ρ_t = ρ₀: networks,
    whose gradients are not smooth, need a ρ that does not vanish.
    """

    recipe = staticmethod(_rsrm)

    def __init__(self, params: Parameters, lr: float, rho: float = 0.1, rho_decay: bool = True, **common: Any) -> None:
        super().__init__(params, lr, rho=rho, rho_decay=rho_decay, **common)


class RSGD(RiemannianOptimizer):
    """Riemannian SGD (Bonnabel 2013): x_{t+1} = R(-η_t grad f_S(x_t)), η_t = lr · t^(-1/2). The baseline."""

    recipe = staticmethod(methods.rsgd)

    def __init__(self, params: Parameters, lr: float, **common: Any) -> None:
        super().__init__(params, lr, **common)


class CSGDM(RiemannianOptimizer):
    """SGD with transported momentum (Kumar Roy, Mhammedi & Harandi 2018); η_t = lr · t^(-1/2).

    d_t = β T d_{t-1} + (1-β) grad f_S(x_t), begun with the first gradient.
    As in `retrax.csgd_m` the default momentum is what the RSRM paper prints; 0.9 is the usual choice and often better.
    """

    recipe = staticmethod(methods.csgd_m)

    def __init__(self, params: Parameters, lr: float, momentum: float = 0.999, **common: Any) -> None:
        super().__init__(params, lr, momentum=momentum, **common)


class CRMSProp(RiemannianOptimizer):
    """RMSProp's scaling entry by entry in the ambient space, then projection; η_t = lr · t^(-1/2)."""

    recipe = staticmethod(methods.crmsprop)

    def __init__(self, params: Parameters, lr: float, beta: float = 0.9, epsilon: float = 1e-8, **common: Any) -> None:
        super().__init__(params, lr, beta=beta, epsilon=epsilon, **common)


class RAMSGrad(RiemannianOptimizer):
    """RAMSGRAD (Bécigneul & Ganea 2019): momentum over the running maximum of the averaged ‖grad f_S‖², one number per
    parameter; η_t = lr · t^(-1/2).

    As in `retrax.ramsgrad` the defaults are what the RSRM paper prints, the reverse of Adam's habit.
    """

    recipe = staticmethod(methods.ramsgrad)

    def __init__(
        self,
        params: Parameters,
        lr: float,
        momentum: float = 0.999,
        beta: float = 0.9,
        epsilon: float = 1e-8,
        **common: Any,
    ) -> None:
        super().__init__(params, lr, momentum=momentum, beta=beta, epsilon=epsilon, **common)


class RADAM(RiemannianOptimizer):
    """RADAM (Bécigneul & Ganea 2019): as RAMSGrad, with the averaged ‖grad f_S‖² itself instead of its maximum."""

    recipe = staticmethod(methods.radam)

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

    Every parameter must be a matrix; η_t = lr · t^(-1/2).
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

    Each parameter has a distance and a step size of its own. lr multiplies the step size; the method's own is 1.
    """

    recipe = staticmethod(_untuned(methods.rdog))

    def __init__(
        self,
        params: Parameters,
        lr: float = 1.0,
        initial_distance: float = 1e-6,
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
