"""Random small queries under random plans, partitionings and channels of few tuples: they progress and lose nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.twin.worlds import deployment, sink, source
from twin.deployment import Deployment
from twin.profiles import STORM
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

HOSTS = ("a", "b", "c")
SLOW_S = 2e-3
"""Service time of the slow operators: a host of half a core then serves 250 tuples a second."""


@st.composite
def operators(draw: st.DrawFn) -> list[dict[str, Any]]:
    """One or two sources, up to four operators, one or two sinks; streams are drawn apart."""
    count_or_time = st.sampled_from(
        [{"policy": "count", "size_tuples": 5, "slide_tuples": 2}, {"policy": "time", "size_s": 0.2}]
    )
    service = st.sampled_from([0.0, 1e-4, SLOW_S])

    def middle(index: int) -> dict[str, Any]:
        kind = draw(st.sampled_from(["filter", "map", "aggregate", "join"]))
        more: dict[str, Any] = {
            "filter": {"selectivity": 0.7},
            "map": {"selectivity": 1.5},
            "aggregate": {"window": draw(count_or_time), "group_by": "int", "groups": 3},
            "join": {"window": draw(count_or_time), "selectivity": 0.05},
        }[kind]
        return {"kind": kind, "name": f"m{index}", "service_time_s": draw(service), **more}

    sources = [source(f"s{index}") for index in range(draw(st.integers(1, 2)))]
    middles = [middle(index) for index in range(draw(st.integers(1, 4)))]
    return [*sources, *middles, *(sink(f"t{index}") for index in range(draw(st.integers(1, 2))))]


@st.composite
def jobs(draw: st.DrawFn) -> Deployment:
    """A random graph of them, randomly replicated, placed, partitioned, with channels of 1 to 64 tuples."""
    parts = draw(operators())
    names = [each["name"] for each in parts]
    streams: list[tuple[str, str]] = []
    for position, each in enumerate(parts):
        if each["kind"] == "source":
            continue
        before = [other["name"] for other in parts[:position] if other["kind"] != "sink"]
        wanted = 2 if each["kind"] == "join" else draw(st.integers(1, min(2, len(before))))
        producers = draw(st.permutations(before))[:wanted]
        if len(producers) < wanted:  # a join needs two inputs
            each.clear()
            each.update({"kind": "map", "name": names[position], "service_time_s": 0.0})
        streams += [(producer, names[position]) for producer in producers]
    led_on = {producer for producer, _ in streams}
    streams += [(name, "t0") for name in names if name not in led_on and not name.startswith("t")]
    placement = {
        name: draw(st.lists(st.sampled_from(HOSTS), min_size=1, max_size=1 if name[0] == "t" else 3)) for name in names
    }
    hosts = [
        {"name": name, "cpu_percent": cores, "ram_mb": 16_000, "bandwidth_mbps": bandwidth, "latency_ms": latency}
        for name, cores, bandwidth, latency in zip(HOSTS, (50, 100, 400), (10, 100, 1000), (0, 1, 20), strict=True)
    ]
    engine = STORM.model_copy(update={"channel_tuples": draw(st.sampled_from([1, 2, 3, 8, 64]))})
    rates = {name: draw(st.sampled_from([20.0, 100.0, 400.0])) for name in names if name.startswith("s")}
    job = deployment(parts, streams, rates, hosts, placement, engine.model_dump(mode="json"))
    dealt = tuple(
        each.model_copy(update={"partitioning": draw(st.sampled_from([None, *_allowed(job, each)]))})
        for each in job.query.streams
    )
    query = {**job.query.model_dump(), "streams": [each.model_dump() for each in dealt]}
    return Deployment.model_validate({**job.model_dump(), "query": query, "engine": job.engine.model_dump()})


def _allowed(job: Deployment, stream: Any) -> list[str]:
    """Keyed operators must get their groups together; others take any way of dealing that fits the replicas."""
    if job.query.operator(stream.consumer).kind in ("aggregate", "join"):
        return ["hash", "global"]
    equal = job.plan.replicas(stream.producer) == job.plan.replicas(stream.consumer)
    return ["rebalance", "broadcast", "global", "hash", *(["forward"] if equal else [])]


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(job=jobs(), seed=st.integers(0, 1000))
def test_random_plans_progress_and_conserve(job: Deployment, seed: int) -> None:
    """`simulate` checks conservation. As long as tuples wait, some operator must go on taking some: no deadlock.

    A single source may well stand still for long, behind a join that emits thousands of results at once.
    """
    run = simulate(Scenario.of(job, RunSettings(horizon_s=4.0, period_s=1.0, seed=seed)))
    assert not run.crashed
    last = [row for row in run.operator_rows if row["end_s"] == 4.0]
    waiting = sum(row["queueLength"] + (row["backlog"] or 0) for row in last)
    assert not waiting or any(row["numRecordsIn"] > 0 for row in last), f"all stands still before {waiting} tuples"
    for row in run.operator_rows:
        shares = [row[f"{key}TimeMsPerSecond"] for key in ("busy", "backPressured", "idle")]
        assert sum(shares) == pytest.approx(1000)
