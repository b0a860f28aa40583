"""Waits of results for their checkpoint: by arithmetic, and beside exact runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.twin.checkpointed import hosts, lines, meeting, steady
from tests.twin.worlds import chain
from twin.deployment import Deployment
from twin.metrics import Estimates
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse


def given(what: Deployment, horizon_s: float = 60.0, warmup_s: float = 0.0, **checkpoints: Any) -> Scenario:
    settings = RunSettings(horizon_s=horizon_s, warmup_s=warmup_s, period_s=5.0)
    spec = {"interval_s": 5.0, "sinks": "exactly-once"} | checkpoints
    return parse(Scenario, {**dict(Scenario.of(what, settings)), "checkpoints": spec})


def costs(scenario: Scenario) -> Estimates:
    return RateModel().predict(scenario, [scenario.plan])


def keyed(rate_per_s: float = 200.0) -> Deployment:
    """Job with 12.8 MB of state on two hosts."""
    keys = {"key_groups": 64, "state_bytes_per_group": 200_000}
    return chain(
        [{"kind": "map", "name": "m", "service_time_s": 5e-4} | keys],
        steady(rate_per_s),
        hosts=hosts("a", "b", "c", "store", bandwidth_mbps=50.0),
        placement={"source": ["a"], "m": ["b", "c"], "sink": ["a"]},
    )


def tumbling() -> Deployment:
    window = {"policy": "time", "size_s": 3.0}
    return chain(
        [{"kind": "aggregate", "name": "w", "group_by": "int", "groups": 50, "window": window}],
        1000.0,
        hosts=hosts("a", "b", "store", bandwidth_mbps=20.0),
        placement={"source": ["a"], "w": ["b"], "sink": ["b"]},
    )


JOBS = {
    "work": (lines(), {"sync_ms": 200.0}),
    "files": (lines(), {"sync_ms": 20.0, "async_ms": 900.0}),
    "alignment": (meeting(), {"interval_s": 4.7}),
    "full": (keyed(), {"storage": "store", "storage_mbps": 40.0, "sync_ns_per_byte": 10.0}),
    "increments": (keyed(), {"storage": "store", "state": "incremental"}),
    "longer than the interval": (keyed(), {"interval_s": 3.0, "storage_mbps": 20.0, "min_pause_s": 1.0}),
    "windows": (tumbling(), {"interval_s": 4.3, "storage": "store"}),
}


@pytest.mark.parametrize("name", JOBS)
def test_results_are_as_old_as_in_an_exact_run(name: str) -> None:
    what, spec = JOBS[name]
    scenario = given(what, 120.0, 20.0, **spec)
    exact, found = simulate(scenario).metrics, costs(scenario)
    # runs vary only by queues, and by the phase at which windows meet checkpoints
    assert found["processing_latency_s"][0] == pytest.approx(exact.processing_latency_s.mean, rel=0.01)
    lasting_per_s = costs(Scenario.of(what, scenario.run))["throughput_per_s"][0]
    assert found["throughput_per_s"][0] == pytest.approx(min(exact.throughput_per_s, lasting_per_s), rel=0.01)


def test_of_records_half_an_interval_and_a_checkpoint_pass_whatever_their_way() -> None:
    """Records wait half an interval and a checkpoint, of which their own way between two barriers is a part."""
    near, far = (costs(given(meeting(late_ms)))["processing_latency_s"][0] for late_ms in (0.0, 500.0))
    assert near == pytest.approx(2.5, abs=0.01)
    assert far - near == pytest.approx(0.5, abs=0.01)


def test_state_reaches_its_storage_a_latency_later() -> None:
    """Half of the state takes a second from each of two hosts, and half a second of latency on top of that."""
    durations = []
    for late_ms in (0.001, 500.0):
        data = keyed().model_dump(mode="json")
        for host in data["cluster"]["hosts"]:
            host["latency_ms"] = late_ms if host["name"] in ("b", "c") else host["latency_ms"]
        durations.append(costs(given(parse(Deployment, data), storage="store"))["checkpoint_duration_s"][0])
    assert durations[0] > 6_400_000 * 8 / 50e6
    assert durations[1] - durations[0] == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("rate_per_s", [1.0, 1500.0])
def test_uploads_share_the_card_with_records(rate_per_s: float) -> None:
    scenario = given(keyed(rate_per_s), storage="store", sync_ms=0.0)
    found = RateModel().answer(scenario, [scenario.plan])
    card = found.card[0, found.hosts.index("b")]
    upload_s = 6.4e6 * 8 / 50e6 / (1.0 - card)
    assert found.costs["processing_latency_s"][0] == pytest.approx(2.5 + upload_s, abs=0.003)


@pytest.mark.parametrize(("timeout_s", "seen"), [(0.5, False), (2.0, True)])
def test_what_takes_longer_than_the_time_out_commits_nothing(timeout_s: float, seen: bool) -> None:
    found = costs(given(keyed(), storage="store", timeout_s=timeout_s))
    assert (found["throughput_per_s"][0] > 0.0) == seen
    assert (found["success"][0] > 0.5) == seen


def test_results_of_the_last_intervals_are_not_seen() -> None:
    """Where it is known when the first checkpoint begins, results come in steps; else on average."""
    for first_s, fresh in ((5.0, 5.0), (None, 2.0)):
        jobs = [given(lines(), horizon_s, first_s=first_s) for horizon_s in (59.0, 61.0)]
        before, after = (float(costs(job)["throughput_per_s"][0]) * job.run.horizon_s for job in jobs)
        assert after - before == pytest.approx(fresh * 200.0, rel=1e-3)


@pytest.mark.parametrize("interval_s", [1.0, 2.0, 6.0])
def test_when_checkpoints_begin_says_nothing_of_windows(interval_s: float) -> None:
    """Results of windows of 2 s wait for half an interval on average, also where both are in step."""
    window = {"kind": "aggregate", "name": "w", "service_time_s": 0.0, "window": {"policy": "time", "size_s": 2.0}}
    job = chain([window | {"group_by": "int", "groups": 5}], steady(100.0))
    made = given(job, 26.0, warmup_s=8.0, interval_s=interval_s, sync_ms=0.0)
    runs = [simulate(made.with_run(seed=seed)) for seed in range(24)]
    ages = np.array([run.metrics.processing_latency_s.mean for run in runs])
    plain = simulate(parse(Scenario, {**dict(made), "checkpoints": None})).metrics.processing_latency_s.mean
    error = interval_s / np.sqrt(12.0) / np.sqrt(len(ages))
    assert abs(ages.mean() - plain - interval_s / 2.0) < 4 * error
    assert float(costs(made)["processing_latency_s"][0]) == pytest.approx(plain + interval_s / 2.0, rel=0.01)
    first = [simulate(given(job, 26.0, 8.0, interval_s=interval_s, first_s=0.5, sync_ms=0.0)) for _ in range(2)]
    (at_s, *_) = (row["at_s"] for row in first[0].event_rows if row["kind"] == "checkpoint")
    assert at_s == 0.5 and first[0].metrics == first[1].metrics
