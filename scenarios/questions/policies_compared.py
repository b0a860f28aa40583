"""Compares policies on one load: the scenario and the random numbers are the same, only the policy differs.

They are judged by backlog, latency of results, use of subtasks, and the changes that they make. All measures but the
counts of changes are over the time after the warm-up.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np

from optimizers.policies import POLICIES
from scenarios.executing import Audience
from scenarios.files.documents import CLOSED, Number
from scenarios.questions.bench import Bench, Samples, Wanted, of_mean, outcome_of, replicate, run
from scenarios.questions.kept import RunOutcome, key
from scenarios.questions.knobs import values
from scenarios.questions.variants import NO_POLICY, Variant
from scenarios.questions.whatif import VariantsCompared, answer
from twin.control import policy_spec
from twin.deployment import Deployment
from twin.errors import BadInput, suggest
from twin.histograms import histogram_of, merge, quantile_s, representative_s
from twin.kinds.registry import SINKS
from twin.metrics import measured
from twin.run import Run
from twin.scenario import Scenario
from twin.workload import contiguous, group_count


@CLOSED
@dataclass(frozen=True, slots=True, kw_only=True)
class PoliciesCompared(VariantsCompared):
    """The answer of `twin compare-policies`. slo_s: the end-to-end latency that 99 % of results should keep, in s."""

    slo_s: Number


def variants(given: Scenario, policies: Sequence[str]) -> list[Variant]:
    """Variants of the scenario, one for each policy or `none`; the others are compared with the first one.

    policies: names, or mappings of `name` and options, in YAML, separated by commas. Raises BadInput for fewer than
    two, unknown ones, options that are wrong, and a policy that cannot control this job.
    """
    asked = [item for text in policies for item in values(text, "--policies")]
    by_key: dict[str, Variant] = {}
    for policy in asked:
        scenario = _under(given, policy)
        by_key.setdefault(key(scenario), Variant(_label(policy), scenario, {"policy": policy}))
    if len(by_key) < 2:
        known = ", ".join([NO_POLICY, *POLICIES])
        raise BadInput(f"--policies: nothing to compare; give two or more of {known}, such as --policies none,ds2")
    return [*by_key.values()]


def compared(
    bench: Bench, variants: Sequence[Variant], slo_s: float | None, wanted: Wanted, seed: int, audience: Audience
) -> PoliciesCompared:
    """Compares the variants. The `course` of a policy is the mean over its runs, by period.

    bench: its runs are made by `judged`. Raises BadInput as `replicate` does.
    """
    metrics = [name for name in MEANINGS if slo_s is not None or name not in OF_SLO]
    samples = replicate(bench, [variant.scenario for variant in variants], metrics, wanted, seed, audience)
    comparison = answer(variants, metrics, wanted, seed, samples)
    rows = tuple(replace(row, course=_course(samples, case)) for case, row in enumerate(comparison.variants))
    parts = {field.name: getattr(comparison, field.name) for field in fields(comparison)}
    return PoliciesCompared(**parts | {"variants": rows}, slo_s=slo_s)


def _under(given: Scenario, policy: Any) -> Scenario:
    name = policy.get("name") if isinstance(policy, Mapping) else policy
    if name == NO_POLICY:
        return given.with_policy(None)
    if not isinstance(name, str) or name not in POLICIES:
        raise BadInput(f"--policies {_label(policy)}: unknown policy; {suggest(str(name), [NO_POLICY, *POLICIES])}")
    try:
        spec = policy_spec(policy)
        spec.start(given)
    except ValueError as error:
        raise BadInput(f"--policies {_label(policy)}: {error}") from None
    return given.with_policy(spec)


def _label(policy: Any) -> str:
    if not isinstance(policy, Mapping):
        return str(policy)
    options = (f"{name} {_text(value)}" for name, value in policy.items() if name != "name")
    return f"{policy.get('name')} ({', '.join(options)})" if len(policy) > 1 else str(policy.get("name"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _course(samples: Samples, case: int) -> dict[str, tuple[float, ...]]:
    """Columns by period: its end, and the mean and half interval of each column of COURSE, over runs that have it."""
    runs = [outcome.course or {} for outcome in samples.outcomes[case]]
    columns = {"at_s": tuple(runs[0]["at_s"])}
    for name in COURSE:
        table = np.array([run[name] for run in runs], dtype=float)
        known = [
            of_mean(column[np.isfinite(column)], name) if np.isfinite(column).any() else None for column in table.T
        ]
        columns[name] = tuple(np.nan if mean is None else mean.mean for mean in known)
        columns[f"{name}_half_width95"] = tuple(
            np.nan if mean is None or mean.chance is None else mean.chance for mean in known
        )
    return columns


Row = Mapping[str, Any]

RECOVERY = ("checkpoint", "failure")
"""Kinds of events that send state to storage and back, but do not move it to another subtask."""
MEANINGS: Mapping[str, str] = {
    "backlog.mean": "records that wait at the sources",
    "backlog.peak": "most records that waited",
    "e2e_latency_s.mean": "end-to-end latency",
    "e2e_latency_s.p99": "end-to-end latency, 99 %",
    "slo.late": "results later than {slo}",
    "slo.violated": "time in which 1 % are later than {slo}",
    "subtask_seconds": "subtask-seconds",
    "rescalings": "rescalings",
    "migrations": "migrations",
    "moved_mb": "state moved (MB)",
    "downtime_s": "time in which restarts stop the job (s)",
    "oscillations": "oscillations",
}
OF_SLO = ("slo.late", "slo.violated")
COURSE: Mapping[str, str] = {
    "backlog": "backlog (records)",
    "latency": "latency, 99 % (s)",
    "subtasks": "subtasks",
}
"""Columns by period: the backlog at the period's end, the latency of its results, and the subtasks at its end."""


