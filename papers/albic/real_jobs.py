"""Real Jobs 2 to 4 of ALBIC in the simulator, round after round: what comes together, how even, and what it saves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from optimizers.policies.group_map import GroupMap, traffic_of
from optimizers.policies.room import stood_still
from papers.albic.real_job_1 import WORKERS
from papers.interface import Result, Table
from papers.sizes import Sizes
from papers.workspace import Workspace
from scenarios.files.scenario_file import load
from twin.control import PeriodStatistics, Policy, Reconfiguration, policy_spec
from twin.deployment import Deployment
from twin.keys import key_groups_of
from twin.run import Run
from twin.simulation import simulate

MIGRATIONS = 10
FIRST = 3
"""Rounds that bring the start into balance; load distances leave them out."""
ROUNDS = 40
TOLD = (1, 5, 10, 20, 40)

WAYS: Mapping[str, Mapping[str, Any] | None] = {
    "none": None,
    "ALBIC, one pair a round": {"name": "albic", "max_migrations": MIGRATIONS, "pairs": "one"},
    "ALBIC, pairs for 60 % of the budget": {"name": "albic", "max_migrations": MIGRATIONS},
    "joint (ours), band 2": {"name": "joint", "max_migrations": MIGRATIONS, "band": 2.0},
    "joint (ours), band 3": {"name": "joint", "max_migrations": MIGRATIONS},
    "COLA": {"name": "cola"},
}
NOTES = (
    (
        "One input node, twenty workers, a hundred key groups an operator, synthetic flights whose rate rises and "
        f"falls; rounds of a simulated minute, at most {MIGRATIONS} migrations in each (COLA cannot be held to that). "
        "Operators are placed so that as little as possible is together at first."
    ),
    (
        "Collocation factor: bytes between key groups that stay on a host, of all bytes between key groups. Load "
        f"distance: as measured in the round after, migrations' own work included, but for the first {FIRST} rounds. "
        "Load index: CPU of the workers, in percent of what the same minute takes without migrations."
    ),
    (
        "Costs of tuples are our own choice (how much of the work is serialising), and with them the load index that "
        "collocation ends at; how fast and how evenly each policy gets there is what is found."
    ),
)


@dataclass
class Watching:
    """Lets another policy decide, and keeps the collocation factor of each period."""

    deployment: Deployment
    inner: Policy | None
    name: str = "watching"
    factors: dict[float, float] = field(default_factory=dict)

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        """What the other one says."""
        if not stood_still(statistics, self.deployment):
            names = [each.name for each in self.deployment.query.operators if key_groups_of(each) is not None]
            home_g = GroupMap(self.deployment, [statistics], names).home_g
            traffic = traffic_of(self.deployment, [statistics], names, beside=0)
            self.factors[statistics.start_s] = traffic.factor(home_g)
        return None if self.inner is None else self.inner.decide(statistics)


def course(name: str, way: str, rounds: int, seed: int) -> dict[str, list[float]]:
    """By round, from the first migrations on: `collocation` and load `distance` of the period after them, `cpu` of the
    workers in percent, `planned` load distance (that measured where nothing moved), `migrations` and `pauses` (s)."""
    job = load(name)
    length_s = job.run.period_s
    job = job.with_run(seed=seed, horizon_s=(rounds + 1) * length_s)
    options = WAYS[way]
    watching = Watching(job, None if options is None else policy_spec(dict(options)).start(job))
    result = simulate(job, watching)
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
    columns = {
        "collocation": np.array(carried(watching.factors, [length_s * k for k in range(rounds + 1)]))[1:],
        "distance": distance[1:],
        "cpu": load_th[1:].mean(axis=1),
        "planned": planned,
        "migrations": migrations,
        "pauses": pauses,
    }
    return {key: values.tolist() for key, values in columns.items()}


def carried(known: Mapping[float, float], starts: Sequence[float]) -> list[float]:
    """What is known of each period; of one that nobody was asked about, what was known before."""
    found = [known.get(starts[0], 0.0)]
    for start in starts[1:]:
        found.append(known.get(start, found[-1]))
    return found


def worker_loads(result: Run) -> np.ndarray:
    """[periods, workers] percent of CPU."""
    by_period: dict[int, list[float]] = {}
    for row in result.host_rows:
        if row["host"].startswith(WORKERS):
            by_period.setdefault(row["period"], []).append(100.0 * row["cpuUtilisation"])
    return np.array(list(by_period.values()))


def rounds_of(sizes: Sizes) -> int:
    """Forty; a few where it should take minutes."""
    return min(ROUNDS, sizes.queries)


def courses(name: str, job: str, note: str, workspace: Workspace, sizes: Sizes) -> Result:
    """All ways on one job, as one figure of the paper has them."""
    rounds = rounds_of(sizes)
    found = dict[str, dict[str, list[float]]]()
    with workspace.audience.progress("courses") as report:
        for way in WAYS:
            key = {"job": job, "way": way, "rounds": rounds, "options": WAYS[way]}
            found[way] = workspace.cached(name, key, partial(course, job, way, rounds, workspace.seed))
            report(len(found), len(WAYS))
    told = [each for each in TOLD if each <= rounds]
    columns = {
        "way": "way",
        **{f"after_{each}": f"collocation after round {each} (%)" for each in told},
        "index": "load index, last 5 rounds (%)",
        "distance": "load distance, mean",
        "most": "load distance, highest",
        "planned_most": "load distance as planned, highest",
        "migrations": "migrations a round",
        "pauses": "pauses of key groups together, a round (s)",
    }
    rows = tuple(_row(way, each, found["none"], told) for way, each in found.items())
    figures: dict[str, Callable[[], Any]] = {
        key: partial(_drawn, {way: _values(each, found["none"], key) for way, each in found.items()}, label)
        for key, label in (
            ("collocation", "collocation factor (%)"),
            ("distance", "load distance (percentage points)"),
            ("index", "load index (%)"),
        )
    }
    return Result({"ways": Table(f"{job}: {rounds} rounds", columns, rows)}, figures, (*NOTES, note))


def _values(found: Mapping[str, list[float]], none: Mapping[str, list[float]], key: str) -> list[float]:
    if key != "index":
        return found[key]
    return [100.0 * each / without for each, without in zip(found["cpu"], none["cpu"], strict=True)]


def _row(
    way: str, found: Mapping[str, list[float]], none: Mapping[str, list[float]], told: Sequence[int]
) -> dict[str, Any]:
    return {
        "way": way,
        **{f"after_{each}": found["collocation"][each - 1] for each in told},
        "index": float(np.mean(_values(found, none, "index")[-5:])),
        "distance": float(np.mean(found["distance"][FIRST:])),
        "most": max(found["distance"][FIRST:]),
        "planned_most": max(found["planned"][FIRST:]),
        "migrations": float(np.mean(found["migrations"])),
        "pauses": float(np.mean(found["pauses"])),
    }


def _drawn(by_way: Mapping[str, list[float]], label: str) -> Any:
    from figures.lines import lines

    points: dict[str, list[Any]] = {
        "series": [way for way, values in by_way.items() for _ in values],
        "x": [number for values in by_way.values() for number in range(1, len(values) + 1)],
        "y": [value for values in by_way.values() for value in values],
    }
    return lines(points, "round", label)
