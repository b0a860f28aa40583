"""What Flink's descriptions of operators say: the tree of a vertex, names and counters of operators, times, windows and
gaps; and how many keys explain the results of one.

The readings of a job are in `flink_readings`.
"""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from twin.errors import BadInput
from twin.flink_values import seconds_in

# operators of a vertex -----------------------------------------------------------------------------------------------


NUMBERED = re.compile(r"\[\d+\]")
"""A number of the planner."""
HEAD = re.compile(r"^\[\d+\]:\s*")
"""The planner's number at the beginning of a description."""
PASSING = frozenset(
    ("WatermarkAssigner", "StreamRecordTimestampInserter", "MiniBatchAssigner", "InputConversion", "OutputConversion")
)
"""Operators of SQL that neither drop nor make records."""
SINK = r"^([Ss]ink: .*|[^()]*: (Writer|Committer))$"
"""Descriptions of sinks, and of their parts."""
WORD = r"(?:Source: |Sink: )?(\w+)\("
"""The planner's word for an operator, at the beginning of its description."""
AT_TABLES = r"\w*(Scan|Sink)$"
"""Words of operators that read or write a table."""
TABLE = r"table=\[+(?:[\w$]+(?:, |\.)){0,2}([\w$]+)"
"""The table of a source or sink, behind its catalogue and database."""
METRIC_NAME = 80
"""Longest name of an operator in the names of metrics (Flink's METRICS_OPERATOR_NAME_MAX_LENGTH)."""
INTO, OUT_OF, LATE = "numRecordsIn", "numRecordsOut", "numLateRecordsDropped"
COUNTED = (INTO, OUT_OF, LATE)
"""Counters of an operator that are read."""


@dataclass(frozen=True, slots=True)
class Step:
    """Operator of a vertex. text: Flink's description, without the planner's number. word: the kind of a SQL operator,
    such as `Calc`; empty for others. before: index of the operator that it follows in the chain; None: it is the first.
    name: in the twin. counts: its counters, records a second of all subtasks; those that were read. totals: the same,
    records since the start."""

    text: str
    word: str
    before: int | None
    name: str
    counts: Mapping[str, float]
    totals: Mapping[str, float] = field(default_factory=dict)

    @property
    def passes_all(self) -> bool:
        """Whether each record leaves as one, whatever counters say that were read at different moments."""
        return self.word in PASSING or (self.word == "Calc" and "where=[" not in self.text)

    @property
    def is_sink(self) -> bool:
        """Whether it writes the results that a chain ends in."""
        return self.before is not None and (self.word == "Sink" or re.search(SINK, self.text) is not None)


def is_planned(name: str) -> bool:
    """Whether the SQL planner named a vertex."""
    return NUMBERED.search(name) is not None


def without_numbers(name: str) -> str:
    """Name without the planner's numbers."""
    return NUMBERED.sub("", name)


