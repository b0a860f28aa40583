"""What flows through an operator: columns of records, rates of its inputs and results, and ages of records in windows.

For the laws of all kinds, which are computed from these for many plans at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from twin.spec import Spec
from twin.windows import US_PER_S, EventWindow, Window

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
"""Nodes and weights of Gauss and Legendre, on -1 to 1."""

# columns of records --------------------------------------------------------------------------------------------------


DataType = Literal["int", "string", "double"]


Count = Annotated[int, Field(ge=0, le=10**9)]


class Columns(Spec):
    """Number of values of each data type in a record. `width` is the number of all (Costream, Table I)."""

    ints: Count = 0
    strings: Count = 0
    doubles: Count = 0

    @classmethod
    def one(cls, data_type: DataType) -> Columns:
        """Columns of a single value."""
        return cls(**{f"{data_type}s": 1})

    def count(self, data_type: DataType) -> int:
        """Number of values of one type."""
        return int(getattr(self, f"{data_type}s"))

    @property
    def width(self) -> int:
        """Number of values in a record."""
        return self.ints + self.strings + self.doubles

    def __add__(self, other: Columns) -> Columns:
        return Columns(
            ints=self.ints + other.ints, strings=self.strings + other.strings, doubles=self.doubles + other.doubles
        )


def joined_columns(inputs: Sequence[Columns], key_type: DataType) -> Columns:
    """Columns of all inputs, with one copy of the key on which they are joined."""
    joined = sum(inputs[1:], inputs[0])
    kept = max(0, joined.count(key_type) - (len(inputs) - 1))
    return joined.model_copy(update={f"{key_type}s": kept})


# rates ---------------------------------------------------------------------------------------------------------------
# A window's results depend on how its records are spread over distinct groups, and on how inputs are mixed.


NEWTON_STEPS = 200
"""Most steps; each but the last few adds as many records as a rare group needs to come once."""


class KeySpread(NamedTuple):
    """Frequencies of distinct groups, in K strata of equally frequent ones. shares: of the input, by stratum; values:
    number of groups, by stratum.

    places: number of subtasks that take a group's records, if there are as many, and emit results of it: 1 if records
    are dealt by key, 2 with two choices, all (inf) if they are dealt otherwise or have no group.
    """

    shares: np.ndarray
    values: np.ndarray
    places: float = 1.0

    def distinct(self, content: np.ndarray, parallelism: np.ndarray | float, *, exactly: bool = False) -> np.ndarray:
        """Expected results of one evaluation: groups of which a window has a record, on each subtask that takes them.
        [N]

        content: number of records; exactly so many in a count window, of which each subtask has its own; else the mean
        of a Poisson number, as in a time window, whose subtasks count together.
        """
        return np.asarray(self.by_stratum(content, parallelism, exactly=exactly).sum(axis=0))

    def by_stratum(self, content: np.ndarray, parallelism: np.ndarray | float, *, exactly: bool = False) -> np.ndarray:
        """Expected results of one evaluation, by stratum (see `distinct`). [K, N]"""
        values = self.values[:, None] * np.minimum(np.atleast_1d(parallelism), self.places)
        each = self.shares[:, None] / values  # probability of a group
        if not exactly:
            return np.asarray(-values * np.expm1(-np.asarray(content)[None] * each))
        own = values / parallelism
        with np.errstate(divide="ignore", invalid="ignore"):  # log 0 of a subtask's only group, times 0 records
            several = -own * np.expm1(content * np.log1p(-np.minimum(each * parallelism, 1.0)))
        return np.asarray(np.where(np.asarray(content)[None] > 0, several, 0.0))

    def content(self, distinct: np.ndarray) -> np.ndarray:
        """Mean number of records in a time window whose expected groups are so many: what makes `distinct` that, with
        each group on one subtask. [N]

        Newton's method rises to it from below, from the number that would do if groups were equally frequent.
        """
        number = self.values.sum()
        sought = np.minimum(distinct, number * (1.0 - 1e-12))
        found = -np.log1p(-sought / number) * number
        each = (self.shares / self.values)[:, None]
        for _ in range(NEWTON_STEPS):
            missed = self.values[:, None] * np.exp(-found[None] * each)
            step = (sought - number + missed.sum(axis=0)) / np.maximum((missed * each).sum(axis=0), 1e-300)
            found = found + np.maximum(step, 0.0)
            if not (step > 1e-9 * found).any():
                break
        return np.asarray(found)


@dataclass(frozen=True, slots=True)
class OperatorRates:
    """Expected flow through one operator (all subtasks together), in steady state.

    in_per_s: records taken in, all inputs together (a source: arrivals at its broker). out_per_s: records emitted,
    counted once however many consumers there are. The rest is 0 for operators without a window: window_records: content
    at an evaluation, all sides of a join. fires_per_s: evaluations a second. groups_per_fire: distinct groups in the
    content (aggregates; 1 without group-by). state_records: records held at the fullest moment, the evaluation.
    """

    in_per_s: float
    out_per_s: float
    window_records: float = 0.0
    fires_per_s: float = 0.0
    groups_per_fire: float = 0.0
    state_records: float = 0.0


class Flow(NamedTuple):
    """`OperatorRates` as arrays, one entry per set of source rates [N]; inputs_per_s has one array per input stream.

    bursts_per_s: how often the output comes, all at once, as window evaluations emit it; inf if it is spread evenly.
    burst_s: seconds over which a burst is spread, as operators on its way work it off record by record.
    """

    inputs_per_s: tuple[np.ndarray, ...]
    in_per_s: np.ndarray
    out_per_s: np.ndarray
    window_records: np.ndarray
    fires_per_s: np.ndarray
    groups_per_fire: np.ndarray
    bursts_per_s: np.ndarray
    burst_s: np.ndarray


class Mixing(NamedTuple):
    """Mixing of an operator's inputs, and their way to its subtasks.

    by_chance: whether the side of each record in a count window is random, so that some of all pairs in it are of a
    record with itself. burst_s: seconds over which the longest burst comes. services_s: CPU seconds a record, by input;
    empty: 0. passed: the operator's `passed_from`, by input; empty if unknown. parallelism: subtasks of the operator,
    each with a count window of its own. whole: whether each subtask gets all of an input, by input; empty: of none.
    pieces_s: length of the partial results of an input, by input. spread: of keys that are not equally frequent.
    sets_per_s: evaluations a second of all subtasks of a producer, by input; empty if unknown. copies_per_s: pairs a
    second of copies of one record that come by the two inputs of a join. The others are those of
    `twin.deployment.Channels`.
    """

    by_chance: bool = False
    credits: float = np.inf
    services_s: tuple[float, ...] = ()
    stalls_s: np.ndarray | None = None
    horizon_s: float = np.inf
    burst_s: np.ndarray | float = 0.0
    passed: tuple[float, ...] = ()
    parallelism: np.ndarray | float = 1.0
    whole: tuple[bool, ...] = ()
    pieces_s: tuple[float, ...] = ()
    spread: KeySpread | None = None
    sets_per_s: tuple[np.ndarray, ...] = ()
    copies_per_s: np.ndarray | float = 0.0

    def arriving(
        self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Records a second and bursts a second of all inputs together, and the seconds that a burst takes: at least the
        operator's work on it. [N] each"""
        total = np.sum(inputs, axis=0)
        together = np.sum(bursts, axis=0)
        none = np.zeros_like(total)
        busy = sum((rate * each_s for rate, each_s in zip(inputs, self.services_s, strict=False)), start=none)
        each_s = np.divide(busy, together, out=np.zeros_like(total), where=together > 0)
        return total, together, np.maximum(each_s, self.burst_s)


