"""Bytes of state by counting, of every aggregate and join over windows of either time, on the heap and in RocksDB."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.twin.event_jobs import job as event_job
from tests.twin.event_jobs import logic_of
from tests.twin.worlds import deployment, simulated, sink, source, world_of
from twin.job import compile
from twin.profiles import FLINK, EngineProfile
from twin.rates.arrays import JobArrays
from twin.rates.coefficients import PlacementCoefficients
from twin.run import Run
from twin.spec import parse
from twin.windows import EventWindow, covering
from twin.world.world import World

RATE, KEYS, BESIDE = 100.0, 2, 44
"""Records a second, keys that all come in each quarter of one, and bytes of an accumulator beside its key and value."""
RECORD = 52.0
WINDOWS: dict[str, dict[str, float]] = {
    "tumbling": {"size_s": 4.0},
    "sliding": {"size_s": 4.0, "slide_s": 1.0},
    "uneven": {"size_s": 4.0, "slide_s": 1.5},
}
AGGREGATES: dict[str, tuple[dict[str, Any], float]] = {
    "sum": ({}, 4 + 8 + BESIDE),
    "count": ({"group_by": "string", "window_state": "slices"}, 16 + 8 + BESIDE),
    "mean": ({}, 4 + 16 + BESIDE),
    "avg": ({"window_state": "slices"}, 4 + 16 + BESIDE),
    "min": ({"accumulator_bytes": 4096}, 4096 + BESIDE),  # a sketch, as of distinct values
    "max": ({"window_state": "records"}, RECORD),  # a median
}
"""Functions, what else is said of them, and the bytes of an entry."""


def one_by_one(**more: Any) -> EngineProfile:
    """Flink whose records wait for no others."""
    channels = {"buffer_bytes": None, "flush_s": None, "network_memory": None, "channel_records": 1000}
    return parse(EngineProfile, {**dict(FLINK), **channels, **more})


def open_windows(window: dict[str, float], time: str, at_s: float) -> list[float]:
    """Beginnings of the windows that are open. Over event time, one begins at 0; over processing time, one ends."""
    size, slide = window["size_s"], window.get("slide_s", window["size_s"])
    phase = 0.0 if time == "event" else -size % slide
    starts = phase + slide * np.arange(math.floor(-size / slide), math.ceil(at_s / slide) + 1)
    return [float(start) for start in starts if start <= at_s < start + size]


def entries(holds: str, window: dict[str, float], time: str, at_s: float, overlap: bool) -> float:
    """Accumulators, or records, in all open windows."""
    starts = open_windows(window, time, at_s)
    if holds == "records":
        return RATE * (sum(at_s - start for start in starts) if overlap else at_s - min(starts))
    if holds == "accumulators":
        return KEYS * len(starts)
    slice_s = math.gcd(round(10 * window["size_s"]), round(10 * window.get("slide_s", window["size_s"]))) / 10
    return KEYS * (math.floor(at_s / slice_s) + 1 - round(min(starts) / slice_s))


def everything(time: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Function and window of each operator, and the operator."""
    for name, window in WINDOWS.items():
        over = {"policy": "time", "time": time, **window}
        for function, (more, _) in AGGREGATES.items():
            given = {"group_by": "int", "groups": KEYS, "function": function, "window": over, **more}
            yield function, name, {"kind": "aggregate", "service_time_s": 0, **given}
        yield "join", name, {"kind": "join", "service_time_s": 0, "amplification": 0, "window": over}
    yield "session", "session", {"kind": "session", "gap_s": 0.8, "keys": KEYS, "service_time_s": 0, "time": time}


