"""Checkpoints: what they keep and cost, and how long they take."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twin.changing import STATE, job
from tests.twin.checkpointed import failures, hosts, lines, meeting, run, steady, taken
from tests.twin.worlds import chain, deployment, joined, simulated, source
from twin.change import checkpoint
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.profiles import STORM
from twin.spec import parse
from twin.workload import touched

# checkpoints ---------------------------------------------------------------------------------------------------------
# Costs of checkpoints by arithmetic: barriers, alignment, upload, and results that wait for them.


@pytest.mark.parametrize("mode", ["aligned", "unaligned"])
def test_who_has_one_input_waits_for_nobody(mode: str) -> None:
    rows = taken(run(lines(), checkpoints={"mode": mode}))
    assert [row["at_s"] for row in rows] == [5, 10, 15]
    assert [(row["alignment_s"], row["put_aside"]) for row in rows] == [(0, 0)] * 3


@pytest.mark.parametrize("late_ms", [500.0])
def test_who_has_two_waits_for_the_later_barrier(late_ms: float) -> None:
    """With two inputs a task puts one's records aside until the later barrier; unaligned, late ones are in the
    checkpoint."""
    job, late_s = meeting(late_ms), late_ms / 1e3
    aligned = taken(run(job))
    assert [row["alignment_s"] for row in aligned] == pytest.approx([late_s] * 3, abs=0.001)
    assert [row["put_aside"] for row in aligned] == pytest.approx([400 * late_s] * 3, abs=25)
    overtaking = taken(run(job, checkpoints={"mode": "unaligned"}))
    assert [row["put_aside"] for row in overtaking] == [0] * 3
    size = overtaking[0]["flying_bytes"] / (100 * late_s)
    assert [row["flying_bytes"] for row in overtaking] == pytest.approx([overtaking[0]["flying_bytes"]] * 3, rel=0.15)
    assert 10 < size < 200


def test_while_it_waits_a_sender_stands_still_once_the_channel_has_its_share() -> None:
    """While barriers are aligned, a sender stands still once the channel holds 100 records, and the job goes on."""
    result = run(meeting(room=100, late_ms=1000))
    rows = taken(result)
    assert len(rows) == 3
    assert all(100 <= row["put_aside"] <= 101 for row in rows)
    waits = [row["backPressuredTimeMsPerSecond"] for row in result.operator_rows if row["operator"] == "fast"]
    assert max(waits) > 500
    assert result.metrics.records_out == pytest.approx(20 * 500 - 100, abs=5)


@pytest.mark.slow
def test_alignment_makes_the_fast_input_older() -> None:
    """Alignment for half a second every five delays a tenth of the fast input's records by a quarter second."""
    late = run(meeting()).metrics.processing_latency_s
    overtaken = run(meeting(), checkpoints={"mode": "unaligned"}).metrics.processing_latency_s
    assert late is not None and overtaken is not None
    per_checkpoint = 400 * 0.5 * 0.25
    assert late.mean - overtaken.mean == pytest.approx(3 * per_checkpoint / (20 * 500), rel=0.1)


def test_a_checkpoint_that_can_never_be_complete_is_refused() -> None:
    with pytest.raises(BadInput, match="none is ever complete; give a longer timeout_s"):
        run(lines(), checkpoints={"async_ms": 999.5, "timeout_s": 1.0})


# between two records ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["aligned", "unaligned"])
@pytest.mark.parametrize("where", ["source", "m", "sink"])
def test_a_barrier_waits_for_the_record_in_service(where: str, mode: str) -> None:
    """With a record of 1 s every 1.25 s, at 0, 1.25, ... s, checkpoints at 5.1, 6.1, ... s wait for what is left."""
    given = {"sync_ms": 0.0, "mode": mode, "interval_s": 1.0, "first_s": 5.1}
    rows = taken(run(_busy_for_a_second(where), checkpoints=given, noise=False))
    for first in (0, 5):
        took_s = [row["end_s"] - row["at_s"] for row in rows[first : first + 5]]
        assert took_s == pytest.approx([0.9, 0.0, 0.15, 0.4, 0.65], abs=1e-3)
    assert [row["alignment_s"] for row in rows] == [0.0] * len(rows)


