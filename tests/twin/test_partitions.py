"""Partitions that are not equally full: who reads what, by Flink's rule, in runs, predictions, and after restarts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.twin.changing import HOSTS
from tests.twin.checkpointed import steady
from tests.twin.machine.runs import same_however
from tests.twin.test_restarts import engine, restarted, run
from tests.twin.worlds import deployment, simulated, sink, world_of
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import Scale
from twin.key_skew import first_reader
from twin.kinds.basic import KafkaSource
from twin.rates.model import RateModel
from twin.run import OperatorTotals
from twin.scenario import RunSettings, Scenario
from twin.spec import parse
from twin.workload import read_shares

RATE_PER_S = 1300.0
FULL = [10, 1, 1, 1]


def job(shares: Sequence[float], readers: int, law: Any = RATE_PER_S, **more: Any) -> Deployment:
    topic = {"kind": "kafka-source", "name": "topic", "partitions": len(shares), "partition_shares": shares}
    return deployment(
        [topic | {"service_time_s": 1e-3, "service_scv": 0} | more, sink()],
        [("topic", "sink")],
        {"topic": law},
        HOSTS,
        {"topic": ["h0"] * readers, "sink": "h0"},
        engine("restart"),
    )


def read(what: Deployment, *events: Scale, **settings: Any) -> OperatorTotals:
    return next(each for each in simulated(what, *events, **settings).operators if each.operator == "topic")


@pytest.mark.parametrize(
    ("topic", "readers", "first"),
    [
        ("hello", 4, 2),  # hashCode 99162322, times 31 in 32 bits -1220935314, without its sign 926548334
        ("hello", 3, 2),
        ("a", 4, 3),  # 97 * 31 = 3007
        ("", 5, 0),
        ("polygenelubricants", 7, 0),  # hashCode -2^31: times 31 the same, without its sign 0
    ],
)
def test_the_first_reader_is_that_of_flink(topic: str, readers: int, first: int) -> None:
    assert first_reader(topic, readers) == first


@pytest.mark.parametrize("readers", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("topic", [None, "a", "hello"])
def test_each_reader_reads_the_records_of_its_partitions(readers: int, topic: str | None) -> None:
    """Of evenly spaced records, each reader takes those of its partitions, to a record each."""
    named = {} if topic is None else {"topic": topic}
    made = job([4, 0, 2, 1], readers, steady(70.0), service_time_s=0, **named)
    world = world_of(made, RunSettings(horizon_s=20.0))
    world.advance(20.0)
    expected = np.zeros(readers)
    for partition, share in enumerate([4, 0, 2, 1]):
        first = 0 if topic is None else {"a": 3007, "hello": 926548334}[topic] % readers
        expected[(first + partition) % readers] += 20 * 10 * share
    assert np.abs([task.records_in for task in world.tasks["topic"]] - expected).max() <= 1


def test_the_reader_of_the_full_partition_is_the_busiest() -> None:
    """Of 10 : 1 : 1 : 1 at 1,300 a second and 0.9 ms, the first of four readers is 90 % busy, and the others 9 %."""
    what = job(FULL, 4, service_time_s=0.9e-3)
    topic = read(what, horizon_s=110, warmup_s=10, seed=1)
    each_s = 0.9e-3
    for subtask, share in zip(topic.subtasks, (10, 1, 1, 1), strict=True):
        error = 5 * (100 * share / 100) ** 0.5  # five standard errors of a Poisson count in 100 s
        assert subtask.rate_in_per_s == pytest.approx(100 * share, abs=error)
        assert subtask.busy == pytest.approx(subtask.rate_in_per_s * each_s, rel=0.01)
    assert topic.busiest == topic.subtasks[0]
    answer = RateModel().answer(what, [what.plan])
    assert answer.busiest[0, 0] == pytest.approx(4 * 10 / 13)
    assert answer.busiest_used[0, 0] == pytest.approx(1000 * each_s, rel=0.01)


@pytest.mark.parametrize("readers", [2, 3, 4, 8])
def test_more_readers_do_not_read_a_full_partition_faster(readers: int) -> None:
    """The busiest reader bears 1,000 records a second, however many others there are."""
    made = job(FULL, readers)
    most = max(sum(FULL[k::readers]) for k in range(readers)) / sum(FULL)
    offered = RateModel().answer(made, [made.plan]).offered_pressure.max()
    assert offered == pytest.approx(RATE_PER_S * 1e-3 * most, rel=1e-4)


@pytest.mark.parametrize(("before", "after"), [(2, 4), (4, 3), (3, 6), (4, 1)])
@pytest.mark.parametrize("topic", [{}, {"topic": "a"}])
def test_a_restart_deals_partitions_with_what_waits_in_them(before: int, after: int, topic: dict[str, str]) -> None:
    """All records are read once, and afterwards each reader gets the shares of its own partitions."""
    made = job([6, 0, 2, 1, 1], before, steady(1500.0), **topic)
    result = run(made, Scale(at_s=8.5, operator="topic", placement=("h0",) * after))
    (row,) = restarted(result)
    assert (row["before"], row["after"]) == (before, after)
    rows = [row for row in result.subtask_rows if row["operator"] == "topic"]
    last = sum(row["backlog"] for row in rows if row["end_s"] == 30.0)
    assert sum(row["arrived"] for row in rows) == pytest.approx(1500 * 30, abs=before + after)
    assert result.metrics.records_out == pytest.approx(1500 * 30 - last, abs=40) and result.duplicates == 0
    late = [row for row in rows if row["start_s"] >= 15.0]
    came = [sum(row["arrived"] for row in late if row["subtask"] == number) for number in range(after)]
    source = made.query.operator("topic")
    assert np.abs(came - 1500 * 15 * read_shares(source, after)).max() <= 2


def test_what_waits_in_a_full_partition_goes_along_with_it() -> None:
    """One reader of 1,000 a second lags by 4,000 after 8 s and by 1,500 a second until it restarts as two: of these the
    reader of the full partition gets ten of 13 parts, and wins nothing back."""
    result = run(job(FULL, 1, steady(1500.0)), Scale(at_s=8.0, operator="topic", placement=("h0",) * 4))
    (row,) = restarted(result)
    rows = [row for row in result.subtask_rows if row["operator"] == "topic" and row["end_s"] == 30.0]
    waited, left_s = 4000 + 1500 * row["paused_s"], 30.0 - row["end_s"]
    share = 10 / 13
    error = 5 * (waited * share * (1 - share)) ** 0.5  # five standard errors of a binomial number
    expected = waited * share + (1500 * share - 1000) * left_s
    assert [row["backlog"] for row in sorted(rows, key=lambda row: row["subtask"])] == pytest.approx(
        [expected, 0, 0, 0], abs=error + 5
    )


def test_a_run_is_the_same_however_code_runs() -> None:
    scales = [Scale(at_s=8.5, operator="topic", placement=("h0",) * 4)]
    made = job([5, 0, 2, 1, 1], 2, topic="a")
    same_however(Scenario.of(made, RunSettings(horizon_s=20, period_s=1), scales))


def test_what_cannot_be_read_evenly_is_said() -> None:
    warnings = simulated(job([10, 1, 0, 1], 5), horizon_s=20).warnings
    assert warnings[0] == "topic: 1 of 5 subtasks read none of its 4 partitions; give it fewer"
    assert warnings[1] == "topic: 1 of 5 subtasks read only partitions without records, and are idle"
    assert warnings[2].startswith(
        "topic: subtask 0 reads 83% of all records, 4.17 times the mean, as partition 0 alone"
    )
    alike = simulated(job([2, 2], 2), horizon_s=20).warnings
    assert not any("partition" in line for line in alike)
    halves = simulated(job([3, 1, 1, 3], 2), horizon_s=20).warnings  # 3 + 1 for each
    assert not any("partition" in line for line in halves)


@pytest.mark.parametrize(("shares", "why"), [([1, 1, 0], "only partitions without records"), ([1, 1], "none of its 2")])
def test_readers_of_nothing_hold_windows_over_event_time_until_they_are_idle(shares: list[float], why: str) -> None:
    """As Flink's: three readers, of which one reads nothing, and a window of a second over 20 s."""
    window = {"policy": "time", "size_s": 1, "time": "event"}
    count = {"kind": "aggregate", "name": "count", "function": "count", "window": window, "service_time_s": 0}
    found = {}
    for idle in ({}, {"idle_s": 1}):
        topic = {"kind": "kafka-source", "name": "topic", "partitions": len(shares), "partition_shares": shares}
        made = deployment(
            [topic | {"service_time_s": 0} | idle, count, sink()],
            [("topic", "count"), ("count", "sink")],
            {"topic": 200.0},
            placement={"topic": {"h": 3}},
        )
        found[len(idle)] = simulated(made, horizon_s=20, seed=1)
    assert found[0].metrics.records_out == 0 and found[1].metrics.records_out in (18, 19)
    said = [line for line in found[0].warnings if why in line]
    assert len(said) == 1 and said[0].endswith("; watermarks wait for them, so give the source idle_s")
    assert not any("idle_s" in line for line in found[1].warnings)


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    topic = {"name": "topic", "partitions": 2}
    for shares, words in (([1], "has 1 partition_shares for 2 partitions"), ([0, 0], "all partition_shares are 0")):
        with pytest.raises(BadInput, match=words):
            parse(KafkaSource, topic | {"partition_shares": shares})
    path = tmp_path / "times.csv"
    path.write_text("time_s\n" + "\n".join(str(k / 10) for k in range(100)))
    with pytest.raises(BadInput, match="leave partition_shares out"):
        simulated(job([2, 1], 2, {"law": "replay", "path": str(path)}), horizon_s=5)


def test_shares_of_equal_size_change_nothing() -> None:
    """Equal shares are as none, and absent keys are not written."""
    with_shares, bare = job([1, 1, 1], 2, seed_of := 900.0), job([1, 1, 1], 2, seed_of)
    data = bare.model_dump(mode="json")
    del data["query"]["operators"][0]["partition_shares"]
    bare = parse(Deployment, data)
    assert {"partition_shares", "topic"}.isdisjoint(bare.model_dump(mode="json")["query"]["operators"][0])
    one, other = (simulated(each, horizon_s=10).metrics for each in (with_shares, bare))
    assert one == other
