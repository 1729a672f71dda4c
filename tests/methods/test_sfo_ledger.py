"""The SFO count is arithmetic; here every gradient that is really taken is counted, sample by sample."""

import jax
import numpy as np
import pytest

import retrax as rx

from .small_problems import METHODS, SAMPLES, case, pca_gradient


class Counter:
    """An ambient gradient that counts the samples it is asked about, and where."""

    def __init__(self):
        self.samples = 0

    def __call__(self, x, batch):
        if isinstance(batch, jax.core.Tracer):  # a look at shapes, not a call
            return jax.numpy.zeros(x.shape, x.dtype)
        self.samples += batch.shape[0]
        return pca_gradient(np.asarray(x), np.asarray(batch))


def counted_run(method, **options):
    """The result, and how many gradients had been taken at each record (records themselves are not counted)."""
    here, counter, seen = case("stiefel qr projection"), Counter(), []
    problem = rx.Problem(here.problem.objective.loss, here.problem.manifold, here.problem.data, gradient=counter)

    def on_record(step, row):
        seen.append(counter.samples - (len(seen) + 1) * SAMPLES)  # each record takes one full gradient

    result = rx.minimize(problem, method, x0=here.x0, record=1, on_record=on_record, driver="eager", **options)
    return result, seen


@pytest.mark.parametrize("method", METHODS)
def test_the_ledger_equals_counting_calls(method):
    result, seen = counted_run(METHODS[method], steps=8, batch_size=2, first_batch_size=4)
    assert result.history["sfo"].tolist() == seen
    assert result.sfo == seen[-1] > 0
    assert result.history["sfo"][0] == 0


@pytest.mark.parametrize("method", ["rsgd", "rsrm", "rsvrg"])
def test_the_ledger_with_default_first_batches_and_batches_that_grow(method):
    result, seen = counted_run(METHODS[method], steps=9, batch_size=lambda t: 1 + t % 3)
    assert result.history["sfo"].tolist() == seen
    assert result.sfo == seen[-1]


@pytest.mark.parametrize("method", METHODS)
def test_two_point_methods_cost_two_per_sample(method):
    two_points = method in ("rsrm", "rsvrg", "rsrg", "rspider", "storm_plus")
    assert METHODS[method].evaluations == (2 if two_points else 1)


def test_the_ledger_of_the_compiled_driver_is_the_same():
    here = case("stiefel qr projection")
    options = {"steps": 8, "batch_size": 2, "first_batch_size": 4, "record": 3, "x0": here.x0}
    for method in (METHODS["rsrm"], METHODS["rsvrg"]):
        runs = [rx.minimize(here.problem, method, driver=driver, **options) for driver in ("jax", "eager")]
        assert runs[0].history["sfo"].tolist() == runs[1].history["sfo"].tolist()
        assert runs[0].sfo == runs[1].sfo


def test_measuring_is_free():
    """Estimator errors need more gradients, and the count does not see them."""
    here = case("stiefel qr projection")
    counts = {
        rx.minimize(here.problem, rx.rsrm(0.1), steps=6, batch_size=2, record=record, driver="eager").sfo
        for record in (1, 6, rx.Record(every=2, estimator_error=True))
    }
    assert counts == {SAMPLES + 5 * 2 * 2}
