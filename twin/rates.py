"""Steady-state rates of a query, without simulation: what flows where when nothing is saturated.

The expectations follow Costream, Definitions 6-8. Everything is elementwise, so one call can follow a single set of
source rates or thousands of them (one a plan).
"""

from __future__ import annotations

from collections.abc import Mapping
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
    window_tuples: content at an evaluation, both sides of a join. fires_per_s: evaluations.
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
    """`OperatorRates` as arrays, one entry a set of source rates; inputs_per_s has one array an input stream."""

    inputs_per_s: tuple[np.ndarray, ...]
    in_per_s: np.ndarray
    out_per_s: np.ndarray
    window_tuples: np.ndarray
    fires_per_s: np.ndarray
    groups_per_fire: np.ndarray


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


def flows(query: Query, source_rate_per_s: Mapping[str, np.ndarray]) -> dict[str, Flow]:
    """The flow through every operator, in data-flow order. Raises KeyError if a source's rates are missing."""
    found: dict[str, Flow] = {}
    for operator in query.topological:
        producers = [stream.producer for stream in query.inputs(operator.name)]
        inputs = tuple(found[name].out_per_s for name in producers) or (source_rate_per_s[operator.name],)
        found[operator.name] = _through(operator, inputs)
    return found


def _through(operator: AnyOperator, inputs: tuple[np.ndarray, ...]) -> Flow:
    total = np.sum(inputs, axis=0)
    none = np.zeros_like(total)
    match operator:
        case Filter() | Map():
            return Flow(inputs, total, operator.selectivity * total, none, none, none)
        case Aggregate():
            content, fires = _window(operator.window, total)
            groups = distinct_groups(operator, content)
            return Flow(inputs, total, fires * groups, content, fires, groups)
        case Join():
            content, fires = _window(operator.window, total)
            if operator.amplification is not None:
                return Flow(inputs, total, operator.amplification * total, content, fires, none)
            left = content * np.divide(inputs[0], total, out=none.copy(), where=total > 0)
            matches = (operator.selectivity or 0.0) * left * (content - left)
            return Flow(inputs, total, fires * matches, content, fires, none)
        case _:
            return Flow(inputs, total, total, none, none, none)


def _window(window: Window, in_per_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Expected content (tuples) and evaluations a second. Nothing flows: nothing is evaluated."""
    if window.policy == "count":
        return np.where(in_per_s > 0, window.size, 0.0), in_per_s / window.slide
    return in_per_s * window.size, np.where(in_per_s > 0, 1.0 / window.slide, 0.0)


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
