"""Aggregates, sessions and joins over event time, by brute force over the records and watermarks that each subtask
took, in their order. The force knows Flink's rules and nothing of stores, heaps or panes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twin.event_jobs import ended, job, sink, source
from twin.errors import BadInput
from twin.operators.compute import ComputeLogic, TimedSessionLogic
from twin.operators.joins import TimedJoinLogic, TimedTableLogic
from twin.operators.records import IDLE, WATERMARK, InputProgress, Mark
from twin.operators.watermark import TimedLogic
from twin.run import Run
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.windows import EventWindow, covering

SECOND_US = 1_000_000
DISORDERLY = {"disorder_s": 3.0, "slack_s": 0.5}
Seen = list[tuple[Any, ...]]
"""What a subtask took and sent, in order: records, watermarks and results."""


class Notebook:
    """Notes what logics over event time take and send, by subtask."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.by_task: dict[int, Seen] = {}
        for logic in (TimedSessionLogic, TimedJoinLogic, TimedTableLogic):
            self._watch(patch, logic)
        send, proceed = TimedLogic.send, TimedLogic.proceed

        def noted(logic: Any, result: Any) -> None:
            self.of(logic).append(("result", result.at_us, result.key, result.born_s))
            send(logic, result)

        def proceeded(logic: Any, inputs_us: float) -> None:
            before, seen = logic.watermark_us, self.of(logic)
            place = len(seen)
            proceed(logic, inputs_us)
            if logic.watermark_us > before:
                seen.insert(place, ("watermark", int(logic.watermark_us)))

        patch.setattr(TimedLogic, "send", noted)
        patch.setattr(TimedLogic, "proceed", proceeded)

    def _watch(self, patch: pytest.MonkeyPatch, kind: Any) -> None:
        emit = kind.emit

        def emitted(logic: Any, record: Any, at_s: float) -> None:
            self.of(logic).append(("record", record.at_us, record.key, record.inbox.side, record.born_s))
            emit(logic, record, at_s)

        patch.setattr(kind, "emit", emitted)

    def of(self, logic: Any) -> Seen:
        return self.by_task.setdefault(id(logic), [])


def results(seen: Seen) -> Counter[tuple[Any, ...]]:
    return Counter(each[1:] for each in seen if each[0] == "result")


# sessions ------------------------------------------------------------------------------------------------------------


def sessions_by_force(seen: Seen, gap_us: int, lateness_us: int) -> Counter[tuple[Any, ...]]:
    """Results of sessions: the records of a key are merged anew, from all that count, whenever something happens."""
    far_us, found, fired = -(10**12), Counter[tuple[Any, ...]](), set[tuple[Any, ...]]()
    by_key: dict[int, list[tuple[int, float]]] = {}

    def merged(records: list[tuple[int, float]]) -> Iterator[tuple[int, int, float]]:
        start = end = None
        oldest = 0.0
        for at_us, born_s in sorted(records):
            if end is not None and at_us <= end:
                end, oldest = max(end, at_us + gap_us), min(oldest, born_s)
                continue
            if start is not None:
                yield start, end or 0, oldest
            start, end, oldest = at_us, at_us + gap_us, born_s
        if start is not None:
            yield start, end or 0, oldest

    for each in seen:
        if each[0] == "record":
            _, at_us, key, _, born_s = each
            with_it = [*by_key.get(key, ()), (at_us, born_s)]
            session = next(one for one in merged(with_it) if one[0] <= at_us < one[1])
            if session[1] + lateness_us <= far_us:
                continue
            by_key[key] = with_it
            if session[1] <= far_us:
                found[session[1] - 1, key, session[2]] += 1
                fired.add((session[1], key))
        elif each[0] == "watermark":
            far_us = each[1]
            for key, records in by_key.items():
                for _, end, oldest in merged(records):
                    if end <= far_us and (end, key) not in fired:
                        found[end - 1, key, oldest] += 1
                        fired.add((end, key))
                over = [one for one in merged(records) if one[1] + lateness_us <= far_us]
                by_key[key] = [one for one in records if not any(start <= one[0] < end for start, end, _ in over)]
    return found


