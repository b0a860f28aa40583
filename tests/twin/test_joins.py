"""Joins of two and more sides against theory and brute force."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.twin.worlds import deployment, joined, latencies_s, simulated, sink, source, world_of
from twin.deployment import Deployment, nominal_rates
from twin.profiles import STORM
from twin.rates.model import RateModel
from twin.scenario import RunSettings

WINDOWS: dict[str, dict[str, Any]] = {
    "time": {"policy": "time", "size_s": 1.0, "slide_s": 0.5},
    "count": {"policy": "count", "size_records": 30, "slide_records": 10},
}


def star(rates: dict[str, float], window: dict[str, Any], **more: Any) -> Deployment:
    """Job of all sources into one join into a sink."""
    join = {"kind": "join", "name": "j", "window": window, "service_time_s": 1e-6} | more
    return joined(join, rates)


@pytest.mark.parametrize("policy", ["time", "count"])
def test_three_way_matches_are_the_product_of_the_sides(policy: str) -> None:
    """Matches of independent Poisson sides are selectivity x the product of the mean contents at evaluations."""
    job = star({"a": 10, "b": 20, "c": 30}, WINDOWS[policy], selectivity=0.004)
    expected = nominal_rates(job.query, job.workload.arrivals)["j"].out_per_s
    shares = np.array([10, 20, 30]) / 60
    by_hand = 0.004 * (10 * 20 * 30 * 2 if policy == "time" else 30 * 29 * 28 * np.prod(shares) * 6)
    assert expected == pytest.approx(by_hand)
    rates = []
    for seed in range(16):
        run = simulated(job, horizon_s=35, warmup_s=10, seed=seed)
        rates.append(run.metrics.throughput_per_s)
    assert abs(np.mean(rates) - expected) < 4 * np.std(rates, ddof=1) / np.sqrt(16) + 0.02 * expected


def test_a_match_is_as_old_as_its_oldest_record() -> None:
    """A match of k records spread evenly over a second is k / (k + 1) s old on average."""
    for sides in (2, 3, 4):
        job = star(dict.fromkeys("abcd"[:sides], 40.0), {"policy": "time", "size_s": 1.0}, amplification=1)
        run = simulated(job, horizon_s=60, warmup_s=10)
        estimate = RateModel(horizon_s=1e6).predict(job, [job.plan])
        assert run.metrics.processing_latency_s.mean == pytest.approx(sides / (sides + 1), rel=0.04)
        assert estimate["processing_latency_s"][0] == pytest.approx(sides / (sides + 1), rel=0.04)


@pytest.mark.parametrize("per_s", [3.0, 8.0])
def test_matches_of_a_few_single_records_are_no_younger(per_s: float) -> None:
    """Of each pair of records, anywhere in the window, the older is 2/3 of it old, as counted out.

    What lies between the first and the last record of a side is narrower than the window, by 2 of so many gaps.
    """
    job = star({"a": per_s, "b": 2 * per_s}, {"policy": "time", "size_s": 1.0}, selectivity=1)
    means = latencies_s(job, 6, horizon_s=130, warmup_s=10)
    error = np.std(means, ddof=1) / np.sqrt(len(means))
    assert abs(np.mean(means) - 2 / 3) < 4 * error + 0.002


def test_a_match_of_three_keeps_one_key() -> None:
    columns = star({"a": 1, "b": 1, "c": 1}, WINDOWS["time"], selectivity=0.1).query.columns_out["j"]
    assert (columns.ints, columns.strings, columns.doubles) == (1, 3, 3)


NARROW, WIDE = {"ints": 1}, {"ints": 3, "strings": 20}
RATES = {"narrow": 70, "wide": 20}
"""Records a second of the two sides, evenly spaced."""


def two_sided(middle: dict[str, Any], order: Sequence[str], **more: Any) -> Deployment:
    """Job of a narrow and a wide source into one operator, whose streams are listed in that order."""
    sides = {"narrow": source("narrow", columns=NARROW), "wide": source("wide", columns=WIDE)}
    operators = [*(sides[name] for name in order), {"name": "both"} | middle, sink()]
    streams = [*((name, "both") for name in order), ("both", "sink")]
    return deployment(operators, streams, {k: {"law": "constant", "rate_per_s": v} for k, v in RATES.items()}, **more)


def join(**window: Any) -> dict[str, Any]:
    return {"kind": "join", "window": window, "selectivity": 0, "service_scv": 0}


def own_s(kind: str) -> dict[str, float]:
    """CPU seconds of a record of each side, by hand."""
    base, value = getattr(STORM.record_us, kind), STORM.value_us
    values = {"narrow": value.ints, "wide": 3 * value.ints + 20 * value.strings}
    return {name: (base + values_us) * 1e-6 for name, values_us in values.items()}


ORDERS = [("narrow", "wide"), ("wide", "narrow")]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("middle", [join(policy="count", size_records=10), {"kind": "map", "service_scv": 0}])
def test_busy_time_is_the_sum_over_the_streams(middle: dict[str, Any], order: Sequence[str]) -> None:
    """Busy time is the sum over both streams, with free results and scans, all on one host."""
    free = STORM.model_copy(update={"result_us": 0.0, "scan_us": 0.0}).model_dump(mode="json")
    job = two_sided(middle, order, engine=free)
    settings = RunSettings(horizon_s=20.5, warmup_s=0, period_s=20.5, noise=False)
    world = world_of(job, settings)
    world.advance(settings.horizon_s)
    (task,) = world.tasks["both"]
    came = {name: world.streams[name, "both"].inboxes[0].sent for name in RATES}
    assert came["narrow"] > 3 * came["wide"] > 0
    assert not task.busy and not task.queued
    assert task.busy_s == pytest.approx(sum(n * own_s(middle["kind"])[name] for name, n in came.items()), rel=1e-9)


@pytest.mark.parametrize("order", ORDERS)
def test_a_window_holds_each_side_at_its_own_size(order: Sequence[str]) -> None:
    job = two_sided(join(policy="time", size_s=4, slide_s=2), order)
    run = simulated(job, horizon_s=21, warmup_s=0, period_s=21, noise=False)
    (row,) = (row for row in run.operator_rows if row["operator"] == "both")
    sizes = {name: job.engine.output_bytes(job.query, name) for name in RATES}
    assert sizes["wide"] > 5 * sizes["narrow"]
    kept = sum(3 * RATES[name] * size for name, size in sizes.items())  # the evaluation at 20 s leaves those of 2 s
    assert row["stateBytes"] == pytest.approx(kept, abs=sizes["narrow"] + sizes["wide"])


@pytest.mark.parametrize("groups", [{}, {"key_groups": 8}])
@pytest.mark.parametrize("policy", WINDOWS)
def test_where_nothing_matches_nothing_comes_out(policy: str, groups: dict[str, int]) -> None:
    """A selectivity of 0 gives no results: it is the limit of small ones, which no number of keys gives."""
    for selectivity, results in ((0, 0), (0.1, 1)):
        job = star({"a": 10, "b": 20}, WINDOWS[policy], selectivity=selectivity, **groups)
        made = simulated(job, horizon_s=30, warmup_s=0, period_s=30)
        assert (made.metrics.records_out > 0) == bool(results)
