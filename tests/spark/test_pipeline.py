"""Tests of the way from a corpus to a dataset on disk: whole or not at all, and each obstacle named in one line."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark.corpus import write_corpus
from spark.pipeline import check_dataset, write_dataset
from tests.spark.fakes import Broken, make
from twin.corpus.manifest import CorpusSpec, content_hash, read_manifest
from twin.errors import BadInput
from twin.files import SUMS, TABLE_SUMS
from twin.trace import LATER, OPERATORS, TRAINING_ROWS

pytestmark = pytest.mark.spark

RUNS = 7


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Corpus of seven runs in chunks of two; run 3 failed. Its folder's name is also a pattern."""
    corpus = tmp_path_factory.mktemp("made") / "a [b] {c,d} 50% *"
    broken = Broken(raising=frozenset({3}))
    write_corpus(spark, corpus, CorpusSpec(runs=RUNS, seed=7, space="fake"), make, broken, chunk_runs=2)
    return corpus


@pytest.fixture
def corpus(made: Path, tmp_path: Path) -> Path:
    """Copy of the corpus to damage."""
    return Path(shutil.copytree(made, tmp_path / "corpus"))


def operators_of(corpus: Path, chunk: int) -> Path:
    return corpus / "chunks" / f"chunk-{chunk:06d}" / "operators.parquet"


def sum_again(path: Path) -> None:
    """Writes the file's checksum, as if it had been written so."""
    sums = path.with_name(SUMS)
    kept = [line for line in sums.read_text().splitlines() if not line.endswith(path.name)]
    mended = f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}"
    sums.write_text("\n".join([*kept, mended]) + "\n")


def test_a_dataset_holds_every_successful_run_in_order_and_says_where_it_is_from(
    spark: SparkSession, made: Path, tmp_path: Path
) -> None:
    summary = write_dataset(spark, [made], tmp_path / "deep" / "dataset")
    assert (summary.runs, summary.rows, summary.failed) == (RUNS, RUNS - 1, 1)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["dataset"]
    names = sorted(path.name for path in (tmp_path / "deep" / "dataset").iterdir())
    assert names == [TABLE_SUMS, "_card.md", "_manifest.json", "rows.parquet"]
    check = subprocess.run(
        ["sha256sum", "-c", TABLE_SUMS], cwd=tmp_path / "deep" / "dataset", capture_output=True, check=False
    )
    assert check.returncode == 0 and check.stdout.startswith(b"rows.parquet/part-")
    rows = pq.read_table(tmp_path / "deep" / "dataset" / "rows.parquet")
    assert rows["index"].to_pylist() == [0, 1, 2, 4, 5, 6]
    assert rows.schema.names == TRAINING_ROWS.names
    assert rows.schema.types == TRAINING_ROWS.types
    source = json.loads((made / "manifest.json").read_text())
    manifest = json.loads((tmp_path / "deep" / "dataset" / "_manifest.json").read_text())
    assert (manifest["corpus"], manifest["corpus_hash"]) == (source, content_hash(source))
    assert (manifest["runs"], manifest["rows"], manifest["failed"]) == (RUNS, RUNS - 1, 1)


def test_pandas_reads_the_folder_and_its_card_explains_every_column(
    spark: SparkSession, made: Path, tmp_path: Path
) -> None:
    write_dataset(spark, [made], tmp_path / "dataset")
    (tmp_path / "dataset" / "_encoded-0.npz").write_bytes(b"what training keeps there")
    rows = pd.read_parquet(tmp_path / "dataset")
    assert list(rows.columns) == TRAINING_ROWS.names and len(rows) == RUNS - 1
    card = (tmp_path / "dataset" / "_card.md").read_text()
    columns = json.loads((tmp_path / "dataset" / "_manifest.json").read_text())["columns"]
    assert set(columns) == set(TRAINING_ROWS.names)
    for name, column in columns.items():
        assert f"| `{name}` | {column['unit']} | {column['says']} |" in card


def test_several_corpora_are_one_dataset_in_which_no_run_is_twice(
    spark: SparkSession, made: Path, tmp_path: Path
) -> None:
    """The second corpus has the same runs as the first and more; in the third are the same jobs under other seeds."""
    longer, other = tmp_path / "longer", tmp_path / "other" / "longer"
    write_corpus(spark, longer, CorpusSpec(runs=RUNS + 3, seed=7, space="fake"), make, Broken())
    write_corpus(spark, other, CorpusSpec(runs=2, seed=8, space="fake"), make, Broken())
    summary = write_dataset(spark, [made, longer, other], tmp_path / "dataset")
    assert (summary.runs, summary.failed, summary.duplicates) == (RUNS + RUNS + 3 + 2, 1, RUNS - 1)
    rows = pd.read_parquet(tmp_path / "dataset")
    assert len(rows) == summary.rows == summary.runs - summary.failed - summary.duplicates
    assert not rows.duplicated(["config_hash", "seed"]).any() and rows["run"].is_unique
    names = [made.name, "longer-1", "longer-2"]
    assert rows["run"].str.rpartition("/")[0].tolist() == [names[0]] * 6 + [names[1]] * 4 + [names[2]] * 2
    assert rows["index"].tolist() == [0, 1, 2, 4, 5, 6, 3, 7, 8, 9, 0, 1]
    manifest = json.loads((tmp_path / "dataset" / "_manifest.json").read_text())
    assert set(manifest["corpora"]) == set(names)
    write_dataset(spark, [longer], tmp_path / "alone")
    alone = pd.read_parquet(tmp_path / "alone").set_index("index")
    values = alone.columns.drop("run")
    pd.testing.assert_frame_equal(rows[6:10].set_index("index")[values], alone.loc[[3, 7, 8, 9], values])


