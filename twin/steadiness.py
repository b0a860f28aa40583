"""Steadiness of a job: whether means over time say something, how long its memory is, when measuring begins, and when
means are known well enough."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
import simpy
from simpy.core import StopSimulation

from twin.control import Policy
from twin.deployment import Deployment
from twin.events import AnyEvent
from twin.job import Job, compile
from twin.kinds.registry import SINKS
from twin.metrics import (
    FEWEST_BATCHES,
    NO_ERRORS,
    StandardErrors,
    beat_s,
    edges_s,
    measured,
    standard_errors,
    whole_slides_s,
)
from twin.query import AnyOperator, Windowed
from twin.run import host_totals, metrics_of, operator_totals, waiting
from twin.scenario import RunSettings, Scenario
from twin.workload import Bursty, Constant, Poisson, Spikes
from twin.world.clock import Clock
from twin.world.meters import Row, Statistics
from twin.world.parts import SinkCounts
from twin.world.world import World

# whether a run is steady ---------------------------------------------------------------------------------------------


FILLED = 2.0
"""Number of a job's longest windows after which it is taken to be in its steady state."""
SHARE = 0.01
"""Possible relative error of a rate above which there is a warning."""
STARTS, MOST_ENDS = 1000, 1000
"""Starts of the first checkpoint that are tried, and the most ends of windows that are looked at."""
NO_SPARE = 0.99
"""Share of the time: an operator or host that is used for it has nothing to spare."""
LAST = 0.1
"""Share of the measured time that counts as a run's end: short enough that most changes lie before it."""
GROWN = {2: 31.82, 3: 6.96, 4: 4.54, 5: 3.75, 6: 3.36, 7: 3.14, 8: 3.00, 9: 2.90, 10: 2.82}
"""Number of standard errors above which growth is no chance, by the number of parts of the second half of a run whose
changes are compared: Student's t at 1 % on one side."""
BATCHES = max(GROWN)
"""Most of these parts; a part is a period at least. Of a single one nothing is said."""


def measured_from_s(scenario: Scenario) -> float:
    """Start of the measured time in seconds: the warm-up's end, or later, so that a whole number of slides is left.

    Results of windows come all at once, and so do those that wait for checkpoints. A span of n slides has n evaluations
    whatever their phase, if it begins no earlier than the first evaluation. The span is not shortened without a
    warm-up, where arrivals vary, or if it would leave out an event. With a precision, means begin when windows are
    full, as a longer run has full windows.
    """
    settings = scenario.run
    start_s, end_s = settings.warmup_s, settings.horizon_s
    if settings.precision:
        start_s = max(start_s, filled_s(memory_s(scenario), end_s))
    slides = [slide_s for slide_s in slides_s(scenario) if max(start_s, slide_s) + slide_s <= end_s * (1.0 + 1e-12)]
    if not (start_s and slides) or varying(scenario):
        return start_s
    first_s = max(start_s, *slides)
    length_s = beat_s(slides, end_s - first_s)
    from_s = end_s - int((end_s - first_s) / length_s + 1e-9) * length_s
    if from_s <= start_s * (1.0 + 1e-12) or any(event.at_s < from_s for event in scenario.events):
        return start_s
    return from_s


def uneven(deployment: Deployment, start_s: float, end_s: float) -> list[str]:
    """Warnings about measured times that are no whole number of slides, or commits: how far rates may be off.

    There are as many evaluations as whole slides, or one more; from an empty start, one less than there are slides.
    """
    lines, length_s = [], end_s - start_s
    operators = deployment.query.operators
    beats = [
        (f"{each.name}: its window is evaluated", slide_s) for each in operators for slide_s in window_slides_s(each)
    ]
    beats += [("exactly-once: a sink commits", interval_s) for interval_s in _commits_s(deployment)]
    for what, slide_s in beats:
        count = length_s / slide_s
        rest = count - math.floor(count + 1e-6)
        if not start_s:
            off = (rest if rest > 1e-6 else 1.0) / count
        else:
            off = max(rest, 1.0 - rest) / count if rest > 1e-6 else 0.0
        if off > SHARE and slide_s < end_s:
            lines.append(
                f"{what} every {slide_s:g} s, but {length_s:g} s are measured: the rate of its results may be "
                f"{off:.0%} off; make run.warmup_s {slide_s:g} or more, and run.horizon_s a multiple of {slide_s:g} s "
                "longer"
            )
    return lines