MIXED = Mixing()
"""Mixing of inputs in Costream's definitions."""


# ages of records in windows ------------------------------------------------------------------------------------------


class Disorder(NamedTuple):
    """Disorder of event times: they lie up to disorder_s before arrival, evenly, and sources wait slack_s for late
    ones, and announce it every `every_s`; 0: at once. A source that reads nothing for idle_s is not waited for. In an
    operator's input, slack_s is how much later than its records the watermark that they wait for comes, as an array.
    [N]"""

    disorder_s: float = 0.0
    slack_s: float | np.ndarray = 0.0
    every_s: float = 0.0
    idle_s: float = np.inf


IN_ORDER = Disorder()


class HeldRecords(NamedTuple):
    """Input of an operator and content of its window: records a second, records, distinct groups. [N] each

    With count windows, that is the input of each subtask. Over event time: piece_s: the length of the partial results
    that come, 0 for none; disorder: of the records that sources read. bursts_per_s: how often the input comes, all at
    once, as results of a window do; inf or None if it is spread evenly. by_input: records a second of each input [K,
    N]; None if there is one.
    """

    in_per_s: np.ndarray
    window_records: np.ndarray
    groups: np.ndarray
    piece_s: float = 0.0
    disorder: Disorder = IN_ORDER
    bursts_per_s: np.ndarray | None = None
    by_input: np.ndarray | None = None


