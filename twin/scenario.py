"""Scenarios: a deployment, the events of its run, and the run settings. A scenario file holds one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from twin.checkpoints import Checkpoints, check_checkpoints
from twin.control import AnyPolicy, Policy, PolicySpec
from twin.deployment import Deployment
from twin.event_checks import check_events, check_pending
from twin.events import AnyEvent, Event
from twin.overrides import put
from twin.retired import RETIRED, told_retired
from twin.spec import Spec, parse


class RunSettings(Spec):
    """Settings of a run: how long, how fine, and with which random numbers a deployment is simulated."""

    horizon_s: Annotated[float, Field(ge=1e-3, le=10**7, description="simulated seconds")] = 240.0
    warmup_s: Annotated[float, Field(ge=0, description="simulated seconds left out of all metrics")] = 0.0
    period_s: Annotated[float, Field(ge=1e-6, description="length of one row of statistics")] = 10.0
    precision: Annotated[
        float | None,
        Field(
            ge=1e-4,
            le=0.5,
            exclude_if=lambda precision: precision is None,
            description="the run ends before its horizon once throughput and latencies are known to such a share, "
            "with 95 % confidence; absent: at its horizon",
        ),
    ] = None
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = 0
    checkpoint_interval_s: Annotated[
        float, Field(ge=1e-3, le=10**7, description="between checkpoints, from which a failed job starts again")
    ] = 10.0
    decision_latency_s: Annotated[
        float, Field(ge=0, le=10**7, description="from the end of a period until a policy's decision is carried out")
    ] = 0.0
    noise: Annotated[
        bool, Field(description="false: no variability of services, no pauses, no jitter; arrivals keep theirs")
    ] = True

    @model_validator(mode="before")
    @classmethod
    def _without_retired(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or not told_retired(data):
            return data
        return {name: value for name, value in data.items() if name not in RETIRED}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.warmup_s >= self.horizon_s:
            raise ValueError(f"warmup_s must be < horizon_s ({self.horizon_s}), got {self.warmup_s}")
        return self


class Scenario(Deployment):
    """Deployment with a name, run settings, and what happens while it runs. `with_...` gives another scenario."""

    name: Annotated[str, Field(min_length=1)] = "scenario"
    description: str = ""
    run: RunSettings = RunSettings()
    events: tuple[Event, ...] = ()
    policy: AnyPolicy | None = None
    checkpoints: Annotated[
        Checkpoints | None,
        Field(
            exclude_if=lambda checkpoints: checkpoints is None,
            description="absent: they cost nothing, come every run.checkpoint_interval_s, and a failure restarts all",
        ),
    ] = None

    @model_validator(mode="after")
    def _check_events(self) -> Self:
        check_events(self.events, self)
        if self.checkpoints is not None:
            check_checkpoints(self.checkpoints, self)
        if self.engine.max_spout_pending is not None:
            check_pending(self.events, self.policy is not None, self.checkpoints is not None, self)
        return self

    @property
    def deployment(self) -> Deployment:
        """Deployment of the scenario, without run settings and events."""
        return Deployment(**{field: getattr(self, field) for field in Deployment.model_fields})

    @classmethod
    def of(cls, deployment: Deployment, run: RunSettings | None = None, events: Sequence[AnyEvent] = ()) -> Self:
        """Makes a scenario of a deployment with these settings and events; of a scenario, settings that are not given
        stay.

        Raises BadInput if an event does not fit the job.
        """
        given = {"run": run, "events": tuple(events)}
        return parse(cls, {**dict(deployment), **{name: value for name, value in given.items() if value}})

    def with_run(self, **settings: Any) -> Self:
        """Scenario under other run settings, such as `horizon_s=60`. Raises BadInput for settings that cannot be."""
        return self.model_copy(update={"run": parse(RunSettings, {**dict(self.run), **settings}, "run")})

    def with_events(self, *events: AnyEvent) -> Self:
        """Scenario with these events instead of its own. Raises BadInput if one does not fit the job."""
        return parse(type(self), {**dict(self), "events": events})

    def with_set(self, path: str, value: Any) -> Self:
        """Scenario with one value replaced, by its path as for `--set`: `with_set("cluster.hosts.edge-1.cpu_percent",
        200)`. Raises BadInput if the path leads nowhere, or if the result is not valid."""
        return put(self, path, value, "with_set")

    def with_policy(self, policy: PolicySpec | str | None) -> Self:
        """Scenario under another policy, or none. Raises BadInput for an unknown name."""
        return parse(type(self), {**dict(self), "policy": policy})


def _in_order(places: Any) -> Any:
    """Places of subtasks such that sorting by names keeps their order, by which subtasks own their keys."""
    if isinstance(places, dict) and list(places) != sorted(places):
        return [place for place, count in places.items() for _ in range(count)]
    return places


def config_hash(scenario: Scenario, policy: Policy | None = None) -> str:
    """Hash of all that decides a run except its seed, 16 hex digits; name and description do not count.

    policy: one that takes the place of the scenario's own, known by its name alone.
    """
    said = {*Deployment.model_fields, "run", "events", "policy", "checkpoints"}
    body = scenario.model_dump(mode="json", include=said)
    del body["run"]["seed"]
    body["plan"]["placement"] = {name: _in_order(where) for name, where in body["plan"]["placement"].items()}
    if policy is not None:
        body["policy"] = policy.name
    unsaid = [name for name in ("events", "policy") if not body[name]]
    body = {name: value for name, value in body.items() if name not in unsaid}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]