def in_step(scenario: Scenario, start_s: float, end_s: float, latency_s: float) -> list[str]:
    """Warnings about results of windows whose waits for exactly-once commits depend on when checkpoints begin, which is
    chance: by how much the mean latency may differ. latency_s: the mean that was measured."""
    spec, lines = scenario.checkpoints, list[str]()
    starts_s = np.zeros(1) if spec is None else spec.phases_s(np.arange(STARTS) / STARTS)
    for operator in scenario.query.operators:
        for slide_s, every_s in product(window_slides_s(operator), _commits_s(scenario)):
            ends_s = np.arange(min(MOST_ENDS, max(1, int((end_s - start_s) / slide_s)))) * slide_s
            spread_s = float(np.ptp(np.mod(starts_s[:, None] - ends_s, every_s).mean(axis=1)))
            if spread_s > 2.0 * SHARE * latency_s:
                lines.append(
                    f"{operator.name}: its results, every {slide_s:g} s, wait for checkpoints, every {every_s:g} s, "
                    f"which begin by chance: with another seed the mean latency may differ by up to {spread_s:.3g} s; "
                    "replicate, or say checkpoints.first_s"
                )
    return lines


def outlasting(operators: Iterable[AnyOperator], end_s: float) -> list[str]:
    """Warnings about windows of these operators that are longer than the run."""
    return [
        f"{each.name}: what it holds lasts {each.memory_s:g} s, longer than the run of {end_s:g} s, so it never was "
        "full: in a longer run its results are older, and more comes together; make run.horizon_s several times as long"
        for each in operators
        if each.hands_over != "records" and each.memory_s > end_s
    ]


def source_of_change(deployment: Deployment, events: Sequence[AnyEvent], policy: Policy | None) -> str:
    """Source of changes of a run with time, in words; empty if all parts of it are alike apart from chance.

    Bursts and spikes at random times are chance; see `memory_s`.
    """
    if events:
        return f"events ({events[0].kind})"
    if policy is not None:
        return f"the policy {policy.name}"
    return "checkpoints" if _checkpointed(deployment) else varying(deployment)


def varying(deployment: Deployment) -> str:
    """Arrivals whose rate changes with time, apart from chance, in words; empty if there are none."""
    for source, law in deployment.workload.arrivals.items():
        random = isinstance(law, Constant | Poisson | Bursty) or (isinstance(law, Spikes) and law.random)
        if not random:
            return f"the arrivals of {source} ({law.law})"
    return ""


def _checkpointed(deployment: Deployment) -> bool:
    """Whether the job takes checkpoints."""
    return isinstance(deployment, Scenario) and deployment.checkpoints is not None


def in_short_periods(scenario: Scenario) -> Scenario:
    """Scenario with periods short enough to tell whether queues grow; unchanged if a policy decides by its periods."""
    if scenario.policy is not None:
        return scenario
    length_s = scenario.run.horizon_s - scenario.run.warmup_s
    return scenario.with_run(period_s=min(scenario.run.period_s, length_s / (4 * BATCHES)))