def group_age_s(window: Window, held: HeldRecords) -> np.ndarray:
    """Mean age, since its arrival, of the oldest record of a group; if nothing comes, its limit as rates go to 0. [N]

    In a time window a group has a Poisson number of records, at least one, of mean m. They come evenly, or in bursts
    that begin with the window: with one burst a window, all records are as old as the window is long.
    """
    content = held.window_records if window.policy == "time" else window.size  # a count window is full when evaluated
    of_group = content / np.maximum(held.groups, 1e-12)
    if window.policy == "time":
        mean = poisson_mean(of_group)
        some = -np.expm1(-mean)
        if held.bursts_per_s is None:
            return np.asarray(window.size * (1.0 / some - 1.0 / mean))
        apart = 1.0 / np.maximum(held.bursts_per_s * window.size, 1.0)
        gaps = np.where(apart * mean > 1e-6, np.expm1(np.minimum(apart * mean, 700.0)) / np.maximum(apart, 1e-12), mean)
        return np.asarray(window.size * (1.0 / some - 1.0 / gaps))
    taken = np.maximum(held.in_per_s, 1e-12)
    return np.asarray((of_group * (content + 1.0) / (of_group + 1.0) - 1.0) / taken)


def older_by_input_s(window: Window, arriving: np.ndarray, mixed: np.ndarray, held: HeldRecords) -> np.ndarray:
    """Age that the oldest record of a group has more because inputs come at different ages, in seconds. [N]

    arriving: ages by input [K, N]; mixed: their mean [N]. Of a Poisson number of records, at least one, P(oldest <= x)
    is a constant plus exp(-m(x)), where m(x), the mean number of those older than x, is linear between the ages at
    which inputs come and those at which they leave the window.
    """
    if held.by_input is None:
        return np.zeros_like(mixed)
    size_s = length_s(window, np.maximum(held.in_per_s, 1e-12))[0]
    mean = poisson_mean(held.window_records / np.maximum(held.groups, 1e-12))
    mean_kn = mean * held.by_input / np.maximum(held.by_input.sum(axis=0), 1e-12)
    ages_s = np.sort(np.concatenate([arriving, arriving + size_s]), axis=0)
    older = np.stack(
        [(mean_kn * np.clip((arriving + size_s - each_s) / size_s, 0.0, 1.0)).sum(axis=0) for each_s in ages_s]
    )
    fewer, lasts_s = older[:-1] - older[1:], np.diff(ages_s, axis=0)
    none = np.exp(-older[1:]) * np.where(fewer > 1e-9, -np.expm1(-fewer) / np.maximum(fewer, 1e-9), 1.0)
    some = -np.expm1(-mean)
    age_s = ages_s[0] + (lasts_s * (1.0 - none)).sum(axis=0) / some
    return np.asarray(age_s - mixed - size_s * (1.0 / some - 1.0 / mean))


def poisson_mean(above_none: np.ndarray) -> np.ndarray:
    """Mean m of a Poisson number whose mean is `above_none` given that it is not 0: solves m / (1 - exp(-m)) =
    above_none by Newton's method, from above."""
    mean = np.maximum(np.minimum(above_none, 2.0 * (above_none - 1.0)), 1e-6)
    for _ in range(6):
        none = np.exp(-mean)
        step = (mean - above_none * (1.0 - none)) / np.maximum(1.0 - above_none * none, 1e-9)
        mean = np.maximum(mean - step, 1e-6)
    return np.asarray(mean)


