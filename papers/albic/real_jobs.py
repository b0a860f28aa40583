"""ALBIC's real jobs in the simulator (Section 5.4): Real Job 1 (Figs. 6 to 9), and Real Jobs 2 to 4 (12 to 14)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from optimizers.policies.room import stood_still
from optimizers.policies.rounds import GroupMap, traffic_of
from papers.interface import CaseTable, Experiment, Row, Rows, apart, grid, lines, shape, span, within
from papers.workspace import Workspace
from scenarios.files.scenario_file import load, set_value
from twin.control import PeriodStatistics, Policy, PolicySpec, Reconfiguration, policy_spec
from twin.deployment import Deployment
from twin.run import Run
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.workload import key_groups_of

# courses -------------------------------------------------------------------------------------------------------------
# Load distances, migrations and pauses of a run by round.


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


# statements of the paper ---------------------------------------------------------------------------------------------
# Its text, compared with our rows.


STABLE = 1.0
"""Largest load distance, in percentage points, that the paper calls "stable": "consistently below 1 %"."""
COMPARED: Mapping[str, str] = {
    "ALBIC, one pair a round": "so few pairs need more rounds",
    "ALBIC, pairs for 60 % of the budget": "",
}
"""Ways that are compared with the paper's ALBIC, with the reason why one may be behind after our rounds."""
NEARLY = 0.1
"""Relative deviation within which a number agrees with one that the paper gives in words."""


def evenness(rows: Rows) -> Rows:
    """Statements on Fig. 6: how even each way keeps the job, right after migrations."""
    by = {row["way"]: row for row in rows}
    most = {way: by[way]["planned_most"] for way in by}
    merging = by["two choices"]["cpu"] / by["none"]["cpu"]
    return [
        shape("the MILP, highest", f"below {STABLE:g} % at all times", f"{most['MILP']:.2g}", most["MILP"] < STABLE),
        shape("Flux, highest", "significant fluctuations", f"{most['Flux']:.2g}", most["Flux"] > STABLE,
              f"above {STABLE:g} counts"),
        apart("Flux in numbers", "up to 7 %", f"{most['Flux']:.2g}", "how fast loads change is our own choice"),
        shape("two choices, highest", "not consistently good", f"{most['two choices']:.2g}",
              most["two choices"] > STABLE),
        shape("two choices, CPU", "a continuous overhead", f"{merging:.2f} times that of none", merging > 1.0,
              "what merging costs"),
    ]  # fmt: skip


def migrations(rows: Rows) -> Rows:
    """Statements on Fig. 7: migrations of Flux and the MILP."""
    flux, milp = (next(row for row in rows if row["way"] == way) for way in ("Flux", "MILP"))
    return [
        shape("migrations, Flux", "may be more than are necessary",
              f"{flux['mean']:.3g} a round for the MILP's {milp['mean']:.3g}", flux["mean"] > milp["mean"],
              "both stop within the same band of load distance; Flux also where no single move helps"),
        shape("the limit stops Flux", "and so it is less even", f"in {flux['at_limit']:.0f} % of the rounds, the MILP "
              f"in {milp['at_limit']:.0f} %", flux["at_limit"] > milp["at_limit"]),
    ]  # fmt: skip


def limits(rows: Rows) -> Rows:
    """Statements on Fig. 8: load distances by limit on migrations."""
    means = [row["planned"] for row in rows]
    ten = next(row["planned_most"] for row in rows if row["limit"] == "10")
    return [
        shape("more migrations allowed", "highly correlated with balance; no limit is best",
              f"{span(means)} points", means == sorted(set(means), reverse=True)),
        shape("a limit of 10", "significant spikes", f"{ten:.2g} points at most", ten > STABLE,
              f"above {STABLE:g} counts: our loads change little in a round"),
    ]  # fmt: skip


def pauses(rows: Rows) -> Rows:
    """Statements on Fig. 9: pauses by limit on migrations."""
    *limited, free = (row["pauses"] for row in rows)
    times = free / max(limited)
    return [
        shape("pauses together, no limit", "very large: many key groups migrate",
              f"{times:.2g} times those of the highest limit", times > 2.0, "more than twice counts"),
        apart("pause of a key group", "2.5 s", f"{span([row['pause'] for row in rows])} ms",
              "its state and the network are our own choice"),
    ]  # fmt: skip


def about(value: float, published: float) -> bool:
    """Whether a number agrees with one that the paper gives in words."""
    return within([value / published], 1.0 - NEARLY, 1.0 + NEARLY)


