"""BriskStream, Fig. 14: random replication and placement against RLAS's plan."""

from __future__ import annotations

import numpy as np

from optimizers.numa.baselines import scattered
from optimizers.numa.rlas import Rlas
from papers.briskstream.applications import (
    EVERYWHERE,
    SERVERS,
    Case,
    part,
    plan_by,
    reached_per_s,
    simulated,
)
from papers.drawing import samples
from papers.interface import CaseTable, Experiment, Row, Rows, shape
from papers.running import kept
from papers.workspace import Workspace
from twin.deployment import Deployment
from twin.plan import ExecutionPlan
from twin.randomness import random_stream
from twin.rates.numa_rates import NumaJob
from twin.scenario import RunSettings

CHUNK = 25
"""Number of plans in a piece of work."""
COARSE = 0.5
"""Length of a random plan's run, as a share of that of RLAS's plan."""
DRAWN = "A"
ELSEWHERE = 100
"""Largest number of random plans on the server that the paper's figure does not have."""


def against_rlas(workspace: Workspace, server: str, application: str, sockets: int = 8) -> Row:
    """Throughputs of an application's random plans over that of RLAS's plan."""
    case = Case(application, server, sockets)
    best = reached_per_s(workspace, case, plan_by(workspace, case, Rlas()))
    count = workspace.sizes.random_plans
    per_s = np.array(_simulated(workspace, case, count if server == DRAWN else min(count, ELSEWHERE)))
    luckiest = random_plan(case.job, workspace.seed, int(per_s.argmax()))
    return {
        "plans": len(per_s),
        "better": int((per_s > best).sum()),
        "median": float(np.median(per_s)) / best,
        "p95": float(np.quantile(per_s, 0.95)) / best,
        "best": float(per_s.max()) / best,
        "best_again": reached_per_s(workspace, case, luckiest) / best,
        "rlas_kps": best / 1e3,
        "_shares": sorted((per_s / best).tolist()),
    }


def random_plan(job: Deployment, seed: int, number: int) -> ExecutionPlan:
    """Random plan, which depends on the job, the seed and the number alone."""
    model = NumaJob(job)
    rng = random_stream(seed, f"briskstream.fig14/{number}")
    return model.plan_of(scattered(model, int(model.cores_l.sum()), rng))


def throughputs(job: Deployment, settings: RunSettings, first: int, last: int, seed: int) -> list[float]:
    """Results a second of the random plans from `first` to before `last`."""
    plans = (random_plan(job, seed, number) for number in range(first, last))
    return [simulated(job.with_plan(plan), settings, seed, 1) for plan in plans]


def _simulated(workspace: Workspace, case: Case, count: int) -> list[float]:
    settings = part(case.settings, COARSE)
    chunks = [{"first": first, "last": min(first + CHUNK, count)} for first in range(0, count, CHUNK)]
    decided = {**case.key, "settings": settings.model_dump(mode="json")}
    found = kept(
        workspace, "briskstream-random", throughputs, chunks, lambda: {"job": case.job, "settings": settings}, decided
    )
    return [per_s for chunk in found for per_s in chunk]


def shapes(rows: Rows) -> Rows:
    """Compares the best random plan with RLAS's."""
    better, best = sum(row["better"] for row in rows), max(row["best_again"] for row in rows)
    plans = sum(row["plans"] for row in rows)
    return [shape("random plans better than RLAS's", "none", f"{better} of {plans:,}; the best {best:.0%}", best < 1.0)]


FIG14 = Experiment(
    name="briskstream.fig14",
    source="BriskStream, Fig. 14, Section 6.4",
    summary="the distribution of random plans' throughput against RLAS",
    tables={
        "random": CaseTable(
            title="Throughput of random plans, simulated (one run each)",
            columns="""
                application | server | plans: random plans | better: better than RLAS | median: median, of RLAS |
                p95: 95 %, of RLAS | best: best, of RLAS | best_again: best, judged as RLAS is, of RLAS |
                rlas_kps: RLAS (K/s) | paper_better: paper: better than RLAS
            """,
            cases=EVERYWHERE,
            measure=against_rlas,
            published={DRAWN: {"paper_better": 0}},
            by=("server",),
            shapes=shapes,
        )
    },
    figures={
        f"server-{server.lower()}": samples(
            "charts.distributions",
            f"simulated throughput on Server {server}, RLAS = 1",
            name="application",
            of="_shares",
            only={"server": [server]},
            marked=1.0,
        )
        for server in SERVERS
    },
    notes=f"""
- Each random plan has as many subtasks as there are cores: one an operator, the others dealt at random; every subtask
  is on a random socket.
- The paper's figure is of one server, taken for Server A. Server B has at most {ELSEWHERE} random plans.
- A run of a random plan lasts half as long as RLAS's; the best plan is judged again as RLAS's is.
""",
)
