"""Checks that events and moves fit a deployment: the parts that they name exist, and the engine can do it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import permutations

from twin import events as timed
from twin.chaining import Fused, fused
from twin.deployment import Deployment
from twin.errors import suggest
from twin.events import (
    AnyEvent,
    Failure,
    LinkDegradation,
    Migration,
    Move,
    RateChange,
    Rescale,
    Scale,
    Skew,
    SlowDown,
)
from twin.kinds.mechanism import Collecting, Selecting
from twin.plan import Location
from twin.query import AnyOperator, Stream, Windowed
from twin.workload import group_count, readers

LIVE = "set engine.rescaling=live"
CHANGES = Migration | Scale
SUBTASKS = ("subtask", "to_subtask", "owners")


def check_events(events: Iterable[AnyEvent], deployment: Deployment) -> None:
    """Raises ValueError, naming the event and the nearest known name, if one does not fit the deployment."""
    events = tuple(events)
    lost: set[str] = set()
    rescaled = {event.operator for event in events if isinstance(event, Scale)}
    for index, event in enumerate(events):
        where = timed.told_event(index, event)
        match event:
            case RateChange():
                _known(where, "source", event.source, (source.name for source in deployment.query.sources))
            case SlowDown() | Failure():
                _known(where, "host", event.host, (host.name for host in deployment.cluster.hosts))
                if isinstance(event, Failure):
                    _no_shared_queue(where, [operator.name for operator in deployment.query.operators], deployment)
                    lost |= {event.host} if event.lost else set()
                    _check_lost(where, event, lost, deployment)
            case LinkDegradation():
                _check_link(where, event, deployment)
            case Migration():
                check_move(event, deployment, where, None if event.operator in rescaled else deployment.plan.placement)
            case Scale():
                check_rescale(event, deployment, where, _beside(event, events))
            case Skew():
                _check_skew(where, event, deployment)
            case timed.Repartition() | timed.Split() | timed.Combine():
                _operator(where, event.operator, deployment)
                if deployment.engine.rescaling.stops:
                    raise ValueError(f"{where}: {_restarts(deployment)} which moves no component by itself; {LIVE}")
    timed.check_timed_events(events, deployment)


def check_pending(events: Iterable[AnyEvent], decides: bool, checkpoints: bool, deployment: Deployment) -> None:
    """Raises ValueError, with the remedy, if records of a source may be taken back, so that it is not known how many of
    them are not handled. decides: whether a policy changes the plan."""
    stops = deployment.engine.rescaling.stops
    changes = [event.kind for event in events if isinstance(event, Failure) or (stops and isinstance(event, CHANGES))]
    back = "checkpoints" if checkpoints else f"a {changes[0]}" if changes else "a policy" if decides and stops else ""
    if back:
        raise ValueError(
            f"engine.max_spout_pending is {deployment.engine.max_spout_pending}, and {back} may take records of "
            "sources back, of which nothing is known then; leave one of both out"
        )


def naming_subtasks(events: Iterable[AnyEvent]) -> set[str]:
    """Operators of which an event names single subtasks, so that another number of subtasks might not fit. Scaled
    operators are left out, since the plan does not say which subtasks they have then."""
    events = tuple(events)
    named = (each for each in events if any(getattr(each, part, None) is not None for part in SUBTASKS))
    return {getattr(each, "operator", "") for each in named} - {
        each.operator for each in events if isinstance(each, Scale)
    }


def check_move(move: Move, deployment: Deployment, where: str, placement: Mapping[str, tuple[str, ...]] | None) -> None:
    """Raises ValueError if a move does not fit. `placement`: the subtasks that there are; None if not yet known."""
    _operator(where, move.operator, deployment)
    parallelism = len(placement[move.operator]) if placement is not None else None
    for subtask in (move.subtask, move.to_subtask):
        if subtask is not None and parallelism is not None and subtask >= parallelism:
            raise ValueError(
                f"{where}: {move.operator!r} has no subtask {subtask}; it has {parallelism}, counted from 0"
            )
    _restartable(where, deployment)
    stops = deployment.engine.rescaling.stops
    if stops and move.strategy is not None:
        raise ValueError(f"{where}: {_restarts(deployment)} without a strategy; leave strategy out, or {LIVE}")
    if not stops:
        timed.check_timed_move(deployment.query, move.operator, move.subtask, move.strategy, where)
    starts = deployment.plan.locations(move.operator)
    if move.to is not None:
        _location(where, move.to, deployment)
        if pinned := pinning(move.operator, deployment):
            raise ValueError(f"{where}: {pinned}")
        _no_limits(where, deployment)
        subtask = move.subtask or 0
        starts = (starts[subtask if subtask < len(starts) else 0], Location.parse(move.to))
        _no_local_stream(where, move.operator, deployment)
    _routes(where, starts, deployment)
    _no_shared_queue(where, [move.operator], deployment)
    if move.key_groups:
        obstacle = scaling_obstacle(move.operator, deployment) if move.to is not None else ""
        if obstacle:
            raise ValueError(f"{where}: {obstacle}")
        if any(deployment.query.partitioning(stream).two_choices for stream in deployment.query.inputs(move.operator)):
            raise ValueError(f"{where}: {move.operator!r} is fed by two choices, which spread its key groups; use hash")
        groups = group_count(deployment.query, move.operator, deployment.plan.parallelism(move.operator))
        if groups is None:
            raise ValueError(
                f"{where}: {move.operator!r} has no key groups; give the operator key_groups, or move a subtask"
            )
        if max(move.key_groups) >= groups:
            raise ValueError(
                f"{where}: {move.operator!r} has no key group {max(move.key_groups)}; it has {groups}, counted from 0"
            )


def check_rescale(rescale: Rescale, deployment: Deployment, where: str, beside: Set[str] = frozenset()) -> None:
    """Raises ValueError if an operator cannot be scaled that way. beside: operators that get as many subtasks at the
    same time."""
    operator = _operator(where, rescale.operator, deployment)
    _restartable(where, deployment)
    for text in rescale.placement:
        _location(where, text, deployment)
    obstacle = scaling_obstacle(operator.name, deployment, beside)
    if obstacle:
        raise ValueError(f"{where}: {obstacle}")
    if not deployment.engine.rescaling.stops:
        timed.check_timed_rescale(deployment.query, operator.name, where)
    if operator.is_source:
        readers(operator, len(rescale.placement), deployment.workload.arrivals[operator.name])
    groups = group_count(deployment.query, operator.name, len(rescale.placement))
    if groups is not None and groups < len(rescale.placement):
        raise ValueError(
            f"{where}: {operator.name!r} has {groups} key groups for {len(rescale.placement)} subtasks, so some would "
            "be idle; give it more key_groups or fewer subtasks"
        )
    _no_limits(where, deployment)
    _routes(where, [*deployment.plan.locations(operator.name), *rescale.locations], deployment)


def pinning(name: str, deployment: Deployment) -> str:
    """Reason why an operator's subtasks stay where the plan has them, with the remedy; empty unless it, or an operator
    that is chained to it, is pinned."""
    for each in together(name, deployment):
        if deployment.query.operator(each).pinned:
            what = f"{each!r} is pinned" if each == name else f"{name!r} runs as one with {each!r}, which is pinned"
            return f"{what}, so its subtasks stay where the plan has them; leave out its pinned: true to change that"
    return ""


def scaling_obstacle(name: str, deployment: Deployment, beside: Set[str] = frozenset()) -> str:
    """Reason why an operator cannot be scaled while it runs, with the remedy; empty if it can. beside: operators that
    get as many subtasks at the same time."""
    query = deployment.query
    operator, group = query.operator(name), together(name, deployment)
    if pinned := pinning(name, deployment):
        return pinned
    if operator.is_source and deployment.engine.rescaling.how != "restart":
        return (
            f"{name!r} is a source, whose subtasks read fixed partitions, which only a restart with a savepoint deals "
            "anew; set engine.rescaling=restart, or scale what comes after it"
        )
    for stream in query.inputs(group[0]):
        how = query.partitioning(stream)
        if how.fixes_subtasks and not (pairs_anew(stream, deployment) and _head(stream, deployment) in beside):
            remedy = _alike(_head(stream, deployment), stream, deployment)
            return f"{name!r} is fed by a {how} stream, which fixes its subtasks; {remedy}use rebalance or hash"
    for stream in (each for member in group for each in query.outputs(member) if each.consumer not in group):
        how = query.partitioning(stream)
        if how.paired and stream.consumer in beside and pairs_anew(stream, deployment):
            continue
        if how.paired:
            remedy = _alike(stream.consumer, stream, deployment)
            return f"{name!r} feeds a {how} stream, which needs equal subtasks; {remedy}use rebalance or hash"
        if how.pointwise:
            return f"{name!r} feeds a {how} stream, which is wired for its number of subtasks; use rebalance or hash"
        if how.near:
            return f"{name!r} feeds a {how} stream, which is wired for the hosts of the plan; use rebalance or hash"
    for each in map(query.operator, group):
        if isinstance(each, Windowed) and not each.keyed:
            why = f"{each.name!r} aggregates all records without a key, in one window a subtask"
            return f"{why}; give it group_by to scale it"
    return ""


def pairs_anew(stream: Stream, deployment: Deployment) -> bool:
    """Whether a restart may lead a forward stream anew, from each subtask to that of the same number: into filters,
    maps and sinks, which keep nothing."""
    query, consumer = deployment.query, stream.consumer
    keyed = group_count(query, consumer, deployment.plan.parallelism(consumer)) is not None
    passes = isinstance(query.operator(consumer).mechanism, Selecting | Collecting) and not keyed
    return query.partitioning(stream).paired and deployment.engine.rescaling.stops and passes


def _head(stream: Stream, deployment: Deployment) -> str:
    """Operator that stands for the task of a stream's producer."""
    return together(stream.producer, deployment)[0]


