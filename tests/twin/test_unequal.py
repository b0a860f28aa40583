"""Few tasks of unequal demands on a core or two: who is busy how long, against Markov chains solved exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.validity.oracles import busy_shared_core
from tests.twin.busy_tasks import busy_tasks
from tests.twin.test_crowding import unequal
from twin.engine.compute.unequal import all_sums, busy_odds, rate_beside, waits, without
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

DEMANDS = st.lists(st.floats(0.001, 0.9), min_size=2, max_size=8)


@given(st.lists(st.floats(1e-6, 50.0), min_size=1, max_size=10), st.data())
def test_sums_of_products_are_found_without_any_of_the_tasks(odds: list[float], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(odds) - 1))
    rest = all_sums([*odds[:place], *odds[place + 1 :]])
    assert without(all_sums(odds), odds[place]) == pytest.approx(rest, rel=1e-6)


@pytest.mark.parametrize(("cores", "jobs"), [(1.0, 0), (2.0, 0), (0.5, 1), (2.0, 1)])
def test_rates_are_those_of_a_chain_of_unequal_tasks(cores: float, jobs: int) -> None:
    """The chain solved as linear equations, of tasks that begin at their own rates and share the cores while busy."""
    odds = [0.2, 0.6, 1.5, 0.05]
    states, chance, each = busy_tasks(cores, jobs, odds)
    works = (chance * each) @ states
    for task in range(4):
        busy, work = chance @ states[:, task], works.tolist()
        rest = without(all_sums(odds), odds[task])
        rate, _ = rate_beside(cores, jobs, work[task], sum(work) - work[task], rest, 1.0, 3.0)
        assert rate == pytest.approx(work[task] / busy, rel=0.01)


@given(DEMANDS, st.sampled_from([0.5, 1.0, 2.0]), st.floats(0.1, 0.97), st.floats(0.0, 1.0))
def test_all_get_what_they_need(demands: list[float], cores: float, used: float, in_step: float) -> None:
    """And of a core or less the rest of the time is nobody's."""
    scale = used * cores / sum(demands)
    needs = [min(0.9 * min(1.0, cores), need * scale) for need in demands]
    idle = waits(cores, needs, in_step)
    sums = all_sums(odds := busy_odds(cores, needs, needs, idle))
    rates = [
        rate_beside(cores, 0, need, sum(needs) - need, without(sums, each), idle, 1.0)[0]
        for need, each in zip(needs, odds, strict=True)
    ]
    for need, rate in zip(needs, rates, strict=True):
        assert need - 1e-9 <= rate * 1.01
        assert rate <= min(1.0, cores) + 1e-9
        assert rate >= min(1.0, cores / len(needs)) - 1e-9
    if len(needs) > cores:
        large, small = needs.index(max(needs)), needs.index(min(needs))
        assert rates[large] >= rates[small] - 0.01  # a small task meets large ones more often than they meet it


@given(DEMANDS, st.floats(0.05, 0.99), st.floats(0.0, 1.0))
def test_tuples_wait_more_where_more_is_to_do_and_hardly_beside_a_task_that_makes_up_the_load(
    demands: list[float], used: float, in_step: float
) -> None:
    needs = [need * used / sum(demands) for need in demands]
    assert 1.0 <= waits(1.0, needs, in_step) <= waits(1.0, [1.01 * need for need in needs], in_step)
    assert waits(1.0, [used, 1e-4 * used], in_step) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("loads", [(0.1, 0.1), (0.4, 0.4), (0.1, 0.6), (0.3, 0.55)])
def test_two_queues_in_a_row_on_a_core_are_as_busy_as_theory_says(loads: tuple[float, float]) -> None:
    """Exponential services: a Markov chain of both queues' lengths, within 2.5 %."""
    expected = busy_shared_core(1.0, (1.0 / loads[0], 1.0 / loads[1]))
    idle = waits(1.0, loads, 0.0)
    odds = busy_odds(1.0, loads, list(loads), idle)
    for own, other, found in ((0, 1, expected[0]), (1, 0, expected[1])):
        rate, _ = rate_beside(1.0, 0, loads[own], loads[other], [1.0, odds[other]], idle, 1.0)
        assert loads[own] / rate == pytest.approx(found, rel=0.025)


def test_a_small_operator_beside_a_large_one_is_as_busy_as_theory_says() -> None:
    """In a run. By the same Markov chain 0.3746 and 0.8743 of the time."""
    job = unequal({"q0": 0.2, "q1": 0.7})
    run = simulate(Scenario.of(job, RunSettings(horizon_s=120, warmup_s=24, period_s=12, seed=1)))
    busy = {each.operator: each.busy for each in run.operators}
    assert (busy["q0"], busy["q1"]) == pytest.approx((0.3746, 0.8743), rel=0.03)


@pytest.mark.parametrize("others", [[0.6, 0.2, 0.1], [0.7, 0.2, 0.15, 0.05], [0.4, 0.4]])
def test_a_task_that_is_always_busy_gets_what_a_chain_of_states_leaves_it(others: list[float]) -> None:
    """Exponential works of tasks that get the next at random, on two cores; the others' odds by what they need."""
    odds = busy_odds(2.0, [0.99, *others], [0.1] * (1 + len(others)), 1.0)
    rest = without(all_sums(odds), odds[0])
    rate, scale = rate_beside(2.0, 0.0, 1.0, sum(others), rest, 1.0, 1.0)
    states, chance, rates = busy_tasks(2.0, 1, [scale * each for each in odds[1:]])
    assert rate == pytest.approx(chance @ rates, rel=1e-6)
    assert sum(others) == pytest.approx(float(np.sum((chance * rates) @ states)), rel=5e-3)
