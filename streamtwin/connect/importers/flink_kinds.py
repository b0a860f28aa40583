"""Kinds of operators, and the numbers of their keys, for the heads of Flink's chains: by plan, and by what comes out.

Laws that tell keys from results are those of docs/kinds.md and docs/sql-kinds.md, read backwards.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamtwin.connect.importers.flink_chain import OUT_OF, Step, gap_s_in, keys_that_give, window_in
from streamtwin.connect.importers.flink_job import CALLS, Vertex
from streamtwin.connect.importers.flink_readings import ONE_FOR_ONE
from twin.kinds.rows import most_of

JOINS = re.compile("CoGroup|Join")
"""Words in the descriptions of windows that join; several inputs of other windows are one stream."""
WINDOWS = re.compile("Window|Join|CoGroup")
"""Words in the descriptions of operators that hold records, whatever their inputs."""
UNREAD = "Flink's plan does not tell what it does with keys, windows or several inputs"
BYTES_PER_KEY = 100.0
"""State of a key where nothing else tells how many there are: the default of `state_bytes_per_key`."""
KEYS_A_RESULT = 0.1
"""Keys for each result of an aggregation whose state is not known either: few, so that first results hardly count."""
MOST_KEYS = 10**9
FEW = 5
"""Number of windows below which their results are not counted well: one more or less may lie in the time."""
BETWEEN = 1.5
"""Power of growth between that of pairs of keys that stay, 2, and of keys that go, 1."""
RESTS = 0.01
"""Share of the records of one side of a join below which the other side rests, so that results tell no keys."""
SOON = 0.1
"""Share of the records before it was watched within which keys that go had been replaced."""
ALONE = 100.0
"""Keys for each record where no two records seem to share one."""


@dataclass(frozen=True, slots=True)
class Head:
    """First operator of a vertex, which says the vertex's kind. name: in the twin. sides: names and rates of its
    inputs, in their order. sent_per_s: results; None: not counted. timed: whether its windows are over event time.
    last: nothing but sinks follow. state_bytes: of each key group, by the last checkpoint. ttl_s: time to live of rows;
    None: for ever. notes, asks: get words for people, and what people may know better, as `KEY=VALUE (why)`."""

    vertex: Vertex
    name: str
    sides: tuple[tuple[str, float], ...]
    sent_per_s: float | None
    last: bool
    timed: bool
    state_bytes: float = 0.0
    ttl_s: float | None = None
    notes: list[str] = field(default_factory=list)
    asks: list[str] = field(default_factory=list)

    @property
    def step(self) -> Step:
        """Flink's operator."""
        return self.vertex.chain[0]

    @property
    def in_per_s(self) -> float:
        """Records a second that it takes."""
        return self.vertex.in_per_s

    @property
    def keyed(self) -> bool:
        """Whether it works by key."""
        return self.vertex.keyed

    @property
    def ratio(self) -> float | None:
        """Results of a record; None if they are not counted."""
        return self.sent_per_s / self.in_per_s if self.sent_per_s is not None and self.in_per_s else None

    @property
    def time(self) -> dict[str, str]:
        """Field `time`, where it is that of events."""
        return {"time": "event"} if self.timed else {}

    @property
    def groups(self) -> dict[str, int]:
        """Field `key_groups`; where all records go to one subtask there is one."""
        return {"key_groups": self.vertex.key_groups if self.keyed else 1}

    def ask(self, key: str, value: object, why: str) -> None:
        """Says what is assumed, and where to set it."""
        shown = f"{value:,}" if isinstance(value, int) else f"{value}"
        self.asks.append(f"query.operators.{self.name}.{key}={shown} ({why})")

    def kept(self) -> dict[str, float]:
        """Field `ttl_s` of an operator that keeps rows."""
        if self.ttl_s:
            return {"ttl_s": self.ttl_s}
        self.ask("ttl_s", "none", "its rows stay for ever, and its state grows, unless the query has a time to live")
        return {}


def kind_of(head: Head) -> dict[str, Any]:
    """Kind of an operator, and the fields that only this kind has."""
    vertex, step = head.vertex, head.step
    if not vertex.inputs:
        return {"kind": "source"}
    if CALLS in vertex.steps:
        return calls(head)
    window, gap_s = window_in(step.text), gap_s_in(step.text)
    if window is not None and JOINS.search(step.text):
        return {"kind": "join", "window": window | head.time, **_matching(head, window)}
    if (made := BY_WORD.get(step.word)) is not None:
        return made(head)
    if not step.word.startswith("Local"):
        if window is not None:
            return _aggregate(head, window)
        if gap_s is not None:
            return _sessions(head, gap_s)
    return _passing(head)


