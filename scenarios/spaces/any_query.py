"""Random queries of all kinds of operators that compose: what each of their fields draws, and how they are joined.

No kind is named here. An operator has the fields that the spec of its kind has, and each is drawn by its own name; what
a spec or the query refuses is drawn again. So a new kind takes part by itself, if the table has the fields that it asks
for. Times of windows, gaps and lives are shares of the run, and own service times multiples of what records cost, as
the length of a run and the work of users' functions are chosen when the rest of the job is known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol, get_args, get_origin

import numpy as np

from scenarios.spaces.draws import Between, OneOf
from scenarios.spaces.generator import log_uniform
from twin.deployment import steady_rates
from twin.guards.cautions import updated
from twin.kinds.registry import BY_KIND
from twin.kinds.rows import LASTING_S
from twin.query import AnyOperator, Query

# values --------------------------------------------------------------------------------------------------------------
# Values as they are drawn, before the length of the run is known.


LEAST_S = 1e-3
"""Seconds of which times within a run are whole multiples, so that the windows of a job have few panes."""


@dataclass(frozen=True, slots=True)
class OfRun:
    """Seconds as a share of the length of the run. times: how many such shares."""

    share: float
    times: int = 1

    def seconds(self, length_s: float) -> float:
        """Seconds in a run of that length; 0 or below only where the share is."""
        ticks = round(self.share * length_s / LEAST_S)
        return round(self.times * (max(ticks, 1) if self.share > 0.0 else ticks) * LEAST_S, 4)


@dataclass(frozen=True, slots=True)
class OfWork:
    """CPU seconds as a multiple of the work that a record takes."""

    times: float


def resolved(value: Any, length_s: float, work_s: float) -> Any:
    """A drawn value, with all that it holds, for a run of that length in which a record takes `work_s` of CPU."""
    match value:
        case OfRun():
            return value.seconds(length_s)
        case OfWork():
            return value.times * work_s
        case Mapping():
            return {name: resolved(each, length_s, work_s) for name, each in value.items()}
        case list() | tuple():
            return [resolved(each, length_s, work_s) for each in value]
    return value


class Drawing(Protocol):
    """Values that a field draws from."""

    def draw(self, rng: np.random.Generator) -> Any:
        """Draws a value."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Times between two shares of the run, of which magnitudes are equally likely; uniform if the lower is not above
    0."""

    low: float
    high: float

    def draw(self, rng: np.random.Generator) -> OfRun:
        """Draws a time."""
        above = self.low > 0.0
        return OfRun(log_uniform(rng, self.low, self.high) if above else float(rng.uniform(self.low, self.high)))


@dataclass(frozen=True, slots=True)
class Works:
    """CPU times between two multiples of the work of a record."""

    low: float
    high: float

    def draw(self, rng: np.random.Generator) -> OfWork:
        """Draws a time."""
        return OfWork(log_uniform(rng, self.low, self.high))


@dataclass(frozen=True, slots=True)
class Given:
    """Field that is given in a share `often` of the cases, or always where its spec asks for it. beside: fields that
    are then given, too."""

    values: Drawing
    often: float = 1.0
    beside: Mapping[str, Drawing] = field(default_factory=dict)


Table = Mapping[str, Given]
"""Fields by name."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Values that consist of fields."""

    table: Table

    def draw(self, rng: np.random.Generator) -> dict[str, Any]:
        """Draws the fields, of which some may be left out."""
        return dict(_fields(rng, self.table, frozenset()))


class Windows:
    """Windows of all forms: by time or by count, tumbling or sliding, over processing time or event time."""

    def draw(self, rng: np.random.Generator) -> dict[str, Any]:
        """Draws a window; its slide parts it evenly."""
        slides = int(rng.integers(1, 6)) if rng.random() < 0.5 else 1
        if rng.random() < 0.25:
            records = round(log_uniform(rng, 2, 60))
            return {"policy": "count", "size_records": slides * records, "slide_records": records}
        slide = log_uniform(rng, 3e-3, 5e-2)
        window = {"policy": "time", "size_s": OfRun(slide, slides), "slide_s": OfRun(slide)}
        if rng.random() < 0.4:
            return window
        late = {"allowed_lateness_s": OfRun(slide / 2)} if rng.random() < 0.2 else {}
        return {**window, "time": "event", **late}


