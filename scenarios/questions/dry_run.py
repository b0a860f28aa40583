"""Tries a change of a running job before it is made: the pause, the growth of the backlog, and the time to catch up.

Each run with the change has a twin without it on the same random numbers, so all differences are due to the change.
Some tuples wait or are on the network in the undisturbed run, too: a job has caught up when no more are than there at
the same time, but for chance. If that run does not keep up, its growing backlog is no measure; instead, the job has
caught up when no more wait than at most before the first event, or, without events, in the first period.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from scenarios.executing.progress import Audience
from scenarios.files.documents import CLOSED, Number, Seconds
from scenarios.questions.bench import Bench, Job, outcome_of
from scenarios.questions.change_options import Planned
from scenarios.questions.control_measures import by_period, course, latencies
from scenarios.questions.intervals import MeanOfRuns, of_mean
from scenarios.questions.kept import RunOutcome
from scenarios.questions.measures import of
from scenarios.questions.single_run import run
from twin.engine.measure.meters import Row
from twin.engine.sketch import representative_s
from twin.randomness import child_seed
from twin.run import Run, waiting
from twin.scenario import Scenario
from twin.steadiness import growth_per_s, varying

STRAYS = 5
"""Backlogs of two runs differ by chance by no more than so many times the median backlog (at least 1), with few
exceptions: M/M/1 queues exceed it 2^-5 of the time."""
LOOKS = 5000
"""Times of a run at which the backlog is measured, at equal distances. Periods may be long: policies decide by them."""
POINTS = 240
"""Least number of periods of a run, for courses that can be seen, unless a policy sees them."""
MEANINGS: Mapping[str, str] = {
    "pause_s": "longest pause",
    "lag": "largest growth of the backlog (tuples)",
    "catch_up_s": "time to catch up",
    "latency_s": "highest end-to-end latency after the change",
    "late": "results later than any without the change",
    "twice": "results that come twice",
    "lost": "tuples lost at full channels",
    "moved_mb": "state moved, more than without it (MB)",
    "restarted": "replicas that restart",
    "redone_s": "work done again, since the last checkpoint",
    "replayed": "tuples that sources read again",
}
OF_RESTARTS = ("restarted", "redone_s", "replayed")
"""Measures that are shown only if something fails, or if the engine restarts the job to change its plan."""
TIMED = "catch_up_s"
"""Measure that is known only to the time between two looks."""
CHANGES = ("migration", "scale", "failure")
Courses = Mapping[str, Sequence[float]]


@CLOSED
@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunAnswer:
    """The answer of `twin dry-run`. measures: those in MEANINGS; names that end in `_s` are in seconds. period_s: time
    between two looks at the backlog. course: means over the runs by period, `without` and `with` the change. If both
    ways of failover are compared, full: the measures where the whole job restarts; saved: these minus the others.
    """

    scenario: str
    change: str
    at_s: Seconds
    seed: int
    replications: int
    period_s: Seconds
    keeps_up_without: int
    measures: Mapping[str, MeanOfRuns]
    full: Mapping[str, MeanOfRuns] | None = None
    saved: Mapping[str, MeanOfRuns] | None = None
    course: Mapping[str, Mapping[str, tuple[Number, ...]]]
    warnings: tuple[str, ...]


def seen(scenario: Scenario, seed: int, at_s: float) -> RunOutcome:
    """Makes one run, and keeps tuples that wait by look, results by bucket of latency, and pauses from `at_s` on."""
    made = run(scenario, seed, LOOKS)
    growing = {"growing": [float(_growing(scenario, made))]}
    return outcome_of(made, _course(made, at_s, {event.at_s for event in scenario.events}) | growing)


def _falls_behind(outcome: RunOutcome) -> bool:
    """Whether a run fell behind: before the first event, or after the last one."""
    behind = any(of(outcome.measures, name) for name in ("backpressured", "queue_growth_per_s"))
    return behind or bool((outcome.course or {})["growing"][0])


def _growing(scenario: Scenario, made: Run) -> bool:
    """Whether queues grow under an unchanging load, before anything happens to the job."""
    first_s = min((row["at_s"] for row in made.event_rows if row["kind"] != "checkpoint"), default=math.inf)
    operators, links = (
        [row for row in rows if row["end_s"] <= first_s] for rows in (made.operator_rows, made.link_rows)
    )
    known = bool(operators) and not varying(scenario)
    return known and growth_per_s(operators, links, made.manifest["warmup_s"]) > 0.0


def look(at_s: float) -> partial[RunOutcome]:
    """Function `seen` for a time of the change, in a form that other processes can receive."""
    return partial(seen, at_s=at_s)


def finer(scenario: Scenario) -> Scenario:
    """Scenario with periods short enough to see the course of a change; unchanged if a policy decides by them."""
    if scenario.policy is not None:
        return scenario
    return scenario.with_run(period_s=min(scenario.run.period_s, scenario.run.horizon_s / POINTS))


def dry_run(
    bench: Bench, given: Scenario, change: Planned, replications: int, seed: int, audience: Audience
) -> DryRunAnswer:
    """Tries a change by paired runs. given: the scenario without it; both come from `finer`. bench: runs by `look`."""
    tried = trials(change, replications)
    kinds = 1 + len(tried[0].scenarios)
    cases = [given, *(case for trial in tried for case in trial.scenarios)]
    jobs: list[Job] = []
    for index in range(replications):
        own = cases[1 + index * (kinds - 1) : 1 + (index + 1) * (kinds - 1)]
        jobs += [(case, child_seed(seed, index)) for case in (cases[0], *own)]
    audience.stage(f"{change.words}: {replications} runs with and without it, on the same random numbers")
    with audience.progress("runs") as report:
        outcomes = bench.outcomes(jobs, report)
    without, *changed = (outcomes[kind::kinds] for kind in range(kinds))
    first_s = min((event.at_s for event in given.events), default=math.inf)
    with_it = changed[0]
    keeps_up = [not _falls_behind(each) for each in without]
    every_s = given.run.horizon_s / LOOKS
    pairs = [
        [
            _compared(one.course or {}, other.course or {}, trial.at_s, first_s, steady)
            for one, other, trial, steady in zip(without, each, tried, keeps_up, strict=True)
        ]
        for each in changed
    ]
    measures, *rival = [_all_known(each, every_s) for each in pairs]
    return DryRunAnswer(
        scenario=given.name,
        change=change.words,
        at_s=change.at_s,
        seed=seed,
        replications=replications,
        period_s=every_s,
        keeps_up_without=sum(keeps_up),
        measures=measures,
        full=rival[0] if rival else None,
        saved=_saved(pairs[0], pairs[1], every_s) if rival else None,
        course={"without": _mean_course(without), "with": _mean_course(with_it)},
        warnings=(*with_it[0].warnings, *_beside(given)),
    )


def _beside(given: Scenario) -> Iterable[str]:
    """Warns of events that the scenario has besides the change."""
    if given.events:
        events = ", ".join(f"{event.kind} at {event.at_s:g} s" for event in given.events)
        yield (
            f"the scenario has events of its own ({events}); the answer is what the change adds to them, and "
            "--set events=[] leaves them out"
        )


def _all_known(
    pairs: Sequence[Mapping[str, float]], period_s: float, told: Iterable[str] | None = None
) -> dict[str, MeanOfRuns]:
    if told is None:
        told = [name for name in MEANINGS if name not in OF_RESTARTS or any(pair[name] for pair in pairs)]
    return {name: _known(name, [pair[name] for pair in pairs], period_s) for name in told}


def _saved(
    pairs: Sequence[Mapping[str, float]], rival: Sequence[Mapping[str, float]], period_s: float
) -> dict[str, MeanOfRuns]:
    """Differences of the rival's measures to the others, run by run."""
    more = [{name: other[name] - one[name] for name in one} for one, other in zip(pairs, rival, strict=True)]
    return _all_known(more, period_s, _all_known(rival, period_s))


