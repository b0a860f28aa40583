"""Where the time goes: parts of the latency by theory, and by arithmetic where nothing is by chance."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from scenarios.files.run_folder import read_run, write_run
from tests.twin.checkpointed import meeting, run
from tests.twin.worlds import HOST, chain, deployment, joined, noting_worlds, queue, simulated, sink, source
from twin.files import SUMS
from twin.histograms import BITS, BUCKETS, WAYS, middle_s, place
from twin.profiles import STORM
from twin.run import OperatorTotals, Run, parts
from twin.trace import LATER

EVERY_10_MS = {"law": "constant", "rate_per_s": 100.0}
WHOLE = 1e-9


def of(result: Run, operator: str) -> OperatorTotals:
    return next(each for each in result.operators if each.operator == operator)


def mean_s(result: Run, operator: str, way: str) -> float:
    found = of(result, operator).spent.get(f"{way}_s")
    return 0.0 if found is None else found.mean


def in_all_s(result: Run) -> float:
    """Sum of all parts of the mean end-to-end latency."""
    return sum(part.mean_s for part in parts(result.operators))


def e2e_s(result: Run) -> float:
    assert result.metrics.e2e_latency_s is not None
    return result.metrics.e2e_latency_s.mean


def delay_s(result: Run) -> float:
    assert result.metrics.result_delay_s is not None
    return result.metrics.result_delay_s.mean


def window(**size: Any) -> dict[str, Any]:
    return {
        "kind": "aggregate",
        "name": "window",
        "window": size,
        "groups": 1,
        "service_time_s": 0.001,
        "service_scv": 0.0,
    }


def test_a_bucket_is_where_its_times_are() -> None:
    """Buckets rise, and their middles are within 0.8 % of the times in them."""
    times_s = [1e-6 * 1.01**number for number in range(2500)]
    places = [place(each) for each in times_s]
    assert places == sorted(places) and places[-1] < BUCKETS
    assert place(0.0) == place(1e-9) == 0 and place(1e30) == BUCKETS - 1
    assert middle_s(0) == 0.0
    for time_s, number in zip(times_s[2:], places[2:], strict=True):
        assert abs(middle_s(number) / time_s - 1.0) <= 1.0 / (1 << BITS + 1)


def test_waiting_is_as_theory_says() -> None:
    """M/M/1: the queue is waited in for rho / (mu - lambda) on average, and longer than t by rho exp(-(mu - lambda) t);
    services are exponential."""
    rate, load = 100.0, 0.7
    result = simulated(queue(rate, load, 1.0), horizon_s=4000.0, warmup_s=100.0, period_s=100.0)
    mu = rate / load
    waits, services = of(result, "queue").spent["queue_s"], of(result, "queue").spent["service_s"]
    # variance of the mean of n correlated waits (Daley 1968), as a multiple of the square of the mean wait
    squared = (2.0 + 5.0 * load - 4.0 * load**2 + load**3) / (load * (1.0 - load) ** 2)
    error = math.sqrt(squared / waits.count)
    assert waits.mean == pytest.approx(load / (mu - rate), rel=3 * error)
    for value_s, above in ((waits.p50, 0.5), (waits.p95, 0.05), (waits.p99, 0.01)):
        assert value_s == pytest.approx(math.log(load / above) / (mu - rate), rel=4 * error + 0.01)
    assert services.mean == pytest.approx(1.0 / mu, rel=3.0 / math.sqrt(services.count))
    assert services.p95 == pytest.approx(math.log(20.0) / mu, rel=0.02)
    assert in_all_s(result) == pytest.approx(e2e_s(result), rel=0.001)  # but for records under way at the ends


def test_the_delay_of_a_window_is_known() -> None:
    """The result of a window of 10 s leaves when it has been formed: after 2 us a record, 500 us, and what it takes to
    send it. Without the wait for the window, it is as old at the sink as that, and its way; the oldest record came as
    the window began."""
    engine = STORM.model_copy(update={"scan_us": 2.0, "result_us": 500.0, "service_scv": 0.0}).model_dump(mode="json")
    law = {"law": "constant", "rate_per_s": 100.0618}  # no record is being served as a window ends
    middle = {"kind": "aggregate", "name": "window", "window": {"policy": "time", "size_s": 10.0}, "groups": 1}
    job = joined(middle, {"source": law}, sink(service_time_s=0.002, service_scv=0.0), engine=engine)
    result = simulated(job, horizon_s=200.0, warmup_s=50.0, period_s=50.0)
    spent = of(result, "window").spent
    left_s = 1000.618 * 2e-6 + 500e-6
    assert spent["result_s"].count == spent["window_s"].count == 15
    assert spent["result_s"].mean == pytest.approx(left_s, abs=1e-6)
    assert spent["result_s"].p99 == pytest.approx(left_s, rel=0.01)
    assert delay_s(result) == pytest.approx(left_s + 0.002, abs=1e-6)
    assert spent["service_s"].p50 == pytest.approx(spent["service_s"].mean, rel=0.01)
    assert 10.0 - 0.011 < spent["window_s"].mean < 10.0
    assert 0.0 <= e2e_s(result) - in_all_s(result) < left_s  # for which an oldest record may wait, and few others do


@pytest.mark.parametrize("policy", ["count", "session"])
def test_other_windows_wait_for_records(policy: str) -> None:
    """A window that counts 50 records waits 49 arrivals for its last one, which is all that its results wait for. A
    session ends one gap after the last record."""
    if policy == "count":
        middle = window(policy="count", size_records=50)
        result = simulated(joined(middle, {"source": EVERY_10_MS}), horizon_s=100.0, warmup_s=20.0, period_s=20.0)
        assert mean_s(result, "window", "window") == pytest.approx(0.49, abs=1e-6)
        assert delay_s(result) == pytest.approx(e2e_s(result) - 0.49, abs=1e-6)
    else:
        middle = {"kind": "session", "name": "window", "gap_s": 0.5, "keys": 1, "service_time_s": 0.001}
        middle["service_scv"] = 0.0
        slow = {"law": "constant", "rate_per_s": 1.0}
        result = simulated(joined(middle, {"source": slow}), horizon_s=100.0, warmup_s=20.0, period_s=20.0)
        assert mean_s(result, "window", "window") == pytest.approx(0.5, abs=1e-6)
        assert delay_s(result) == pytest.approx(e2e_s(result) - 0.5 - 0.001, abs=1e-4)
    assert in_all_s(result) == pytest.approx(e2e_s(result), abs=1e-4)


def test_a_network_is_part_of_the_channel() -> None:
    """A latency of 5 ms on the way, and the time that the card takes, are in the channel of the consumer."""
    there = {**HOST, "name": "there", "latency_ms": 5}
    hosts = [{**HOST, "latency_ms": 5}, there]
    middle = {"kind": "map", "name": "map", "service_time_s": 0.001, "service_scv": 0.0}
    result = simulated(chain([middle], EVERY_10_MS, hosts=hosts, placement={"map": "there"}), horizon_s=60.0)
    assert 0.005 <= mean_s(result, "map", "channel") < 0.00502
    assert mean_s(result, "map", "queue") == 0.0
    assert mean_s(result, "map", "service") == pytest.approx(0.001, rel=0.2)  # and fetching from the network
    assert in_all_s(result) == pytest.approx(e2e_s(result), rel=1e-3)


def test_waiting_for_room_is_part_of_the_channel() -> None:
    """Behind a full channel, a result waits for room before it is in the queue: for as long as the slow operator needs
    for one record. The queue is as long as the channel has room."""
    maps = [
        {"kind": "map", "name": "fast", "service_time_s": 0.001, "service_scv": 0.0},
        {"kind": "map", "name": "slow", "service_time_s": 0.02, "service_scv": 0.0},
    ]
    engine = STORM.model_copy(update={"channel_records": 10}).model_dump(mode="json")
    job = chain(maps, EVERY_10_MS, engine=engine)
    result = simulated(job, horizon_s=300.0, warmup_s=100.0, period_s=50.0)
    assert result.metrics.backpressured
    blocked_s = mean_s(result, "slow", "channel")
    cycle_s = 1.0 / of(result, "slow").rate_in_per_s
    assert 0.9 * cycle_s <= blocked_s <= 1.1 * cycle_s
    assert of(result, "fast").backpressured == pytest.approx(blocked_s / cycle_s, rel=0.1)


def test_results_wait_for_a_commit_of_half_an_interval() -> None:
    """An exactly-once sink holds results until the checkpoint is complete: half an interval on average."""
    middle = {"kind": "map", "name": "map", "service_time_s": 0.001, "service_scv": 0.0}
    job = chain([middle], EVERY_10_MS)
    spec = {"interval_s": 4.0, "first_s": 4.0, "sinks": "exactly-once", "sync_ms": 0.0}
    result = run(job, checkpoints=spec, horizon_s=100.0, warmup_s=20.0, period_s=20.0)
    waits = of(result, "sink").spent["commit_s"]
    assert waits.mean == pytest.approx(2.0, abs=0.01)
    assert waits.p95 == pytest.approx(3.8, rel=0.02)
    assert in_all_s(result) == pytest.approx(e2e_s(result), rel=1e-3)


def test_records_that_are_put_aside_wait_for_barriers() -> None:
    """Where one input is 500 ms late, records of the other wait for its barrier, and are not said to be queued."""
    spec = {"interval_s": 5.0, "first_s": 5.0, "sync_ms": 0.0}
    result = run(meeting(late_ms=500.0), checkpoints=spec, horizon_s=60.0, warmup_s=10.0, period_s=10.0)
    name = next(each.operator for each in result.operators if "barriers_s" in each.spent)
    waits = of(result, name).spent["barriers_s"]
    assert 0.2 < waits.mean < 0.3 and waits.p99 < 0.52
    assert in_all_s(result) == pytest.approx(e2e_s(result), rel=0.01)


def test_a_folder_keeps_where_the_time_goes_and_older_ones_are_read(tmp_path: Path) -> None:
    """What is read from a folder is what was written; folders without the new columns are read as before."""
    result = simulated(joined(window(policy="time", size_s=10.0), {"source": EVERY_10_MS}), horizon_s=60.0)
    write_run(result, "job", tmp_path / "new")
    kept = read_run(tmp_path / "new").run
    assert kept.operators == result.operators and kept.metrics == result.metrics
    write_run(result, "job", tmp_path / "old")
    path = tmp_path / "old" / "operators.parquet"
    pq.write_table(pq.read_table(path).drop_columns(list(LATER["operators"])), path)
    (tmp_path / "old" / SUMS).unlink()
    old = read_run(tmp_path / "old").run
    assert old.metrics.processing_latency_s == result.metrics.processing_latency_s
    assert old.metrics.result_delay_s is None and not any(each.spent for each in old.operators)


def test_every_way_has_a_word() -> None:
    assert list(WAYS)[:3] == ["channel", "queue", "service"] and all(WAYS.values())


def over_event_time(**more: Any) -> dict[str, Any]:
    return {
        "kind": "aggregate",
        "name": "window",
        "window": {"policy": "time", "size_s": 10.0, "time": "event"},
        "groups": 1,
        "service_time_s": 0.0,
    } | more


def test_the_lag_of_a_watermark_is_known() -> None:
    """Watermarks are announced at the ends of windows of 10 s, when records 2 s behind them come. The lag rises from
    2 s to 12 s, and results leave 2 s behind the ends of their windows, for one distance of arrivals more at most."""
    job = deployment(
        [source(slack_s=2.0), over_event_time(), sink()],
        [("source", "window"), ("window", "sink")],
        {"source": EVERY_10_MS},
    )
    result = simulated(job, horizon_s=120.0, warmup_s=20.0, period_s=20.0)
    times = of(result, "window").event_time
    assert times is not None and times.late_dropped == times.late_aside == 0
    assert times.watermark_lag_mean_s == pytest.approx(7.0, abs=0.02)
    assert times.watermark_lag_max_s == pytest.approx(12.0, abs=0.02)
    assert 2.0 - 1e-5 <= mean_s(result, "window", "result") <= 2.011
    assert delay_s(result) == pytest.approx(mean_s(result, "window", "result"), abs=1e-3)
    assert mean_s(result, "window", "window") == pytest.approx(e2e_s(result) - delay_s(result), abs=1e-3)
    assert of(result, "sink").event_time is None


@pytest.mark.parametrize("late_to", [None, "aside"])
def test_late_records_are_counted(late_to: str | None) -> None:
    """Late records are those that the audit of windows has noted, whether they are dropped or sent aside. Those at a
    sink of their own are no results: only these have a latency, which its parts add up to."""
    operators = [source(slack_s=1.0, disorder_s=4.0), over_event_time(late_to=late_to), sink()]
    streams = [("source", "window"), ("window", "sink")]
    if late_to is not None:
        operators.append(sink("aside"))
        streams.append(("window", "aside"))
    job = deployment(operators, streams, {"source": 100.0})
    with noting_worlds() as worlds:
        result = simulated(job, horizon_s=100.0, period_s=20.0)
    late, times = len(worlds[-1].audits["window"].late), of(result, "window").event_time
    assert late > 100 and times is not None
    assert (times.late_dropped, times.late_aside) == ((late, 0) if late_to is None else (0, late))
    assert result.metrics.late_per_s == pytest.approx(late / 100.0)
    assert result.metrics.records_out == of(result, "sink").records_in
    assert in_all_s(result) == pytest.approx(e2e_s(result), rel=0.02)  # few results, and some wait at the end
    assert any("came late" in line for line in result.warnings) == (late_to is None)
    if late_to is not None:
        assert of(result, late_to).records_in == late and of(result, late_to).visits == 0.0


def test_an_interval_join_waits_for_its_partner() -> None:
    """Records of the right side match those that came a second before on the left, which wait so long; a result is as
    old without that wait as its way from the right source."""
    middle = {
        "kind": "interval-join",
        "name": "join",
        "left": "a",
        "right": "b",
        "lower_s": 0.9,
        "upper_s": 1.1,
        "keys": 1,
    }
    law = {"law": "constant", "rate_per_s": 1.0}
    job = joined(middle | {"service_time_s": 0.001, "service_scv": 0.0}, {"a": law, "b": law})
    result = simulated(job, horizon_s=60.0, period_s=10.0)
    assert 0.001 - WHOLE <= delay_s(result) <= 0.002 + WHOLE  # the two records of a second are served in turn
    assert mean_s(result, "join", "window") == pytest.approx(1.0, abs=0.0011)
    assert e2e_s(result) - delay_s(result) == pytest.approx(1.0, abs=0.0011)
