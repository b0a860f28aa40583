"""Tasks of a run, and the key groups of its operators."""

from __future__ import annotations

from twin.engine.draws import Draws
from twin.engine.keys.groups import KeyGroups, drift, skewed
from twin.engine.logic import ChainStep, Logic
from twin.engine.logics.chain import Chain, Tail
from twin.engine.station.task import Task
from twin.job import Component, Stage
from twin.keys import contiguous, distinct_values
from twin.kinds.mechanism import Matching
from twin.plan import Location
from twin.query import Windowed
from twin.randomness import random_stream
from twin.wiring.mechanisms import Making, make_logic
from twin.wiring.wiring import Wiring


def make_task(wiring: Wiring, component: Component, replica: int, place: Location) -> Task:
    """Makes a task of a component at a place. replica: its number, which names its random numbers."""
    task = _task(wiring, component, replica, place)
    task.place = place
    wiring.world.env.watch.built()
    if not wiring.kin.makers.isdisjoint(each.name for each in component.operators):
        task.output.lots = Draws(random_stream(wiring.settings.seed, f"lots:{task.name}"))
    return task


def _task(wiring: Wiring, component: Component, replica: int, place: Location) -> Task:
    if len(component.stages) > 1 and component.name in wiring.event_times.heeding:
        return _with_tail(wiring, component, replica, place)
    draws = _draws(wiring, component.stages[0], replica)
    name = f"{component.name}#{replica}"
    logic, polls = _logic(wiring, component, replica, draws), component.operator.is_source
    return Task(wiring.world.env, name, wiring.processor(place), draws, component.service_s, logic, polls)


def _with_tail(wiring: Wiring, component: Component, replica: int, place: Location) -> Task:
    """Makes a task that announces its progress in event time, with filters, maps or a sink at its station.

    The CPU time of these for tuples that pass at once is part of the service; for results of windows, it is part of the
    work of sending them.
    """
    first, at_once = component.stages[0], not component.operator.needs_event_time
    service_s = wiring.job.service_s(component) if at_once else first.service_s
    noise = 1.0 if wiring.settings.noise else 0.0
    scv = _service_scv(wiring, component) if at_once else noise * first.service_scv
    rng = random_stream(wiring.settings.seed, f"task:{component.name}#{replica}")
    name = f"{component.name}#{replica}"
    making = [make_logic(Making(wiring, component, stage, replica)) for stage in component.stages]
    draws, polls = Draws(rng, scv), component.operator.is_source
    task = Task(wiring.world.env, name, wiring.processor(place), draws, service_s, making[0], polls)
    rates = [wiring.job.rates[stage.operator.name] for stage in component.stages]
    come = max(rates[1].in_per_s, 1e-12)
    each_s = sum(
        stage.service_s * rate.in_per_s / come for stage, rate in zip(component.stages[1:], rates[1:], strict=True)
    )
    steps = [ChainStep(logic, draws, 0.0, 0.0) for logic in making[1:]]
    task.logic.tail, task.logic.out = steps, Tail(task, steps, 0.0 if at_once else each_s, rates[-1].out_per_s / come)
    return task


def _logic(wiring: Wiring, component: Component, replica: int, draws: Draws) -> Logic:
    logics = [make_logic(Making(wiring, component, stage, replica)) for stage in component.stages]
    if len(logics) == 1:
        return logics[0]
    steps = [ChainStep(logics[0], draws, component.service_s, 0.0)]
    for logic, stage in zip(logics[1:], component.stages[1:], strict=True):
        steps.append(ChainStep(logic, _draws(wiring, stage, replica), stage.service_s, stage.bytes_in))
    return Chain(steps)


def _draws(wiring: Wiring, stage: Stage, replica: int) -> Draws:
    """Random numbers of one operator of a replica."""
    rng = random_stream(wiring.settings.seed, f"task:{stage.operator.name}#{replica}")
    return Draws(rng, stage.service_scv if wiring.settings.noise else 0.0)


def _service_scv(wiring: Wiring, component: Component) -> float:
    """Squared coefficient of variation of the service of an incoming tuple through all chained operators.

    From the last to the first, the variance of a compound sum: Var = E[N] Var[X] + Var[N] E[X]^2.
    """
    noise = 1.0 if wiring.settings.noise else 0.0
    if len(component.stages) == 1:
        return noise * component.service_scv
    mean_s = variance = 0.0
    for stage in reversed(component.stages):
        chance, gain = _becomes(wiring, stage)
        lump_s = gain * mean_s
        variance = noise * stage.service_scv * stage.service_s**2 + chance * (
            gain * variance + (1.0 - chance) * lump_s**2
        )
        mean_s = stage.service_s + chance * lump_s
    return variance / mean_s**2 if mean_s > 0.0 else 0.0


def _becomes(wiring: Wiring, stage: Stage) -> tuple[float, float]:
    """Probability that anything leaves an operator with an incoming tuple, and the mean number of tuples then.

    Both are 0 for a window by time: its evaluations are no part of any tuple's service.
    """
    operator = stage.operator
    if not isinstance(operator, Windowed):
        return min(1.0, operator.gain), max(1.0, operator.gain)
    rates = wiring.job.rates[operator.name]
    if operator.window.policy == "time" or not rates.fires_per_s:
        return 0.0, 0.0
    return min(1.0, rates.fires_per_s / rates.in_per_s), rates.out_per_s / rates.fires_per_s


def _selective(wiring: Wiring, component: Component) -> tuple[float, int] | None:
    """Selectivity of a join that has one, and its number of sides."""
    does = component.operator.mechanism
    if not isinstance(does, Matching) or not does.selectivity:
        return None
    return does.selectivity, len(wiring.job.inputs(component.name))


def make_key_groups(wiring: Wiring, component: Component) -> None:
    """Makes the key groups of an operator whose tasks exist, if it has any."""
    name, operator, count = component.name, component.operator, component.key_groups
    tasks = wiring.world.tasks[name]
    if count is None:
        return
    skew = wiring.deployment.workload.keys.get(name)
    groups = wiring.world.key_groups[name] = KeyGroups(
        tasks,
        wiring.deployment.plan.key_groups.get(name) or contiguous(count, len(tasks)),
        distinct_values(operator, skew, count),
        state_bytes_each=getattr(operator, "state_bytes_per_group", 0.0),
        two_choice=any(each.how.two_choices for each in wiring.job.inputs(name)),
        key_weights=None if skew is None else skew.key_weights(count),
        selective=_selective(wiring, component),
    )
    if skew is None:
        return
    rng = random_stream(wiring.settings.seed, f"keys:{name}")
    order = skewed(groups, skew, rng)
    if skew.drift_every_s is not None:
        wiring.world.env.process(drift(wiring.world.env, groups, order, skew, rng))