def tree(description: str) -> list[tuple[str, int | None]]:
    """Descriptions of the operators of a vertex, depth first, each with the index of the operator that it follows."""
    found: list[tuple[str, int | None]] = []
    above: list[int] = []
    for line in re.split(r"<br\s*/?>|\n", description):
        marked = re.match(r"((?:[: ]  )*)([:+]- )?(.*)", html.unescape(line).rstrip())
        text = marked[3].strip() if marked else ""
        if not marked or not text:
            continue
        depth = min(len(marked[1]) // 3 + 1 if marked[2] else len(above), len(above)) if found else 0
        del above[depth:]
        found.append((text, above[-1] if above else None))
        above.append(len(found) - 1)
    return found


def steps_of(
    name: str, description: str | None, counters: Mapping[str, float], totals: Mapping[str, float] | None = None
) -> tuple[Step, ...]:
    """Operators of a vertex. counters: records a second by the name of the metric, without the subtask's index. totals:
    the same, records since the start."""
    lines = tree(name.replace(" -> ", "<br/>") if description is None else description) or [(name, None)]
    parts = [each.strip(" ()") for each in re.split(r" -> |, ", name)]
    own = parts if len(parts) == len(lines) else [HEAD.sub("", text) for text, _ in lines]
    filtered = [re.sub(r"[ .:,]", "_", each)[:METRIC_NAME] for each in own]
    times = Counter(filtered)
    steps = []
    for (text, before), called, metric in zip(lines, own, filtered, strict=True):
        found = re.match(WORD if is_planned(name) or HEAD.match(text) else rf"{WORD}\w+=\[", HEAD.sub("", text))
        word = found[1] if found else ""
        short = _short(called, HEAD.sub("", text), word)
        counts, sums = (_of(each, metric) if times[metric] == 1 else {} for each in (counters, totals or {}))
        steps.append(Step(HEAD.sub("", text), word, before, short, counts, sums))
    return tuple(steps)


def _of(counters: Mapping[str, float], metric: str) -> dict[str, float]:
    """Counters of one operator, by the name of the counter."""
    return {key: counters[f"{metric}.{key}"] for key in COUNTED if f"{metric}.{key}" in counters}


def _short(called: str, text: str, word: str) -> str:
    """Name of an operator in the twin: the table's of a source or sink of SQL, else the planner's word as YAML has it,
    where Flink's name has that word, or what Flink calls it."""
    plain = without_numbers(re.sub(r"^\[\d+\]:|\b([Ss]ource|[Ss]ink): |: (Writer|Committer)$", "", called))
    if not word or word not in plain:
        return plain_name(plain)
    table = re.search(TABLE, text)
    return table[1] if table and re.match(AT_TABLES, word) else re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", word).lower()


def plain_name(text: str) -> str:
    """Name of an operator from free text, of letters that names of operators may have."""
    plain = re.sub(r"\b(Source|[Ss]ink): ", "", text).replace(" -> ", "-").replace(": ", ".")
    letters = unicodedata.normalize("NFC", plain).replace(" ", "_")
    return re.sub(r"[^\w.-]+", "", letters).strip("-_.") or "vertex"


def once(names: Sequence[str], mark: str = "#") -> list[str]:
    """Names of which each is used once. Of equal ones the first stays; others get the mark and the first number from 2
    on that makes a new name, of which none is given."""
    found: list[str] = []
    taken, seen = set(names), set[str]()
    for name in names:
        new = name
        if name in seen:
            new = next(each for number in count(2) if (each := f"{name}{mark}{number}") not in taken)
        taken.add(new)
        seen.add(name)
        found.append(new)
    return found


# times, windows and gaps ---------------------------------------------------------------------------------------------
# SQL plans and the DataStream API write them in different ways.


TIME = r"\[([^\]]*)\]"
"""A time in the description of a SQL operator."""
ATTACHED = re.compile(r"\b(TUMBLE|HOP|CUMULATE|SESSION)\((?=[^)]*\bwin_(?:start|end)=)")
"""Windows of results of windows, which have their bounds as columns."""
INTERVALS = ("DAY", "HOUR", "MINUTE", "SECOND")
"""Units of intervals of time in SQL plans, or the first of two (`DAY TO SECOND`)."""


def window_in(text: str) -> dict[str, Any] | None:
    """Time window in a description; None if there is none.

    Results of windows that are put together by their bounds come when these windows end: those are tumbling windows, as
    long as the slide. A cumulating window is one that slides by its step.
    """
    if found := re.search(r"(?:Tumbling\w*TimeWindows\(|TumblingGroupWindow\([^,]*, [^,]*, )(\d+)", text):
        return {"policy": "time", "size_s": int(found[1]) / 1000}
    if found := re.search(r"(?:Sliding\w*TimeWindows\(|SlidingGroupWindow\([^,]*, [^,]*, )(\d+),\s*(\d+)", text):
        return {"policy": "time", "size_s": int(found[1]) / 1000, "slide_s": int(found[2]) / 1000}
    if found := re.search(rf"TUMBLE\(.*?size={TIME}", text):
        return {"policy": "time", "size_s": seconds_in(found[1])}
    slides = re.search(rf"(?:HOP|CUMULATE)\(.*?(?:max_)?size={TIME}.*?(?:slide|step)={TIME}", text)
    if slides is None:
        return None
    size_s, slide_s = seconds_in(slides[1]), seconds_in(slides[2])
    ends = ATTACHED.search(text) is not None
    return {"policy": "time", "size_s": slide_s} if ends else {"policy": "time", "size_s": size_s, "slide_s": slide_s}


def gap_s_in(text: str) -> float | None:
    """Gap (s) of the session windows in a description; None if there is none."""
    if found := re.search(r"(?:TimeSessionWindows\(|SessionGroupWindow\([^,]*, [^,]*, )(\d+)", text):
        return int(found.group(1)) / 1000
    if found := re.search(rf"SESSION\(.*?gap={TIME}", text):
        return seconds_in(found[1])
    return None


def watermark_delay_s(text: str) -> float | None:
    """Delay (s) of the watermarks that an operator of a SQL plan assigns; None if it assigns none.

    Plans write an interval of days to seconds as a number of milliseconds. Raises BadInput for another unit.
    """
    _, begins, rest = text.partition("watermark=[")
    if not begins:
        return None
    found = re.search(r"(\d+):INTERVAL (\w+)", _bracketed(rest))
    if found and found[2] not in INTERVALS:
        raise BadInput(f"a watermark is behind by an INTERVAL {found[2]}; known: {', '.join(INTERVALS)}")
    return int(found[1]) / 1000 if found else 0.0


def _bracketed(text: str) -> str:
    """Text up to the bracket that closes one before it."""
    depth = 1
    for at, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if depth == 0:
            return text[:at]
    return text


# keys ----------------------------------------------------------------------------------------------------------------


def keys_that_give(distinct: float, content: float, before: float = 0.0) -> float:
    """Number of keys, all alike, of which `content` random records have `distinct` ones on average that none of the
    `before` records ahead of them had.

    K (exp(-before / K) - exp(-(before + content) / K)) = distinct, by bisection over K; infinite where each record has
    a key of its own. The left side is the integral of exp(-x / K) over these records x, so it grows with K.
    """

    def given_by(keys: float) -> float:
        return -keys * math.exp(-before / keys) * math.expm1(-content / keys)

    if distinct >= content:
        return math.inf
    low, high = distinct, distinct
    while given_by(high) < distinct and high < 1e12:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if given_by(middle) < distinct else (low, middle)
    return high
