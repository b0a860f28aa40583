"""Effort of a run: the processor time that it will take, estimated before it begins. A run that would take hours is
refused.

The unit is a service: a record that a replica takes. The number of services follows from the flows of the rate model,
and the time of each from the kernel or engine that runs the job; other repeated work is counted in services of the
engine. Near saturation, where channels are full now and then, the estimate is of the order of magnitude.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from twin.change.storage import pieces_of
from twin.errors import BadInput
from twin.event_time import partial_panes
from twin.guards import memory as limits
from twin.guards.memory import arriving, open_sessions, require_memory
from twin.job import Job, compile
from twin.panes import panes_of
from twin.query import AnyOperator, Windowed
from twin.randomness import random_stream
from twin.rates.answer import RateAnswer
from twin.rates.arrays import JobArrays
from twin.rates.checkpoints import key_state_n
from twin.rates.model import RateModel
from twin.rates.network import Hops
from twin.scenario import Scenario
from twin.windows import US_PER_S, EventWindow
from twin.workload import ArrivalLaw

ENGINE_S, KERNEL_S = 8e-6, 1e-7
"""CPU seconds of a service, in the engine and in the kernel.

All constants here were fitted on one machine; `python -m benchmarks.simulator_speed --said` compares them with runs.
"""
SOONER = ", or let it end as soon as its means are known (--precision 1%)"
"""Further remedy for a run that takes long."""
ARRIVAL_S = 2e-8
"""CPU seconds of drawing the arrival of a record, whether it is read or not."""
SENT = 0.3
"""Cost of sending a tuple, in services."""
VISIT = 0.1
"""Cost of looking at one record of a window's content, in services."""
DEALT, HELD = 0.5, 1.5
"""Cost of dealing a record by its key, and of putting it into a window and out of it, in services of the kernel."""
ENDING, PANE = 2.0, 0.9
"""Cost, for a replica, of ending a window over event time, and of adding a pane to it, in the engine's services."""
SESSION, KEPT = 0.3, 0.05
"""Cost of a session, and of a record in a window, that the kernel hands over at the end, in the engine's services."""
ROW, REPLICA, OPERATOR, CHANNEL = 7.0, 65.0, 150.0, 4.0
"""Cost of writing a row of statistics, of making a replica, of compiling, metering and reporting an operator, and of
making a channel between two replicas, when it is first used; in the engine's services."""
BARRIER = 30.0
"""Cost of a replica's part in a checkpoint, in the engine's services."""
TAKEN_OVER = 1000
"""Services that the engine does whenever it takes over from the kernel, if no further change comes before."""
CHAINED = 0.5
"""Cost of a service within a chain, where no tuple is sent, as a share of that of any other."""
DRIFT, DRIFTING_GROUP = 12.0, 0.02
"""Cost of a drift of keys, and in addition for each of their key groups, in the engine's services."""
PHASES_READ = 20_000
"""Most phases of an arrival law that are read; for the rest of the run their number is extrapolated."""


def native(job: Job, scenario: Scenario) -> bool:
    """Whether the kernel runs a job, and not the engine. The kernel knows neither event time nor sinks that commit. It
    leaves barriers to the engine, and goes on after them, with its channels made anew."""
    commits = scenario.checkpoints is not None and scenario.checkpoints.sinks == "exactly-once"
    return not (commits or any(operator.needs_event_time for operator in job.query.operators))


@dataclass(frozen=True, slots=True)
class ServiceLoad:
    """One cause of services: their number, the cause, what reduces it, and CPU seconds each."""

    services: float
    cause: str
    remedy: str
    each_s: float = ENGINE_S

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all services, roughly."""
        return self.services * self.each_s


@dataclass(frozen=True, slots=True)
class Effort:
    """Estimated cost of a run, by cause, the largest part first."""

    loads: tuple[ServiceLoad, ...]

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the run, roughly."""
        return sum(load.cpu_s for load in self.loads)

    @property
    def long(self) -> bool:
        """Whether the run takes so long that a waiting user should be told."""
        return self.cpu_s > limits.LONG_S

    def describe(self) -> str:
        """One line with the CPU time, its main cause, and the remedy."""
        worst = self.loads[0]
        why = f"about {_duration(self.cpu_s)} of CPU time, mostly for {worst.cause}"
        return f"{why}; {worst.remedy}"


