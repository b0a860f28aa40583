"""Tests of datasets: rows come back as they were written, splits are clean, and all kinds of bad data are named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.dataset import Dataset, of_deployments, read, split
from tests.models.deployments import random_deployment
from twin.checkpoints import Checkpoints
from twin.errors import BadInput
from twin.files import seal
from twin.metrics import METRICS
from twin.scenario import RunSettings, Scenario
from twin.trace import TRAINING_ROWS


def rows(count: int = 12) -> list[dict[str, Any]]:
    """Rows with alternating success; those without success have no latencies."""
    return [
        {
            "run": f"run{index}",
            "index": index,
            "seed": index,
            "config_hash": f"config{index // 2}",
            "horizon_s": 240.0,
            "warmup_s": 0.0,
            "deployment": random_deployment(index // 2).model_dump_json(),
            "throughput_per_s": 2.0 + index,
            "processing_latency_s": 0.5 if index % 2 else None,
            "e2e_latency_s": 0.75 if index % 2 else None,
            "backpressure_per_s": 0.0,
            "backpressured": index % 3 == 0,
            "success": index % 2 == 1,
            "records_out": index,
        }
        for index in range(count)
    ]


def written(folder: Path, some: list[dict[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(some, schema=TRAINING_ROWS), folder / "rows.parquet")
    return folder


def test_rows_come_back(tmp_path: Path) -> None:
    dataset = read(written(tmp_path, rows()))
    assert len(dataset) == len(dataset.graphs) == 12
    memory = of_deployments([random_deployment(index // 2) for index in range(12)], dataset.labels_GxA)
    for ours, theirs in zip(dataset.graphs.nodes, memory.graphs.nodes, strict=True):
        np.testing.assert_allclose(ours.rows, theirs.rows, rtol=1e-6)
    np.testing.assert_array_equal(dataset.labels_GxA[1, : len(METRICS)], [3, 0.5, 0.75, 0, 1])
    assert np.isnan(dataset.labels_GxA[0, :3]).all()
    np.testing.assert_array_equal(dataset.labels_GxA[0, 3 : len(METRICS)], [1, 0])


def test_rows_are_read_as_they_were_measured(tmp_path: Path) -> None:
    some = rows(2)
    some[1] |= {"warmup_s": 120.0}
    dataset = read(written(tmp_path, some))
    settings = (RunSettings(), RunSettings(warmup_s=120.0))
    jobs = [Scenario.of(random_deployment(0), each) for each in settings]
    # a scenario begins to measure up to a slide after the warm-up, when as good as all results have come
    np.testing.assert_allclose(dataset.rates_GxA, of_deployments(jobs, dataset.labels_GxA).rates_GxA, rtol=1e-9)
    assert not np.array_equal(*dataset.rates_GxA)


def test_rows_with_checkpoints_are_read_as_their_scenarios_are_predicted(tmp_path: Path) -> None:
    """What models see in training is what they see when asked: results of exactly-once sinks wait for commits."""
    some = rows(3)
    specs = [None, Checkpoints(interval_s=30.0), Checkpoints(interval_s=30.0, sinks="exactly-once")]
    for row, spec in zip(some, specs, strict=True):
        row |= {"deployment": some[0]["deployment"], "checkpoints": spec and spec.model_dump_json()}
    dataset = read(written(tmp_path, some))
    jobs = [Scenario(**dict(random_deployment(0)), checkpoints=spec) for spec in specs]
    asked = of_deployments(jobs, dataset.labels_GxA)
    np.testing.assert_array_equal(dataset.rates_GxA, asked.rates_GxA)
    np.testing.assert_array_equal(dataset.derived_GxD, asked.derived_GxD)
    none_s, least_s, once_s = dataset.rates_G("processing_latency_s")
    assert none_s <= least_s <= none_s * 1.001  # what a checkpoint takes of threads
    assert once_s - none_s > 10.0  # half an interval, but for what is not yet seen when a run ends


def test_rows_without_a_column_of_checkpoints_have_none(tmp_path: Path) -> None:
    some = rows(2)
    new, old = written(tmp_path / "new", some), written(tmp_path / "old", some)
    pq.write_table(pq.read_table(old / "rows.parquet").drop_columns(["checkpoints"]), old / "rows.parquet")
    np.testing.assert_array_equal(read(old).rates_GxA, read(new).rates_GxA)


def test_a_folder_of_files_is_their_union(tmp_path: Path) -> None:
    written(tmp_path / "a", rows()[:5])
    written(tmp_path / "b", rows()[5:])
    np.testing.assert_array_equal(read(tmp_path).labels_GxA, read(written(tmp_path / "c", rows())).labels_GxA)


def test_a_changed_bit_of_a_sealed_dataset_is_found(tmp_path: Path) -> None:
    """Each flipped bit of a sealed dataset is found; without checksums three in four would change values unnoticed."""
    file = written(tmp_path, rows(4)) / "rows.parquet"
    seal(tmp_path, ["rows.parquet"])
    content, rng = file.read_bytes(), np.random.default_rng(0)
    for _ in range(100):
        bit = int(rng.integers(8 * len(content)))
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        file.write_bytes(changed)
        with pytest.raises(BadInput, match=r"rows\.parquet is not as it was written; make the dataset again"):
            read(tmp_path)
    file.write_bytes(content)
    assert len(read(tmp_path)) == 4
    written(tmp_path / "more", rows(2))
    with pytest.raises(BadInput, match="more/rows"):
        read(tmp_path)
    file.unlink()
    with pytest.raises(BadInput, match="is not as it was written"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"success": None}, "run 'run3' has success = None"),
        ({"throughput_per_s": float("nan")}, "run 'run3' has throughput_per_s = nan"),
        ({"processing_latency_s": None}, "run 'run3' has processing_latency_s = None"),
        ({"e2e_latency_s": -1.0}, "run 'run3' has e2e_latency_s = -1.0"),
        ({"e2e_latency_s": float("inf")}, "run 'run3' has e2e_latency_s = inf"),
        ({"warmup_s": None}, "run 'run3' has warmup_s = nan of 240 s; drop that row, or make the dataset again"),
        ({"warmup_s": 240.0}, "run 'run3' has warmup_s = 240 of 240 s"),
        ({"deployment": "{}"}, "the deployment of run 'run3' is not valid"),
        ({"checkpoints": '{"interval_s": -1}'}, "run 'run3' has checkpoints that are not valid"),
        ({"checkpoints": '{"interval_s": 1, "storage": "no host"}'}, "unknown host 'no host'"),
    ],
)
def test_bad_row_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    some = rows()
    some[3] |= change
    with pytest.raises(BadInput, match=message):
        read(written(tmp_path, some))


def test_text_that_is_no_text_is_named(tmp_path: Path) -> None:
    folder = written(tmp_path, rows())
    table = pq.read_table(folder / "rows.parquet")
    broken = pa.array([b"\xff\xfe"] * len(table), pa.binary()).view(pa.string())
    pq.write_table(table.set_column(table.column_names.index("run"), "run", broken), folder / "rows.parquet")
    with pytest.raises(BadInput, match="not UTF-8"):
        read(folder)


def test_bad_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no Parquet file"):
        read(tmp_path / "absent")
    with pytest.raises(BadInput, match="has no rows"):
        read(written(tmp_path / "empty", []))
    folder = written(tmp_path / "lacking", rows())
    table = pq.read_table(folder / "rows.parquet")
    pq.write_table(table.drop_columns(["success"]), folder / "rows.parquet")
    with pytest.raises(BadInput, match="lacks the column 'success'"):
        read(folder)
    pq.write_table(table.drop_columns(["warmup_s"]), folder / "rows.parquet")
    with pytest.raises(BadInput, match="lacks the column 'warmup_s' of training rows; make the dataset again"):
        read(folder)
    column = table.column_names.index("success")
    pq.write_table(table.set_column(column, "success", pa.array(["maybe"] * 12)), folder / "rows.parquet")
    with pytest.raises(BadInput, match="column of another type"):
        read(folder)
    (folder / "rows.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(BadInput, match="is not a readable Parquet file"):
        read(folder)


def of_hashes(hashes: list[int]) -> Dataset:
    one = of_deployments([random_deployment(0)], np.ones((1, 5)))
    return replace(one, labels_GxA=np.ones((len(hashes), 5)), config_hash=np.array(hashes).astype(str))


@given(
    st.lists(st.integers(0, 30), min_size=3, max_size=200).filter(lambda each: len(set(each)) > 2), st.integers(0, 99)
)
def test_split_holds_the_first_run_of_every_configuration_once(hashes: list[int], seed: int) -> None:
    parts = split(of_hashes(hashes), seed)
    assert all(len(part) for part in parts)
    assert sorted(np.concatenate(parts).tolist()) == sorted(hashes.index(value) for value in set(hashes))


def test_split_is_80_10_10_and_follows_the_seed() -> None:
    dataset = of_hashes(list(range(1000)))
    assert [len(part) for part in split(dataset, 1)] == [800, 100, 100]
    np.testing.assert_array_equal(split(dataset, 1).test, split(dataset, 1).test)
    assert set(split(dataset, 1).test) != set(split(dataset, 2).test)


def test_too_few_configurations_cannot_be_split() -> None:
    with pytest.raises(BadInput, match="2 configurations, too few"):
        split(of_hashes([1, 1, 1, 2]), 0)
