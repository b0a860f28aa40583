"""Datasets: training rows from Parquet as inputs of models and labels; splits by configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from models import encoding
from models.encoding import Encoded, Progress, Reprofiled, Text, encode, encode_texts
from models.graph import GraphTable
from models.labels import LEAST
from twin.corpus.rows import first_fault
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.files import SUMS, TABLE_SUMS, digest, sums
from twin.metrics import BINARY_METRICS, ESTIMATED, FURTHER, METRICS
from twin.randomness import random_stream
from twin.rates.channels import MeasuredSpan
from twin.rates.model import RateModel
from twin.trace import TRAINING_ROWS
from twin.words import meant

REMEDY = "make the dataset again with 'twin dataset CORPUS OUT'"
MEASURED = "measured"
"""Column that is true for rows of real runs, of which some metrics may be unknown. Absent: simulated."""
CHECKPOINTS_COLUMN = "checkpoints"
"""Column of the checkpoints of runs, as JSON. Absent: none that cost anything, as in rows of older versions."""
COLUMNS = {name: re.sub(r"_s\.(p\d+)$", r"_\1_s", name) for name in FURTHER}
"""Columns of metrics beyond METRICS, by metric; in rows of older versions, or of real runs, they may be absent."""
OPTIONAL = {MEASURED: pa.bool_(), CHECKPOINTS_COLUMN: pa.string(), **dict.fromkeys(COLUMNS.values(), pa.float64())}
"""Columns that may be absent, with their types."""
FEWEST = 30
"""Rows with a label from which on a metric beyond METRICS is learned."""
NEEDED = ("run", "config_hash", "horizon_s", "warmup_s", "deployment", *METRICS, "records_out")


@dataclass(frozen=True)
class Dataset:
    """Rows of simulated runs. labels_GxA: columns ESTIMATED, NaN where a regression has no label (no success).
    config_hash: [G] equal for runs that differ in seed only. records_out, horizon_s: [G] results and length of each."""

    encoded: Encoded
    labels_GxA: np.ndarray
    config_hash: np.ndarray
    records_out: np.ndarray
    horizon_s: np.ndarray

    def __len__(self) -> int:
        return len(self.labels_GxA)

    def take(self, rows: np.ndarray) -> Dataset:
        """Dataset of some of the rows (indices), in that order."""
        return Dataset(
            self.encoded.take(rows),
            self.labels_GxA[rows],
            self.config_hash[rows],
            self.records_out[rows],
            self.horizon_s[rows],
        )

    @property
    def graphs(self) -> GraphTable:
        """Joint graph of each row."""
        return self.encoded.graphs

    @property
    def flat_GxF(self) -> np.ndarray:
        """[G, F] flat vector (models.vectors) of each row."""
        return self.encoded.flat_GxF

    @property
    def derived_GxD(self) -> np.ndarray:
        """[G, D] derived vector (models.vectors) of each row."""
        return self.encoded.derived_GxD

    def label_G(self, metric: str) -> np.ndarray:
        """[G] one of ESTIMATED as it was simulated."""
        return np.asarray(self.labels_GxA[:, ESTIMATED.index(metric)])

    def rates_G(self, metric: str) -> np.ndarray:
        """[G] one of ESTIMATED as the rate model predicts it; of a quantile, the mean."""
        return np.asarray(self.rates_GxA[:, ESTIMATED.index(metric)])

    @property
    def rates_GxA(self) -> np.ndarray:
        """[G, A] the rate model's predictions for each row, in the order of ESTIMATED."""
        return self.encoded.graphs.rates_GxA

    @property
    def about(self) -> Mapping[str, np.ndarray]:
        """[G] each: models.vectors.ABOUT of each row, and `records_out`."""
        return {**self.encoded.about, "records_out": self.records_out}


class RowSplit(NamedTuple):
    """Row indices of three parts; the same configuration is never in two parts."""

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray


