"""`Run`: advanced in pieces, by given samples, or from a file, it is the run that `minimize` takes to its end."""

import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx
from retrax.pace import Pace

STEPS = 30
METHODS = {
    "rsrm": rx.rsrm(0.02),
    "rasa": rx.rasa(0.02),
    "rspider": rx.rspider(0.01, restart_every=7),
    "secant": rx.methods.Method(rx.rsrm(0.1).estimator, rx.scalings.Identity(), rx.step_sizes.Secant()),
}
ROWS = np.random.default_rng(0).standard_normal((200, 6)) * np.linspace(1, 2, 6)


def loss(U, batch):
    return -jnp.mean(jnp.sum((batch @ U) ** 2, axis=-1))


def problem(data=ROWS):
    return rx.Problem(loss, rx.Grassmann(6, 2), data)


def assert_same(a, b):
    """To the last bit, the clock apart."""
    np.testing.assert_array_equal(a.x, b.x)
    np.testing.assert_array_equal(a.output, b.output)
    assert (a.sfo, a.steps) == (b.sfo, b.steps)
    assert list(a.history) == list(b.history)
    for column in set(a.history) - {"seconds"}:
        np.testing.assert_array_equal(a.history[column], b.history[column], err_msg=column)


# --- by steps -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", ["jax", "eager"])
@pytest.mark.parametrize("name", METHODS)
def test_advancing_in_pieces_is_minimize(name, driver):
    """The first record, which `minimize` takes of the start, is asked for by `result()`."""
    arguments = {"steps": STEPS, "record": 5, "driver": driver, "first_batch_size": 50}
    whole = rx.minimize(problem(), METHODS[name], **arguments)
    run = rx.Run(problem(), METHODS[name], **arguments)
    run.result()
    taken = [run.advance(steps) for steps in (1, 4, 10, 100)]
    assert taken == [1, 4, 10, 15]
    assert run.advance(5) == 0
    assert_same(run.result(), whole)


def test_a_run_without_an_end_goes_on_as_a_longer_one():
    run = rx.Run(problem(), METHODS["rsrm"])
    run.advance(11)
    assert run.step == 11
    np.testing.assert_array_equal(run.x, rx.minimize(problem(), METHODS["rsrm"], steps=11).x)
    run.advance(19)
    longer = rx.minimize(problem(), METHODS["rsrm"], steps=STEPS)
    np.testing.assert_array_equal(run.x, longer.x)
    assert run.sfo == longer.sfo


def test_the_result_so_far_is_of_the_point_where_the_run_is():
    run = rx.Run(problem(), METHODS["rsrm"], record=10)
    run.advance(13)
    result = run.result()
    assert result.status is rx.Status.RUNNING
    assert result.history["step"].tolist() == [10, 13]
    np.testing.assert_allclose(result.history["loss"][-1], -np.sum((ROWS @ result.x) ** 2) / len(ROWS), rtol=1e-13)
    assert "running, 13 steps taken" in result.detail


def test_a_run_that_records_nothing_has_a_result_too():
    run = rx.Run(problem(), METHODS["rsrm"])
    run.advance(3)
    assert run.result().history.rows == []
    assert "steps=3" in repr(run.result())


# --- by given samples -----------------------------------------------------------------------------------------


def pushed(name, cuts, **arguments):
    """A run on the rows, handed over in pieces that end at `cuts`."""
    run = rx.Run(problem(rx.Pushed(ROWS[:0])), METHODS[name], first_batch_size=20, **arguments)
    for part in np.split(ROWS, cuts):
        run.advance(batches=part)
    return run


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("cuts", [[1, 2, 3, 30], [20], [19, 21, 26, 100], list(range(7, 200, 13))], ids=str)
def test_any_cutting_of_the_samples_is_one_push(name, cuts):
    whole, cut = pushed(name, []), pushed(name, cuts)
    assert whole.step > 5
    assert (cut.step, cut.sfo) == (whole.step, whole.sfo)
    np.testing.assert_array_equal(cut.x, whole.x)


def test_pushed_samples_are_used_in_order():
    """RSGD by hand: 20 rows, then five at a time."""
    run = rx.Run(problem(rx.Pushed(ROWS[:0])), rx.rsgd(lambda t: 0.05), first_batch_size=20, seed=3)
    U = run.x
    assert run.advance(batches=ROWS[:33]) == 3
    for batch in (ROWS[:20], ROWS[20:25], ROWS[25:30]):
        ambient = -2 / len(batch) * batch.T @ (batch @ U)
        left, _, right = np.linalg.svd(U - 0.05 * (ambient - U @ (U.T @ ambient)), full_matrices=False)
        U = left @ right
    np.testing.assert_allclose(run.x, U, atol=1e-13)
    assert run.advance(batches=ROWS[33:34]) == 0
    assert run.advance(batches=ROWS[34:40]) == 2


def test_steps_bound_what_is_taken_of_the_samples():
    run = rx.Run(problem(rx.Pushed(ROWS[:0])), METHODS["rsrm"], first_batch_size=20)
    assert run.advance(2, batches=ROWS[:40]) == 2
    assert run.advance(1) == 1
    run.advance(batches=ROWS[40:])
    np.testing.assert_array_equal(run.x, pushed("rsrm", []).x)


