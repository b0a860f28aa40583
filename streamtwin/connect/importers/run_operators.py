"""Turns operators of a published run graph into the twin's."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import get_args

from streamtwin.connect.importers.run_records import OperatorRecord
from twin.errors import BadInput
from twin.key_skew import KeySkew
from twin.query import (
    Aggregate,
    AggregateFunction,
    AnyOperator,
    Columns,
    CountWindow,
    DataType,
    Filter,
    FilterFunction,
    Join,
    Source,
    TimeWindow,
)

TYPES: Mapping[str, DataType] = {"Integer": "int", "Double": "double", "String": "string", "Timestamp": "string"}
FILTERS: Mapping[str, FilterFunction] = {
    "lessThan": "<",
    "lessEquals": "<=",
    "greaterThan": ">",
    "greaterEquals": ">=",
    "notEquals": "!=",
    "startsWith": "startswith",
    "startsNotWith": "startswith",
    "contains": "startswith",  # the strings are one character long
    "endsWith": "endswith",
    "endsNotWith": "endswith",
}
AGGREGATES: Mapping[str, AggregateFunction] = {name: name for name in get_args(AggregateFunction)}
COUNT_POLICY: Mapping[str, bool] = {"count": True, "duration": False}

DIGITS = string.digits
CHARACTERS = string.ascii_letters + string.digits


def _skew(made: Iterable[int | float | str]) -> KeySkew:
    counts = Counter(made)
    alike = len(set(counts.values())) == 1
    return KeySkew(keys=tuple(counts), shares=() if alike else tuple(float(each) for each in counts.values()))


KEYS: Mapping[str, KeySkew] = {
    "String": _skew(character + digit for character in CHARACTERS for digit in DIGITS),
    "Integer": _skew(value * ord(digit) for value in range(-10, 11) for digit in DIGITS),
    "Double": _skew(value / 100 * ord(digit) for value in range(-5, 6) for digit in DIGITS),
    "Timestamp": _skew(first + second for first in DIGITS for second in DIGITS),
}
"""Keys that the generator of the published runs makes, by class (ZeroTune: DataTuple, AbstractQueryBuilder.getKey). A
key is the tuple's first value of the class combined with the last digit d of its time stamp: one of 62 characters
followed by d; an integer in -10..10, or hundredths in -0.05..0.05, times the character code of d (48..57). Without a
class, it is the last two digits of the time stamp. Digits and values are equally frequent; products are not."""
KEY_FIELDS: Mapping[str, str] = {"join": "joinKeyClass", "aggregate": "keyByClass"}
"""Field with the class of an operator's keys, by kind."""


def twin_operator(record: OperatorRecord, given_per_s: float) -> AnyOperator:
    """Operator of the twin; `given_per_s` is the input against which the output of a filter or join is read.

    Raises BadInput if an attribute is missing or unknown, or the ratio has no denominator.
    """
    return BUILDERS[record.kind](record, given_per_s)


def _source(record: OperatorRecord, _: float) -> Source:
    if not record.out_per_s > 0:
        raise BadInput(f"{record.fields.where}: no output was measured; a source needs a rate")
    return Source(name=record.name, columns=_columns(record))


def _filter(record: OperatorRecord, given_per_s: float) -> Filter:
    return Filter(
        name=record.name,
        selectivity=min(1.0, _ratio(record, given_per_s)),
        function=record.fields.choice("filterFunction", FILTERS),
        literal_type=record.fields.choice("filterClass", TYPES),
    )


def _join(record: OperatorRecord, given_per_s: float) -> Join:
    return Join(
        name=record.name,
        window=_window(record),
        key_type=record.fields.choice("joinKeyClass", TYPES),
        amplification=_ratio(record, given_per_s),
    )


def _aggregate(record: OperatorRecord, _: float) -> Aggregate:
    fields, window = record.fields, _window(record)
    # Flink's count windows hold one key each: one result a firing. Time windows of all keys fire together.
    return Aggregate(
        name=record.name,
        window=window,
        function=fields.choice("aggFunction", AGGREGATES),
        value_type=fields.choice("aggClass", TYPES),
        group_by=fields.choice("keyByClass", TYPES),
        groups=1 if window.policy == "count" else fields.choice("keyByClass", KEYS).key_count,
    )


BUILDERS: Mapping[str, Callable[[OperatorRecord, float], AnyOperator]] = {
    "source": _source,
    "filter": _filter,
    "join": _join,
    "aggregate": _aggregate,
}


def _ratio(record: OperatorRecord, given_per_s: float) -> float:
    if not given_per_s > 0:
        raise BadInput(f"{record.fields.where}: no input was measured, so its output per input is unknown")
    return record.out_per_s / given_per_s


def _columns(record: OperatorRecord) -> Columns:
    ints, doubles, strings = (
        int(record.fields.number(key, positive=False)) for key in ("numInteger", "numDouble", "numString")
    )
    return Columns(ints=ints, doubles=doubles, strings=strings + 1)  # each tuple also carries its time stamp, as text


def _window(record: OperatorRecord) -> CountWindow | TimeWindow:
    size, slide = (record.fields.number(key) for key in ("windowLength", "slidingLength"))
    if slide > size:
        raise BadInput(f"{record.fields.where}: slidingLength {slide:g} is longer than windowLength {size:g}")
    hops = None if slide == size else slide
    if record.fields.choice("windowPolicy", COUNT_POLICY):
        return CountWindow(size_tuples=int(size), slide_tuples=None if hops is None else int(hops))
    return TimeWindow(size_s=size / 1000, slide_s=None if hops is None else hops / 1000)
