"""Deduplication and OVER aggregation by row time against plain lists of records, with late records, moves and
failures."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.twin import event_jobs
from tests.twin.followed import following
from tests.twin.worlds import noting_worlds
from twin.errors import BadInput
from twin.operators.panes import Dated
from twin.operators.rows import TimedDeduplicateLogic, TimedOverLogic
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate

MOVE = {"kind": "migration", "operator": "op", "key_groups": [0, 1], "to_subtask": 2, "at_s": 4.3}
OUT = {"kind": "scale", "operator": "op", "placement": ["h0", "h1", "h2", "h0"], "at_s": 4.3}
FAILS = {"kind": "failure", "host": "h1", "at_s": 5.7, "recover_after_s": 1.0}
LATE = {"disorder_s": 0.8}


def job(kind: str, sources: dict[str, float], late_to: str | None = None, **more: Any) -> Scenario:
    """Job source -> operator on three hosts -> sink."""
    run = {name: more.pop(name) for name in ("events", "horizon_s", "seed", "warmup_s") if name in more}
    operator = {"kind": kind, "name": "op", "time": "event", "service_time_s": 1e-4, "keys": 12, "key_groups": 6} | more
    chain = [event_jobs.source(**sources), operator, event_jobs.sink()]
    streams = list(pairwise(["source", "op", "sink"]))
    if late_to is not None:
        operator["late_to"] = late_to
        chain.append(event_jobs.sink(late_to))
        streams.append(("op", late_to))
    return event_jobs.job(chain, streams, **run)


def left_of(worlds: list[Any]) -> list[Any]:
    """Logics of the operator when the run has ended."""
    return [event_jobs.logic_of(task) for task in worlds[0].tasks["op"]]


@pytest.mark.parametrize("events", [[], [MOVE], [OUT], [FAILS]], ids=["plain", "move", "scale", "failure"])
@pytest.mark.parametrize("keep", ["first", "last"])
@pytest.mark.parametrize("ttl_s", [None, 0.7])
def test_rows_are_replaced_by_earlier_or_later_ones(keep: str, ttl_s: float | None, events: Any) -> None:
    """What each record sends, and the row of each key, are those of brute force over event times."""
    with following(TimedDeduplicateLogic) as found, noting_worlds() as worlds:
        simulate(job("deduplicate", LATE, keep=keep, ttl_s=ttl_s, events=events))
    rows: dict[int, tuple[float, int]] = {}
    for each in found.order:
        at_s, at_us = rows.get(each.key, (-np.inf, 0))
        known = at_s + (ttl_s or np.inf) > each.came_s
        replaces = not known or (each.at_us >= at_us if keep == "last" else each.at_us < at_us)
        assert len(each.results) == ((2 if known else 1) if replaces else 0)
        assert {result.at_us for result in each.results if isinstance(result, Dated)} <= {each.at_us}
        if replaces:
            rows[each.key] = each.came_s, each.at_us
    assert sum(not each.results for each in found.order) > 20
    assert (found.undone > 0) == (events == [FAILS])
    for logic in left_of(worlds):
        logic.expire_now()
        assert {key: (row.at, row.at_us) for key, (row,) in logic.table.by_key.items()}.items() <= rows.items()
    held = sum(logic.table.count for logic in left_of(worlds))
    assert held == sum(at_s + (ttl_s or np.inf) > 9.0 for at_s, _ in rows.values())


class Noted:
    """Records that OVER aggregations took, put aside and sent, by event time and key."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: dict[int, list[int]] = defaultdict(list)
        self.sent: dict[int, list[int]] = defaultdict(list)
        self.late = 0
        emit, aside, send = TimedOverLogic.emit, TimedOverLogic.put_aside, TimedOverLogic.send

        def emits(logic: Any, record: Any, at_s: float) -> None:
            if record.at_us >= logic.watermark_us:
                self.taken[record.key].append(record.at_us)
            emit(logic, record, at_s)

        def puts(logic: Any, record: Any, at_s: float) -> None:
            self.late += 1
            aside(logic, record, at_s)

        def sends(logic: Any, result: Any) -> None:
            assert result.at_us < logic.watermark_us
            self.sent[result.key].append(result.at_us)
            send(logic, result)

        monkeypatch.setattr(TimedOverLogic, "emit", emits)
        monkeypatch.setattr(TimedOverLogic, "put_aside", puts)
        monkeypatch.setattr(TimedOverLogic, "send", sends)


@pytest.mark.parametrize("events", [[], [MOVE], [OUT]], ids=["plain", "move", "scale"])
@pytest.mark.parametrize("sources", [{}, LATE, LATE | {"slack_s": 0.8}], ids=["in order", "late", "slack"])
@pytest.mark.parametrize("more", [{"rows": 2}, {"range_s": 1.0}], ids=["rows", "range"])
def test_records_leave_in_the_order_of_their_times(
    more: dict[str, Any], sources: dict[str, float], events: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each record that is not late leaves once, in order, when the watermark has passed it; others still wait. Rows are
    the last ones of each key, or those that a record to come can still count."""
    noted = Noted(monkeypatch)
    with noting_worlds() as worlds:
        simulate(job("over-aggregate", sources, events=events, late_to="late", **more))
    waiting, rows = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    logics = left_of(worlds)
    for logic in logics:
        for at_us, key, *_ in logic.waiting:
            waiting[key].append(at_us)
        for key, kept in logic.table.by_key.items():
            rows[key] += [row.at for row in kept]
    for key, taken in noted.taken.items():
        sent = noted.sent[key]
        assert sent == sorted(sent)
        assert sorted([*sent, *waiting[key]]) == sorted(taken)
        if "rows" in more:
            assert rows[key] == sent[-3:]
    if "range_s" in more:
        least = min(logic.watermark_us for logic in logics)
        for key, sent in noted.sent.items():
            assert (
                {at for at in sent if at > least - 10**6}
                >= set(rows[key])
                >= {at for at in sent if at + 10**6 > least + 3 * 10**5}
            )
    assert sum(map(len, noted.sent.values())) > (120 if sources == LATE else 350)
    assert (noted.late > 0) == (sources == LATE)


def test_records_that_are_read_again_leave_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failure the records that are taken in again leave as before, and conservation holds."""
    noted = Noted(monkeypatch)
    result = simulate(job("over-aggregate", {}, rows=2, events=[FAILS]))
    plain = simulate(job("over-aggregate", {}, rows=2))
    assert sum(map(len, noted.sent.values())) > 0
    assert result.metrics.records_out >= 0.95 * plain.metrics.records_out


@pytest.mark.parametrize("sources", [{}, LATE | {"slack_s": 0.8}], ids=["in order", "slack"])
def test_the_rate_model_knows_how_long_records_wait(sources: dict[str, float]) -> None:
    """Throughput and age of results agree with runs."""
    given = job("over-aggregate", sources, rows=3, horizon_s=60.0, warmup_s=10.0)
    runs = [simulate(given.with_set("run.seed", seed)).metrics for seed in range(6)]
    said = RateModel(horizon_s=60.0).predict(given, [given.plan])
    assert not RateModel().blind_to(given)
    for measure, within in (("throughput_per_s", 0.02), ("processing_latency_s", 0.1)):
        found = float(np.mean([run.value(measure) for run in runs]))
        assert said[measure][0] == pytest.approx(found, rel=within)


def test_mistakes_get_a_line() -> None:
    with pytest.raises(BadInput, match="'op' has late_to, and no record is late in processing time"):
        job("over-aggregate", {}, late_to="late", rows=2, time="processing")
