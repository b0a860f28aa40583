"""Tries a change of a running job before it is made: the pause, the growth of the backlog, and the time to catch up.

The change is given by options such as `--rescale match=4`, `--migrate match[1]=w-2`, `--fail w-1`. Each run with it has
a twin without it on the same random numbers, so all differences are due to the change. Some records wait or are on the
network in the undisturbed run, too: a job has caught up when no more are than there at the same time, but for chance.
If that run does not keep up, its growing backlog is no measure; instead, the job has caught up when no more wait than
at most before the first event, or, without events, in the first period.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from scenarios.executing import Audience
from scenarios.files.documents import CLOSED, Number, Seconds
from scenarios.files.scenario_file import parted
from scenarios.measures import CHANGES, of, paused_s
from scenarios.questions.bench import Bench, Job, MeanOfRuns, of_mean, outcome_of, run
from scenarios.questions.kept import RunOutcome
from scenarios.questions.knobs import check_operator
from scenarios.questions.policies_compared import by_period, course, latencies
from scenarios.questions.rescaling import JOB, place, rescaled
from twin.errors import BadInput, suggest
from twin.histograms import representative_s
from twin.profiles import EngineProfile
from twin.randomness import child_seed
from twin.run import Run, waiting
from twin.scenario import Scenario
from twin.spec import parse
from twin.steadiness import growth_per_s, varying
from twin.world.meters import Row

_SUBTASK = re.compile(r"^(?P<operator>[^\[\]]+)(\[(?P<subtask>\d+)\])?$")
FAILOVERS = ("region", "full", "both")
LOST = ("spread", "wait")
USUAL_SHARE = 1 / 3
"""Default time of changes, as a share of the time after the warm-up; the larger part is left to catch up."""


class ChangeOptions(NamedTuple):
    """Options of changes, which all happen at `at_s`. recover_after_s: seconds from a failure until the job is deployed
    again; None: as the engine's profile says. failover: the part that a failure restarts: `region`, `full`, or `both`
    for a comparison. lost: failed hosts stay away, and their subtasks `spread` over the others, or `wait` as the whole
    job does; None: hosts come back."""

    rescale: Sequence[str] = ()
    migrate: Sequence[str] = ()
    fail: Sequence[str] = ()
    at_s: float | None = None
    recover_after_s: float | None = None
    failover: str | None = None
    lost: str | None = None


class Planned(NamedTuple):
    """Scenario with a change, the time of the change, and its description in words.

    own: number of events, the last ones, that are the change. spread_s: the change comes at any time in this interval
    after at_s. rival: the scenario where a failure restarts the whole job, for a comparison. notes: what
    of the change no run shows. recovery: parts of the time after a failure, where the engine's profile says them.
    """

    scenario: Scenario
    at_s: float
    words: str
    own: int = 0
    spread_s: float = 0.0
    rival: Scenario | None = None
    notes: tuple[str, ...] = ()
    recovery: Recovered | None = None


@CLOSED
@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """Parts of the time from a failure until the job is deployed again: until it is noticed, until the restart strategy
    lets the job restart, and until its subtasks are deployed. Reading their state comes after that."""

    noticed_s: Seconds
    delay_s: Seconds
    redeploy_s: Seconds

    @classmethod
    def of(cls, engine: EngineProfile) -> Recovered:
        """Parts as an engine's profile has them."""
        parts = engine.recovery
        return cls(noticed_s=parts.noticed_s, delay_s=parts.delay_s, redeploy_s=engine.rescaling.redeploy_s)

    @property
    def sum_s(self) -> float:
        """Seconds from the failure until the job is deployed again."""
        return self.noticed_s + self.delay_s + self.redeploy_s