def queue_growth_per_s(
    deployment: Deployment,
    operators: Sequence[Mapping[str, Any]],
    links: Sequence[Mapping[str, Any]],
    events: Sequence[Row],
    warmup_s: float,
) -> float:
    """Growth of queues after the last change of load or job, in records a second; 0 if it may be chance, or if the load
    changes all the time. events: rows of the whole run."""
    changed_s = [event["at_s"] if event["end_s"] is None else event["end_s"] for event in _changes(events)]
    return 0.0 if varying(deployment) else growth_per_s(operators, links, max(warmup_s, *changed_s, 0.0))


def _changes(events: Sequence[Row]) -> list[Row]:
    """Rows of events that change load or job: not checkpoints, nor decisions, as what these change has own rows."""
    return [event for event in events if event["kind"] not in ("checkpoint", "decision")]


def growth_per_s(operators: Sequence[Mapping[str, Any]], links: Sequence[Mapping[str, Any]], from_s: float) -> float:
    """Growth of queues in the second half of the time after `from_s`, in records a second; 0 if it may be chance.

    The drift of the number in the system is judged by its standard error over batches (Law, Simulation Modeling and
    Analysis, 9.5). A queue that is stable, or an evaluation of a window, gives back what it took, so that changes of
    batches cancel each other. operators, links: rows of all periods. For loads that do not change with time.
    """
    queued: Counter[float] = Counter()
    for row in operators:
        queued[row["end_s"]] += waiting(row)
    on_the_way = Counter(dict.fromkeys(queued, 0))
    for row in links:
        on_the_way[row["end_s"]] += row["recordsIn"] - row["recordsOut"]
    at_s = np.array(sorted(queued))
    there = np.array([queued[end_s] for end_s in at_s]) + np.cumsum([on_the_way[end_s] for end_s in at_s])
    first = int(np.searchsorted(at_s, (from_s + at_s[-1]) / 2.0))
    batches = min(BATCHES, len(at_s) - 1 - first)
    if batches not in GROWN:
        return 0.0
    changes = np.diff(there[np.linspace(first, len(at_s) - 1, batches + 1).round().astype(int)])
    sure = changes.mean() > GROWN[batches] * changes.std(ddof=1) / math.sqrt(batches)
    return float(changes.sum() / (at_s[-1] - at_s[first])) if sure else 0.0


def full(
    deployment: Deployment,
    operators: Sequence[Row],
    subtasks: Sequence[Row],
    hosts: Sequence[Row],
    events: Sequence[Row],
    warmup_s: float,
) -> tuple[str, ...]:
    """Operators and hosts that are busy all of the time and can block a source, an operator if one of its subtasks is;
    if load or job change, those at the end. An operator that calls is used while it waits for a call that it may make.

    A longer run may show that the job does not keep up, once its queues have filled. operators, subtasks, hosts: rows
    of all periods; events: of the whole run.
    """
    last, holding = operators[-1], deployment.query.holding_up
    changes = varying(deployment) or _changes(events)
    from_s = min(last["end_s"] - LAST * (last["end_s"] - warmup_s), last["start_s"]) if changes else warmup_s
    aside = {*deployment.plan.hosts(*deployment.plan.placement)} - {*deployment.plan.hosts(*holding)}
    totals = operator_totals(measured(operators, from_s), 0.0, subtasks)
    calling = {each.name for each in deployment.query.operators if each.calls is not None}
    used = dict[str, float]()
    for each in totals:
        waits = float(each.operator in calling)
        times = [(each.busy, each.backpressured), *((one.busy, one.backpressured) for one in each.subtasks)]
        used[each.operator] = max(busy + waits * blocked for busy, blocked in times)
    found = [name for name, busy in used.items() if busy >= NO_SPARE and name in holding]
    cpus = host_totals(measured(hosts, from_s), 0.0)
    return (*found, *(each.host for each in cpus if each.cpu >= NO_SPARE and each.host not in aside))


def filling(names: Iterable[str]) -> list[str]:
    """Caution that these operators and hosts are `full`; empty if there are none."""
    listed = list(names)
    were = "was" if len(listed) == 1 else "were"
    return [f"{', '.join(listed)} {were} fully used, so queues may still be filling; run longer"] if listed else []


