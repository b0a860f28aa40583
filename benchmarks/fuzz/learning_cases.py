"""Learning cases: checkpoints of cost models, loaded and asked; and datasets, read and split."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from flax import serialization

from benchmarks.fuzz.mutate import any_value, changed_bytes, changed_data, places
from benchmarks.fuzz.outcome import Outcome, of_call
from models import checkpoint, dataset, prediction
from models.checkpoint import Ensemble, coverage_of
from models.gnn import initial
from models.labels import Scaling
from models.settings import NetworkConfig
from tests.models.deployments import random_deployment
from tests.models.test_dataset import rows
from twin.trace import TRAINING_ROWS

CONFIG = NetworkConfig(hidden=4, outputs=1, features="costs")
JOBS = tuple(random_deployment(seed) for seed in range(20))


@cache
def ensemble() -> Ensemble:
    """Small untrained ensemble of networks."""
    seen = coverage_of(dataset.of_deployments(JOBS, np.ones((len(JOBS), 5))).graphs)
    members = tuple(initial(CONFIG, seed) for seed in range(2))
    curve = [{"seed": seed, "curve": [[20, 0.5, 0.4]]} for seed in range(2)]
    about = {"seed": 3, "seen": dict(seen), "rows": {"train": 16, "valid": 2, "test": 2}, "members": curve}
    return Ensemble(("throughput_per_s",), CONFIG, Scaling((1.0,), (2.0,)), members, {**about, "horizon_s": 240.0})


def checkpoint_case(random: Random, folder: Path) -> Outcome:
    """Loads a checkpoint with changed bytes, or with a changed part in the format of a version without checksums."""
    checkpoint.save(ensemble(), folder)
    (path,) = folder.glob("*.msgpack")
    whole = path.read_bytes()
    other = changed_bytes(whole, random) if random.random() < 0.4 else _changed_body(whole.partition(b"\n")[2], random)
    path.write_bytes(other)
    return of_call(lambda: _asked(folder, random))


def _changed_body(whole: bytes, random: Random) -> bytes:
    """Checkpoint's content with a change that its format can hold: of any part, or of an array."""
    while True:
        body = serialization.msgpack_restore(whole)
        if random.random() < 0.6:
            body = changed_data(body, random)
        else:
            node, key = random.choice([place for place in places(body) if isinstance(place[0][place[1]], np.ndarray)])
            leaf = node[key]
            node[key] = random.choice((leaf * np.nan, leaf[:1], leaf.astype(np.float64), any_value(random)))
        try:
            return serialization.msgpack_serialize(body)
        except (OverflowError, ValueError, TypeError):  # an integer of 65 bits, a key of a type of its own
            continue


def _asked(folder: Path, random: Random) -> None:
    model, job = prediction.load(folder), random.choice(JOBS)
    found = model.predict_plans(job, [job.plan])
    assert all(np.isfinite(each).all() for each in found.values.values()), "a prediction is not finite"


def dataset_case(random: Random, folder: Path) -> Outcome:
    """Reads training rows of which values, columns or bytes are changed."""
    table = pa.Table.from_pylist(rows(), schema=TRAINING_ROWS)
    way, path = random.randrange(4), folder / "rows.parquet"
    if way == 0:
        table = table.drop_columns([random.choice(table.column_names)])
    elif way == 1:
        at = random.randrange(table.num_columns)
        table = table.set_column(at, table.column_names[at], pa.array(_column(random, len(table))))
    elif way == 2:
        first, *others = table["deployment"].to_pylist()
        texts = [json.dumps(changed_data(json.loads(first), random), default=str), *others]
        table = table.set_column(table.column_names.index("deployment"), "deployment", pa.array(texts))
    pq.write_table(table, path, compression=random.choice(("zstd", "none")))
    if way == 3:
        path.write_bytes(changed_bytes(path.read_bytes(), random))
    return of_call(lambda: dataset.split(dataset.read(folder, workers=1), 0))


def _column(random: Random, count: int) -> list[Any]:
    values = [random.uniform(-1, 1) for _ in range(count)]
    return random.choice((values, *([value] * count for value in (float("nan"), 1e308, "word", b"\xff", None))))
