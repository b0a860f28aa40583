"""ALBIC, Figs. 12 to 14: Real Jobs 2 to 4 in the simulator: collocation, load distance and load index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from optimizers.policies.room import stood_still
from optimizers.policies.rounds import GroupMap, traffic_of
from papers.albic import said
from papers.albic.courses import FIRST, course_of, later_mean, later_most, rounds_of
from papers.drawing import lines
from papers.interface import CaseTable, Experiment, Row, Rows, grid
from papers.workspace import Workspace
from scenarios.files.scenario_file import load
from twin.control import PeriodStatistics, Policy, Reconfiguration, policy_spec
from twin.deployment import Deployment
from twin.keys import key_groups_of
from twin.simulation import simulate

MIGRATIONS = 10
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


@dataclass
class Watching:
    """Policy that lets another one decide, and keeps the collocation factor of each period."""

    deployment: Deployment
    inner: Policy | None
    name: str = "watching"
    factors: dict[float, float] = field(default_factory=dict)

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        """Decision of the other policy."""
        if not stood_still(statistics, self.deployment):
            names = [spec.name for spec in self.deployment.query.operators if key_groups_of(spec) is not None]
            home_g = GroupMap(self.deployment, [statistics], names).home_g
            traffic = traffic_of(self.deployment, [statistics], names, beside=0)
            self.factors[statistics.start_s] = traffic.factor(home_g)
        return None if self.inner is None else self.inner.decide(statistics)


def course(job: str, way: str, rounds: int, options: Mapping[str, Any] | None, seed: int) -> dict[str, list[float]]:
    """Course of a job by round, as `course_of`, and `collocation` of the period after the migrations."""
    del way
    scenario = load(job)
    length_s = scenario.run.period_s
    scenario = scenario.with_run(seed=seed, horizon_s=(rounds + 1) * length_s)
    watching = Watching(scenario, None if options is None else policy_spec(dict(options)).start(scenario))
    found = course_of(simulate(scenario, watching), rounds, length_s)
    return found | {"collocation": carried(watching.factors, [length_s * number for number in range(rounds + 1)])[1:]}


def carried(known: Mapping[float, float], starts: Sequence[float]) -> list[float]:
    """Collocation factor of each period; where none is known, the one before."""
    factors = [known.get(starts[0], 0.0)]
    for start in starts[1:]:
        factors.append(known.get(start, factors[-1]))
    return factors


def told(workspace: Workspace) -> list[int]:
    """Rounds after which the collocation factor is reported."""
    return [number for number in TOLD if number <= rounds_of(workspace, ROUNDS)]


def measured(workspace: Workspace, job: str, way: str) -> Row:
    """Summary of a job under one way, with the load index against the same job without migrations."""
    found, none = (
        workspace.measured(
            "albic-real-jobs", course, job=job, way=name, rounds=rounds_of(workspace, ROUNDS), options=WAYS[name]
        )
        for name in (way, "none")
    )
    index = [100.0 * cpu / without for cpu, without in zip(found["cpu"], none["cpu"], strict=True)]
    return {
        **{f"after_{number}": found["collocation"][number - 1] for number in told(workspace)},
        "index": float(np.mean(index[-5:])),
        "distance": later_mean(found, "found"),
        "most": later_most(found, "found"),
        "planned_most": later_most(found, "planned"),
        "migrations": float(np.mean(found["migrations"])),
        "pauses": float(np.mean(found["pauses"])),
        "_collocation_by_round": found["collocation"],
        "_distance_by_round": found["found"],
        "_index_by_round": index,
    }


def ways(job: str, shapes: Callable[[Rows], Rows]) -> CaseTable:
    """Table of all ways on one job, as in one figure of the paper."""

    def columns(workspace: Workspace) -> str:
        after = " | ".join(f"after_{number}: collocation after round {number} (%)" for number in told(workspace))
        return f"""
            way | {after} | index: load index, last 5 rounds (%) | distance: load distance, mean |
            most: load distance, highest | planned_most: load distance as planned, highest |
            migrations: migrations a round | pauses: pauses of key groups together, a round (s)
        """

    return CaseTable(
        title=lambda workspace: f"{job}: {rounds_of(workspace, ROUNDS)} rounds",
        columns=columns,
        cases=grid(job=(job,), way=WAYS),
        measure=measured,
        shapes=shapes,
    )


FIGURES = {
    key: lines("round", label, y=f"_{key}_by_round", series="way")
    for key, label in (
        ("collocation", "collocation factor (%)"),
        ("distance", "load distance (points)"),
        ("index", "load index (%)"),
    )
}
NOTES = f"""
- One input node, twenty workers, a hundred key groups an operator, synthetic flights whose rate rises and falls;
  rounds of a simulated minute, at most {MIGRATIONS} migrations in each (COLA cannot be held to that). Operators are
  placed so that as little as possible is together at first.
- Collocation factor: bytes between key groups that stay on a host, of all bytes between key groups. Load distance: as
  measured in the round after, migrations' own work included, but for the first {FIRST} rounds. Load index: CPU of the
  workers, in percent of what the same minute takes without migrations.
- Costs of records are our own choice (how much of the work is serialising), and with them the load index that
  collocation ends at; how fast and how evenly each policy gets there is what is found.
"""


def _of_job(job: str, shapes: Callable[[Rows], Rows]) -> dict[str, Any]:
    """Parts that the experiments of all jobs share."""
    return {"tables": {"ways": ways(job, shapes)}, "figures": FIGURES, "notes": NOTES}


FIG12 = Experiment(
    name="albic.fig12",
    source="ALBIC, Fig. 12, Section 5.4",
    summary="collocation, load distance and load index of Real Job 2, simulated",
    **_of_job("airline-delays", said.delays),
)
FIG13 = Experiment(
    name="albic.fig13",
    source="ALBIC, Fig. 13, Section 5.4",
    summary="the same of Real Job 3, half of whose traffic can stay on a host",
    **_of_job("airline-routes", said.routes),
)
FIG14 = Experiment(
    name="albic.fig14",
    source="ALBIC, Fig. 14, Section 5.4",
    summary="the same of Real Job 4, a join of flights and weather",
    **_of_job("airline-weather", said.weather),
)
