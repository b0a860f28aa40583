"""Real Job 1 of ALBIC in the simulator, round after round: load distances, migrations and their pauses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from papers.sizes import Sizes
from scenarios.files.scenario_file import load
from twin.control import PolicySpec, policy_spec
from twin.run import Run
from twin.scenario import Scenario
from twin.simulation import simulate

JOB, WORKERS = "wikipedia-top-k", "worker-"
MIGRATIONS, BAND = 13, 0.5
ROUNDS = 30
FIRST = 3
"""Rounds that bring the contiguous assignment of the start into balance; tables leave them out."""

Change = Callable[[Scenario], Scenario]


def policy(name: str, **options: Any) -> PolicySpec:
    """With the limit and the band of the experiments, unless options say otherwise."""
    return policy_spec({"name": name, "max_migrations": MIGRATIONS, "band": BAND, **options})


def rounds_of(sizes: Sizes) -> int:
    """Thirty; a few where it should take minutes."""
    return min(ROUNDS, sizes.queries)


def course(change: Change, seed: int, rounds: int) -> dict[str, list[float]]:
    """By round, from the first migrations on: `planned`, the load distance in percentage points right after migrations,
    and `found`, that of the next round; `migrations`, their `pauses` in seconds together, and `cpu` of the workers in
    percent."""
    job = load(JOB)
    length_s = job.run.period_s
    result = simulate(change(job.with_run(seed=seed, horizon_s=(rounds + 1) * length_s)))
    load_th = _loads(result)
    distance = np.abs(load_th - load_th.mean(axis=1, keepdims=True)).max(axis=1)
    planned, migrations, pauses = distance[:-1].copy(), np.zeros(rounds), np.zeros(rounds)
    for event in result.event_rows:
        number, detail = round(event["at_s"] / length_s) - 1, event["detail"]
        if event["kind"] == "decision":
            planned[number] = detail.get("planned", planned[number])
        elif event["kind"] == "migration":
            migrations[number] += len(detail["key_groups"])
            pauses[number] += len(detail["key_groups"]) * (event["paused_s"] or 0.0)
    columns = {"planned": planned, "found": distance[1:], "migrations": migrations, "pauses": pauses}
    return {name: each.tolist() for name, each in (columns | {"cpu": load_th[1:].mean(axis=1)}).items()}


def _loads(result: Run) -> np.ndarray:
    """[periods, workers] percent of CPU."""
    workers = [row for row in result.host_rows if row["host"].startswith(WORKERS)]
    periods = max(row["period"] for row in workers) + 1
    found = [[100.0 * row["cpuUtilisation"] for row in workers if row["period"] == each] for each in range(periods)]
    return np.array(found)


def drawn(by_way: Mapping[str, list[float]], label: str = "load distance (percentage points)") -> Any:
    """A line a way, by round."""
    from figures.lines import lines

    points: dict[str, list[Any]] = {
        "series": [way for way, values in by_way.items() for _ in values],
        "x": [number for values in by_way.values() for number in range(1, len(values) + 1)],
        "y": [value for values in by_way.values() for value in values],
    }
    return lines(points, "round", label)
