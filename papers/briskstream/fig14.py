"""BriskStream, Fig. 14: random replication and placement against RLAS's plan."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from optimizers.numa.baselines import scattered
from optimizers.registry import optimizer_by_name
from papers.briskstream import against
from papers.briskstream.applications import (
    APPLICATIONS,
    SERVERS,
    Case,
    judged,
    part,
    plan_of,
    planned,
    simulated,
)
from papers.interface import Experiment, Result, Table
from papers.parallel import Piece, kept
from papers.shapes import against as compared
from papers.sizes import Sizes
from papers.workspace import Workspace
from twin.deployment import Deployment
from twin.plan import ExecutionPlan
from twin.randomness import stream
from twin.rates.numa_job import NumaJob
from twin.scenario import RunSettings

CHUNK = 25
"""Plans a piece of work."""
COARSE = 0.5
"""Of a run of RLAS's plan, for random ones."""

COLUMNS = {
    "application": "application",
    "server": "server",
    "plans": "random plans",
    "better": "better than RLAS",
    "median": "median, of RLAS",
    "p95": "95 %, of RLAS",
    "best": "best, of RLAS",
    "best_again": "best, judged as RLAS is, of RLAS",
    "rlas_kps": "RLAS (K/s)",
    "paper_better": "paper: better than RLAS",
}


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """All applications on both servers."""
    shares: dict[str, dict[str, list[float]]] = {server: {} for server in SERVERS}
    rows = list[dict[str, Any]]()
    for server, application in itertools.product(SERVERS, APPLICATIONS):
        case = Case(application, server)
        plan = plan_of(planned(workspace, case, optimizer_by_name("rlas")))
        best = judged(workspace, case, plan)["throughput_per_s"]
        per_s = np.array(_simulated(workspace, case, sizes.random_plans))
        luckiest = random_plan(case.job, workspace.seed, int(per_s.argmax()))
        again = judged(workspace, case, luckiest)["throughput_per_s"]
        shares[server][application] = sorted((per_s / best).tolist())
        rows.append(
            {
                "application": application,
                "server": server,
                "plans": len(per_s),
                "better": int((per_s > best).sum()),
                "median": float(np.median(per_s)) / best,
                "p95": float(np.quantile(per_s, 0.95)) / best,
                "best": float(per_s.max()) / best,
                "best_again": again / best,
                "rlas_kps": best / 1e3,
                "paper_better": 0 if server == "A" else None,
            }
        )
    figures: dict[str, Callable[[], Any]] = {
        f"server-{name.lower()}": partial(_drawn, each, name) for name, each in shares.items()
    }
    title = "Throughput of random plans, simulated (one run each)"
    notes = (
        (
            "Each random plan has as many replicas as there are cores: one an operator, the others dealt at random; "
            "every replica is on a random socket."
        ),
        "A run of a random plan lasts half as long as RLAS's; the best plan is judged again as RLAS's is.",
    )
    tables = {"random": Table(title, COLUMNS, tuple(rows)), "against": compared(against.fig14(rows))}
    return Result(tables, figures, notes)


def random_plan(job: Deployment, seed: int, number: int) -> ExecutionPlan:
    """The same for the same job, seed and number."""
    model = NumaJob(job)
    rng = stream(seed, f"briskstream.fig14/{number}")
    return model.plan_of(scattered(model, int(model.cores_l.sum()), rng))


def throughputs(job: Deployment, settings: RunSettings, seed: int, numbers: Sequence[int]) -> list[float]:
    """Of some random plans, results a second. A plain function of plain arguments, for other processes."""
    plans = (random_plan(job, seed, number) for number in numbers)
    return [simulated(job.with_plan(plan), settings, seed, 1)["throughput_per_s"] for plan in plans]


def _simulated(workspace: Workspace, case: Case, count: int) -> list[float]:
    job, settings = case.job, part(case.settings, COARSE)
    pieces = [
        _piece(case, job, settings, workspace.seed, range(first, min(first + CHUNK, count)))
        for first in range(0, count, CHUNK)
    ]
    return [each for piece in kept(workspace, "briskstream-random", throughputs, pieces) for each in piece]


def _piece(case: Case, job: Deployment, settings: RunSettings, seed: int, numbers: range) -> Piece:
    key = {**case.key, "settings": settings.model_dump(mode="json"), "first": numbers.start, "last": numbers.stop}
    return Piece(key, lambda: (job, settings, seed, list(numbers)))


def _drawn(shares: Mapping[str, Sequence[float]], server: str) -> Any:
    from figures.distributions import distributions

    return distributions(shares, f"simulated throughput on Server {server}, RLAS = 1", marked=1.0)


FIG14 = Experiment(
    name="briskstream.fig14",
    source="BriskStream, Fig. 14, Section 6.4",
    summary="the distribution of random plans' throughput against RLAS",
    run=run,
)
