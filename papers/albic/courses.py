"""Courses of runs of ALBIC's real jobs: load distances, migrations and pauses by round."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from papers.workspace import Workspace
from twin.run import Run

WORKERS = "worker-"
FIRST = 3
"""Number of rounds that bring the initial assignment into balance; tables leave them out of load distances."""

Course = Mapping[str, list[float]]


def course_of(result: Run, rounds: int, length_s: float) -> dict[str, list[float]]:
    """Course of a run by round, from the first migrations on: `planned`, the load distance in percentage points right
    after migrations (as measured where nothing moved), and `found`, that of the next round; `migrations`, the sum of
    their `pauses` in seconds, and `cpu` of the workers in percent."""
    load_th = worker_loads(result)
    distance = np.abs(load_th - load_th.mean(axis=1, keepdims=True)).max(axis=1)
    planned, migrations, pauses = distance[:-1].copy(), np.zeros(rounds), np.zeros(rounds)
    for event in result.event_rows:
        number, detail = min(rounds, max(1, round(event["at_s"] / length_s))) - 1, event["detail"]
        if event["kind"] == "decision":
            planned[number] = detail.get("planned", planned[number])
        elif event["kind"] == "migration":
            migrations[number] += len(detail["key_groups"])
            pauses[number] += len(detail["key_groups"]) * (event["paused_s"] or 0.0)
    columns = {"planned": planned, "found": distance[1:], "migrations": migrations, "pauses": pauses}
    return {name: values.tolist() for name, values in (columns | {"cpu": load_th[1:].mean(axis=1)}).items()}


def rounds_of(workspace: Workspace, most: int) -> int:
    """Number of rounds: `most`, or a few at a scale of minutes."""
    return min(most, workspace.sizes.queries)


def worker_loads(result: Run) -> np.ndarray:
    """CPU use of the workers in percent. [periods, workers]"""
    by_period: dict[int, list[float]] = {}
    for row in result.host_rows:
        if row["host"].startswith(WORKERS):
            by_period.setdefault(row["period"], []).append(100.0 * row["cpuUtilisation"])
    return np.array(list(by_period.values()))


def later_mean(course: Course, key: str) -> float:
    """Mean over the rounds that tables show."""
    return float(np.mean(course[key][FIRST:]))


def later_most(course: Course, key: str) -> float:
    """Maximum over the rounds that tables show."""
    return max(course[key][FIRST:])
