"""Replicas on the way of event times come and go: what they are as far as, and who hears of it.

A new one is as far as its producers have said, before it gets a tuple, and those behind it know it as that far: else
they would close windows without what it sends, or wait for it. One that leaves says last that nothing more will come.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from twin.engine.record import Alignment, Mark
from twin.engine.windows.watermark import MODIFICATION, WATERMARK, TimedLogic
from twin.wiring.event_time import as_far, shippings

if TYPE_CHECKING:
    from twin.change.rewiring import Rewiring
    from twin.engine.station.task import Task

KINDS = (WATERMARK, MODIFICATION)


def join(wiring: Rewiring, operator: str, task: Task) -> None:
    """A replica that is wired, and gets no tuples yet."""
    alignment = task.alignment = Alignment([], as_far)
    for side, stream in enumerate(wiring.query.inputs(operator)):
        position = wiring.query.outputs(stream.producer).index(stream)
        for producer in wiring.tasks_of(stream.producer):
            alignment.join((side, producer.name), producer.ports[position].told)
    values = {kind: least for kind in KINDS if (least := alignment.least(kind)) > -math.inf}
    if isinstance(task.logic, TimedLogic):
        sibling = wiring.world.tasks[operator][0].logic
        assert isinstance(sibling, TimedLogic)
        task.logic.come(sibling, values)
        task.logic.shippings = shippings(wiring, operator, task)
    for port, edge in zip(task.ports, wiring.job.outputs(operator), strict=True):
        port.told, stream = values.copy(), edge.stream
        side = wiring.query.inputs(stream.consumer).index(stream)
        for consumer in wiring.world.tasks[stream.consumer]:
            if consumer.alignment is not None:
                consumer.alignment.join((side, task.name), values)


def depart(task: Task) -> None:
    """A replica that has nothing left to send: nobody waits for it any more."""
    for kind in KINDS:
        for port in task.ports:
            port.mark(Mark(kind, math.inf, task.name, task.env.now))


def has_past(task: Task) -> bool:
    """Whether others may still ask for what it handed over."""
    return isinstance(task.logic, TimedLogic) and task.logic.past()
