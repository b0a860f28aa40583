"""Calls that fail, are repeated, or take too long: exact sums, runs, and predictions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.twin.changing import HOSTS
from tests.twin.machine.runs import same_however
from tests.twin.worlds import chain, deployment, simulated, sink, source, world_of
from twin.calls import Calls
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import Failure
from twin.kinds.basic import AsyncIO
from twin.rates.model import RateModel
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.spec import parse

LATENCY_S = 0.05
DROPS = {"on_failure": "drop"}
FAILING: dict[str, Any] = {"failure_share": 0.4, **DROPS}
JOBS: dict[str, dict[str, Any]] = {
    "once": FAILING,
    "fixed delay": FAILING | {"retry": {"max_attempts": 2, "delay_s": 0.03}},
    "backoff": FAILING
    | {"retry": {"max_attempts": 5, "delay_s": 0.01, "multiplier": 3, "max_delay_s": 0.05}, "latency_scv": 0.25},
    "timeout": {"timeout_s": 0.08, "on_timeout": "drop"},
    "timeout amid attempts": FAILING
    | {"timeout_s": 0.2, "on_timeout": "drop", "retry": {"max_attempts": 4, "delay_s": 0.03, "multiplier": 2}},
    "certain times": FAILING
    | {"latency_scv": 0, "timeout_s": 0.17, "on_timeout": "drop", "retry": {"max_attempts": 3, "delay_s": 0.02}},
    "in order": FAILING | {"ordered": True, "retry": {"max_attempts": 2, "delay_s": 0.03}},
    "a cache": FAILING
    | {"kind": "lookup-join", "hit_ratio": 0.3, "timeout_s": 0.1, "on_timeout": "drop", "hit_latency_s": 0.002},
}


def asking(arriving_per_s: float, **more: Any) -> Deployment:
    ask = {"kind": "async", "name": "ask", "service_time_s": 0, "latency_s": LATENCY_S, "capacity": 10_000} | more
    return chain([ask], arriving_per_s)


def calls_of(made: Deployment) -> Calls:
    calls = made.query.operator("ask").calls
    assert calls is not None
    return calls


def ran(made: Deployment, horizon_s: float = 50.0) -> Run:
    return simulated(made, horizon_s=horizon_s, warmup_s=horizon_s / 10, period_s=horizon_s / 20, seed=2)


@pytest.mark.parametrize("name", JOBS)
def test_sums_are_those_of_drawn_calls(name: str) -> None:
    """Mean and variance of the time that a call keeps its place, beside a million of them."""
    calls = calls_of(asking(1, **JOBS[name]))
    drawn_s = calls.drawn_s(np.random.default_rng(5), (1_000_000,))
    assert calls.mean_s == pytest.approx(drawn_s.mean(), abs=4 * drawn_s.std() / 1e3)
    error = 4 * (drawn_s**2).std() / 1e3
    assert (calls.scv + 1.0) * calls.mean_s**2 == pytest.approx((drawn_s**2).mean(), abs=error)


def test_attempts_are_a_geometric_sum() -> None:
    calls = Calls(LATENCY_S, failure_share=0.3, retries=4, delay_s=0.1, multiplier=2.0, most_delay_s=0.3)
    found, f = calls.attempts, 0.3
    assert found.made == pytest.approx((1 - f**5) / (1 - f))
    assert found.answered == pytest.approx(1 - f**5) and found.failed == pytest.approx(f**5)
    assert found.mean_s == pytest.approx(LATENCY_S * found.made + 0.1 * f + 0.2 * f**2 + 0.3 * (f**3 + f**4))
    assert Calls(LATENCY_S, timeout_s=0.1).attempts.timed_out == pytest.approx(math.exp(-2.0))


@pytest.mark.parametrize("name", JOBS)
def test_as_many_are_answered_as_late_as_arithmetic_says(name: str) -> None:
    """Shares of answered calls within four standard errors of binomial counts; ages of results within four of means, of
    1,000 records a second for 45 s, and as predicted; in order, the share alone."""
    made = asking(1000, **JOBS[name])
    calls, found = calls_of(made), ran(made)
    came, left = found.operators[1].records_in, found.operators[1].records_out
    share = calls.answered
    assert left == pytest.approx(came * share, abs=4 * (came * share * (1 - share)) ** 0.5 + 4 * 1000**0.5)
    if not calls.ordered:
        answered_s = calls.mean_s - calls.sooner_s
        spread_s = calls.mean_s * (1.0 + calls.scv) ** 0.5  # more than the deviation of those that are answered
        assert found.metrics.processing_latency_s is not None
        assert found.metrics.processing_latency_s.mean == pytest.approx(answered_s, abs=4 * spread_s / left**0.5)
    predicted = RateModel().predict(Scenario.of(made, RunSettings(warmup_s=20)), [made.plan])
    assert predicted["throughput_per_s"][0] == pytest.approx(1000 * share, rel=1e-3)
    if not calls.ordered:
        assert predicted["processing_latency_s"][0] == pytest.approx(answered_s, rel=0.01)


@pytest.mark.parametrize("ordered", [False, True])
def test_every_attempt_holds_its_place(ordered: bool) -> None:
    """With certain times and nothing but failures, four places are kept for three attempts and both delays each."""
    retry = {"max_attempts": 2, "delay_s": 0.1, "multiplier": 3, "max_delay_s": 0.2}
    more = {"failure_share": 1, **DROPS, "retry": retry, "latency_scv": 0, "capacity": 4, "ordered": ordered}
    world = world_of(asking(1000, **more), RunSettings(horizon_s=20.0, noise=False))
    world.advance(20.0)
    (task,) = world.tasks["ask"]
    calling = task.logic.steps[0].calling
    kept_s = 3 * LATENCY_S + 0.1 + 0.2
    assert calling.failed == calling.answered == pytest.approx(4 * 20 / kept_s, abs=8)
    assert task.records_out == 0 and calling.flying == 4


def test_places_bear_as_many_calls_as_their_mean_time_allows() -> None:
    more = JOBS["timeout amid attempts"] | {"capacity": 20}
    made = asking(2000, **more)
    calls = calls_of(made)
    assert calls.subtask_per_s == pytest.approx(20 / calls.mean_s)
    found = ran(made)
    error = 4 * (calls.subtask_per_s / 45) ** 0.5
    assert found.operators[1].rate_in_per_s == pytest.approx(calls.subtask_per_s, abs=error)


@pytest.mark.parametrize("hit_ratio", [0.0, 0.5])
def test_attempts_take_their_turns_outside(hit_ratio: float) -> None:
    """What bears 300 attempts a second bears so many records less."""
    more = JOBS["fixed delay"] | {"kind": "lookup-join", "hit_ratio": hit_ratio, "rate_per_s": 300}
    made = asking(2000, **more)
    attempts = 1 + 0.4 + 0.4**2
    expected = 300 / attempts / (1 - hit_ratio)
    assert calls_of(made).most_per_s == pytest.approx(expected)
    assert ran(made).operators[1].rate_in_per_s == pytest.approx(expected, rel=0.03)


def test_results_leave_in_order_though_some_are_lost() -> None:
    made = chain(
        [
            {"kind": "async", "name": "ask", "service_time_s": 0, "latency_s": LATENCY_S} | JOBS["in order"],
            {"kind": "map", "name": "slow", "service_time_s": 1e4},
        ],
        1000,
    )
    world = world_of(made, RunSettings(horizon_s=2.0))
    world.advance(2.0)
    born = [item.born_s for item in world.tasks["slow"][0].queue]
    assert len(born) > 50 and born == sorted(born)


def test_a_sink_counts_what_is_acknowledged() -> None:
    end = {"kind": "external-sink", "name": "store", "service_time_s": 0, "latency_s": 0.01, "capacity": 500, **FAILING}
    made = deployment([source(), end], [("source", "store")], {"source": 1000.0})
    found = simulated(made, horizon_s=20)
    error = 4 * (20_000 * 0.6 * 0.4) ** 0.5 + 4 * 20_000**0.5 * 0.6
    assert found.metrics.records_out == pytest.approx(20_000 * 0.6, abs=error)
    predicted = RateModel().predict(Scenario.of(made, RunSettings(warmup_s=20)), [made.plan])
    assert predicted["throughput_per_s"][0] == pytest.approx(600, rel=1e-3)
    assert any("failed for the last time; their records were dropped" in line for line in found.warnings)


@pytest.mark.parametrize(
    ("more", "how"), [({"timeout_s": 0.3}, "timed out"), ({"failure_share": 0.01, "retry": None}, "failed")]
)
def test_a_lost_call_fails_the_job_unless_it_is_dropped(more: dict[str, Any], how: str) -> None:
    """The run ends with the first one, at a time that the warning says."""
    found = simulated(asking(200, **more), horizon_s=30)
    warning = found.warnings[0]
    assert warning.startswith(f"the job failed: a call of ask#0 {how} at ")
    at_s = float(warning.partition(" at ")[2].partition(" s,")[0])
    assert not found.metrics.success and 0.0 < at_s < 30.0
    assert found.operators[1].records_in == pytest.approx(200 * at_s, abs=5 * (200 * at_s) ** 0.5 + 5)
    assert all("restart" not in line for line in found.warnings[1:])


@pytest.mark.parametrize("ordered", [False, True])
def test_a_run_is_the_same_however_code_runs(ordered: bool) -> None:
    """Also with checkpoints, and a failure after which calls are made again."""
    ask = {"kind": "async", "name": "ask", "service_time_s": 1e-4, "latency_s": LATENCY_S, "capacity": 30}
    made = deployment(
        [source(), ask | JOBS["timeout amid attempts"] | {"ordered": ordered}, sink()],
        [("source", "ask"), ("ask", "sink")],
        {"source": 300.0},
        HOSTS,
        {"source": "h0", "ask": "h1", "sink": "h2"},
    )
    events = [Failure(at_s=2.5, host="h1", recover_after_s=0.5)]
    same_however(Scenario.of(made, RunSettings(horizon_s=6, period_s=1, checkpoint_interval_s=1), events))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"retry": {"max_attempts": 2, "delay_s": 1}}, "has a retry, and no attempt fails"),
        ({"on_timeout": "drop"}, "has on_timeout and no timeout_s"),
        ({"on_failure": "drop"}, "has on_failure, and no attempt fails"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"failure_share": 1.5}, "failure_share"),
        (
            {"failure_share": 0.1, "retry": {"max_attempts": 2, "delay_s": 2, "max_delay_s": 1}},
            "shorter than delay_s",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(more: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        parse(AsyncIO, {"kind": "async", "name": "ask", "latency_s": 1} | more)


def test_absent_keys_are_not_written() -> None:
    plain = parse(AsyncIO, {"kind": "async", "name": "ask", "latency_s": 1})
    assert {"timeout_s", "on_timeout", "failure_share", "on_failure", "retry"}.isdisjoint(plain.model_dump())
