"""Training rows from Parquet as graphs and labels; splits by configuration; balanced test classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from models.facts import operator_facts
from models.flat_vector import flat_vector
from models.graph import GraphTable, concatenate, joint_graph, stack
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.metrics import METRICS, REGRESSION_METRICS
from twin.randomness import stream
from twin.trace import TRAINING_ROWS

CHUNK = 500
REMEDY = "make the dataset again with 'twin dataset CORPUS OUT'"
NEEDED = ("run", "config_hash", "deployment", *METRICS)


@dataclass(frozen=True)
class Dataset:
    """Rows of simulated runs. labels_Gx5: columns METRICS, NaN where a regression has no label (no success).
    flat_GxF: models.flat_vector of each row. config_hash: what a run is but for its seed."""

    graphs: GraphTable
    labels_Gx5: np.ndarray
    flat_GxF: np.ndarray
    config_hash: np.ndarray

    def __len__(self) -> int:
        return len(self.labels_Gx5)


class Split(NamedTuple):
    """Row indices; the same configuration is never in two parts."""

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray


def read(path: Path, progress: Callable[[int, int], None] | None = None) -> Dataset:
    """The rows of a dataset: a folder, or one Parquet file of schema twin.trace.TRAINING_ROWS.

    progress: called with rows done and rows in all. Raises BadInput if rows are missing, unreadable or incomplete.
    """
    columns = _columns(path)
    total = len(columns["run"])
    tables, flats = [], []
    for start in range(0, total, CHUNK):
        deployments = [
            _deployment(path, run, text)
            for run, text in zip(
                columns["run"][start : start + CHUNK], columns["deployment"][start : start + CHUNK], strict=True
            )
        ]
        graphs, vectors = _encoded(deployments)
        tables.append(graphs)
        flats += vectors
        if progress is not None:
            progress(min(start + CHUNK, total), total)
    return Dataset(concatenate(tables), _labels(path, columns), np.array(flats), np.array(columns["config_hash"]))


def of_deployments(
    deployments: Sequence[Deployment], labels_Gx5: np.ndarray, config_hash: Sequence[str] | None = None
) -> Dataset:
    """A dataset made in memory. Without hashes every row counts as a configuration of its own."""
    hashes = [str(index) for index in range(len(deployments))] if config_hash is None else config_hash
    graphs, vectors = _encoded(deployments)
    return Dataset(graphs, labels_Gx5, np.array(vectors), np.array(hashes))


def _encoded(deployments: Sequence[Deployment]) -> tuple[GraphTable, list[list[float]]]:
    facts = [operator_facts(each) for each in deployments]
    graphs = [joint_graph(each, its_facts) for each, its_facts in zip(deployments, facts, strict=True)]
    return stack(graphs), [flat_vector(its_facts) for its_facts in facts]


def _columns(path: Path) -> dict[str, list[object]]:
    files = [path] if path.is_file() else sorted(file for file in path.glob("**/*.parquet") if file.is_file())
    if not files:
        raise BadInput(f"{path}: no Parquet file of training rows there; {REMEDY}")
    tables = []
    for file in files:
        try:
            table = pq.ParquetFile(file).read()
        except (pa.ArrowException, OSError) as error:
            raise BadInput(f"{file} is not a readable Parquet file ({error}); {REMEDY}") from None
        missing = [name for name in NEEDED if name not in table.column_names]
        if missing:
            raise BadInput(f"{file} lacks the column {missing[0]!r} of training rows; {REMEDY}")
        tables.append(_typed(file, table.select(list(NEEDED))))
    columns: dict[str, list[object]] = pa.concat_tables(tables).to_pydict()
    if not columns["run"]:
        raise BadInput(f"{path} has no rows; no run of the corpus succeeded, or it is empty")
    return columns


def _typed(file: Path, table: pa.Table) -> pa.Table:
    try:
        return table.cast(pa.schema([TRAINING_ROWS.field(name).with_nullable(True) for name in NEEDED]))
    except (pa.ArrowException, ValueError) as error:
        raise BadInput(f"{file} has a column of another type than training rows ({error}); {REMEDY}") from None


def _deployment(path: Path, run: object, text: object) -> Deployment:
    try:
        return Deployment.model_validate_json(str(text))
    except ValidationError as error:
        problem = error.errors()[0]
        raise BadInput(f"{path}: the deployment of run {run!r} is not valid: {problem['msg']}; {REMEDY}") from None


def _labels(path: Path, columns: dict[str, list[object]]) -> np.ndarray:
    """NaN for regressions of unsuccessful runs, which have no latency. Raises BadInput for a label that must exist."""
    labels_Gx5 = np.array([columns[metric] for metric in METRICS], dtype=float).T
    success_G = labels_Gx5[:, METRICS.index("success")] == 1
    for m, metric in enumerate(METRICS):
        wrong_G = ~np.isfinite(labels_Gx5[:, m])
        if metric in REGRESSION_METRICS:
            wrong_G = (wrong_G | (labels_Gx5[:, m] < 0)) & success_G
            labels_Gx5[~success_G, m] = np.nan
        if wrong_G.any():
            row = int(wrong_G.argmax())
            value = columns[metric][row]
            raise BadInput(f"{path}: run {columns['run'][row]!r} has {metric} = {value}; drop that row, or {REMEDY}")
    return labels_Gx5


def split(dataset: Dataset, seed: int, valid: float = 0.1, test: float = 0.1) -> Split:
    """Random parts by configuration: 80/10/10 as in Costream. Replicates are in no part, but the first run of each.

    Raises BadInput if there are too few configurations.
    """
    configs, first = np.unique(dataset.config_hash, return_index=True)
    counts = [int(np.ceil(len(configs) * share)) if share else 0 for share in (valid, test)]
    if len(configs) - sum(counts) < 1 or len(configs) < 3:
        raise BadInput(f"the dataset has {len(configs)} configurations, too few to split; simulate at least 10")
    order = stream(seed, "split").permutation(len(configs))
    valid_end, test_end = counts[0], sum(counts)
    return Split(
        train=np.sort(first[order[test_end:]]),
        valid=np.sort(first[order[:valid_end]]),
        test=np.sort(first[order[valid_end:test_end]]),
    )


def balanced(rows: np.ndarray, yes_no: np.ndarray, seed: int) -> np.ndarray:
    """As many of `rows` of either class, dropping random ones of the larger; empty if one class is missing.
    yes_no: the label of each of `rows`."""
    kept = [rows[yes_no == value] for value in (0, 1)]
    size = min(len(part) for part in kept)
    rng = stream(seed, "balance")
    return np.sort(np.concatenate([rng.permutation(part)[:size] for part in kept]))
