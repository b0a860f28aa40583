"""Checkpoints that cost something, of jobs over event time: windows are whole, and once, whatever fails."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.twin.checkpointed import failures, taken
from tests.twin.event_jobs import compute, consolidate, ended, job, sink, source
from tests.twin.random_event_jobs import checkpointed_scenario, event_time_scenario
from twin.change import barriers
from twin.guards.conservation import ConservationError, emitted
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse

LATE = {"disorder_s": 0.3, "slack_s": 0.3}
FAILURE = {"kind": "failure", "host": "h1", "at_s": 4.7, "recover_after_s": 1.0}


def checkpointed(scenario: Scenario, **given: Any) -> Scenario:
    """Scenario with checkpoints every 2 s, from 2 s on."""
    return parse(Scenario, dict(scenario) | {"checkpoints": {"interval_s": 2.0, "first_s": 2.0} | given})


@pytest.mark.parametrize("mode", ["aligned", "unaligned"])
@pytest.mark.parametrize("combined", [False, True])
def test_windows_since_the_checkpoint_come_twice_and_alike(
    mode: str, combined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failure at 4.7 s back to 4 s, windows that ended in between, and no others, are duplicates."""
    windows = [{"length_s": 1, "every_s": 0.25}]
    chain = [source(**LATE), compute(partial_s=0.25), consolidate(windows=windows, combined=combined), sink()]
    run, world = ended(checkpointed(job(chain, events=[FAILURE]), mode=mode), monkeypatch)
    before, after = emitted(world.undone[0].audits["merge"])[0], emitted(world.audits["merge"])[0]
    again = {key for key in before if key[1] > 4_000_000 - 300_000}
    assert {end_us for _, end_us, _ in again} == {3_750_000, 4_000_000, 4_250_000}
    assert all(after[key] == held for key, held in before.items())
    assert failures(run)[0]["duplicates"] == len(again)
    assert len(emitted(world.audits["merge"])[1]) == 0


def test_results_of_windows_wait_for_the_checkpoint_that_has_them() -> None:
    """Windows of 1 s, which end at whole seconds, are seen with the checkpoint after them, at 2, 4, ... s: those that
    end in odd seconds a second later than those that end in even ones, and none twice."""
    chain = [source(), compute(windows=[{"length_s": 1}]), sink()]
    plain, exactly = (
        simulate(checkpointed(job(chain, horizon_s=9.5, rate_per_s=300.0), first_s=2.5, sinks=sinks))
        for sinks in ("at-least-once", "exactly-once")
    )
    assert plain.metrics.records_out == 9 * 12 and exactly.metrics.records_out == 8 * 12
    added_s = exactly.metrics.e2e_latency_s.mean - plain.metrics.e2e_latency_s.mean
    assert added_s == pytest.approx((1.5 + 0.5) / 2, abs=0.02)
    failed = simulate(
        checkpointed(job(chain, horizon_s=9.5, rate_per_s=300.0, events=[FAILURE]), first_s=2.5, sinks="exactly-once")
    )
    assert failed.metrics.records_out == exactly.metrics.records_out


def test_state_over_event_time_is_uploaded() -> None:
    """With 12 keys in a window of 9 s, a checkpoint at 4 s and later has 12 keys of state."""
    rows = taken(
        simulate(checkpointed(job([source(), compute(windows=[{"length_s": 9}], state_bytes_per_key=1e5), sink()])))
    )
    assert [row["state_bytes"] for row in rows[1:]] == pytest.approx([12e5] * (len(rows) - 1))


@pytest.mark.parametrize("seed", range(6))
def test_random_jobs_keep_all_laws(seed: int) -> None:
    simulate(checkpointed_scenario(Random(seed)))


@pytest.mark.parametrize("seed", range(3))
def test_random_changes_keep_all_laws(seed: int) -> None:
    given = {"interval_s": 0.3, "mode": ("aligned", "unaligned")[seed % 2], "sync_ms": 20.0}
    simulate(checkpointed(event_time_scenario(Random(seed)), first_s=0.3, **given))


# what a checkpoint must hold ------------------------------------------------------------------------------------------


def _far_and_near() -> Scenario:
    """A compute aligns the barriers of a source that is near and of one whose records take 0.4 s. After the failure,
    the way of the near one takes a second."""
    scenario = job(
        [source("near"), source("far"), compute(windows=[{"length_s": 0.2}]), sink()],
        [("near", "compute"), ("far", "compute"), ("compute", "sink")],
        placement={"near": "h0", "far": "h1", "compute": "ends"},
        events=[
            {"kind": "link-degradation", "at_s": 4.45, "host": "h0", "latency_factor": 500.0},
            {"kind": "failure", "host": "ends", "at_s": 4.5, "recover_after_s": 0.1},
        ],
        rate_per_s=300.0,
    )
    document = scenario.model_dump(mode="json")
    document["cluster"]["hosts"][1]["latency_ms"] = 400.0
    return checkpointed(parse(Scenario, document))


def test_watermarks_wait_for_barriers_as_records_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watermark behind a barrier is no part of the checkpoint, or records before it would be late after a failure."""
    simulate(_far_and_near())
    meet = barriers.Barriers.meet
    monkeypatch.setattr(barriers.Barriers, "meet", lambda self, item, *way: not item.mark and meet(self, item, *way))
    with pytest.raises(ConservationError, match="late"):
        simulate(_far_and_near())