def _course(made: Run, at_s: float, given_s: Container[float]) -> dict[str, list[float]]:
    """Course of a run, to be compared with another, as lists of numbers that can be kept in a file. given_s: times of
    the scenario's events; a policy decides on other changes."""
    changes = [row for row in made.event_rows if row["kind"] in CHANGES and row["at_s"] >= at_s]
    after = [row for row in made.operator_rows if row["end_s"] > at_s]
    counts = latencies(after)
    return course(made) | {
        "waiting": [float(sum(map(waiting, period))) for period in by_period(made)],
        "bucket": [float(bucket) for bucket in sorted(counts)],
        "results": [float(counts[bucket]) for bucket in sorted(counts)],
        "looked_s": [at_s for at_s, _ in made.looks],
        "queued": [float(count) for _, count in made.looks],
        "kind": [float(CHANGES.index(row["kind"])) for row in changes],
        "changed_s": [float(row["at_s"]) for row in changes],
        "paused_s": [_paused_s(row, row["at_s"] in given_s) for row in changes],
        "bytes": [float(row["bytes"] or 0.0) for row in changes],
        **{name: [_of_restart(row, name) for row in changes] for name in OF_RESTARTS},
        "twice": [float(made.duplicates)],
        "lost": [float(sum(row["numRecordsDropped"] for row in after))],
    }


