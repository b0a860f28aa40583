"""Events of a running job, as scenarios list them, and the moves that a controller may order."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from twin.event_time_events import Combine, Repartition, Split, Strategy, Timed
from twin.plan import Location, Replicas
from twin.spec import Spec

Factor = Annotated[float, Field(ge=1e-6, le=10**6)]
Duration = Annotated[float, Field(ge=1e-6, le=10**7, description="simulated seconds")]


class Move(Spec):
    """Moves one replica to another place, or key groups to another replica of their operator (`to_replica`) or place
    (`to`).

    Key groups that move to a place go to the operator's first replica there; one is made if there is none.
    """

    operator: str
    replica: Annotated[int | None, Field(ge=0, description="which replica moves, counted from 0")] = None
    to: Annotated[
        str | None, Field(description="'host' or 'host/socket' that the replica, or the key groups, move to")
    ] = None
    key_groups: Annotated[tuple[int, ...], Field(description="which key groups move, counted from 0")] = ()
    to_replica: Annotated[int | None, Field(ge=0, description="the replica that gets the key groups")] = None
    strategy: Annotated[
        Strategy | None,
        Field(
            exclude_if=lambda strategy: strategy is None,
            description="of key groups of an operator over event time; absent: the one that costs least",
        ),
    ] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.replica is None) == (not self.key_groups):
            raise ValueError(f"move of {self.operator!r}: give either replica or key_groups")
        if self.replica is not None and (self.to is None or self.to_replica is not None):
            raise ValueError(
                f"move of {self.operator!r}: a replica moves to a place; give 'to: HOST' and no to_replica"
            )
        if self.key_groups and (self.to_replica is None) == (self.to is None):
            raise ValueError(
                f"move of {self.operator!r}: key groups move to a replica or a place; give to_replica or to"
            )
        for group in self.key_groups:
            if group < 0 or self.key_groups.count(group) > 1:
                raise ValueError(f"move of {self.operator!r}: key group {group} must be >= 0 and listed once")
        return self


class Rescale(Spec):
    """Gives an operator other replicas. Those at places that stay are kept; the others are added or taken away."""

    operator: str
    placement: Replicas

    @property
    def locations(self) -> tuple[Location, ...]:
        """Places of the new replicas."""
        return tuple(map(Location.parse, self.placement))


class RateChange(Timed):
    """Makes a source's tuples arrive `factor` times as fast as by its law, or at `rate_per_s` on average, from now
    on."""

    kind: Literal["rate-change"] = "rate-change"
    source: str
    factor: Factor | None = None
    rate_per_s: Annotated[float | None, Field(ge=1e-9, le=10**9)] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.factor is None) == (self.rate_per_s is None):
            raise ValueError(f"rate-change of {self.source!r}: give either factor or rate_per_s")
        return self


class SlowDown(Timed):
    """Makes all CPU work on a host take `factor` times as long: a noisy neighbour, thermal throttling."""

    kind: Literal["slow-down"] = "slow-down"
    host: str
    factor: Annotated[float, Field(ge=1, le=10**6)]
    duration_s: Annotated[Duration | None, Field(description="absent: until the end")] = None


class Failure(Timed):
    """Kills a host, so that the whole job stops; it starts again from the last checkpoint `recover_after_s` later."""

    kind: Literal["failure"] = "failure"
    host: str
    recover_after_s: Annotated[
        Duration | None,
        Field(
            description="detection and restart together; absent: the host never comes back, and the job waits for it"
        ),
    ] = None
    lost: Annotated[
        bool,
        Field(
            exclude_if=lambda lost: not lost,
            description="the host never comes back, and its subtasks start again on the others",
        ),
    ] = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.lost and self.recover_after_s is None:
            raise ValueError(
                f"failure of {self.host!r}: lost needs the time until its subtasks run elsewhere; give recover_after_s"
            )
        return self


class LinkDegradation(Timed):
    """Makes a host's network card, or a link of the cluster, slower and its latency longer."""

    kind: Literal["link-degradation"] = "link-degradation"
    host: Annotated[str | None, Field(description="its network card: all that leaves it")] = None
    link: Annotated[
        tuple[str, str] | None, Field(description="both directions of the link between these two nodes")
    ] = None
    bandwidth_factor: Factor = 1.0
    latency_factor: Factor = 1.0
    duration_s: Annotated[Duration | None, Field(description="absent: until the end")] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.host is None) == (self.link is None):
            raise ValueError("link-degradation: give either host (its network card) or link")
        if self.bandwidth_factor == self.latency_factor == 1.0:
            raise ValueError(
                "link-degradation: both factors are 1, so nothing changes; give bandwidth_factor or latency_factor"
            )
        return self

    @property
    def component(self) -> str:
        """Name of the card's host, or of the link, for the trace."""
        return self.host or " - ".join(self.link or ())


class Skew(Timed):
    """Multiplies the initial shares of key groups in an operator's tuples by `factor`, relative to the others."""

    kind: Literal["skew"] = "skew"
    operator: str
    key_groups: Annotated[tuple[int, ...], Field(min_length=1, description="counted from 0")]
    factor: Factor
    over_s: Annotated[Duration | None, Field(description="reached in ten steps within that time; absent: at once")] = (
        None
    )


class Migration(Timed, Move):
    """Move at a given time."""

    kind: Literal["migration"] = "migration"


class Scale(Timed, Rescale):
    """Scale-out or scale-in at a given time."""

    kind: Literal["scale"] = "scale"


AnyEvent = RateChange | Skew | SlowDown | Failure | LinkDegradation | Migration | Scale | Repartition | Split | Combine
Event = Annotated[AnyEvent, Field(discriminator="kind")]