def judged(scenario: Scenario, seed: int, slo_s: float | None) -> RunOutcome:
    """Makes one run, and returns its outcome with the measures in MEANINGS (those of the SLO if there is one) and
    `course`."""
    made = run(scenario, seed)
    outcome = outcome_of(made, course(made))
    return replace(outcome, measures={**outcome.measures, **control_measures(made, scenario, slo_s)})


def control_measures(made: Run, scenario: Scenario, slo_s: float | None = None) -> dict[str, float]:
    """Measures in MEANINGS that `measures` does not have."""
    periods = [rows for rows in by_period(made) if measured(rows[:1], made.manifest["warmup_s"])]
    seconds = [_length_s(rows[0]) for rows in periods]
    waiting = np.array([_backlog(rows) for rows in periods], dtype=float)
    changes = made.event_rows
    found = {
        "backlog.mean": float(np.average(waiting, weights=seconds)),
        "backlog.peak": float(waiting.max()),
        "subtask_seconds": sum(_subtasks(rows) * length for rows, length in zip(periods, seconds, strict=True)),
        "rescalings": float(sum(event["kind"] == "scale" and "after" in event["detail"] for event in changes)),
        "migrations": float(sum(moved(event) for event in changes if event["kind"] == "migration")),
        "moved_mb": sum(event["bytes"] or 0.0 for event in changes if event["kind"] not in RECOVERY) / 1e6,
        "downtime_s": sum(event["paused_s"] or 0.0 for event in changes if _restarts_all(event["detail"])),
        "oscillations": float(oscillations(changes, scenario)),
    }
    if slo_s is not None:
        violated = [_violates(rows, slo_s) for rows in periods]
        found |= {"slo.late": late(periods, slo_s), "slo.violated": float(np.average(violated, weights=seconds))}
    return found


def _restarts_all(detail: Row) -> bool:
    return "restarted" in detail and detail["restarted"] == detail["of"]


def course(made: Run) -> dict[str, list[float]]:
    """Columns of COURSE, and `at_s`: the end of each period."""
    periods = by_period(made)
    return {
        "at_s": [float(rows[0]["end_s"]) for rows in periods],
        "backlog": [_backlog(rows) for rows in periods],
        "latency": [_p99_s(rows) for rows in periods],
        "subtasks": [_subtasks(rows) for rows in periods],
    }


def late(periods: Sequence[Sequence[Row]], slo_s: float) -> float:
    """Share of the results whose end-to-end latency is above the SLO; 0 if there are no results."""
    histogram = merge(map(latencies, periods))
    above = sum(count for index, count in histogram.items() if representative_s(index) > slo_s)
    return above / sum(histogram.values()) if histogram else 0.0


