"""What a window sends at once, through tasks that share a core: busy shares against exact runs and a simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twin.worlds import HOST, deployment, sink, source
from twin.deployment import Deployment
from twin.engine.compute.bursts import Bursts
from twin.job import compile
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.wiring.passing import passed_by_bursts


def queues_in_a_row(
    works: list[float], tuples: int, every_s: float, steady: float, rng: np.random.Generator
) -> list[float]:
    """Busy shares of tasks through which so many tuples go at once, and of a last one with a Poisson stream of its own.

    All of them share one core evenly while they are busy; services are exponential, with these means. steady: that of
    the last one, to which a tuple a second comes.
    """
    tasks, now, arrival = len(works), 0.0, rng.exponential()
    queue, left, busy = [0] * (tasks + 1), [0.0] * (tasks + 1), np.zeros(tasks + 1)
    means = [*works, steady]
    bursts, end_s = [every_s * k for k in range(40)], every_s * 40
    while now < end_s:
        active = [task for task in range(tasks + 1) if queue[task]]
        first = min(active, key=lambda task: left[task], default=-1)
        done = now + left[first] * len(active) if active else np.inf
        until = min([done, arrival, end_s, *bursts[:1]])
        for task in active:
            left[task] -= (until - now) / len(active)
            busy[task] += until - now
        now = until
        arrived = []
        if until == done:
            queue[first] -= 1
            left[first] = rng.exponential(means[first])
            arrived = [first + 1] if first + 1 < tasks else []
        elif until == arrival:
            arrival, arrived = now + rng.exponential(), [tasks]
        elif until != end_s:
            bursts.pop(0)
            arrived = [0] * tuples
        for task in arrived:
            if not queue[task]:
                left[task] = rng.exponential(means[task])
            queue[task] += 1
    return (busy / now).tolist()


@pytest.mark.parametrize("works", [[1.0, 0.4], [0.5, 1.0], [1.0, 1.0], [0.8, 0.2, 0.6]])
@pytest.mark.parametrize("steady", [0.1, 0.4])
def test_tasks_behind_a_window_are_busy_together(works: list[float], steady: float) -> None:
    """Simulated tuple by tuple: 100 results pass every 500 seconds, beside a steady stream of one tuple a second."""
    exact = queues_in_a_row(works, 100, 500.0, steady, np.random.default_rng(1))
    needs = [*(0.2 * work for work in works), steady]
    bursts = Bursts(1.0, range(len(works)), -1)
    bursts.settle(needs, 0.0, 0.0)
    found = [need / rate for need, rate in zip(needs, bursts.rates, strict=True)]
    assert found == pytest.approx(exact, rel=0.09, abs=0.01)


@given(
    st.lists(st.floats(0.01, 0.2), min_size=2, max_size=4),
    st.lists(st.floats(0.01, 0.15), min_size=0, max_size=4),
    st.sampled_from([0.5, 1.0, 2.0]),
)
def test_who_passes_bursts_on_gets_no_more_than_the_others_leave(
    passing: list[float], steady: list[float], cores: float
) -> None:
    scale = min(1.0, 0.8 * cores / (sum(passing) + sum(steady)))
    needs = [scale * need for need in (*passing, *steady)]
    bursts = Bursts(cores, range(len(passing)), -1)
    bursts.settle(needs, 0.0, 0.0)
    lead = needs.index(max(needs[: len(passing)]))
    assert bursts.passing == pytest.approx(needs[lead] / bursts.rates[lead], rel=0.02)
    for need, rate in zip(needs, bursts.rates, strict=True):
        assert 0.99 * min(1.0, cores / len(needs)) <= rate <= min(1.0, cores) + 1e-9
        assert need <= rate * 1.05


def window_then(size_s: float, room: int = 1024) -> Deployment:
    """A window of few groups on a host of its own, before a filter and a sink that share half of a core."""
    weak = {**HOST, "name": "weak", "cpu_percent": 50}
    job = deployment(
        [
            source(),
            {
                "kind": "aggregate",
                "name": "count",
                "group_by": "int",
                "groups": 60,
                "window": {"policy": "time", "size_s": size_s, "slide_s": size_s},
            },
            {"kind": "filter", "name": "filter", "selectivity": 0.8, "service_time_s": 2e-3},
            sink(service_time_s=1.5e-3),
        ],
        [("source", "count"), ("count", "filter"), ("filter", "sink")],
        {"source": 400.0},
        hosts=[HOST, weak],
        placement={"source": "h", "count": "h", "filter": "weak", "sink": "weak"},
    )
    return job.model_copy(update={"engine": job.engine.model_copy(update={"channel_tuples": room})})


def test_a_filter_and_a_sink_behind_a_window_share_their_host_while_results_pass() -> None:
    """Half of a core: each is as busy as exact runs say, though the host is used for a quarter of the time only."""
    job, settings = window_then(1.0), RunSettings(horizon_s=30, warmup_s=6, period_s=3, seed=1)
    exact, fast = (
        {
            each.operator: each.busy
            for each in simulate(Scenario.of(job, settings.model_copy(update={"fidelity": how}))).operators
        }
        for how in ("exact", "fast")
    )
    for name in ("filter", "sink"):
        assert fast[name] == pytest.approx(exact[name], rel=0.07)


def test_which_components_results_pass_through() -> None:
    job = compile(window_then(1.0))
    assert passed_by_bursts(job, ["filter", "sink"]) == ("count", ("filter", "sink"))
    assert passed_by_bursts(job, ["sink"]) == ("", ())  # alone it shares with nobody of them
    assert passed_by_bursts(compile(window_then(1.0, room=32)), ["filter", "sink"]) == ("", ())  # they wait for room
    assert passed_by_bursts(compile(window_then(0.01)), ["filter", "sink"]) == ("", ())  # a few results at a time
