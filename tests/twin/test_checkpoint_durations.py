"""How long checkpoints take at five loads, aligned and unaligned, beside a simulation of two queues that meet in one.

The force below knows of queues, of a barrier that is taken between two records, and nothing of the simulator.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

import numpy as np
import pytest

from tests.twin.checkpointed import hosts, run, taken
from tests.twin.worlds import joined
from twin.deployment import Deployment
from twin.profiles import STORM
from twin.spec import parse

SERVICE_S, READ_S, SYNC_S, ASYNC_S, LATE_S = 0.005, 0.00113, 0.00417, 0.00331, 0.0619
"""CPU time of a record at the operator where both streams meet, and at a source; of a task at a checkpoint; time of
each upload; latency of the second source. No sum of some is one of others, so that nothing happens at once."""
RECORD_BYTES, STATE_BYTES, STORED_PER_S = 100.0, 2e5, 1e7
CHECKPOINTS_S = np.arange(0.5, 12.0)
HORIZON_S = 12.0
Item = tuple[float, int, bool]
"""When it reaches the queue, its source, and whether it is a barrier."""


def read(times_s: np.ndarray, side: int, late_s: float) -> tuple[list[Item], list[float]]:
    """What a source sends, and when it is done with each checkpoint."""
    sent, done_s, free_s = list[Item](), list[float](), 0.0
    due, came = deque(CHECKPOINTS_S.tolist()), deque(times_s.tolist())
    while due or came:
        if due and (not came or max(due[0], free_s) <= max(came[0], free_s)):
            at_s = max(due.popleft(), free_s)
            free_s = at_s + SYNC_S
            sent.append((at_s + late_s, side, True))
            done_s.append(free_s)
        else:
            free_s = max(came.popleft(), free_s) + READ_S
            sent.append((free_s + late_s, side, False))
    return sent, done_s


def aligned(items: list[Item]) -> list[tuple[float, float, int]]:
    """Of each checkpoint, when both barriers have had their turn, when its state is kept, and records on their way."""
    queue, aside, came, free_s = deque(items), list[Item](), set[int](), 0.0
    found = list[tuple[float, float, int]]()
    while queue:
        item = at_s, side, barrier = queue.popleft()
        if side in came:
            aside.append(item)
        elif not barrier:
            free_s = max(at_s, free_s) + SERVICE_S
        else:
            came.add(side)
            if len(came) == 2:
                free_s = max(at_s, free_s) + SYNC_S
                found.append((free_s - SYNC_S, free_s, 0))
                queue.extendleft(reversed(aside))
                aside, came = [], set()
    return found


def served(records: deque[Item], free_s: float, until_s: float) -> float:
    """Begins records up to a time; returns when the last one is done."""
    while records and max(records[0][0], free_s) <= until_s:
        free_s = max(records.popleft()[0], free_s) + SERVICE_S
    return free_s


def unaligned(items: list[Item]) -> list[tuple[float, float, int]]:
    """The same, where the first barrier is taken as soon as no record is in service, and passed on. On their way are
    records that were not begun by then and came before the barrier of their own side."""
    records = deque(item for item in items if not item[2])
    sides = [[at_s for at_s, side, barrier in items if barrier and side == each] for each in (0, 1)]
    free_s, found = 0.0, list[tuple[float, float, int]]()
    for both in zip(*sides, strict=True):
        free_s = served(records, free_s, min(both))
        first_s = max(min(both), free_s)
        flying = sum(at_s <= both[side] for at_s, side, _ in records)
        kept_s = first_s + SYNC_S
        free_s = served(records, kept_s, max(both))
        found.append((first_s, max(free_s, max(both)), flying))
    return found


@pytest.mark.parametrize("load", [0.2, 0.4, 0.6, 0.8, 0.95])
def test_durations_are_those_of_queues(load: float, tmp_path: Path) -> None:
    """To a microsecond; and records on their way to the last one. Sources get two records in three, and one."""
    drawn, rates, sides = np.random.default_rng(7), {}, []
    for side, (name, share, late_s) in enumerate([("near", 2 / 3, 0.0), ("far", 1 / 3, LATE_S)]):
        gaps_s = drawn.exponential(SERVICE_S / load / share, round(3 * HORIZON_S * load * share / SERVICE_S))
        times_s = np.array([0.0, *gaps_s.cumsum()])
        recording = tmp_path / f"{name}.csv"
        recording.write_text("time_s\n" + "\n".join(map(str, times_s)))
        rates[name] = {"law": "replay", "path": str(recording)}
        sides.append(read(times_s, side, late_s))
    items = sorted([*sides[0][0], *sides[1][0]])
    state = {"key_groups": 2, "state_bytes_per_group": STATE_BYTES / 2}
    job = joined(
        {"kind": "map", "name": "m", "service_time_s": SERVICE_S, "service_scv": 0, **state},
        rates,
        hosts=[*hosts("here", cpu_percent=800), *hosts("there", latency_ms=1000 * LATE_S)],
        placement={"near": "here", "far": "there", "m": "here", "sink": "here"},
        engine=STORM.model_dump(mode="json") | {"serialise_ns_per_byte": 0, "deserialise_ns_per_byte": 0},
    )
    made = job.model_dump(mode="json")
    for each in made["query"]["operators"][:2]:
        each |= {"service_time_s": READ_S, "service_scv": 0, "record_bytes": RECORD_BYTES}
    for mode, force in (("aligned", aligned), ("unaligned", unaligned)):
        given = {"mode": mode, "interval_s": 1.0, "first_s": 0.5, "sync_ms": 1000 * SYNC_S}
        given["async_ms"] = 1000 * ASYNC_S
        given["storage_mbps"] = STORED_PER_S * 8e-6
        rows = taken(run(parse(Deployment, made), checkpoints=given, horizon_s=HORIZON_S, noise=False))
        ends_s, flying = [], []
        for number, (passed_s, kept_s, count) in enumerate(force(items)):
            begun_s = max(kept_s, passed_s + SYNC_S + ASYNC_S)
            uploaded_s = begun_s + (STATE_BYTES + count * RECORD_BYTES) / STORED_PER_S
            ends_s.append(max(uploaded_s, *(done_s[number] + ASYNC_S for _, done_s in sides)))
            flying.append(count * RECORD_BYTES)
        assert len(rows) > 10
        assert [row["end_s"] for row in rows] == pytest.approx(ends_s[: len(rows)], abs=1e-6)
        assert [row["flying_bytes"] for row in rows] == flying[: len(rows)]
