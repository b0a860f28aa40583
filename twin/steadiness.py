"""Steadiness of a job: whether means over time say something, how long its memory is, and when measuring begins."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from twin.control import Policy
from twin.deployment import Deployment
from twin.events import AnyEvent
from twin.job import Job, compile
from twin.metrics import measured
from twin.query import AnyOperator, Windowed
from twin.run import host_totals, operator_totals, waiting
from twin.scenario import Scenario
from twin.standard_errors import beat_s
from twin.workload import Bursty, Constant, Poisson, Spikes
from twin.world.meters import Row

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
        shares = [(each.busy, each.backpressured), *((one.busy, one.backpressured) for one in each.subtasks)]
        used[each.operator] = max(busy + waits * blocked for busy, blocked in shares)
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