def _busy_for_a_second(where: str) -> Deployment:
    """Job source -> m -> sink, one of which works for 1 s on each record, and the others for no time."""
    kinds = {"m": "map", "sink": "sink"}
    works = [{"kind": kind, "name": name, "service_time_s": 1.0 * (name == where)} for name, kind in kinds.items()]
    return deployment(
        [source(service_time_s=1.0 * (where == "source")), *works],
        [("source", "m"), ("m", "sink")],
        {"source": steady(0.8)},
    )


# upload --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", [{"storage": "h3"}, {"storage_mbps": 50.0}])
def test_a_checkpoint_takes_as_long_as_its_bytes(storage: dict[str, Any]) -> None:
    """A checkpoint takes as long as its 8 MB over a card, or into a store: never less, and little more."""
    bytes_per_s = storage.get("storage_mbps", 100.0) * 1e6 / 8
    for row in taken(run(job(**STATE), checkpoints=storage | {"sync_ms": 2.0})):
        least_s = row["bytes"] / bytes_per_s
        assert least_s <= row["end_s"] - row["at_s"] <= least_s + 0.06
        assert row["bytes"] == row["state_bytes"] > 8e6
        assert row["sync_cpu_s"] == pytest.approx(5 * 2e-3)


@pytest.mark.slow
def test_uploads_and_records_share_the_network() -> None:
    """Results that leave during an upload of state are older by what is before them on the card."""
    free, loaded = (
        run(job(**STATE), checkpoints=given, horizon_s=10) for given in ({}, {"storage": "h3", "interval_s": 1.0})
    )
    assert loaded.metrics.e2e_latency_s.mean > free.metrics.e2e_latency_s.mean + 0.003


def uploading(narrow: bool) -> Deployment:
    """Job whose results and 20 MB of state, every 10 s, leave over 50 Mbit/s: of a card, or of a link behind a fast
    one."""
    job = chain(
        [{"kind": "map", "name": "m", "service_time_s": 1e-4, "key_groups": 4, "state_bytes_per_group": 5e6}],
        300.0,
        hosts=[*hosts("a", bandwidth_mbps=50 if narrow else 10_000), *hosts("b", "store")],
        placement={"source": "a", "m": "a", "sink": "b"},
    ).model_dump(mode="json")
    job["query"]["operators"][1] |= {"record_bytes": 1000}
    if not narrow:
        ends = (("a", "switch", 50), ("switch", "b", 10_000), ("switch", "store", 10_000))
        links = [{"between": [one, other], "bandwidth_mbps": mbps, "latency_ms": 0} for one, other, mbps in ends]
        job["cluster"] |= {"links": links, "switches": ["switch"]}
    return parse(Deployment, job)


def uploaded(narrow: bool) -> tuple[float, float]:
    """Mean end-to-end latency, and duration of an upload, in seconds."""
    result = run(uploading(narrow), checkpoints={"interval_s": 10.0, "storage": "store"}, horizon_s=40.0)
    took_s = [row["end_s"] - row["at_s"] for row in taken(result)]
    assert len(took_s) == 3
    return result.metrics.value("e2e_latency_s"), float(np.mean(took_s))


def test_a_slow_link_shares_as_a_slow_card_does() -> None:
    """On a slow link or card records wait for a piece of state, not for all of it, which gets what they leave over."""
    (card_s, card_took_s), (link_s, link_took_s) = map(uploaded, (True, False))
    assert link_s == pytest.approx(card_s, rel=0.1)
    assert [card_took_s, link_took_s] == pytest.approx([3.2 / (1 - 300 * 0.16e-3)] * 2, rel=0.02)


