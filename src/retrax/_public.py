"""The public functions and classes, gathered; `retrax` takes them from here when one is first used."""

# ruff: noqa: F401
from retrax._cache import cache
from retrax._tree import pytree, static
from retrax.checkpoint import Checkpoint
from retrax.checks import check_gradient, check_retraction, check_transport
from retrax.manifolds import (
    SPD,
    Euclidean,
    FixedRank,
    GeneralizedStiefel,
    Grassmann,
    Lorentz,
    Manifold,
    Oblique,
    PoincareBall,
    Positive,
    Power,
    Product,
    Rotations,
    Simplex,
    SpecialOrthogonal,
    Sphere,
    Stiefel,
    Symmetric,
    validated,
)
from retrax.methods import (
    Method,
    crmsprop,
    csgd_m,
    mars,
    nrdog,
    radam,
    ramsgrad,
    rasa,
    rdog,
    rdowg,
    rsgd,
    rspider,
    rsrg,
    rsrm,
    rsvrg,
    storm_plus,
)
from retrax.minimizing import minimize
from retrax.problems import Problem
from retrax.recording import History, InterruptedRun, Record, Result, Status, TerminatedRun
from retrax.run import Run
from retrax.sources import Pushed, Stream
from retrax.sweeping import Sweep, sweep
