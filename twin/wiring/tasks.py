"""The tasks of a run, and the key groups of its operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twin.engine.arrival.replay import ReplayableSource
from twin.engine.draws import Draws
from twin.engine.operators import SelectTask, SinkTask, SourceTask
from twin.engine.streams.keys import KeyGroups, drift, skewed
from twin.engine.streams.partition import groups_of
from twin.engine.streams.pool import PoolDraws
from twin.engine.task import Task
from twin.engine.windows.aggregate import AggregateTask
from twin.engine.windows.join import JoinTask
from twin.keys import contiguous, distinct_groups, group_count
from twin.plan import Location
from twin.query import Aggregate, AnyOperator, Filter, Join, Map, Sink, Source
from twin.randomness import stream

if TYPE_CHECKING:
    from twin.wiring.wiring import Wiring


def make_task(wiring: Wiring, operator: AnyOperator, replica: int, place: Location) -> Task:
    """A task of an operator at a place. `replica`: its number, which names its random numbers."""
    name = f"{operator.name}#{replica}"
    scv = wiring.engine.service_scv_of(operator) if wiring.settings.noise else 0.0
    servers = wiring.servers(operator.name)
    draws = Draws(stream(wiring.settings.seed, f"task:{name}"), scv)
    if servers > 1 and not wiring.exact:
        draws = PoolDraws(draws.rng, scv, servers)
    common: dict[str, Any] = {
        "env": wiring.world.env,
        "name": name,
        "processor": wiring.processor(place),
        "draws": draws,
        "service_s": wiring.engine.service_s(wiring.query, operator),
        "service_scv": scv,
        "exact": wiring.exact,
    }
    replicas = len(wiring.locations[operator.name])
    match operator:
        case Source():
            return ReplayableSource(**common) if wiring.replayable else SourceTask(**common)
        case Sink():
            return SinkTask(**common)
        case Filter() | Map():
            return SelectTask(**common, selectivity=operator.selectivity, thins=isinstance(operator, Filter))
        case Aggregate():
            groups = max(1, groups_of(operator.groups, replica, replicas))
            return AggregateTask(**common, **_window(wiring, operator), groups=groups)
        case Join():
            ways = [wiring.query.partitioning(each) for each in wiring.query.inputs(operator.name)]
            join = JoinTask(
                **common,
                **_window(wiring, operator),
                sides=len(ways),
                keyed=sum(way not in ("broadcast", "global") for way in ways),
                selectivity=operator.selectivity,
                amplification=operator.amplification,
            )
            join.law = join.law_of(1.0 / replicas)  # key groups, if there are any, will know better
            return join


def _window(wiring: Wiring, operator: Aggregate | Join) -> dict[str, Any]:
    return {
        "window": operator.window,
        "result_s": wiring.engine.result_s(operator),
        "scan_s": wiring.engine.scan_s(operator),
    }


def make_key_groups(wiring: Wiring, operator: AnyOperator) -> None:
    """The key groups of an operator whose tasks there are, if it has any."""
    name, tasks = operator.name, wiring.world.tasks[operator.name]
    count = group_count(wiring.query, name, len(tasks))
    if count is None:
        return
    groups = wiring.world.key_groups[name] = KeyGroups(
        tasks,
        wiring.deployment.plan.key_groups.get(name) or contiguous(count, len(tasks)),
        distinct_groups(operator, count),
        state_bytes_each=getattr(operator, "state_bytes_per_group", 0.0),
        two_choice=any(wiring.query.partitioning(each) == "two-choice" for each in wiring.query.inputs(name)),
    )
    skew = wiring.deployment.workload.keys.get(name)
    if skew is None:
        return
    rng = stream(wiring.settings.seed, f"keys:{name}")
    order = skewed(groups, skew, rng)
    if skew.drift_every_s is not None:
        wiring.world.env.process(drift(wiring.world.env, groups, order, skew, rng))
