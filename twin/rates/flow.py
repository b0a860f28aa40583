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
from twin.rates.joins import MIXED, Mixing, combinations, stalling
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
    burst_s: how long a burst takes once operators on its way have worked it off, one tuple after the other.
    """

    inputs_per_s: tuple[np.ndarray, ...]
    in_per_s: np.ndarray
    out_per_s: np.ndarray
    window_tuples: np.ndarray
    fires_per_s: np.ndarray
    groups_per_fire: np.ndarray
    bursts_per_s: np.ndarray
    burst_s: np.ndarray


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

    A burst beyond the credits leaves at the pace of the consumer. services_s: by operator, CPU seconds a tuple of each
    of its inputs.
    stalls_s: by join whose own bursts keep it blocked for longer than the time between evaluations, the time that an
    input tuple takes it; 0 under plans where it is not so, [N]. horizon_s: length of the run.
    """

    credits: float
    services_s: Mapping[str, tuple[float, ...]]
    stalls_s: Mapping[str, np.ndarray] = {}
    horizon_s: float = np.inf


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
        if bursts and producers:
            mixing = mixing._replace(burst_s=np.max([found[name].burst_s for name in producers], axis=0))
        if channels is not None:
            mixing = mixing._replace(
                credits=channels.credits,
                services_s=channels.services_s[operator.name],
                stalls_s=channels.stalls_s.get(operator.name),
                horizon_s=channels.horizon_s,
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
    busy = sum((rate * each_s for rate, each_s in zip(inputs, mixing.services_s, strict=False)), start=none)
    each_s = np.divide(busy, together, out=np.zeros_like(total), where=together > 0)
    burst_s = np.maximum(each_s, mixing.burst_s)
    match operator:
        case Filter() | Map():
            out = operator.selectivity * total
            return Flow(inputs, total, out, none, none, none, np.where(together < out, together, np.inf), burst_s)
        case Aggregate():
            content, fires = _window(operator.window, total, together, burst_s)
            groups = distinct_groups(operator, content)
            often = np.minimum(fires, together)
            return Flow(
                inputs, total, fires * groups, content, fires, groups, often, np.where(fires > together, burst_s, 0.0)
            )
        case Join():
            content, fires = _window(operator.window, total, np.full_like(total, np.inf), none)
            if operator.amplification is not None:
                return Flow(inputs, total, operator.amplification * total, content, fires, none, fires, none)
            matches = (operator.selectivity or 0.0) * combinations(operator.window, inputs, bursts, content, mixing)
            if mixing.stalls_s is not None:
                content, fires, matches = stalling(operator.window, inputs, mixing, content, fires, matches)
            seldom = np.min(bursts, axis=0)
            longest_s = np.where(fires > seldom, burst_s, 0.0)
            return Flow(inputs, total, fires * matches, content, fires, none, np.minimum(fires, seldom), longest_s)
        case _:
            return Flow(inputs, total, total, none, none, none, together, burst_s)


def _window(
    window: Window, in_per_s: np.ndarray, bursts_per_s: np.ndarray, burst_s: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Expected content (tuples) and evaluations a second of anything. Nothing flows: nothing is evaluated."""
    if window.policy == "count":
        return np.where(in_per_s > 0, window.size, 0.0), in_per_s / window.slide
    share = np.minimum(1.0, bursts_per_s * (window.size + burst_s))  # of the evaluations that see a burst
    fires = np.where(in_per_s > 0, share / window.slide, 0.0)
    return np.divide(in_per_s * window.size, share, out=np.zeros_like(in_per_s), where=share > 0), fires


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
