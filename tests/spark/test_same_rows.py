"""Rows made without Spark are the rows that Spark makes of the same corpus."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from papers.simulating import CorpusJob, in_process
from scenarios.executing.progress import Lines
from scenarios.learning.corpora import CorpusRecipe
from spark.pipeline import write_dataset

pytestmark = pytest.mark.spark


def test_both_ways_to_aggregate_agree(spark: SparkSession, tmp_path: Path) -> None:
    job = CorpusJob(tmp_path / "corpus", tmp_path / "ours", *CorpusRecipe(runs=5, seed=2, horizon_s=20.0).plan())
    in_process([job], Lines(lambda _: None))
    write_dataset(spark, job.corpus, tmp_path / "spark")
    ours, sparks = (pq.read_table(tmp_path / name / "rows.parquet").to_pylist() for name in ("ours", "spark"))
    assert len(ours) == len(sparks) == 5
    for one, other in zip(ours, sparks, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            assert value == (pytest.approx(other[name]) if isinstance(value, float) else other[name]), name
