"""Which samples a run draws, and which iterate it returns: uniform, reproducible, and seekable."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import retrax as rx
from retrax import sampling

SIGNIFICANCE = 1e-6
"""A right implementation fails for one seed in a million; the seeds are fixed."""


def test_any_part_of_the_stream_can_be_drawn_by_itself():
    whole = sampling.batch_indices(4, 0, 1000, 10**6)
    for start, count in ((0, 1), (1, 3), (3, 4), (4, 4), (257, 100), (999, 1)):
        np.testing.assert_array_equal(sampling.batch_indices(4, start, count, 10**6), whole[start : start + count])


def test_every_sample_is_as_likely_as_any_other():
    counts = np.bincount(sampling.batch_indices(0, 0, 130_000, 13), minlength=13)
    assert stats.chisquare(counts).pvalue > SIGNIFICANCE


def test_neighbouring_draws_are_independent():
    pairs = sampling.batch_indices(1, 0, 100_000, 5).reshape(-1, 2)
    counts = np.bincount(pairs[:, 0] * 5 + pairs[:, 1], minlength=25)
    assert stats.chisquare(counts).pvalue > SIGNIFICANCE


def test_seeds_are_independent():
    """The first draws of 20 000 seeds, and the same draw of neighbouring seeds."""
    first = np.array([sampling.batch_indices(seed, 0, 1, 6)[0] for seed in range(20_000)])
    assert stats.chisquare(np.bincount(first, minlength=6)).pvalue > SIGNIFICANCE
    counts = np.bincount(first[::2] * 6 + first[1::2], minlength=36)
    assert stats.chisquare(counts).pvalue > SIGNIFICANCE


def test_a_large_batch_is_drawn_without_replacement_and_in_order():
    for step in range(1, 50):
        chosen = sampling.large_batch_indices(3, step, 8, 11)
        assert (np.diff(chosen) > 0).all()
        assert chosen.min() >= 0
        assert chosen.max() < 11
    np.testing.assert_array_equal(sampling.large_batch_indices(3, 1, 11, 11), np.arange(11))


def test_each_large_batch_is_another_and_fair():
    counts = sum(np.bincount(sampling.large_batch_indices(0, step, 3, 9), minlength=9) for step in range(1, 6001))
    # Without replacement the counts vary less than a multinomial's, so the chi-square test is conservative.
    assert stats.chisquare(counts).pvalue > SIGNIFICANCE
    assert any(
        (sampling.large_batch_indices(0, 1, 5, 100) != sampling.large_batch_indices(0, step, 5, 100)).any()
        for step in (2, 3)
    )


def test_streams_of_one_seed_do_not_repeat_each_other():
    batch = sampling.batch_indices(0, 0, 1000, 1000)
    start = sampling.start_generator(0).random(1000) * 1000
    large = sampling.large_batch_indices(0, 1, 500, 1000)
    evaluation = sampling.evaluation_indices(0, 500, 1000)
    assert (large != evaluation).any()
    assert np.mean(batch == start.astype(int)) < 0.02


# --- Algorithm 1's output -------------------------------------------------------------------------------------


def output_step(seed: int, steps: int) -> int:
    """The step whose iterate a run of so many steps returns."""
    current = replacements = 0
    while (following := sampling.next_output_step(seed, current, replacements)) <= steps:
        if current:
            replacements += 1
        else:
            replacements = 1
        current = following
    return current


@pytest.mark.parametrize("steps", [2, 7, 30])
def test_the_output_is_uniform_over_the_iterates(steps):
    counts = np.bincount([output_step(seed, steps) for seed in range(6000)], minlength=steps + 1)
    assert counts[0] == 0
    assert stats.chisquare(counts[1:]).pvalue > SIGNIFICANCE


def rising_problem():
    """x_t = t: with slope -1 and η = 1 from x_1 = 1, an iterate tells its own number."""

    def loss(x, batch):
        return -x + 0 * jnp.sum(batch)

    return rx.Problem(loss, rx.Euclidean(), np.zeros((2, 1)))


def run_rising(problem, seed, steps, **options):
    method = rx.rsgd(rx.schedules.constant(1.0))
    return rx.minimize(problem, method, steps=steps, batch_size=1, x0=np.array(1.0), seed=seed, **options)


@pytest.mark.slow
def test_minimize_returns_a_uniformly_drawn_iterate_and_the_last_one():
    problem, steps = rising_problem(), 5
    drawn = []
    for seed in range(400):
        result = run_rising(problem, seed, steps, record=100)
        assert float(result.x) == steps + 1
        drawn.append(int(result.output))
    assert drawn == [output_step(seed, steps) for seed in range(400)]
    counts = np.bincount(drawn, minlength=steps + 1)
    assert counts[0] == 0
    assert len(counts) == steps + 1  # never x_{T+1}
    assert stats.chisquare(counts[1:]).pvalue > SIGNIFICANCE


def test_the_output_of_a_run_that_stopped_early_is_one_of_the_iterates_it_had():
    problem = rising_problem()
    for seed in range(12):
        result = run_rising(problem, seed, 1000, record=3, on_record=lambda step, row: step >= 6)
        assert result.status is rx.Status.STOPPED
        assert result.steps == 6
        assert int(result.output) == output_step(seed, 6)
        assert float(result.x) == 7


def test_the_output_does_not_depend_on_how_often_the_run_records():
    problem = rising_problem()
    outputs = {float(run_rising(problem, 5, 40, record=every).output) for every in (1, 7, 40)}
    assert outputs == {output_step(5, 40)}


def test_iterates_are_not_stored():
    """As many points of the problem's shape are alive late in a run as early in it."""
    problem = rx.Problem(lambda x, batch: jnp.sum(x**2) + 0 * jnp.sum(batch), rx.Euclidean(17, 3), np.zeros((2, 1)))
    alive = []

    def count(step, row):
        alive.append(sum(a.shape == (17, 3) for a in jax.live_arrays()))

    rx.minimize(problem, rx.rsgd(0.01), steps=400, batch_size=1, record=20, on_record=count)
    assert len(alive) == 21
    assert max(alive[2:]) <= min(alive[2:]) + 2