def oldest_s(arriving: list[np.ndarray], size_s: np.ndarray) -> np.ndarray:
    """Mean age of the oldest of records, one of each side, that are 0 to `size_s` older than on arrival. [3, N]"""
    older = np.max(arriving, axis=0)
    if len(arriving) == 2:
        apart = np.abs(arriving[0] - arriving[1])
        return np.asarray(older + size_s / 2.0 + np.maximum(size_s - apart, 0.0) ** 3 / (6.0 * size_s**2))
    ages = older
    for node, weight in zip(NODES, WEIGHTS, strict=True):  # integral of P(some record is older)
        beyond = size_s * (1.0 + node) / 2.0
        below = [np.clip((older - age + beyond) / size_s, 0.0, 1.0) for age in arriving]
        ages = ages + weight / 2.0 * size_s * (1.0 - np.prod(below, axis=0))
    return np.asarray(ages)


def length_s(window: Window, in_per_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Size and slide of a window in seconds, at that input rate. [N] each"""
    if window.policy == "time":
        return np.full_like(in_per_s, window.size), np.full_like(in_per_s, window.slide)
    return window.size / in_per_s, window.slide / in_per_s


def start_s(window: Window, slide_s: np.ndarray) -> np.ndarray:
    """Seconds until the first results: the length of a tumbling time window, or half a slide of others. [N]"""
    return slide_s if window.policy == "time" and window.tumbling else slide_s / 2.0


def event_ages_s(
    windows: Sequence[EventWindow], records_per_key: Sequence[np.ndarray], disorder: Disorder = IN_ORDER
) -> np.ndarray:
    """Age that windows over event time add to their results, with rows as in `twin.rates.latency`. [3, N]

    records_per_key: mean number of records of a key in a window, by window; the number is Poisson, and a result needs
    one. A result leaves once sources have waited, and is as old as the first of its records to come, which may be late
    itself.
    """
    parts, weights = list[np.ndarray](), list[np.ndarray]()
    for window, mean in zip(windows, np.maximum(records_per_key, 1e-6), strict=True):
        size_s, every_s = window.length_us / US_PER_S, window.every_us / US_PER_S
        some = -np.expm1(-mean)
        age_s = size_s + disorder.slack_s - _first_s(size_s, disorder.disorder_s, mean, some)
        begins_s = (every_s if size_s == every_s else every_s / 2.0) + disorder.slack_s
        parts.append(np.stack(np.broadcast_arrays(age_s, age_s, begins_s)))
        weights.append(some / every_s)
    return np.asarray(sum(part * weight for part, weight in zip(parts, weights, strict=True)) / sum(weights))


def _first_s(size_s: float, disorder_s: float, mean: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Mean time from a window's beginning to the first of its records, a Poisson number that is at least one. [N]

    mean: of the number of records; some: the probability of one at least. Without disorder, records come evenly: the
    integral of (exp(-mean x) - exp(-mean)) / some. Else they come at sums of two uniform times, and the integral is
    taken piece by piece.
    """
    if disorder_s == 0.0:
        return np.asarray(size_s * (some / mean - np.exp(-mean)) / some)
    short_s, long_s = sorted((size_s, disorder_s))
    found = np.zeros_like(mean)
    for since_s, until_s in ((0.0, short_s), (short_s, long_s), (long_s, short_s + long_s)):
        for node, weight in zip(NODES, WEIGHTS, strict=True):
            at_s = since_s + (until_s - since_s) * (1.0 + node) / 2.0
            share = _sum_of_two(at_s, short_s, long_s)
            found = found + weight / 2.0 * (until_s - since_s) * (np.exp(-mean * share) - np.exp(-mean)) / some
    return found


def _sum_of_two(at_s: float, short_s: float, long_s: float) -> float:
    """Distribution function, at `at_s`, of the sum of two times, uniform from 0 to short_s and from 0 to long_s."""
    if at_s <= short_s:
        return at_s**2 / (2.0 * short_s * long_s)
    if at_s <= long_s:
        return (at_s - short_s / 2.0) / long_s
    return 1.0 - (short_s + long_s - at_s) ** 2 / (2.0 * short_s * long_s)
