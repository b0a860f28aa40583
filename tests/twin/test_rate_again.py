"""Copies of a tuple that come one after the other: what is left of the first, and what that makes all wait."""

from __future__ import annotations

import numpy as np
import pytest

from tests.twin.worlds import chain, dealt, deployment, sink, source
from twin.rates.copies import left
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

RUNS, TUPLES = 20, 100_000


def waits_s(load: float, apart_s: float) -> np.ndarray:
    """Mean waits at a server of 1 s for Poisson tuples and a copy of each, exponentially later (Lindley). [RUNS]"""
    rng, found = np.random.default_rng(0), []
    for _ in range(RUNS):
        first = np.cumsum(rng.exponential(2.0 / load, TUPLES))
        arrivals = np.sort(np.concatenate([first, first + rng.exponential(apart_s, TUPLES)]))
        services = rng.exponential(1.0, 2 * TUPLES)
        before = np.cumsum(services) - services
        found.append(float((np.maximum.accumulate(arrivals - before) + before - arrivals).mean()))
    return np.array(found)


@pytest.mark.parametrize(("load", "apart_s"), [(0.7, 0.5), (0.7, 2.0), (0.8, 2.0)])
def test_who_comes_after_its_copy_waits_for_what_is_left_of_it(load: float, apart_s: float) -> None:
    seen = waits_s(load, apart_s)
    longer_s = 0.5 * float(left(np.array(load), np.array(1.0), np.array(apart_s))) / (1.0 - load)
    assert abs(seen.mean() - load / (1.0 - load) - longer_s) < 4 * seen.std(ddof=1) / np.sqrt(RUNS)


def test_at_once_all_is_left_and_long_after_nothing() -> None:
    """M^[2]/G/1, and M/G/1."""
    load = np.array([0.2, 0.6, 0.9])
    assert left(load, np.ones(3), np.zeros(3)) == pytest.approx(1.0, abs=1e-6)
    assert left(load, np.ones(3), np.full(3, 1e6)) == pytest.approx(0.0, abs=1e-3)
    second, millisecond = (left(load, np.full(3, 2 * unit), np.full(3, unit)) for unit in (1.0, 1e-3))
    assert millisecond == pytest.approx(second)


WORK = {"kind": "map", "name": "work", "selectivity": 1, "service_time_s": 0.001, "service_scv": 1}
OUT = {"kind": "map", "name": "out", "selectivity": 1, "service_time_s": 0.0018, "service_scv": 1}
ASK = {"kind": "async", "name": "ask", "service_time_s": 0, "latency_s": 0.02, "ordered": True, "capacity": 1000}
WAYS = [("source", "work"), ("work", "out"), ("source", "out"), ("out", "sink")]
JOBS = {
    "two ways": deployment([source(), WORK, OUT, sink()], WAYS, {"source": 200}),
    "in order": chain([ASK, OUT], 300),
    "to all": dealt(chain([WORK | {"service_time_s": 0.003}, OUT], 90, placement={"work": {"h": 4}}), work="broadcast"),
}


@pytest.mark.parametrize("name", JOBS)
def test_the_rate_model_is_near_runs(name: str) -> None:
    """As M/M/1 alone the queue would be shorter: runs tell that apart, and two thirds of it at least are said."""
    scenario = Scenario.of(JOBS[name], RunSettings(horizon_s=60, warmup_s=10))
    answer = RateModel().answer(scenario, [scenario.plan])
    said = answer.costs["processing_latency_s"][0]
    number = answer.operators.index("out")
    load = answer.busy_cores[0, number]
    alone = said - answer.line_s[0, number] + load / (1.0 - load) * answer.service_s[0, number]
    latencies = [simulate(scenario.with_run(seed=seed)).metrics.processing_latency_s for seed in range(8)]
    runs = np.array([each.mean for each in latencies if each is not None])
    error = runs.std(ddof=1) / np.sqrt(len(runs))
    assert runs.mean() - alone > 4 * error
    assert abs(said - runs.mean()) < (runs.mean() - alone) / 3 + 2 * error
