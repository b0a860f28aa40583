"""Tools of policies: comparable periods, changes that can be carried out, room on hosts, and the worth of a restart."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from twin.chaining import fused, one_a_task
from twin.control import PeriodStatistics, Reconfiguration
from twin.deployment import Deployment
from twin.event_checks import check_move, check_rescale, together
from twin.events import Move, Rescale
from twin.plan import Location

# periods, changes and room -------------------------------------------------------------------------------------------
# Tools of policies: comparable periods, changes that can be carried out, room on hosts, and work of subtasks.


TINY_S = 1e-9
STILL_MS = 5.0
"""Backpressured milliseconds a second of a sink above which the job stood still."""
MOST_REASONS = 2
"""Most reasons that are told."""
NO_ROOM = "no host that can take it has an idle core; give the cluster more hosts or cores"
ENOUGH = 0.25
"""Idle share of a core (or of the host, if it has less than one) below which a host has no room for a subtask."""


def continues(last: PeriodStatistics, statistics: PeriodStatistics) -> bool:
    """Whether a period follows the last one, on the same placement, without a stop in between."""
    return last.placement == statistics.placement and statistics.start_s <= last.end_s + TINY_S


def stood_still(statistics: PeriodStatistics, deployment: Deployment) -> bool:
    """Whether the job was down for a time: only that blocks a sink."""
    sinks = (statistics.operators[sink.name] for sink in deployment.query.sinks)
    return any(row["backPressuredTimeMsPerSecond"] > STILL_MS for row in sinks)


def why_not_rescale(operator: str, places: tuple[str, ...], deployment: Deployment) -> str:
    """Why an operator cannot have its subtasks at these places; empty if it can."""
    try:
        check_rescale(Rescale(operator=operator, placement=places), deployment, "")
    except ValueError as error:
        return str(error).removeprefix(": ")
    return ""


def why_not_move(move: Move, deployment: Deployment, placement: Mapping[str, tuple[str, ...]]) -> str:
    """Why a move cannot be carried out on a job that is placed like this; empty if it can."""
    try:
        check_move(move, deployment, "", placement)
    except ValueError as error:
        return str(error).removeprefix(": ")
    return ""


def can_move(move: Move, deployment: Deployment, placement: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether a move could be carried out on a job that is placed like this."""
    return not why_not_move(move, deployment, placement)


def stays(deployment: Deployment) -> dict[str, str]:
    """Operators whose subtasks cannot move at all, and why."""
    plan, found = deployment.plan, dict[str, str]()
    for name in plan.placement:
        head = together(name, deployment)[0]
        probe = Move(operator=head, subtask=0, to=str(plan.locations(head)[0]))
        if why := why_not_move(probe, deployment, plan.placement):
            found[name] = why
    return found


def hosts_of(statistics: PeriodStatistics) -> dict[tuple[str, int], str]:
    """Host of each subtask, by operator and number."""
    return {
        (name, number): Location.parse(place).host
        for name, places in statistics.placement.items()
        for number, place in enumerate(places)
    }


def fixed_operators(deployment: Deployment, *, sources: bool = False) -> dict[str, str]:
    """Operators whose numbers of subtasks cannot change, and why. sources: whether the policy scales sources."""
    left = "is a source, which this policy does not scale; give it more subtasks in the plan"
    reasons = {
        name: f"{name!r} {left}"
        if deployment.query.operator(name).is_source and not sources
        else why_not_rescale(name, places[:1], deployment)
        for name, places in deployment.plan.placement.items()
    }
    return {name: why for name, why in reasons.items() if why}


def told(reasons: Mapping[str, str]) -> str:
    """Reasons by operator in words: the first few, each once, and how many operators have other ones."""
    first = [*dict.fromkeys(reasons.values())][:MOST_REASONS]
    more = sum(why not in first for why in reasons.values())
    return "; ".join([*first, *([f"nor can {more} other{'s' * (more > 1)}"] if more else [])])