def _passing(head: Head) -> dict[str, Any]:
    """A sink, or a filter or map by what comes out."""
    vertex, ratio = head.vertex, head.ratio
    unread = head.keyed or len(vertex.inputs) > 1 or WINDOWS.search(" ".join(vertex.steps)) is not None
    ends = any(each.is_sink for each in vertex.chain)
    if head.last and not (vertex.is_planned and ends):
        if unread and len(vertex.steps) > 1:
            head.notes.append(f"{head.name}: {UNREAD}; taken as a sink")
        return {"kind": "sink"}
    if ratio is None and not head.last:
        head.notes.append(f"{head.name}: nothing came in, so what leaves it is unknown; taken as one for one")
    if ratio is None or abs(ratio - 1.0) < ONE_FOR_ONE:
        ratio = 1.0
    hashed = all(how == "HASH" for _, how in vertex.inputs)
    kind = "filter" if ratio < 1.0 and not hashed else "map"
    if unread:
        head.notes.append(f"{head.name}: {UNREAD}; taken as a {kind} of selectivity {ratio:.3g}, as at these rates")
    return {"kind": kind, "selectivity": ratio, **(_state(head) if hashed else {})}


def _state(head: Head) -> dict[str, float]:
    return head.groups | ({"state_bytes_per_group": head.state_bytes} if head.state_bytes else {})


# windows -------------------------------------------------------------------------------------------------------------


def _aggregate(head: Head, window: dict[str, Any]) -> dict[str, Any]:
    """Windowed aggregate. Its results of a window are the distinct groups of the records in it."""
    slide_s, size_s = window.get("slide_s", window["size_s"]), window["size_s"]
    if "CUMULATE" in head.step.text:
        head.notes.append(
            f"{head.name}: a cumulating window; taken as one of its greatest size that slides by its step"
        )
    seen = head.vertex.passed_s / slide_s
    if 0 < seen < FEW:
        head.notes.append(
            f"{head.name}: its results come every {slide_s:g} s, and were counted for {head.vertex.passed_s:.3g} s; a "
            f"--window of {FEW * slide_s:g} s would tell its groups"
        )
    window = window | head.time
    if not head.keyed:
        return {"kind": "aggregate", "window": window, "group_by": None, "groups": 1}
    results = (head.sent_per_s or 0.0) * slide_s
    told = keys_that_give(results, head.in_per_s * size_s) if round(results) >= 1 else 0.0
    groups = _keys(head, told, "groups")
    state = head.groups if head.vertex.is_planned else _state(head)  # of SQL all of it is what the window holds
    return {"kind": "aggregate", "window": window, "group_by": "int", "groups": groups, **state}


def _keys(head: Head, told: float, noun: str) -> int:
    """Number of keys: `told` by results, but at least the number of subtasks that got records. If results tell nothing
    (0): one a key group, which allows for any shares of the subtasks. noun: for notes.
    """
    fed = sum(each > 0 for each in head.vertex.dealt)
    if not told:
        head.ask(noun, head.vertex.key_groups, f"one a key group, as its results do not say how many {noun} it has")
        return head.vertex.key_groups
    keys = round(min(told, ALONE * max(1.0, head.vertex.taken), MOST_KEYS))
    if keys < fed:
        head.notes.append(
            f"{head.name}: its results tell of {keys:,} {noun}, but {fed:,} subtasks get records; taken as {fed:,}"
        )
    return max(keys, fed)


def _sessions(head: Head, gap_s: float) -> dict[str, Any]:
    """Session operator with its number of keys, from the share of results: if each of n keys gets in_per_s / n records
    a second at random, a record is the last of its session with probability exp(-gap in_per_s / n).
    """
    ended = head.ratio or 0.0
    if not ended:
        groups = head.vertex.key_groups
        keys = min(MOST_KEYS, groups * max(1, round(head.in_per_s * gap_s / groups)))  # alike in each key group
        head.ask("keys", keys, "of each a record comes within the gap, as its results do not say")
    else:
        told = head.in_per_s * gap_s / -math.log(ended) if ended < 1 else MOST_KEYS
        head.notes.append(
            f"{head.name}: Flink does not tell how many keys have sessions; that one record in {1 / ended:.3g} ends "
            f"a session says {told:,.0f}, if keys are alike and their records come by chance; else set its keys"
        )
        keys = _keys(head, told, "keys")
    grouped = {"key_groups": head.vertex.key_groups} if keys >= head.vertex.key_groups else {}
    return {"kind": "session", "gap_s": gap_s, "keys": keys, **grouped, **head.time}


