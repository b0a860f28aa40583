"""State of windows that aggregate as records come: accumulators, against counting the keys in each open window."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st

from tests.twin.worlds import chain, deployment, simulated, sink, source, world_of
from twin.deployment import Deployment
from twin.job import compile
from twin.profiles import FLINK, STORM, EngineProfile
from twin.rates.arrays import JobArrays
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.load import entries_on, flow_at, stacked
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse
from twin.windows import slice_of
from twin.world.memory import RunMemory
from twin.world.sockets import HostMemory
from twin.world.windows import WindowLogic

ACCUMULATOR = 12 + 44
"""Bytes of an int key, a double, a window and its timer."""


def engine(window_state: str) -> EngineProfile:
    """Flink, with windows that hold this."""
    return parse(EngineProfile, {**dict(FLINK), "window_state": window_state})


def job(window: dict[str, Any], groups: int, rate_per_s: Any, holds: str, **more: Any) -> Deployment:
    """Sum by key over a window."""
    operator = {"kind": "aggregate", "name": "w", "function": "sum", "group_by": "int", "groups": groups}
    return chain([{**operator, "window": window, **more}], rate_per_s, engine=engine(holds))


def by_hand(logic: Any, memory: RunMemory) -> int:
    """Accumulators of a window, from its records: pairs of key and open window, or of key and slice in an open one."""
    window = logic.window
    length, slide = (Fraction(each).limit_denominator(10**6) for each in (window.length, window.slide))
    rows = window.contents[0].items(memory)
    first = logic._first() if window.by_time else window.seen // int(slide) + 1
    step = Fraction(window.slice).limit_denominator(10**6)
    found = set()
    for at, key, _, _ in rows:
        if step:
            if at > first * slide - length:
                found.add((key, math.ceil(at / step)))
            continue
        end = max(first, math.ceil(at / slide))
        while end * slide - length < at:
            found.add((key, end))
            end += 1
    return len(found)


WINDOWS: list[dict[str, Any]] = [
    {"policy": "time", "size_s": 2.0},
    {"policy": "time", "size_s": 3.0, "slide_s": 1.0},
    {"policy": "time", "size_s": 1.0, "slide_s": 0.3},
    {"policy": "count", "size_records": 120},
    {"policy": "count", "size_records": 100, "slide_records": 30},
]


@pytest.mark.parametrize("window_state", ["accumulators", "slices"])
@tried(max_examples=12, deadline=None)
@given(st.sampled_from(WINDOWS), st.integers(1, 200), st.floats(20.0, 300.0), st.integers(0, 99))
def test_accumulators_are_counted_as_by_hand(
    window_state: str, window: dict[str, Any], groups: int, rate_per_s: float, seed: int
) -> None:
    """At any time; and the bytes are those of so many accumulators."""
    world = world_of(job(window, groups, rate_per_s, window_state), RunSettings(horizon_s=10.0, seed=seed))
    logic = world.tasks["w"][0].logic.part(0)
    for at_s in np.random.default_rng(seed).uniform(0.0, 10.0, 12).cumsum() / 8:
        world.advance(float(at_s))
        if not world.tasks["w"][0].timers_due():
            assert logic.accumulators() == by_hand(logic, world.memory)
            assert logic.held_bytes() == logic.accumulators() * ACCUMULATOR
            (keys, each), *_ = logic.held_keys()
            assert len(keys) * each == logic.held_bytes()


def test_an_accumulator_a_key_and_open_window() -> None:
    """Ten keys, each seen in each second: 10 accumulators in a tumbling window, 10 in each of 5 open windows; as slices
    10 for each of the 5 seconds that an open window still needs."""
    for window_state in ("accumulators", "slices"):
        for window, count in (({"size_s": 10.0}, 10), ({"size_s": 5.0, "slide_s": 1.0}, 50)):
            constant = {"law": "constant", "rate_per_s": 200.0}
            made = job({"policy": "time", **window}, 10, constant, window_state)
            world = world_of(made, RunSettings(horizon_s=30.0, seed=1))
            world.advance(13.0 - 1e-6)
            assert world.tasks["w"][0].logic.held_bytes() == count * ACCUMULATOR


def test_what_accumulators_hold_is_of_their_types() -> None:
    """A mean is a sum and a count; a string key is as long as a string; a sketch has its own size; a function that
    needs records holds them."""
    window = {"policy": "time", "size_s": 10.0}
    sizes: dict[str, tuple[dict[str, Any], float | None]] = {
        "mean": ({"function": "mean"}, 4 + 16 + 44),
        "string": ({"group_by": "string"}, 16 + 8 + 44),
        "sketch": ({"accumulator_bytes": 4096}, 4096 + 44),
        "no key": ({"group_by": None}, 8 + 44),
        "records": ({"window_state": "records"}, None),
    }
    for more, size in sizes.values():
        made = job(window, 1, 100.0, "accumulators", **more)
        assert made.engine.accumulator_bytes_of(made.query.operator("w")) == size


@pytest.mark.parametrize("window_state", ["accumulators", "slices"])
def test_results_are_those_of_records(window_state: str) -> None:
    """Of all that a run says, only the size of state differs."""
    for window in WINDOWS:
        runs = [simulated(job(window, 40, 150.0, each), horizon_s=12.0) for each in (window_state, "records")]
        rows = [
            [{key: value for key, value in row.items() if key != "stateBytes"} for row in run.operator_rows]
            for run in runs
        ]
        assert rows[0] == rows[1]


@contextmanager
def compared() -> Iterator[list[int]]:
    """Compares all windows with counting by hand, whenever memory is measured. Gives the numbers that were found."""
    found, update = list[int](), HostMemory.update

    def look(self: HostMemory) -> bool:
        for task in self.tasks:
            for logic in task.logic.steps:
                if isinstance(logic, WindowLogic) and not task.timers_due():
                    assert logic.accumulators() == by_hand(logic, logic.memory)
                    found.append(logic.accumulators())
        return update(self)

    with patch.object(HostMemory, "update", look):
        yield found


@pytest.mark.parametrize("key_groups", [None, 16])
@pytest.mark.parametrize("window_state", ["accumulators", "slices"])
@pytest.mark.parametrize("how", ["live", "restart"])
def test_accumulators_are_exact_after_changes(window_state: str, how: str, key_groups: int | None) -> None:
    """A failure, a rescaling out and one in, with state that moves or is read from a savepoint."""
    window = {"policy": "time", "size_s": 4.0, "slide_s": 1.5}
    operator = {"kind": "aggregate", "name": "w", "function": "sum", "group_by": "int", "groups": 60, "window": window}
    host = {"cpu_percent": 400, "ram_mb": 8000, "bandwidth_mbps": 1000, "latency_ms": 0.1}
    made = deployment(
        [source(), {**operator, "key_groups": key_groups}, sink()],
        [("source", "w"), ("w", "sink")],
        {"source": 150.0},
        hosts=[{"name": name, **host} for name in ("h", "g")],
        placement={"w": ["h", "g"]},
        partitioning={"w": "hash", "sink": "rebalance"},
        engine={**dict(engine(window_state)), "rescaling": {"how": how, "redeploy_s": 0.5}},
    )
    events = [
        {"kind": "failure", "host": "g", "at_s": 11.0, "recover_after_s": 2.0},
        {"kind": "scale", "operator": "w", "placement": ["h", "g", "h"], "at_s": 21.3},
        {"kind": "scale", "operator": "w", "placement": ["g"], "at_s": 31.1},
    ]
    scenario = parse(Scenario, {**dict(made), "events": events, "run": {"horizon_s": 42.0, "seed": 4}})
    with compared() as found:
        simulate(scenario)
    assert len(found) > 60 and sum(found) > 1000


def test_storm_keeps_records_and_flink_does_not() -> None:
    """As their profiles say; written out, a profile from before holds records as it did."""
    assert (STORM.window_state, FLINK.window_state) == ("records", "accumulators")
    before = {
        key: value for key, value in FLINK.model_dump().items() if key not in ("window_state", "accumulator_bytes")
    }
    assert parse(EngineProfile, before).window_state == "records"
    assert "window_state" not in STORM.model_dump()


def test_slices_are_the_longest_that_windows_can_share() -> None:
    """As Flink's slice assigners: the greatest common divisor of size and slide."""
    made = job({"policy": "time", "size_s": 10.0, "slide_s": 4.0}, 5, 1.0, "slices")
    assert slice_of(made.query.operator("w").window) == 2.0  # type: ignore[union-attr]


