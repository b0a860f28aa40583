"""Ages of results after a failure, by hand in tiny worlds.

A record is ingested when its source takes it: what is read again anew, what a checkpoint holds before the failure.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.twin.worlds import chain, joined, simulated
from twin.deployment import Deployment
from twin.events import AnyEvent, Failure
from twin.run import Run

SMOOTH = {"law": "constant", "rate_per_s": 20}
DOWN = Failure(at_s=7, host="near", recover_after_s=3)
"""Failure back to the checkpoint at 6 s, up again at 10 s."""
GAP_S = 1 / 20
HOSTS = [
    {"name": name, "cpu_percent": 1600, "ram_mb": 64_000, "bandwidth_mbps": 10_000, "latency_ms": latency_ms}
    for name, latency_ms in (("near", 0.01), ("far", 1500))
]


def tiny(middle: list[dict[str, Any]], middle_on: str = "far") -> Deployment:
    """Job without CPU costs. What leaves host "near" is there at once, what leaves "far" is on its way for 1.5 s."""
    free = [each | {"service_time_s": 0} for each in middle]
    places = {each["name"]: middle_on for each in middle} | {"source": "near", "sink": "near"}
    return chain(free, SMOOTH, hosts=HOSTS, placement=places, engine="storm")


def run(job: Deployment, *events: AnyEvent, seed: int = 0, **more: Any) -> Run:
    defaults = {"horizon_s": 20.0, "period_s": 0.8, "checkpoint_interval_s": 2.0, "noise": False}
    return simulated(job, *events, **defaults | more, seed=seed)


def arrived(result: Run, at_s: float) -> tuple[int, float, float]:
    """Number of results in the period around a time, their mean processing and their mean end-to-end latency."""
    (row,) = [row for row in sinks(result) if row["start_s"] <= at_s < row["end_s"]]
    count = row["latencyCount"]
    return count, row["processingLatencySum_s"] / count, row["e2eLatencySum_s"] / count


def sinks(result: Run) -> list[dict[str, Any]]:
    return [row for row in result.operator_rows if row["operator"] == "sink"]


def window(policy: str = "time", **size: float) -> dict[str, Any]:
    return {"kind": "aggregate", "name": "a", "window": {"policy": policy} | size}


LONERS = {"group_by": "int", "groups": 10**9}
"""Groups so many that every record is a group of its own."""


def test_a_window_by_hand() -> None:
    """A window has a result every 4 s, 1.5 s on its way; that of 8 s is evaluated at 10 s, with what it held at 6 s.

    Its oldest record is of 4 s. The next one holds what came from 6 s on, all read at 10 s or later.
    """
    result = run(tiny([window(size_s=4)]), DOWN)
    assert sum(row["latencyCount"] for row in sinks(result)) == 4
    processing, e2e = zip(*(arrived(result, at_s)[1:] for at_s in (5.5, 11.5, 13.5, 17.5)), strict=True)
    assert processing == pytest.approx([5.5, 7.5, 3.5, 5.5], abs=1.5 * GAP_S)
    assert e2e == pytest.approx([5.5, 7.5, 7.5, 5.5], abs=1.5 * GAP_S)


def test_each_record_of_a_window_by_hand() -> None:
    """The 40 records of 4 s to 6 s come out at 10 s, and 120 at 12 s, of which 80 were taken at 10 s and 40 since."""
    result = run(tiny([window(size_s=4) | LONERS], middle_on="near"), DOWN, period_s=0.9)
    count, processing, e2e = arrived(result, 10)
    assert count == pytest.approx(40, abs=1)
    assert processing == e2e == pytest.approx(10 - 5, abs=GAP_S + drawn(2, 40))
    count, processing, e2e = arrived(result, 12)
    assert count == pytest.approx(120, abs=1)
    assert processing == pytest.approx(12 - (80 * 10 + 40 * 11) / 120, abs=GAP_S + drawn(2, 120))
    assert e2e == pytest.approx(12 - 9, abs=GAP_S + drawn(6, 120))


def test_a_window_across_the_outage_by_hand() -> None:
    """A window at 18 s holds 120 records taken until 6 s, 80 of four seconds, taken at 10 s, and 160 until 18 s."""
    result = run(tiny([window(size_s=18) | LONERS], middle_on="near"), DOWN)
    count, processing, e2e = arrived(result, 18)
    assert count == pytest.approx(360, abs=1)
    assert processing == pytest.approx(18 - (120 * 3 + 80 * 10 + 160 * 14) / 360, abs=GAP_S + drawn(18, 360))
    assert e2e == pytest.approx(9, abs=GAP_S + drawn(18, 360))


def drawn(range_s: float, results: int) -> float:
    """Four standard errors of the mean of ages that exact runs draw from a range for each result."""
    return float(4 * range_s / np.sqrt(12 * results))


def test_a_count_window_by_hand() -> None:
    """A checkpoint holds 20 records since the last result; at 10 s 80 follow at once: two results, and none waits."""
    result = run(tiny([window("count", size_records=50)], middle_on="near"), DOWN)
    count, processing, e2e = arrived(result, 10)
    assert count == 2
    assert processing == pytest.approx(((10 - 5) + 0) / 2, abs=1.5 * GAP_S)
    assert e2e == pytest.approx(((10 - 5) + (10 - 7.5)) / 2, abs=1.5 * GAP_S)
    assert arrived(result, 12.6) == pytest.approx((1, 2.5, 2.5), abs=1.5 * GAP_S)


def test_what_was_on_its_way_by_hand() -> None:
    """Of a checkpoint, 30 records on the network, taken from 4.5 s to 6 s, are there at the restart, at 10 s.

    Those of 6 s to 10 s are read at once, and take the usual 1.5 s.
    """
    job = tiny([{"kind": "map", "name": "m"}])
    result = run(job, DOWN)
    assert arrived(result, 10) == pytest.approx((30, 4.75, 4.75), abs=1.5 * GAP_S)
    assert [*arrived(result, 5)[1:], *arrived(result, 19)[1:]] == pytest.approx([1.5] * 4, abs=GAP_S)
    again, on_time = 80, 10  # from 11.2 s to 12 s: those of four seconds, and of the first half second since
    late_s = (again * 3.5 + on_time * 1.5) / (again + on_time)
    assert arrived(result, 11.5) == pytest.approx((again + on_time, 1.5, late_s), abs=1.5)
    assert arrived(result, 11.5)[1:] == pytest.approx((1.5, late_s), abs=1.5 * GAP_S)


def test_a_result_on_its_way_is_as_old_as_its_records() -> None:
    """A result of 8 s, which a failure at 9 s loses, comes from the checkpoint at 8.5 s, as old as its records."""
    lost = Failure(at_s=9, host="near", recover_after_s=3)
    result = run(tiny([window(size_s=4)]), lost, checkpoint_interval_s=8.5)
    count, processing, e2e = arrived(result, 12)
    assert (count, processing) == (1, e2e)
    assert processing == pytest.approx(12 - 4, abs=1.5 * GAP_S)


def test_a_join_by_hand() -> None:
    """A join at 10 s matches what both sides held at 6 s; the older of two records until 6 s is of 2 s on average."""
    join = {"kind": "join", "name": "j", "window": {"policy": "time", "size_s": 8}, "key_type": "int"}
    job = joined(
        join | {"selectivity": 0.05, "service_time_s": 0},
        {"l": SMOOTH, "r": SMOOTH},
        hosts=HOSTS,
        placement=dict.fromkeys(("l", "r", "j", "sink"), "near"),
    )
    found = [arrived(run(job, DOWN, seed=seed, horizon_s=11), 10) for seed in range(12)]
    counts, processing, _ = np.array(found).T
    expected = 0.05 * 120 * 120
    assert abs(counts.mean() - expected) < 4 * np.sqrt(expected / 12) + 0.02 * expected
    assert processing.mean() == pytest.approx(8, abs=GAP_S + 4 * np.sqrt(2 / (12 * expected)))
