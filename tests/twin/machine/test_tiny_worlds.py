"""Jobs so small that all of their events follow by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.twin.machine.runs import same_however
from tests.twin.worlds import chain, deployment, joined, sink, source
from twin.deployment import Deployment
from twin.profiles import STORM
from twin.run import Run
from twin.scenario import RunSettings, Scenario

EVERY_S = 0.1
"""Time between two records, and before the first."""
STEADY = {"law": "constant", "rate_per_s": 1 / EVERY_S}


def host(name: str = "h", **more: Any) -> dict[str, Any]:
    """Host with cores for all, and a card that costs no time."""
    return {"name": name, "cpu_percent": 1600, "ram_mb": 64_000, "bandwidth_mbps": 1e6, "latency_ms": 0} | more


def engine(**more: Any) -> dict[str, Any]:
    """Engine without costs except the given ones."""
    free = {"serialise_ns_per_byte": 0, "deserialise_ns_per_byte": 0, "service_scv": 0, "result_us": 0, "scan_us": 0}
    return STORM.model_dump(mode="json") | {"name": "free", **free, **more}


def worker(service_s: float, name: str = "work", **more: Any) -> dict[str, Any]:
    """Map of one result a record."""
    return {"kind": "map", "name": name, "service_time_s": service_s, "service_scv": 0, **more}


def ran(job: Deployment, horizon_s: float) -> Run:
    """Run of a job, in one period."""
    return same_however(Scenario(**dict(job), run=RunSettings(horizon_s=horizon_s, period_s=horizon_s)))


def row(run: Run, operator: str) -> dict[str, Any]:
    """Row of an operator in the only period."""
    (found,) = [each for each in run.operator_rows if each["operator"] == operator]
    return found


def latency_s(run: Run) -> list[float]:
    """Sum of the latencies of all results, and their number."""
    found = row(run, "sink")
    return [found["e2eLatencySum_s"], found["latencyCount"]]


def test_a_queue_without_waiting() -> None:
    run = ran(chain([worker(0.03)], STEADY, engine=engine()), 1.05)  # records at 0.1, ..., 1.0, the last done at 1.03
    assert latency_s(run) == pytest.approx([10 * 0.03, 10])
    assert row(run, "work")["busyTimeMsPerSecond"] == pytest.approx(1000 * 10 * 0.03 / 1.05)


def test_a_queue_that_grows() -> None:
    """Record n comes at 0.1 n and leaves at 0.1 + 0.25 n."""
    run = ran(chain([worker(0.25)], STEADY, engine=engine()), 1.02)
    assert latency_s(run) == pytest.approx([sum(0.1 + 0.25 * n - 0.1 * n for n in (1, 2, 3)), 3])
    assert row(run, "work")["queueLength"] == 10 - 4  # one is in service
    assert run.host_rows[0]["cpuUtilisation"] == pytest.approx((1.02 - 0.1) / 1.02 / 16)  # and half done


def test_two_tasks_share_a_core() -> None:
    """Two tasks that get a record at the same moment have half a core each."""
    middle = [worker(0.02, "one"), worker(0.03, "two")]
    ends = [("source", "one"), ("source", "two"), ("one", "sink"), ("two", "sink")]
    job = deployment([source(), *middle, sink()], ends, {"source": STEADY}, [host(cpu_percent=100)], engine=engine())
    run = ran(job, 1.08)
    assert latency_s(run) == pytest.approx([10 * (2 * 0.02 + (2 * 0.02 + 0.01)), 20])


def test_a_full_channel_holds_its_producer_up() -> None:
    """With one record at work, one on its way and one held by the source, the others stay with the broker."""
    run = ran(chain([worker(10.0)], STEADY, engine=engine(channel_records=1)), 1.05)
    assert row(run, "work")["numRecordsIn"] == 1
    assert row(run, "work")["queueLength"] == 1
    assert row(run, "source")["numRecordsOut"] == 3
    assert row(run, "source")["backlog"] == 10 - 3
    assert row(run, "source")["backPressuredTimeMsPerSecond"] == pytest.approx(1000 * (1.05 - 0.3) / 1.05)


def test_a_full_channel_loses_what_comes() -> None:
    job = chain([worker(10.0)], STEADY, engine=engine(channel_records=1))
    streams = tuple(each.model_copy(update={"overflow": "drop"}) for each in job.query.streams)
    run = ran(job.model_copy(update={"query": job.query.model_copy(update={"streams": streams})}), 1.05)
    assert row(run, "source")["numRecordsDropped"] == 10 - 2
    assert row(run, "source")["backlog"] == 0


def test_a_card_and_its_latency() -> None:
    """A record of 125 bytes takes 10 ms on a card of 0.1 Mb/s, 2 ms more to arrive, and 30 ms of CPU there."""
    job = chain(
        [worker(0.03)],
        STEADY,
        hosts=[host("a", bandwidth_mbps=0.1, latency_ms=2), host("b")],
        placement={"source": "a", "work": "b", "sink": "b"},
        engine=engine(record_bytes=125, value_bytes={"ints": 0, "strings": 0, "doubles": 0}),
    )
    run = ran(job, 1.05)
    assert latency_s(run) == pytest.approx([10 * (0.010 + 0.002 + 0.03), 10])
    assert run.hosts[0].sent_mbps == pytest.approx(10 * 1e-3 / 1.05)


def test_links_in_a_row() -> None:
    """A record's 125 bytes go over a card of 0.1 Mb/s, and two links of 0.05 and 0.2 Mb/s, one after the other."""
    links = [
        {"between": ["a", "switch"], "bandwidth_mbps": 0.05, "latency_ms": 3},
        {"between": ["switch", "b"], "bandwidth_mbps": 0.2, "latency_ms": 4},
    ]
    job = chain(
        [worker(0.0)],
        STEADY,
        hosts=[host("a", bandwidth_mbps=0.1), host("b")],
        placement={"source": "a", "work": "b", "sink": "b"},
        engine=engine(record_bytes=125, value_bytes={"ints": 0, "strings": 0, "doubles": 0}),
        links=links,
        switches=["switch"],
    )
    run = ran(job, 1.05)
    assert latency_s(run) == pytest.approx([10 * (0.010 + 0.023 + 0.009), 10])


