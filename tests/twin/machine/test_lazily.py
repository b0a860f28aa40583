"""Paths, keys and barriers that are made, numbered or dropped in time, and no sooner."""

from __future__ import annotations

import numpy as np
import pytest

from tests.twin.changing import job
from tests.twin.machine.runs import same_however
from tests.twin.worlds import chain, joined, world_of
from twin.operators.key_groups import KeyGroups
from twin.scenario import RunSettings, Scenario
from twin.spec import parse

SETTINGS = RunSettings(horizon_s=3.0, period_s=0.5, seed=3)


def test_paths_are_made_to_those_who_get_records() -> None:
    """Paths are made only to subtasks that get records: of eight with a key group each, three have keys."""
    keyed = {"kind": "aggregate", "name": "sums", "group_by": "int", "groups": 3, "key_groups": 8}
    keyed["window"] = {"policy": "time", "size_s": 0.5}
    world = world_of(chain([keyed], 200.0, placement={"sums": ["h"] * 8}), SETTINGS)
    world.advance(3.0)
    took = [place for place, task in enumerate(world.tasks["sums"]) if task.records_in]
    assert len(took) == 3
    (port,) = world.tasks["source"][0].ports
    assert np.flatnonzero(world.memory.blocks[port.here, "paths"]).tolist() == took


# keys ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("selective", [None, (0.01, 2)])
def test_each_key_is_of_one_key_group(selective: tuple[float, int] | None) -> None:
    """Keys are numbered from 0 on, and each is of the key group that it was drawn in."""
    groups = KeyGroups([], [0, 0, 0, 0], np.array([3.0, 0.0, 1.0, 6.0]), selective=selective)
    groups.number()
    drawn = {group: {groups.key_in(group, at) for at in np.linspace(0.0, 1.0, 200)} for group in (0, 2, 3)}
    assert all(groups.group_of(key) == group for group, keys in drawn.items() for key in keys)
    if selective is None:
        assert sorted(key for keys in drawn.values() for key in keys) == list(range(10))


def test_keys_are_numbered_before_anything_changes() -> None:
    """A join's keys are those of its initial shares, whenever the first record comes."""
    later = {"law": "steps", "steps": [{"at_s": 0.0, "rate_per_s": 0.0}, {"at_s": 1.0, "rate_per_s": 200.0}]}
    join = {"kind": "join", "name": "j", "key_groups": 4, "selectivity": 0.05, "service_time_s": 1e-4}
    made = joined(join | {"window": {"policy": "time", "size_s": 0.2}}, {"one": later, "other": later})
    skew = {"kind": "skew", "operator": "j", "key_groups": [0], "factor": 9.0, "at_s": 0.5}
    run = same_however(parse(Scenario, {**dict(made), "run": SETTINGS, "events": [skew]}))
    assert run.metrics.records_out > 0


# barriers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["aligned", "unaligned"])
def test_barriers_of_a_checkpoint_that_was_given_up_mean_nothing(mode: str) -> None:
    """Barriers of a checkpoint that was given up have no effect: records leave as without checkpoints."""
    slow = job(600, service_s=2e-3)
    given_up = {"interval_s": 0.2, "mode": mode, "timeout_s": 2e-3, "sync_ms": 0}
    run = same_however(parse(Scenario, {**dict(slow), "run": SETTINGS, "checkpoints": given_up}))
    without = same_however(parse(Scenario, {**dict(slow), "run": SETTINGS}))
    assert {row["detail"]["status"] for row in run.event_rows} == {"failed"}
    assert run.metrics == without.metrics