def run(time: str, backend: str) -> Run:
    """All of these operators behind the same two sources, whose records come one by one."""
    operators = [each | {"name": f"{function}-{name}"} for function, name, each in everything(time)]
    ways = [(side, each["name"]) for each in operators for side in ("a", "b") if each["kind"] == "join" or side == "a"]
    what = deployment(
        [*(source(each, record_bytes=RECORD, service_time_s=1e-3) for each in ("a", "b")), *operators, sink()],
        [*ways, *((each["name"], "sink") for each in operators)],
        {each: {"law": "constant", "rate_per_s": RATE} for each in ("a", "b")},
        hosts=[{"name": "h", "cpu_percent": 6400, "ram_mb": 16000, "bandwidth_mbps": 10_000, "latency_ms": 0}],
        engine=one_by_one(state_backend=backend),
    )
    return simulated(what, horizon_s=8.0, period_s=0.25, noise=False)


@pytest.mark.parametrize(("time", "backend"), [("processing", "heap"), ("event", "rocksdb")])
def test_state_is_as_large_as_counting_says(time: str, backend: str) -> None:
    """At the quarters of each second, when all watermarks have passed the ends of windows. In Flink a window of records
    that overlaps others has copies of them."""
    found = run(time, backend)
    for function, name, operator in everything(time):
        rows = [row for row in found.operator_rows if row["operator"] == f"{function}-{name}"]
        holds = "records" if function == "join" else operator.get("window_state", "accumulators")
        sides = 1 + (function == "join")
        for row in [row for row in rows[20:] if row["end_s"] % 0.5 == 0.25]:
            if name == "session":
                assert row["stateBytes"] == KEYS * (4 + 8 + BESIDE)
                continue
            expected = sides * entries(holds, WINDOWS[name], time, row["end_s"], overlap=True)
            apart = abs(row["stateBytes"] / (RECORD if function == "join" else AGGREGATES[function][1]) - expected)
            assert apart <= (sides * len(open_windows(WINDOWS[name], time, row["end_s"])) if holds == "records" else 0)


KEPT = {"records": RECORD, "copies": RECORD, "accumulators": 56.0, "slices": 56.0}
"""Bytes of an entry of a sum, by what windows hold."""


def summed(holds: str, window: dict[str, float], read: dict[str, float], **run: Any) -> World:
    """World of sums of 60 rare keys over event time, whose windows hold this."""
    over = {"policy": "time", "time": "event", **window}
    kind = {"kind": "aggregate", "name": "counts", "function": "sum", "group_by": "int", "groups": 60, "window": over}
    what = event_job(
        [source(record_bytes=RECORD, **read), kind | {"window_state": holds.replace("copies", "records")}, sink()],
        engine={**dict(FLINK), "window_state": "records" if holds == "records" else "accumulators"},
        **run,
    )
    return world_of(what, what.run)


def by_force(world: World, logic: Any, window: EventWindow, lateness_us: int, holds: str, last: int = 0) -> int:
    """Entries of a subtask, from the records that producers sent and it took: copies of records, records, pairs of a
    key and an open window, or of a key and a slice of one. last: number of records that count; 0: all."""
    notes = world.notes["counts"].audit()
    taken, slice_us = set(logic.notes.kept[-last:]), math.gcd(window.length_us, window.every_us)
    found: list[tuple[int, int]] = []
    for at_us, key, digest in notes.came:
        spans = [each for each in covering(window, at_us) if each.end + lateness_us > logic.watermark_us]
        if digest in taken and spans:
            slice_ = (at_us - window.start_us) // slice_us
            places = [each.start for each in spans] if holds in ("copies", "accumulators") else [slice_]
            found += [(key, place) for place in places]
    return len(found if holds in ("records", "copies") else set(found))


