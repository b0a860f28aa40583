"""Throttling of sources: the share of its offered rate that each ingests, and the state that a job then reaches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from twin.rates.channels import MeasuredSpan, felt, held_back
from twin.rates.layout import Layout
from twin.rates.load import Load, flow_at, load

if TYPE_CHECKING:
    from twin.rates.latency import Ages

# throttling ----------------------------------------------------------------------------------------------------------
# Throttling of sources: the share of its offered rate that each ingests once nothing is overloaded.
#
# Pressure travels upstream: an operator has to be slowed down by the worst of its own pressure and that of its output
# streams and consumers. Where several streams meet, only those above the fair level are slowed
# (`twin.rates.channels`).


ROUNDS = 40
CLOSE = 1e-7
"""Distance of a source's pressure from 1, in its log, at which its rate counts as found."""
RESTART = 10
"""Rounds without success after which what was learnt of the Jacobian is forgotten."""
RELAXED, SLACK = 60, 1e-3
"""Rounds of a slower search for plans whose root was not found by then; the pressure, in its log, that may be left."""
FARTHEST, LEAST = 2.0, -30.0
"""Longest step, and lowest share, in logs."""


def throttle(layout: Layout, offered: Load, stalls_s: Mapping[str, np.ndarray]) -> np.ndarray:
    """Share of its offered rate that each source ingests. [sources, N]

    A source either ingests all it is offered and feels a pressure of at most 1, or feels exactly 1. Both are the root
    of max(log share, log pressure), one equation a source, found by Broyden's method for all plans together: joins make
    loads grow faster than the rates, and what one source feels depends on the others.
    """
    job = layout.job
    names = [job.names[o] for o in job.sources]
    found = np.ones((len(names), layout.size))
    active = np.asarray((offered.pressure(job) > 1.0).any(axis=0))
    if not active.any():
        return found
    part, where = layout.select(active), np.flatnonzero(active)
    rates = np.array([job.offered_per_s[name] for name in names])[:, None]
    stalled = {name: each[active] for name, each in stalls_s.items()}
    share = np.zeros((len(names), part.size))  # logs of shares
    inverse = np.tile(np.eye(len(names))[:, :, None], part.size)  # inverse of the Jacobian
    moved = off = np.zeros_like(share)
    worst = felt(layout, offered)[0][job.sources][:, active]
    for turn in range(ROUNDS):
        if turn:
            flow = flow_at(job, dict(zip(names, rates * np.exp(share), strict=True)), stalled, counted=part.counted)
            worst = felt(part, load(part, flow))[0][job.sources]
        off, before = np.maximum(share, np.log(np.maximum(worst, 1e-12))), off
        done = np.abs(off).max(axis=0) < CLOSE
        if turn:
            inverse = _broyden(inverse, moved, off - before)
            lost = np.abs(moved).max(axis=0) < 1e-12 if turn % RESTART else np.ones(part.size, dtype=bool)
            inverse = np.where(lost, 0.5 * np.eye(len(names))[:, :, None], inverse)
        if turn == ROUNDS - 1 or done.mean() > 0.2:
            found[:, where] = np.exp(share)
            keep = ~done
            if not keep.any():
                break
            if turn == ROUNDS - 1:
                left = {name: each[keep] for name, each in stalled.items()}
                found[:, where[keep]] = _relaxed(part.select(keep), left, share[:, keep])
                break
            part, where = part.select(keep), where[keep]
            stalled = {name: each[keep] for name, each in stalled.items()}
            done = done[keep]
            share, off, inverse = share[:, keep], off[:, keep], inverse[:, :, keep]
        ahead = np.clip(share - np.clip(np.einsum("rsn,sn->rn", inverse, off), -FARTHEST, FARTHEST), LEAST, 0.0)
        ahead = np.where(done, share, ahead)  # other plans of the same call must make no difference
        moved, share = ahead - share, ahead
    return found


def _relaxed(part: Layout, stalled: Mapping[str, np.ndarray], share: np.ndarray) -> np.ndarray:
    """Shares of plans whose root was not found, from their last guess: half a step towards it each time, and at the end
    all sources slowed alike, so that nothing is overloaded whatever else is wrong. [sources, N]"""
    job = part.job
    names = [job.names[o] for o in job.sources]
    rates = np.array([job.offered_per_s[name] for name in names])[:, None]

    def worst(share: np.ndarray) -> np.ndarray:
        flow = flow_at(job, dict(zip(names, rates * np.exp(share), strict=True)), stalled, counted=part.counted)
        return np.log(np.maximum(felt(part, load(part, flow))[0][job.sources], 1e-12))

    share = np.clip(share, LEAST, 0.0)
    for _ in range(RELAXED):
        share = np.clip(share - 0.5 * worst(share), LEAST, 0.0)
    for _ in range(RELAXED):
        over = worst(share).max(axis=0)
        if (over <= SLACK).all():
            break
        share = np.maximum(share - np.where(over > SLACK, over, 0.0), LEAST)
    return np.exp(share)


def _broyden(inverse: np.ndarray, moved: np.ndarray, changed: np.ndarray) -> np.ndarray:
    """Inverse Jacobian [S, S, N] after a step `moved` changed the residual by `changed` [S, N]."""
    expected = np.einsum("rsn,sn->rn", inverse, changed)
    along = np.einsum("rn,rsn->sn", moved, inverse)
    scale = np.einsum("rn,rn->n", moved, expected)
    usable = np.abs(scale) > 0.1 * np.einsum("rn,rn->n", moved, moved)
    return inverse + np.where(usable, (moved - expected)[:, None] * along[None] / np.where(usable, scale, 1.0), 0.0)


# the state that is reached -------------------------------------------------------------------------------------------
# State of plans once sources are held back, and the results that a run shows of it.


@dataclass(frozen=True, slots=True)
class Reached:
    """State of N plans, offered and reached. share: of its offered rate that each source ingests. [sources, N]"""

    layout: Layout
    offered: Load
    reached: Load
    share: np.ndarray


class Results(NamedTuple):
    """Results at the sinks: number a second over the measured time [N]; their ages since ingestion and generation, in
    seconds [2, N]; and their delay [N], as `twin.metrics.Metrics.result_delay_s`."""

    per_s: np.ndarray
    ages_s: np.ndarray
    delay_s: np.ndarray


def results(state: Reached, ages: Ages, measured: MeasuredSpan) -> Results:
    """Results of a run, without those that its empty start lacks."""
    job = state.layout.job
    answered = np.array([[job.calling[o].answered if o in job.calling else 1.0] for o in job.sinks])
    arriving = ((state.offered.in_on * ages.fills.taken_on)[job.sinks] * answered).sum(axis=0)
    return Results(np.asarray(arriving * held_back(ages.results_s[2], measured)), ages.results_s[:2], ages.delay_s)
