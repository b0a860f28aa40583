"""Checkpoints that cost something, and the part of a job that starts again after a failure. After Flink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.errors import suggest
from twin.kinds.mechanism import Collecting
from twin.randomness import random_stream
from twin.spec import Spec

if TYPE_CHECKING:
    from twin.deployment import Deployment

Seconds = Annotated[float, Field(ge=0, le=10**7, description="simulated seconds")]


class Checkpoints(Spec):
    """Checkpoints of a job: barriers travel with the records, and the state of tasks is uploaded."""

    interval_s: Annotated[
        float, Field(ge=1e-3, le=10**7, description="from the start of a checkpoint to that of the next")
    ] = 10.0
    first_s: Annotated[
        Seconds | None,
        Field(
            exclude_if=lambda first_s: first_s is None,
            description="start of the first one; absent: at random between min_pause_s and interval_s, as in Flink",
        ),
    ] = None
    mode: Annotated[
        Literal["aligned", "unaligned"],
        Field(
            description="aligned: inputs wait for the last barrier; unaligned: barriers overtake, and what they "
            "overtake is part of the checkpoint"
        ),
    ] = "aligned"
    aligned_timeout_s: Annotated[
        Seconds | None,
        Field(
            exclude_if=lambda timeout_s: timeout_s is None,
            description="unaligned: barriers begin aligned, and overtake when the checkpoint has taken so long; "
            "absent: at once",
        ),
    ] = None
    state: Annotated[
        Literal["full", "incremental"], Field(description="incremental: what changed since the last one is uploaded")
    ] = "full"
    storage: Annotated[
        str | None, Field(description="the host that keeps them; uploads share cards and links with the records")
    ] = None
    storage_mbps: Annotated[
        float | None, Field(gt=0, le=10**9, description="what the storage itself takes, of all uploads together")
    ] = None
    sync_ms: Annotated[
        float, Field(ge=0, le=10**7, description="CPU of a task that its checkpoint takes, whatever it holds")
    ] = 1.0
    sync_ns_per_byte: Annotated[
        float, Field(ge=0, le=10**6, description="and for each byte of state that is uploaded")
    ] = 0.0
    async_ms: Annotated[
        float,
        Field(
            ge=0,
            le=10**10,
            exclude_if=lambda async_ms: async_ms == 0.0,
            description="time of each task's upload, whatever its size, while the task goes on (files, round trips)",
        ),
    ] = 0.0
    timeout_s: Annotated[float, Field(ge=1e-3, le=10**7, description="after which a checkpoint is given up")] = 600.0
    tolerated_failures: Annotated[
        int | None,
        Field(
            ge=0,
            le=10**6,
            exclude_if=lambda count: count is None,
            description="checkpoints in a row that may time out; one more restarts the job; absent: any number",
        ),
    ] = None
    concurrent: Annotated[
        int,
        Field(ge=1, le=1000, exclude_if=lambda count: count == 1, description="aligned ones under way at a time"),
    ] = 1
    min_pause_s: Annotated[Seconds, Field(description="from the end of a checkpoint to the next, at least")] = 0.0
    sinks: Annotated[
        Literal["at-least-once", "exactly-once"],
        Field(description="exactly-once: results are seen when the checkpoint after them is complete"),
    ] = "at-least-once"
    failover: Annotated[
        Literal["region", "full"],
        Field(description="what a failure restarts: all that is connected with a task on the host, or the whole job"),
    ] = "region"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.aligned_timeout_s is not None and self.mode == "aligned":
            raise ValueError(
                f"aligned_timeout_s ({self.aligned_timeout_s:g}) is when aligned barriers begin to overtake, which "
                "only mode=unaligned lets them; set it, or leave aligned_timeout_s out"
            )
        if self.sync_ms + self.async_ms >= 1000.0 * self.timeout_s:
            raise ValueError(
                f"a task's part takes sync_ms ({self.sync_ms:g}) and async_ms ({self.async_ms:g}), and a checkpoint is "
                f"given up after timeout_s ({self.timeout_s:g}), so none is ever complete; give a longer timeout_s"
            )
        if self.concurrent > 1 and self.mode == "unaligned":
            raise ValueError(
                f"concurrent is {self.concurrent}, and unaligned checkpoints are taken one at a time, as in Flink; "
                "take concurrent=1, or mode=aligned"
            )
        if self.concurrent > 1 and self.min_pause_s > 0.0:
            raise ValueError(
                f"concurrent is {self.concurrent} and min_pause_s {self.min_pause_s:g}, a pause between checkpoints; "
                "take concurrent=1, or min_pause_s=0"
            )
        return self

    def phases_s(self, at: np.ndarray) -> np.ndarray:
        """Starts of the first checkpoint, in seconds, at these numbers between 0 and 1, which chance draws evenly."""
        if self.first_s is not None:
            return np.full_like(at, self.first_s)
        least_s = min(self.min_pause_s, self.interval_s)
        return np.asarray(least_s + at * (self.interval_s - least_s))

    def first_of_s(self, seed: int) -> float:
        """Start of the first checkpoint of the run with that seed, in seconds."""
        return float(self.phases_s(random_stream(seed, "checkpoints").random(1))[0])


def check_checkpoints(spec: Checkpoints, deployment: Deployment) -> None:
    """Raises ValueError, with the remedy, if a deployment cannot have these checkpoints."""
    hosts = [host.name for host in deployment.cluster.hosts]
    if spec.storage is not None:
        if spec.storage not in hosts:
            raise ValueError(f"checkpoints.storage: unknown host {spec.storage!r}; {suggest(spec.storage, hosts)}")
        used = deployment.plan.hosts(*deployment.plan.placement)
        ways = [(host, spec.storage) for host in sorted(used) if host != spec.storage]
        deployment.cluster.require_routes([*ways, *((end, start) for start, end in ways)], "checkpoints.storage")
    for operator in deployment.query.operators:
        if spec.sinks == "exactly-once" and operator.is_sink and not isinstance(operator.mechanism, Collecting):
            raise ValueError(
                f"checkpoints.sinks: {operator.name!r} ({operator.kind}) writes at once, takes nothing back; make it "
                "a sink, or take at-least-once"
            )
        if any(deployment.query.partitioning(stream).one_queue for stream in deployment.query.inputs(operator.name)):
            raise ValueError(
                f"checkpoints: the subtasks of {operator.name!r} share one queue, through which no barrier goes; "
                "use rebalance"
            )
