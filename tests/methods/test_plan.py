"""Plans: every step once, cut only where something happens, with counters that add up."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrax.plan import Plan, Position


def make(steps=20, batch=2, **changes):
    settings = {
        "steps": steps,
        "batch_size": lambda t: batch,
        "constant_batch": True,
        "large_batch_size": lambda t: 9,
        "restart_every": None,
        "cost": lambda size: size,
        "record_every": 10**9,
        "checkpoint_every": None,
        "seed": 0,
        "length": 1024,
    }
    return Plan(**settings | changes)


def twice(size):
    return 2 * size


plans = st.builds(
    make,
    steps=st.integers(1, 60),
    batch=st.integers(1, 4),
    restart_every=st.none() | st.integers(1, 12),
    cost=st.sampled_from([lambda size: size, twice]),
    record_every=st.integers(1, 70),
    checkpoint_every=st.none() | st.integers(1, 20),
    seed=st.integers(0, 2**64 - 1),
    length=st.sampled_from([1, 4, 16]),
)


@given(plans, st.integers(1, 30))
def test_every_step_is_taken_once_and_stops_are_where_they_should_be(plan, pace):
    expected_sfo = drawn = 0
    following = 1
    for stretch, keep, after in plan.stretches(Position(), pace=lambda: pace):
        steps = range(stretch.first, stretch.first + stretch.count)
        assert stretch.first == following
        assert 1 <= stretch.count <= min(plan.length, pace)
        assert stretch.samples_before == drawn
        assert stretch.restart == plan.restarts_at(stretch.first)
        if stretch.restart:
            assert stretch.count == 1
            expected_sfo += 9
        else:
            assert not any(plan.restarts_at(step) for step in steps)
            drawn += stretch.count * stretch.batch_size
            expected_sfo += stretch.count * plan.cost(stretch.batch_size)
        # Nothing may happen inside a stretch, only at its end.
        assert not any(plan.records_at(step) or plan.checkpoints_at(step) for step in steps[:-1])
        assert keep == (after.output_step == stretch.first)
        following = steps[-1] + 1
        assert (after.step, after.sfo, after.samples) == (steps[-1], expected_sfo, drawn)
    assert following == plan.steps + 1


@given(plans, st.integers(0, 59))
def test_a_plan_can_be_taken_up_anywhere(plan, at):
    """What a checkpoint relies on: from any position on, the rest is the same."""
    whole = list(plan.stretches(Position()))
    at = min(at, len(whole) - 1)
    assert list(plan.stretches(whole[at][2])) == whole[at + 1 :]


@given(plans)
def test_the_output_does_not_depend_on_how_a_run_is_cut(plan):
    def kept(plan):
        return [stretch.first for stretch, keep, _ in plan.stretches(Position()) if keep]

    other = make(steps=plan.steps, seed=plan.seed, restart_every=3, record_every=1)
    assert kept(plan) == kept(other)
    assert kept(plan)[0] == 1


def test_a_plain_run_is_one_restart_and_stretches_as_long_as_may_be():
    cuts = {stretch.first: stretch.count for stretch, _, _ in make(steps=3000, record_every=1000).stretches(Position())}
    assert cuts[1] == 1
    assert len(cuts) < 20
    assert make(steps=5, restart_every=1).restarts_at(4)


def test_a_change_of_batch_size_ends_a_stretch():
    plan = make(steps=9, batch_size=lambda t: 1 + (t > 4) + (t > 6), constant_batch=False, seed=1)
    sizes = [(s.first, s.count, s.batch_size) for s, _, _ in plan.stretches(Position()) if not s.restart]
    steps = list(itertools.chain(*([size] * count for _, count, size in sizes)))
    assert steps == [1, 1, 1, 2, 2, 3, 3, 3]


@pytest.mark.parametrize(("every", "steps", "expected"), [(4, 10, [4, 8, 10]), (5, 10, [5, 10]), (100, 3, [3])])
def test_records_are_taken_at_multiples_and_at_the_end(every, steps, expected):
    plan = make(steps=steps, record_every=every)
    assert [step for step in range(1, steps + 1) if plan.records_at(step)] == expected


@given(plans, st.integers(0, 70))
def test_a_plan_stops_at_a_given_step_and_goes_on_from_there(plan, last):
    part = list(plan.stretches(Position(), last))
    assert (part[-1][2].step if part else 0) == min(last, plan.steps)
    rest = plan.stretches(part[-1][2] if part else Position())
    *_, (_, _, end) = [*part, *rest]
    assert end == [after for _, _, after in plan.stretches(Position())][-1]


def test_a_plan_without_an_end_goes_on_until_asked_to_stop():
    plan = make(steps=None, record_every=None)
    assert [after.step for _, _, after in plan.stretches(Position(), 5000)][-1] == 5000
    assert not plan.records_at(5000)
