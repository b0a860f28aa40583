"""Tasks that get their work at the same moments, against a simulation of nothing else, a chain, and exact runs."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twin.test_batching import engine
from tests.twin.worlds import HOST, chain
from twin.deployment import Deployment
from twin.engine.compute import crowding
from twin.engine.compute.bunches import SINGLE, Bunches, Coming, bunch, rate_among
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate


def slowed_by_hand(cores: int, groups: Sequence[int], used: float, scv: float, horizon_s: float) -> list[float]:
    """By how much longer than its work a task of each group is busy: all of one get some at random moments, at once.

    Those that have work share the cores: by a clock that runs at the rate at which each is served.
    """
    rng = np.random.default_rng(1)
    work_s = [used * cores / len(groups) / tasks for tasks in groups]  # at 1 moment a second
    nexts = [(float(rng.exponential()), group) for group in range(len(groups))]
    heapq.heapify(nexts)
    there, busy_s, given_s = [0] * len(groups), [0.0] * len(groups), [0.0] * len(groups)
    ends: list[tuple[float, int, int]] = []
    served: dict[tuple[int, int], float] = {}
    clock = now = 0.0
    while now < horizon_s:
        at_s, group = nexts[0]
        while there != [0] * len(groups):
            rate = min(1.0, cores / sum(there))
            end, who, task = ends[0]
            if served[who, task] != end:
                heapq.heappop(ends)  # it got more
                continue
            step_s = min((end - clock) / rate, at_s - now)
            busy_s = [time_s + step_s * tasks for time_s, tasks in zip(busy_s, there, strict=True)]
            now, clock = now + step_s, clock + rate * step_s
            if now >= at_s:
                break
            heapq.heappop(ends)
            there[who] -= 1
        now = at_s
        heapq.heapreplace(nexts, (now + float(rng.exponential()), group))
        works = rng.gamma(1 / scv, work_s[group] * scv, groups[group]) if scv else [work_s[group]] * groups[group]
        given_s[group] += sum(works)
        for task, work in enumerate(works):
            end = served.get((group, task), 0.0)
            there[group] += end <= clock
            served[group, task] = max(end, clock) + work
            heapq.heappush(ends, (served[group, task], group, task))
    return [time_s / work for time_s, work in zip(busy_s, given_s, strict=True)]


def slowed_by_law(cores: int, groups: Sequence[int], used: float, scv: float) -> list[float]:
    all_of_them, mine = Bunches(), []
    for tasks in groups:
        own = used * cores / len(groups) / tasks
        mine.append((own, bunch(cores, Coming(tasks, scv), own, used)))
        for _ in range(tasks):
            all_of_them.add(*mine[-1])
    return [1.0 / rate_among(cores, 0.0, own, one, all_of_them, 1.0) for own, one in mine]


@pytest.mark.parametrize(
    ("cores", "groups", "used", "scv", "off"),
    [
        (2, [8], 0.6, 0.0, 0.03),
        (1, [8], 0.2, 1.0, 0.05),
        (2, [4], 0.5, 1.0, 0.05),
        (2, [12], 0.85, 1.0, 0.08),
        (4, [8, 8], 0.4, 0.0, 0.06),
        (4, [8, 8, 8], 0.7, 1.0, 0.08),
        (2, [13, 13, 6], 0.7, 0.0, 0.10),
    ],
)
def test_bunches_are_slowed_as_simulated(cores: int, groups: list[int], used: float, scv: float, off: float) -> None:
    by_hand = slowed_by_hand(cores, groups, used, scv, horizon_s=1200.0)
    assert slowed_by_law(cores, groups, used, scv) == pytest.approx(by_hand, rel=off)


@given(st.integers(1, 8), st.integers(1, 16), st.floats(0.0, 0.1), st.integers(0, 8), st.floats(0.0, 20.0))
def test_a_bunch_is_one_task_on_so_much_less(cores: int, size: int, own: float, others: int, odds: float) -> None:
    """Equal bunches are as the single tasks of `twin.engine.compute.crowding` on a part of the cores."""
    size *= cores  # or they would leave cores idle
    work, rate = crowding.shared(cores, 0.0, own, others, odds, size, size)
    single_work, single_rate = crowding.shared(cores / size, 0.0, own, others, odds)
    assert rate == pytest.approx(single_rate)
    assert work == pytest.approx(size * single_work)


@given(st.integers(1, 8), st.integers(1, 30), st.integers(2, 30), st.floats(0.01, 0.9), st.floats(0.0, 0.09))
@settings(deadline=None)
def test_more_members_and_more_demand_slow_more(cores: int, tasks: int, others: int, used: float, more: float) -> None:
    def rate(tasks: int, used: float) -> float:
        there, one = Bunches(), bunch(cores, Coming(others, 0.0), used * cores / others, used)
        for _ in range(others):
            there.add(used * cores / others, one)
        mine = bunch(cores, Coming(tasks, 0.0), 0.01 / tasks, used)
        for _ in range(tasks):
            there.add(0.01 / tasks, mine)
        return rate_among(cores, 0.0, 0.01 / tasks, mine, there, 1.0)

    assert rate(tasks, used + more) <= rate(tasks, used) + 0.02
    assert rate(tasks + 4, used) <= rate(tasks, used) + 0.02
    assert min(1.0, cores / (tasks + others)) - 0.02 <= rate(tasks, used) <= min(1.0, cores / tasks) + 1e-9


def test_who_is_alone_meets_nobody() -> None:
    assert bunch(2.0, Coming(), 0.5, 0.5) is SINGLE
    assert rate_among(2.0, 0.0, 0.5, SINGLE, Bunches(), 1.0) == 1.0


def test_works_that_add_up_differ_less() -> None:
    apart, together = (bunch(2.0, Coming(10, 1.0), used * 0.2, used).met for used in (0.0, 0.99))
    assert apart == pytest.approx(5.5, abs=0.3)  # of exponential works half are done on average
    assert together == pytest.approx(10.0, abs=0.5)
    dense = bunch(2.0, Coming(10, 1.0, times=40, denser=10.0), 0.1, 0.5)  # all within a tenth of the time
    assert 8.5 < dense.met < 10.0


def windows(replicas: int, cores: float, batch: int) -> Deployment:
    """Results of a window every second, for operators that are busy with them for a third of it, side by side."""
    middle = [
        {"kind": "aggregate", "name": "window", "group_by": "int", "groups": 200,
         "window": {"policy": "time", "size_s": 1.0, "slide_s": 1.0}},
        {"kind": "map", "name": "work", "service_time_s": 0.3 * cores / 200, "service_scv": 0.5},
    ]  # fmt: skip
    hosts = [{**HOST, "cpu_percent": 6400}, {**HOST, "name": "small", "cpu_percent": 100 * cores}]
    placement = {"work": {"small": replicas}}
    return chain(middle, 2000.0, hosts=hosts, placement=placement, engine=engine(batch, 0.1 if batch > 1 else None))


def flushes(replicas: int, cores: float, used: float) -> Deployment:
    """Two operators on one host, whose replicas get their tuples with the flushes of those before."""
    each_s = used * cores / 1500.0 / 2
    middle = [{"kind": "map", "name": name, "service_time_s": each_s, "service_scv": 0.5} for name in ("one", "two")]
    hosts = [{**HOST, "cpu_percent": 6400}, {**HOST, "name": "small", "cpu_percent": 100 * cores}]
    placement = {"one": {"small": replicas}, "two": {"small": replicas}}
    return chain(middle, 1500.0, hosts=hosts, placement=placement, engine=engine(1000, 0.1))


@pytest.mark.parametrize(
    "deployment",
    [windows(10, 2.0, 1000), windows(10, 2.0, 1), flushes(8, 2.0, 0.5), flushes(12, 2.0, 0.75)],
    ids=["windows", "at once", "half", "busy"],
)
def test_replicas_are_as_busy_as_in_exact_runs(deployment: Deployment) -> None:
    """Of those that get their work at one moment; taken as independent they would be busy for half of it or less."""
    runs = [
        simulate(Scenario.of(deployment, RunSettings(fidelity=fidelity, horizon_s=14, warmup_s=4)))
        for fidelity in ("exact", "fast")
    ]
    exact, fast = [{each.operator: each.busy for each in run.operators} for run in runs]
    for name in ("work",) if "work" in exact else ("one", "two"):
        assert fast[name] == pytest.approx(exact[name], rel=0.1, abs=0.01)