@pytest.mark.parametrize("seed", range(6))
def test_state_over_event_time_is_that_of_the_open_windows(seed: int) -> None:
    """Of rare keys, records that are late, and windows that begin anywhere: at any time, of each of two subtasks."""
    drawn = Random(seed)
    size_s = drawn.choice([1.2, 2.0, 3.0])
    lateness_s = drawn.choice([0.0, 0.7])
    window = {"size_s": size_s, "slide_s": size_s / drawn.choice([1, 2, 3, 4]), "offset_s": drawn.choice([0.0, 0.3])}
    counted = 0
    for holds, size in KEPT.items():
        late = {"allowed_lateness_s": lateness_s}
        read = {"disorder_s": 2.0, "slack_s": 0.5}
        world = summed(holds, window | late, read, placement={"counts": ["h0", "h1"]})
        for at_s in sorted(drawn.uniform(2.0, 9.0) for _ in range(3)):
            world.advance(at_s)
            for task in world.tasks["counts"]:
                logic = logic_of(task)
                spans = EventWindow(length_s=size_s, every_s=window["slide_s"], start_s=window["offset_s"])
                count = by_force(world, logic, spans, round(lateness_s * 1e6), holds)
                assert task.logic.held_bytes() == count * size
                odd = logic.bytes_of(lambda key: key % 2 == 1)
                assert odd + logic.bytes_of(lambda key: key % 2 == 0) == count * size
                counted += count
    assert counted > 200


@pytest.mark.parametrize("holds", KEPT)
def test_an_increment_over_event_time_is_what_the_last_records_changed(holds: str) -> None:
    """Of records that come in order: each of them, or on average within 4 standard errors the accumulators of their
    keys."""
    world = summed(holds, {"size_s": 2.0, "slide_s": 0.5}, {}, rate_per_s=100.0, horizon_s=20.0)
    (task,), spans, found = world.tasks["counts"], EventWindow(length_s=2.0, every_s=0.5), list[float]()
    for at_s in np.arange(3.0, 20.0, 1.37):
        world.advance(float(at_s))
        changed = by_force(world, logic_of(task), spans, 0, holds, last=80)
        found.append(task.logic.changed_bytes(80) / KEPT[holds] - changed)
    error = np.std(found, ddof=1) / math.sqrt(len(found))
    assert abs(np.mean(found)) <= 4.0 * error
    assert changed > 50 and (error == 0.0) == (holds in ("records", "copies"))


def test_the_rate_model_counts_as_many_over_event_time() -> None:
    """As a run has on average just before windows end, within 1 % or 4 standard errors."""
    over = {"policy": "time", "time": "event", "size_s": 12.0, "slide_s": 4.0}
    keyed = {"kind": "aggregate", "function": "sum", "group_by": "int", "groups": 300, "window": over}
    computes = {"kind": "compute", "keys": 300, "key_groups": 16}
    kinds: dict[str, dict[str, Any]] = {
        "accumulators": keyed,
        "slices": keyed | {"window_state": "slices"},
        "copies": keyed | {"window_state": "records"},
        "tumbling": keyed | {"window": over | {"slide_s": 12.0}},
        "late": keyed | {"window": over | {"slide_s": 12.0, "allowed_lateness_s": 24.0}},
        "late-slices": keyed | {"window": over | {"allowed_lateness_s": 8.0}, "window_state": "slices"},
        "panes": computes | {"windows": [{"length_s": 12.0, "every_s": 4.0}]},
        "whole": computes | {"windows": [{"length_s": 12.0}]},
    }
    operators = [each | {"name": name, "service_time_s": 0} for name, each in kinds.items()]
    made = deployment(
        [source(service_time_s=0), *operators, sink()],
        [edge for name in kinds for edge in (("source", name), (name, "sink"))],
        {"source": {"law": "poisson", "rate_per_s": 60.0}},
        hosts=[{"name": "h", "cpu_percent": 6400, "ram_mb": 16000, "bandwidth_mbps": 10_000, "latency_ms": 0}],
        engine=one_by_one(),
    )
    found = simulated(made, horizon_s=120.0, period_s=4.0, seed=2)
    arrays, work = JobArrays(compile(made)), PlacementCoefficients.of(made).operators
    for name in kinds:
        last = 3 if name in ("tumbling", "late", "whole") else 1
        rows = [row["stateBytes"] for row in found.operator_rows if row["operator"] == name]
        sizes = np.array(rows[8::last])
        expected = work.held_mb[arrays.names.index(name)] * 1e6 / FLINK.memory.object_overhead
        error = sizes.std(ddof=1) / math.sqrt(len(sizes))
        assert abs(sizes.mean() - expected) < max(0.01 * expected, 4.0 * error)
