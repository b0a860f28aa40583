"""Session windows against M/D/infinity: how often a session ends, how long it lasts, how many are open."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.twin.changing import HOSTS
from tests.twin.worlds import chain
from twin.deployment import Deployment
from twin.events import AnyEvent, Failure, Migration, RateChange, Scale
from twin.key_skew import zipf_shares
from twin.rates.model import RateModel
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

RATE, KEYS, GAP_S = 200.0, 100, 0.8


def job(parallelism: int = 1, **more: Any) -> Deployment:
    """Job source -> sessions -> sink; service takes next to nothing."""
    sessions = {"kind": "session", "name": "sessions", "service_time_s": 1e-6, "gap_s": GAP_S, "keys": KEYS} | more
    return chain([sessions], RATE, placement={"sessions": {"h": parallelism}})


def ran(what: Deployment | Scenario, horizon_s: float, seed: int = 1, **more: Any) -> Run:
    settings = RunSettings(horizon_s=horizon_s, warmup_s=horizon_s / 4, period_s=horizon_s / 20, seed=seed)
    return simulate(Scenario.of(what, settings, **more))


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_record_ends_its_session_if_none_of_its_key_follows(parallelism: int) -> None:
    """Sessions end at lambda exp(-lambda gap) a key, after (exp(lambda gap) - 1) / lambda on average."""
    each = RATE / KEYS
    runs = [ran(job(parallelism), 24.0, seed) for seed in range(4)]
    rates = np.array([run.metrics.throughput_per_s for run in runs])
    expected = RATE * math.exp(-each * GAP_S)
    assert abs(rates.mean() - expected) < 4 * math.sqrt(expected / (4 * 18.0))
    lasted = np.mean([run.metrics.processing_latency_s.mean for run in runs if run.metrics.processing_latency_s])
    assert lasted == pytest.approx(math.expm1(each * GAP_S) / each, rel=0.12)


def test_the_rate_model_knows_both() -> None:
    scenario, each = Scenario.of(job()), RATE / KEYS
    found = RateModel(horizon_s=100_000).predict(scenario, [scenario.plan])
    assert found["throughput_per_s"][0] == pytest.approx(RATE * math.exp(-each * GAP_S), rel=1e-4)
    assert found["processing_latency_s"][0] == pytest.approx(math.expm1(each * GAP_S) / each, abs=1e-3)


@pytest.mark.parametrize(("lasts", "said"), [(0.2, False), (0.3, True)])
def test_sessions_that_a_run_does_not_see_end_are_named(lasts: float, said: bool) -> None:
    """Sessions that last for more than a quarter of a run are named: those that end in it are the shorter ones."""
    mean_s = math.expm1(RATE / KEYS * GAP_S) / (RATE / KEYS)
    scenario = Scenario.of(job(), RunSettings(horizon_s=mean_s / lasts))
    assert any("shorter results of sessions" in each for each in RateModel().blind_to(scenario)) == said


def test_open_sessions_are_the_keys_seen_within_the_gap() -> None:
    """Open sessions, of a record's size each, are the keys seen within the gap."""
    found = ran(job(record_bytes=1), 20.0)
    held = np.mean([row["stateBytes"] for row in found.operator_rows if row["operator"] == "sessions"][5:])
    size = job().engine.input_bytes(job().query, "sessions")
    assert held / size == pytest.approx(KEYS * -math.expm1(-RATE / KEYS * GAP_S), rel=0.05)


def test_of_skewed_keys_the_frequent_ones_go_on() -> None:
    """Skewed keys end sum lambda_k exp(-lambda_k gap) sessions; the rate model warns that its estimate differs."""
    skewed = job(key_groups=KEYS).model_dump()
    skewed["workload"]["keys"] = {"sessions": {"zipf": 1.0}}
    what = Deployment.model_validate(skewed)
    each = RATE * zipf_shares(KEYS, 1.0)
    expected = float((each * np.exp(-each * GAP_S)).sum())
    rates = [ran(what, 24.0, seed).metrics.throughput_per_s for seed in range(3)]
    assert abs(np.mean(rates) - expected) < 4 * math.sqrt(expected / (3 * 18.0)) + 0.02 * expected
    assert not RateModel().blind_to(Scenario.of(job()))