def planned(given: Scenario, change: ChangeOptions) -> Planned:
    """Scenario with the changes. Raises BadInput if there are none, or if one is impossible or not within the run."""
    at_s = change.at_s if change.at_s is not None else _usual_s(given)
    if not given.run.warmup_s <= at_s < given.run.horizon_s:
        within = f"{given.run.warmup_s:g} s (the end of the warm-up) to {given.run.horizon_s:g} s"
        raise BadInput(f"--at {at_s:g}: not within the run; give seconds from {within}")
    rescaling = rescaled(given, change.rescale)
    events = [*rescaling.events, *_migrations(given, change), *_failures(given, change)]
    if not events:
        ways = "--rescale OPERATOR=4, --rescale parallelism=4, --migrate OPERATOR=HOST or --fail HOST"
        raise BadInput(f"nothing to try; give {ways}")
    _check_failover(given, change)
    spread_s = _spread_s(given, change, at_s)
    data = rescaling.scenario.model_dump(mode="json")
    data["events"] = [*data["events"], *({**event, "at_s": at_s} for event in events)]
    if change.failover is not None:
        data["checkpoints"]["failover"] = "full" if change.failover == "full" else "region"
    counted = [text.partition("=")[2].isdigit() and not text.startswith(f"{JOB}=") for text in change.rescale]
    counts = [text + " subtasks" * number for text, number in zip(change.rescale, counted, strict=True)]
    told = {"rescale": counts, "migrate": change.migrate, "fail": change.fail}
    named = "; ".join(f"{what} {', '.join(texts)}" for what, texts in told.items() if texts)
    asked = (("rescale", change.rescale), ("migrate", change.migrate), ("fail", change.fail))
    flags = " ".join(f"--{what} {text}" for what, texts in asked for text in texts)
    when = f"at {at_s:g} s" if not spread_s else f"at times from {at_s:g} to {at_s + spread_s:g} s"
    tails = {"spread": ", lost: others take its subtasks", "wait": ", lost: the job waits for it to the end"}
    words = f"{named} {when}{tails.get(change.lost or '', '')}"
    made = parse(Scenario, data, where=flags)
    rival = None
    if change.failover == "both":
        data["checkpoints"]["failover"] = "full"
        rival = parse(Scenario, data, where=flags)
    by_engine = change.fail and change.recover_after_s is None and change.lost != "wait"
    recovery = Recovered.of(given.engine) if by_engine else None
    return Planned(made, at_s, words, len(events), spread_s, rival, rescaling.notes, recovery)


def _check_failover(given: Scenario, change: ChangeOptions) -> None:
    if change.failover is None:
        return
    if change.failover not in FAILOVERS:
        raise BadInput(f"--failover {change.failover}: {suggest(change.failover, FAILOVERS)}")
    if not change.fail:
        raise BadInput("--failover: says what a failure restarts; give --fail HOST, too")
    if given.checkpoints is None:
        remedy = "add --set 'checkpoints={interval_s: 10}'"
        raise BadInput(f"--failover: {given.name} has no checkpoints to restart a part of it from; {remedy}")


def _spread_s(given: Scenario, change: ChangeOptions, at_s: float) -> float:
    """Seconds over which the time of a change is spread over repetitions: the checkpoint interval, as the distance to
    the last checkpoint matters, or what the run has room for. 0 if the time is given, or nothing goes back to one."""
    if change.at_s is not None or not (change.fail or given.engine.rescaling.how == "reactive"):
        return 0.0
    return min(_interval_s(given), (given.run.horizon_s - at_s) / 2)


def _usual_s(given: Scenario) -> float:
    start_s, end_s = given.run.warmup_s, given.run.horizon_s
    return max(start_s, float(f"{start_s + (end_s - start_s) * USUAL_SHARE:.3g}"))


def _migrations(given: Scenario, change: ChangeOptions) -> Iterator[Mapping[str, Any]]:
    """Migration events: of one subtask, or of all subtasks of an operator that are not at the place yet."""
    for text in change.migrate:
        who, to = parted(text, "--migrate", "OPERATOR=HOST, or OPERATOR[1]=HOST for one subtask", empty=False)
        match = _SUBTASK.match(who)
        name = match["operator"] if match else who
        check_operator(name, given, f"--migrate {text}")
        there = place(to, given, f"--migrate {text}")
        count = given.plan.parallelism(name)
        parallelism = [int(match["subtask"])] if match and match["subtask"] else range(count)
        moving = [each for each in parallelism if each >= count or given.plan.placement[name][each] != there]
        if not moving:
            raise BadInput(f"--migrate {text}: it is there already")
        for subtask in moving:
            yield {"kind": "migration", "operator": name, "subtask": subtask, "to": there}


def _failures(given: Scenario, change: ChangeOptions) -> Iterator[Mapping[str, Any]]:
    hosts = [host.name for host in given.cluster.hosts]
    if change.lost is not None and change.lost not in LOST:
        raise BadInput(f"--lost {change.lost}: {suggest(change.lost, LOST)}")
    if change.lost is not None and not change.fail:
        raise BadInput("--lost goes with a failure; give --fail HOST as well")
    if change.lost == "wait" and change.recover_after_s is not None:
        raise BadInput(
            "--recover-after: with --lost wait the job never runs again; leave it out, or give --lost spread"
        )
    usual_s = Recovered.of(given.engine).sum_s if change.recover_after_s is None else change.recover_after_s
    recover_after_s = None if change.lost == "wait" else usual_s
    for name in change.fail:
        if name not in hosts:
            raise BadInput(f"--fail {name}: unknown host; {suggest(name, hosts)}")
        yield {"kind": "failure", "host": name, "recover_after_s": recover_after_s, "lost": change.lost == "spread"}