# --- saving ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_a_loaded_run_goes_on_to_the_same_bits(name, tmp_path):
    arguments = {"steps": STEPS, "record": 5, "first_batch_size": 50}
    run = rx.Run(problem(), METHODS[name], **arguments)
    run.advance(13)
    run.save(tmp_path / "run")
    loaded = rx.Run.load(tmp_path / "run", problem(), METHODS[name], **arguments)
    assert (loaded.step, loaded.sfo) == (13, run.sfo)
    for one in (run, loaded):
        one.advance(100)
    assert_same(run.result(), loaded.result())


def test_samples_that_wait_are_saved_too(tmp_path):
    run = pushed("rsrm", [])
    half = rx.Run(problem(rx.Pushed(ROWS[:0])), METHODS["rsrm"], first_batch_size=20)
    half.advance(batches=ROWS[:43])
    half.save(tmp_path / "run")
    loaded = rx.Run.load(tmp_path / "run", problem(rx.Pushed(ROWS[:0])), METHODS["rsrm"], first_batch_size=20)
    loaded.advance(batches=ROWS[43:])
    assert loaded.step == run.step
    np.testing.assert_array_equal(loaded.x, run.x)


def test_what_is_not_this_run_is_refused(tmp_path):
    run = rx.Run(problem(), METHODS["rsrm"])
    run.advance(2)
    run.save(tmp_path / "run")
    with pytest.raises(ValueError, match="belongs to another run, whose seed is 0 and not 1"):
        rx.Run.load(tmp_path / "run", problem(), METHODS["rsrm"], seed=1)
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match="text cannot be loaded: it is not a Retrax checkpoint"):
        rx.Run.load(tmp_path / "text", problem(), METHODS["rsrm"])


# --- wrong calls ----------------------------------------------------------------------------------------------


def test_wrong_calls():
    run = rx.Run(problem(), METHODS["rsrm"])
    with pytest.raises(TypeError, match="advance needs a number of steps, or batches=samples"):
        run.advance()
    with pytest.raises(ValueError, match="steps must be an integer of at least 1, not 0"):
        run.advance(0)
    with pytest.raises(ValueError, match=r"where the problem's data are retrax\.Pushed"):
        run.advance(batches=ROWS)
    waiting = rx.Run(problem(rx.Pushed(ROWS[:0])), METHODS["rsrm"])
    with pytest.raises(ValueError, match=r"handed over has shape \(3, 5\), but samples must have shape \(6,\)"):
        waiting.advance(batches=np.ones((3, 5)))
    with pytest.raises(ValueError, match="sample 1 of the batch contains NaN"):
        waiting.advance(batches=np.where(np.arange(3)[:, None] == 1, np.nan, ROWS[:3]))
    with pytest.raises(ValueError, match="pushed cannot be measured on"):
        rx.Run(problem(rx.Pushed(ROWS[:0])), METHODS["rsrm"], record=5)


def stretches(pace, overhead, each, number=8):
    """The lengths of so many stretches, where the steps and what stands around them take these seconds."""
    found = []
    for _ in range(number):
        found.append(pace.steps)
        pace.took(pace.steps, overhead + each * pace.steps)
    return found


@pytest.mark.parametrize("start", [1, 64])
@pytest.mark.parametrize("overhead", [0.0, 1e-3])
@pytest.mark.parametrize("each", [1e-6, 15e-6, 1e-3, 0.03])
def test_stretches_of_small_steps_take_a_quarter_of_a_second(start, overhead, each):
    assert stretches(Pace(start), overhead, each)[-1] == pytest.approx(0.25 / each, rel=0.2)


@pytest.mark.parametrize("start", [1, 64])
def test_steps_longer_than_a_stretch_are_taken_one_by_one(start):
    assert set(stretches(Pace(start), 0.0, 3.0)[2:]) == {1}


@pytest.mark.parametrize("start", [1, 64])
@pytest.mark.parametrize(("overhead", "each"), [(0.65, 0.11), (0.2, 0.03), (3.0, 0.2), (0.2, 0.3)])
def test_overhead_takes_at_most_the_larger_part_of_a_stretch_where_it_cannot_be_less(start, overhead, each):
    """Of a large point, beginning a stretch takes as long as several steps: single steps would each pay that."""
    steps = stretches(Pace(start), overhead, each)[-1] * each
    assert 0.5 * min(4 * overhead, 4.0) <= steps + each
    assert steps <= max(4.4 * overhead, 0.25, each)


def test_a_stretch_cut_short_by_something_else_does_not_make_the_next_ones_short():
    """As where the run keeps an iterate, or records."""
    pace, overhead, each = Pace(1), 0.2, 0.03
    usual = stretches(pace, overhead, each)[-1]
    pace.took(1, overhead + each)
    assert pace.steps >= 0.8 * usual


def test_a_first_stretch_that_is_slow_for_other_reasons_does_not_make_the_next_ones_long():
    pace = Pace(1)
    pace.took(1, 3.0)
    assert pace.steps == 2
    pace.took(2, 0.1)
    assert pace.steps <= 8
    assert stretches(pace, 0.0, 0.05)[-1] == 5


def test_the_longest_stretch():
    pace = Pace(64)
    pace.took(64, 0.0)
    assert pace.steps == 10**6
