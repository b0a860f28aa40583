"""Answer of the analytic cost model about plans: their costs, how it came to them, and ages of latency markers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from twin.metrics import Estimates, MarkerAge, marker_ages
from twin.query import Query


@dataclass(frozen=True, slots=True)
class RateAnswer:
    """Answer about P plans of one job. Arrays are [P], [P, O] by operator, [P, S] by source, or [P, H] by host.

    *Offered* is the state if every source kept up; *reached* the state after sources have been slowed until nothing is
    overloaded. Rates are of all subtasks together, in records a second.
    """

    operators: tuple[str, ...]
    """Names of the operators in data-flow order: the columns O."""
    sources: tuple[str, ...]
    """Names of the sources in data-flow order: the columns S."""
    hosts: tuple[str, ...]
    """Names of the hosts in the cluster's order: the columns H."""
    costs: Estimates
    """Costs that `predict` returns."""

    offered_in_per_s: np.ndarray
    """[P, O] Records in (a source: arrivals at its broker), offered."""
    offered_out_per_s: np.ndarray
    """[P, O] Records out, counted once however many consumers there are, offered."""
    offered_pressure: np.ndarray
    """[P, O] Highest utilisation among what the operator depends on (its CPU, memory and channels of its sockets,
    network cards and links of its output, credits of its output channels), offered; above 1: it cannot keep up."""

    in_per_s: np.ndarray
    """[P, O] Records in, reached."""
    out_per_s: np.ndarray
    """[P, O] Records out, reached."""
    pressure: np.ndarray
    """[P, O] As `offered_pressure`, reached: at most about 1."""
    service_s: np.ndarray
    """[P, O] CPU seconds (reference cores) of an input record, (de)serialisation, slow-down by garbage collection and
    waits for the memory of other sockets included, window evaluations apart; mean of all subtasks; reached."""
    busy_cores: np.ndarray
    """[P, O] Mean demand of one subtask in reference cores, window evaluations included, of this operator alone; its
    thread has that of all that is chained to it; reached."""
    speed: np.ndarray
    """[P, O] Reference cores that a subtask can get beside its neighbours, at most one core of its clock, on the worst
    socket; reached."""
    used: np.ndarray
    """[P, O] Share of its time for which the mean subtask works, at `speed`, as runs and engines report it: chained
    operators are one task, so this is that of all of them together."""
    busiest: np.ndarray
    """[P, O] Input of the busiest subtask over the mean of all subtasks; above 1 if keys or partitions are uneven."""
    busiest_used: np.ndarray
    """[P, O] Largest share of its time for which a subtask works, with what is chained to it, at the speed that it
    reaches."""
    blocked: np.ndarray
    """[P, O] bool: the operator's input channels are full, as it or something downstream of it is the bottleneck."""

    age_s: np.ndarray
    """[P, O] Mean age of what the operator emits, since the ingestion of the oldest record involved."""
    e2e_age_s: np.ndarray
    """[P, O] Mean age of what the operator emits, since the generation of that record at the broker (end-to-end)."""
    channel_s: np.ndarray
    """[P, O] Part of `age_s`: mean over its inputs of the time on the network and in full channels; 0 of sources."""
    queue_s: np.ndarray
    """[P, O] Part of `age_s`: service and the wait for it."""
    line_s: np.ndarray
    """[P, O] Part of `queue_s`: the wait for service."""
    window_s: np.ndarray
    """[P, O] Part of `age_s`: what the window adds to the mean age of the input; 0 without one."""

    offered_cpu: np.ndarray
    """[P, H] Demand over capacity of a host's cores, offered; 0 where the host carries nothing."""
    cpu: np.ndarray
    """[P, H] Demand over capacity of a host's cores, reached."""
    offered_card: np.ndarray
    """[P, H] Bytes that leave over a host's bandwidth, offered."""
    card: np.ndarray
    """[P, H] Bytes that leave over a host's bandwidth, reached."""
    links: np.ndarray
    """[P, 2 L] Utilisation of the cluster's links, reached, in their order: each first from its first end, then
    the other way."""
    memory: np.ndarray
    """[P, H] Share of RAM that engine, windows and state fill, offered; 0 where the host carries nothing."""

    ingested: np.ndarray
    """[P, S] Share of a source's offered rate that it ingests, in (0, 1]."""
    delivered: np.ndarray
    """[P, S] Share ingested over the measured part of a run, in which channels before a bottleneck may still fill."""
    lag_s: np.ndarray
    """[P] Lag of a run that starts empty: the seconds of steady output by which it falls short of its length."""
    results: np.ndarray
    """[P] Expected results at the sinks in a run, reached; 0 if a host's memory overflows."""
    chances: np.ndarray
    """[P] Expected independent chances of a result: results, but no more than evaluations of any window, at most 1,000.
    """


def together(parts: Sequence[RateAnswer]) -> RateAnswer:
    """Joins answers for the same job, at least one, in order."""
    first = parts[0]
    columns = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        for field in fields(RateAnswer)
        if isinstance(getattr(first, field.name), np.ndarray)
    }
    return RateAnswer(
        operators=first.operators,
        sources=first.sources,
        hosts=first.hosts,
        costs=Estimates.together(part.costs for part in parts),
        **columns,
    )


def markers_of(answer: RateAnswer, query: Query, plan: int = 0) -> tuple[MarkerAge, ...]:
    """Marker ages under one of the plans, by operator and source."""
    way_s = dict(zip(answer.operators, (answer.channel_s + answer.line_s)[plan].tolist(), strict=True))
    return marker_ages(query, {(each.producer, each.consumer): way_s[each.consumer] for each in query.streams})
