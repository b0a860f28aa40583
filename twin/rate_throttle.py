"""Which share of its offered rate every source ingests once nothing is overloaded.

Pressure travels upstream: an operator has to be slowed down by the worst of its own pressure and that of its output
streams and consumers. Where several streams meet, their tuples wait in one line, of which each stream holds at most
its credits; so the operator takes from all streams at the same rate, but from those that bring less all they bring
(max-min fairness), and only the streams above that level are slowed.
"""

from __future__ import annotations

import numpy as np

from twin.rate_layout import Job, Layout
from twin.rate_load import Load, load, pressure
from twin.rates import flows

ROUNDS = 60
CLOSE = 1e-8
"""A source's pressure is this close to 1, in its log, when its rate is found."""
SLOPES = (0.25, 6.0)
"""Of the log of the pressure in the log of the rate, as far as they are believed."""


def felt(job: Job, now: Load) -> tuple[np.ndarray, np.ndarray]:
    """By which factor inputs are too many: of operators, at the worst of all that lies downstream, and of streams.

    Of an operator with several inputs the too fast feel more, those below the fair level less. [O, N], [S, N]
    """
    felt_on, felt_sn = pressure(job, now), np.empty_like(now.nic_sn)
    for o in reversed(range(len(job.names))):
        for s in job.outputs[o]:
            np.maximum(felt_on[o], felt_sn[s], out=felt_on[o])
        if len(job.inputs[o]) == 1:
            felt_sn[job.inputs[o][0]] = felt_on[o]
        elif job.inputs[o]:
            rates = now.out_on[[job.producer_s[s] for s in job.inputs[o]]]
            felt_sn[job.inputs[o]] = rates / np.maximum(fair_rate(rates, felt_on[o]), 1e-12)
    return felt_on, felt_sn


def fair_rate(rates: np.ndarray, over: np.ndarray) -> np.ndarray:
    """Rate up to which streams are let through, so that all together make the sum of their rates over `over`. [N]

    rates: [K, N]. Where over < 1, all that the streams bring: the fastest one's rate over `over`.
    """
    ascending = np.sort(rates, axis=0)
    others = np.arange(len(rates), 0, -1)[:, None]
    below = np.cumsum(ascending, axis=0) - ascending
    capacity = ascending.sum(axis=0) / np.maximum(over, 1e-12)
    return np.where(over >= 1.0, ((capacity - below) / others).max(axis=0), ascending[-1] / np.maximum(over, 1e-12))


def throttle(layout: Layout, slowdown_on: np.ndarray, offered: Load) -> np.ndarray:
    """The ingested share of each source's offered rate. [sources, N]

    Every source looks for the rate at which the pressure that it feels is 1, by the secant rule in logs: joins make
    loads grow faster than the rates.
    """
    job = layout.job
    found = np.ones((len(job.sources), layout.size))
    active = np.asarray((pressure(job, offered) > 1.0).any(axis=0))
    if not active.any():
        return found
    part, slow_on = layout.select(active), slowdown_on[:, active]
    names = [job.names[o] for o in job.sources]
    rates = np.array([job.offered_per_s[name] for name in names])[:, None]
    share = np.zeros((len(names), part.size))  # in logs
    before, worst_before, slope = share, share, np.ones_like(share)
    where = np.flatnonzero(active)
    for turn in range(ROUNDS):
        flow = flows(job.deployment.query, dict(zip(names, rates * np.exp(share), strict=True)), bursts=True)
        worst = np.log(np.maximum(felt(job, load(part, flow, slow_on))[0][job.sources], 1e-12))
        off = np.abs(np.minimum(worst, np.where(share >= 0.0, np.maximum(worst, 0.0), worst)))
        done = (off < CLOSE).all(axis=0) | (turn == ROUNDS - 1)
        found[:, where[done]] = np.exp(share[:, done])
        if done.all():
            break
        moved = share - before
        steep = np.divide(worst - worst_before, moved, out=slope.copy(), where=np.abs(moved) > 1e-12)
        slope = np.clip(steep, *SLOPES)
        ahead = np.clip(share - worst / slope, -30.0, 0.0)
        before, worst_before, share = share, worst, ahead
        if done.mean() > 0.2:
            keep = ~done
            part, slow_on, where = part.select(keep), slow_on[:, keep], where[keep]
            share, before, worst_before, slope = (each[:, keep] for each in (share, before, worst_before, slope))
    return found