def _alike(other: str, stream: Stream, deployment: Deployment) -> str:
    """Remedy for one end of a forward stream that is scaled without the other, if both may be."""
    return f"scale {other!r} alike at the same time, or " if pairs_anew(stream, deployment) else ""


def _beside(event: Scale, events: Iterable[AnyEvent]) -> Set[str]:
    """Operators that get as many subtasks as that of an event, at the same time."""
    others = (each for each in events if isinstance(each, Scale) and each.at_s == event.at_s)
    return {each.operator for each in others if len(each.placement) == len(event.placement)}


def together(name: str, deployment: Deployment) -> Fused:
    """Operators with which one is chained, itself among them; if it is not chained, itself alone."""
    groups = fused(deployment.query, deployment.plan, deployment.engine)
    return next((group for group in groups if name in group), (name,))


def _check_link(where: str, event: LinkDegradation, deployment: Deployment) -> None:
    if event.host is not None:
        _known(where, "host", event.host, (host.name for host in deployment.cluster.hosts))
        if deployment.cluster.links and event.latency_factor != 1.0:
            raise ValueError(f"{where}: with links, host {event.host!r} has no latency of its own; name a link instead")
    if event.link is not None:
        links = [" - ".join(ends) for link in deployment.cluster.links for ends in (link.between, link.between[::-1])]
        _known(where, "link", event.component, links)


