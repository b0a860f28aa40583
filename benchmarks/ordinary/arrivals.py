"""When records reach the brokers, by the laws of `docs/scenario-files.md`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.ordinary.records import Array

STEP_S = 0.01
"""How long a rate that changes is held."""


def times(law: Mapping[str, Any], changes: Sequence[Mapping[str, Any]], horizon_s: float, rng: Any) -> Array:
    """Of one source. changes: its events of kind `rate-change`."""
    if law["law"] == "constant":
        return np.arange(1, int(law["rate_per_s"] * horizon_s)) / law["rate_per_s"]
    if law["law"] == "bursty":
        ends, rates = _bursty(law["states"], horizon_s, rng)
    else:
        ends, rates = _by_the_clock(law, changes, horizon_s)
    starts = np.concatenate([[0.0], ends[:-1]])
    counts = rng.poisson(rates * (ends - starts))
    spread = np.repeat(ends - starts, counts) * rng.random(counts.sum())
    return np.sort(np.repeat(starts, counts) + spread)


def _by_the_clock(
    law: Mapping[str, Any], changes: Sequence[Mapping[str, Any]], horizon_s: float
) -> tuple[Array, Array]:
    """Ends of pieces of constant rate, and the rates."""
    ends = np.arange(1, round(horizon_s / STEP_S) + 1) * STEP_S
    t = ends - STEP_S / 2
    rates = np.full(t.shape, float(law.get("rate_per_s", 0)))
    if law["law"] == "steps":
        steps = law["steps"]
        rates = np.array([each["rate_per_s"] for each in steps], dtype=float)
        rates = rates[np.searchsorted([each["at_s"] for each in steps], t, side="right") - 1]
    elif law["law"] == "diurnal":
        rates *= 1 + law["amplitude"] * np.sin(2 * np.pi * t / law["period_s"])
    elif law["law"] == "spikes":
        rates[t % law["every_s"] > law["every_s"] - law["duration_s"]] *= law["factor"]
    for change in changes:
        rates = np.where(t > change["at_s"], change.get("rate_per_s", rates * change.get("factor", 1)), rates)
    return ends, rates


def _bursty(states: Sequence[Mapping[str, float]], horizon_s: float, rng: Any) -> tuple[Array, Array]:
    means = np.array([each["mean_s"] for each in states])
    state, now = int(rng.choice(len(states), p=means / means.sum())), 0.0
    ends, rates = [], []
    while now < horizon_s:
        now = min(now + rng.exponential(means[state]), horizon_s)
        ends.append(now)
        rates.append(float(states[state]["rate_per_s"]))
        state = (state + 1) % len(states)
    return np.array(ends), np.array(rates)