def test_corpora_of_versions_that_simulate_other_runs_make_no_dataset(made: Path, corpus: Path, tmp_path: Path) -> None:
    body = {key: value for key, value in read_manifest(corpus).items() if key not in ("config_hash", "chunk_runs")}
    body["version"] = "0.0.9"
    text = {**body, "config_hash": content_hash(body), "chunk_runs": 2}
    (corpus / "manifest.json").write_text(json.dumps(text))
    with pytest.raises(BadInput, match=r"is of streamtwin .* and .* of 0\.0\.9, which simulate other runs") as refused:
        check_dataset([made, corpus], tmp_path / "dataset")
    assert "\n" not in str(refused.value)
    with pytest.raises(BadInput, match="is named twice; name each corpus once"):
        check_dataset([made, made.parent / "." / made.name], tmp_path / "dataset")


def test_an_existing_folder_and_one_that_is_no_corpus_are_refused(
    spark: SparkSession, made: Path, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match="no corpus"):
        write_dataset(spark, [tmp_path], tmp_path / "dataset")
    (tmp_path / "dataset").mkdir()
    with pytest.raises(BadInput, match="exists"):
        write_dataset(spark, [made], tmp_path / "dataset")


def test_an_incomplete_corpus_is_refused(spark: SparkSession, corpus: Path, tmp_path: Path) -> None:
    shutil.rmtree(corpus / "chunks" / "chunk-000000")
    with pytest.raises(BadInput, match="holds 5 of its 7 runs"):
        write_dataset(spark, [corpus], tmp_path / "dataset")


def test_a_file_damaged_in_its_middle_is_named(spark: SparkSession, corpus: Path, tmp_path: Path) -> None:
    """A file damaged in its middle is named, though its footer is whole and only reading finds it out."""
    path = operators_of(corpus, 2)
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"chunk-000002 is damaged \(operators\.parquet is .*\); repeat the command"):
        write_dataset(spark, [corpus], tmp_path / "dataset")
    assert not (tmp_path / "dataset").exists()
    assert not list(tmp_path.glob(".dataset*"))


def test_a_corpus_of_an_older_version_has_nulls_in_later_columns(
    spark: SparkSession, corpus: Path, tmp_path: Path
) -> None:
    for chunk in sorted((corpus / "chunks").iterdir()):
        for table, names in LATER.items():
            path = chunk / f"{table}.parquet"
            pq.write_table(pq.read_table(path).drop_columns(list(names)), path)
            sum_again(path)
    write_dataset(spark, [corpus], tmp_path / "dataset")
    rows = pd.read_parquet(tmp_path / "dataset")
    assert len(rows) == RUNS - 1 and rows["processing_latency_p99_s"].notna().all()
    assert rows["result_delay_s"].isna().all() and rows["checkpoints"].isna().all()


def test_a_missing_column_is_not_taken_for_nulls(spark: SparkSession, corpus: Path, tmp_path: Path) -> None:
    path = operators_of(corpus, 0)
    pq.write_table(pq.read_table(path).drop_columns("arrived"), path)
    sum_again(path)
    with pytest.raises(BadInput, match=r"chunk-000000/operators\.parquet has another schema"):
        write_dataset(spark, [corpus], tmp_path / "dataset")


def altered(table: pa.Table, column: str, row: int, value: object) -> pa.Table:
    """Table with another value in one of its places."""
    values = table[column].to_pylist()
    values[row] = value
    return table.set_column(table.schema.get_field_index(column), table.schema.field(column), [values])


@pytest.mark.parametrize(
    ("name", "column", "row", "value", "message"),
    [
        ("operators", "processingLatencySum_s", 7, math.nan, r"run 5 of .* has processing_latency_s = nan"),
        ("operators", "e2eLatencySum_s", 7, -math.inf, r"run 5 of .* has e2e_latency_s = -inf"),
        ("operators", "end_s", 7, math.nan, r"run 5 of .* has throughput_per_s = nan"),
        ("runs", "deployment", 1, "{}", r"run 5 of .* has no valid deployment \(Field required\); simulate again"),
    ],
)
def test_a_row_that_no_run_has_is_refused_by_its_number(
    spark: SparkSession, corpus: Path, tmp_path: Path, name: str, column: str, row: int, value: object, message: str
) -> None:
    path = operators_of(corpus, 2).with_name(f"{name}.parquet")
    pq.write_table(altered(pq.read_table(path), column, row, value), path)
    sum_again(path)
    with pytest.raises(BadInput, match=message) as refused:
        write_dataset(spark, [corpus], tmp_path / "dataset")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "dataset").exists()


def test_a_run_without_periods_is_no_training_row(spark: SparkSession, corpus: Path, tmp_path: Path) -> None:
    path = operators_of(corpus, 0)
    pq.write_table(pa.Table.from_pylist([], schema=OPERATORS), path)
    sum_again(path)
    with pytest.raises(BadInput, match=r"2 runs of .* have no period after their warm-up"):
        write_dataset(spark, [corpus], tmp_path / "dataset")


def test_a_corpus_of_failures_makes_no_dataset(spark: SparkSession, tmp_path: Path) -> None:
    broken = Broken(raising=frozenset({0, 1}))
    write_corpus(spark, tmp_path / "c", CorpusSpec(runs=2, seed=7, space="fake"), make, broken)
    with pytest.raises(BadInput, match=r"no run of .* succeeded"):
        write_dataset(spark, [tmp_path / "c"], tmp_path / "dataset")