@pytest.mark.parametrize("lateness_s", [0.0, 1.5])
def test_sessions(lateness_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Notebook(monkeypatch)
    kind = {"kind": "session", "name": "visits", "gap_s": 0.8, "keys": 40, "key_groups": 8, "time": "event"}
    late = {"allowed_lateness_s": lateness_s} if lateness_s else {}
    run = simulate(job([source(**DISORDERLY), kind | late, sink()], horizon_s=30.0))
    for seen in notebook.by_task.values():
        assert results(seen) == sessions_by_force(seen, 800_000, round(lateness_s * SECOND_US))
    assert len(notebook.by_task) == 3
    assert sum(map(len, notebook.by_task.values())) > 2000
    assert taken(run, "visits") > 1500


# joins ---------------------------------------------------------------------------------------------------------------


def joined_by_force(seen: Seen, window: EventWindow, lateness_us: int) -> Counter[tuple[Any, ...]]:
    far_us, found = -(10**12), Counter[tuple[Any, ...]]()
    held: list[tuple[int, int, int, float]] = []

    def pairs(start: int, end: int, wanted: int | None = None) -> None:
        there = [one for one in held if start <= one[0] < end and wanted in (None, one[1])]
        for _, key, _, left_s in (one for one in there if one[2] == 0):
            for _, _, _, right_s in (one for one in there if one[2] == 1 and one[1] == key):
                found[end - 1, key, min(left_s, right_s)] += 1

    for each in seen:
        if each[0] == "record":
            spans = covering(window, each[1])
            if spans[-1].end + lateness_us > far_us:
                held.append(each[1:])
                for span in spans:
                    if far_us - lateness_us < span.end <= far_us:
                        pairs(span.start, span.end, each[2])
        elif each[0] == "watermark":
            ends = {span for one in held for span in covering(window, one[0])}
            for span in ends:
                if far_us < span.end <= each[1]:
                    pairs(span.start, span.end)
            far_us = each[1]
    return found


@pytest.mark.parametrize(("size_s", "slide_s", "lateness_s"), [(2.0, None, 0.0), (2.0, 0.5, 0.0), (1.0, None, 1.5)])
def test_windowed_joins(size_s: float, slide_s: float | None, lateness_s: float, monkeypatch: Any) -> None:
    notebook = Notebook(monkeypatch)
    window = {"policy": "time", "size_s": size_s, "slide_s": slide_s, "time": "event"}
    late = {"allowed_lateness_s": lateness_s} if lateness_s else {}
    kind = {"kind": "join", "name": "both", "selectivity": 0.05, "key_groups": 4, "window": window | late}
    two = [source("left", **DISORDERLY), source("right", **DISORDERLY), kind, sink()]
    simulate(job(two, [("left", "both"), ("right", "both"), ("both", "sink")], horizon_s=20.0))
    spans = EventWindow(length_s=size_s, every_s=slide_s)
    made = 0
    for seen in notebook.by_task.values():
        assert results(seen) == joined_by_force(seen, spans, round(lateness_s * SECOND_US))
        made += results(seen).total()
    assert made > 500


def test_a_join_with_an_amplification_emits_it_for_each_record() -> None:
    window = {"policy": "time", "size_s": 2, "slide_s": 1, "time": "event"}
    kind = {"kind": "join", "name": "both", "amplification": 1.5, "key_groups": 4, "window": window}
    two = [source("left"), source("right"), kind, sink()]
    run = simulate(job(two, [("left", "both"), ("right", "both"), ("both", "sink")], horizon_s=40.0))
    assert sent(run, "both") / taken(run, "both") == pytest.approx(1.5, rel=0.05)


def rows_by_force(seen: Seen, side: int) -> Counter[tuple[Any, ...]]:
    found, waiting = Counter[tuple[Any, ...]](), []
    for each in seen:
        if each[0] == "record" and each[3] != side:
            waiting.append(each[1:])
        elif each[0] == "watermark":
            for at_us, key, _, born_s in waiting:
                found[at_us, key, born_s] += at_us < each[1]
            waiting = [one for one in waiting if one[0] >= each[1]]
    return +found


def test_rows_of_a_table_leave_when_the_watermark_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Notebook(monkeypatch)
    kind = {"kind": "temporal-join", "name": "priced", "side": "prices", "key_groups": 8, "time": "event"}
    two = [source("orders", **DISORDERLY), source("prices", **DISORDERLY), kind, sink()]
    made = simulate(job(two, [("orders", "priced"), ("prices", "priced"), ("priced", "sink")], horizon_s=20.0))
    assert not any("came late" in line for line in made.warnings)  # versions count however late they come
    for seen in notebook.by_task.values():
        assert results(seen) == rows_by_force(seen, side=1)
        assert results(seen).total() > 200


# aggregates ----------------------------------------------------------------------------------------------------------


def counts(**window: Any) -> dict[str, Any]:
    over = {"policy": "time", "size_s": 2, "time": "event"} | window
    return {"kind": "aggregate", "name": "counts", "function": "count", "group_by": "int", "groups": 40, "window": over}


@pytest.mark.parametrize(("slide_s", "lateness_s"), [(None, 0.0), (0.5, 0.0), (None, 3.0), (1.0, 1.0)])
def test_aggregates(slide_s: float | None, lateness_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """First emissions are checked after each run; a record that came behind an end lets its window leave once more."""
    notebook = Notebook(monkeypatch)
    late = {"allowed_lateness_s": lateness_s} if lateness_s else {}
    window = counts(slide_s=slide_s, **late) | {"key_groups": 8}
    _, world = ended(job([source(**DISORDERLY), window, sink()], horizon_s=30.0), monkeypatch)
    audit = world.audits["counts"]
    at_us = {digest: at_us for at_us, _, digest in audit.came}
    spans, lateness_us = EventWindow(length_s=2, every_s=slide_s), round(lateness_s * SECOND_US)
    again = [
        span
        for digest, far_us in audit.behind.items()
        for span in covering(spans, at_us[digest])
        if lateness_us and far_us - lateness_us < span.end <= far_us
    ]
    emissions = sum(results(seen).total() for seen in notebook.by_task.values())
    assert emissions == len(audit.emitted) + len(again)
    assert bool(again) == bool(lateness_us)


def test_an_aggregate_of_everything_is_one_group() -> None:
    run = simulate(job([source(), counts() | {"group_by": None, "groups": 1}, sink()], horizon_s=21.0))
    assert sent(run, "counts") == 10


def test_windows_that_hold_nothing_take_no_time() -> None:
    """Of 21 million windows of a microsecond in a job, only those with a record are looked at: one for each record."""
    everything = counts(size_s=1e-6) | {"group_by": None, "groups": 1}
    run = simulate(job([source(), everything, sink()], horizon_s=21.0))
    last = run.operator_rows[-1]["end_s"] - 1.0  # by then the watermark may not have passed
    assert last / 21.0 * taken(run, "counts") < sent(run, "counts") <= taken(run, "counts")
    join = {"kind": "join", "name": "pairs", "window": everything["window"], "key_groups": 8, "selectivity": 1.0}
    streams = [("a", "pairs"), ("b", "pairs"), ("pairs", "sink")]
    run = simulate(job([source("a"), source("b"), join, sink()], streams, horizon_s=21.0))
    assert taken(run, "pairs") > 1000 and not sent(run, "pairs")  # no two records came at one microsecond


def test_an_aggregate_of_everything_cannot_be_split() -> None:
    everything = counts() | {"group_by": None, "groups": 1}
    with pytest.raises(BadInput, match="1 key groups for 2 subtasks"):
        job([source(), everything, sink()], placement={"counts": ["h0", "h1"]})


def taken(run: Run, name: str) -> int:
    return sum(row["numRecordsIn"] for row in run.operator_rows if row["operator"] == name)


def sent(run: Run, name: str) -> int:
    return sum(row["numRecordsOut"] for row in run.operator_rows if row["operator"] == name)


# what is before a window ---------------------------------------------------------------------------------------------

BEFORE: dict[str, dict[str, Any]] = {
    "calls": {"kind": "async", "latency_s": 0.3, "capacity": 1000},
    "calls in order": {"kind": "async", "latency_s": 0.3, "ordered": True, "capacity": 1000},
    "router": {"kind": "router", "shares": {"counts": 0.5}},
    "keyed state": {"kind": "keyed-state", "keys": 10, "key_groups": 16},
    "processing time": {"kind": "aggregate", "group_by": "int", "groups": 9, "window": {"policy": "time", "size_s": 1}},
    "sessions": {"kind": "session", "keys": 30, "gap_s": 0.2},
}


def behind(name: str, **more: Any) -> Scenario:
    before = BEFORE[name] | {"name": "before"}
    return job([source(), before, counts(), sink()], placement={"before": ["h0", "h1"]}, horizon_s=20.0, **more)


@pytest.mark.parametrize("name", BEFORE)
@pytest.mark.parametrize("engine", ["storm", "flink"])
def test_event_times_pass_what_is_before_a_window(name: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is late where event times come in order: marks overtake no record, and none overtakes them."""
    _, world = ended(behind(name, engine=engine), monkeypatch)
    audit = world.audits["counts"]
    late = len(audit.late) + len(audit.behind)
    assert late == 0 or name in ("processing time", "sessions")  # these results are of the moment at which they leave
    assert len(audit.kept) > 100
    assert len(audit.emitted) > 50


def test_a_call_holds_the_watermark_back_until_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window is evaluated when the last call of a record before its end has been answered."""
    calls = {"kind": "async", "name": "before", "latency_s": 0.7, "latency_scv": 0.0, "capacity": 10**5}
    after_s: list[float] = []
    reach = ComputeLogic.reach

    def reached(logic: Any, before_us: float, now_us: int) -> None:
        after_s.append(logic.now_s - now_us / SECOND_US)
        reach(logic, before_us, now_us)

    monkeypatch.setattr(ComputeLogic, "reach", reached)
    one = {"before": "h0", "counts": "h1"}
    simulate(job([source(), calls, counts(), sink()], placement=one, horizon_s=21.0, rate_per_s=200.0))
    assert len(after_s) == 11
    assert all(0.66 < late_s < 0.73 for late_s in after_s[1:])


# watermarks ----------------------------------------------------------------------------------------------------------


class Reached:
    """Notes when watermarks reach an aggregate: the time, and the watermark."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.marks: list[tuple[float, float]] = []
        reach = ComputeLogic.reach

        def reached(logic: Any, before_us: float, now_us: int) -> None:
            self.marks.append((logic.now_s, now_us / SECOND_US))
            reach(logic, before_us, now_us)

        patch.setattr(ComputeLogic, "reach", reached)


def test_watermarks_are_sent_in_time_where_the_engine_does_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each says the newest event time less the slack; between two lies a multiple of the interval, up to a service."""
    reached = Reached(monkeypatch)
    one = {"counts": "h1"}
    came = source(slack_s=0.5, watermark_interval_s=0.3)
    _, world = ended(job([came, counts(), sink()], placement=one, rate_per_s=200.0, horizon_s=20.0), monkeypatch)
    at_s = [time_s for time_s, _ in reached.marks]
    assert len(at_s) in (66, 67)
    apart = [(after_s - before_s) % 0.3 for before_s, after_s in pairwise(at_s)]
    assert all(min(each, 0.3 - each) < 1e-3 for each in apart)
    newest_s = sorted(at_us / SECOND_US for at_us, _, _ in world.audits["counts"].came)
    for time_s, mark_s in reached.marks:
        sent = [each for each in newest_s if each <= time_s - 0.002]  # the way takes two milliseconds
        assert mark_s + 0.5 == pytest.approx(sent[-1], abs=2e-4) or mark_s + 0.5 == pytest.approx(sent[-2], abs=2e-4)


def silent(idle_s: float | None) -> Scenario:
    idle = {} if idle_s is None else {"idle_s": idle_s}
    two = [source("busy"), source("quiet", **idle), counts(), sink()]
    streams = [("busy", "counts"), ("quiet", "counts"), ("counts", "sink")]
    rates = [
        {"kind": "rate-change", "at_s": 6.0, "source": "quiet", "rate_per_s": 1e-9},
        {"kind": "rate-change", "at_s": 14.0, "source": "quiet", "rate_per_s": 60.0},
    ]
    return job(two, streams, placement={"counts": "h1"}, horizon_s=20.0, events=rates)


@given(st.lists(st.tuples(st.integers(0, 2), st.one_of(st.none(), st.integers(0, 9))), max_size=12))
def test_a_subtask_is_as_far_as_its_least_far_input_that_is_awake(marks: list[tuple[int, int | None]]) -> None:
    """As Flink's `StatusWatermarkValve`; None: an input falls idle."""
    inputs = [(0, f"p{number}") for number in range(3)]
    progress, far, awake = InputProgress(inputs), dict.fromkeys(inputs, -math.inf), dict.fromkeys(inputs, True)
    for number, value in marks:
        kind = IDLE if value is None else WATERMARK
        progress.take(0, Mark(kind, float(value or 0), f"p{number}", 0.0))
        awake[inputs[number]] = value is not None
        if value is not None:
            far[inputs[number]] = max(far[inputs[number]], float(value))
        waited = [far[each] for each in inputs if awake[each]]
        assert progress.least(WATERMARK) == (min(waited) if waited else max(far.values()))
        assert progress.idle == (not waited)


@pytest.mark.parametrize("idle_s", [None, 1.5])
def test_nobody_waits_for_an_idle_source(idle_s: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    reached = Reached(monkeypatch)
    _, world = ended(silent(idle_s), monkeypatch)
    meanwhile = [mark_s for time_s, mark_s in reached.marks if 9.0 < time_s < 14.0]
    if idle_s is None:
        assert not meanwhile
    else:
        assert meanwhile == [10.0, 12.0]
        assert [time_s for time_s, mark_s in reached.marks if 7.5 < mark_s < 8.5] == pytest.approx([8.0], abs=0.3)
    assert max(mark_s for _, mark_s in reached.marks) >= 18.0  # and everybody goes on when it is awake
    assert not world.audits["counts"].late
