"""ALBIC, Figs. 6 to 9: Real Job 1 in the simulator, by balancing method (6, 7) and by limit on migrations (8, 9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from papers.albic import said
from papers.albic.courses import FIRST, Course, course_of, later_mean, later_most, rounds_of
from papers.drawing import lines
from papers.interface import CaseTable, Experiment, Row, grid
from papers.workspace import Workspace
from scenarios.files.scenario_file import load, set_value
from twin.control import PolicySpec, policy_spec
from twin.scenario import Scenario
from twin.simulation import simulate

JOB = "wikipedia-top-k"
MIGRATIONS, BAND = 13, 0.5
ROUNDS = 30
TWO_CHOICES = "query.streams.geohash->top-k.partitioning=two-choice"

Change = Callable[[Scenario], Scenario]


def policy(name: str, **options: Any) -> PolicySpec:
    """Policy with the limit and the band of the experiments, unless options give others."""
    return policy_spec({"name": name, "max_migrations": MIGRATIONS, "band": BAND, **options})


def limited(limit: int, job: Scenario) -> Scenario:
    """Job that is balanced with at most `limit` migrations a round."""
    return job.with_policy(policy("balance", max_migrations=limit, band=0.0))


WAYS: Mapping[str, Change] = {
    "none": lambda job: job,
    "Flux": lambda job: job.with_policy(policy("flux")),
    "search (ours)": lambda job: job.with_policy(policy("balance")),
    "MILP": lambda job: job.with_policy(policy("balance", solver="milp", seconds=1.0)),
    "two choices": lambda job: set_value(job, TWO_CHOICES),
}
MOVING = ("Flux", "search (ours)", "MILP")
DRAWN = tuple(way for way in WAYS if way != "MILP")
LIMITS: Mapping[str, int] = {"5": 5, "10": 10, "20": 20, "no limit": 300}
"""Largest numbers of migrations a round; the job has 300 key groups."""


def course(change: Change, seed: int, rounds: int) -> dict[str, list[float]]:
    """Course of the changed job."""
    job = load(JOB)
    length_s = job.run.period_s
    result = simulate(change(job.with_run(seed=seed, horizon_s=(rounds + 1) * length_s)))
    return course_of(result, rounds, length_s)


def by_way(workspace: Workspace, way: str) -> Course:
    """Course of Real Job 1 under a balancing method, for Figs. 6 and 7."""
    rounds = rounds_of(workspace, ROUNDS)
    compute = partial(course, WAYS[way], workspace.seed, rounds)
    return dict(workspace.cached("albic-fig6", {"way": way, "rounds": rounds}, compute))


def by_limit(workspace: Workspace, limit: str) -> Course:
    """Course of Real Job 1 under a limit on migrations, for Figs. 8 and 9."""
    rounds, most = rounds_of(workspace, ROUNDS), LIMITS[limit]
    compute = partial(course, partial(limited, most), workspace.seed, rounds)
    return dict(workspace.cached("albic-fig8", {"limit": most, "rounds": rounds}, compute))


def quality(found: Course) -> dict[str, Any]:
    """Load distances, migrations, pauses and CPU: means over the later rounds, and distances by round."""
    means = {key: later_mean(found, key) for key in ("planned", "found", "migrations", "pauses", "cpu")}
    most = {f"{key}_most": later_most(found, key) for key in ("planned", "found")}
    return {**means, **most, **{f"_{key}_by_round": found[key] for key in ("planned", "found")}}


def migrated(workspace: Workspace, way: str) -> Row:
    """Numbers of key groups that move, and their pauses."""
    found = by_way(workspace, way)
    return {
        "first": float(np.sum(found["migrations"][:FIRST])),
        "mean": later_mean(found, "migrations"),
        "most": float(later_most(found, "migrations")),
        "at_limit": 100.0 * float(np.mean(np.array(found["migrations"][FIRST:]) >= MIGRATIONS)),
        "pauses": later_mean(found, "pauses"),
        "_migrations_by_round": found["migrations"],
    }


def paused(workspace: Workspace, limit: str) -> Row:
    """Pauses of key groups, summed over each round."""
    found = by_limit(workspace, limit)
    pauses, migrations = (np.array(found[key][FIRST:]) for key in ("pauses", "migrations"))
    return {
        "pauses": float(pauses.mean()),
        "pauses_most": float(pauses.max()),
        "migrations": float(migrations.mean()),
        "pause": 1e3 * float(pauses.sum() / max(migrations.sum(), 1.0)),
        "_pauses_by_round": found["pauses"],
    }


DISTANCE = "load distance (percentage points)"

FIG6 = Experiment(
    name="albic.fig6",
    source="ALBIC, Fig. 6, Section 5.2.1",
    summary="load distance of Real Job 1 under the MILP, Flux and two choices, simulated",
    tables={
        "quality": CaseTable(
            title=lambda workspace: f"Real Job 1: load distances and migrations, {rounds_of(workspace, ROUNDS)} rounds",
            columns="""
                way | planned: load distance after migrations, mean |
                planned_most: load distance after migrations, highest | found: load distance a round later, mean |
                found_most: load distance a round later, highest | migrations: migrations a round |
                pauses: pauses of key groups together, a round (s) | cpu: CPU of the workers, mean (%)
            """,
            cases=grid(way=WAYS),
            measure=lambda workspace, way: quality(by_way(workspace, way)),
            shapes=said.evenness,
        )
    },
    figures={
        name: lines("round", DISTANCE, y=f"_{name}_by_round", series="way", only={"way": DRAWN})
        for name in ("planned", "found")
    },
    notes=f"""
