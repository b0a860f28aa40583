"""What happens to a running job: timed events of a scenario, and the moves that a controller may order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from twin.chaining import together
from twin.deployment import Deployment
from twin.errors import suggest
from twin.event_migrations import Strategy
from twin.event_time_events import (
    Combine,
    Repartition,
    Split,
    check_timed_events,
    check_timed_move,
    check_timed_rescale,
)
from twin.plan import Location, Replicas
from twin.query import AnyOperator, Windowed
from twin.spec import Spec
from twin.timed import Timed

Factor = Annotated[float, Field(ge=1e-6, le=10**6)]
Duration = Annotated[float, Field(ge=1e-6, le=10**7, description="simulated seconds")]


class Move(Spec):
    """One replica to another place, or key groups to another replica of their operator (`to_replica`) or place (`to`).

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
    """An operator's new replicas. Those at places that stay are kept; the others are added or taken away."""

    operator: str
    placement: Replicas

    @property
    def locations(self) -> tuple[Location, ...]:
        """One a replica."""
        return tuple(map(Location.parse, self.placement))


class RateChange(Timed):
    """From now on a source's tuples arrive `factor` times as fast as by its law, or at `rate_per_s` on average."""

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
    """All CPU work on a host takes `factor` times as long: a noisy neighbour, thermal throttling."""

    kind: Literal["slow-down"] = "slow-down"
    host: str
    factor: Annotated[float, Field(ge=1, le=10**6)]
    duration_s: Annotated[Duration | None, Field(description="absent: until the end")] = None


class Failure(Timed):
    """A host dies and the whole job stops; it starts again from the last checkpoint `recover_after_s` later."""

    kind: Literal["failure"] = "failure"
    host: str
    recover_after_s: Annotated[
        Duration | None, Field(description="detection and restart together; absent: the host never comes back")
    ] = None


class LinkDegradation(Timed):
    """A host's network card, or a link of the cluster, gets slower, its latency longer."""

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
        """For the trace."""
        return self.host or " - ".join(self.link or ())


class Skew(Timed):
    """Key groups of an operator get `factor` times the part of its tuples, against the others, that they began with."""

    kind: Literal["skew"] = "skew"
    operator: str
    key_groups: Annotated[tuple[int, ...], Field(min_length=1, description="counted from 0")]
    factor: Factor
    over_s: Annotated[Duration | None, Field(description="reached in ten steps within that time; absent: at once")] = (
        None
    )


class Migration(Timed, Move):
    """A move at a given time."""

    kind: Literal["migration"] = "migration"


class Scale(Timed, Rescale):
    """A scale-out or scale-in at a given time."""

    kind: Literal["scale"] = "scale"


AnyEvent = RateChange | Skew | SlowDown | Failure | LinkDegradation | Migration | Scale | Repartition | Split | Combine
Event = Annotated[AnyEvent, Field(discriminator="kind")]


def check_events(events: Iterable[AnyEvent], deployment: Deployment) -> None:
    """Raises ValueError, naming the event and the nearest known name, if one does not fit the deployment."""
    events = tuple(events)
    rescaled = {event.operator for event in events if isinstance(event, Scale)}
    for index, event in enumerate(events):
        where = f"events.{index} ({event.kind})"
        match event:
            case RateChange():
                _known(where, "source", event.source, (each.name for each in deployment.query.sources))
            case SlowDown() | Failure():
                _known(where, "host", event.host, (each.name for each in deployment.cluster.hosts))
                if isinstance(event, Failure):
                    _no_shared_queue(where, [each.name for each in deployment.query.operators], deployment)
            case LinkDegradation():
                _check_link(where, event, deployment)
            case Migration():
                check_move(event, deployment, where, None if event.operator in rescaled else deployment.plan.placement)
            case Scale():
                check_rescale(event, deployment, where)
            case Skew():
                _check_skew(where, event, deployment)
            case Repartition() | Split() | Combine():
                _operator(where, event.operator, deployment)
    check_timed_events(events, deployment)


def check_move(move: Move, deployment: Deployment, where: str, placement: Mapping[str, tuple[str, ...]] | None) -> None:
    """Raises ValueError if a move does not fit. `placement`: the replicas there are; None if not yet known."""
    operator = _operator(where, move.operator, deployment)
    replicas = len(placement[move.operator]) if placement is not None else None
    for name, replica in (("replica", move.replica), ("to_replica", move.to_replica)):
        if replica is not None and replicas is not None and replica >= replicas:
            raise ValueError(f"{where}: {move.operator!r} has no {name} {replica}; it has {replicas}, counted from 0")
    check_timed_move(deployment.query, move.operator, move.replica, move.strategy, where)
    starts = deployment.plan.locations(move.operator)
    if move.to is not None:
        _location(where, move.to, deployment)
        _no_limits(where, deployment)
        replica = move.replica or 0
        starts = (starts[replica if replica < len(starts) else 0], Location.parse(move.to))
    _routes(where, starts, deployment)
    _no_shared_queue(where, [move.operator], deployment)
    if move.key_groups:
        obstacle = scaling_obstacle(move.operator, deployment) if move.to is not None else ""
        if obstacle:
            raise ValueError(f"{where}: {obstacle}")
        if any(deployment.query.partitioning(each).two_choices for each in deployment.query.inputs(move.operator)):
            raise ValueError(f"{where}: {move.operator!r} is fed by two choices, which spread its key groups; use hash")
        groups = getattr(operator, "key_groups", None)
        if groups is None:
            raise ValueError(
                f"{where}: {move.operator!r} has no key groups; give the operator key_groups, or move a replica"
            )
        if max(move.key_groups) >= groups:
            raise ValueError(
                f"{where}: {move.operator!r} has no key group {max(move.key_groups)}; it has {groups}, counted from 0"
            )


