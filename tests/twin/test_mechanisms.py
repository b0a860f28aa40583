"""Each mechanism alone, against brute force or a law."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twin.worlds import chain, simulated
from twin.engine.draws import Draws
from twin.engine.sketch import GROWTH, bucket, quantile_s, representative_s
from twin.errors import BadInput
from twin.partitionings.registry import PARTITIONINGS, groups_of
from twin.partitionings.traits import Ends
from twin.query import Sink
from twin.randomness import child_seed, stream
from twin.trace import OPERATORS, read_table, write_trace
from twin.wiring.streams import partitioner

# random numbers -----------------------------------------------------------------------------------------------------


def test_streams_are_named_and_independent_of_order() -> None:
    first = stream(1, "a").random(4)
    stream(1, "b").random(4)
    assert np.array_equal(first, stream(1, "a").random(4))
    assert not np.array_equal(first, stream(1, "b").random(4))
    assert not np.array_equal(first, stream(2, "a").random(4))
    assert len({child_seed(0, index) for index in range(10_000)}) == 10_000


@pytest.mark.parametrize("scv", [0.0, 0.25, 1.0, 4.0])
def test_service_times_have_their_moments(scv: float) -> None:
    draws = Draws(stream(3, "service"), scv)
    times = np.array([draws.service() for _ in range(20_000)])
    assert times.mean() == pytest.approx(1.0, rel=4 * math.sqrt(scv / 20_000) + 1e-3)
    assert times.var() == pytest.approx(scv, rel=0.12, abs=1e-9)


# latencies ----------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(1e-5, 1e4), min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 0.99]))
def test_sketch_quantiles_are_within_half_its_growth(latencies: list[float], q: float) -> None:
    histogram: dict[int, int] = {}
    for latency in latencies:
        histogram[bucket(latency)] = histogram.get(bucket(latency), 0) + 1
    exact = sorted(latencies)[math.ceil(q * len(latencies)) - 1]
    assert quantile_s(histogram, q) == pytest.approx(exact, rel=math.sqrt(GROWTH) - 1 + 1e-9)


def test_bucket_holds_its_representative() -> None:
    assert all(bucket(representative_s(index)) == index for index in range(0, 1200, 7))


def no_draws() -> Draws:
    """Random numbers for a deal that needs none."""
    raise AssertionError("dealt in turn, yet asked for random numbers")


# dealing ------------------------------------------------------------------------------------------------------------


def test_groups_are_spread_over_replicas() -> None:
    assert [groups_of(7, k, 3) for k in range(3)] == [3, 2, 2]
    with pytest.raises(BadInput, match="forward needs equal replicas, got 2 -> 3"):
        partitioner(PARTITIONINGS["forward"], Sink(name="k"), 2, Ends(0, 3, 3), no_draws)


# traces -------------------------------------------------------------------------------------------------------------


def test_trace_is_written_whole_with_the_schema(tmp_path: Path) -> None:
    run = simulated(chain([], 50), horizon_s=20, period_s=5)
    write_trace(run.rows("r-1", 1, "test"), tmp_path / "trace")
    operators = read_table(tmp_path / "trace", "operators")
    assert operators.schema.equals(OPERATORS)
    assert operators.num_rows == 4 * 2
    assert sum(operators["latencyCount"].drop_null().to_pylist()) == run.metrics.tuples_out
    assert pq.read_table(tmp_path / "trace" / "runs.parquet")["config_hash"][0].as_py() == run.manifest["config_hash"]
    with pytest.raises(BadInput, match="exists; remove it"):
        write_trace(run.rows("r-1"), tmp_path / "trace")
    assert [path.name for path in tmp_path.iterdir()] == ["trace"]


def test_bad_trace_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"runs\.parquet is missing"):
        read_table(tmp_path, "runs")
    (tmp_path / "runs.parquet").write_bytes(b"not parquet")
    with pytest.raises(BadInput, match="not a readable Parquet file"):
        read_table(tmp_path, "runs")