def require_feasible(scenario: Scenario, job: Job | None = None) -> Effort:
    """Returns the effort of a run. Raises BadInput, naming the largest part, if it would take hours or too much memory.

    A run that ends when it is precise enough may take hours. Raises BadInput, too, if a forward stream has unequal
    numbers of replicas at its ends.
    """
    job, answer = job or compile(scenario), _answer(scenario)
    _require_pairs(job)
    require_memory(job, scenario, _taken_per_s(answer))
    effort = _estimate(scenario, job, answer)
    if effort.cpu_s > limits.MOST_S and scenario.run.precision is None:
        raise BadInput(f"the run would take {effort.describe()}{SOONER} (the limit is {_duration(limits.MOST_S)})")
    return effort


def _require_pairs(job: Job) -> None:
    for edge in job.edges:
        producers, consumers = (job.deployment.plan.replicas(name) for name in edge.ends)
        if edge.how.paired and producers != consumers:
            raise BadInput(
                f"stream into {edge.stream.consumer!r}: {edge.how} needs equal replicas, got {producers} -> "
                f"{consumers}; use rebalance"
            )


def estimate(scenario: Scenario, job: Job | None = None) -> Effort:
    """Effort of a run, without running it. job: the scenario's job, if it was compiled before."""
    return _estimate(scenario, job or compile(scenario), _answer(scenario))


def _answer(scenario: Scenario) -> RateAnswer:
    return RateModel().answer(scenario, [scenario.plan])


def _taken_per_s(answer: RateAnswer) -> dict[str, float]:
    return dict(zip(answer.operators, answer.in_per_s[0].tolist(), strict=True))


def _estimate(scenario: Scenario, job: Job, answer: RateAnswer) -> Effort:
    loads = [
        *_flows(job, scenario, answer),
        *_state(job, scenario, answer),
        *_arrivals(job, scenario),
        *_clocks(job, scenario, _channels(job, scenario, answer)),
    ]
    if native(job, scenario):
        in_kernel = sum(load.services for load in loads if load.each_s == KERNEL_S)
        loads += _uploads(job, scenario, _taken_per_s(answer), in_kernel / scenario.run.horizon_s)
    return Effort(tuple(sorted(loads, key=lambda load: -load.cpu_s)))


# what flows ----------------------------------------------------------------------------------------------------------


def _flows(job: Job, scenario: Scenario, answer: RateAnswer) -> Iterator[ServiceLoad]:
    """Services for the tuples that each operator takes, looks at in windows, and sends."""
    horizon_s, nominal = scenario.run.horizon_s, job.apart.rates
    in_kernel = native(job, scenario)
    each_s = KERNEL_S if in_kernel else ENGINE_S
    within = {each.name for component in job.components for each in component.operators[1:]}
    sends = {component.operators[-1].name for component in job.components}
    usually = sum(law.mean_rate_per_s for law in scenario.workload.arrivals.values()) * horizon_s
    more = sum(arriving(scenario).values()) / max(usually, 1e-300)
    for number, operator in enumerate(job.query.topological):
        name = operator.name
        taken = float(answer.in_per_s[0, number]) * horizon_s * more
        yield ServiceLoad(
            taken * (CHAINED if name in within else 1.0),
            f"the {taken:.1e} tuples that {name!r} takes in",
            "lower rates or run.horizon_s",
            each_s,
        )
        usual = nominal[name]
        if isinstance(operator, Windowed):
            content = min(usual.window_tuples, usual.in_per_s * horizon_s)
            share = float(answer.in_per_s[0, number]) / max(usual.in_per_s, 1e-300)
            fires = usual.fires_per_s * horizon_s
            why = f"the {fires:.1e} evaluations of the window of {name!r}, of {content * share:.1e} tuples each"
            held = HELD * taken if in_kernel else 0.0
            yield ServiceLoad(
                fires * (1.0 + VISIT * content * share) + held, why, "make it shorter or its slide longer", each_s
            )
            sent = float(answer.out_per_s[0, number]) * horizon_s * more
        else:  # tuples dropped at full channels were sent, too
            sent = taken * usual.out_per_s / max(usual.in_per_s, 1e-300)
        if name in sends:
            why = f"the {sent:.1e} tuples that {name!r} sends"
            by_key = sum(edge.how.by_key for edge in job.outputs(name)) if in_kernel else 0
            yield ServiceLoad(
                (SENT + DEALT * by_key) * sent, why, "lower rates, selectivities or run.horizon_s", each_s
            )