def slides_s(deployment: Deployment) -> list[float]:
    """Slides of the windows over time, and the interval of commits, in seconds."""
    slides = [slide_s for operator in deployment.query.operators for slide_s in window_slides_s(operator)]
    return slides + _commits_s(deployment)


def _commits_s(deployment: Deployment) -> list[float]:
    """Interval at which exactly-once sinks commit their results, in seconds; empty if no sink does.

    Checkpoints are at least `min_pause_s` apart; the time that one itself takes is neglected.
    """
    spec = deployment.checkpoints if isinstance(deployment, Scenario) else None
    if spec is None or spec.sinks != "exactly-once":
        return []
    return [max(spec.interval_s, spec.min_pause_s)]


def window_slides_s(operator: AnyOperator) -> list[float]:
    """Times between ends of the windows over time of an operator, in seconds; empty if it has none."""
    if isinstance(operator, Windowed):
        return [operator.window.slide] if operator.window.policy == "time" else []
    return [window.slide_s for window in operator.event_windows]


def filled_s(long_s: float, horizon_s: float) -> float:
    """Time after which windows count as full, in seconds. long_s: the longest of them (`memory_s`)."""
    return min(FILLED * long_s, horizon_s / 4)


def memory_s(what: Deployment | Job) -> float:
    """Memory of a job: seconds for which input affects output, apart from queues.

    This is the longest memory of an operator, round of bursts or spikes, or time between drifts of keys.
    """
    job, lengths_s = compile(what), [0.0]
    for component in job.apart.components:
        operator = component.operator
        lengths_s.append(operator.memory_s)
        if isinstance(operator, Windowed) and operator.window.policy == "count":
            rate = job.rates[operator.name].in_per_s / component.parallelism
            lengths_s.append(operator.window.size / max(rate, 1e-300))
    workload = job.deployment.workload
    for law in workload.arrivals.values():
        if isinstance(law, Bursty):
            lengths_s.append(sum(state.mean_s for state in law.states))
        elif isinstance(law, Spikes):
            lengths_s.append(law.every_s)
    lengths_s += [skew.drift_every_s or 0.0 for skew in workload.keys.values()]
    return max(lengths_s)


def steady(deployment: Deployment, events: Sequence[AnyEvent], policy: bool) -> bool:
    """Whether longer and shorter runs give the same means: rates are constant, and nothing happens or drifts."""
    return unchanging(deployment, events, policy) and not _checkpointed(deployment)


def unchanging(deployment: Deployment, events: Sequence[AnyEvent], policy: bool) -> bool:
    """Whether a job bears in long runs what it bears in short ones, once its channels are full: the same, but for
    checkpoints, which come again and again."""
    laws = deployment.workload.arrivals.values()
    drifts = any(skew.drift_every_s is not None for skew in deployment.workload.keys.values())
    return not (events or policy or drifts) and all(isinstance(law, Constant | Poisson) for law in laws)


# batches, and runs that end early ------------------------------------------------------------------------------------
# Batches of a run, which show how much of its means is chance; and runs that end as soon as means are known well
# enough.
#
# A run has some dozens of batches at any time: at eighty they are joined two by two, and those that follow are as long
# as these. Each time that the run has grown by two fifths, throughput and latencies are judged by their standard errors
# over batches (Law and Carson, Operations Research 27, 1979). A test that is repeated often stops by chance sooner or
# later, and all means are to be known at once, so that more standard errors must fit into the precision than an
# interval has (`MARGIN`).


