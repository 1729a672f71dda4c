"""The transformations by name: each takes what its recipe in `retrax.methods` takes, and `manifolds=`."""

import functools
from collections.abc import Callable
from typing import Any

from retrax import methods
from retrax.optax.transformation import Transformation, transform


def _transformation_of(recipe: Callable[..., methods.Method]) -> Callable[..., Transformation]:
    @functools.wraps(recipe)
    def make(*arguments: Any, manifolds: Any = None, **options: Any) -> Transformation:
        return transform(recipe(*arguments, **options), manifolds)

    make.__annotations__ = {**recipe.__annotations__, "manifolds": Any, "return": Transformation}
    del make.__wrapped__  # the signature is ours: it has `manifolds`
    return make


crmsprop = _transformation_of(methods.crmsprop)
csgd_m = _transformation_of(methods.csgd_m)
mars = _transformation_of(methods.mars)
nrdog = _transformation_of(methods.nrdog)
radam = _transformation_of(methods.radam)
ramsgrad = _transformation_of(methods.ramsgrad)
rasa = _transformation_of(methods.rasa)
rdog = _transformation_of(methods.rdog)
rdowg = _transformation_of(methods.rdowg)
rsgd = _transformation_of(methods.rsgd)
rspider = _transformation_of(methods.rspider)
rsrg = _transformation_of(methods.rsrg)
rsrm = _transformation_of(methods.rsrm)
rsvrg = _transformation_of(methods.rsvrg)
storm_plus = _transformation_of(methods.storm_plus)
