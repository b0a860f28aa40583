"""Command `twin improve`: a cost model chooses plans to simulate, learns from them, and is judged on unseen jobs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamtwin.cli.asking import Answering
from streamtwin.cli.learning import model_of
from streamtwin.cli.terminal import Seed

if TYPE_CHECKING:
    from models.dataset import Dataset, RowSplit
    from models.prediction import LearnedCostModel


@dataclass(frozen=True)
class Improving(Answering):
    """Options of every question, where --out has a default: there is always a folder."""

    out: Annotated[Path, typer.Option(metavar="DIR", help="Keep runs, models, table and figure; resume there.")] = Path(
        "improved"
    )


def improve(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A folder that `twin train` wrote, or `learned`: the shipped one.")
    ],
    on: Annotated[str, typer.Option(metavar="FAMILY", help="A family of `twin list`, or a scenario, which is varied.")],
    answering: Improving,
    rounds: Annotated[int, typer.Option(min=1, metavar="K", help="Rounds of choosing, simulating and learning.")] = 3,
    by: Annotated[
        str, typer.Option(metavar="NAME", help="Which plans are simulated: active, disputed, favoured, random.")
    ] = "active",
    against: Annotated[
        str | None, typer.Option(metavar="NAME", help="A second way to compare with, such as random.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="New jobs of each round.")] = 8,
    runs: Annotated[int, typer.Option(min=1, metavar="N", help="Runs of each new job.")] = 6,
    pool: Annotated[int, typer.Option(min=1, metavar="N", help="Candidate plans of each job.")] = 200,
    judges: Annotated[int, typer.Option(min=1, metavar="N", help="Jobs that the model is tested on.")] = 8,
    plans: Annotated[int, typer.Option(min=2, metavar="N", help="Simulated plans of each test job.")] = 30,
    rehearse: Annotated[
        Path | None, typer.Option(metavar="OLD", help="The dataset of MODEL, so that it forgets less.")
    ] = None,
    seed: Seed = 0,
) -> None:
    """Active learning: simulates where the ensemble disagrees and where optimizers go, learns on, and does so again.

    Regret and errors are over jobs that no round learns from, whose plans are all simulated. The model after each
    round is in DIR/models; interrupted, the same command goes on.

    Examples: `twin improve model --on edge-linear --against random` ·
    `twin improve learned --on my-job.yaml --rounds 5 --out improved-job` ·
    `twin optimize my-job.yaml --cost-model improved-job/models/active-5`
    """
    terminal, out = answering.terminal, answering.out
    from scenarios.improving.choosing import strategy
    from scenarios.improving.history import ModelImproved, history, require_ensemble
    from scenarios.improving.pool import job_pool
    from scenarios.improving.rounds import LearningPlan
    from streamtwin.answers.improvement import told
    from twin.errors import BadInput

    strategies = list(dict.fromkeys([by, *([against] if against is not None else [])]))
    for option, name in zip(("--by", "--against"), strategies, strict=False):
        strategy(name, option)
    if runs > pool:
        raise BadInput(f"--runs {runs} of a job cannot be chosen from --pool {pool} plans; give a larger pool")
    start = model_of(model)
    require_ensemble(start)
    old = None if rehearse is None else _rehearsed(start, rehearse)
    where = job_pool(on, seed)
    if judges > where.most:
        raise BadInput(f"--judges {judges}: {on} has {where.most} jobs to judge on; give no more")
    asked: dict[str, Any] = {"command": "improve", "model": model, "weights": _weights(start), "on": on, "seed": seed}
    asked |= {
        "jobs": jobs,
        "runs": runs,
        "pool": pool,
        "judges": judges,
        "plans": plans,
        "rehearse": None if rehearse is None else str(rehearse),
    }
    with answering.bench(keeps="the finished runs and models") as made:
        answering.keep(made, {name: None if value is None else str(value) for name, value in asked.items()})
        rows, words = history(
            start,
            where,
            strategies,
            rounds,
            LearningPlan(jobs, runs, pool, seed, old),
            (judges, plans),
            made,
            out,
            terminal,
        )
    answer = ModelImproved(**asked, rounds=rounds, rows=rows, compared=words)
    answering.answered(answer, told)


def _rehearsed(model: LearnedCostModel, rows: Path) -> tuple[Dataset, RowSplit]:
    from scenarios.learning import learner

    old = learner.rows_of(rows)
    return old, learner.training_split(model, old)


def _weights(model: LearnedCostModel) -> str:
    """Hash (12 hex digits) of all weights of the networks."""
    import hashlib

    import jax
    import numpy as np

    digest = hashlib.sha256()
    for leaf in jax.tree.leaves([ensemble.members for ensemble in model.ensembles]):
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()[:12]