def batches_of(job: Job, settings: RunSettings, world: World, statistics: Statistics) -> Batches | None:
    """Batches of a run that is about to begin, after its warm-up; None if it is too short for them.

    They begin when windows are full, as the filling of windows is no chance.
    """
    long_s = memory_s(job)
    start_s = max(settings.warmup_s, filled_s(long_s, settings.horizon_s))
    ends_s = edges_s(start_s, settings.horizon_s, long_s, slides_s(job.deployment))
    if not ends_s:
        return None
    batches = Batches(world.env, sinks_of(job, world), ends_s[:-1])
    statistics.listeners.append(batches.period_ended)
    return batches


def too_short(job: Job, settings: RunSettings) -> str:
    """Caution that a run is too short for batches, with the horizon at which it has `FEWEST_BATCHES`."""
    long_s = memory_s(job)
    each_s = whole_slides_s(long_s, slides_s(job.deployment))
    enough_s = max(settings.warmup_s, FILLED * long_s) + FEWEST_BATCHES * each_s
    return (
        f"{NO_ERRORS}: they come from {FEWEST_BATCHES} or more parts of a run, each as long as its longest window or "
        f"round of bursts ({each_s:g} s); make run.horizon_s {enough_s:.12g} or more, or replicate"
    )


def sinks_of(job: Job, world: World) -> list[SinkCounts]:
    """Logics that count results, of all subtasks of sinks."""
    found = [(job.component(sink.name), sink) for sink in job.query.result_sinks]
    parts = [
        task.logic.part(component.operators.index(sink))
        for component, sink in found
        for task in world.tasks[component.name]
    ]
    return [counts for part in parts if (counts := part.sink()) is not None]


class Batches:
    """Reads the sinks whenever a batch ends. `period_ended` has to be called whenever the sinks are emptied."""

    def __init__(self, env: Clock, sinks: Sequence[SinkCounts], edges_s: Iterable[float]) -> None:
        """edges_s: the beginning of the first batch, and the ends of all but the last, which `table` ends."""
        self.sinks = sinks
        self._before = np.zeros(3)
        self._edges: list[tuple[float, np.ndarray]] = []
        self._env = env
        env.process(self._run(edges_s))

    def period_ended(self, operators: Sequence[Row], _hosts: Sequence[Row]) -> None:
        """Adds the results of a period: the sinks have been read into these rows, and emptied."""
        for row in operators:
            if row["kind"] in SINKS:
                self._before += [row["latencyCount"], row["processingLatencySum_s"], row["e2eLatencySum_s"]]

    def table(self) -> np.ndarray:
        """Table of the batches, [4, B]: seconds, results, and the sums of processing and end-to-end latencies in
        seconds.

        The last batch ends now.
        """
        ends = [*self._edges, self._now()]
        return np.array([[until - since, *(end - start)] for (since, start), (until, end) in pairwise(ends)]).T

    def _run(self, edges_s: Iterable[float]) -> Generator[simpy.Event, object, None]:
        for edge_s in edges_s:
            yield self._env.first(max(0.0, edge_s - self._env.now))
            self._edges.append(self._now())

    def _now(self) -> tuple[float, np.ndarray]:
        fresh = [(sink.count, sink.processing_sum_s, sink.e2e_sum_s) for sink in self.sinks]
        return self._env.now, self._before + np.sum(fresh, axis=0)


LOOKS = (40, 56)
"""Numbers of batches at which means are judged; after the last, batches are joined two by two."""
MARGIN = 2.5
"""Standard errors that must fit into the precision, so that all means together are as close in 95 of 100 runs."""
RESULTS = 30.0
"""Least expected results of a batch, at the rates that the job is offered."""


