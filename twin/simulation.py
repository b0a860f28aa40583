"""simulate(): a deployment and settings in, a run out. The only place that runs a SimPy environment."""

from __future__ import annotations

import gc
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import simpy

from twin import conservation
from twin.deployment import Deployment
from twin.engine.statistics import Statistics
from twin.errors import BadInput
from twin.query import Aggregate, Join
from twin.run import Run, host_totals, metrics_of, operator_totals
from twin.scenario import RunSettings, config_hash
from twin.version import VERSION
from twin.wiring import Wiring, World

MEMORY_TICK_S = 1.0
MEMORY_TICKS = 2000
"""No more than that many a run, however long it is."""


def simulate(deployment: Deployment, settings: RunSettings | None = None) -> Run:
    """Runs a deployment for `settings.horizon_s` simulated seconds. Same arguments: the same run, on any machine.

    Raises BadInput if the settings leave nothing to measure; ConservationError if the simulator broke a law.
    """
    settings = settings or RunSettings()
    last_start_s = _last_period_start_s(settings)
    if settings.warmup_s > last_start_s:
        raise BadInput(
            f"run.warmup_s = {settings.warmup_s:g} leaves no whole period to measure; make it at most {last_start_s:g}"
        )
    started_s = time.process_time()
    wiring = Wiring(deployment, settings)
    world = wiring.build()
    statistics = Statistics(world.env, *wiring.meters(), settings.period_s)
    crash: list[float] = []
    world.env.process(_watch_memory(world, max(MEMORY_TICK_S, settings.horizon_s / MEMORY_TICKS), crash))
    with _collector_paused():
        world.env.run(until=settings.horizon_s)
    statistics.close(settings.horizon_s)
    conservation.check(deployment.query, world, settings.fidelity == "exact")
    rows, crashed = statistics.operator_rows, bool(crash)
    return Run(
        metrics=metrics_of(rows, settings.warmup_s, crashed),
        operators=operator_totals(rows, settings.warmup_s),
        hosts=host_totals(statistics.host_rows, settings.warmup_s),
        warnings=_warnings(deployment, settings, crash, rows),
        manifest=manifest(deployment, settings),
        deployment_json=deployment.model_dump_json(exclude_none=True, include=set(Deployment.model_fields)),
        crashed=crashed,
        cpu_s=time.process_time() - started_s,
        operator_rows=tuple(rows),
        host_rows=tuple(statistics.host_rows),
        link_rows=tuple(statistics.link_rows),
    )


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Segments die by reference count; looking for cycles among them costs an eighth of a run."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def manifest(deployment: Deployment, settings: RunSettings) -> dict[str, Any]:
    """What it takes to make the run again: version, configuration hash, seed, and the settings."""
    return {
        "version": VERSION,
        "config_hash": config_hash(deployment, settings),
        **settings.model_dump(include={"seed", "fidelity", "horizon_s", "warmup_s", "period_s"}),
    }


def _last_period_start_s(settings: RunSettings) -> float:
    periods = int(settings.horizon_s / settings.period_s - 1e-9)
    return periods * settings.period_s


def _watch_memory(world: World, tick_s: float, crash: list[float]) -> Generator[simpy.Event, object, None]:
    while not crash:
        yield world.env.timeout(tick_s)
        full = [memory.update() for memory in world.memories.values()]
        if any(full):
            crash.append(world.env.now)
    for tasks in world.tasks.values():  # one worker's crash fails the job; the brokers go on filling
        for task in tasks:
            task.halted = True


def _warnings(
    deployment: Deployment, settings: RunSettings, crash: list[float], rows: list[dict[str, Any]]
) -> tuple[str, ...]:
    warnings = []
    if crash:
        warnings.append(f"out of memory at {crash[0]:g} s: the job crashed")
    for operator in deployment.query.operators:
        if isinstance(operator, Aggregate | Join):
            window = operator.window
            if window.policy == "time" and window.slide > settings.horizon_s:
                warnings.append(
                    f"{operator.name}: its window slides every {window.slide:g} s, beyond the horizon of "
                    f"{settings.horizon_s:g} s, so it is never evaluated; run longer or shorten the window"
                )
            elif window.policy == "count":
                seen = sum(row["numRecordsIn"] for row in rows if row["operator"] == operator.name)
                if seen < window.slide:
                    warnings.append(
                        f"{operator.name}: its window slides every {window.slide:g} tuples and only {seen} came, "
                        "so it was never evaluated; run longer or shorten the window"
                    )
    return tuple(warnings)
