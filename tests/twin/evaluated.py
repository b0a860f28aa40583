"""Evaluations of windows in memory: what each of them held, and the results that it made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.twin.worlds import world_of
from twin.deployment import Deployment
from twin.scenario import RunSettings

Row = tuple[int, float, float]
"""Key of a record, or of a result, and when its oldest record was born and taken in."""


class Evaluation(NamedTuple):
    """Evaluation of a window that ends at `end_s`. sides: records by input, in the order in which they came. results:
    what leaves."""

    end_s: float
    sides: list[list[Row]]
    results: list[Row]


def evaluations(job: Deployment, operator: str, horizon_s: float, seed: int = 0) -> Iterator[Evaluation]:
    """Evaluations of an operator's window over time at its one subtask, but for those that have to wait.

    As results take CPU time, none has left a moment after its window has ended.
    """
    world = world_of(job, RunSettings(horizon_s=horizon_s, seed=seed))
    (task,) = world.tasks[operator]
    window, blocks = task.logic.part(0).window, world.memory.blocks
    while window.boundary_s < horizon_s:
        end_s = window.boundary_s
        world.advance(end_s)
        held = [content.copy(world.memory) for content in window.contents]
        waits = task.busy
        world.advance(end_s + 1e-9)
        if waits:
            continue
        inside = [rows[(rows["position"] > end_s - window.length) & (rows["position"] <= end_s)] for rows in held]
        sides = [rows[["key", "born_s", "taken_s"]].tolist() for rows in inside]
        found = blocks[window.here, "found"][: window.found_count]
        yield Evaluation(end_s, sides, found[["key", "born_s", "taken_s"]].tolist())