def _violates(rows: Sequence[Row], slo_s: float) -> bool:
    """Whether 1 % of a period's results are late; or, without results, whether more records wait than arrive within the
    SLO."""
    latency_s = _p99_s(rows)
    if math.isfinite(latency_s):
        return latency_s > slo_s
    arrived = sum(row["arrived"] or 0 for row in rows)
    return _backlog(rows) > arrived * slo_s / _length_s(rows[0])


def by_period(made: Run) -> list[list[Row]]:
    """Rows of all operators, for each period."""
    found: dict[int, list[Row]] = {}
    for row in made.operator_rows:
        found.setdefault(row["period"], []).append(row)
    return [*found.values()]


def _length_s(row: Row) -> float:
    return float(row["end_s"] - row["start_s"])


def _backlog(rows: Sequence[Row]) -> float:
    return float(sum(row["backlog"] or 0 for row in rows))


def _subtasks(rows: Sequence[Row]) -> float:
    return float(sum(row["parallelism"] for row in rows))


def latencies(rows: Sequence[Row]) -> dict[int, int]:
    """Histogram of the end-to-end latencies of the results in rows of operators: counts by bucket."""
    return histogram_of((row for row in rows if row["kind"] in SINKS), "e2e")


def _p99_s(rows: Sequence[Row]) -> float:
    """99 % quantile of the latency of results (s); NaN if there are no results."""
    histogram = latencies(rows)
    return quantile_s(histogram, 0.99) if histogram else math.nan


def judge(slo_s: float | None) -> partial[RunOutcome]:
    """Function `judged` for an SLO, in a form that other processes can receive."""
    return partial(judged, slo_s=slo_s)


def oscillations(events: Sequence[Mapping[str, Any]], deployment: Deployment) -> int:
    """Number of rescalings against the direction of the operator's last one, and of moves of a subtask or key group
    back to its place before its last move. events: rows of a run, in order; refused changes do not count.
    """
    return sum(_turns(events)) + sum(_returns(events, deployment))


def moved(event: Mapping[str, Any]) -> int:
    """Number of key groups that a migration moved; 1 for a whole subtask; 0 if it was refused or cut off by the end."""
    detail = event["detail"]
    return 0 if "refused" in detail else len(detail.get("key_groups", ())) or int("subtask" in detail)


def _turns(events: Sequence[Mapping[str, Any]]) -> Iterator[int]:
    last: dict[str, int] = {}
    for event in events:
        detail = event["detail"]
        if event["kind"] != "scale" or "after" not in detail or detail["after"] == detail["before"]:
            continue
        up = 1 if detail["after"] > detail["before"] else -1
        yield int(last.get(event["component"], up) != up)
        last[event["component"]] = up


def _returns(events: Sequence[Mapping[str, Any]], deployment: Deployment) -> Iterator[int]:
    """Yields 1 for each move back to the place before the last move, else 0. A rescaling forgets earlier places."""
    where = _start(deployment)
    before: dict[tuple[str, str, int], str] = {}
    for event in events:
        operator, detail = event["component"], event["detail"]
        if event["kind"] == "scale":
            where = {key: place for key, place in where.items() if key[1] != operator}
            before = {key: place for key, place in before.items() if key[1] != operator}
        if event["kind"] != "migration" or not moved(event):
            continue
        groups = detail.get("key_groups")
        movers = [("subtask", operator, detail["subtask"])] if groups is None else []
        for mover in movers or [("group", operator, group) for group in groups]:
            target = _target(detail, operator, deployment)
            yield int(before.get(mover) == target and where.get(mover) != target)
            if mover in where:
                before[mover] = where[mover]
            where[mover] = target


def _start(deployment: Deployment) -> dict[tuple[str, str, int], str]:
    found: dict[tuple[str, str, int], str] = {}
    for name, places in deployment.plan.placement.items():
        found |= {("subtask", name, number): place for number, place in enumerate(places)}
        groups = group_count(deployment.query, name, len(places))
        if groups is not None:
            owners = deployment.plan.key_groups.get(name) or contiguous(groups, len(places))
            found |= {("group", name, group): places[owner] for group, owner in enumerate(owners)}
    return found


def _target(detail: Mapping[str, Any], operator: str, deployment: Deployment) -> str:
    """Place to which a migration goes; for a subtask that the plan does not have, its number."""
    if "to" in detail:
        return str(detail["to"])
    places = deployment.plan.placement[operator]
    return places[detail["to_subtask"]] if detail["to_subtask"] < len(places) else f"#{detail['to_subtask']}"
