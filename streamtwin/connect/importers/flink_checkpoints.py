"""Checkpoints of a Flink job and its recovery: how they are configured, how long they take, how the state grows."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamtwin.connect.importers.flink_form import finite
from streamtwin.connect.importers.flink_job import FlinkJob
from twin.checkpoints import Checkpoints
from twin.flink_settings import as_parts, configured
from twin.flink_values import set_s

MS, LONGEST_S = 1e-3, 1e7
NOT_TOLD = ("state", "failover")
"""What a job says nothing of, so that it is the cluster's."""
HEARTBEAT, RESTART = "heartbeat.", "restart-strategy."
NO_RESTART = ("none", "off", "disable")
DELAYS = {
    "": "exponential-delay.initial-backoff",  # the default
    "exponentialdelay": "exponential-delay.initial-backoff",
    "fixeddelay": "fixed-delay.delay",
    "failurerate": "failure-rate.delay",
}
"""Settings of the time before a restart, by the strategy; that of each is 1 s by default."""
SYNC_MS: float = Checkpoints.model_fields["sync_ms"].default
"""Time of a task's own work at a checkpoint, which is part of what was measured, too."""
TIMEOUT_S: float = Checkpoints.model_fields["timeout_s"].default
FASTEST_MBPS = 1e9
"""Bytes that are stored faster than this take no time."""
SIZES_APART = 1.5
"""Ratio of the largest checkpoint to the smallest from which on their times tell what a byte takes."""
BACKPRESSURED = 0.1
"""Share of time from which on a task's barriers are counted as waiting."""
GROWS = 0.05
"""Share of a state by which it must have grown between two checkpoints to be named."""


def checkpoints_of(job: FlinkJob, notes: list[str]) -> dict[str, Any]:
    """Field `checkpoints` of a scenario; empty if the job has none, or Flink does not say. notes: get words."""
    config = job.checkpoint_config
    set_ = as_parts(configured(job.settings).values).get("checkpoints", {})
    interval_s = (finite(config.interval) or 0.0) * MS if config else set_.get("interval_s")
    notes += _grown(job)
    if not interval_s or interval_s > LONGEST_S:  # Flink's longest number stands for none
        return {}
    found: dict[str, Any] = set_ if config is None else {"interval_s": interval_s}
    if config is not None:
        found |= {key: set_[key] for key in NOT_TOLD if key in set_}
        found |= {"mode": "unaligned" if config.unaligned_checkpoints else "aligned"}
        aligned_ms = finite(config.aligned_checkpoint_timeout)
        found |= {"aligned_timeout_s": aligned_ms * MS} if config.unaligned_checkpoints and aligned_ms else {}
        timeout_ms, pause_ms = finite(config.timeout), finite(config.min_pause)
        found |= {"timeout_s": timeout_ms * MS} if timeout_ms and timeout_ms * MS <= LONGEST_S else {}
        found |= {"min_pause_s": pause_ms * MS} if pause_ms else {}
        tolerated = finite(config.tolerable_failed_checkpoints)
        found |= {"tolerated_failures": int(tolerated)} if tolerated is not None and 0 <= tolerated <= 10**6 else {}
        if config.mode == "at_least_once":
            notes.append("its checkpoints do not align barriers (at_least_once); taken as aligned")
    return {"checkpoints": found | _storing(job, found.get("timeout_s", TIMEOUT_S), notes)}


