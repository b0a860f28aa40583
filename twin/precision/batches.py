"""Which stretches of a run are looked at one by one, so as to say how much is chance."""

from __future__ import annotations

import math

from twin.engine.logic import SinkLogic
from twin.engine.measure.batches import Batches
from twin.engine.measure.meters import Statistics
from twin.engine.measure.standard_errors import edges_s
from twin.job import Job
from twin.precision.steadiness import memory_s, slides_s
from twin.scenario import RunSettings
from twin.wiring.world import World


def batches_of(job: Job, settings: RunSettings, world: World, statistics: Statistics) -> Batches | None:
    """Batches of a run that is about to begin, after its warm-up; None if it is too short for them.

    Nor do they begin before windows are full: that they fill is no chance.
    """
    long_s = memory_s(job)
    start_s = math.ceil(settings.warmup_s / settings.period_s - 1e-9) * settings.period_s
    filled_s = min(2.0 * long_s, settings.horizon_s / 4)
    ends_s = edges_s(max(start_s, filled_s), settings.horizon_s, long_s, slides_s(job.deployment))
    if not ends_s:
        return None
    batches = Batches(world.env, sinks_of(job, world), ends_s[:-1])
    statistics.listeners.append(batches.period_ended)
    return batches


def sinks_of(job: Job, world: World) -> list[SinkLogic]:
    """Where results of all replicas are counted."""
    tasks = [task for component in job.sinks for task in world.tasks[component.name]]
    logics = [task.logic.part(task.logic.operators() - 1) for task in tasks]
    return [sink for logic in logics if (sink := logic.sink()) is not None]