@pytest.mark.parametrize("narrow", [True, False])
def test_smaller_pieces_of_state_would_change_little(narrow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record waits for half a piece of state in the mean while state leaves, a third of the time."""
    found, usual = {}, checkpoint.PIECE_S
    for piece_s in (2.5e-3, usual, 0.1):
        monkeypatch.setattr(checkpoint, "PIECE_S", piece_s)
        found[piece_s] = uploaded(narrow)
    (less_s, less_took_s), (usual_s, took_s), (more_s, _) = found.values()
    assert usual_s - less_s == pytest.approx((usual - 2.5e-3) / 6, rel=0.3)
    assert more_s - usual_s == pytest.approx((0.1 - usual) / 6, rel=0.2)
    assert took_s == pytest.approx(less_took_s, rel=0.01)


def test_an_increment_is_what_came_since() -> None:
    """An increment is what came since the last checkpoint, of 400 records in each window; never more than all."""
    window = {"policy": "count", "size_records": 400, "slide_records": 40}
    counting = job(rate=steady(400), window=window)
    whole, increments = (
        taken(run(counting, checkpoints={"interval_s": 1.0, "state": state}, horizon_s=10))
        for state in ("full", "incremental")
    )
    assert increments[0]["bytes"] == whole[0]["bytes"]
    shares = [part["bytes"] / all_["bytes"] for part, all_ in zip(increments, whole, strict=True)]
    assert max(shares) <= 1
    assert np.mean(shares[3:]) == pytest.approx(200 / 380, abs=0.06)


@given(st.integers(1, 40), st.integers(0, 60))
def test_keys_that_records_touch(keys: int, records: int) -> None:
    """Number of touched keys is that of the Markov chain over records."""
    expected = 0.0
    for _ in range(records):
        expected += (keys - expected) / keys
    assert touched(records, np.array([1 / keys]))[0] == pytest.approx(expected / keys)


def test_state_by_key_group_changes_with_its_keys() -> None:
    """With two records between checkpoints, of 20 keys, two keys change, or one if both records have the same."""
    slow = job(rate=steady(4), **STATE)
    rows = taken(run(slow, checkpoints={"interval_s": 0.5, "state": "incremental"}, horizon_s=40))
    assert rows[0]["bytes"] > 8e6
    assert np.mean([row["bytes"] for row in rows[4:]]) == pytest.approx(8e6 * (1 - (1 - 1 / 20) ** 2), rel=0.1)


# one after the other -------------------------------------------------------------------------------------------------


def test_the_next_one_waits_for_the_one_before_and_for_a_pause() -> None:
    slow = {"storage_mbps": 20.0, "interval_s": 2.0}  # 3.2 s each
    for pause_s in (0.0, 1.5):
        result = run(job(rate=20, **STATE), checkpoints=slow | {"min_pause_s": pause_s}, horizon_s=30)
        rows = taken(result)
        assert any("longer than the interval of 2 s" in each for each in result.warnings)
        assert rows[0]["at_s"] == 2
        assert len(rows) >= 5
        for one, other in pairwise(rows):
            assert other["at_s"] == pytest.approx(one["end_s"] + pause_s)


@pytest.mark.slow
def test_one_that_takes_too_long_is_given_up() -> None:
    """When a checkpoint times out, records put aside go on, and an exactly-once sink shows nothing."""
    given = {"timeout_s": 0.3}
    result = run(meeting(late_ms=500), checkpoints=given)
    failed = taken(result, "failed")
    assert [row["end_s"] - row["at_s"] for row in failed] == pytest.approx([0.3] * 3)
    assert "not complete after 0.3 s" in failed[0]["why"]
    assert result.metrics.records_out == pytest.approx(20 * 500 - 50, abs=60)
    assert any("checkpoints" in each and "0.3 s" in each for each in result.warnings)
    unseen = run(meeting(late_ms=500), checkpoints=given | {"sinks": "exactly-once"})
    assert unseen.metrics.records_out == 0


@pytest.mark.parametrize("interval_s", [2.0, 5.0])
def test_results_that_wait_for_a_commit_are_half_an_interval_older(interval_s: float) -> None:
    """Results that wait for a commit are older by half an interval and the checkpoint; all are seen, once."""
    given = {"interval_s": interval_s, "storage_mbps": 100.0}
    plain, exactly = (
        run(job(**STATE), checkpoints=given | {"sinks": sinks}, horizon_s=4 * interval_s + 2)
        for sinks in ("at-least-once", "exactly-once")
    )
    duration_s = np.mean([row["end_s"] - row["at_s"] for row in taken(exactly)])
    added_s = exactly.metrics.e2e_latency_s.mean - plain.metrics.e2e_latency_s.mean
    assert added_s == pytest.approx(interval_s / 2 + duration_s, abs=0.3)
    assert 0 < plain.metrics.records_out - exactly.metrics.records_out <= 40 * interval_s + 40 * 1.5


@pytest.mark.parametrize("engine", ["storm", "buffers"])
def test_barriers_that_begin_aligned_overtake_when_they_have_waited(engine: str) -> None:
    """Behind a sink that is too slow by far, aligned barriers wait for all that is before them; unaligned ones for one
    record of 10 ms, from the moment on at which they may overtake."""
    given = {"sync_ms": 0.0, "mode": "unaligned"}
    few = (
        {"channel_records": 50} if engine == "storm" else {"channel_records": None, "buffer_bytes": 500, "flush_s": 0.1}
    )
    memory = {} if engine == "storm" else {"network_memory": {}}
    job = chain(
        [{"kind": "map", "name": "m", "service_time_s": 1e-3}],
        steady(300.0),
        hosts=hosts("a", "b", "c"),
        placement={"source": "a", "m": "b", "sink": "c"},
    ).model_dump(mode="json")
    job["query"]["operators"][2] |= {"service_time_s": 0.01}
    job["engine"] = STORM.model_dump(mode="json") | {"name": engine} | few | memory
    overloaded = parse(Deployment, job)
    took_s = {}
    for timeout_s in (0.0, 0.1, 0.3):
        rows = taken(run(overloaded, checkpoints=given | {"aligned_timeout_s": timeout_s}, noise=False))
        took_s[timeout_s] = [row["end_s"] - row["at_s"] for row in rows]
        assert all(timeout_s <= each <= timeout_s + 0.0101 for each in took_s[timeout_s])
        assert all(row["flying_bytes"] > 0.0 for row in rows)
    aligned = taken(run(overloaded, checkpoints={"sync_ms": 0.0}, noise=False))
    assert min(row["end_s"] - row["at_s"] for row in aligned) > 0.4
    assert [row["flying_bytes"] for row in aligned] == [0.0] * len(aligned)


def test_what_was_put_aside_goes_on_when_barriers_overtake() -> None:
    """A barrier waits 0.2 s for one that comes after 0.5 s; then only what comes before that is in the checkpoint."""
    late = {"mode": "unaligned", "aligned_timeout_s": 0.2}
    rows, overtaking = (taken(run(meeting(500), checkpoints=given)) for given in (late, {"mode": "unaligned"}))
    assert [row["end_s"] - row["at_s"] for row in rows] == pytest.approx([0.5] * 3, abs=0.003)
    assert [row["put_aside"] for row in rows] == pytest.approx([400 * 0.2] * 3, abs=2)
    shares = [one["flying_bytes"] / all_["flying_bytes"] for one, all_ in zip(rows, overtaking, strict=True)]
    assert shares == pytest.approx([0.6] * 3, abs=0.06)


def test_several_are_under_way_at_a_time() -> None:
    """Two checkpoints of 3.2 s of upload each, every 2 s: a third begins when one of them is complete."""
    slow = {"storage_mbps": 20.0, "interval_s": 2.0, "concurrent": 2}
    rows = taken(run(job(rate=20, **STATE), checkpoints=slow, horizon_s=18.0))
    assert [row["at_s"] for row in rows[:4]] == pytest.approx([2.0, 4.0, 6.0, 8.4], abs=0.1)
    assert [row["end_s"] for row in rows[:4]] == pytest.approx([5.2, 8.4, 11.6, 14.8], abs=0.2)


def test_too_many_that_time_out_restart_the_job() -> None:
    """The second checkpoint in a row that times out, at 10.3 s, takes the job down for 10 s. Two more do so
    again."""
    given = {"timeout_s": 0.3, "tolerated_failures": 1}
    failed = failures(run(meeting(late_ms=500), checkpoints=given, horizon_s=40.0))
    assert [row["at_s"] for row in failed] == pytest.approx([10.3, 25.6])
    assert [row["end_s"] - row["at_s"] for row in failed] == pytest.approx([10.0] * 2)
    assert "2 checkpoints in a row timed out" in failed[0]["why"]
    assert not failures(run(meeting(late_ms=500), checkpoints={"timeout_s": 0.3}))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, ("unaligned ones", "incremental ones", "tolerated_failures=0")),
        ({"mode": "unaligned"}, ("incremental ones", "tolerated_failures=0")),
        ({"state": "incremental"}, ("unaligned ones", "tolerated_failures=0")),
        ({"tolerated_failures": 9}, ("unaligned ones", "incremental ones")),
    ],
)
def test_what_would_help_checkpoints_that_time_out_is_what_they_have_not(
    given: dict[str, Any], said: tuple[str, ...]
) -> None:
    """An upload of 3.2 s has 1 s: the warning names the remedies that are not yet chosen, and no other."""
    slow = {"storage_mbps": 20.0, "interval_s": 2.0, "timeout_s": 1.0}
    result = run(job(rate=20, **STATE), checkpoints=slow | given, horizon_s=10)
    (line,) = (each for each in result.warnings if "were given up" in each)
    names = ("unaligned ones", "incremental ones", "tolerated_failures=0")
    assert tuple(name for name in names if name in line) == said


# what they leave as it was -------------------------------------------------------------------------------------------


def test_checkpoints_that_cost_nothing_change_nothing() -> None:
    """Checkpoints without costs (one input each, no CPU, no upload) change no result, to the last bit."""
    assert (
        run(lines(), checkpoints={"sync_ms": 0.0}).metrics == simulated(lines(), horizon_s=20.0, period_s=1.0).metrics
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"storage": "h9"}, "unknown host 'h9'"),
        ({"mode": "alined"}, "aligned"),
        ({"interval_s": 0}, "interval_s"),
        ({"storage_mbps": 0}, "storage_mbps"),
        ({"intervall_s": 1}, "interval_s"),
        ({"failover": "regions"}, "region"),
        ({"aligned_timeout_s": 1}, "mode=unaligned"),
        ({"concurrent": 2, "mode": "unaligned"}, "one at a time"),
        ({"concurrent": 2, "min_pause_s": 1}, "min_pause_s=0"),
        ({"tolerated_failures": -1}, "tolerated_failures"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        run(lines(), checkpoints=given)


def test_a_common_queue_has_no_barriers() -> None:
    job = chain([{"kind": "map", "name": "m"}], 10, placement={"m": ["h", "h"]}, partitioning={"m": "shared"})
    with pytest.raises(BadInput, match="share one queue"):
        run(job)


def test_a_system_outside_takes_nothing_back() -> None:
    outside = {"kind": "external-sink", "name": "sink", "rate_per_s": 100}
    job = deployment([source(), outside], [("source", "sink")], {"source": 10})
    assert len(taken(run(job))) == 3
    with pytest.raises(BadInput, match="takes nothing back"):
        run(job, checkpoints={"sinks": "exactly-once"})


def test_a_crashed_job_takes_no_checkpoints() -> None:
    """A job that is out of memory at 1 s begins no checkpoint after it, though barriers and uploads could go on."""
    full = chain(
        [{"kind": "aggregate", "name": "a", "window": {"policy": "time", "size_s": 60}, "service_time_s": 1e-6}],
        steady(5000.0),
        hosts=[*hosts("near", "store"), *hosts("small", ram_mb=302)],
        placement={"source": "near", "a": "small", "sink": "near"},
    )
    result = run(full, checkpoints={"interval_s": 0.8})
    assert result.crashed
    assert [row["at_s"] for row in result.event_rows] == [0.8]


# durations -----------------------------------------------------------------------------------------------------------
# How long checkpoints take at five loads, aligned and unaligned, beside a simulation of two queues that meet in one.
#
# The force below knows of queues, of a barrier that is taken between two records, and nothing of the simulator.


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