def calls(head: Head) -> dict[str, Any]:
    """Asynchronous call, of which no answer of Flink's tells more."""
    head.notes.append(
        f"{head.name}: Flink tells neither how long a call takes nor how many may wait; taken as 0 s and its default "
        "of 100: set its latency_s, capacity and ordered; its busy time holds waits for a place, so it says no cost"
    )
    return {"kind": "async", "latency_s": 0.0}


def _matching(head: Head, window: Mapping[str, Any]) -> dict[str, float]:
    """Selectivity of a join of two streams: the probability that a pair matches; else its output per input."""
    size_s, results = window["size_s"], head.sent_per_s or 0.0
    pairs_per_s = float(np.prod([rate * size_s for _, rate in head.sides])) / window.get("slide_s", size_s)
    if len(head.sides) == 2 and 0 < results <= pairs_per_s:
        return {"selectivity": results / pairs_per_s}
    if head.sent_per_s is None:
        each = min(rate for _, rate in head.sides) / head.in_per_s if head.in_per_s else 0.0
        head.ask("amplification", f"{each:.3g}", "a result for each record of the rarest input, as none are counted")
        return {"amplification": each}
    head.notes.append(f"{head.name}: what matches cannot be read; its results by input are those at these rates")
    return {"amplification": head.ratio or 0.0}


# kinds of SQL that keep rows by key ----------------------------------------------------------------------------------


def _rows(head: Head, told: float | None, why: str = "") -> int:
    """Number of keys that results tell; if they tell nothing, as many as records so far. why: how they tell it."""
    if told is not None and math.isfinite(told) and told >= 1:
        keys = round(min(told, MOST_KEYS))
        head.notes.append(f"{head.name}: {keys:,} keys, {why}, if keys are alike; else set its keys")
        return keys
    keys = min(MOST_KEYS, max(1, round(head.vertex.taken)))
    head.ask("keys", keys, "as many as records so far, as its results do not say")
    return keys


def _by_first(head: Head, retracts: bool) -> tuple[int, bool]:
    """Number of keys of which each record is the first or changes a result, and whether a change sends two records.

    A first record sends one result, each other one two (a retraction and an addition). The time that is watched may be
    long, so first ones are counted over all of it, and not by their share at one moment.
    """
    ratio = head.ratio
    first = None if ratio is None else (2.0 - ratio if retracts else ratio)
    if retracts and ratio is not None and ratio <= 1.0 + ONE_FOR_ONE:  # it sends additions only
        return _rows(head, None), False
    content = head.in_per_s * head.vertex.passed_s
    before = max(0.0, head.vertex.taken - content)
    told = keys_that_give(first * content, content, before) if first is not None and 0 < first < 1 and content else None
    return _rows(head, told, f"as {first:.3g} of the records were the first of theirs" if first else ""), True


def _bytes_per_key(head: Head, keys: int) -> dict[str, float]:
    """State of a key: that of the vertex in the last checkpoint, by the keys that have come so far."""
    seen = -keys * math.expm1(-head.vertex.taken / keys)
    state = head.vertex.state_bytes
    return {"state_bytes_per_key": state / seen} if state and seen >= 1 else {}


def _lasting(head: Head) -> float:
    """Records so far whose rows live."""
    return min(head.vertex.taken, head.in_per_s * head.ttl_s) if head.ttl_s else head.vertex.taken


def _rows_kept(head: Head, most: int, keys: int) -> float:
    """Rows that there are by now, if at most so many of each key are kept."""
    return keys * float(most_of(most, np.array([_lasting(head) / keys]))[0])


def _bytes_per_row(head: Head, rows: float) -> dict[str, float]:
    """Size of a row as it is stored, compressed or not: the vertex's state in the last checkpoint, by its rows."""
    state = head.vertex.state_bytes
    return {"row_bytes": float(f"{state / rows:.4g}")} if state and rows >= 1.0 else {}


def _deduplicate(head: Head) -> dict[str, Any]:
    last = "FirstRow" not in head.step.text
    keys, retracts = _by_first(head, retracts=last)
    found = {"kind": "deduplicate", "keep": "last" if last else "first", "keys": keys, **head.groups, **head.kept()}
    time = head.time if "ROWTIME" in head.step.text else {}
    return found | ({} if retracts else {"changelog": "upsert"}) | time | _bytes_per_key(head, keys)