class EventWindows:
    """One window over event time, or two."""

    def draw(self, rng: np.random.Generator) -> list[dict[str, Any]]:
        """Draws the windows, of which the second is three times as long as the first."""
        slides, slide = int(rng.integers(1, 4)), log_uniform(rng, 3e-3, 3e-2)
        windows = [{"length_s": OfRun(slide, slides), "every_s": OfRun(slide)}]
        return windows if rng.random() < 0.6 else [*windows, {"length_s": OfRun(slide, 3 * slides)}]


ANY_WORD = OneOf(())
"""All words that the spec of a field allows."""
DATA = {name: Given(Between(int(name == "ints"), 5, whole=True)) for name in ("ints", "strings", "doubles")}
RETRIES = {"max_attempts": Given(OneOf((1, 2, 3))), "delay_s": Given(Between(1e-3, 5e-2, log=True))}
FIELDS: Table = {
    # of all
    "service_time_s": Given(Works(0.2, 8.0), 0.35),
    **dict.fromkeys(("execute_time_s", "merge_time_s"), Given(Works(0.05, 2.0), 0.35)),
    "record_bytes": Given(Between(20, 2000, log=True), 0.15),
    "columns": Given(Parts(DATA), 0.5),
    "key_groups": Given(OneOf((16, 128)), 0.4),
    "keys": Given(Between(10, 100_000, log=True, whole=True)),
    "state_bytes_per_key": Given(Between(20, 2000, log=True), 0.4),
    "state_bytes_per_group": Given(Between(100, 100_000, log=True), 0.1),
    "time": Given(ANY_WORD, 0.9),
    "ttl_s": Given(Shares(0.05, 0.5), 0.5),
    **dict.fromkeys(("key_type", "function", "literal_type", "value_type", "group_by"), Given(ANY_WORD, 0.8)),
    # of sources
    "disorder_s": Given(Shares(1e-4, 1e-2), 0.3),
    "slack_s": Given(Shares(1e-4, 1e-2), 0.4),
    "watermark_interval_s": Given(Shares(1e-3, 2e-2), 0.2),
    "idle_s": Given(Shares(0.02, 0.1), 0.3),
    "partitions": Given(OneOf((8, 12, 16, 24))),
    # of what passes records on
    "selectivity": Given(Between(0.1, 3.0, log=True), 0.6),
    "amplification": Given(Between(0.05, 2.0, log=True), 0.4),
    "latency_s": Given(Between(1e-3, 3e-2, log=True)),
    "latency_scv": Given(Between(0.05, 2.0, log=True), 0.5),
    "capacity": Given(Between(8, 200, log=True, whole=True), 0.8),
    "ordered": Given(OneOf((False, True))),
    "rate_per_s": Given(Between(2e3, 5e4, log=True), 0.2),
    "hit_ratio": Given(Between(0.3, 0.99)),
    "hit_latency_s": Given(Between(1e-5, 1e-3, log=True), 0.3),
    "timeout_s": Given(Between(0.05, 1.0, log=True), 0.2, {"on_timeout": OneOf(("drop",))}),
    "failure_share": Given(
        Between(1e-3, 0.05, log=True), 0.2, {"on_failure": OneOf(("drop",)), "retry": Parts(RETRIES)}
    ),
    # of windows, and of what keeps rows
    "window": Given(Windows()),
    "windows": Given(EventWindows()),
    "results_per_key": Given(Between(0.02, 2.0, log=True), 0.5),
    "groups": Given(Between(2, 2000, log=True, whole=True), 0.8),
    "window_state": Given(ANY_WORD, 0.2),
    "gap_s": Given(Shares(1e-3, 3e-2)),
    "lower_s": Given(Shares(-2e-2, 0.0)),
    "upper_s": Given(Shares(1e-3, 3e-2)),
    "mini_batch_s": Given(Shares(1e-3, 2e-2), 0.4),
    "rows": Given(Between(2, 50, log=True, whole=True), 0.5),
    "range_s": Given(Shares(1e-3, 2e-2), 0.5),
    "n": Given(Between(1, 20, log=True, whole=True)),
    **dict.fromkeys(("keep", "changelog", "type"), Given(ANY_WORD, 0.7)),
    "row_number": Given(OneOf((False, True))),
    "changing": Given(Between(0.05, 1.0, log=True), 0.3),
}
"""What fields draw, whatever the kind. Phases of aggregates come in pairs and are not drawn."""
SIDES = ("left", "right", "side")
"""Fields that name an input, of operators that take two."""
PIECE = "partial_s"
"""Field with the length of partial results, of operators that may hand over such."""
OF_ONE_KEY = ("keys", "key_groups")
"""Fields that what merges partial results has in common with what hands them over."""
BY_CONSUMER = "shares"
"""Field that says what share each consumer gets."""