def _check_lost(where: str, event: Failure, lost: Set[str], deployment: Deployment) -> None:
    """Raises ValueError if the subtasks of a lost host cannot go to others. lost: all hosts that do not come back."""
    if not event.lost:
        return
    others = [host.name for host in deployment.cluster.hosts if host.name not in lost]
    if not others:
        raise ValueError(f"{where}: no host is left for the subtasks of {event.host!r}; leave lost out")
    for operator in deployment.query.operators:
        if operator.pinned and any(place.host == event.host for place in deployment.plan.locations(operator.name)):
            raise ValueError(
                f"{where}: {operator.name!r} is pinned to {event.host!r}, and no other host can take it; leave lost out"
            )
    _no_limits(where, deployment)
    deployment.cluster.require_routes(permutations(others, 2), where)


def _check_skew(where: str, event: Skew, deployment: Deployment) -> None:
    _operator(where, event.operator, deployment)
    groups = group_count(deployment.query, event.operator, deployment.plan.parallelism(event.operator))
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
        if any(deployment.query.partitioning(stream).one_queue for stream in deployment.query.inputs(name)):
            raise ValueError(f"{where}: the subtasks of {name!r} share one queue, which cannot move; use rebalance")


def _restartable(where: str, deployment: Deployment) -> None:
    if deployment.engine.rescaling.stops:
        _no_shared_queue(where, [operator.name for operator in deployment.query.operators], deployment)


def _restarts(deployment: Deployment) -> str:
    return f"engine {deployment.engine.name!r} changes the plan by a restart,"


def _no_local_stream(where: str, name: str, deployment: Deployment) -> None:
    for stream in (*deployment.query.inputs(name), *deployment.query.outputs(name)):
        how = deployment.query.partitioning(stream)
        if how.near:
            raise ValueError(
                f"{where}: the stream {stream.producer} -> {stream.consumer} is {how}, which is wired for the hosts of "
                f"the plan, so {name!r} cannot move; use rebalance"
            )


def _no_limits(where: str, deployment: Deployment) -> None:
    hosts = deployment.cluster.hosts
    sockets = any(socket.bandwidth_gbps is not None for host in hosts for socket in host.sockets)
    channels = any(host.numa is not None and host.numa.bandwidth_gbps is not None for host in hosts)
    if sockets or channels or deployment.engine.context_switch > 0.0:
        raise ValueError(
            f"{where}: subtasks cannot come, go or move where bandwidth_gbps of sockets or numa, or context_switch of "
            "the engine, are given, which hold for the tasks of the plan; leave those out"
        )


def _routes(where: str, places: Sequence[Location], deployment: Deployment) -> None:
    """Raises ValueError unless state finds a way from the first place to the others; records then do too."""
    deployment.cluster.require_routes(((places[0].host, place.host) for place in places), where)


def _operator(where: str, name: str, deployment: Deployment) -> AnyOperator:
    _known(where, "operator", name, (operator.name for operator in deployment.query.operators))
    group = together(name, deployment)
    if group[0] != name:
        raise ValueError(f"{where}: {name!r} runs as one with {group[0]!r} and goes where that goes; name {group[0]!r}")
    return deployment.query.operator(name)


def _location(where: str, text: str, deployment: Deployment) -> None:
    location = Location.parse(text)
    _known(where, "host", location.host, (host.name for host in deployment.cluster.hosts))
    sockets = deployment.cluster.host(location.host).socket_count
    if location.socket >= sockets:
        raise ValueError(f"{where}: host {location.host!r} has no socket {location.socket}; it has {sockets}, from 0")


def _known(where: str, what: str, name: str, names: Iterable[str]) -> None:
    known = tuple(names)
    if name not in known:
        raise ValueError(f"{where}: unknown {what} {name!r}; {suggest(name, known)}")