def read(
    path: Path, progress: Progress | None = None, workers: int | None = None, reprofiled: Reprofiled | None = None
) -> Dataset:
    """Reads a dataset: a folder, or one Parquet file of schema twin.trace.TRAINING_ROWS.

    A folder's encoding is taken from the file that `encoding.write` left there, if there is one of today's code.
    progress: called with rows done and rows in all. reprofiled: other constants under which models see the deployments.
    Raises BadInput if rows are missing, unreadable or incomplete.
    """
    return _encoded(path, _columns(path), progress, workers, reprofiled)


def _encoded(
    path: Path,
    columns: Mapping[str, Sequence[Any]],
    progress: Progress | None,
    workers: int | None,
    reprofiled: Reprofiled | None,
) -> Dataset:
    _require_sound(path, columns)
    hashes, labels_GxA = np.array(columns["config_hash"]), _labels(columns)
    measured = [MeasuredSpan(*each) for each in zip(columns["warmup_s"], columns["horizon_s"], strict=True)]
    encoded = encoding.read(path, hashes, reprofiled) if path.is_dir() else None
    if encoded is None:
        texts = [
            Text(str(run), str(text), span, checkpoints)
            for run, text, span, checkpoints in zip(
                columns["run"], columns["deployment"], measured, columns[CHECKPOINTS_COLUMN], strict=True
            )
        ]
        encoded = encode_texts(texts, progress, workers, reprofiled)
    horizons_s = np.array([span.end_s for span in measured])
    return Dataset(encoded, labels_GxA, hashes, np.array(columns["records_out"], dtype=float), horizons_s)


def of_deployments(
    deployments: Sequence[Deployment],
    labels_GxA: np.ndarray,
    config_hash: Sequence[str] | None = None,
) -> Dataset:
    """Dataset made in memory, with run lengths of the scenarios, or the usual one for plain deployments. Without hashes
    every row counts as a configuration of its own. The number of results follows from the throughput. labels_GxA:
    columns METRICS, or all of ESTIMATED."""
    unknown_GxA = np.full((len(labels_GxA), len(ESTIMATED) - labels_GxA.shape[1]), np.nan)
    labels_GxA = np.concatenate([labels_GxA, unknown_GxA], axis=1)
    hashes = [str(index) for index in range(len(deployments))] if config_hash is None else config_hash
    measured = [RateModel().measured(each) for each in deployments]
    lengths_s, horizons_s = (np.array([getattr(span, name) for span in measured]) for name in ("length_s", "end_s"))
    records_out = np.nan_to_num(labels_GxA[:, METRICS.index("throughput_per_s")]) * lengths_s
    return Dataset(encode(deployments, measured), labels_GxA, np.array(hashes), records_out, horizons_s)


def join(first: Dataset, second: Dataset) -> Dataset:
    """Dataset of the rows of both, in order."""
    columns = ("labels_GxA", "config_hash", "records_out", "horizon_s")
    return Dataset(
        encoding.join([first.encoded, second.encoded]),
        *(np.concatenate([getattr(first, name), getattr(second, name)]) for name in columns),
    )


def _columns(path: Path) -> dict[str, list[Any]]:
    files = [path] if path.is_file() else sorted(file for file in path.glob("**/*.parquet") if file.is_file())
    if not files:
        raise BadInput(f"{path}: no Parquet file of training rows there; {REMEDY}")
    for name in (SUMS, TABLE_SUMS):
        for sealed in path.glob(f"**/{name}"):
            _require_whole(sealed.parent)
    tables = []
    for file in files:
        try:
            table = pq.ParquetFile(file).read()
        except (pa.ArrowException, OSError) as error:
            raise BadInput(f"{file} is not a readable Parquet file ({error}); {REMEDY}") from None
        table = table.rename_columns([meant(name, NEEDED) for name in table.column_names])
        missing = [name for name in NEEDED if name not in table.column_names]
        if missing:
            raise BadInput(f"{file} lacks the column {missing[0]!r} of training rows; {REMEDY}")
        tables.append(_typed(file, table))
    try:
        columns: dict[str, list[Any]] = pa.concat_tables(tables).to_pydict()
    except UnicodeDecodeError:
        raise BadInput(f"{path} holds text that is not UTF-8; {REMEDY}") from None
    if not columns["run"]:
        raise BadInput(f"{path} has no rows; no run of the corpus succeeded, or it is empty")
    return columns


