"""Checkpoints of a Flink job: how they are configured, how long they took, and how the state grows."""

from __future__ import annotations

from statistics import median
from typing import Any

from streamtwin.connect.importers.flink_form import finite
from streamtwin.connect.importers.flink_job import FlinkJob
from streamtwin.connect.importers.flink_times import set_s

PREFIX = "execution.checkpointing."
MS = 1e-3
GROWS = 0.05
"""Share of a state by which it must have grown between two checkpoints to be named."""


def checkpoints_of(job: FlinkJob, notes: list[str]) -> dict[str, Any]:
    """Field `checkpoints` of a scenario; empty if the job has none, or Flink does not say. notes: get words."""
    config = job.checkpoint_config
    interval_s = (finite(config.interval) or 0.0) * MS if config else set_s(job.settings, f"{PREFIX}interval")
    notes += _grown(job)
    if not interval_s or interval_s > 10**7:  # Flink's longest number stands for none
        return {}
    found: dict[str, Any] = {"interval_s": interval_s}
    if config is not None:
        found |= {"mode": "unaligned" if config.unaligned_checkpoints else "aligned"}
        aligned_ms = finite(config.aligned_checkpoint_timeout)
        found |= {"aligned_timeout_s": aligned_ms * MS} if config.unaligned_checkpoints and aligned_ms else {}
        timeout_ms, pause_ms = finite(config.timeout), finite(config.min_pause)
        found |= {"timeout_s": timeout_ms * MS} if timeout_ms and timeout_ms * MS <= 10**7 else {}
        found |= {"min_pause_s": pause_ms * MS} if pause_ms else {}
        tolerated = finite(config.tolerable_failed_checkpoints)
        found |= {"tolerated_failures": int(tolerated)} if tolerated is not None and 0 <= tolerated <= 10**6 else {}
        if config.mode == "at_least_once":
            notes.append("its checkpoints do not align barriers (at_least_once); taken as aligned")
    elif job.settings.get(f"{PREFIX}unaligned.enabled", job.settings.get(f"{PREFIX}unaligned")) == "true":
        found |= {"mode": "unaligned"}
    if job.settings.get(f"{PREFIX}incremental", job.settings.get("state.backend.incremental")) == "true":
        found |= {"state": "incremental"}
    if job.durations_s:
        notes.append(
            f"its checkpoints took {median(job.durations_s) * 1000:,.0f} ms (median), up to "
            f"{max(job.durations_s) * 1000:,.0f}; what storing costs is not told: set checkpoints.storage_mbps, sync_ms"
        )
    return {"checkpoints": found}


def _grown(job: FlinkJob) -> list[str]:
    """Notes on vertices whose state grew from one checkpoint to another."""
    found = []
    for vertex in job.vertices:
        before, now, between_s = job.grown.get(vertex.id, (0.0, 0.0, 0.0))
        if between_s > 0 and now - before > GROWS * now and vertex.in_per_s > 0:
            each = (now - before) / (between_s * vertex.in_per_s)
            found.append(f"{vertex.name}: its state grew from {before:,.0f} to {now:,.0f} bytes, {each:.3g} a record")
    return found
