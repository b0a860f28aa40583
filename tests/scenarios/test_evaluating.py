"""A model is judged on the rows that it knows, and the others are named and counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from models import checkpoint, shipped
from models.checkpoint import found_in, unseen, unseen_rows
from models.dataset import of_deployments, read
from models.job_columns import job_columns
from models.prediction import LearnedCostModel
from scenarios.files.scenario_file import load
from scenarios.learning import evaluate
from tests.commands import answer, refused, twin
from tests.models.deployments import random_deployment
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.rates.model import RateModel
from twin.trace import TRAINING_ROWS

FURTHER = "enrichment"
"""A job with kinds that a model may not know."""


def row(number: int, deployment: Deployment) -> dict[str, Any]:
    found = RateModel().predict(deployment, [deployment.plan])
    costs = {name: float(found[name][0]) for name in ("throughput_per_s", "processing_latency_s", "e2e_latency_s")}
    return {
        "run": f"run{number}",
        "index": number,
        "seed": number,
        "config_hash": f"config{number}",
        "horizon_s": 240.0,
        "warmup_s": 0.0,
        "deployment": deployment.model_dump_json(exclude_none=True),
        **costs,
        "backpressure_per_s": 0.0,
        "backpressured": number % 2 == 0,
        "success": True,
        "records_out": 100,
    }


SEEDS = (0, 1, 2, 3, 4, None, 5, 6, 7, None, None)
"""Seeds of the jobs in `mixed`; None: of further kinds."""


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of eight jobs that a model may know, and of three of further kinds."""
    folder = tmp_path_factory.mktemp("mixed")
    known = [random_deployment(seed) for seed in range(8)]
    further = load(FURTHER).deployment
    jobs = [further if seed is None else known[seed] for seed in SEEDS]
    table = pa.Table.from_pylist([row(*each) for each in enumerate(jobs)], schema=TRAINING_ROWS)
    pq.write_table(table, folder / "rows.parquet")
    return folder


def without(model: LearnedCostModel, *names: str) -> LearnedCostModel:
    """Model as if it had been trained without these kinds and words."""
    cut = []
    for each in model.ensembles:
        seen = {name: count for name, count in (each.seen or {}).items() if name not in names}
        cut.append(replace(each, manifest={**each.manifest, "seen": seen}))
    return replace(model, ensembles=tuple(cut))


UNKNOWN = {each.kind for each in load(FURTHER).query.operators} - {"sink", "map"}


def narrow_model() -> LearnedCostModel:
    """The shipped model, as if it had never seen the further kinds."""
    return without(shipped.model(), *UNKNOWN)


def test_rows_of_kinds_that_the_model_never_saw_are_left_out_and_named(mixed: Path, tmp_path: Path) -> None:
    for ensemble in narrow_model().ensembles:
        checkpoint.save(ensemble, tmp_path)
    document = answer("evaluate", tmp_path, mixed, "--all")
    unknown = UNKNOWN
    assert (document["runs"], document["left_out"]) == (8, 3)
    assert document["unknown"] == dict.fromkeys(unknown, 3)
    told = twin("evaluate", tmp_path, mixed, "--all")
    assert told.returncode == 0
    assert f"3 rows are left out, as {tmp_path.name} never saw in training: " in told.stderr
    assert all(f"{kind} (3 rows)" in told.stderr for kind in unknown)


def test_rows_that_are_left_out_count_in_no_error(mixed: Path) -> None:
    model = narrow_model()
    dataset = read(mixed)
    whole = evaluate(model, dataset, every_row=True, seed=0)
    narrow = without(model, "join")
    has_join = np.array(["join" in job_columns(random_deployment(seed)).kinds for seed in range(8)])
    assert 0 < has_join.sum() < 8
    part = evaluate(narrow, dataset, every_row=True, seed=0)
    rows = [row for row, seed in enumerate(SEEDS) if seed is not None and not has_join[seed]]
    alone = evaluate(model, dataset.take(np.array(rows)), every_row=True, seed=0)
    assert (part.rows, part.runs) == (alone.rows, alone.runs)
    assert part.left_out == whole.left_out + has_join.sum() and part.unknown["join"] == has_join.sum()
    assert part.runs + part.left_out == whole.runs + whole.left_out == 11


@pytest.mark.parametrize("begun", ["filter function", "join", "aggregate", "nothing"])
def test_what_is_unknown_of_a_row_is_what_optimizers_are_refused_for(begun: str) -> None:
    """Tables of graphs tell of each row what a job's own columns tell."""
    jobs = [random_deployment(seed) for seed in range(8)]
    has = [name for each in jobs for name in sorted(found_in(job_columns(each))) if name.startswith(begun)]
    cut = tuple(has[:1])
    seen = without(shipped.model(), *cut).ensembles[0].seen
    found = unseen_rows(seen, of_deployments(jobs, np.ones((8, 5))).graphs)
    assert set(found) == set(cut)
    for number, job in enumerate(jobs):
        names = {name for name, rows in found.items() if number in rows}
        missing = unseen(seen, found_in(job_columns(job)))
        kinds = {name for name in missing if " " not in name}
        assert names == kinds | {name for name in missing if name.partition(" ")[0] not in kinds}


def test_a_model_that_knows_no_row_says_so(mixed: Path, tmp_path: Path) -> None:
    dataset = read(mixed)
    with pytest.raises(BadInput, match=r"knows none of 11 rows: it never saw .*sink \(11 rows\).*train it on runs"):
        evaluate(without(narrow_model(), "sink"), dataset, every_row=True, seed=0)
    further = [row(number, load(FURTHER).deployment) for number in range(3)]
    pq.write_table(pa.Table.from_pylist(further, schema=TRAINING_ROWS), tmp_path / "rows.parquet")
    for ensemble in narrow_model().ensembles:
        checkpoint.save(ensemble, tmp_path / "model")
    assert "knows none of 3 rows: it never saw" in refused("evaluate", tmp_path / "model", tmp_path, "--all")