STRAYS = 5
"""Backlogs of two runs differ by chance by no more than so many times the median backlog (at least 1), with few
exceptions: M/M/1 queues exceed it 2^-5 of the time."""
LOOKS = 5000
"""Times of a run at which the backlog is measured, at equal distances. Periods may be long: policies decide by them."""
POINTS = 240
"""Least number of periods of a run, for courses that can be seen, unless a policy sees them."""
MEANINGS: Mapping[str, str] = {
    "pause_s": "longest pause",
    "lag": "largest growth of the backlog (records)",
    "catch_up_s": "time to catch up",
    "latency_s": "highest end-to-end latency after the change",
    "late": "results later than any without the change",
    "twice": "results that come twice",
    "lost": "records lost at full channels",
    "moved_mb": "state moved, more than without it (MB)",
    "restarted": "subtasks that restart",
    "redone_s": "work done again, since the last checkpoint",
    "replayed": "records that sources read again",
}
OF_RESTARTS = ("restarted", "redone_s", "replayed")
"""Measures that are shown only if something fails, or if the engine restarts the job to change its plan."""
TIMED = "catch_up_s"
"""Measure that is known only to the time between two looks."""
Courses = Mapping[str, Sequence[float]]


@CLOSED
@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunAnswer:
    """The answer of `twin dry-run`. measures: those in MEANINGS; names that end in `_s` are in seconds. period_s: time
    between two looks at the backlog. course: means over the runs by period, `without` and `with` the change. If both
    ways of failover are compared, full: the measures where the whole job restarts; saved: these minus the others.
    recovery: parts of the time after a failure, unless the time is given; what a pause has beyond their sum is reading
    state.
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
    recovery: Recovered | None = None
    course: Mapping[str, Mapping[str, tuple[Number, ...]]]
    warnings: tuple[str, ...]


def seen(scenario: Scenario, seed: int, at_s: float) -> RunOutcome:
    """Makes one run, and keeps records that wait by look, results by bucket of latency, and pauses from `at_s` on."""
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
    tried = trials(change, replications, seed)
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
        recovery=change.recovery,
        course={"without": _mean_course(without), "with": _mean_course(with_it)},
        warnings=(*change.notes, *with_it[0].warnings, *_beside(given)),
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
        "paused_s": [paused_s(row, given=row["at_s"] in given_s) for row in changes],
        "bytes": [float(row["bytes"] or 0.0) for row in changes],
        **{name: [_of_restart(row, name) for row in changes] for name in OF_RESTARTS},
        "twice": [float(made.duplicates)],
        "lost": [float(sum(row["numRecordsDropped"] for row in after))],
    }


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


def trials(change: Planned, replications: int, seed: int) -> list[Trial]:
    """Trials, one for each replication. seed: of their family of runs.

    A failure costs the work since the last checkpoint, from nothing to a whole interval. If it came at the same time,
    or at random, runs would tell less of its mean: so it comes in the middle of its own part of the interval between
    two checkpoints of its run; of a shorter span, in the middle of its part of that.
    """
    tried = (change.scenario,) if change.rival is None else (change.scenario, change.rival)
    if not change.spread_s:
        return [Trial(change.at_s, tried)] * replications
    shifts_s = change.spread_s * (np.arange(replications) + 0.5) / replications
    if change.spread_s == _interval_s(change.scenario):
        spec, seeds = change.scenario.checkpoints, [child_seed(seed, index) for index in range(replications)]
        first_s = np.array([0.0 if spec is None else spec.first_of_s(each) for each in seeds])
        shifts_s = np.mod(first_s + shifts_s - change.at_s, change.spread_s)
    return [
        Trial(change.at_s + shift_s, tuple(_later(scenario, change.own, shift_s) for scenario in tried))
        for shift_s in shifts_s.tolist()
    ]


def _interval_s(scenario: Scenario) -> float:
    """Seconds from a checkpoint to the next."""
    return scenario.checkpoints.interval_s if scenario.checkpoints else scenario.run.checkpoint_interval_s


def _later(scenario: Scenario, own: int, by_s: float) -> Scenario:
    kept, moved = scenario.events[:-own], scenario.events[-own:]
    return scenario.with_events(*kept, *(event.model_copy(update={"at_s": event.at_s + by_s}) for event in moved))
