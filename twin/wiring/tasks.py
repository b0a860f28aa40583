"""The tasks of a run, and the key groups of its operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.engine.draws import Draws
from twin.engine.station.polling import PollingTask
from twin.engine.station.setup import Setup
from twin.engine.station.task import Task
from twin.engine.streams.keys import KeyGroups, drift, skewed
from twin.engine.streams.pool import PoolDraws
from twin.job import Component
from twin.keys import contiguous
from twin.plan import Location
from twin.query import AnyOperator
from twin.randomness import stream
from twin.wiring.mechanisms import Making, made

if TYPE_CHECKING:
    from twin.wiring.wiring import Wiring


def make_task(wiring: Wiring, operator: AnyOperator, replica: int, place: Location) -> Task:
    """A task of an operator at a place. `replica`: its number, which names its random numbers."""
    name = f"{operator.name}#{replica}"
    component = wiring.job.component(operator.name)
    scv = component.service_scv if wiring.settings.noise else 0.0
    servers = wiring.servers(operator.name)
    draws = Draws(stream(wiring.settings.seed, f"task:{name}"), scv)
    if servers > 1 and not wiring.exact:
        draws = PoolDraws(draws.rng, scv, servers)
    setup = Setup(wiring.world.env, name, wiring.processor(place), draws, component.service_s, scv, wiring.exact)
    station = PollingTask if operator.is_source else Task
    return station(setup, made(Making(wiring, component, replica)))


def make_key_groups(wiring: Wiring, component: Component) -> None:
    """The key groups of an operator whose tasks there are, if it has any."""
    name, operator, count = component.name, component.operator, component.key_groups
    tasks = wiring.world.tasks[name]
    if count is None:
        return
    groups = wiring.world.key_groups[name] = KeyGroups(
        tasks,
        wiring.deployment.plan.key_groups.get(name) or contiguous(count, len(tasks)),
        operator.values_by_key_group(count),
        state_bytes_each=getattr(operator, "state_bytes_per_group", 0.0),
        two_choice=any(each.how.two_choices for each in wiring.job.inputs(name)),
    )
    skew = wiring.deployment.workload.keys.get(name)
    if skew is None:
        return
    rng = stream(wiring.settings.seed, f"keys:{name}")
    order = skewed(groups, skew, rng)
    if skew.drift_every_s is not None:
        wiring.world.env.process(drift(wiring.world.env, groups, order, skew, rng))