def _paused_s(change: Row, given: bool) -> float:
    """Seconds for which a change paused the job; inf if a given change has not ended, or a failed part stays down."""
    for_good = change["end_s"] is None and ("restarted" in change["detail"] if change["kind"] == "failure" else given)
    return math.inf if for_good else float(change["paused_s"] or 0.0)


def _of_restart(change: Row, name: str) -> float:
    """Value of a measure in OF_RESTARTS; 0 if the change restarts nothing: a job that stays down repeats no work."""
    detail = change["detail"]
    if detail.get("restarted") == 0:
        return 0.0
    if name == "redone_s":  # 0 after a savepoint, which is written after the change was asked for
        return max(0.0, float(change["at_s"] - detail.get("checkpoint_s", change["at_s"])))
    return float(detail.get(name, 0.0))


def _added(without: Courses, with_it: Courses, name: str) -> list[float]:
    """Measure of each change, less that of the same change in the other run if it happens there, as other events of
    the scenario do."""
    own: dict[tuple[float, float], list[float]] = {}
    for kind, at_s, value in zip(without["kind"], without["changed_s"], without[name], strict=True):
        own.setdefault((kind, at_s), []).append(value)
    added = []
    for kind, at_s, value in zip(with_it["kind"], with_it["changed_s"], with_it[name], strict=True):
        there = own.get((kind, at_s))
        before = there.pop(0) if there else 0.0
        added.append(0.0 if value == before else value - before)  # both may be infinite
    return added


def _compared(without: Courses, with_it: Courses, at_s: float, first_s: float, keeps_up: bool) -> dict[str, float]:
    """Measures in MEANINGS of one pair of runs; catch_up_s is inf if the job has not caught up at the end of the run.

    first_s: time of the scenario's first other event. keeps_up: whether the job keeps up without the change."""
    ends = np.array(with_it["looked_s"])
    after = ends > at_s
    normal, now = np.array(without["queued"]), np.array(with_it["queued"])
    calm = normal[ends <= (first_s if keeps_up or first_s < math.inf else ends[-1] / POINTS)]
    chance = STRAYS * max(1.0, float(np.median(calm)) if len(calm) else 0.0)
    usual = normal + chance if keeps_up else calm.max(initial=0.0)
    pause_s = max([0.0, *_added(without, with_it, "paused_s")])
    more = np.where(after, now - normal, -math.inf)
    caught_up_s = _caught_up_s(after & (now > usual), int(more.argmax()), ends, at_s)
    highest = max(without["bucket"], default=-math.inf)
    late = sum(n for bucket, n in zip(with_it["bucket"], with_it["results"], strict=True) if bucket > highest)
    return {
        "pause_s": pause_s,
        "lag": max(0.0, float(more.max())),
        "catch_up_s": max(caught_up_s, pause_s),
        "latency_s": representative_s(int(with_it["bucket"][-1])) if with_it["bucket"] else math.inf,
        "late": float(late),
        "twice": with_it["twice"][0] - without["twice"][0],
        "lost": with_it["lost"][0] - without["lost"][0],
        "moved_mb": (sum(with_it["bytes"]) - sum(without["bytes"])) / 1e6,
        "restarted": sum(_added(without, with_it, "restarted")),
        "redone_s": max([0.0, *_added(without, with_it, "redone_s")]),
        "replayed": sum(_added(without, with_it, "replayed")),
    }