# state ---------------------------------------------------------------------------------------------------------------


def _state(job: Job, scenario: Scenario, answer: RateAnswer) -> Iterator[ServiceLoad]:
    """Services for windows over event time, which are put together from panes, and for state at the end."""
    horizon_s, taken_per_s = scenario.run.horizon_s, _taken_per_s(answer)
    for operator in job.query.operators:
        name, replicas = operator.name, job.component(operator.name).replicas
        if operator.needs_event_time:
            yield from _event_windows(job, operator, taken_per_s[name] / replicas, horizon_s)
        elif isinstance(operator, Windowed):
            kept = min(job.rates[name].state_tuples, taken_per_s[name] * horizon_s)
            yield ServiceLoad(KEPT * kept, f"the {kept:.1e} tuples in the windows of {name!r}", "make them shorter")
        elif sessions := open_sessions(job, operator, taken_per_s, horizon_s):
            why = f"the {sessions:.1e} open sessions of {name!r}"
            yield ServiceLoad(SESSION * sessions, why, "make its gap shorter or its keys fewer")


def _uploads(
    job: Job, scenario: Scenario, taken_per_s: dict[str, float], services_per_s: float
) -> Iterator[ServiceLoad]:
    """State on its way to the storage of checkpoints. At each piece the engine takes over from the kernel; those of all
    tasks count as in step with the longest. services_per_s: of the kernel."""
    spec, horizon_s = scenario.checkpoints, scenario.run.horizon_s
    if spec is None or spec.storage is None:
        return
    held = {name: min(job.rates[name].state_tuples, taken * horizon_s) for name, taken in taken_per_s.items()}
    came = {name: taken * spec.interval_s for name, taken in taken_per_s.items()}
    first_s, first = _longest_upload(job, scenario, spec.storage, held, None)
    later_s, later = _longest_upload(job, scenario, spec.storage, held, came if spec.state == "incremental" else None)
    more = max(0.0, (horizon_s - first_s) / max(spec.interval_s, later_s + spec.min_pause_s) - 1.0)
    count, services = 0.0, 0.0
    for times, longest_s, pieces in ((1.0, first_s, first), (more, later_s, later)):
        between = services_per_s * longest_s / max(pieces, 1)
        count += times * pieces
        services += times * pieces * (between if between < TAKEN_OVER else TAKEN_OVER + KEPT * sum(held.values()))
    why = f"the {count:.1e} pieces of state on their way to the storage"
    yield ServiceLoad(services, why, "make checkpoints.interval_s longer")


def _longest_upload(
    job: Job, scenario: Scenario, storage: str, held: dict[str, float], came: dict[str, float] | None
) -> tuple[float, int]:
    """How long the state of a task is on its way alone, in seconds, and in how many pieces: of the longest of all.

    held: tuples in windows, by operator. came: those since the last checkpoint, whose keys alone are sent; None: all.
    """
    arrays, hops, found = JobArrays(job), Hops(scenario.cluster), (0.0, 0)
    numbers = {host.name: number for number, host in enumerate(scenario.cluster.hosts)}
    for o, component in enumerate(job.apart.components):
        name, new = component.name, None if came is None else came[component.name]
        keyed = np.sum(key_state_n(arrays, o, None if new is None else np.array([new])))
        windows = (held[name] if new is None else min(held[name], new)) * component.bytes_in
        size = float(keyed + windows) / component.replicas
        for host in scenario.plan.hosts(name):
            slow = max((hops.slow_k[k] for k in hops.route(numbers[host], numbers[storage])), default=0.0)
            if size * slow > found[0]:
                found = size * slow, pieces_of(size, 1.0 / slow)
    return found


def _event_windows(job: Job, operator: AnyOperator, taken_per_s: float, horizon_s: float) -> Iterator[ServiceLoad]:
    """Services for the ends of an operator's windows. taken_per_s: tuples a second that a replica takes."""
    query, name, replicas = job.query, operator.name, job.component(operator.name).replicas
    own: tuple[EventWindow, ...] = getattr(operator, "windows", ())
    windows = [(window.length_us, window.every_us) for window in own]
    if operator.hands_over == "partials":
        pane_us = partial_panes(query, name).length_us
        windows = [(pane_us, pane_us)]
    elif windows:
        producers = [stream.producer for stream in query.inputs(name)] if operator.merges else []
        panes = [partial_panes(query, each) for each in producers if query.operator(each).hands_over == "partials"]
        pane_us = min(panes or [panes_of(own)]).length_us
    for length_us, every_us in windows:
        count = length_us / pane_us
        if not operator.merges:  # a compute keeps only panes with tuples
            count = min(count, taken_per_s * length_us / US_PER_S)
        ends = replicas * horizon_s * US_PER_S / every_us
        why = f"the {ends:.1e} ends of windows of {name!r}, of {count:.1e} panes each"
        yield ServiceLoad(ends * (ENDING + PANE * count), why, "make what they slide by longer")