# kinds ---------------------------------------------------------------------------------------------------------------


def _asked(kind: type[AnyOperator]) -> set[str]:
    """Fields that the spec of a kind asks for, but for its name and its inputs and outputs."""
    needed = {name for name, each in kind.model_fields.items() if each.is_required()}
    return needed - {"name", BY_CONSUMER, *SIDES}


DRAWN_KINDS: tuple[str, ...] = tuple(name for name, kind in BY_KIND.items() if _asked(kind) <= FIELDS.keys())
"""Kinds that queries draw."""


def _pairs(kind: str) -> bool:
    """Whether operators of a kind take two inputs that differ."""
    return BY_KIND[kind].joins or SIDES[-1] in BY_KIND[kind].model_fields


BEGINS = tuple(name for name in DRAWN_KINDS if BY_KIND[name].is_source)
ENDS = tuple(name for name in DRAWN_KINDS if BY_KIND[name].is_sink)
PAIRING = tuple(name for name in DRAWN_KINDS if _pairs(name))
PASSING = tuple(name for name in DRAWN_KINDS if name not in {*BEGINS, *ENDS, *PAIRING})
"""Kinds of sources, of sinks, those that take two inputs, and all others."""
ALONE = tuple(name for name in PASSING if not BY_KIND[name].merges)
"""Kinds of PASSING that come without another operator."""
IN_PARTS = tuple(name for name in PASSING if PIECE in BY_KIND[name].model_fields)
"""Kinds that may hand over partial results, which come before those that merge them."""


def _fields(rng: np.random.Generator, table: Table, asked: Collection[str]) -> Iterator[tuple[str, Any]]:
    for name, given in table.items():
        if name in asked or given.often >= 1.0 or rng.random() < given.often:
            yield name, given.values.draw(rng)
            yield from ((other, values.draw(rng)) for other, values in given.beside.items())