def trend(rows: Rows, index: str, so: Callable[[float], bool]) -> list[Row]:
    """Statements on all three jobs, compared with its ALBIC as published, and with several pairs a round.

    index: what the paper says of the load index. so: whether a load index of ours agrees.
    """
    by, last = {row["way"]: row for row in rows}, last_of(rows)
    cola, found = by["COLA"], []
    for way, late in COMPARED.items():
        row = by[way]
        found += [
            shape(f"{way}: collocation", "gradually COLA's", f"{row[last]:.3g} for {cola[last]:.3g} %",
                  about(row[last], cola[last]), late),
            shape(f"{way}: load distance", "consistently lower than COLA's",
                  f"{row['distance']:.3g} for {cola['distance']:.3g}; at most {row['most']:.3g} for {cola['most']:.3g}",
                  row["distance"] < cola["distance"] and row["most"] < cola["most"],
                  "while it collocates, ALBIC allows 10 points; COLA has done so after a round"),
            shape(f"{way}: load index", index, f"to {row['index']:.3g} %", so(row["index"]), late),
        ]  # fmt: skip
    return found


def delays(rows: Rows) -> Rows:
    """Statements on Fig. 12 (Real Job 2)."""
    cola = _cola(rows)
    few = "ours is told the present nodes, so that few groups move"
    return [
        *trend(rows, "from 100 to 50 %", lambda index: about(index, 50.0)),
        shape("COLA: collocation", "the optimum at once", f"{cola['after_1']:.3g} % after round 1",
              about(cola["after_1"], max(row[last_of(rows)] for row in rows))),
        shape("COLA: load index", "to 75 %", f"to {cola['index']:.3g} %", about(cola["index"], 75.0), few),
        shape("COLA: migrations", "close to 200 a round", f"{cola['migrations']:.3g}", about(cola["migrations"], 200.0),
              few),
    ]  # fmt: skip


def routes(rows: Rows) -> Rows:
    """Statements on Fig. 13 (Real Job 3)."""
    most = max(row[last_of(rows)] for row in rows)
    return [
        *trend(rows, "falls", lambda index: index < 100.0),
        shape("collocation", "half that of Real Job 2", f"at most {most:.3g} %", about(most, 50.0)),
        apart("COLA: load index", "of half of the input", f"to {_cola(rows)['index']:.3g} %", "ours is of all of it"),
    ]


def weather(rows: Rows) -> Rows:
    """Statements on Fig. 14 (Real Job 4)."""
    cola = _cola(rows)
    return [
        *trend(rows, "falls", lambda index: index < 100.0),
        shape("COLA: collocation", "around 61 %", f"{cola[last_of(rows)]:.3g} %", about(cola[last_of(rows)], 61.0)),
        apart("COLA in each round", "exceeds the capacity", f"{cola['migrations']:.3g} migrations a round",
              "what a key group costs to move is our own choice"),
    ]  # fmt: skip


def last_of(rows: Rows) -> str:
    """Column of the collocation after the last reported round."""
    return max((key for key in rows[0] if key.startswith("after_")), key=lambda key: int(key.removeprefix("after_")))


def _cola(rows: Rows) -> Row:
    return next(row for row in rows if row["way"] == "COLA")


# Real Job 1: Figs. 6 to 9 --------------------------------------------------------------------------------------------
# By balancing method (6, 7) and by limit on migrations (8, 9).


JOB = "wikipedia-top-k"
MIGRATIONS_1, BAND = 13, 0.5
ROUNDS_1 = 30
TWO_CHOICES = "query.streams.geohash->top-k.partitioning=two-choice"

Change = Callable[[Scenario], Scenario]


def policy(name: str, **options: Any) -> PolicySpec:
    """Policy with the limit and the band of the experiments, unless options give others."""
    return policy_spec({"name": name, "max_migrations": MIGRATIONS_1, "band": BAND, **options})


def limited(limit: int, job: Scenario) -> Scenario:
    """Job that is balanced with at most `limit` migrations a round."""
    return job.with_policy(policy("balance", max_migrations=limit, band=0.0))


WAYS_1: Mapping[str, Change] = {
    "none": lambda job: job,
    "Flux": lambda job: job.with_policy(policy("flux")),
    "search (ours)": lambda job: job.with_policy(policy("balance")),
    "MILP": lambda job: job.with_policy(policy("balance", solver="milp", seconds=1.0)),
    "two choices": lambda job: set_value(job, TWO_CHOICES),
}
MOVING = ("Flux", "search (ours)", "MILP")
DRAWN = tuple(way for way in WAYS_1 if way != "MILP")
LIMITS: Mapping[str, int] = {"5": 5, "10": 10, "20": 20, "no limit": 300}
"""Largest numbers of migrations a round; the job has 300 key groups."""


def course_1(change: Change, seed: int, rounds: int) -> dict[str, list[float]]:
    """Course of the changed job."""
    job = load(JOB)
    length_s = job.run.period_s
    result = simulate(change(job.with_run(seed=seed, horizon_s=(rounds + 1) * length_s)))
    return course_of(result, rounds, length_s)


