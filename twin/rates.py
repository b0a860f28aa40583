"""Steady-state rates of a query, without simulation: what flows where when nothing is saturated.

The expectations follow Costream, Definitions 6-8. Everything is elementwise, so one call can follow a single set of
source rates or thousands of them (one a plan).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from twin.query import Aggregate, AnyOperator, Filter, Join, Map, Query, Window
from twin.workload import ArrivalLaw


@dataclass(frozen=True, slots=True)
class OperatorRates:
    """Expected flow through one operator (all replicas together), in steady state.

    in_per_s: tuples taken in, all inputs together (a source: what arrives at its broker). out_per_s: tuples emitted,
    counted once however many consumers there are. The rest is 0 for operators without a window:
    window_tuples: content at an evaluation, all sides of a join. fires_per_s: evaluations.
    groups_per_fire: distinct groups in the content (aggregates; 1 without group-by). state_tuples: tuples held at the
    fullest moment, which is the evaluation.
    """

    in_per_s: float
    out_per_s: float
    window_tuples: float = 0.0
    fires_per_s: float = 0.0
    groups_per_fire: float = 0.0
    state_tuples: float = 0.0


class Flow(NamedTuple):
    """`OperatorRates` as arrays, one entry a set of source rates; inputs_per_s has one array an input stream.

    bursts_per_s: how often the output comes, all at once, as window evaluations emit it; inf if it is spread evenly.
    """

    inputs_per_s: tuple[np.ndarray, ...]
    in_per_s: np.ndarray
    out_per_s: np.ndarray
    window_tuples: np.ndarray
    fires_per_s: np.ndarray
    groups_per_fire: np.ndarray
    bursts_per_s: np.ndarray


def nominal_rates(query: Query, arrivals: Mapping[str, ArrivalLaw]) -> dict[str, OperatorRates]:
    """The rates of every operator if all sources keep up with their arrivals (`workload.arrivals`).

    Raises KeyError if a source has no arrival law.
    """
    return steady_rates(query, {source.name: arrivals[source.name].mean_rate_per_s for source in query.sources})


def steady_rates(query: Query, source_rate_per_s: Mapping[str, float]) -> dict[str, OperatorRates]:
    """The rates of every operator for given ingestion rates of the sources. Raises KeyError if one is missing."""
    arrays = {name: np.array([float(rate)]) for name, rate in source_rate_per_s.items()}
    return {
        name: OperatorRates(
            in_per_s=float(flow.in_per_s[0]),
            out_per_s=float(flow.out_per_s[0]),
            window_tuples=float(flow.window_tuples[0]),
            fires_per_s=float(flow.fires_per_s[0]),
            groups_per_fire=float(flow.groups_per_fire[0]),
            state_tuples=float(flow.window_tuples[0]),
        )
        for name, flow in flows(query, arrays).items()
    }


class Channels(NamedTuple):
    """What channels of few credits do to bursts.

    A burst beyond the credits leaves at the pace of the consumer. service_s: by operator, CPU seconds of an input tuple.
    stalls_s: by join whose own bursts keep it blocked for longer than the time between evaluations, the time that an
    input tuple takes it; 0 under plans where it is not so, [N]. horizon_s: length of the run.
    """

    credits: float
    service_s: Mapping[str, float]
    stalls_s: Mapping[str, np.ndarray] = {}
    horizon_s: float = np.inf


class Mixing(NamedTuple):
    """How the sides of a join mix.

    fewer: share of all pairs in a count window that are of a tuple with itself. The others: as in `Channels`.
    """

    fewer: float = 0.0
    credits: float = np.inf
    service_s: float = 0.0
    stalls_s: np.ndarray | None = None
    horizon_s: float = np.inf


MIXED = Mixing()
"""As Costream defines it."""


def flows(
    query: Query, source_rate_per_s: Mapping[str, np.ndarray], bursts: bool = False, channels: Channels | None = None
) -> dict[str, Flow]:
    """The flow through every operator, in data-flow order. Raises KeyError if a source's rates are missing.

    bursts: take into account that windows emit their results all at once: a short time window after another window is
    then often empty, and a short count window of a join sees one side only, but for what `channels` spread; and that
    the sides of a count window are random. Else all streams count as well mixed, and a count window of a join holds
    its mean of either side (Costream, Definition 8).
    """
    found: dict[str, Flow] = {}
    for operator in query.topological:
        producers = [stream.producer for stream in query.inputs(operator.name)]
        inputs = tuple(found[name].out_per_s for name in producers) or (source_rate_per_s[operator.name],)
        coming = [found[name].bursts_per_s for name in producers] if bursts else []
        never = [np.full_like(inputs[0], np.inf)] * len(inputs)
        mixing = Mixing(1.0 / operator.window.size if bursts else 0.0) if isinstance(operator, Join) else MIXED
        if channels is not None:
            mixing = Mixing(
                mixing.fewer,
                channels.credits,
                channels.service_s[operator.name],
                channels.stalls_s.get(operator.name),
                channels.horizon_s,
            )
        found[operator.name] = through(operator, inputs, coming or never, mixing)
    return found


def through(
    operator: AnyOperator, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing = MIXED
) -> Flow:
    """The flow through one operator. inputs: rates by input stream; bursts: their `bursts_per_s`. [N] each"""
    total = np.sum(inputs, axis=0)
    none = np.zeros_like(total)
    together = np.sum(bursts, axis=0)
    match operator:
        case Filter() | Map():
            out = operator.selectivity * total
            return Flow(inputs, total, out, none, none, none, np.where(together < out, together, np.inf))
        case Aggregate():
            content, fires = _window(operator.window, total, together)
            groups = distinct_groups(operator, content)
            return Flow(inputs, total, fires * groups, content, fires, groups, np.minimum(fires, together))
        case Join():
            content, fires = _window(operator.window, total, np.full_like(total, np.inf))
            if operator.amplification is not None:
                return Flow(inputs, total, operator.amplification * total, content, fires, none, fires)
            matches = (operator.selectivity or 0.0) * _combinations(operator.window, inputs, bursts, content, mixing)
            if mixing.stalls_s is not None:
                content, fires, matches = _stalling(operator.window, inputs, mixing, content, fires, matches)
            return Flow(inputs, total, fires * matches, content, fires, none, np.minimum(fires, np.min(bursts, axis=0)))
        case _:
            return Flow(inputs, total, total, none, none, none, together)


def _window(window: Window, in_per_s: np.ndarray, bursts_per_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Expected content (tuples) and evaluations a second of anything. Nothing flows: nothing is evaluated."""
    if window.policy == "count":
        return np.where(in_per_s > 0, window.size, 0.0), in_per_s / window.slide
    share = np.minimum(1.0, bursts_per_s * window.size)  # of the evaluations that see a burst
    fires = np.where(in_per_s > 0, share / window.slide, 0.0)
    return np.divide(in_per_s * window.size, share, out=np.zeros_like(in_per_s), where=share > 0), fires