def cores_by_subtask(
    statistics: PeriodStatistics, cores: Mapping[str, float], deployment: Deployment
) -> dict[tuple[str, int], float]:
    """Reference cores that each subtask of a used host took, those of a task at the first of chained operators. A
    subtask that shares its host is busy for longer than it works: it gets its share of the busy time of what the host
    did."""
    home, chains = hosts_of(statistics), fused(deployment.query, deployment.plan, deployment.engine)
    busy_ms = {name: float(row["busyTimeMsPerSecond"]) for name, row in statistics.operators.items()}
    of_tasks = one_a_task(busy_ms, chains)
    busy = {subtask: of_tasks.get(subtask[0], 0.0) for subtask in home}
    on_host = dict.fromkeys(home.values(), 0.0)
    for subtask, host in home.items():
        on_host[host] += busy[subtask]
    return {
        subtask: cores[host] * statistics.hosts[host]["cpuUtilisation"] * (busy[subtask] / on_host[host])
        if on_host[host]
        else 0.0
        for subtask, host in home.items()
    }


class Room:
    """Idle CPU of hosts in a period, less the room given away since; each new subtask is taken to fill a core."""

    def __init__(self, deployment: Deployment, statistics: PeriodStatistics) -> None:
        used: Mapping[str, Mapping[str, Any]] = statistics.hosts
        self.deployment = deployment
        self.cores = {host.name: host.left_percent / 100 for host in deployment.cluster.hosts}
        self.idle = {
            name: cores * (1 - used[name]["cpuUtilisation"] if name in used else 1.0)
            for name, cores in self.cores.items()
        }
        self._subtasks = Counter(Location.parse(place) for places in statistics.placement.values() for place in places)

    def give(self, operator: str, count: int) -> tuple[str, ...]:
        """Gives places for up to `count` more subtasks of an operator: on the host, and its socket, with most room."""
        places: list[str] = []
        shut: set[str] = set()
        while len(places) < count:
            hosts = [name for name in self.idle if name not in shut and self._has_room(name)]
            if not hosts:
                break
            host = max(sorted(hosts), key=lambda name: self.idle[name])  # ties by name
            if why_not_rescale(operator, (host,), self.deployment):
                shut.add(host)
                continue
            self.idle[host] -= 1.0
            sockets = range(self.deployment.cluster.host(host).socket_count)
            place = Location(host, min(sockets, key=lambda socket: self._subtasks[Location(host, socket)]))
            self._subtasks[place] += 1
            places.append(str(place))
        return tuple(places)

    def _has_room(self, host: str) -> bool:
        return self.idle[host] >= ENOUGH * min(1.0, self.cores[host])


def rescaled(
    deployment: Deployment,
    statistics: PeriodStatistics,
    wanted: Mapping[str, int],
    fixed: Mapping[str, str],
    limits: Mapping[str, str],
) -> Reconfiguration | None:
    """Change to the wanted numbers of subtasks: new ones on the hosts with most idle CPU, the last ones go. None if
    there is nothing to change and nothing to say.

    fixed: operators that cannot be scaled, and why. limits: operators that need more than is wanted here, and why they
    do not get it. The run is warned of these, of fixed ones that should have more, of a lack of room, of calls that the
    measured CPU time leaves out, and of a job in which all are fixed."""
    if fixed.keys() >= statistics.placement.keys():
        return Reconfiguration(warnings=(f"can scale no operator: {told(fixed)}",))
    room = Room(deployment, statistics)
    rescales, short = [], {name: f"{name!r} up further and cannot: {why}" for name, why in limits.items()}
    for name, count in wanted.items():
        places = statistics.placement[name]
        if name in fixed:
            if count > len(places) and together(name, deployment)[0] == name:  # which stands for what runs as one
                short[name] = f"{name!r} up and cannot: {fixed[name]}"
            continue
        new = places + room.give(name, count - len(places)) if count > len(places) else places[:count]
        if len(new) < count:
            short[name] = f"{name!r} up further and cannot: {NO_ROOM}"
        if len(new) != len(places):
            if why := why_not_rescale(name, new, deployment):
                short[name] = f"{name!r} to {len(new)} and cannot: {why}"
            else:
                rescales.append(Rescale(operator=name, placement=new))
    if not (rescales or short):
        return None
    counts = {name: len(places) for name, places in statistics.placement.items()}
    changes = (f"{rescale.operator} {counts[rescale.operator]}->{len(rescale.placement)}" for rescale in rescales)
    calling = [each.operator for each in rescales if deployment.query.operator(each.operator).calls is not None]
    warnings = (
        *(f"would scale {text}" for text in short.values()),
        *(f"scales {name!r} by its CPU time; its calls, which take none, may need more" for name in calling),
    )
    return Reconfiguration(rescales=tuple(rescales), reason=", ".join(changes), warnings=warnings)


