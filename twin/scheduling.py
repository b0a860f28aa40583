"""Where an engine puts further subtasks of an operator: into free slots of its task managers, or on the emptiest hosts.

Subtasks that are there stay. Where there are to be fewer, one after the other goes from the place with the most of them
for each core, of equal places the last.

In an engine with slots a further subtask takes a slot of its slot sharing group that has none of its operator yet, as a
job needs no more slots than its highest parallelism: where the operator has the fewest subtasks for each core. Without
one it takes a new slot, on the task manager with the smallest share of slots in use, as with Flink's
`cluster.evenly-spread-out-slots`. A task manager counts as one with a slot for each core, Flink's rule of thumb, and
takes more where there is need. In other engines a further subtask goes where there are the fewest subtasks for each
core, as those of a lost host do. Of equal places the first in the order of the cluster is taken. Chained operators are
one task, and move together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from twin.chaining import fused
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.plan import Location, check_count
from twin.spec import parse

D = TypeVar("D", bound=Deployment)


def emptiest(cores: Mapping[Location, float], used: Counter[Location], more: int) -> Location:
    """Place with the fewest subtasks for each core once `more` are added; the first of several."""
    return min(cores, key=lambda place: (more + used[place]) / cores[place])


def as_many(deployment: Deployment, operator: str) -> tuple[str, ...]:
    """Operators that have as many subtasks as one, by forward streams or in a chain, itself among them, in data-flow
    order. Raises KeyError for an unknown operator."""
    query = deployment.query
    pairs = [(each.producer, each.consumer) for each in query.streams if query.partitioning(each).paired]
    groups = [*pairs, *fused(query, deployment.plan, deployment.engine)]
    found, size = {query.operator(operator).name}, 0
    while len(found) > size:
        size = len(found)
        found.update(name for group in groups if not found.isdisjoint(group) for name in group)
    return tuple(each.name for each in query.topological if each.name in found)


def resized(
    deployment: Deployment, operator: str, count: int, where: str, on: Sequence[str] = ()
) -> dict[str, tuple[str, ...]]:
    """Places of the subtasks of an operator, and of those that must have as many, if it has `count`, by operator.

    on: places that all subtasks of the operator, and of what is at the same places, take in turn instead. Raises
    BadInput, beginning with `where`, if no plan can have so many.
    """
    check_count(count, where)
    found: dict[str, tuple[str, ...]] = {}
    for (places, _), names in _side_by_side(deployment, as_many(deployment, operator)).items():
        if on and operator in names:
            new = tuple(on[index % len(on)] for index in range(count))
        else:
            new = (*_staying(deployment, places, count), *_further(deployment, names, count - len(places)))
        found |= dict.fromkeys(names, new)
        placement = deployment.plan.placement | found
        deployment = deployment.model_copy(update={"plan": deployment.plan.with_placement(placement)})
    return found


def scaled(deployment: D, operator: str, count: Any, where: str) -> D:
    """Deployment in which an operator, and what forward streams or its given chain tie to it, have `count` subtasks.
    An engine chains only operators that still have as many. Key groups are in contiguous ranges again.

    Raises BadInput, beginning with `where`, if that cannot be.
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise BadInput(f"{where}: {count!r}; give a whole number from 1")
    apart = deployment.model_copy(update={"engine": deployment.engine.model_copy(update={"chaining": False})})
    plan = deployment.plan.with_placement(deployment.plan.placement | resized(apart, operator, count, where))
    return parse(type(deployment), {**dict(deployment), "plan": plan}, where=f"{where}={count}")


def _side_by_side(deployment: Deployment, names: Iterable[str]) -> dict[tuple[tuple[str, ...], str], list[str]]:
    """Operators by the places of their subtasks, in order, and by slot sharing group: those that move together."""
    found: dict[tuple[tuple[str, ...], str], list[str]] = {}
    groups = deployment.query.slot_sharing_groups
    for name in names:
        found.setdefault((deployment.plan.placement[name], groups[name]), []).append(name)
    return found


