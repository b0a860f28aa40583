"""Each mechanism alone, against brute force or a law."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twin.worlds import chain
from twin.engine.compute.processor import Processor
from twin.engine.dealing.choice import deal
from twin.engine.draws import Draws
from twin.engine.measure.sketch import GROWTH, add_linear, bucket, merge, quantile_s, representative_s
from twin.engine.segment import Segment
from twin.engine.windows.history import History
from twin.engine.windows.oldest import older
from twin.errors import BadInput
from twin.keys import groups_of
from twin.partitionings.registry import PARTITIONINGS
from twin.query import Sink
from twin.randomness import child_seed, stream
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.trace import OPERATORS, read_table, write_trace

# random numbers -----------------------------------------------------------------------------------------------------


def test_streams_are_named_and_independent_of_order() -> None:
    first = stream(1, "a").random(4)
    stream(1, "b").random(4)
    assert np.array_equal(first, stream(1, "a").random(4))
    assert not np.array_equal(first, stream(1, "b").random(4))
    assert not np.array_equal(first, stream(2, "a").random(4))
    assert len({child_seed(0, index) for index in range(10_000)}) == 10_000


@pytest.mark.parametrize("scv", [0.0, 0.25, 1.0, 4.0])
@pytest.mark.parametrize("n", [1, 5, 400])
def test_sums_of_service_times_have_their_moments(scv: float, n: int) -> None:
    draws = Draws(stream(3, "service"), scv)
    sums = np.array([draws.services(n) for _ in range(8_000)])
    assert sums.mean() == pytest.approx(n, rel=4 * math.sqrt(scv / n / 8_000) + 1e-3)
    assert sums.var() == pytest.approx(n * scv, rel=0.12, abs=1e-9)


@pytest.mark.parametrize(("n", "p"), [(1, 0.3), (20, 0.3), (5_000, 0.3), (5_000, 1.0)])
def test_binomial_moments(n: int, p: float) -> None:
    draws = Draws(stream(4, "binomial"))
    counts = np.array([draws.binomial(n, p) for _ in range(8_000)])
    assert counts.mean() == pytest.approx(n * p, rel=0.02)
    assert counts.var() == pytest.approx(n * p * (1 - p), rel=0.1, abs=1e-9)
    assert counts.min() >= 0 and counts.max() <= n


@pytest.mark.parametrize(("n", "boxes"), [(1, 5), (10, 3), (40, 40), (1000, 60)])
def test_occupied_boxes_match_brute_force(n: int, boxes: int) -> None:
    draws = Draws(stream(5, "occupied"))
    rng = np.random.default_rng(1)
    brute = [len(set(rng.integers(boxes, size=n))) for _ in range(2_000)]
    ours = [draws.occupied(n, boxes) for _ in range(2_000)]
    assert np.mean(ours) == pytest.approx(np.mean(brute), rel=0.02)
    assert max(ours) <= min(n, boxes)


# stamps -------------------------------------------------------------------------------------------------------------

spans = st.tuples(st.floats(-5, 5), st.floats(0.01, 5))


@settings(max_examples=40, deadline=None)
@given(first=spans, second=spans)
def test_older_of_two_stamps_matches_sampling(first: tuple[float, float], second: tuple[float, float]) -> None:
    rng = np.random.default_rng(0)
    low1, high1, low2, high2 = first[0], sum(first), second[0], sum(second)
    sample = np.minimum(rng.uniform(low1, high1, 40_000), rng.uniform(low2, high2, 40_000))
    mean, half = older(low1, high1, low2, high2)
    assert mean == pytest.approx(sample.mean(), abs=0.04)
    assert half / math.sqrt(3) == pytest.approx(sample.std(), abs=0.04)


@settings(max_examples=60, deadline=None)
@given(
    tuples=st.lists(st.floats(0.001, 1.0), min_size=1, max_size=60),
    size=st.floats(0.1, 20),
    cut=st.integers(0, 50),
)
def test_history_of_single_tuples_is_brute_force(tuples: list[float], size: float, cut: int) -> None:
    """Counts and end stamps of a window over single tuples, also after forgetting what lies before it."""
    times = np.cumsum(tuples)
    history = History()
    for index, time in enumerate(times):
        history.add(time, time, 1, (index, index, -index, -index))
    end = times[min(cut, len(times) - 1)]
    inside = [index for index, time in enumerate(times) if end - size < time <= end]
    history.forget_until(end - size)
    assert history.count_until(end) - history.count_until(end - size) == len(inside)
    assert history.first_after(end - size) == (inside[0], -inside[0])
    assert history.last_until(end) == (inside[-1], -inside[-1])
    assert history.held() == len([time for time in times if time > end - size])


def test_history_interpolates_inside_segments() -> None:
    history = History()
    history.add(0.0, 10.0, 100, (0.0, 10.0, 1.0, 11.0))
    history.add(10.0, 20.0, 50, (10.0, 20.0, 11.0, 21.0))
    assert history.count_until(5.0) == 50
    assert history.count_until(15.0) == 125
    assert history.first_after(5.0) == (5.0, 6.0)
    assert history.last_until(15.0) == (15.0, 16.0)


def test_parts_of_a_segment_keep_its_line() -> None:
    whole = Segment(10, 0.0, 10.0, 0.0, 20.0, 5.0, 5.0)
    half = whole.part(5, 0.5, 1.0)
    assert (half.a_s, half.b_s, half.born0_s, half.born1_s) == (5.0, 10.0, 10.0, 20.0)
    one = whole.part(1, 0.0, 1.0)
    assert one.a_s == one.b_s == 5.0 and one.born0_s == one.born1_s == 10.0


# latencies ----------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(1e-5, 1e4), min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 0.99]))
def test_sketch_quantiles_are_within_its_growth(latencies: list[float], q: float) -> None:
    histogram: dict[int, int] = {}
    for latency in latencies:
        add_linear(histogram, 1, latency, latency)
    exact = sorted(latencies)[math.ceil(q * len(latencies)) - 1]
    assert quantile_s(histogram, q) == pytest.approx(exact, rel=GROWTH - 1)


@given(st.lists(st.tuples(st.integers(1, 500), st.floats(0, 10), st.floats(0, 10)), max_size=20))
def test_sketch_keeps_all_counts(groups: list[tuple[int, float, float]]) -> None:
    parts: list[dict[int, int]] = []
    for n, first, last in groups:
        parts.append({})
        add_linear(parts[-1], n, first, last)
    assert sum(merge(parts).values()) == sum(n for n, _, _ in groups)


def test_bucket_holds_its_representative() -> None:
    assert all(bucket(representative_s(index)) == index for index in range(0, 1200, 7))


def no_draws() -> Draws:
    """Random numbers for a deal that needs none."""
    raise AssertionError("dealt in turn, yet asked for random numbers")


# dealing ------------------------------------------------------------------------------------------------------------


@given(
    replicas=st.integers(1, 12), sizes=st.lists(st.integers(1, 400), min_size=1, max_size=60), first=st.integers(0, 9)
)
def test_every_tuple_is_dealt_once_and_fairly(replicas: int, sizes: list[int], first: int) -> None:
    dealt = deal(PARTITIONINGS["rebalance"], Sink(name="k"), 10, first, replicas, no_draws)
    totals = [0] * replicas
    for n in sizes:
        parts = list(dealt.parts(Segment(n, 0, 1, 0, 0, 0, 0)))
        assert sum(part.n for _, part in parts) == n
        for index, part in parts:
            totals[index] += part.n
    assert max(totals) - min(totals) <= 2 * max(sizes)


def test_groups_are_spread_over_replicas() -> None:
    assert [groups_of(7, k, 3) for k in range(3)] == [3, 2, 2]
    with pytest.raises(BadInput, match="forward needs equal replicas, got 2 -> 3"):
        deal(PARTITIONINGS["forward"], Sink(name="k"), 2, 0, 3, no_draws)


# the processor ------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    works=st.lists(st.floats(0.01, 5), min_size=1, max_size=6),
    starts=st.lists(st.floats(0, 5), min_size=6, max_size=6),
    capacity=st.sampled_from([0.5, 1.0, 2.0]),
)
def test_jobs_share_as_fluid_processor_sharing(works: list[float], starts: list[float], capacity: float) -> None:
    """Completion times equal a small-step integration of: every job runs at min(1, C / k)."""
    env = simpy.Environment()
    processor = Processor(env, capacity)
    shares = [processor.attach() for _ in works]
    ends: dict[int, float] = {}

    def run(index: int) -> object:
        yield env.timeout(starts[index])
        processor.start(shares[index], works[index], lambda: ends.setdefault(index, env.now))

    for index in range(len(works)):
        env.process(run(index))  # type: ignore[arg-type]
    env.run()
    assert ends == pytest.approx(_fluid(works, starts, capacity), abs=1e-6)


def _fluid(works: list[float], starts: list[float], capacity: float) -> dict[int, float]:
    now, left, ends = 0.0, dict(enumerate(works)), {}
    while left:
        active = [k for k in left if starts[k] <= now]
        rate = min(1.0, capacity / len(active)) if active else 0.0
        nexts = [starts[k] for k in left if starts[k] > now]
        if active:
            nexts.append(now + min(left[k] for k in active) / rate)
        then = min(nexts)
        for k in active:
            left[k] -= rate * (then - now)
        for k in [k for k in active if left[k] <= 1e-9]:
            ends[k] = then
            del left[k]
        now = then
    return ends


def test_a_job_gets_what_flat_demands_leave() -> None:
    env = simpy.Environment()
    processor = Processor(env, 1.0)
    flat, job = processor.attach(), processor.attach()
    env.run(until=1.0)
    processor.kept_up(flat, 0.4, 1.0)
    ends: list[float] = []
    processor.start(job, 0.6, lambda: ends.append(env.now))
    env.run()
    assert ends == [pytest.approx(2.0)]


# traces -------------------------------------------------------------------------------------------------------------


def test_trace_is_written_whole_with_the_schema(tmp_path: Path) -> None:
    run = simulate(Scenario.of(chain([], 50), RunSettings(horizon_s=20, period_s=5)))
    write_trace(run.rows("r-1", 1, "test"), tmp_path / "trace")
    operators = read_table(tmp_path / "trace", "operators")
    assert operators.schema.equals(OPERATORS)
    assert operators.num_rows == 4 * 2
    assert sum(operators["latencyCount"].drop_null().to_pylist()) == run.metrics.tuples_out
    assert pq.read_table(tmp_path / "trace" / "runs.parquet")["config_hash"][0].as_py() == run.manifest["config_hash"]
    with pytest.raises(BadInput, match="exists; remove it"):
        write_trace(run.rows("r-1"), tmp_path / "trace")
    assert [path.name for path in tmp_path.iterdir()] == ["trace"]


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"banana|int"):
        write_trace({"runs": [{"run": "x", "index": "banana"}], "operators": [], "hosts": []}, tmp_path / "trace")
    assert list(tmp_path.iterdir()) == []


def test_bad_trace_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"runs\.parquet is missing"):
        read_table(tmp_path, "runs")
    (tmp_path / "runs.parquet").write_bytes(b"not parquet")
    with pytest.raises(BadInput, match="not a readable Parquet file"):
        read_table(tmp_path, "runs")