# is a restart worth it? ----------------------------------------------------------------------------------------------
# Decides whether a better plan is worth a restart, where the engine restarts the job for a change.
#
# Nobody knows how long the better plan will last. So a change is made once records have waited as long without it as
# the restart will make them wait, as in the ski rental problem (Karlin et al. 1988, Algorithmica 3): this costs at
# most twice what the best decision would have. Both are counted in records times seconds of waiting. A restart of R
# seconds at a rate of r and a load of u, when balanced, costs r R^2 / (2 (1 - u)): records queue for R seconds, and
# the queue goes down at a rate of r (1 - u) / u. Records that wait because of a restart are no reason for another one,
# so its cost is subtracted from the waiting afterwards.


TOO_DEAR = Reconfiguration(reason="records would wait longer for a restart than they have waited so far")


@dataclass
class RestartAccount:
    """Account of waiting since the last change, less the cost of that change. Changes that need no restart are free."""

    deployment: Deployment
    _waited: float = 0.0

    def add(self, statistics: PeriodStatistics) -> None:
        """Adds the waiting of a period."""
        if self.deployment.engine.rescaling.stops:
            self._waited += records_waiting(statistics) * statistics.length_s

    def affords(self, cost: float) -> bool:
        """Whether records have waited for as long as a change costs."""
        return self._waited >= cost

    def pay(self, cost: float) -> None:
        """Takes note of a change: waiting before it counts no more."""
        self._waited = -cost

    def cost(self, last: PeriodStatistics, load: float) -> float:
        """Waiting that a restart after a period costs, in records times seconds.

        load: utilisation of hosts afterwards, at the rate at which records were read; it grows with the rate at which
        they arrive. Records that a restart from a checkpoint processes again are not counted.
        """
        rescaling, operators = self.deployment.engine.rescaling, last.operators
        if not rescaling.stops:
            return 0.0
        sources = [source.name for source in self.deployment.query.sources]
        came, read = (sum(operators[name][key] for name in sources) for key in ("arrived", "numRecordsIn"))
        hosts, state = hosts_of(last), defaultdict[str, float](float)
        for name, groups in last.key_groups.items():
            for group in groups:
                state[hosts[name, group.subtask]] += group.state_bytes
        ways = 2 if rescaling.how == "restart" else 1  # the last checkpoint is there already
        stop_s = rescaling.redeploy_s + ways * max(state.values(), default=0.0) * 8e-6 / rescaling.state_mbps
        if load * came >= read:
            return np.inf
        return float(came / last.length_s * stop_s**2 / 2.0 / (1.0 - load * came / read))


def records_waiting(statistics: PeriodStatistics) -> float:
    """Number of records that wait at brokers and before operators at the end of a period."""
    from twin.run import waiting  # here, so that a scenario can name a policy before anything runs

    return float(sum(map(waiting, statistics.operators.values())))
