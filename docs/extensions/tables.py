"""The two tables of the reference, made from the code: what a method consists of and costs, what a manifold offers."""

import inspect
import re
from typing import Any

import jax
import numpy as np

import retrax as rx
from retrax import methods as recipes
from retrax.manifolds.base import ArrayManifold
from retrax.schedules import Schedule

METHODS = ["rsrm", "rsgd", "csgd_m", "crmsprop", "ramsgrad", "radam", "rasa", "mars", "rsvrg", "rsrg", "rspider"]
METHODS += ["rdog", "rdowg", "nrdog", "storm_plus"]

_CITED = re.compile(r"((?:[A-ZÀ-Ž][\w-]+(?:, | & | ))+)\(?((?:19|20)\d\d)\)?")

EXAMPLES: dict[str, Any] = {
    "Euclidean": lambda: rx.Euclidean(3),
    "Sphere": lambda: rx.Sphere(3),
    "Oblique": lambda: rx.Oblique(3, 2),
    "Stiefel": lambda: rx.Stiefel(3, 2),
    "GeneralizedStiefel": lambda: rx.GeneralizedStiefel(3, 2),
    "Grassmann": lambda: rx.Grassmann(3, 2),
    "SpecialOrthogonal": lambda: rx.SpecialOrthogonal(3),
    "FixedRank": lambda: rx.FixedRank(4, 3, 2),
    "SPD, affine-invariant": lambda: rx.SPD(3),
    "SPD, log-euclidean": lambda: rx.SPD(3, metric="log-euclidean"),
    "SPD, bures-wasserstein": lambda: rx.SPD(3, metric="bures-wasserstein"),
    "Symmetric": lambda: rx.Symmetric(3),
    "Positive": lambda: rx.Positive(3),
    "Simplex": lambda: rx.Simplex(3),
    "PoincareBall": lambda: rx.PoincareBall(3),
    "Lorentz": lambda: rx.Lorentz(3),
    "Power": lambda: rx.Power(rx.Sphere(3), 2),
    "Product": lambda: rx.Product((rx.Sphere(3), rx.Stiefel(3, 2))),
}

COSTS = {  # of one step's geometry by the default retraction and transport, in the manifold's own sizes
    "Euclidean": "d",
    "Sphere": "d",
    "Oblique": "dk",
    "Stiefel": "dr² + r³",
    "GeneralizedStiefel": "d²r + r³",
    "Grassmann": "dr² + r³",
    "SpecialOrthogonal": "n³",
    "FixedRank": "(m + n)k² + k³",
    "SPD, affine-invariant": "d³",
    "SPD, log-euclidean": "d³",
    "SPD, bures-wasserstein": "d³",
    "Symmetric": "d²",
    "Positive": "d",
    "Simplex": "d",
    "PoincareBall": "d",
    "Lorentz": "d",
    "Power": "the manifold's, for each point",
    "Product": "the sum of its factors'",
}


def table(header: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def example_of(name: str) -> Any:
    """The method that a recipe makes, with a step size of 0.1 where it wants one."""
    recipe = getattr(rx, name)
    needed = [p for p in inspect.signature(recipe).parameters.values() if p.default is inspect.Parameter.empty]
    return recipe(*([0.1] * len(needed)))


def methods() -> str:
    """Estimator × scaling × step size, cost and reference of every recipe."""
    head = ["method", "estimator", "scaling", "step size", "SFO of a step", "large batches", "memory", "reference"]
    rows = [[f"`rx.{name}`", *_parts(example_of(name)), reference(name)] for name in METHODS]
    rows.insert(1, ["`rx.rsrm(0.1)`", *_parts(rx.rsrm(0.1)), reference("rsrm")])
    return table(head, rows)


def _parts(method: recipes.Method) -> list[str]:
    size = method.step_size
    exponent = getattr(size, "exponent", None)
    step = type(size).__name__ if not isinstance(size, Schedule) else f"η₀ t^({_fraction(exponent)})"
    large = {None: "none", "all": "all the data"}.get(method.first_batch_size, str(method.first_batch_size))
    often = {None: ", once", "epoch": ", each epoch"}.get(method.restart_every, f", every {method.restart_every} steps")
    return [
        f"`{type(method.estimator).__name__}`",
        f"`{type(method.scaling).__name__}`",
        f"`{step}`" if not isinstance(size, Schedule) else step.replace("η₀ t^(0)", "constant"),
        "b" if method.evaluations == 1 else f"{method.evaluations}b",
        large if large == "none" else large + often,
        f"{memory(method):.3g} points",
    ]


def _fraction(exponent: float | None) -> str:
    return {-1 / 2: "-1/2", -1 / 3: "-1/3", 0.0: "0", None: "0"}[exponent]


def memory(method: recipes.Method, d: int = 100, r: int = 10) -> float:
    """Numbers that are carried from step to step besides the iterate, in points of Grassmann(100, 10)."""
    manifold = rx.Grassmann(d, r)
    point = jax.ShapeDtypeStruct((d, r), np.float32)
    state = jax.eval_shape(lambda x: method.init(manifold, x), point)
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(state)) / (d * r)


def reference(name: str) -> str:
    """The papers that a recipe's docstring names."""
    text = " ".join((inspect.getdoc(getattr(rx, name)) or "").split())
    return "; ".join(f"{who.strip(' ,')} ({year})" for who, year in _CITED.findall(text))


def manifolds() -> str:
    """Retractions and transports of every manifold; the first of each is the default, ★ is isometric."""
    rows = []
    for name, make in EXAMPLES.items():
        manifold = make()
        if isinstance(manifold, ArrayManifold):
            star = {True: " ★", False: ""}
            retractions = ", ".join(manifold.retractions)
            transports = ", ".join(key + star[one.isometric] for key, one in manifold.transports.items())
        else:
            retractions = transports = "the manifold's" if name == "Power" else "factor by factor"
        others = ", ".join(f"`{one}`" for one in ("exp", "log", "distance") if hasattr(manifold, one))
        rows.append([f"`{name}`", retractions, transports, others or "none", COSTS[name]])
    return table(["manifold", "retractions", "transports", "also has", "cost of a step, order of"], rows)