def _storing(job: FlinkJob, timeout_s: float, notes: list[str]) -> dict[str, float]:
    """What storing costs, from the checkpoints that Flink remembers: a time of each, and a time of its bytes, neither
    below zero, with the least sum of errors, so that a few slow ones do not count. Empty while records wait for room:
    barriers wait with them. timeout_s: after which none is complete. notes: get words."""
    taken = [each for each in job.taken if each.took_s < timeout_s]
    if not taken:
        notes.append(
            "no complete checkpoint tells how long it took, so storing takes no time; set checkpoints.async_ms"
        )
        return {}
    sizes, took_s = np.array(taken).T
    told = f"its checkpoints took {np.median(took_s) * 1000:,.0f} ms (median), up to {took_s.max() * 1000:,.0f}"
    waiting = [each.name for each in job.vertices if (each.backpressured or 0.0) > BACKPRESSURED]
    if waiting:
        notes.append(
            f"{told}, in which barriers waited behind records ({waiting[0]} is backpressured), so what storing costs "
            "is not known: set checkpoints.async_ms, storage_mbps, or import at a lighter load"
        )
        return {}
    apart = sizes.max() > SIZES_APART * sizes.min()
    async_s, s_per_byte = _line(took_s, sizes) if apart else (float(np.median(took_s)), 0.0)
    storing = {"async_ms": round(max(0.0, async_s / MS - SYNC_MS), 1)}
    if s_per_byte * FASTEST_MBPS > 8e-6:
        storing["storage_mbps"] = float(f"{8e-6 / s_per_byte:.3g}")
    found = " and ".join(f"{key} {value:g}" for key, value in storing.items())
    alike = "" if "storage_mbps" in storing else ", as their sizes do not tell what a byte takes"
    notes.append(f"{told}, from which follows {found}{alike}")
    return storing


def _line(took_s: np.ndarray, sizes: np.ndarray) -> tuple[float, float]:
    """Seconds of a checkpoint and of each of its bytes, neither below zero, with the least sum of absolute errors."""
    from scipy.optimize import linprog  # most commands start without

    count, scale = len(took_s), sizes.max()
    line, errors = np.stack([np.ones(count), sizes / scale], axis=1), np.eye(count)
    bounds = np.vstack([np.hstack([line, -errors]), np.hstack([-line, -errors])])
    found = linprog([0.0, 0.0, *np.ones(count)], A_ub=bounds, b_ub=[*took_s, *-took_s])
    return float(found.x[0]), float(found.x[1] / scale)


def recovery_of(job: FlinkJob, notes: list[str]) -> dict[str, Any]:
    """Field `recovery` of an engine profile; empty if Flink does not tell its settings. notes: get words.

    Flink lists only settings that somebody has set; the others have Flink's defaults (Configuration, "Heartbeat",
    "Restart strategies"). A heartbeat that cannot be sent counts at once, so that the failure of a process is noticed
    between `rpc-failure-threshold` - 1 and as many intervals after it; here in the middle.
    """
    if not job.settings:
        return {}
    interval_s = set_s(job.settings, f"{HEARTBEAT}interval") or 10.0
    timeout_s = set_s(job.settings, f"{HEARTBEAT}timeout") or 50.0
    threshold = finite(job.settings.get(f"{HEARTBEAT}rpc-failure-threshold", 2)) or 0.0
    noticed_s = min(timeout_s, (threshold - 0.5) * interval_s) if threshold > 0 else timeout_s
    strategy = next((job.settings[key] for key in (f"{RESTART}type", "restart-strategy") if key in job.settings), "")
    strategy = strategy.lower().replace("-", "")
    if strategy in NO_RESTART:
        notes.append("it does not restart after a failure (restart-strategy); dry-run --fail says what a restart does")
    delay_s = set_s(job.settings, RESTART + DELAYS.get(strategy, DELAYS[""]))
    noticed = f"the failure of a process is noticed after some {noticed_s:g} s (heartbeat.*)"
    notes.append(f"{noticed}, that of a machine that answers nothing after up to {timeout_s:g} s; see engine.recovery")
    parts = {"noticed_s": noticed_s, "delay_s": 1.0 if delay_s is None else delay_s}
    return {"recovery": {name: min(each_s, LONGEST_S) for name, each_s in parts.items()}}


def _grown(job: FlinkJob) -> list[str]:
    """Notes on vertices whose state grew from one checkpoint to another."""
    found = []
    for vertex in job.vertices:
        before, now, between_s = job.grown.get(vertex.id, (0.0, 0.0, 0.0))
        if between_s > 0 and now - before > GROWS * now and vertex.in_per_s > 0:
            each = (now - before) / (between_s * vertex.in_per_s)
            found.append(f"{vertex.name}: its state grew from {before:,.0f} to {now:,.0f} bytes, {each:.3g} a record")
    return found
