"""The load that plans bear by the rate model: the factor on the rates of all sources at which a resource gets full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from twin.deployment import Deployment
from twin.job import compile
from twin.plan import ExecutionPlan
from twin.rates.arrays import JobArrays
from twin.rates.channels import stalls
from twin.rates.layout import Layout
from twin.rates.load import Load, flow_at, load, memory

ROUNDS, CLOSE = 60, 1e-6
"""Most steps of the search for a factor; the log of the utilisation that counts as 0."""
NEARLY = 0.999
"""Share of the highest utilisation from which a resource counts as full too."""


class LoadLimit(NamedTuple):
    """The highest load of a plan.

    factor: multiple of the offered rates of all sources at which the first resource is fully used; inf if nothing uses
    any resource. operator: the operator that this slows down. resource: the full one: `subtask` (the busiest subtask
    uses a whole core, or all of its calls), `CPU` (of its host), `network` (card or link of its output) or `channel`
    (credits of its output). busiest: input of its busiest subtask over the mean of all its subtasks, >= 1.
    """

    factor: float
    operator: str
    resource: str
    busiest: float


def load_limits(deployment: Deployment, plans: Sequence[ExecutionPlan]) -> list[LoadLimit]:
    """The limit of each plan in the steady state. Raises KeyError if a plan does not fit the deployment.

    Where partitions are uneven or keys are skewed, the busiest subtask is full first. Loads of joins grow faster than
    the rates, so the factor is the root of log(highest utilisation), by secants and bisection in logs. Where bursts
    begin to stall a join, its load jumps, and the factor is where it jumps.
    """
    job = JobArrays(compile(deployment))
    layout = Layout.of_plans(job, plans)
    factor_n, below, above = np.ones(layout.size), np.full((2, layout.size), -np.inf), np.full((2, layout.size), np.inf)
    found = _at(layout, factor_n)
    for _ in range(ROUNDS):
        full_n = np.log(np.maximum(found.pressure(job).max(axis=0), 1e-12))
        if ((np.abs(full_n) < CLOSE) | (above[0] - below[0] < CLOSE)).all():
            break
        at_n = np.log(factor_n)
        below = np.where(full_n < 0.0, [at_n, full_n], below)
        above = np.where(full_n >= 0.0, [at_n, full_n], above)
        known = np.isfinite(below[0]) & np.isfinite(above[0])
        with np.errstate(invalid="ignore"):
            between = below[0] - below[1] * (above[0] - below[0]) / (above[1] - below[1])
            middle = (below[0] + above[0]) / 2.0
        inside = np.where(np.abs(between - at_n) < 1e-3 * np.abs(above[0] - below[0]), middle, between)
        at_n = np.where(np.abs(full_n) < CLOSE, at_n, np.where(known, inside, np.clip(at_n - full_n, -30.0, 30.0)))
        factor_n = np.exp(at_n)
        found = _at(layout, factor_n)
    pressure_on = found.pressure(job)
    return [_limit(layout, found, float(factor_n[n]), int(pressure_on[:, n].argmax()), n) for n in range(layout.size)]


def _at(layout: Layout, factor_n: np.ndarray) -> Load:
    flow = flow_at(layout.job, _rates(layout, factor_n), counted=layout.counted)
    return offered_load(layout, memory(layout, flow)[0], factor_n)[0]


def offered_load(
    layout: Layout, slowdown_on: np.ndarray, factor: np.ndarray | float = 1.0
) -> tuple[Load, dict[str, np.ndarray]]:
    """The load if every source sends at `factor` times its offered rate, and the joins that bursts stall (`stalls`).

    slowdown_on: see `load`.
    """
    job, rates = layout.job, _rates(layout, factor)
    offered = load(layout, flow_at(job, rates, counted=layout.counted), slowdown_on)
    stalls_s = stalls(layout, offered)
    if stalls_s:
        offered = load(layout, flow_at(job, rates, stalls_s, counted=layout.counted), slowdown_on)
    return offered, stalls_s


def _rates(layout: Layout, factor: np.ndarray | float) -> dict[str, np.ndarray]:
    return {name: rate * factor * np.ones(layout.size) for name, rate in layout.job.offered_per_s.items()}


def _limit(layout: Layout, found: Load, factor: float, o: int, n: int) -> LoadLimit:
    job, highest = layout.job, found.pressure(layout.job)[o, n]
    busiest = 1.0 if layout.crowding_on is None else float(layout.crowding_on[o, n])
    if highest < 1e-9:
        return LoadLimit(np.inf, job.names[o], "subtask", busiest)
    here = layout.here_cn[layout.cells(o), n]
    whole = np.zeros((len(job.streams), layout.size))
    outputs = {
        "network": (found.nic_sn + whole)[job.outputs[o], n],
        "channel": (found.credits_sn + whole)[job.outputs[o], n],
    }
    used = {"CPU": found.cpu_hn[layout.host_cn[layout.cells(o), n][here], n], **outputs}
    full = (name for name, share in used.items() if share.max(initial=0.0) >= NEARLY * highest)
    return LoadLimit(factor, job.names[o], next(full, "subtask"), busiest)
