"""A change of a running job, tried before it is made: how long things stand still, lag, and are caught up with.

Each run with the change has a twin without it on the same random numbers, and what differs is the change's doing. As
much waits in the undisturbed run as waits by chance; the change is caught up with when no more does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from scenarios.executing.progress import Audience
from scenarios.files.documents import CLOSED, Number, Seconds
from scenarios.questions.bench import Bench, Job, outcome_of
from scenarios.questions.change_options import Planned
from scenarios.questions.control_measures import course
from scenarios.questions.intervals import MeanOfRuns, of_mean
from scenarios.questions.kept import RunOutcome
from scenarios.questions.single_run import run
from twin.engine.measure.meters import Row
from twin.engine.sketch import merge, representative_s
from twin.randomness import child_seed
from twin.run import Run
from twin.scenario import Scenario

USUAL = 5
POINTS = 240
"""Periods of a run at least, unless a policy sees them: catching up is timed by periods."""
MEANINGS: Mapping[str, str] = {
    "pause_s": "longest pause",
    "lag": "largest growth of the backlog (tuples)",
    "catch_up_s": "time to catch up",
    "latency_s": "highest end-to-end latency after the change",
    "late": "results later than any without the change",
    "twice": "results that come twice",
    "lost": "tuples lost at full channels",
    "moved_mb": "state moved (MB)",
    "restarted": "replicas that restart",
    "redone_s": "work done again, since the last checkpoint",
    "replayed": "tuples that sources read again",
}
OF_FAILURES = ("restarted", "redone_s", "replayed")
"""Only told where something fails."""
TIMED = "catch_up_s"
"""By periods."""
CHANGES = ("migration", "scale", "failure")
Courses = Mapping[str, Sequence[float]]


@CLOSED
@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunAnswer:
    """`twin dry-run`. measures: those of MEANINGS, `_s` in seconds. course: `without` and `with` the change, by period,
    means over the runs. With both ways of failover, full: measures where the whole job restarts, and saved: how much
    more they are.
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
    """Of one run: by period what waits, by bucket how late results are, and what stood still from `at_s` on."""
    made = run(scenario, seed)
    return outcome_of(made, _course(made, at_s))


def look(at_s: float) -> partial[RunOutcome]:
    """`seen`, as other processes can be given it."""
    return partial(seen, at_s=at_s)


def finer(scenario: Scenario) -> Scenario:
    """With periods short enough to time what happens, if nobody decides by them."""
    if scenario.policy is not None:
        return scenario
    return scenario.with_run(period_s=min(scenario.run.period_s, scenario.run.horizon_s / POINTS))


def dry_run(
    bench: Bench, given: Scenario, change: Planned, replications: int, seed: int, audience: Audience
) -> DryRunAnswer:
    """given: the scenario without the change; both as `finer` makes them. bench: with `look`."""
    tried = trials(change, replications)
    kinds = 1 + len(tried[0].scenarios)
    cases = [given, *(each for trial in tried for each in trial.scenarios)]
    jobs: list[Job] = []
    for index in range(replications):
        own = cases[1 + index * (kinds - 1) : 1 + (index + 1) * (kinds - 1)]
        jobs += [(case, child_seed(seed, index)) for case in (cases[0], *own)]
    audience.stage(f"{change.words}: {replications} runs with and without it, on the same random numbers")
    with audience.progress("runs") as report:
        found = bench.outcomes(jobs, report)
    without, *changed = (found[kind::kinds] for kind in range(kinds))
    with_it, pairs = changed[0], [_pairs(without, each, [trial.at_s for trial in tried]) for each in changed]
    keeps_up = [not each.measures["backpressured"] for each in without]
    measures, *rival = [_all_known(each, given.run.period_s) for each in pairs]
    return DryRunAnswer(
        scenario=given.name,
        change=change.words,
        at_s=change.at_s,
        seed=seed,
        replications=replications,
        period_s=given.run.period_s,
        keeps_up_without=sum(keeps_up),
        measures=measures,
        full=rival[0] if rival else None,
        saved=_saved(pairs[0], pairs[1], given.run.period_s) if rival else None,
        course={"without": _mean_course(without), "with": _mean_course(with_it)},
        warnings=with_it[0].warnings,
    )


def _pairs(
    without: Sequence[RunOutcome], with_it: Sequence[RunOutcome], at_s: Sequence[float]
) -> list[dict[str, float]]:
    """Run by run, those of MEANINGS."""
    triples = zip(without, with_it, at_s, strict=True)
    return [_compared(one.course or {}, other.course or {}, when_s) for one, other, when_s in triples]


def _all_known(
    pairs: Sequence[Mapping[str, float]], period_s: float, told: Iterable[str] | None = None
) -> dict[str, MeanOfRuns]:
    if told is None:
        told = [name for name in MEANINGS if name not in OF_FAILURES or any(pair[name] for pair in pairs)]
    return {name: _known(name, [pair[name] for pair in pairs], period_s) for name in told}


def _saved(
    pairs: Sequence[Mapping[str, float]], rival: Sequence[Mapping[str, float]], period_s: float
) -> dict[str, MeanOfRuns]:
    """What the rival has more of each, run by run."""
    more = [{name: other[name] - one[name] for name in one} for one, other in zip(pairs, rival, strict=True)]
    return _all_known(more, period_s, _all_known(rival, period_s))