def _words(annotation: Any) -> tuple[Any, ...]:
    """Words of the first `Literal` in an annotation."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return next(filter(None, map(_words, get_args(annotation))), ())


def _operator(rng: np.random.Generator, kind: str, name: str, sides: Sequence[str] = ()) -> dict[str, Any]:
    """Draws an operator of a kind, which its spec may refuse. sides: names of its inputs."""
    spec = BY_KIND[kind].model_fields
    table: dict[str, Given] = {}
    for key, given in FIELDS.items():
        if key in spec:
            values = OneOf(_words(spec[key].annotation)) if given.values is ANY_WORD else given.values
            table[key] = replace(given, values=values)
    found = {"kind": kind, "name": name, **dict(_fields(rng, table, _asked(BY_KIND[kind])))}
    named = [key for key in SIDES if key in spec]
    found |= dict(zip(named, rng.permutation(list(sides)).tolist(), strict=False))
    if BY_CONSUMER in spec:
        first = float(rng.uniform(0.2, 0.8))
        found[BY_CONSUMER] = [first, float(rng.uniform(0.5, 1.0)) * (1.0 - first)]
    return found


# queries -------------------------------------------------------------------------------------------------------------


TRIES = 12
"""Draws of a step of a query, of which the first that is valid is taken; if none is, the query is a step shorter."""
MOST_GAIN = 2.0
"""Most records that an operator sends, over those of all sources together."""
FEWEST = 10.0
"""Fewest records of an operator in a run, so that results come."""
MOST_SINKS = 3
"""Most sinks, but for those that two ways from one operator need."""
PAIRED, UNITED, PARTED = 0.5, 0.12, 0.12
"""Shares of the steps that join two loose ends, where there are two; that take two without a join; and of operators
whose results go two ways."""
FORWARD, RESCALED = 0.5, 0.08
"""Shares of the streams to operators without keys that are forwarded, so that their ends may be chained, and that go to
a part of the subtasks."""


@dataclass(frozen=True, slots=True)
class WrittenQuery:
    """Query as it is drawn. operators, streams: by their fields. loose: names of operators whose results go nowhere
    yet, once for each way that is to come."""

    operators: tuple[Mapping[str, Any], ...] = ()
    streams: tuple[Mapping[str, Any], ...] = ()
    loose: tuple[str, ...] = ()

    def query(self, length_s: float, work_s: float) -> Query:
        """The query in a run of that length, in which a record takes `work_s` of CPU. Raises ValueError if it is not
        valid."""
        operators = [
            {name: value for name, value in each.items() if name != BY_CONSUMER} | self._parts(each)
            for each in self.operators
        ]
        read = {"operators": resolved(operators, length_s, work_s), "streams": [dict(each) for each in self.streams]}
        return Query.model_validate(read)

    def _parts(self, operator: Mapping[str, Any]) -> dict[str, Any]:
        """Shares of the consumers of an operator that has such."""
        if BY_CONSUMER not in operator:
            return {}
        consumers = [each["consumer"] for each in self.streams if each["producer"] == operator["name"]]
        return {BY_CONSUMER: dict(zip(consumers, operator[BY_CONSUMER], strict=False))}

    def followed(self, operator: Mapping[str, Any], producers: Sequence[str], ways: int) -> WrittenQuery:
        """The query with an operator behind loose ends. ways: how many loose ends it leaves."""
        loose = list(self.loose)
        for name in producers:
            loose.remove(name)
        streams = [{"producer": name, "consumer": operator["name"]} for name in producers]
        ends = (*loose, *(str(operator["name"]),) * ways)
        return WrittenQuery((*self.operators, operator), (*self.streams, *streams), ends)


Step = Callable[[WrittenQuery], WrittenQuery]


def any_query(rng: np.random.Generator, shares: Mapping[str, float], operators: int, records: float) -> WrittenQuery:
    """Draws a query of about so many operators: at least its sources and one to MOST_SINKS sinks.

    shares: by name of a source, its share of all records. records: of all sources in a run, for which the query is
    made: no operator sends more than MOST_GAIN times as many, nor fewer than FEWEST.
    """
    written = WrittenQuery()
    for name in shares:
        written = _first_valid(rng, written, shares, records, partial(_begun, rng, name)) or written
    for number in range(operators - len(shares) - MOST_SINKS):
        room = operators - MOST_SINKS - len(written.operators)
        if room < 1:
            break
        alone = PASSING if room > 1 else ALONE
        kinds = PAIRING if rng.random() < (PAIRED if len(set(written.loose)) > 1 else PAIRED / 4) else alone
        kind = str(rng.choice(kinds))  # of all tries, or kinds that are seldom valid were rare
        step = partial(_longer, rng, f"operator-{number}", kind)
        written = _first_valid(rng, written, shares, records, step) or written
    ended = _first_valid(rng, written, shares, records, partial(_ended, rng))
    return _streamed(rng, ended or _ended_plainly(written))


def _begun(rng: np.random.Generator, name: str, now: WrittenQuery) -> WrittenQuery:
    return now.followed(_operator(rng, str(rng.choice(BEGINS)), name), (), 1)


def _longer(rng: np.random.Generator, name: str, kind: str, now: WrittenQuery) -> WrittenQuery:
    """The query with one more operator, which may not be valid. Loose ends are joined more often than they are parted,
    and where there is one alone, any operator may be the other side of a join."""
    ends = list(dict.fromkeys(now.loose))
    others = [str(each["name"]) for each in now.operators if BY_CONSUMER not in each and each["name"] not in ends]
    wanted = 2 if kind in PAIRING or (len(ends) > 1 and rng.random() < UNITED) else 1
    producers = [str(each) for each in rng.permutation(ends)[:wanted]]
    if len(producers) < wanted and others:
        producers.append(str(rng.choice(others)))
        now = WrittenQuery(now.operators, now.streams, (*now.loose, producers[-1]))
    operator = _operator(rng, kind, name, producers)
    if BY_KIND[kind].merges:
        parts = _in_parts(rng, f"{name}-parts", operator)
        now, producers = now.followed(parts, producers, 1), [str(parts["name"])]
    return now.followed(operator, producers, 2 if BY_CONSUMER in operator or rng.random() < PARTED else 1)


def _in_parts(rng: np.random.Generator, name: str, merging: Mapping[str, Any]) -> dict[str, Any]:
    """Draws an operator whose partial results `merging` merges; it may not be valid."""
    drawn = _operator(rng, str(rng.choice(IN_PARTS)), name)
    own = {field: value for field, value in drawn.items() if field not in {"windows", *OF_ONE_KEY}}
    alike = {field: merging[field] for field in OF_ONE_KEY if field in merging}
    return {**own, **alike, PIECE: merging["windows"][0]["every_s"]}


def _ended(rng: np.random.Generator, now: WrittenQuery) -> WrittenQuery:
    """The query with sinks at all loose ends; each way from an operator has its own."""
    most = int(rng.integers(1, MOST_SINKS + 1))
    ways: list[list[str]] = []
    for name in now.loose:
        free = [each for each in ways if name not in each]
        if free and (len(ways) >= most or rng.random() < 0.5):
            free[int(rng.integers(len(free)))].append(name)
        else:
            ways.append([name])
    for number, names in enumerate(ways):
        now = now.followed(_operator(rng, str(rng.choice(ENDS)), f"sink-{number}"), names, 0)
    return now


def _ended_plainly(now: WrittenQuery) -> WrittenQuery:
    """The query with sinks that anything may go to."""
    kind = next(name for name in ENDS if not _asked(BY_KIND[name]) and BY_KIND[name].costs_like == "")
    for number in range(max(map(now.loose.count, now.loose), default=0)):
        now = now.followed({"kind": kind, "name": f"sink-{number}"}, [*dict.fromkeys(now.loose)], 0)
    return now


def _first_valid(
    rng: np.random.Generator, now: WrittenQuery, shares: Mapping[str, float], records: float, step: Step
) -> WrittenQuery | None:
    """The query after the first draw of a step that is valid; None if none is."""
    for _ in range(TRIES):
        found = _fitted(rng, step(now), shares, records)
        if found is not None:
            return found
    return None


def _fitted(
    rng: np.random.Generator, written: WrittenQuery, shares: Mapping[str, float], records: float
) -> WrittenQuery | None:
    """The query if it is valid and sends neither too much nor too little; a share of matches that sends too much is
    lowered. What Flink would refuse, as it takes changes of rows for new ones, is not valid."""
    closed = _ended_plainly(written)
    try:
        query = closed.query(LASTING_S, 0.0)
    except ValueError:
        return None
    if next(updated(query), None) is not None:
        return None
    last = written.operators[-1]
    operator = query.operator(str(last["name"]))
    if operator.is_sink:
        return written
    per_s = {name: share * records / LASTING_S for name, share in shares.items()}
    sent = steady_rates(query, per_s)[operator.name].out_per_s
    most = MOST_GAIN * records / LASTING_S
    if sent > most and operator.lowered(0.5) != operator:
        lowered = {**last, "selectivity": last["selectivity"] * log_uniform(rng, 0.02, 0.5) * most / sent}
        lower = replace(written, operators=(*written.operators[:-1], lowered))
        return _fitted(rng, lower, shares, records)
    return written if FEWEST / LASTING_S <= sent <= most else None


def _streamed(rng: np.random.Generator, written: WrittenQuery) -> WrittenQuery:
    """The query with partitionings of some streams to operators without keys; others have the usual one."""
    query = written.query(LASTING_S, 0.0)
    drawn = rng.random(len(written.streams))
    streams = []
    for stream, chance in zip(written.streams, drawn, strict=True):
        consumer = query.operator(stream["consumer"])
        free = not (consumer.keyed or consumer.joins or consumer.needs_event_time)
        way = "forward" if chance < FORWARD else "rescale" if chance < FORWARD + RESCALED else None
        streams.append({**stream, "partitioning": way} if free and way else stream)
    return WrittenQuery(written.operators, tuple(streams), written.loose)