def check_rescale(rescale: Rescale, deployment: Deployment, where: str) -> None:
    """Raises ValueError if an operator cannot be scaled that way."""
    operator = _operator(where, rescale.operator, deployment)
    for text in rescale.placement:
        _location(where, text, deployment)
    obstacle = scaling_obstacle(operator.name, deployment)
    if obstacle:
        raise ValueError(f"{where}: {obstacle}")
    check_timed_rescale(deployment.query, operator.name, where)
    groups = getattr(operator, "key_groups", None)
    if groups is not None and groups < len(rescale.placement):
        raise ValueError(
            f"{where}: {operator.name!r} has {groups} key groups for {len(rescale.placement)} replicas, so some would "
            "be idle; give it more key_groups or fewer replicas"
        )
    _no_limits(where, deployment)
    _routes(where, [*deployment.plan.locations(operator.name), *rescale.locations], deployment)


def scaling_obstacle(name: str, deployment: Deployment) -> str:
    """Why an operator cannot be scaled while it runs, with the remedy; empty if it can."""
    query = deployment.query
    operator, group = query.operator(name), together(name, deployment)
    if operator.is_source:
        return f"{name!r} is a source, whose replicas read fixed partitions; scale what comes after it"
    for stream in query.inputs(group[0]):
        how = query.partitioning(stream)
        if how.fixes_replicas:
            return f"{name!r} is fed by a {how} stream, which fixes its replicas; use rebalance or hash"
    for stream in query.outputs(group[-1]):
        how = query.partitioning(stream)
        if how.paired:
            return f"{name!r} feeds a {how} stream, which needs equal replicas; use rebalance or hash"
    for each in map(query.operator, group):
        if isinstance(each, Windowed) and not each.keyed:
            why = f"{each.name!r} aggregates all tuples without a key, in one window a replica"
            return f"{why}; give it group_by to scale it"
    return ""


def _check_link(where: str, event: LinkDegradation, deployment: Deployment) -> None:
    if event.host is not None:
        _known(where, "host", event.host, (each.name for each in deployment.cluster.hosts))
        if deployment.cluster.links and event.latency_factor != 1.0:
            raise ValueError(f"{where}: with links, host {event.host!r} has no latency of its own; name a link instead")
    if event.link is not None:
        links = [" - ".join(ends) for link in deployment.cluster.links for ends in (link.between, link.between[::-1])]
        _known(where, "link", event.component, links)


def _check_skew(where: str, event: Skew, deployment: Deployment) -> None:
    groups = getattr(_operator(where, event.operator, deployment), "key_groups", None)
    if groups is None:
        raise ValueError(f"{where}: {event.operator!r} has no key groups; give the operator key_groups")
    for group in event.key_groups:
        if not 0 <= group < groups:
            raise ValueError(f"{where}: {event.operator!r} has no key group {group}; it has {groups}, counted from 0")
    if event.operator in deployment.workload.keys:
        raise ValueError(
            f"{where}: workload.keys has a skew of {event.operator!r} already; leave that out, or the event"
        )


def _no_shared_queue(where: str, operators: Iterable[str], deployment: Deployment) -> None:
    for name in operators:
        if any(deployment.query.partitioning(each).one_queue for each in deployment.query.inputs(name)):
            raise ValueError(f"{where}: the replicas of {name!r} share one queue, which cannot move; use rebalance")


def _no_limits(where: str, deployment: Deployment) -> None:
    hosts = deployment.cluster.hosts
    sockets = any(socket.bandwidth_gbps is not None for host in hosts for socket in host.sockets)
    channels = any(host.numa is not None and host.numa.bandwidth_gbps is not None for host in hosts)
    if sockets or channels or deployment.engine.context_switch > 0.0:
        raise ValueError(
            f"{where}: replicas cannot come, go or move where bandwidth_gbps of sockets or numa, or context_switch of "
            "the engine, are given, which hold for the tasks of the plan; leave those out"
        )


def _routes(where: str, places: Sequence[Location], deployment: Deployment) -> None:
    """State must find a way from the first place to the others; tuples then do too."""
    deployment.cluster.require_routes(((places[0].host, place.host) for place in places), where)


def _operator(where: str, name: str, deployment: Deployment) -> AnyOperator:
    _known(where, "operator", name, (each.name for each in deployment.query.operators))
    group = together(name, deployment)
    if group[0] != name:
        raise ValueError(f"{where}: {name!r} runs as one with {group[0]!r} and goes where that goes; name {group[0]!r}")
    return deployment.query.operator(name)


def _location(where: str, text: str, deployment: Deployment) -> None:
    location = Location.parse(text)
    _known(where, "host", location.host, (each.name for each in deployment.cluster.hosts))
    sockets = deployment.cluster.host(location.host).socket_count
    if location.socket >= sockets:
        raise ValueError(f"{where}: host {location.host!r} has no socket {location.socket}; it has {sockets}, from 0")


def _known(where: str, what: str, name: str, names: Iterable[str]) -> None:
    known = tuple(names)
    if name not in known:
        raise ValueError(f"{where}: unknown {what} {name!r}; {suggest(name, known)}")