def test_sessions_hold_accumulators() -> None:
    """In Flink an open session is an accumulator, however large its records are."""
    sizes = {}
    for window_state in ("accumulators", "records"):
        operator = {"kind": "session", "name": "w", "gap_s": 2.0, "keys": 50}
        world = world_of(chain([operator], 60.0, engine=engine(window_state)), RunSettings(horizon_s=9.0))
        world.advance(8.0)
        logic = world.tasks["w"][0].logic.part(0)
        sizes[window_state] = logic.held_bytes() / logic.held()
    assert sizes == {"accumulators": ACCUMULATOR, "records": FLINK.input_bytes(world.job.query, "w")}


@pytest.mark.parametrize("window_state", ["accumulators", "slices", "records"])
def test_the_rate_model_counts_as_many_as_runs(window_state: str) -> None:
    """Just before evaluations, on average, and those that records of the last 2 s change: within 1 %, or 4 standard
    errors of the run's means. An aggregate that needs records has copies of them in Flink."""
    rate, groups = 60.0, 300
    windows = [
        ({"size_s": 12.0}, 12.0),
        ({"size_s": 12.0, "slide_s": 4.0}, 4.0),
        ({"size_s": 10.0, "slide_s": 3.0}, 3.0),
    ]
    for window, slide_s in windows[window_state == "records" :]:
        made = job({"policy": "time", **window}, groups, rate, "accumulators", window_state=window_state)
        arrays = JobArrays(compile(made))
        _, _, window_on, _, groups_on, _ = stacked(arrays, flow_at(arrays, {"source": np.array([rate])}))
        place = arrays.names.index("w")
        expected = [
            entries_on(arrays, window_on, groups_on, {}, since)[place][0]
            for since in (None, np.full_like(window_on, np.inf), np.full_like(window_on, 2.0))
        ]
        size = made.engine.accumulator_bytes_of(made.query.operator("w")) or made.engine.input_bytes(made.query, "w")
        world = world_of(made, RunSettings(horizon_s=400.0, seed=3))
        logic, found = world.tasks["w"][0].logic.part(0), list[list[float]]()
        for end_s in np.arange(2 * slide_s, 400.0 - slide_s, slide_s):
            if end_s < 24.0:
                continue
            row = [0.0, 0.0, 0.0]
            for at_s in end_s - slide_s * (1.0 - (np.arange(8) + 0.5) / 8):
                world.advance(float(at_s))
                row[1] += logic.held_bytes() / size / 8
                row[2] += logic.changed_bytes(round(2.0 * rate)) / size / 8
            world.advance(float(end_s) - 1e-6)
            row[0] = logic.held_bytes() / size
            found.append(row)
        errors = np.std(found, axis=0, ddof=1) / math.sqrt(len(found))
        apart = np.abs(np.mean(found, axis=0) - expected)
        assert (apart < np.maximum(0.01 * np.array(expected), 4.0 * errors)).all()


