"""Checkpoint barriers: what they overtake, what they wait for, and what a failure brings back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.twin.machine.runs import same_however
from tests.twin.machine.test_tiny_worlds import STEADY, engine, host, worker
from tests.twin.worlds import chain
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.spec import parse

SIZE = 80.0
"""Bytes of a record."""


def ran(mode: str, placement: dict[str, str], horizon_s: float = 3.0, **more: Any) -> Run:
    """Run of a map of 0.25 s, to which a record comes each 0.1 s, with one checkpoint at 1.02 s."""
    sizes = engine(record_bytes=SIZE, value_bytes={"ints": 0, "strings": 0, "doubles": 0})
    job = chain([worker(0.25)], STEADY, hosts=[host("a"), host("b")], placement=placement, engine=sizes)
    settings = RunSettings(horizon_s=horizon_s, period_s=horizon_s)
    costs = {"interval_s": 100.0, "first_s": 1.02, "mode": mode, "sync_ms": 0}
    scenario = parse(Scenario, {**dict(job), "run": settings, "checkpoints": costs, **more})
    return same_however(scenario)


def checkpoint(run: Run) -> dict[str, Any]:
    """What is known of the only checkpoint."""
    (found,) = [row for row in run.event_rows if row["kind"] == "checkpoint"]
    return {"takes_s": found["end_s"] - found["at_s"], **found["detail"]}


@pytest.mark.parametrize("sink", ["a", "b"])
def test_an_unaligned_barrier_overtakes_all_that_waits(sink: str) -> None:
    """Ten records came to the map by 1.02 s, of which three are done. The barrier waits for the fourth, until 1.1 s,
    and overtakes the other six; then it is at the sink at once."""
    found = checkpoint(ran("unaligned", {"source": "a", "work": "a", "sink": sink}))
    assert found["flying_bytes"] == 6 * SIZE
    assert found["takes_s"] == pytest.approx(0.08, abs=1e-6)


def test_an_aligned_barrier_waits_for_its_turn() -> None:
    """The tenth record is done at 0.1 + 10 * 0.25 s."""
    found = checkpoint(ran("aligned", {"source": "a", "work": "a", "sink": "a"}))
    assert found["flying_bytes"] == 0.0
    assert found["takes_s"] == pytest.approx(0.1 + 10 * 0.25 - 1.02)


def test_overtaken_records_are_served_again_after_a_failure() -> None:
    """At 2.02 s the job goes back to the checkpoint: the map, at 1.1 s, has still to serve six records, and the source,
    at 1.02 s, to read all that came since. After another 7 * 0.25 s, seven records have arrived, three of them again.
    """
    failure = {"kind": "failure", "host": "a", "at_s": 2.02, "recover_after_s": 0.1}
    run = ran("unaligned", {"source": "a", "work": "a", "sink": "a"}, 2.12 + 7.1 * 0.25, events=[failure])
    (row,) = [each for each in run.event_rows if each["kind"] == "failure"]
    assert row["detail"]["replayed"] == 10  # those of 1.1, ..., 2.0 s
    assert row["detail"]["duplicates"] == 3  # those that ended at 1.35, 1.6 and 1.85 s
    assert sum(each["numRecordsIn"] for each in run.operator_rows if each["operator"] == "sink") == 4 + 3 + 7