class PrecisionStop:
    """Ends a run as soon as its means are known as well as `run.precision` says; `reached` then is true."""

    def __init__(self, job: Job, scenario: Scenario, world: World, statistics: Statistics) -> None:
        settings = scenario.run
        self.precision, self.warmup_s = settings.precision or math.inf, settings.warmup_s
        self.reached = False
        self._statistics = statistics
        self._env = world.env
        self._batches = Batches(world.env, sinks_of(job, world), self._edges_s(self.warmup_s, _length_s(job)))
        statistics.listeners.append(self._batches.period_ended)

    def table(self) -> np.ndarray:
        """Table of the whole batches, [4, B]; see `Batches.table`."""
        return joined(self._batches.table()[:, :-1])

    def _edges_s(self, start_s: float, length_s: float) -> Iterator[float]:
        """Ends of batches in seconds. The next one is asked for when a batch has ended, and then means are judged."""
        number = 0
        while True:
            yield start_s + number * length_s
            if _looked(number) and self._known():
                self.reached = True
                self._env.first(0.0).callbacks.append(StopSimulation.callback)
                return
            number += together(number)

    @property
    def growing(self) -> bool:
        """Whether the brokers' backlog grows, so that end-to-end latencies have no mean."""
        rows = measured(self._statistics.operator_rows, self.warmup_s)
        return bool(rows) and metrics_of(rows, 0.0, crashed=False).backpressured

    def _known(self) -> bool:
        table = self.table()
        return shares(table, standard_errors(table, growing=self.growing)) <= self.precision


def shares(table: np.ndarray, errors: StandardErrors) -> float:
    """Largest of `MARGIN` standard errors as shares of their means; inf if nothing reached a sink."""
    length_s, results, processing_s, e2e_s = table.sum(axis=1)
    if not results:
        return math.inf
    found = (
        (errors.throughput_per_s, results / length_s),
        (errors.processing_latency_s, processing_s / results),
        (errors.e2e_latency_s, e2e_s / results),
    )
    return max((MARGIN * error / mean for error, mean in found if error is not None and mean), default=math.inf)


def _looked(number: int) -> bool:
    """Whether means are judged after that many batches: at 40, 56, 80, 112, and so on."""
    if number < min(LOOKS):
        return False
    return any(number == look << math.floor(math.log2(number / look)) for look in LOOKS if number >= look)


def together(number: int) -> int:
    """Number of first batches that are joined into one after `number` of them: 1 below 80, 2 below 160, and so on."""
    return 1 << max(0, math.floor(math.log2(max(1, number) / min(LOOKS))))


def joined(table: np.ndarray) -> np.ndarray:
    """Joins batches, the first of which are shorter, into batches of equal length. [4, B]

    Those at the start that do not make up a whole batch are dropped.
    """
    if not table.shape[1]:
        return table
    ends = np.cumsum(np.round(table[0] / table[0, 0])).astype(int)
    each = together(int(ends[-1]))
    starts = np.flatnonzero(np.isin(np.append(0, ends[:-1]), ends[-1] - each * np.arange(1, ends[-1] // each + 1)))
    return np.add.reduceat(table[:, starts[0] :], starts - starts[0], axis=1)


def _length_s(job: Job) -> float:
    """Length of the first batches in seconds: a batch has full windows and some dozens of results."""
    per_s = sum(job.rates[each.name].in_per_s for each in job.query.result_sinks)
    return whole_slides_s(max(memory_s(job), RESULTS / max(per_s, 1e-300)), slides_s(job.deployment))


def until_the_end(precision: float | None, why: str, enough: PrecisionStop | None) -> list[str]:
    """Cautions about a run that lasted until its horizon, though a precision was asked for.

    why: the source of change because of which it could not end before, if any.
    """
    if precision is None or (enough is not None and enough.reached):
        return []
    if enough is None:
        return [f"run.precision = {precision:g}: the run lasted until its horizon, as its means change with {why}"]
    table = enough.table()
    share = shares(table, standard_errors(table, growing=enough.growing)) if table.shape[1] >= min(LOOKS) else math.inf
    if not math.isfinite(share):
        return [f"run.precision = {precision:g} is not reached: too little happens until the horizon; run longer"]
    more = (share / precision) ** 2
    return [
        f"run.precision = {precision:g} is not reached, but {share:.2g}; a run {more:.1f} times as long should reach it"
    ]