@pytest.mark.parametrize(("per_gap", "fewer"), [(0.4, True), (3.0, False), (5.0, False)])
def test_the_rate_model_says_which_way_skewed_keys_move_its_estimate(per_gap: float, fewer: bool) -> None:
    """The rate model says how skew changes its estimate: of equal keys with 0.4 records in a gap, two in three end a
    session; with 5, frequent ones end none, and rare ones have nearly all sessions, which are short."""
    skewed = job(key_groups=KEYS, gap_s=per_gap * KEYS / RATE).model_dump()
    skewed["workload"]["keys"] = {"sessions": {"zipf": 1.0}}
    scenario = Scenario.of(Deployment.model_validate(skewed), RunSettings(horizon_s=60, warmup_s=15, period_s=3))
    exact, found = simulate(scenario).metrics, RateModel().predict(scenario, [scenario.plan])
    assert (exact.throughput_per_s < found["throughput_per_s"][0]) == fewer
    assert exact.processing_latency_s is not None
    assert (exact.processing_latency_s.mean > found["processing_latency_s"][0]) == fewer
    (said,) = (each for each in RateModel().blind_to(scenario) if "unlike" in each)
    assert "fewer sessions end than estimated where fewer than two records of a key come in gap_s, and more" in said


def test_bursts_of_keys_make_few_sessions() -> None:
    """Bursts make few sessions. In 5 s a key has a record every half second, then none for 15 s: of 10 records of a key
    the last ends a session, and each other one by chance exp(-2 / 0.5), if 2 s are left. Means of rates say 4.5 times
    as many."""
    what = job(gap_s=2, keys=50).model_dump()
    what["workload"]["arrivals"]["source"] = {
        "law": "spikes", "rate_per_s": 1e-3, "factor": 1e5, "every_s": 20, "duration_s": 5
    }  # fmt: skip
    bursty = Deployment.model_validate(what)
    found = [ran(bursty, 320.0, seed).metrics.throughput_per_s for seed in (1, 2)]
    expected = 50 * (1 - math.exp(-10) + 3 * 2 * math.exp(-4)) / 20
    assert np.mean(found) == pytest.approx(expected, rel=0.05)


CHANGES: list[tuple[AnyEvent, ...]] = [
    (Failure(at_s=4, host="h1", recover_after_s=2), Failure(at_s=9, host="h1", recover_after_s=1)),
    (Scale(at_s=4, operator="sessions", placement={"h1": 3}), Scale(at_s=8, operator="sessions", placement={"h2": 1})),
    (Migration(at_s=4, operator="sessions", subtask=0, to="h3"), Failure(at_s=8, host="h3", recover_after_s=1)),
]


@pytest.mark.parametrize("groups", [{}, {"key_groups": 20, "state_bytes_per_group": 1000}])
@pytest.mark.parametrize("events", CHANGES)
def test_sessions_survive_changes(events: tuple[AnyEvent, ...], groups: dict[str, Any]) -> None:
    """Sessions go where their keys go, pass the guards, and none is left when nothing has come for long."""
    sessions = {"kind": "session", "name": "sessions", "service_time_s": 1e-5, "gap_s": 0.5, "keys": 40} | groups
    places = {"source": "h0", "sessions": ["h1", "h1"], "sink": "h2"}
    what = chain([sessions], 60, hosts=HOSTS, placement=places)
    found = ran(what, 20.0, events=(*events, RateChange(at_s=15, source="source", factor=1e-6)))
    rows = [row for row in found.operator_rows if row["operator"] == "sessions"]
    assert rows[-1]["stateBytes"] <= 20 * 1000 * bool(groups)
    totals = {key: sum(row[key] for row in rows) for key in ("numRecordsIn", "numRecordsOut")}
    share = totals["numRecordsOut"] / totals["numRecordsIn"]
    expected = math.exp(-60 / 40 * 0.5)
    if isinstance(events[-1], Failure):  # what is read again comes together, so in an exact run fewer sessions end
        assert 0.3 * expected < share < 1.15 * expected
    else:
        assert share == pytest.approx(expected, rel=0.15)