def _course(made: Run, at_s: float) -> dict[str, list[float]]:
    """Lists of numbers, as they are kept in a file."""
    rows = made.operator_rows
    changes = [row for row in made.event_rows if row["kind"] in CHANGES and row["at_s"] >= at_s]
    after = [row for row in rows if row["end_s"] > at_s]
    sinks = (row for row in after if row.get("latencyCount"))
    latencies = merge(dict(zip(row["e2eLatencyBuckets"], row["e2eLatencyCounts"], strict=True)) for row in sinks)
    return course(made) | {
        "waiting": _waiting(rows),
        "bucket": [float(each) for each in sorted(latencies)],
        "results": [float(latencies[each]) for each in sorted(latencies)],
        "paused_s": [float(row["paused_s"] or 0.0) for row in changes],
        "bytes": [float(row["bytes"] or 0.0) for row in changes],
        **{name: _of_failures(changes, name) for name in OF_FAILURES},
        "twice": [float(made.duplicates)],
        "lost": [float(sum(row["numRecordsDropped"] for row in after))],
    }


def _of_failures(changes: Sequence[Row], name: str) -> list[float]:
    """A value a failure that says so."""
    details = [row["detail"] | {"at_s": row["at_s"]} for row in changes if row["kind"] == "failure"]
    if name == "redone_s":
        return [float(each["at_s"] - each["checkpoint_s"]) for each in details if "checkpoint_s" in each]
    return [float(each[name]) for each in details if name in each]


def _waiting(rows: Sequence[Row]) -> list[float]:
    """Tuples at the brokers and before all operators, at the end of each period."""
    by_period: dict[int, float] = {}
    for row in rows:
        by_period[row["period"]] = by_period.get(row["period"], 0.0) + row["queueLength"] + (row["backlog"] or 0)
    return [by_period[period] for period in sorted(by_period)]


def _compared(without: Courses, with_it: Courses, at_s: float) -> dict[str, float]:
    """Of one pair of runs, those of MEANINGS; catch_up_s is inf if the run ends first."""
    ends = np.array(with_it["at_s"])
    after = ends > at_s
    normal, now = np.array(without["waiting"]), np.array(with_it["waiting"])
    behind = np.flatnonzero(after & (now > normal.max()))
    highest = max(without["bucket"], default=-math.inf)
    late = sum(n for bucket, n in zip(with_it["bucket"], with_it["results"], strict=True) if bucket > highest)
    return {
        "pause_s": max(with_it["paused_s"], default=0.0),
        "lag": max(0.0, float((now - normal)[after].max())),
        "catch_up_s": _caught_up_s(behind, ends, at_s),
        "latency_s": representative_s(int(with_it["bucket"][-1])) if with_it["bucket"] else math.inf,
        "late": float(late),
        "twice": with_it["twice"][0] - without["twice"][0],
        "lost": with_it["lost"][0] - without["lost"][0],
        "moved_mb": (sum(with_it["bytes"]) - sum(without["bytes"])) / 1e6,
        "restarted": sum(with_it.get("restarted", ())),
        "redone_s": max(with_it.get("redone_s", ()), default=0.0),
        "replayed": sum(with_it.get("replayed", ())),
    }


def _caught_up_s(behind: np.ndarray, ends: np.ndarray, at_s: float) -> float:
    """In the middle of the first period at whose end no more waits, for good."""
    if not len(behind):
        return 0.0
    last = behind[-1]
    return float((ends[last] + ends[last + 1]) / 2 - at_s) if last + 1 < len(ends) else math.inf


def _known(name: str, values: Sequence[float], period_s: float) -> MeanOfRuns:
    """The interval: Student's t, and half a period of what is timed by periods."""
    if not all(map(math.isfinite, values)):
        return MeanOfRuns(None, None, tuple(value if math.isfinite(value) else None for value in values))
    known, grain_s = of_mean(np.array(values), name), period_s / 2 if name == TIMED and any(values) else 0.0
    half = None if known.half_width95 is None else known.half_width95 + grain_s
    return MeanOfRuns(known.mean, half, tuple(values))


def _mean_course(outcomes: Sequence[RunOutcome]) -> dict[str, tuple[Number, ...]]:
    """By period, over the runs that have it."""
    courses = [each.course or {} for each in outcomes]
    table = {name: np.array([each[name] for each in courses], float) for name in ("waiting", "latency")}
    found: dict[str, tuple[Number, ...]] = {"at_s": tuple(courses[0]["at_s"])}
    for name, values in table.items():
        known = np.isfinite(values)
        counts = known.sum(axis=0)
        sums = np.where(known, values, 0.0).sum(axis=0)
        found[name] = tuple(float(total / n) if n else None for total, n in zip(sums, counts, strict=True))
    return found


class Trial(NamedTuple):
    """at_s: when the change happens in these scenarios, which differ in what restarts."""

    at_s: float
    scenarios: tuple[Scenario, ...]


def trials(change: Planned, replications: int) -> list[Trial]:
    """One a replication, in the middle of its part of the time over which the change is spread.

    A failure costs what came since the last checkpoint, from nothing to a whole interval. At one moment all runs would
    agree on a part of it that is chance.
    """
    tried = (change.scenario,) if change.rival is None else (change.scenario, change.rival)
    if not change.spread_s:
        return [Trial(change.at_s, tried)] * replications
    later_s = [change.spread_s * (index + 0.5) / replications for index in range(replications)]
    return [
        Trial(change.at_s + each_s, tuple(_later(scenario, change.own, each_s) for scenario in tried))
        for each_s in later_s
    ]


def _later(scenario: Scenario, own: int, by_s: float) -> Scenario:
    kept, moved = scenario.events[:-own], scenario.events[-own:]
    return scenario.with_events(*kept, *(each.model_copy(update={"at_s": each.at_s + by_s}) for each in moved))
