"""State on the heap, and in RocksDB: what accesses cost, and what is in memory, by arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scenarios.calibration.unit_costs import charged, occurs, of_kinds, of_operators
from tests.twin.worlds import chain, joined, simulated
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.profiles import FLINK, EngineProfile
from twin.rates.model import RateModel
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse

READ_US, WRITE_US, NS = 2.0, 2.1, 4.0
ACCUMULATOR = 56
HOST = {"name": "h", "cpu_percent": 800, "ram_mb": 4000, "bandwidth_mbps": 10_000, "latency_ms": 1}


def engine(backend: Any, **more: Any) -> EngineProfile:
    """Flink with a state backend."""
    given = {} if backend is None else {"state_backend": backend}
    return parse(EngineProfile, {**dict(FLINK), "service_scv": 0.0, **given, **more})


def job(operator: dict[str, Any], rate: float, backend: Any, **more: Any) -> Deployment:
    """A constant stream through one operator with state."""
    made = engine(backend, **more)
    return chain([{"name": "w", **operator}], {"law": "constant", "rate_per_s": rate}, 100, engine=made, hosts=[HOST])


def busy_s(run: Run) -> float:
    """CPU seconds a second of the operator with state."""
    rows = [row["busyTimeMsPerSecond"] for row in run.operator_rows if row["operator"] == "w"]
    return float(np.mean(rows)) / 1000.0


WINDOW = {"kind": "aggregate", "function": "sum", "group_by": "int", "groups": 10, "service_time_s": 1e-6}
STATE = {"kind": "keyed-state", "keys": 1000, "key_groups": 16, "state_bytes_per_key": 500, "service_time_s": 1e-6}
BOTH_US = READ_US + WRITE_US
JOBS: dict[str, tuple[dict[str, Any], float, float]] = {
    # operator, microseconds of a record, microseconds a second of results
    "keyed-state": (STATE, BOTH_US + 2 * 500 * NS / 1000, 0.0),
    "tumbling": (
        {**WINDOW, "window": {"policy": "time", "size_s": 2.0}},
        BOTH_US + 2 * ACCUMULATOR * NS / 1000,
        5 * (BOTH_US + 2 * ACCUMULATOR * NS / 1000),
    ),
    "sliding": (
        {**WINDOW, "window": {"policy": "time", "size_s": 4.0, "slide_s": 1.0}},
        4 * (BOTH_US + 2 * ACCUMULATOR * NS / 1000),
        10 * (BOTH_US + 2 * ACCUMULATOR * NS / 1000),
    ),
    "session": (
        {"kind": "session", "keys": 5, "gap_s": 3.0, "service_time_s": 1e-6},
        2 * (BOTH_US + 2 * ACCUMULATOR * NS / 1000),
        0.0,
    ),
    "records": (
        {**WINDOW, "window": {"policy": "time", "size_s": 2.0}, "window_state": "records"},
        WRITE_US + 100 * NS / 1000,  # written once; its bytes are read once, as its window ends, the last one later
        11 / 12 * 2000.0 * 100 * NS / 1000,
    ),
    "records over event time": (
        {**WINDOW, "window": {"policy": "time", "size_s": 2.0, "time": "event"}, "window_state": "records"},
        WRITE_US + 100 * NS / 1000,
        11 / 12 * 2000.0 * 100 * NS / 1000,
    ),
    "sliding records": (  # a copy in each of four windows; those that end in the first seconds have fewer
        {**WINDOW, "window": {"policy": "time", "size_s": 4.0, "slide_s": 1.0}, "window_state": "records"},
        4 * (WRITE_US + 100 * NS / 1000),
        86 / 24 * 2000.0 * 100 * NS / 1000,
    ),
    "sliding over event time": (
        {**WINDOW, "window": {"policy": "time", "size_s": 4.0, "slide_s": 1.0, "time": "event"}},
        4 * (BOTH_US + 2 * ACCUMULATOR * NS / 1000),
        10 * (BOTH_US + 2 * ACCUMULATOR * NS / 1000),
    ),
}


@pytest.mark.parametrize("name", JOBS)
def test_accesses_take_cpu_time(name: str) -> None:
    """The operator is busier than on the heap by its accesses, in the run and in the rate model."""
    operator, record_us, results_us = JOBS[name]
    rate = 2000.0
    runs = {each: simulated(job(operator, rate, each), horizon_s=24.0, period_s=24.0) for each in ("heap", "rocksdb")}
    more_s = busy_s(runs["rocksdb"]) - busy_s(runs["heap"])
    assert more_s == pytest.approx((record_us * rate + results_us) * 1e-6, rel=0.01)
    used = {}
    for backend in ("heap", "rocksdb"):
        made = job(operator, rate, backend)
        answer = RateModel().answer(made, [made.plan])
        place = answer.operators.index("w")
        used[backend] = float(answer.busy_cores[0][place])
    assert used["rocksdb"] - used["heap"] == pytest.approx(more_s, rel=0.02)


def test_slices_are_accessed_once_a_record() -> None:
    """And once for each slice of a result's window; dropped ones are written."""
    window = {"policy": "time", "size_s": 4.0, "slide_s": 1.0}
    made = job({**WINDOW, "window": window}, 10.0, "rocksdb", window_state="slices")
    operator, each_s = made.query.operator("w"), made.engine.access_s(1.0, 1.0, ACCUMULATOR)
    assert made.engine.service_s(made.query, operator) == pytest.approx(1e-6 + each_s, rel=1e-12)
    assert made.engine.result_s(operator) == pytest.approx(made.engine.access_s(4.0, 1.0, ACCUMULATOR), rel=1e-12)