- {JOB} of the library, Real Job 1 in shape: one input node, twenty workers, three operators with a hundred key groups
  each; synthetic edits, whose rate rises and falls and whose keys drift each round. At most {MIGRATIONS} migrations a
  round of five simulated minutes; the first {FIRST} rounds are left out of the table.
- After migrations: with the loads just measured, on the nodes that the groups are sent to, which is what the paper
  plots. A round later: what the workers were then measured to do, keys having drifted since. Loads are estimated from
  records and busy times of subtasks, as no record shows its key group.
- MILP: HiGHS, started from the search, for a second a round.
- Two choices: every record into the count by article goes to the less loaded of two subtasks, and the global top k
  merges what both counted. Its groups are given to subtasks by hash and never move. In the CPU of the workers is what
  merging costs.
""",
)
FIG7 = Experiment(
    name="albic.fig7",
    source="ALBIC, Fig. 7, Section 5.2.1",
    summary="migrations of Real Job 1 under the MILP and Flux, simulated",
    tables={
        "migrations": CaseTable(
            title=lambda workspace: f"Real Job 1: migrations, {rounds_of(workspace, ROUNDS)} rounds",
            columns=f"""
                way | first: migrations in the first {FIRST} rounds | mean: migrations a round later on, mean |
                most: migrations in a round later on, most |
                at_limit: rounds later on that take all that are allowed (%) |
                pauses: pauses of key groups together, a round (s)
            """,
            cases=grid(way=MOVING),
            measure=migrated,
            shapes=said.migrations,
        )
    },
    figures={
        "migrations": lines("round", "migrations", y="_migrations_by_round", series="way", only={"way": DRAWN}),
    },
    notes=f"""
- The courses of albic.fig6: {JOB}, rounds of five simulated minutes, at most {MIGRATIONS} migrations in each. Two
  choices never migrate, and merge instead; what that costs is in albic.fig6.
""",
)
FIG8 = Experiment(
    name="albic.fig8",
    source="ALBIC, Fig. 8, Section 5.2.2",
    summary="load distance of Real Job 1 by the limit on migrations, simulated",
    tables={
        "limits": CaseTable(
            title=lambda workspace: f"Real Job 1 by limit on migrations, {rounds_of(workspace, ROUNDS)} rounds",
            columns="""
                limit: migrations a round, at most | planned: load distance after migrations, mean |
                planned_most: load distance after migrations, highest | found: load distance a round later, mean |
                migrations: migrations a round | pauses: pauses of key groups together, a round (s)
            """,
            cases=grid(limit=LIMITS),
            measure=lambda workspace, limit: quality(by_limit(workspace, limit)),
            shapes=said.limits,
        )
    },
    figures={"quality": lines("round", DISTANCE, y="_planned_by_round", series="limit")},
    notes=f"""
- {JOB} of the library, as in albic.fig6: rounds of five simulated minutes, the first {FIRST} left out of the table.
- Balanced by the search without a band: without a limit it moves whatever makes hosts still more even. Key groups
  that travel between the same subtasks travel together and pause as long.
""",
)
FIG9 = Experiment(
    name="albic.fig9",
    source="ALBIC, Fig. 9, Section 5.2.2",
    summary="pauses of Real Job 1 by the limit on migrations, simulated",
    tables={
        "pauses": CaseTable(
            title=lambda workspace: f"Real Job 1: pauses by limit on migrations, {rounds_of(workspace, ROUNDS)} rounds",
            columns="""
                limit: migrations a round, at most | pauses: pauses of key groups together, a round, mean (s) |
                pauses_most: pauses of key groups together, in a round, most (s) | migrations: migrations a round |
                pause: pause of a key group (ms)
            """,
            cases=grid(limit=LIMITS),
            measure=paused,
            shapes=said.pauses,
        )
    },
    figures={"pauses": lines("round", "pauses together (s)", y="_pauses_by_round", series="limit")},
    notes=f"""
- The courses of albic.fig8: {JOB}, rounds of five simulated minutes, the first {FIRST} left out of the table.
- Key groups that travel between the same subtasks travel together, and pause as long.
""",
)
