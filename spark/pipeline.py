"""Reading and writing of tables in the pipeline: a corpus in, a dataset out."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pydantic import ValidationError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from spark.aggregate import labels, training_rows
from spark.jobs import run_job
from twin.atomic import new_folder, write_text
from twin.checksums import seal
from twin.corpus.card import card
from twin.corpus.card_text import card_text
from twin.corpus.chunk import Chunk
from twin.corpus.chunks import CARD, cut, finished, require_whole
from twin.corpus.manifest import CHUNKS, MANIFEST, content_hash, read_manifest, write_json
from twin.corpus.rows import first_fault
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.metrics import METRICS
from twin.trace import TABLES, read_table
from twin.version import VERSION

ROWS = "rows.parquet"
CARD_COLUMNS = ["run", "status", "error", "cpu_s", "deployment"]
TABLES_READ = ("runs", "operators")
CHECKED = ["index", "warmup_s", "horizon_s", *METRICS, "deployment"]
LOOK_S, LOOKS = 0.1, 10
"""Seconds between looks, and number of looks, for a folder that was removed while Spark's tasks were ending."""


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """Summary of a dataset. runs: read from the corpus, = rows written + failed."""

    runs: int
    rows: int
    failed: int


def write_dataset(spark: SparkSession, corpus: Path, folder: Path) -> DatasetSummary:
    """Aggregates a corpus to training rows: FOLDER/rows.parquet, in the order of the index, and FOLDER/manifest.json.

    The folder appears whole or not at all. With executors on other machines both folders must be on storage that they
    share. Raises BadInput if `corpus` is none, is incomplete or holds a damaged file; if nothing in it succeeded; or if
    `folder` exists.
    """
    corpus, folder = corpus.absolute(), folder.absolute()
    runs = check_dataset(corpus, folder)
    rows = training_rows(*(read_corpus_table(spark, corpus, table) for table in TABLES_READ))
    with _made_aside(folder) as made:
        run_job(spark, lambda: rows.sort("index").write.parquet(_uri(made / ROWS)))
        count = _check_rows(made / ROWS, corpus)
        summary = DatasetSummary(runs=runs, rows=count, failed=runs - count)
        write_json(made / MANIFEST, _manifest(read_manifest(corpus), summary))
        parts = sorted(part.relative_to(made).as_posix() for part in made.rglob("*.parquet") if part.is_file())
        seal(made, [*parts, MANIFEST])
    return summary


def write_card(spark: SparkSession, corpus: Path, command: str) -> Path:
    """Describes a complete corpus in CORPUS/card.json and, for readers, in CORPUS/card.md; returns the latter.

    command: the one that made the corpus, as users write it. Raises BadInput if the corpus is incomplete or damaged.
    """
    corpus = corpus.absolute()
    manifest = read_manifest(corpus)
    chunks = _chunks(corpus, manifest)
    require_whole(corpus, chunks)
    folders = [corpus / CHUNKS / chunk.name for chunk in chunks]
    tables = (read_corpus_table(spark, corpus, table) for table in TABLES_READ)
    labelled = run_job(spark, labels(*tables).collect)
    runs = (row for each in folders for row in read_table(each, "runs").select(CARD_COLUMNS).to_pylist())
    found = card({"command": command, **manifest}, runs, (row.asDict() for row in labelled))
    write_json(corpus / f"{CARD}.json", found)
    write_text(corpus / f"{CARD}.md", card_text(found))
    return corpus / f"{CARD}.md"


def check_dataset(corpus: Path, folder: Path) -> int:
    """Number of runs that a dataset would come from; needs no Spark, so it can be checked before one starts.

    Raises BadInput as `write_dataset` does.
    """
    chunks = _chunks(corpus, read_manifest(corpus))
    if folder.exists():
        raise BadInput(f"{folder} exists; remove it or name another folder")
    require_whole(corpus, chunks)
    _check_schemas(corpus, chunks)
    return sum(chunk.runs for chunk in chunks)


def read_corpus_table(spark: SparkSession, corpus: Path, table: str) -> DataFrame:
    """Reads one table of all finished chunks, with the schema of twin.trace."""
    schema = from_arrow_schema(TABLES[table])
    reader = spark.read.schema(schema).option("recursiveFileLookup", True)
    escaped = re.sub(r"([\[\]{}*?\\])", r"\\\1", _uri(corpus / CHUNKS))  # a path here is a pattern
    return reader.option("pathGlobFilter", f"{table}.parquet").parquet(escaped)


def _chunks(corpus: Path, manifest: dict[str, Any]) -> list[Chunk]:
    expected = cut(manifest["runs"], manifest["chunk_runs"])
    done = sorted(finished(corpus, expected), key=lambda chunk: chunk.number)
    runs = sum(chunk.runs for chunk in done)
    if runs < manifest["runs"]:
        raise BadInput(f"{corpus} holds {runs} of its {manifest['runs']} runs; repeat the command that began it")
    return done


def _check_schemas(corpus: Path, chunks: list[Chunk]) -> None:
    """Raises BadInput for a file of an older version's schema: Spark would fill columns that it lacks with nulls."""
    for chunk in chunks:
        for table in TABLES_READ:
            file = corpus / CHUNKS / chunk.name / f"{table}.parquet"
            if not pq.read_schema(file).equals(TABLES[table]):
                raise BadInput(f"{file} has another schema than this version reads; simulate {corpus} again")


@contextmanager
def _made_aside(folder: Path) -> Iterator[Path]:
    """Folder to write to, which becomes `folder` if all goes well and vanishes if not."""
    made: Path | None = None
    try:
        with new_folder(folder) as made:
            yield made
            for left in [*made.rglob(".*.crc"), *made.rglob("_SUCCESS")]:
                left.unlink()
    except OSError as error:
        raise BadInput(f"cannot write to {folder.parent} ({error.strerror}); name another folder") from None
    finally:
        if made is not None:
            _remove_for_good(made)


def _remove_for_good(folder: Path) -> None:
    """Removes a folder, and again for a moment: a task of a cancelled job may still be writing, and make it anew."""
    for _ in range(LOOKS if folder.exists() else 0):
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(LOOK_S)


def _check_rows(written: Path, corpus: Path) -> int:
    """Number of rows. Raises BadInput if there are none, or one that no model could learn from."""
    rows = pq.read_table(written, columns=CHECKED)
    if not len(rows):
        raise BadInput(f"no run of {corpus} succeeded; see the column 'error' of its runs.parquet files")
    if empty := rows["throughput_per_s"].null_count:
        raise BadInput(f"{empty} runs of {corpus} have no period after their warm-up; simulate again")
    columns = rows.to_pydict()
    if fault := first_fault(columns):
        row, words = fault
        raise BadInput(f"run {columns['index'][row]} of {corpus} has {words}, which no run has; simulate again")
    for index, deployment in zip(columns["index"], columns["deployment"], strict=True):
        try:
            Deployment.model_validate_json(deployment)
        except ValidationError as error:
            words = error.errors()[0]["msg"]
            raise BadInput(f"run {index} of {corpus} has no valid deployment ({words}); simulate again") from None
    return len(rows)


def _manifest(corpus: dict[str, Any], summary: DatasetSummary) -> dict[str, Any]:
    counts = {"runs": summary.runs, "rows": summary.rows, "failed": summary.failed}
    return {"version": VERSION, "corpus": corpus, "corpus_hash": content_hash(corpus), **counts}


def _uri(path: Path) -> str:
    return f"file:{path}"