def test_a_join_writes_each_record_into_its_windows() -> None:
    for size_s, copies in ((1.0, 1), (4.0, 4)):
        window = {"policy": "time", "size_s": size_s, "slide_s": 1.0}
        join = {"kind": "join", "name": "w", "selectivity": 0.1, "service_time_s": 1e-6, "window": window}
        made = joined(join, {"a": 10.0, "b": 10.0}, engine=engine("rocksdb"))
        each_s = made.engine.access_s(0.0, copies, made.engine.input_bytes(made.query, "w"))
        assert made.engine.service_s(made.query, made.query.operator("w")) == pytest.approx(1e-6 + each_s, rel=1e-12)


def test_a_heap_is_what_there_is_without_a_word() -> None:
    """All that a run says is the same; a profile that does not say is written as before."""
    operator = {**WINDOW, "window": {"policy": "time", "size_s": 2.0}}
    rows = [simulated(job(operator, 500.0, each), horizon_s=8.0).operator_rows for each in (None, "heap")]
    assert rows[0] == rows[1]
    assert "state_backend" not in FLINK.model_dump()


def test_memory_of_rocksdb_is_bounded() -> None:
    """A state of 2.4 GB: on a heap of 4 GB the job crashes; in RocksDB its host has 40 % of it in memory at most, and
    garbage collection sees nothing of it."""
    large = {**STATE, "keys": 20_000, "state_bytes_per_key": 120_000}
    heap = simulated(job(large, 5000.0, "heap"), horizon_s=30.0)
    stored = simulated(job(large, 5000.0, {"kind": "rocksdb", "ns_per_byte": 0.0}), horizon_s=30.0)
    assert not heap.metrics.success and stored.metrics.success
    used = np.array([row["memoryUsedMb"] for row in stored.host_rows])
    assert used[-1] == pytest.approx(700.0 + 0.4 * 4000.0, rel=1e-3)
    assert {row["gcSlowdown"] for row in stored.host_rows} == {1.0}
    on_disk = [row["stateBytes"] for row in stored.operator_rows if row["operator"] == "w"]
    assert on_disk[-1] == pytest.approx(2.4e9, rel=0.01)
    for backend, crashes in (("heap", True), ({"kind": "rocksdb", "ns_per_byte": 0.0}, False)):
        made = job(large, 5000.0, backend)
        answer = RateModel(horizon_s=30.0).answer(made, [made.plan])
        assert (answer.results[0] == 0.0) is np.bool_(crashes)
        assert crashes or answer.memory[0][0] == pytest.approx((700.0 + 0.4 * 4000.0) / 4000.0, rel=1e-3)


def test_small_state_is_in_memory_whole() -> None:
    """What fits is held as bytes, without objects around them."""
    small = simulated(job(STATE, 2000.0, "rocksdb"), horizon_s=20.0)
    assert small.host_rows[-1]["memoryUsedMb"] == pytest.approx(700.0 + 1000 * 500 / 1e6, rel=1e-6)
    heap = simulated(job(STATE, 2000.0, "heap"), horizon_s=20.0)
    assert heap.host_rows[-1]["memoryUsedMb"] == pytest.approx(700.0 + 4 * 1000 * 500 / 1e6, rel=1e-6)


@pytest.mark.parametrize(
    ("backend", "state"), [(b, s) for b in (None, "heap", "rocksdb") for s in ("full", "incremental")]
)
def test_increments_of_a_heap_are_said_to_be_none_in_flink(backend: str | None, state: str) -> None:
    """The heap is the heap, by name or by default; RocksDB has increments."""
    made = Scenario.of(job(STATE, 10.0, backend), RunSettings(horizon_s=3.0))
    run = simulate(parse(Scenario, {**dict(made), "checkpoints": {"state": state}}))
    assert any("engine.state_backend=rocksdb" in line for line in run.warnings) == (
        state == "incremental" and backend != "rocksdb"
    )


def test_calibration_fits_what_an_access_costs() -> None:
    """Both constants are costs of the profile, which move in step; an operator's own cost has its accesses in it."""
    scenario = Scenario.of(job(STATE, 10.0, "rocksdb"))
    names = {each.name: each.prior for each in of_kinds(scenario.engine)}
    assert (names["state_backend.read_us"], names["state_backend.write_us"]) == (READ_US, WRITE_US)
    assert not any(each.name.startswith("state_backend") for each in of_kinds(FLINK))
    assert occurs(scenario, "state_backend.read_us")
    dearer = charged(scenario, {"state_backend.read_us": 5.0})
    operator = scenario.query.operator("w")
    services = [each.engine.service_s(each.query, operator) for each in (scenario, dearer)]
    assert services[1] - services[0] == pytest.approx(3e-6, rel=1e-9)
    own = {each.name: each.prior for each in of_operators(scenario.engine, scenario.query)}
    alike = charged(scenario, own)
    assert alike.engine.service_s(alike.query, alike.query.operator("w")) == pytest.approx(services[0], rel=1e-9)


def test_a_profile_with_state_on_the_heap_may_be_written_out() -> None:
    found = engine("heap")
    assert found.state_backend is not None
    assert type(found.state_backend).model_validate(found.state_backend.model_dump()) == found.state_backend


def test_what_is_of_rocksdb_needs_its_name() -> None:
    """A cost that would not count is refused with the remedy."""
    with pytest.raises(BadInput, match="read_us is about rocksdb; add kind: rocksdb"):
        engine({"read_us": 8.0})