def by_way(workspace: Workspace, way: str) -> Course:
    """Course of Real Job 1 under a balancing method, for Figs. 6 and 7."""
    rounds = rounds_of(workspace, ROUNDS_1)
    compute = partial(course_1, WAYS_1[way], workspace.seed, rounds)
    return dict(workspace.cached("albic-fig6", {"way": way, "rounds": rounds}, compute))


def by_limit(workspace: Workspace, limit: str) -> Course:
    """Course of Real Job 1 under a limit on migrations, for Figs. 8 and 9."""
    rounds, most = rounds_of(workspace, ROUNDS_1), LIMITS[limit]
    compute = partial(course_1, partial(limited, most), workspace.seed, rounds)
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
        "at_limit": 100.0 * float(np.mean(np.array(found["migrations"][FIRST:]) >= MIGRATIONS_1)),
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
            title=lambda workspace: (
                f"Real Job 1: load distances and migrations, {rounds_of(workspace, ROUNDS_1)} rounds"
            ),
            columns="""
                way | planned: load distance after migrations, mean |
                planned_most: load distance after migrations, highest | found: load distance a round later, mean |
                found_most: load distance a round later, highest | migrations: migrations a round |
                pauses: pauses of key groups together, a round (s) | cpu: CPU of the workers, mean (%)
            """,
            cases=grid(way=WAYS_1),
            measure=lambda workspace, way: quality(by_way(workspace, way)),
            shapes=evenness,
        )
    },
    figures={
        name: lines("round", DISTANCE, y=f"_{name}_by_round", series="way", only={"way": DRAWN})
        for name in ("planned", "found")
    },
    notes=f"""
- {JOB} of the library, Real Job 1 in shape: one input node, twenty workers, three operators with a hundred key groups
  each; synthetic edits, whose rate rises and falls and whose keys drift each round. At most {MIGRATIONS_1} migrations a
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
            title=lambda workspace: f"Real Job 1: migrations, {rounds_of(workspace, ROUNDS_1)} rounds",
            columns=f"""
                way | first: migrations in the first {FIRST} rounds | mean: migrations a round later on, mean |
                most: migrations in a round later on, most |
                at_limit: rounds later on that take all that are allowed (%) |
                pauses: pauses of key groups together, a round (s)
            """,
            cases=grid(way=MOVING),
            measure=migrated,
            shapes=migrations,
        )
    },
    figures={
        "migrations": lines("round", "migrations", y="_migrations_by_round", series="way", only={"way": DRAWN}),
    },
    notes=f"""
- The courses of albic.fig6: {JOB}, rounds of five simulated minutes, at most {MIGRATIONS_1} migrations in each. Two
  choices never migrate, and merge instead; what that costs is in albic.fig6.
""",
)
FIG8 = Experiment(
    name="albic.fig8",
    source="ALBIC, Fig. 8, Section 5.2.2",
    summary="load distance of Real Job 1 by the limit on migrations, simulated",
    tables={
        "limits": CaseTable(
            title=lambda workspace: f"Real Job 1 by limit on migrations, {rounds_of(workspace, ROUNDS_1)} rounds",
            columns="""
                limit: migrations a round, at most | planned: load distance after migrations, mean |
                planned_most: load distance after migrations, highest | found: load distance a round later, mean |
                migrations: migrations a round | pauses: pauses of key groups together, a round (s)
            """,
            cases=grid(limit=LIMITS),
            measure=lambda workspace, limit: quality(by_limit(workspace, limit)),
            shapes=limits,
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
            title=lambda workspace: (
                f"Real Job 1: pauses by limit on migrations, {rounds_of(workspace, ROUNDS_1)} rounds"
            ),
            columns="""
                limit: migrations a round, at most | pauses: pauses of key groups together, a round, mean (s) |
                pauses_most: pauses of key groups together, in a round, most (s) | migrations: migrations a round |
                pause: pause of a key group (ms)
            """,
            cases=grid(limit=LIMITS),
            measure=paused,
            shapes=pauses,
        )
    },
    figures={"pauses": lines("round", "pauses together (s)", y="_pauses_by_round", series="limit")},
    notes=f"""
- The courses of albic.fig8: {JOB}, rounds of five simulated minutes, the first {FIRST} left out of the table.
- Key groups that travel between the same subtasks travel together, and pause as long.
""",
)


# Real Jobs 2 to 4: Figs. 12 to 14 ------------------------------------------------------------------------------------
# Collocation, load distance and load index.


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
    **_of_job("airline-delays", delays),
)
FIG13 = Experiment(
    name="albic.fig13",
    source="ALBIC, Fig. 13, Section 5.4",
    summary="the same of Real Job 3, half of whose traffic can stay on a host",
    **_of_job("airline-routes", routes),
)
FIG14 = Experiment(
    name="albic.fig14",
    source="ALBIC, Fig. 14, Section 5.4",
    summary="the same of Real Job 4, a join of flights and weather",
    **_of_job("airline-weather", weather),
)