def test_a_batch_waits_until_it_is_full() -> None:
    """In a batch of three the first waits for two more, the second for one; the tenth record is still in its buffer."""
    batches = {"batch_records": 3, "flush_s": 1000}
    run = ran(chain([worker(0.0)], STEADY, engine=engine(**batches), placement={"sink": "h"}), 1.05)
    assert row(run, "source")["numRecordsOut"] == 10
    assert row(run, "work")["numRecordsIn"] == 9
    assert latency_s(run) == pytest.approx([3 * (0.2 + 0.1), 9])


def test_records_are_dealt_in_turn() -> None:
    """Two subtasks get records in turn, 150 ms each, so that neither has two; an eleventh is not yet done."""
    run = ran(chain([worker(0.15)], STEADY, placement={"work": ["h", "h"]}, engine=engine()), 1.2)
    assert latency_s(run) == pytest.approx([10 * 0.15, 10])
    assert row(run, "work")["busyTimeMsPerSecond"] == pytest.approx(1000 * (10 * 0.15 + 0.1) / 1.2 / 2)


def test_a_window_that_counts() -> None:
    """A count window has a result every third record, as old as the oldest of the three."""
    window = {"kind": "aggregate", "name": "work", "service_time_s": 0.01, "service_scv": 0}
    window["window"] = {"policy": "count", "size_records": 3}
    run = ran(chain([window], STEADY, engine=engine()), 1.05)
    assert latency_s(run) == pytest.approx([3 * (0.2 + 0.01), 3])
    assert row(run, "work")["stateBytes"] > 0.0  # the tenth