def _caught_up_s(behind: np.ndarray, worst: int, ends: np.ndarray, at_s: float) -> float:
    """Seconds from `at_s` to the middle between the two looks at which the backlog of look `worst`, the largest, ends.

    0 if no more than usual waits there, inf if the run ends first. behind: by look, whether more than usual waits.
    Later backlogs, such as before the results of a window, are due to chance and do not count.
    """
    if not behind[worst]:
        return 0.0
    over = np.flatnonzero(~behind[worst:])
    return float((ends[worst + over[0] - 1] + ends[worst + over[0]]) / 2 - at_s) if len(over) else math.inf


def _known(name: str, values: Sequence[float], period_s: float) -> MeanOfRuns:
    """Mean and interval of a measure: by Student's t, plus half the time between looks for what is measured by them."""
    if not all(map(math.isfinite, values)):
        return MeanOfRuns(None, None, tuple(value if math.isfinite(value) else None for value in values))
    known, grain_s = of_mean(np.array(values), name), period_s / 2 if name == TIMED and any(values) else 0.0
    half = None if known.half_width95 is None else known.half_width95 + grain_s
    return MeanOfRuns(known.mean, half, tuple(values))


def _mean_course(outcomes: Sequence[RunOutcome]) -> dict[str, tuple[Number, ...]]:
    """Means by period, each over the runs that have a value there."""
    courses = [outcome.course or {} for outcome in outcomes]
    table = {name: np.array([columns[name] for columns in courses], float) for name in ("waiting", "latency")}
    means: dict[str, tuple[Number, ...]] = {"at_s": tuple(courses[0]["at_s"])}
    for name, values in table.items():
        known = np.isfinite(values)
        counts = known.sum(axis=0)
        sums = np.where(known, values, 0.0).sum(axis=0)
        means[name] = tuple(float(total / n) if n else None for total, n in zip(sums, counts, strict=True))
    return means


class Trial(NamedTuple):
    """Scenarios of one replication. at_s: time of the change. scenarios: one, or two that differ in what restarts."""

    at_s: float
    scenarios: tuple[Scenario, ...]


def trials(change: Planned, replications: int) -> list[Trial]:
    """Trials, one for each replication. The change happens in the middle of its part of the time span `spread_s`.

    A failure costs the work since the last checkpoint, from nothing to a whole interval. If it always came at the same
    time after a checkpoint, all runs would agree on a cost that is really due to chance.
    """
    tried = (change.scenario,) if change.rival is None else (change.scenario, change.rival)
    if not change.spread_s:
        return [Trial(change.at_s, tried)] * replications
    later_s = [change.spread_s * (index + 0.5) / replications for index in range(replications)]
    return [
        Trial(change.at_s + shift_s, tuple(_later(scenario, change.own, shift_s) for scenario in tried))
        for shift_s in later_s
    ]


def _later(scenario: Scenario, own: int, by_s: float) -> Scenario:
    kept, moved = scenario.events[:-own], scenario.events[-own:]
    return scenario.with_events(*kept, *(event.model_copy(update={"at_s": event.at_s + by_s}) for event in moved))
