"""
A study with Optuna
===================

Method and step size as parameters of an Optuna study, with runs given up early where they promise nothing; and beside
it ``rsrm()``, which has nothing to study.
"""

# %%
import time

import matplotlib.pyplot as plt
import optuna
from sklearn.datasets import load_digits

import retrax as rx

optuna.logging.set_verbosity(optuna.logging.WARNING)
X = load_digits().data / 16
problem = rx.problems.PCA(X - X.mean(axis=0), rank=5)
METHODS = {"rsgd": rx.rsgd, "csgd_m": lambda rate: rx.csgd_m(rate, momentum=0.9), "rsrm": rx.rsrm}
SFO = 20_000

# %%
# ``on_record`` reports to the trial, and a true answer stops the run. The budget is in gradients, so that methods
# that evaluate two points take half as many steps.


def objective(trial: optuna.Trial) -> float:
    """The gap at the end."""
    method = METHODS[trial.suggest_categorical("method", list(METHODS))](trial.suggest_float("rate", 1e-3, 3, log=True))

    def report(step: int, metrics: dict[str, float]) -> bool:
        trial.report(metrics["gap"], int(metrics["sfo"]))
        return trial.should_prune()

    result = rx.minimize(
        problem, method, steps=SFO // (5 * method.evaluations), record=rx.Record(points=10), on_record=report
    )
    if result.status is rx.Status.STOPPED:
        raise optuna.TrialPruned
    return float(result.history["gap"][-1])


study = optuna.create_study(
    sampler=optuna.samplers.TPESampler(seed=0), pruner=optuna.pruners.MedianPruner(n_startup_trials=5)
)
begun = time.perf_counter()
study.optimize(objective, n_trials=30)
print(f"30 trials in {time.perf_counter() - begun:.1f} s: {study.best_params}, gap {study.best_value:.2e}")

# %%
# The comparison: one run that was told nothing.
untuned = rx.minimize(problem, rx.rsrm(), steps=SFO // 10)
print(f"rsrm(), one run: gap {untuned.history['gap'][-1]:.2e}")

# %%
figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
for name in METHODS:
    done = [t for t in study.trials if t.params["method"] == name and t.value is not None]
    axes.scatter([t.params["rate"] for t in done], [t.value for t in done], label=name)
axes.axhline(untuned.history["gap"][-1], linestyle=":", color="black", label="rsrm(), one run")
axes.set(xscale="log", yscale="log", xlabel="step size", ylabel="gap at the end")
axes.legend()
plt.show()
