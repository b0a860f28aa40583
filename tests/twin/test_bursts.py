"""Windows of counts behind windows of time, whose results come all at once: their ages are in any order."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twin.worlds import HOST, chain, deployment
from twin.deployment import Deployment
from twin.engine.segment import Segment
from twin.engine.windows.shuffled import of_any_order
from twin.job import compile
from twin.metrics import Metrics
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

TIME = {"policy": "time", "size_s": 4}
SLID = {"policy": "count", "size_tuples": 60, "slide_tuples": 20}
GROUPS: dict[str, Any] = {"kind": "aggregate", "name": "groups", "group_by": "int", "groups": 500, "window": TIME}
PAIR: dict[str, Any] = {"kind": "join", "name": "pair", "window": TIME, "key_type": "int", "amplification": 0.3}
PAIRED = [("left", "pair"), ("right", "pair"), ("pair", "top"), ("top", "out")]


def top(window: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "aggregate", "name": "top", "window": window, "function": "max", "value_type": "int"}


def latency_s(metrics: Metrics) -> float:
    assert metrics.e2e_latency_s is not None
    return metrics.e2e_latency_s.mean


def of_pairs() -> Deployment:
    """Four replicas join, each with a burst of 500 and more, which wait for each other."""
    ends: list[dict[str, Any]] = [
        {"kind": kind, "name": name} for name, kind in (("left", "source"), ("right", "source"), ("out", "sink"))
    ]
    window = {"policy": "count", "size_tuples": 50}
    operators: list[dict[str, Any]] = [*ends[:2], PAIR, top(window), ends[2]]
    return deployment(operators, PAIRED, {"left": 1400.0, "right": 300.0}, placement={"pair": {"h": 4}})


JOBS = {
    "whole windows in each burst": chain([GROUPS, top({"policy": "count", "size_tuples": 50})], 800.0),
    "windows over two bursts": chain([GROUPS, top({"policy": "count", "size_tuples": 700})], 800.0),
    "windows that slide": chain([GROUPS, top(SLID)], 800.0),
    "bursts of four replicas": of_pairs(),
}


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_results_of_bursts_are_as_old_as_in_exact_runs(job: Deployment) -> None:
    settings = RunSettings(horizon_s=60, warmup_s=12, period_s=12)
    exact, fast = (
        [simulate(Scenario.of(job, settings).with_run(fidelity=fidelity, seed=seed)).metrics for seed in range(seeds)]
        for fidelity, seeds in (("exact", 1), ("fast", 4))
    )
    older = fmean(map(latency_s, fast)) / latency_s(exact[0])
    more = fmean(each.throughput_per_s for each in fast) / exact[0].throughput_per_s
    assert older == pytest.approx(1.0, abs=0.06)
    assert more == pytest.approx(1.0, abs=0.03)


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)), max_size=4), st.floats(-5.0, 5.0))
def test_parts_of_a_burst_have_tuples_of_all_its_ages(cuts: list[tuple[float, float]], shift_s: float) -> None:
    part = Segment(100, 9.0, 9.0, 1.0, 5.0, 2.0, 6.0)
    part.beyond = 0.0, 0.0, 0.0, 0.0
    for low, high in cuts:
        part = part.part(max(1, part.n - 20), min(low, high), max(low, high))
        part.narrow(0.1)
    part.born0_s += shift_s  # a wait since
    part.born1_s += shift_s
    assert part.ages() == pytest.approx((1.0 + shift_s, 5.0 + shift_s, 2.0, 6.0))


def test_the_first_that_comes_tells_the_age_of_a_window_of_one_group_and_its_own_of_a_tuple_alone() -> None:
    old, new = (0.0, 4.0, 1.0, 5.0), (10.0, 12.0, 11.0, 15.0)
    assert of_any_order(old, new, 0.0) == old
    low, high, _, _ = of_any_order(old, new, 0.5)
    assert (low + high) / 2 == (2.0 + 11.0) / 2
    assert low <= 2.0 and high >= 11.0  # where groups of one tuple lie, of either burst


MBPS = {"one host": None, "a fast network": 1000.0, "a slow one": 20.0}


@pytest.mark.parametrize("mbps", MBPS.values(), ids=MBPS)
@pytest.mark.parametrize("replicas", [2, 5])
def test_bursts_of_several_replicas_wait_for_each_other(replicas: int, mbps: float | None) -> None:
    """Of N results at once each waits for half of the others, less what the network took them apart already."""
    hosts = [HOST | {"name": name, "bandwidth_mbps": mbps or HOST["bandwidth_mbps"]} for name in ("h", "far")]
    placement: dict[str, Any] = {"groups": {"h": replicas}} | ({"after": "far", "sink": "far"} if mbps else {})
    took_s = []
    for service_s in (0.0, 0.002):
        after = {"kind": "map", "name": "after", "service_time_s": service_s}
        job = chain([GROUPS, after], 2000.0, hosts=hosts, placement=placement)
        run = simulate(Scenario.of(job, RunSettings(horizon_s=60, warmup_s=12, period_s=12, seed=5)))
        took_s.append(latency_s(run.metrics))
    bytes_each = compile(job).edge(job.query.streams[1]).bytes_each
    apart_s = bytes_each * 8 / (mbps * 1e6) if mbps else 0.0
    assert took_s[1] - took_s[0] == pytest.approx((0.002 - apart_s) * (GROUPS["groups"] + 1) / 2, rel=0.02)
