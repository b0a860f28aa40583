"""What of a task's state changed since its last checkpoint: what came into windows, and keys that tuples touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twin.engine.station.task import Task
from twin.keys import touched

if TYPE_CHECKING:
    from twin.change.rewiring import Rewiring


def changed_bytes(wiring: Rewiring, task: Task, operator: str, came: int) -> float:
    """Of what a replica holds now, after so many tuples came; at most all of it.

    Windows hold the tuples that came last. Of a key group, a key is as likely as any other to be that of a tuple; a
    key that no tuple touched is as it was.
    """
    held = task.logic.held()
    changed = task.logic.held_bytes() * min(1.0, came / held) if held > 0.0 else 0.0
    keys = wiring.world.key_groups.get(operator)
    if keys is None or not keys.state_bytes_each:
        return changed
    mine = keys.owners() == wiring.fan(operator).index(task)
    weights, distinct = keys.weights[mine], keys.distinct[mine]
    total = float(weights.sum())
    if total <= 0.0:
        return changed
    chances = np.where(distinct > 0, weights / total / np.maximum(distinct, 1), 0.0)
    return changed + keys.state_bytes_each * float(np.sum(touched(came, chances)))