def _group_aggregate(head: Head) -> dict[str, Any]:
    if head.ratio is not None and 0.0 < head.ratio < 1.0 - ONE_FOR_ONE:
        return _seldom_changing(head, head.ratio)
    keys, retracts = _by_first(head, retracts=True)
    if head.step.word != "GroupAggregate":
        head.notes.append(f"{head.name}: its mini-batches are not in Flink's plan; it changes a result by each record")
    found = {"kind": "group-aggregate", "keys": keys, **head.groups, **head.kept(), **_bytes_per_key(head, keys)}
    return found | ({} if retracts else {"changelog": "upsert"})


def _seldom_changing(head: Head, ratio: float) -> dict[str, Any]:
    """Aggregation that sends fewer results than records come. Its state tells about how many keys it has, each of which
    has sent a first result; the share of the other records that change one is what is left of the results."""
    taken, state = max(head.vertex.taken, 1.0), head.vertex.state_bytes
    results = ratio * taken
    keys = min(MOST_KEYS, max(1, round(min(results, state / BYTES_PER_KEY) if state else KEYS_A_RESULT * results)))
    first = -keys * math.expm1(-taken / keys) / taken
    changing = float(f"{max(0.0, ratio - first) / (1.0 - first):.3g}") if first < 1.0 else 1.0
    why = f"by its state, at {BYTES_PER_KEY:g} bytes each" if state else "a tenth of its results so far"
    head.ask("keys", keys, f"{why}, as most records change no result")
    found = {"kind": "group-aggregate", "keys": keys, "changing": changing, "changelog": "upsert"}
    return found | head.groups | head.kept() | _bytes_per_key(head, keys)


def _top_n(head: Head) -> dict[str, Any]:
    found = re.search(r"(?:rankEnd=|fetch=\[)(\d+)", head.step.text)
    numbered = re.search(r"outputRowNumber=\[?true|\$o0|rowNum|rank_number", head.step.text) is not None
    keys = _rows(head, None) if head.keyed else 1
    n = max(1, int(found[1])) if found else 1
    skipped = re.search(r"offset=\[(\d+)", head.step.text)
    n += int(skipped[1]) if found and skipped else 0
    start = re.search(r"rankStart=(\d+)", head.step.text)
    first = int(start[1]) if start else 1 + int(skipped[1]) if skipped else 1
    if found is None:
        head.ask("n", n, "as Flink's plan has no number of rows")
    elif first > 1:
        head.notes.append(
            f"{head.name}: it keeps {n:,} rows, of which those from the {first:,}. on are results; taken as if all were"
        )
    kept = _bytes_per_row(head, _rows_kept(head, n, keys))
    return {"kind": "top-n", "n": n, "row_number": numbered, "keys": keys, **kept, **head.groups, **head.kept()}


def _over_aggregate(head: Head) -> dict[str, Any]:
    preceding = re.search(r"ROWS BETWEEN (\d+) PRECEDING", head.step.text)
    spans = re.search(r"RANGE? BETWEEN (\d+) PRECEDING", head.step.text)
    before: dict[str, float] = {"rows": int(preceding[1])} if preceding else {}
    before |= {"range_s": int(spans[1]) / 1000} if spans and not preceding else {}
    if not before:
        before = {"rows": 1}
        head.notes.append(f"{head.name}: its rows have no bound; it keeps one accumulator for each key")
    keys = _rows(head, None) if head.keyed else 1
    time = {} if "proctime" in head.step.text.lower() else head.time
    if "rows" in before:
        rows = _rows_kept(head, int(before["rows"]) + 1, keys)
    else:
        rows = min(head.vertex.taken, head.in_per_s * before["range_s"])
    return {"kind": "over-aggregate", **before, "keys": keys, **_bytes_per_row(head, rows), **head.groups, **time}