def test_an_hourly_sum_fits_in_memory_as_a_minute_does() -> None:
    """2,000 keys: as many accumulators in a window of an hour as of a minute; records would fill the memory."""
    used = {}
    for size_s in (60.0, 3600.0):
        for window_state in ("accumulators", "records"):
            made = job({"policy": "time", "size_s": size_s}, 2000, 2000.0, window_state)
            used[size_s, window_state] = held_mb(made)
    assert used[60.0, "accumulators"] == pytest.approx(2000 * ACCUMULATOR / 1e6, rel=1e-6)
    assert used[3600.0, "accumulators"] == pytest.approx(used[60.0, "accumulators"], rel=1e-6)
    assert used[3600.0, "records"] == pytest.approx(2000.0 * 3600.0 * 44 / 1e6, rel=1e-6)


@pytest.mark.parametrize("time", ["processing", "event"])
def test_checkpoints_and_savepoints_of_an_hour_are_its_accumulators(time: str) -> None:
    """Of 2,000 keys, those that came: in a checkpoint at 9 s, a savepoint at 10 s, and in what restarts from it."""
    window = {"policy": "time", "size_s": 3600.0, "time": time}
    made = job(window, 2000, 1000.0, "accumulators", key_groups=128)
    out = {"kind": "scale", "operator": "w", "placement": ["h", "h"], "at_s": 10.0}
    more = {"checkpoints": {"first_s": 9.0, "interval_s": 60.0}, "run": {"horizon_s": 21.0, "seed": 1}, "events": [out]}
    rows = simulate(parse(Scenario, {**dict(made), **more})).event_rows
    sizes = {row["kind"]: row["bytes"] for row in rows}
    for kind, at_s in (("checkpoint", 9.0), ("scale", 10.0)):
        missing = 2000 * math.exp(-at_s / 2)
        assert abs(sizes[kind] / ACCUMULATOR - (2000 - missing)) < 4 * math.sqrt(missing)


def held_mb(made: Deployment) -> float:
    """Megabytes of state that the rate model sees, without the objects around it."""
    work = PlacementCoefficients.of(made).operators
    return float(work.held_mb.sum()) / made.engine.memory.object_overhead
