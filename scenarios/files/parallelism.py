"""Operators of a scenario file that say their parallelism instead of places: the engine's scheduler places them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Set
from typing import Any

from twin.error_location import Path
from twin.errors import BadInput
from twin.numa import CLUSTERS
from twin.plan import Location, check_count
from twin.scenario import Scenario
from twin.scheduling import emptiest, resized
from twin.spec import parse

KEY = "parallelism"
SCHEMA = {
    "type": "integer",
    "minimum": 1,
    "description": "number of subtasks, which the engine places; instead of the operator's places in plan.placement",
}


def parse_placed(data: Mapping[str, Any], where: str, line: Callable[[Path], int | None]) -> Scenario:
    """Scenario of a file's data. If an operator gives its parallelism, all operators without places are placed; of
    these, those that give none have one subtask, or as many as a forward stream or a chain wants. Raises BadInput as
    `twin.spec.parse`, and for a parallelism that cannot be.
    """
    query, plan = data.get("query"), data.get("plan", {})
    listed = query.get("operators") if isinstance(query, Mapping) else None
    operators = listed if isinstance(listed, list) and all(isinstance(each, Mapping) for each in listed) else []
    counts = {str(each.get("name")): each[KEY] for each in operators if KEY in each}
    if not counts or not isinstance(query, Mapping):
        return parse(Scenario, data, where, line)
    bare = [{key: value for key, value in each.items() if key != KEY} for each in operators]
    query = {**query, "operators": bare}
    given = plan.get("placement", {}) if isinstance(plan, Mapping) else None
    if not isinstance(given, Mapping):
        return parse(Scenario, {**data, "query": query}, where, line)
    for name, count in counts.items():
        key = f"{where}: query.operators.{name}.{KEY}"
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise BadInput(f"{key}: {count!r}; give a whole number from 1")
        if name in given:
            raise BadInput(f"{key}: plan.placement.{name} says how many and where; leave one of the two out")
    check_count(sum(counts.values()), f"{where}: query.operators")
    first = _first_host(data.get("cluster"))
    free = [name for each in bare if (name := str(each.get("name"))) not in given]
    placement = {**given, **{name: [first] * counts.get(name, 1) for name in free}}
    whole = {**data, "query": query, "plan": {**plan, "placement": placement}}
    return _scheduled(parse(Scenario, whole, where, line), {*free}, counts, where)


def _first_host(cluster: Any) -> str:
    if isinstance(cluster, str):
        return CLUSTERS[cluster].hosts[0].name if cluster in CLUSTERS else ""
    hosts = cluster.get("hosts") if isinstance(cluster, Mapping) else None
    first = hosts[0] if isinstance(hosts, list) and hosts else None
    return str(first.get("name")) if isinstance(first, Mapping) else ""


def _scheduled(job: Scenario, free: Set[str], counts: Mapping[str, int], where: str) -> Scenario:
    """Scenario with places for the operators in `free`, in data-flow order: first for a subtask of each, in one slot if
    the engine has slots, then for the others of those in `counts`."""
    slots, hosts = job.engine.slots, job.cluster.hosts
    cores = {
        Location(host.name, each): host.socket_capacity(each) for host in hosts for each in range(host.socket_count)
    }
    order = [each.name for each in job.query.topological if each.name in free]
    chains = {name: chain for chain in job.plan.fused for name in chain}
    placement = {name: places for name, places in job.plan.placement.items() if name not in free}
    used = Counter(place for name in placement for place in job.plan.locations(name))
    for name in order:
        beside = next((placement[each][0] for each in chains.get(name, ()) if each in placement), None)
        place = next(iter(cores)) if slots else emptiest(cores, used, 1)
        placement[name] = (beside or str(place),)
        used[place] += beside is None
    # the engine chains operators that have as many subtasks by chance, which need not stay so
    engine = job.engine.model_copy(update={"chaining": False})
    grown = job.model_copy(update={"engine": engine, "plan": job.plan.model_copy(update={"placement": placement})})
    for name in filter(counts.__contains__, order):
        placement |= resized(grown, name, counts[name], where)
        grown = grown.model_copy(update={"plan": grown.plan.model_copy(update={"placement": placement})})
    for name, places in placement.items():
        if (name in counts or name not in free) and len(places) != job.plan.replicas(name):
            has = f"{where}: {name} has {job.plan.replicas(name)} subtasks"
            raise BadInput(f"{has}, and by a forward stream or a chain {len(places)}; give both ends the same")
    return job.with_plan(grown.plan)
