"""How much work a run will be, estimated before it begins: what would not finish is refused, with the reason.

A step is what one segment (in an exact run a tuple) costs that a simple operator handles, about five microseconds; what
windows do with it, sharing a processor, and sending it count for more of them. Near saturation, where channels are
full now and then, the estimate is of the order of magnitude; elsewhere it is within a factor of about three.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import AnyEvent, Scale
from twin.guards.effort_segments import most_replicas
from twin.guards.effort_traffic import Load, traffic
from twin.job import Job, compile
from twin.scenario import RunSettings

MAX_STEPS = 1e9
"""More steps than these take hours: the run is refused."""
STEP_S = 5e-6
"""CPU seconds of a step, on a core of these years."""
LONG_STEPS = 1.5e6
"""More steps than these take about ten seconds: a person who waits should be told."""
MAX_PAIRS = 3e7
"""Pairs of replicas that are connected: each takes memory."""
MAX_TOGETHER = 8000
"""Replicas on one processor."""
MAX_HELD = 2.5e6
"""Segments of results that one evaluation of a window makes: they wait in memory, all at the same time."""
MAX_ROWS = 1e6
"""Rows of statistics, a period and component each."""
ROW_STEPS = 3.0
"""Steps that a row of statistics costs."""
TASK_STEPS = 150.0
"""Steps that it takes to make a replica."""
SCALE_SHARE = 4.0
"""A change of scale costs the square of the new replicas, over this."""
DRIFT_STEPS = 12.0
"""Steps that a drift of keys costs, beside ..."""
DRIFT_STEPS_A_GROUP = 0.02
"""... these for each key group."""


@dataclass(frozen=True, slots=True)
class Effort:
    """What a run is made of, the largest part first."""

    loads: tuple[Load, ...]

    @property
    def steps(self) -> float:
        """All of them."""
        return sum(load.steps for load in self.loads)

    @property
    def cpu_s(self) -> float:
        """What they take, roughly."""
        return self.steps * STEP_S

    @property
    def long(self) -> bool:
        """Whether it will end, but a person who waits should be told."""
        return LONG_STEPS < self.steps <= MAX_STEPS

    def describe(self) -> str:
        """One line: how many steps, mostly why, and what to do about it."""
        worst = self.loads[0]
        return f"about {self.steps:.1e} steps, mostly {worst.cause}; {worst.remedy}"


def require_feasible(what: Deployment | Job, settings: RunSettings, events: Sequence[AnyEvent] = ()) -> Effort:
    """The effort of a run. Raises BadInput, naming the largest part of it, if it would not finish within hours."""
    job = compile(what).apart
    rows = settings.horizon_s / settings.period_s * len(job.query.operators)
    if rows > MAX_ROWS:
        raise BadInput(
            f"run.period_s = {settings.period_s:g} makes about {rows:.1e} rows of statistics, more than "
            f"{MAX_ROWS:.0e}; make it at least {settings.period_s * rows / MAX_ROWS:.2g}"
        )
    _require_memory(job, events)
    effort = estimate(job, settings, events)
    for load in effort.loads:
        if load.held > MAX_HELD:
            raise BadInput(f"the run would have to hold {load.cause}; {load.remedy}")
    if effort.steps > MAX_STEPS:
        raise BadInput(f"the run would take {effort.describe()} (the limit is {MAX_STEPS:.0e} steps)")
    return effort


def estimate(what: Deployment | Job, settings: RunSettings, events: Sequence[AnyEvent] = ()) -> Effort:
    """The effort of a run, without running it."""
    job = compile(what).apart
    loads = [*traffic(job, settings, events), *_clocks(job, settings), *_replicas(job, events)]
    return Effort(tuple(sorted(loads, key=lambda load: -load.steps)))


# memory --------------------------------------------------------------------------------------------------------------


def _require_memory(job: Job, events: Sequence[AnyEvent]) -> None:
    replicas = most_replicas(job, events)
    pairs: dict[str, float] = {}
    for each in job.edges:
        producer, consumer = each.ends
        count = replicas[producer] * (1 if each.how.paired else replicas[consumer])
        pairs[f"stream {producer} -> {consumer} connects {count:,} pairs of replicas"] = count
    worst = max(pairs, key=pairs.__getitem__)
    if sum(pairs.values()) > MAX_PAIRS:
        raise BadInput(f"the plan is too large to simulate: {worst}; use fewer replicas")
    places = [each for event in events if isinstance(event, Scale) for each in event.locations]
    places += [each for component in job.components for each in component.places]
    for place, count in Counter(places).items():
        if count > MAX_TOGETHER:
            raise BadInput(
                f"the plan is too large to simulate: '{place}' holds {count:,} replicas, more than {MAX_TOGETHER:,}, "
                "which all share its processor; use fewer replicas"
            )


# clocks --------------------------------------------------------------------------------------------------------------


def _clocks(job: Job, settings: RunSettings) -> list[Load]:
    """What comes by itself again and again: statistics, drifting keys, pauses of hosts."""
    rows = settings.horizon_s / settings.period_s * len(job.query.operators)
    loads = [Load(rows * ROW_STEPS, f"the {rows:.1e} rows of statistics", "make run.period_s longer")]
    for name, skew in job.deployment.workload.keys.items():
        if skew.drift_every_s is not None:
            drifts = settings.horizon_s / skew.drift_every_s
            groups = job.component(name).key_groups or 1
            loads.append(
                Load(
                    drifts * (DRIFT_STEPS + DRIFT_STEPS_A_GROUP * groups),
                    f"the {drifts:.1e} drifts of {groups:,} key groups in workload.keys.{name}",
                    "make drift_every_s longer",
                )
            )
    noise = job.engine.noise
    if settings.noise and noise.gc_interval_s is not None:
        pauses = settings.horizon_s / (noise.gc_interval_s + noise.gc_pause_s)
        tasks = sum(each.replicas for each in job.components)
        loads.append(Load(pauses * tasks, f"the {pauses:.1e} pauses a host", "make engine.noise.gc_interval_s longer"))
    return loads


def _replicas(job: Job, events: Sequence[AnyEvent]) -> list[Load]:
    """What it takes to make them; each one that comes later is made known to all that share its processor."""
    return [
        Load(each.replicas * TASK_STEPS, f"the {each.replicas:,} replicas of {each.name!r} that are made", "use fewer")
        for each in job.components
    ] + [
        Load(
            len(event.placement) ** 2 / SCALE_SHARE,
            f"the {len(event.placement):,} replicas that events.{index} (scale) makes one by one",
            "scale to fewer",
        )
        for index, event in enumerate(events)
        if isinstance(event, Scale)
    ]