def test_a_window_that_follows_the_clock() -> None:
    """Records at 0.7 n are in the windows of 1 s in which their services of 0.55 s end. A boundary that comes meanwhile
    waits: that at 2 finds the first two, those at 3 and 4 are evaluated at 3.35 and 4.05, each with the one before."""
    window = {"kind": "aggregate", "name": "work", "service_time_s": 0.55, "service_scv": 0}
    window["window"] = {"policy": "time", "size_s": 1}
    run = ran(chain([window], {"law": "constant", "rate_per_s": 1 / 0.7}, engine=engine()), 4.5)
    assert latency_s(run) == pytest.approx([(2.0 - 0.7) + (3.35 - 2.1) + (4.05 - 2.8), 3])


@pytest.mark.parametrize(
    ("keeps", "at_s"),
    [
        ({"kind": "aggregate", "window": {"policy": "time", "size_s": 1.5}}, 1.5),
        ({"kind": "aggregate", "window": {"policy": "count", "size_records": 2}}, 1.2),
        ({"kind": "join", "window": {"policy": "time", "size_s": 1.5}, "selectivity": 1}, 1.5),
        ({"kind": "session", "gap_s": 0.25, "keys": 1}, 1.45),
    ],
)
def test_a_result_is_as_old_as_its_oldest_record_whichever_comes_first(keeps: dict[str, Any], at_s: float) -> None:
    """A result is as old as its oldest record, taken at 0.9 s, which comes after one taken at 1 s: it takes 0.3 s."""
    job = joined(
        {"name": "work", "service_time_s": 0, **keeps},
        {"near": {"law": "constant", "rate_per_s": 1.0}, "far": {"law": "constant", "rate_per_s": 1 / 0.9}},
        hosts=[host(), host("away", latency_ms=300)],
        placement={"far": "away"},
        engine=engine(),
    )
    run = ran(job, 1.6)
    assert latency_s(run) == pytest.approx([at_s - 0.9, 1])
    assert row(run, "sink")["processingLatencySum_s"] == pytest.approx(at_s - 0.9)


def test_a_record_is_copied_to_each_stream() -> None:
    middle = [worker(0.01, "one"), worker(0.02, "two")]
    ends = [("source", "one"), ("source", "two"), ("one", "sink"), ("two", "sink")]
    run = ran(deployment([source(), *middle, sink()], ends, {"source": STEADY}, [host()], engine=engine()), 1.05)
    assert latency_s(run) == pytest.approx([10 * (0.01 + 0.02), 20])
    assert row(run, "source")["numRecordsOut"] == 10


def test_a_map_of_three_results() -> None:
    run = ran(chain([worker(0.01, selectivity=3), worker(0.02, "next")], STEADY, engine=engine()), 1.09)
    assert latency_s(run) == pytest.approx([10 * (0.03 + 0.05 + 0.07), 30])


def test_a_filter_of_nothing() -> None:
    nothing = {"kind": "filter", "name": "work", "service_time_s": 0.01, "selectivity": 0}
    run = ran(chain([nothing], STEADY, engine=engine()), 1.05)
    assert row(run, "work")["numRecordsIn"] == 10 and row(run, "work")["numRecordsOut"] == 0


def test_a_job_that_is_out_of_memory_stands_still() -> None:
    """A job that is out of memory stands still from the next second on: the fourth record of 6 MB exceeds 20 MB."""
    window = {"kind": "aggregate", "name": "work", "service_time_s": 0, "window": {"policy": "time", "size_s": 100}}
    job = chain([window], {"law": "constant", "rate_per_s": 9.5}, hosts=[host(ram_mb=20)])
    big = job.engine.model_copy(update={"record_bytes": 1e6})
    big = big.model_copy(update={"memory": big.memory.model_copy(update={"base_mb": 1.0, "object_overhead": 6.0})})
    run = ran(job.model_copy(update={"engine": big}), 3.05)
    assert run.crashed
    assert row(run, "work")["numRecordsIn"] == 9
    assert row(run, "source")["backlog"] == 28 - 9


def test_a_run_that_ends_when_enough_is_known() -> None:
    job = chain([worker(0.03, service_scv=1)], 10.0, engine=engine())
    scenario = Scenario(**dict(job), run=RunSettings(horizon_s=10_000, period_s=20, precision=0.2))
    assert same_however(scenario).manifest["simulated_s"] < 10_000