def _staying(deployment: Deployment, places: Sequence[str], count: int) -> list[str]:
    """Places of those of an operator's subtasks that stay where it has at most `count`."""
    at = [Location.parse(text) for text in places]  # a place may be written as `host`, and as `host/0`
    there = Counter(at)
    cores = {place: _cores(deployment, place) for place in there}
    for _ in range(len(places) - count):
        crowded = max(reversed(there), key=lambda place: there[place] / cores[place])
        there[crowded] -= 1
    stay = []
    for text, place in zip(places, at, strict=True):
        if there[place] > 0:
            there[place] -= 1
            stay.append(text)
    return stay


def _further(deployment: Deployment, names: Sequence[str], more: int) -> tuple[str, ...]:
    """Places of `more` further subtasks of operators that move together."""
    cores, own = _open_to(deployment, names), Counter(deployment.plan.locations(names[0]))
    used, shared = _in_slots(deployment, names) if deployment.engine.slots else (_tasks(deployment), Counter())
    found: list[str] = []
    while len(found) < more:
        free = {place: cores[place] for place in cores if own[place] < shared[place]}
        place = emptiest(free, own, 1) if free else emptiest(cores, used, 1)
        own[place] += 1
        used[place] += not free
        found.append(str(place))
    return tuple(found)


def beyond_slots(deployment: Deployment) -> list[str]:
    """Words on each host on which a plan takes more slots than Flink's rule of thumb gives it; none without slots."""
    if not deployment.engine.slots:
        return []
    used, _ = _in_slots(deployment, [*deployment.query.slot_sharing_groups])
    given = {place: max(1, int(_cores(deployment, place))) for place in used}
    return [
        f"the plan takes {used[place]} slots on {place}, more than its {count} core{'s' * (count > 1)}: give it as "
        "many (taskmanager.numberOfTaskSlots), or fewer subtasks there"
        for place, count in given.items()
        if used[place] > count
    ]


def _open_to(deployment: Deployment, names: Sequence[str]) -> dict[Location, float]:
    """Cores of the places where further subtasks of operators that move together may run, in the order of the cluster.

    Pinned operators and those that take from a common queue stay on their hosts. Consumers of a stream that stays on a
    host go to hosts of its producers, all go where routes from all neighbours lead, and none to a host that only stores
    checkpoints. The hosts that they have are always open.
    """
    query, plan, cluster = deployment.query, deployment.plan, deployment.cluster
    own = {*plan.hosts(*names)}
    inputs = [each for name in names for each in query.inputs(name) if each.producer not in names]
    outputs = [each for name in names for each in query.outputs(name) if each.consumer not in names]
    checkpoints = getattr(deployment, "checkpoints", None)  # of a scenario
    hosts = {host.name for host in cluster.hosts}
    if checkpoints is not None and checkpoints.storage not in plan.hosts(*plan.placement):
        hosts -= {checkpoints.storage}
    if any(query.operator(name).pinned for name in names) or any(query.partitioning(each).one_queue for each in inputs):
        hosts = own
    for each in inputs:
        if query.partitioning(each).near:
            hosts = hosts & {*plan.hosts(each.producer)}
    if cluster.links:
        others = plan.hosts(*(each.producer for each in inputs), *(each.consumer for each in outputs))
        hosts = {host for host in hosts if all(cluster.routes.connected(host, other) for other in others)}
    open_ = [host for host in cluster.hosts if host.name in hosts | own]
    places = [Location(host.name, socket) for host in open_ for socket in range(host.socket_count)]
    return {place: _cores(deployment, place) for place in places}


def _cores(deployment: Deployment, place: Location) -> float:
    return deployment.cluster.host(place.host).socket_capacity(place.socket)


def _tasks(deployment: Deployment) -> Counter[Location]:
    """Number of tasks at each place."""
    chains = fused(deployment.query, deployment.plan, deployment.engine)
    followers = {name for chain in chains for name in chain[1:]}
    heads = [name for name in deployment.plan.placement if name not in followers]
    return Counter(place for name in heads for place in deployment.plan.locations(name))


def _in_slots(deployment: Deployment, names: Sequence[str]) -> tuple[Counter[Location], Counter[Location]]:
    """Number of slots in use at each place, by all groups and by the group of these operators."""
    plan, groups = deployment.plan, deployment.query.slot_sharing_groups
    by_group: dict[str, Counter[Location]] = {}
    for name, group in groups.items():
        by_group[group] = by_group.get(group, Counter()) | Counter(plan.locations(name))  # the larger of both counts
    return sum(by_group.values(), Counter[Location]()), by_group[groups[names[0]]]
