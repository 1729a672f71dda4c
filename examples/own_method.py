"""
A method of your own
====================

A method is an estimator, a scaling and a step size. Two things that the library does not have, in a few lines each:
gradients that are clipped, and RSRM's estimator with RASA's scaling, which is one expression.
"""

# %%
# A scaling is a class with ``init`` and ``apply``; its numbers are data to the compiler, so a sweep over them
# compiles once.
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import retrax as rx


@rx.pytree
class Clipped:
    """d min(1, c/‖d‖), where c is a multiple of the running mean of ‖d‖."""

    multiple: float = 1.0
    beta: float = 0.95

    def init(self, manifold: Any, x: Any) -> Any:
        """No mean yet."""
        return manifold.norm(x, 0 * x)

    def apply(self, manifold: Any, x: Any, estimate: Any, memory: Any) -> tuple[Any, Any]:
        """(the clipped direction, the new mean)."""
        norm = manifold.norm(x, estimate.direction)
        mean = memory + (1 - self.beta) * (norm - memory)
        shorter = (self.multiple * mean / (norm + 1e-30)).clip(max=1.0)
        return shorter * estimate.direction, mean


def clipped(learning_rate: float) -> rx.Method:
    """RSGD with clipped gradients."""
    return rx.Method(rx.estimators.Plain(), Clipped(), rx.schedules.power(learning_rate, -1 / 2), name="clipped RSGD")


def adapted(learning_rate: float) -> rx.Method:
    """RSRM's estimator, RASA's scaling."""
    return rx.rsrm(learning_rate, scaling=rx.scalings.RASA(beta=0.9, epsilon=1e-8, sides="L"))


# %%
# The comparison is a sweep: every step size of a grid and three seeds for each method, and the best step size of
# each. ``rsrm()`` has none, and runs once for each seed.
X = load_digits().data / 16
problem = rx.problems.PCA(X - X.mean(axis=0), rank=5)
STEPS, RATES = 2000, [3.0, 1.0, 0.3, 0.1, 0.03, 0.01]
swept = rx.sweep(
    problem,
    {"RSGD": rx.rsgd, "clipped RSGD": clipped, "RSRM": rx.rsrm, "RSRM with RASA": adapted},
    learning_rates=RATES,
    seeds=3,
    steps=STEPS,
)
for name, one in swept.items():
    edge = " (the edge of the grid)" if one.best_learning_rate in (RATES[0], RATES[-1]) else ""
    print(f"{name:16s} step size {one.best_learning_rate:g}{edge}: gap {np.median(one.final[one.best]):.2e}")
untuned = [rx.minimize(problem, rx.rsrm(), steps=STEPS, seed=seed).history for seed in range(3)]
print(f"{'rsrm()':16s} nothing tuned: gap {np.median([h['gap'][-1] for h in untuned]):.2e}")

# %%
# Neither is an improvement here: gradients of digits are tame, and a combination is not better for being new. That is
# what such a comparison is for.
figure, axes = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
for name, one in swept.items():
    low, middle, high = one.quartiles("gap")
    axes.plot(one.sfo, middle, label=name)
    axes.fill_between(one.sfo, low, high, alpha=0.2)
axes.plot(untuned[0]["sfo"], np.median([h["gap"] for h in untuned], axis=0), "--", label="rsrm(), untuned")
axes.set(xlabel="gradients of samples", ylabel="gap", yscale="log", title="PCA of digits, rank 5")
axes.legend(fontsize="small")
plt.show()