def _require_whole(folder: Path) -> None:
    """Raises BadInput if a file in a folder with checksums is missing, another one, or not as it was written."""
    known = sums(folder) or {}
    files = {file.relative_to(folder).as_posix() for file in folder.glob("**/*.parquet") if file.is_file()}
    for name in sorted(files | known.keys()):
        if not (folder / name).is_file() or known.get(name) != digest(folder / name):
            raise BadInput(f"{folder / name} is not as it was written; {REMEDY}")


def _typed(file: Path, table: pa.Table) -> pa.Table:
    """The columns that are needed, and those that may be absent, which are then empty."""
    for name in OPTIONAL.keys() - set(table.column_names):
        table = table.append_column(name, pa.nulls(len(table)))
    schema = pa.schema([*(TRAINING_ROWS.field(name).with_nullable(True) for name in NEEDED), *OPTIONAL.items()])
    try:
        return table.select(schema.names).cast(schema)
    except (pa.ArrowException, ValueError) as error:
        raise BadInput(f"{file} has a column of another type than training rows ({error}); {REMEDY}") from None


def _require_sound(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Raises BadInput for a run of which nothing is measured, or a label that must exist."""
    if fault := first_fault(columns, np.array([bool(each) for each in columns[MEASURED]])):
        row, words = fault
        raise BadInput(f"{path}: run {columns['run'][row]!r} has {words}; drop that row, or {REMEDY}")


def _labels(columns: Mapping[str, Sequence[Any]]) -> np.ndarray:
    """Labels [G, A], NaN for regressions of unsuccessful runs, which have no latency, and for unmeasured ones of real
    runs."""
    labels_GxA = np.array([columns[COLUMNS.get(metric, metric)] for metric in ESTIMATED], dtype=float).T
    for metric, least in LEAST.items():
        labels_GxA[:, ESTIMATED.index(metric)] = np.maximum(labels_GxA[:, ESTIMATED.index(metric)], least)
    failed_G = labels_GxA[:, METRICS.index("success")] != 1
    labels_GxA[np.ix_(failed_G, [metric not in BINARY_METRICS for metric in ESTIMATED])] = np.nan
    return labels_GxA


def learnable(dataset: Dataset, rows: np.ndarray) -> tuple[str, ...]:
    """METRICS, and what else enough of these rows have a label of."""
    known = [metric for metric in FURTHER if (~np.isnan(dataset.label_G(metric)[rows])).sum() >= FEWEST]
    return (*METRICS, *known)


def split(dataset: Dataset, seed: int, valid: float = 0.1, test: float = 0.1) -> RowSplit:
    """Splits a dataset at random by configuration: 80/10/10 as in Costream. Of replicates, only the first run is in a
    part.

    Raises BadInput if there are too few configurations.
    """
    configs, first = np.unique(dataset.config_hash, return_index=True)
    counts = [int(np.ceil(len(configs) * share)) if share else 0 for share in (valid, test)]
    if len(configs) - sum(counts) < 1 or len(configs) < 3:
        raise BadInput(f"the dataset has {len(configs)} configurations, too few to split; simulate at least 10")
    order = random_stream(seed, "split").permutation(len(configs))
    valid_end, test_end = counts[0], sum(counts)
    return RowSplit(
        train=np.sort(first[order[test_end:]]),
        valid=np.sort(first[order[:valid_end]]),
        test=np.sort(first[order[valid_end:test_end]]),
    )