# work that does not depend on the flow -------------------------------------------------------------------------------


def _arrivals(job: Job, scenario: Scenario) -> Iterator[ServiceLoad]:
    come = arriving(scenario)
    for source in job.sources:
        cause = f"the {come[source.name]:.1e} records that arrive at {source.name!r}"
        yield ServiceLoad(come[source.name], cause, "lower its rate or run.horizon_s", ARRIVAL_S)
        count = _phases(job.deployment.workload.arrivals[source.name], scenario.run.horizon_s) * source.replicas
        cause = f"the {count:.1e} changes of rate in workload.arrivals.{source.name}"
        yield ServiceLoad(count, cause, "make its phases longer or run.horizon_s shorter")


def _phases(law: ArrivalLaw, horizon_s: float) -> float:
    count, now_s = 0, 0.0
    for length_s, _ in islice(law.phases(random_stream(0, "effort")), PHASES_READ):
        count, now_s = count + 1, now_s + length_s
        if now_s >= horizon_s:
            return count
    return count if count < PHASES_READ else count * horizon_s / max(now_s, 1e-300)


def _channels(job: Job, scenario: Scenario, answer: RateAnswer) -> float:
    """Number of channels in use: at most the number of tuples."""
    used, replicas, taken_per_s = 0.0, job.deployment.plan.replicas, _taken_per_s(answer)
    for edge in job.edges:
        producer, consumer = edge.ends
        pairs = replicas(producer) * (1 if edge.how.paired else replicas(consumer))
        used += min(pairs, taken_per_s[consumer] * scenario.run.horizon_s)
    return used


def _clocks(job: Job, scenario: Scenario, channels: float) -> Iterator[ServiceLoad]:
    """Services for statistics, new replicas and channels, checkpoints, drifting keys, and pauses of hosts."""
    settings, noise, anew = scenario.run, job.engine.noise, CHANNEL * channels if native(job, scenario) else 0.0
    rows = settings.horizon_s / settings.period_s * len(job.query.operators)
    yield ServiceLoad(rows * ROW, f"the {rows:.1e} rows of statistics", "make run.period_s longer")
    tasks, operators = sum(component.replicas for component in job.components), len(job.query.operators)
    yield ServiceLoad(tasks * REPLICA, f"the {tasks:,} replicas that are made", "use fewer")
    yield ServiceLoad(anew, f"the {channels:,.0f} channels between replicas", "use fewer replicas")
    yield ServiceLoad(operators * OPERATOR, f"the {operators:,} operators that are compiled", "use fewer")
    if scenario.checkpoints is not None:
        checkpoints = settings.horizon_s / scenario.checkpoints.interval_s
        why = f"the {tasks * checkpoints:.1e} barriers of checkpoints at replicas"
        yield ServiceLoad(checkpoints * (tasks * BARRIER + anew), why, "make checkpoints.interval_s longer")
    for name, skew in job.deployment.workload.keys.items():
        if skew.drift_every_s is not None:
            drifts, groups = settings.horizon_s / skew.drift_every_s, job.component(name).key_groups or 1
            cause = f"the {drifts:.1e} drifts of {groups:,} key groups in workload.keys.{name}"
            yield ServiceLoad(drifts * (DRIFT + DRIFTING_GROUP * groups), cause, "make drift_every_s longer")
    if settings.noise and noise.gc_interval_s is not None:
        pauses = settings.horizon_s / (noise.gc_interval_s + noise.gc_pause_s)
        yield ServiceLoad(pauses * tasks, f"the {pauses:.1e} pauses a host", "make engine.noise.gc_interval_s longer")


def _duration(cpu_s: float) -> str:
    if cpu_s < 120.0:
        return f"{cpu_s:.0f} s"
    return f"{cpu_s / 60:.0f} min" if cpu_s < 7200.0 else f"{cpu_s / 3600:.3g} h"
