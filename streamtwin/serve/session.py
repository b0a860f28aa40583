"""Session of one job: its present state on the page, the results that are ready, and its run as a replay."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from figures.job_map import job_map
from figures.svg import element, text
from scenarios.beside import PredictionBesideRuns, doubts
from scenarios.questions.bench import Samples, Wanted, outcome, run
from scenarios.questions.kept import RunOutcome, key
from scenarios.questions.variants import Variant
from scenarios.questions.whatif import VariantsCompared, answer
from streamtwin.questions.runs import WhatIf
from streamtwin.serve.inquiry import PAIRS, SET, Alteration, Inquiry, given
from streamtwin.serve.work import Made, RunTask, Workers
from streamtwin.tables.job_maps import drawn
from streamtwin.tables.run_tables import in_words
from streamtwin.tables.tables import number, seconds
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.guards.watch import MOST_S
from twin.plan import Location
from twin.randomness import child_seed
from twin.rates.model import RateModel
from twin.run import Run, host_totals, operator_totals, waiting
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.world.meters import Row

# the run as a replay -------------------------------------------------------------------------------------------------
# Replay of a run: each period is drawn like a run of its own, under the plan that the job then had.


MOMENTS = 120
"""Approximate number of periods of a replay, unless a policy sees them."""

MOST_MOVING, OWNERS = 6, 6
"""Most operators whose moving state a replay shows, and number of colours of subtasks."""


def replayed(scenario: Scenario, most_s: float = MOST_S) -> Run:
    """Makes a run in short periods, to be watched; with a policy in the given ones, as the policy decides by them."""
    if scenario.policy is not None:
        return simulate(scenario, most_s=most_s)
    run = scenario.run
    return simulate(scenario.with_run(period_s=min(run.period_s, run.horizon_s / MOMENTS)), most_s=most_s)


@dataclass(frozen=True)
class Replay:
    """Periods of a run in order. most: the longest queue of any operator on a host (records). moving: operators whose
    subtasks or key groups move, with the column that is divided among subtasks: state or, where there is none, records
    taken."""

    job: Deployment
    run: Run
    ends_s: tuple[float, ...]
    rows: Mapping[str, Mapping[int, list[Row]]]
    most: float
    moving: Mapping[str, str]

    @classmethod
    def of(cls, job: Deployment, run: Run) -> Replay:
        """Replay of a run."""
        rows: dict[str, dict[int, list[Row]]] = {}
        tables = {"operators": run.operator_rows, "hosts": run.host_rows, "subtasks": run.subtask_rows}
        for name, table in tables.items():
            rows[name] = defaultdict(list)
            for row in table:
                rows[name][row["period"]].append(row)
        ends = {row["period"]: row["end_s"] for row in run.operator_rows}
        queues = [value for period in rows["subtasks"] for value in _queues(rows["subtasks"][period]).values()]
        most = max(queues, default=0.0) or 1.0
        return cls(job, run, tuple(ends[each] for each in sorted(ends)), rows, most, _moving(run, rows["subtasks"]))

    def picture(self, number_: int) -> tuple[str, str, str]:
        """Drawing of the job in one period, words on what happens in it, and strips with the shares of subtasks. Raises
        IndexError beyond the last period."""
        period = sorted({*self.rows["operators"]})[number_]
        operators, subtasks = self.rows["operators"][period], self.rows["subtasks"].get(period, [])
        start_s, end_s = operators[0]["start_s"], operators[0]["end_s"]
        moment = replace(
            self.run,
            operators=operator_totals(operators, 0.0, subtasks),
            hosts=host_totals(self.rows["hosts"][period], 0.0),
            event_rows=tuple(row for row in self.run.event_rows if row["at_s"] < end_s),
        )
        waiting = _queues(subtasks)
        shares = {place: value / self.most for place, value in waiting.items()}
        picture = drawn(self._job_then(subtasks, end_s), moment, shares, free_apart=True).picture
        down = {row["component"]: row for row in self.run.event_rows if _fails(row, end_s)}
        lanes = [lane._replace(down=lane.down or lane.name.partition("/")[0] in down) for lane in picture.lanes]
        owned = (_owned(name, key, subtasks) for name, key in self.moving.items())
        return job_map(picture._replace(lanes=lanes)), self._words(start_s, end_s, waiting), "".join(owned)

    def _words(self, start_s: float, end_s: float, waiting: Mapping[tuple[str, str], float]) -> str:
        going = [row for row in self.run.event_rows if row["at_s"] < end_s and (row["end_s"] or row["at_s"]) >= start_s]
        longest = max(waiting, key=lambda place: waiting[place], default=None)
        queue = ""
        if longest is not None and waiting[longest] >= 1.0:
            queue = f"; before {longest[0]} on {longest[1]} wait {number(waiting[longest])} records"
        return f"{seconds(start_s)} to {seconds(end_s)}{queue}{''.join(f'; {in_words(row)}' for row in going[:3])}"

    def _job_then(self, subtasks: list[Row], end_s: float) -> Deployment:
        """Job under the plan at the end of a period, by the places of its subtasks then."""
        places: dict[str, list[str]] = {}
        for row in subtasks:
            if row["end_s"] >= end_s:
                places.setdefault(row["operator"], []).append(str(Location(row["host"], row["socket"])))
        placement: dict[str, Any] = {**self.job.plan.placement, **{name: tuple(each) for name, each in places.items()}}
        if placement == dict(self.job.plan.placement):
            return self.job
        try:
            return self.job.with_plan(self.job.plan.model_copy(update={"placement": placement, "key_groups": {}}))
        except BadInput:  # during a change the two ends of a stream may not fit
            return self.job


def _queues(subtasks: list[Row]) -> dict[tuple[str, str], float]:
    """Number of records that wait at the end of a period, by operator and host; of sources, at the broker."""
    found: dict[tuple[str, str], float] = defaultdict(float)
    for row in subtasks:
        found[row["operator"], row["host"]] += waiting(row)
    return found


def _moving(run: Run, subtasks: Mapping[int, list[Row]]) -> dict[str, str]:
    """Operators whose subtasks or key groups move, with the column that is divided among their subtasks."""
    places: dict[str, set[frozenset[tuple[int, str]]]] = defaultdict(set)
    states: dict[str, float] = defaultdict(float)
    for period in subtasks.values():
        at: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for row in period:
            at[row["operator"]].append((row["subtask"], row["host"]))
            states[row["operator"]] += row["stateBytes"]
        for name, there in at.items():
            places[name].add(frozenset(there))
    carried = {row["component"] for row in run.event_rows if row["bytes"] is not None}
    moving = [name for name in places if len(places[name]) > 1 or name in carried]
    return {name: "stateBytes" if states[name] else "numRecordsIn" for name in moving[:MOST_MOVING]}


def _owned(operator: str, key: str, subtasks: list[Row]) -> str:
    """Strip with a part for each subtask, as wide as its share."""
    mine = sorted((row for row in subtasks if row["operator"] == operator), key=lambda row: row["subtask"])
    total = sum(row[key] for row in mine)
    of_all = f"state, {total / 1e6:.3g} MB," if key == "stateBytes" else f"{total:,} records taken"
    parts = [
        element(
            "span",
            text(f"{row['subtask']} on {row['host']}"),
            class_=f"owner{row['subtask'] % OWNERS}",
            style=f"flex-grow: {row[key] / total:.4f}",
            title=f"subtask {row['subtask']} on {row['host']} has {row[key] / total:.1%}",
        )
        for row in mine
        if row[key]
    ]
    return element("div", text(f"{operator}: {of_all} by subtask"), element("div", *parts, class_="strip"))


def _fails(row: Row, at_s: float) -> bool:
    until_s = row["end_s"]
    return row["kind"] == "failure" and row["at_s"] < at_s and (until_s is None or at_s <= until_s)


# the session ---------------------------------------------------------------------------------------------------------
# Session of one job: its present state on the page, and the results that are ready: runs, a comparison, a replay.
#
# The run at the scenario's own seed is the one that `twin run` prints. For the comparison, pairs of runs on the same
# random numbers follow, those of `twin whatif`, and intervals narrow as they come.


TOO_LONG_S = 60.0
"""CPU seconds that a run may still take, after its first CPU second, to be made on the page."""


@dataclass
class Asked:
    """State of an inquiry. Raises BadInput if the scenario cannot be read, or does not take the changes."""

    inquiry: Inquiry
    since_s: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.given = given(self.inquiry.name)
        self.now = self.inquiry.scenario()
        self.before = self.inquiry.scenario(self.inquiry.earlier) if self.inquiry.changes else None
        self.key = _key(self.now)

    @cached_property
    def predicted(self) -> dict[str, float]:
        """Prediction of the rate model, by metric."""
        found = RateModel().planning().predict(self.now, [self.now.plan])
        return {name: float(values[0]) for name, values in found.by_metric.items()}

    @property
    def said_to_keep_up(self) -> bool:
        """Whether the rate model predicts that the job keeps up."""
        return self.predicted["backpressured"] < 0.5 <= self.predicted["success"]

    @property
    def meanwhile(self) -> str:
        """Sentence with the prediction, which is shown until the run is done."""
        keeps = "keeps up" if self.said_to_keep_up else "does not keep up"
        rate, latency = number(self.predicted["throughput_per_s"]), seconds(self.predicted["e2e_latency_s"])
        return f" The rate model predicts: it {keeps}, {rate} results a second, {latency} from end to end."

    def beside(self, run: Run) -> list[str]:
        """Sentences on the predicted end-to-end latency beside a run."""
        said, unseen, kept = self.predicted["e2e_latency_s"], doubts(RateModel(), self.now), run.metrics.keeps_up
        keep_up = None if kept and run.full else (self.said_to_keep_up, kept)  # a longer run may show that it does not
        found = PredictionBesideRuns.of(said, run.metrics.value("e2e_latency_s"), unseen, keep_up=keep_up)
        return found.told(f"an end-to-end latency of {seconds(said)}")

    @cached_property
    def run(self) -> RunTask:
        """Task of the run that `twin run` prints."""
        return _run(self.now, 0)

    @cached_property
    def replay(self) -> RunTask:
        """Task of the run in short periods."""
        return RunTask(f"replay {self.key}", "replay", 3, replayed, (self.now, TOO_LONG_S))

    @cached_property
    def found(self) -> Scenario | None:
        """Scenario under the plan that the last long question found, if it was asked of this state; else None."""
        change = self.plan_found()
        return None if change is None else self.inquiry.scenario((*self.inquiry.changes, change))

    def plan_found(self) -> Alteration | None:
        """Change that takes the plan found; None if none was found, or it is the given one."""
        answered = self.inquiry.answer
        if answered is None or answered["question"] != "optimize" or answered["of"] != self.key:
            return None
        return Alteration(SET, answered["plan"]) if answered["plan"] else None

    def tasks(self) -> Iterator[RunTask]:
        """Yields all tasks of this state; the most urgent have the lowest ranks."""
        yield self.run
        yield self.replay
        if self.found is not None:
            yield _run(self.found, 1)
        for case in filter(None, (self.now, self.before, self.found)):
            yield from pairs_of(case)


def pairs_of(case: Scenario) -> list[RunTask]:
    """Tasks of the runs of a scenario in a comparison."""
    seeds = [child_seed(case.run.seed, index) for index in range(PAIRS)]
    name = key(case)
    return [
        RunTask(f"outcome {name} {seed}", "outcome", 1 + index, outcome, (case, seed, TOO_LONG_S))
        for index, seed in enumerate(seeds)
    ]


def _run(scenario: Scenario, rank: int) -> RunTask:
    return RunTask(f"run {_key(scenario)}", "run", rank, run, (scenario, scenario.run.seed, 0, TOO_LONG_S))


def _key(scenario: Scenario) -> str:
    return f"{key(scenario)}-{scenario.run.seed}"


class Session:
    """Session of one job: its present state, and the results by now."""

    def __init__(self, name: str, workers: Workers) -> None:
        self.name, self._workers = name, workers
        self.asked: Asked | None = None
        self.wrong = ""
        self._replay: tuple[str, Replay] | None = None
        self.answered_s: float | None = None

    def look_at(self, inquiry: Inquiry) -> None:
        """Makes an inquiry the present state, with the scenario's file as it is now. If it does not fit, `wrong` says
        why."""
        try:
            if self.asked is None or self.asked.inquiry != inquiry or self.asked.given is not given(inquiry.name):
                before, self.asked = self.asked, None
                self.asked, self.wrong = Asked(inquiry), ""
                if before is None or before.key != self.asked.key:
                    self.answered_s = None
        except BadInput as error:
            self.asked, self.wrong = None, str(error)
        self._workers.want(self.name, [*self.asked.tasks()] if self.asked else [])

    def run(self) -> Made | None:
        """Run of the present state; None until it is done."""
        return None if self.asked is None else self._workers.made(self.asked.run)

    def found_run(self) -> Run | None:
        """Run under the plan found; None until it is done."""
        found = (
            None if self.asked is None or self.asked.found is None else self._workers.made(_run(self.asked.found, 1))
        )
        return None if found is None else found.result

    def replay(self) -> Replay | None:
        """Replay of the present state; None until it is done."""
        if self.asked is None:
            return None
        made = self._workers.made(self.asked.replay)
        if made is None or made.result is None:
            return None
        if self._replay is None or self._replay[0] != self.asked.key:
            self._replay = self.asked.key, Replay.of(self.asked.now, made.result)
        return self._replay[1]

    def compared(self, first: str, second: str) -> VariantsCompared | None:
        """Comparison of two of `before`, `now` and `found` on all pairs so far; None while there are fewer than two."""
        asked = self.asked
        cases = [None if asked is None else getattr(asked, name) for name in (first, second)]
        known = [self._outcomes(case) for case in cases if case is not None]
        pairs = min(map(len, known), default=0) if len(known) == 2 else 0
        if asked is None or pairs < 2:
            return None
        variants = [Variant(name, case) for name, case in zip((first, second), cases, strict=True) if case is not None]
        samples = Samples([outcomes[:pairs] for outcomes in known])
        return answer(variants, list(WhatIf().metrics), Wanted(PAIRS), asked.now.run.seed, samples)

    def _outcomes(self, case: Scenario) -> list[RunOutcome]:
        """Outcomes of a scenario's runs by now, in order."""
        found = []
        for task in pairs_of(case):
            made = self._workers.made(task)
            if made is None or made.result is None:
                break
            found.append(made.result)
        return found

    def progress(self) -> tuple[int, int, float]:
        """Number of runs done and of all runs, and the CPU seconds of those done."""
        made = [self._workers.made(task) for task in (self.asked.tasks() if self.asked else ())]
        done = [each for each in made if each is not None]
        return len(done), len(made), sum(each.cpu_s for each in done)

    def stage(self) -> str:
        """Text that changes when there is something new to see."""
        if self.asked is None:
            return self.wrong
        if self.answered_s is None and self.run() is not None:
            self.answered_s = time.monotonic() - self.asked.since_s
        return f"{self.asked.inquiry.version} {self.asked.key} {self.progress()[:2]}"