def _stalling(
    window: Window,
    inputs: tuple[np.ndarray, ...],
    mixing: Mixing,
    content: np.ndarray,
    fires: np.ndarray,
    matches: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Content, evaluations a second and matches each of a join with a time window that its own results block. [N] each

    Blocked for longer than a slide s, it takes tuples only from when it is let go to the next evaluation: for a time t
    that is anything from 0 to s, s / 2 on average, and the share b of all time. Tuples come in bunches then, one every
    s / 2b, of which a run sees two at least. Matches grow with the product of what a bunch has of the sides: where both
    fill their channels, with E[t^2] / E[t] = 2 s / 3; of a side that does not, a bunch takes all that has come, which
    leaves s / 2. Evenly they would grow with b times the window's size.
    """
    assert mixing.stalls_s is not None
    stalled = mixing.stalls_s > 0
    busy = np.maximum(np.sum(inputs, axis=0) * mixing.stalls_s, window.slide / mixing.horizon_s)
    alike = np.min(inputs, axis=0) / np.maximum(np.max(inputs, axis=0), 1e-12)
    bunched = (1.0 / 2.0 + alike / 6.0) * window.slide / window.size / np.maximum(busy, 1e-9)
    rarer = np.where(stalled, np.minimum(1.0, 2.0 * busy), 1.0)
    return content / rarer, fires * rarer, matches * np.where(stalled, np.maximum(1.0, bunched), 1.0) / rarer


def _combinations(
    window: Window, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], content: np.ndarray, mixing: Mixing
) -> np.ndarray:
    """Expected product of the tuples of all sides in a window.

    Of three and more sides, streams count as well mixed: the sides of a count window of w tuples are multinomial, so
    the product falls short of that of the means by (1 - 1/w) (1 - 2/w) ...; those of a time window are independent.
    """
    if len(inputs) == 2:
        return _pairs(window, inputs, bursts, content, mixing)
    total = np.sum(inputs, axis=0)
    product = np.ones_like(total)
    for number, rate in enumerate(inputs):
        share = np.divide(rate, total, out=np.zeros_like(total), where=total > 0)
        fewer = number if window.policy == "count" else 0
        product *= np.maximum(content - fewer, 0.0) * share
    return product


def _pairs(
    window: Window,
    inputs: tuple[np.ndarray, ...],
    bursts: Sequence[np.ndarray],
    content: np.ndarray,
    mixing: Mixing = MIXED,
) -> np.ndarray:
    """Expected product of the tuples of both sides in a window.

    A count window under bursts slides over runs of b tuples of one side and m of the other, in turn; a pair k apart
    is of both sides with probability 2 min(k, b, m, b + m - k) / (b + m), k modulo b + m. Of a burst above the credits
    of its channel, the rest comes at the pace of the join, mixed with what comes of the other side meanwhile.
    """
    total = inputs[0] + inputs[1]
    left = content * np.divide(inputs[0], total, out=np.zeros_like(total), where=total > 0)
    mixed = left * (content - left)
    if window.policy == "time":
        return mixed
    mixed *= 1.0 - mixing.fewer
    often = np.minimum(*bursts)
    if not np.isfinite(often).any():
        return mixed
    bursting = bursts[0] <= bursts[1]
    runs = [np.divide(rate, often, out=np.ones_like(rate), where=often > 0) for rate in inputs]
    burst, other = np.where(bursting, runs[0], runs[1]), np.where(bursting, runs[1], runs[0])
    among = np.minimum(np.where(bursting, inputs[1], inputs[0]) * mixing.service_s, 0.9)  # what a tuple at pace meets
    spread = np.maximum(burst - mixing.credits, 0.0)
    meanwhile = np.minimum(spread * among / (1.0 - among), other)
    whole, rest = np.maximum(burst - spread, 1e-9), np.maximum(other - meanwhile, 1e-9)
    share = np.divide(meanwhile, spread + meanwhile, out=np.zeros_like(spread), where=spread > 0)
    within = window.size * (window.size - 1.0) * share * (1.0 - share)
    apart = _alternating(window.size, whole + rest, np.minimum(whole, rest))
    both = (apart * (whole + rest) + within * (spread + meanwhile)) / np.maximum(burst + other, 1e-9)
    return np.where(np.isfinite(often) & (burst + other > 2.0), both, mixed)


def _alternating(size: float, period: np.ndarray, shorter: np.ndarray) -> np.ndarray:
    """Sum over k < size of (size - k) 2 min(k, m, P - k) / P, k modulo the period P, with the shorter run m. [N]

    The sum is the trapezoidal rule for the integral of the same, which is a cubic in the rest of size / P and off by
    a sixth of the last term; where runs are not whole numbers, nearly so.
    """
    periods, rest = np.divmod(size, period)
    in_one = shorter * (period - shorter)  # integral of min(k, m, P - k) over a period; it is symmetrical
    rising, falling = np.maximum(rest - shorter, 0.0), np.maximum(rest - period + shorter, 0.0)
    twice = periods * in_one * (period * periods / 2.0 + rest) + (rest**3 - rising**3 - falling**3) / 6.0
    return np.asarray(2.0 * (twice - np.minimum(np.minimum(rest, shorter), period - rest) / 6.0) / period)


def distinct_groups(operator: Aggregate, content: np.ndarray) -> np.ndarray:
    """Expected distinct groups among `content` tuples whose groups are uniform over K values.

    K (1 - (1 - 1/K)^w) for a count window, which holds exactly w tuples; averaged over a Poisson number of tuples with
    mean w, as a time window holds, it becomes K (1 - exp(-w/K)), which is below 1 when windows are often empty.
    """
    groups = float(operator.groups)
    if operator.window.policy == "time":
        return -groups * np.expm1(-content / groups)
    if groups == 1.0:
        return np.where(content > 0, 1.0, 0.0)
    return -groups * np.expm1(content * np.log1p(-1.0 / groups))
