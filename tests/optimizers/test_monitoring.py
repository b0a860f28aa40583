"""Traffic-based scheduler: its use of measured work and traffic, and the closed loop in a run."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from optimizers.interface import plan_on
from optimizers.local_search import governor_placement
from optimizers.policies.moves import MeasuredLoads, Monitoring, MonitoringSpec, scheduled, worth
from scenarios.spaces.generator import COSTREAM, random_scenario
from tests.twin.worlds import deployment, sink, source
from twin.control import PeriodStatistics
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

DEFAULT = MonitoringSpec()


def random_job(seed: int, hosts: int = 3, parallelism: int = 4) -> tuple[MeasuredLoads, dict[tuple[str, int], str]]:
    """Loads of a chain of single subtasks with random work and rates, on random hosts."""
    rng = np.random.default_rng(seed)
    chain = [(f"o{index}", 0) for index in range(parallelism)]
    measured = MeasuredLoads(
        cores={f"h{index}": float(rng.integers(1, 5)) for index in range(hosts)},
        work={each: float(rng.uniform(0.05, 0.5)) for each in chain},
        traffic={pair: float(rng.uniform(1, 1000)) for pair in itertools.pairwise(chain)},
    )
    return measured, {each: f"h{rng.integers(hosts)}" for each in chain}


@pytest.mark.parametrize("seed", range(20))
def test_with_room_for_all_no_record_of_a_filtered_stream_leaves_its_host(seed: int) -> None:
    measured, now = random_job(seed)
    falling = sorted(measured.traffic.values(), reverse=True)
    traffic = dict(zip(measured.traffic, falling, strict=True))
    roomy = MeasuredLoads(dict.fromkeys(measured.cores, 10.0), measured.work, traffic)
    assert roomy.between_hosts(scheduled(roomy, now, DEFAULT)) == 0


def test_capacity_is_kept_wherever_some_schedule_keeps_it_with_hosts_to_spare() -> None:
    for seed in range(40):
        measured, now = random_job(seed)
        new = scheduled(measured, now, DEFAULT)
        if max(measured.work.values()) + 0.5 * sum(measured.work.values()) < DEFAULT.capacity * min(
            measured.cores.values()
        ):
            assert measured.fullest(new) <= DEFAULT.capacity + 1e-9


def test_what_is_fixed_stays_and_others_go_round_it() -> None:
    cores = {"h0": 1.0, "h1": 1.0}
    pair = (("o0", 0), ("o1", 0))
    measured = MeasuredLoads(cores, dict.fromkeys(pair, 0.5), {pair: 100.0}, fixed=["o1"])
    now = dict.fromkeys(pair, "h1")
    assert scheduled(measured, now, DEFAULT) == {pair[0]: "h0", pair[1]: "h1"}
    assert scheduled(replace(measured, fixed=[]), now, DEFAULT) == dict.fromkeys(pair, "h0"), "the emptier one"


def test_a_schedule_is_worth_it_exactly_for_less_traffic_or_a_relieved_host() -> None:
    found = set()
    for seed in range(100):
        measured, now = random_job(seed)
        _, new = random_job(seed + 1000)
        reason = worth(measured, now, new, DEFAULT)
        less = measured.between_hosts(new) < (1 - DEFAULT.improvement) * measured.between_hosts(now)
        fuller = measured.fullest(new) > max(DEFAULT.capacity, measured.fullest(now))
        relieved = (
            measured.fullest(now) > DEFAULT.capacity
            and measured.fullest(new) < measured.fullest(now) - DEFAULT.improvement
        )
        assert bool(reason) == (relieved or (less and not fuller))
        assert not worth(measured, now, now, DEFAULT)
        found.add(bool(reason))
    assert found == {True, False}


def linear_job():
    """Filter chain whose heuristic placement spreads it over three hosts, the first of which is overloaded."""
    scenario = random_scenario(COSTREAM, 18, RunSettings())
    job = scenario.deployment
    return job.with_plan(plan_on(job, governor_placement(job)))


def test_it_redeploys_once_the_job_is_stable_and_then_is_content() -> None:
    job = linear_job()
    settings = RunSettings(horizon_s=150)
    run = simulate(Scenario.of(job, settings), policy=DEFAULT.start(job))
    decisions = [event for event in run.event_rows if event["kind"] == "decision"]
    moves = [event for event in run.event_rows if event["kind"] == "migration"]
    assert decisions[0]["at_s"] == 30  # three periods of ten seconds
    assert 1 <= len(decisions) <= 3
    assert moves
    last = max(event["end_s"] for event in moves)
    late = [row for row in run.operator_rows if row["kind"] == "sink" and row["start_s"] >= last + 20]
    early = [row for row in run.operator_rows if row["kind"] == "sink" and row["end_s"] <= 30]

    def mean_s(rows):
        return sum(row["processingLatencySum_s"] for row in rows) / sum(row["latencyCount"] for row in rows)

    assert mean_s(late) < 0.5 * mean_s(early)


# what is made of statistics ------------------------------------------------------------------------------------------


def fan_out(how: str | None, parallelism: int = 2) -> Monitoring:
    """Statistics of source -> a and b -> sink, with several subtasks of a, in a period in which all operators emit
    1,000."""
    job = deployment(
        [source(), {"kind": "map", "name": "a"}, {"kind": "map", "name": "b"}, sink()],
        [("source", "a"), ("source", "b"), ("a", "sink"), ("b", "sink")],
        {"source": 100},
        placement={"source": ["h"] * parallelism, "a": ["h"] * parallelism},
    )
    first, *others = job.query.streams
    streams = (first.model_copy(update={"partitioning": how}), *others)
    job = job.model_copy(update={"query": job.query.model_copy(update={"streams": streams})})
    policy = DEFAULT.start(job)
    policy.decide(period(job.plan.placement))
    return policy


def period(placement: Any, start_s: float = 0.0, emits: int = 1000) -> PeriodStatistics:
    row = {"numRecordsOut": emits, "busyTimeMsPerSecond": 100.0}
    hosts = {"h": {"host": "h", "cpuUtilisation": 0.1}}
    return PeriodStatistics(start_s, start_s + 10.0, dict.fromkeys(placement, row), hosts, placement)


@pytest.mark.parametrize(
    ("how", "to_each"),
    [
        (None, [25, 25, 25, 25]),
        ("forward", [50, 0, 0, 50]),
        ("global", [50, 0, 50, 0]),
        ("broadcast", [50, 50, 50, 50]),
    ],
)
def test_all_that_an_operator_emits_goes_on_every_stream(how: str | None, to_each: list[float]) -> None:
    """Each stream carries all that two subtasks emit, 100 a second: to both of a by its partitioning, and to b."""
    traffic = fan_out(how)._traffic()
    pairs = itertools.product([("source", 0), ("source", 1)], [("a", 0), ("a", 1)])
    assert [traffic[pair] for pair in pairs] == pytest.approx(to_each)
    assert traffic[("source", 0), ("b", 0)] == pytest.approx(50)


def test_what_was_seen_before_an_outage_is_forgotten() -> None:
    policy = fan_out(None)
    placement = policy.deployment.plan.placement
    policy.decide(period(placement, 10.0))
    assert len(policy._seen) == 2
    policy.decide(period(placement, 50.0))
    assert len(policy._seen) == 1
