"""Film of a run: each period is drawn like a run of its own, under the plan that the job then had."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from figures.job_map import job_map
from figures.svg import element, text
from streamtwin.tables.job_maps import drawn
from streamtwin.tables.tables import number, seconds
from streamtwin.tables.timelines import in_words
from twin.deployment import Deployment
from twin.engine.measure.meters import Row
from twin.errors import BadInput
from twin.guards.watch import MOST_S
from twin.plan import Location
from twin.run import Run, host_totals, operator_totals, waiting
from twin.scenario import Scenario
from twin.simulation import simulate

MOMENTS = 120
"""Approximate number of periods of a film, unless a policy sees them."""

MOST_MOVING, OWNERS = 6, 6
"""Most operators whose moving state a film shows, and number of colours of subtasks."""


def filmed(scenario: Scenario, most_s: float = MOST_S) -> Run:
    """Makes a run in short periods, to be watched; with a policy in the given ones, as the policy decides by them."""
    if scenario.policy is not None:
        return simulate(scenario, most_s=most_s)
    run = scenario.run
    return simulate(scenario.with_run(period_s=min(run.period_s, run.horizon_s / MOMENTS)), most_s=most_s)


@dataclass(frozen=True)
class Film:
    """Periods of a run in order. most: the longest queue of any operator on a host (records). moving: operators whose
    subtasks or key groups move, with the column that is divided among subtasks: state, or without any records taken."""

    job: Deployment
    run: Run
    ends_s: tuple[float, ...]
    rows: Mapping[str, Mapping[int, list[Row]]]
    most: float
    moving: Mapping[str, str]

    @classmethod
    def of(cls, job: Deployment, run: Run) -> Film:
        """Film of a run."""
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
