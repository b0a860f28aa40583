"""Events of a running job, as scenarios list them, and the moves that a controller decides on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from twin.kinds.mechanism import Selecting
from twin.plan import Location, Subtasks
from twin.query import AnyOperator, Query, in_time
from twin.spec import Spec
from twin.workload import group_count

if TYPE_CHECKING:
    from twin.deployment import Deployment


# over event time -----------------------------------------------------------------------------------------------------
# Events of operators over event time while a job runs, and obstacles to them (Enorm, Table 1, Section 5).
#
# Stateless or stateful, flexible or rigid is derived from the output of an operator and its consumers, not declared. A
# compute whose partial results another component merges is flexible: two of its subtasks may have parts of a key. A
# consolidate keeps nothing that its computes could not send again. An operator that is one component with another
# (`combined`), or emits its own windows, is rigid and stateful.


Strategy = Literal["instant", "disruptive", "smooth"]
_STAYS = "{name} brings event times, and keeps state, which only a restart moves; set engine.rescaling=restart"


class Mobility(NamedTuple):
    """Ability of an operator to migrate. stateful: it holds state that would be lost. flexible: its input may be dealt
    in another way without moving state. strategies: those that it admits, the one that costs least first."""

    stateful: bool
    flexible: bool
    strategies: tuple[Strategy, ...]

    def __str__(self) -> str:
        return f"{'stateful' if self.stateful else 'stateless'} {'flexible' if self.flexible else 'rigid'}"


def mobility(query: Query, name: str, combined: bool) -> Mobility:
    """Ability of an operator to migrate. combined: whether it is one component with its compute or consolidate."""
    operator = query.operator(name)
    if not operator.needs_event_time:
        return Mobility(stateful=False, flexible=True, strategies=("instant",))
    if operator.hands_over in ("records", "results"):  # its state is not in windows
        return Mobility(stateful=True, flexible=False, strategies=("disruptive",))
    if getattr(operator, "late_to", None) is not None:  # a record that goes to both owners may be late at only one
        return Mobility(stateful=True, flexible=False, strategies=("disruptive",))
    if combined or (operator.hands_over == "windows" and not operator.merges):
        return Mobility(stateful=True, flexible=False, strategies=("disruptive", "smooth"))
    if operator.hands_over == "partials":
        return Mobility(stateful=True, flexible=True, strategies=("instant", "disruptive", "smooth"))
    again = all(query.operator(stream.producer).hands_over == "partials" for stream in query.inputs(name))
    return Mobility(
        stateful=not again,
        flexible=False,
        strategies=("instant", "disruptive", "smooth") if again else ("disruptive", "smooth"),
    )


def combined_with(query: Query, name: str) -> str | None:
    """Consolidate that may be one component with a compute, or the compute of such a consolidate; None if none may."""
    operator = query.operator(name)
    if operator.hands_over == "partials":
        behind = query.outputs(name)
        return behind[0].consumer if len(behind) == 1 else None
    if operator.merges:
        producers = [stream.producer for stream in query.inputs(name)]
        one = len(producers) == 1 and query.operator(producers[0]).hands_over == "partials"
        return producers[0] if one and len(query.outputs(producers[0])) == 1 else None
    return None


def is_combined(query: Query, name: str) -> bool:
    """Whether an operator is one component with another at the start."""
    other = combined_with(query, name)
    both = [query.operator(each) for each in (name, other) if each is not None]
    return any(getattr(operator, "combined", False) for operator in both)


def why_not(query: Query, name: str, strategy: Strategy | None, combined: bool, by_window: bool) -> str:
    """Reason why an operator's key groups cannot move like that, with the remedy; empty if they can. by_window: whether
    records behind the watermark count in windows that are open, and the job does not stop: some may be on their way to
    the old owner when it has nothing left to do (Enorm takes these for lost)."""
    operator: AnyOperator = query.operator(name)
    if not operator.needs_event_time and not isinstance(operator.mechanism, Selecting):
        return _STAYS.format(name=repr(name))
    if by_window and operator.hands_over == "windows" and not operator.merges and not in_time(query, name):
        return (
            f"{name!r} takes records that come late into windows that are open, which only a restart moves together; "
            "set engine.rescaling=restart, or engine.lateness=pane, by which they are lost"
        )
    if combined and operator.merges:
        return f"{name!r} is one component with {combined_with(query, name)!r}; move the key groups of that, or split"
    found = mobility(query, name, combined)
    if strategy is None or strategy in found.strategies:
        return ""
    remedy = f"use {' or '.join(found.strategies)}"
    if combined:
        remedy += ", or split it first"
    return f"{name!r} is {found}, which does not admit {strategy} migration; {remedy}"


class Timed(Spec):
    """Base of all events."""

    at_s: Annotated[float, Field(ge=0, le=10**7, description="simulated second at which it happens")]


def told_event(index: int, event: Timed) -> str:
    """Description of an event for messages: `events.0 (migration of views at 120 s)`. It has no quotes, which
    `error_location` would look up."""
    named = (getattr(event, part, None) for part in ("operator", "source", "host", "component"))
    what = next(name for name in named if name)
    return f"events.{index} ({getattr(event, 'kind', '')} of {what} at {event.at_s:g} s)"


class Repartition(Timed):
    """Deals all key groups of an operator over event time to the given subtasks, one a key group."""

    kind: Literal["repartition"] = "repartition"
    operator: str
    owners: Annotated[tuple[int, ...], Field(description="the subtask, from 0, of each key group")]
    strategy: Annotated[Strategy | None, Field(description="absent: the one that costs least")] = None


class Split(Timed):
    """Makes a consolidate that is one component with its compute one of its own, at once."""

    kind: Literal["split"] = "split"
    operator: Annotated[str, Field(description="the consolidate")]
    owners: Annotated[
        tuple[int, ...] | None, Field(description="the subtask of each of its key groups then; absent: where they are")
    ] = None


class Combine(Timed):
    """Makes a consolidate one component with its compute: its key groups go to where the compute has them."""

    kind: Literal["combine"] = "combine"
    operator: Annotated[str, Field(description="the consolidate")]
    strategy: Literal["disruptive", "smooth"] = "smooth"


def check_timed_events(events: Sequence[Timed], deployment: Deployment) -> None:
    """Raises ValueError, naming the event, if one cannot be done to operators over event time.

    Events are followed in the order of their times, with the operators that are combined then.
    """
    query = deployment.query
    timed = [operator.name for operator in query.operators if operator.needs_event_time]
    combined = {name for name in timed if is_combined(query, name)}
    scaled = {getattr(event, "operator", "") for event in events if getattr(event, "kind", "") == "scale"}
    for index, event in sorted(enumerate(events), key=lambda each: each[1].at_s):
        _check(told_event(index, event), event, deployment, combined, scaled)


def _check(where: str, event: Timed, deployment: Deployment, combined: set[str], scaled: set[str]) -> None:
    query = deployment.query
    match event:
        case Repartition():
            if not query.operator(event.operator).needs_event_time:
                raise ValueError(f"{where}: {event.operator!r} is not over event time; move its key groups instead")
            _check_owners(where, event.operator, event.owners, deployment, scaled)
            _check_strategy(where, deployment, event.operator, event.strategy, combined)
        case Split():
            _check_pair(where, event.operator, deployment)
            if event.operator not in combined:
                raise ValueError(f"{where}: {event.operator!r} is not combined with its compute; combine it first")
            if event.owners is not None:
                _check_owners(where, event.operator, event.owners, deployment, scaled)
            combined -= {event.operator, combined_with(query, event.operator) or ""}
        case Combine():
            other = _check_pair(where, event.operator, deployment)
            if event.operator in combined:
                raise ValueError(f"{where}: {event.operator!r} is combined with {other!r} already; split it first")
            combined |= {event.operator, other}
        case _:
            strategy, operator = getattr(event, "strategy", None), getattr(event, "operator", None)
            if operator in combined and getattr(event, "kind", "") == "scale":
                raise ValueError(f"{where}: {operator!r} is one component with another, whose subtasks stay; split it")
            moves = getattr(event, "kind", "") in ("migration", "scale")
            if operator is not None and moves and query.operator(operator).needs_event_time:
                _check_strategy(where, deployment, operator, strategy, combined)


def _check_strategy(
    where: str, deployment: Deployment, name: str, strategy: Strategy | None, combined: set[str]
) -> None:
    by_window = deployment.engine.lateness == "window" and not deployment.engine.rescaling.stops
    obstacle = why_not(deployment.query, name, strategy, name in combined, by_window)
    if obstacle:
        raise ValueError(f"{where}: {obstacle}")


def _check_pair(where: str, name: str, deployment: Deployment) -> str:
    """Compute that may be one component with a consolidate. Raises ValueError if there is none."""
    query, plan = deployment.query, deployment.plan
    other = combined_with(query, name) if query.operator(name).merges else None
    if other is None:
        raise ValueError(f"{where}: {name!r} is no consolidate with one compute of its own, so it is never combined")
    if plan.locations(name) != plan.locations(other):
        raise ValueError(f"{where}: {name!r} and {other!r} have other subtasks; give both the same to combine them")
    return other


def _check_owners(where: str, name: str, owners: tuple[int, ...], deployment: Deployment, scaled: set[str]) -> None:
    """Raises ValueError if owners do not fit. The number of subtasks is unknown if the operator was scaled."""
    parallelism = deployment.plan.parallelism(name)
    groups = group_count(deployment.query, name, parallelism)
    if len(owners) != groups:
        raise ValueError(f"{where}: {len(owners)} owners for the {groups} key groups of {name!r}; give one each")
    for owner in owners:
        if owner < 0 or (owner >= parallelism and name not in scaled):
            raise ValueError(f"{where}: {name!r} has no subtask {owner}; it has {parallelism}, counted from 0")


def check_timed_move(query: Query, name: str, subtask: int | None, strategy: Strategy | None, where: str) -> None:
    """Raises ValueError for a move on the way of event times, where no record may be overtaken."""
    if not heeds(query, name):
        if strategy is not None:
            raise ValueError(f"{where}: {name!r} is not over event time; leave strategy out")
        return
    if subtask is not None:
        raise ValueError(
            f"{where}: subtasks of {name!r} cannot move, as punctuations would overtake records; move key groups, or "
            "scale it"
        )
    obstacle = "" if query.operator(name).needs_event_time else why_not(query, name, strategy, False, by_window=False)
    if obstacle:
        raise ValueError(f"{where}: {obstacle}")


def check_timed_rescale(query: Query, name: str, where: str) -> None:
    """Raises ValueError for operators on the way of event times whose state cannot go to another subtask."""
    operator = query.operator(name)
    if not heeds(query, name) or isinstance(operator.mechanism, Selecting):
        return
    if not operator.needs_event_time:
        raise ValueError(f"{where}: {_STAYS.format(name=repr(name))}")


def heeds(query: Query, name: str) -> bool:
    timed = [operator.name for operator in query.operators if operator.needs_event_time]
    return name in timed or any(name in query.ancestors(each) for each in timed)


# all events ----------------------------------------------------------------------------------------------------------
# Events of a running job, as scenarios list them, and the moves that a controller may order.


Factor = Annotated[float, Field(ge=1e-6, le=10**6)]
Duration = Annotated[float, Field(ge=1e-6, le=10**7, description="simulated seconds")]


class Move(Spec):
    """Moves one subtask to another place, or key groups to another subtask of their operator (`to_subtask`) or place
    (`to`).

    Key groups that move to a place go to the operator's first subtask there; one is made if there is none.
    """

    operator: str
    subtask: Annotated[int | None, Field(ge=0, description="which subtask moves, counted from 0")] = None
    to: Annotated[
        str | None, Field(description="'host' or 'host/socket' that the subtask, or the key groups, move to")
    ] = None
    key_groups: Annotated[tuple[int, ...], Field(description="which key groups move, counted from 0")] = ()
    to_subtask: Annotated[int | None, Field(ge=0, description="the subtask that gets the key groups")] = None
    strategy: Annotated[
        Strategy | None,
        Field(
            exclude_if=lambda strategy: strategy is None,
            description="of key groups of an operator over event time; absent: the one that costs least",
        ),
    ] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.subtask is None) == (not self.key_groups):
            raise ValueError(f"move of {self.operator!r}: give either subtask or key_groups")
        if self.subtask is not None and (self.to is None or self.to_subtask is not None):
            raise ValueError(
                f"move of {self.operator!r}: a subtask moves to a place; give 'to: HOST' and no to_subtask"
            )
        if self.key_groups and (self.to_subtask is None) == (self.to is None):
            raise ValueError(
                f"move of {self.operator!r}: key groups move to a subtask or a place; give to_subtask or to"
            )
        for group in self.key_groups:
            if group < 0 or self.key_groups.count(group) > 1:
                raise ValueError(f"move of {self.operator!r}: key group {group} must be >= 0 and listed once")
        return self


class Rescale(Spec):
    """Gives an operator other subtasks. Those at places that stay are kept; the others are added or taken away."""

    operator: str
    placement: Subtasks

    @property
    def locations(self) -> tuple[Location, ...]:
        """Places of the new subtasks."""
        return tuple(map(Location.parse, self.placement))


class RateChange(Timed):
    """Makes a source's records arrive `factor` times as fast as by its law, or at `rate_per_s` on average, from now
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
            description="until the job is deployed again, without reading state (the engine's recovery.noticed_s, "
            "recovery.delay_s and rescaling.redeploy_s); absent: the host never comes back, and the job waits for it"
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
    """Multiplies the initial shares of key groups in an operator's records by `factor`, relative to the others."""

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