def _join(head: Head) -> dict[str, Any]:
    """Regular join. Of keys that stay, 2 rate rate t / keys pairs a second come after t seconds; of keys that go, as
    many for each record at all times."""
    if len(head.sides) != 2:
        return _passing(head)
    (left, lefts), (right, rights) = head.sides
    written = re.search(r"joinType=\[(Inner|LeftOuter|RightOuter|FullOuter)?(\w*?)Join\]", head.step.text)
    side = (written[1] or "Inner").removesuffix("Outer").lower() if written else "inner"
    if written and written[2]:
        head.notes.append(f"{head.name}: a join of type {written[2]}; taken as an inner one")
    at_s = min(head.vertex.lived_s - head.vertex.passed_s / 2.0, head.ttl_s or math.inf)
    rests = min(lefts, rights) < RESTS * max(lefts, rights)  # a table that was read at the start
    told = 2.0 * lefts * rights * at_s / head.sent_per_s if head.sent_per_s and not rests else None
    going: dict[str, float] = {}
    if side == "inner" and head.keyed and not rests and _grows_as(head) < BETWEEN:
        pairs = (head.ratio or 0.0) * (lefts + rights) ** 2 / (2.0 * lefts * rights)
        going = {"key_records": float(f"{1.0 + pairs:.3g}")}
        keys = min(MOST_KEYS, max(1, round(SOON * _taken_before(head) / (1.0 + pairs))))
        head.ask("keys", keys, "in use at a time: few, as a record finds as many rows as before, so that keys go")
    elif told is None and head.keyed:
        keys = min(MOST_KEYS, max(1, round(max(lefts, rights) * head.vertex.lived_s)))
        head.ask("keys", keys, "as many as rows of the side that has more, as its results are not counted")
    else:
        keys = _rows(head, told, "as its results tell") if head.keyed else 1
    found = {"kind": "regular-join", "left": left, "right": right, "type": side, "keys": keys}
    return found | going | _bytes_per_row(head, _lasting(head)) | head.groups | head.kept()


def _taken_before(head: Head) -> float:
    """Records that it took before it was watched."""
    return max(0.0, head.vertex.taken - head.in_per_s * head.vertex.passed_s)


def _grows_as(head: Head) -> float:
    """Power of the number of records so far with which the number of results so far grew, while it was watched: 2 of
    pairs of keys that stay, 1 of keys that go. 2 where nothing tells it, such as where it was watched from its start
    on, or rows no longer stay as they expire."""
    if head.ttl_s and head.ttl_s < head.vertex.lived_s:
        return 2.0
    records, results = head.vertex.taken, head.step.totals.get(OUT_OF, 0.0)
    before, first = _taken_before(head), results - (head.sent_per_s or 0.0) * head.vertex.passed_s
    if not (records > before > 0.0 and results > first > 0.0):
        return 2.0
    longer, error = math.log(records / before), math.sqrt(results - first) / results
    return math.log(results / first) / longer if 2.0 * error < (2.0 - BETWEEN) * longer else 2.0


def _interval_join(head: Head) -> dict[str, Any]:
    """Interval join: results a second are rate rate (upper - lower) / keys."""
    bounds = re.search(r"leftLowerBound=(-?\d+), leftUpperBound=(-?\d+)", head.step.text)
    if bounds is None or len(head.sides) != 2:
        return _passing(head)
    (left, lefts), (right, rights) = head.sides
    lower_s, upper_s = -int(bounds[2]) / 1000, -int(bounds[1]) / 1000  # of the right record, after the left one
    if lower_s == upper_s:
        upper_s += 1e-3  # the same millisecond
    told = lefts * rights * (upper_s - lower_s) / head.sent_per_s if head.sent_per_s else None
    keys = _rows(head, told, "as its results tell") if head.keyed else 1
    time = head.time if "isRowTime=true" in head.step.text else {}
    found = {"kind": "interval-join", "left": left, "right": right, "lower_s": lower_s, "upper_s": upper_s}
    return {**found, "keys": keys, **head.groups, **time}


def _temporal_join(head: Head) -> dict[str, Any]:
    if len(head.sides) != 2:
        return _passing(head)
    (_, lefts), (right, _) = head.sides
    found = head.sent_per_s / lefts if head.sent_per_s is not None and lefts else 1.0
    return {"kind": "temporal-join", "side": right, "selectivity": found, **_state(head), **head.time}


def _lookup_join(head: Head) -> dict[str, Any]:
    found = calls(head)
    return found | {"kind": "lookup-join", "selectivity": 1.0 if head.ratio is None else head.ratio}


BY_WORD: Mapping[str, Callable[[Head], dict[str, Any]]] = {
    "Deduplicate": _deduplicate,
    "ChangelogNormalize": _deduplicate,
    "GroupAggregate": _group_aggregate,
    "GlobalGroupAggregate": _group_aggregate,
    "IncrementalGroupAggregate": _group_aggregate,
    "Rank": _top_n,
    "SortLimit": _top_n,
    "Limit": _top_n,
    "OverAggregate": _over_aggregate,
    "Join": _join,
    "IntervalJoin": _interval_join,
    "TemporalJoin": _temporal_join,
    "LookupJoin": _lookup_join,
}
"""Kinds of operators of SQL, by Flink's words for them. All others are told by their windows, or by what comes out."""
