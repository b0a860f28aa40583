"""Brokers: what comes, and what is read again."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from twin.engine.arrival.broker import Broker
from twin.engine.calendar import Alarm
from twin.engine.logics.source import ReplayableSource
from twin.engine.record import Record
from twin.engine.station.task import Task
from twin.kernel import layout as k
from twin.kernel.arena import view
from twin.kernel.traits import logics_of

if TYPE_CHECKING:
    from twin.kernel.lower import Lowered


def lower_brokers(low: Lowered) -> None:
    """All of them."""
    for broker, row in zip(low.brokers, low.broker_rows, strict=True):
        here, (source, alarm) = int(row["here"]), _source(broker)
        task = low.row(source)
        row["taken"], row["task"], task["broker"] = broker.taken, task["here"], here
        low.pending[id(alarm)] = int(task["slot"])
        again = [record.born_s for record in source.queue]
        row["again"], row["again_count"] = low.block(here, "again", again, len(again)), len(again)
        if isinstance(logics_of(source)[0], ReplayableSource):
            row["logs"], row["log_room"] = 1, k.LEAST_ROOM
            row["log"] = low.block(here, "log", (), k.LEAST_ROOM)
        if broker.blocks:
            _read(broker, row)


def _source(broker: Broker) -> tuple[Task, Alarm]:
    """The source, and what it polls by."""
    assert isinstance(broker.source, Task) and broker.source.polling is not None
    return broker.source, broker.source.polling.alarm


def _read(broker: Broker, row: Any) -> None:
    """The source takes from the broker's first block, where it is."""
    row["times"], row["count"] = broker.first().buffer_info()
    row["place"] = broker.place


def more_arrivals(low: Lowered, row: Any) -> None:
    """The next arrivals at a broker, whose last ones were taken."""
    broker = low.object_at[int(row["here"])]
    broker.place = int(row["place"])
    _read(broker, row)


def count_taken(low: Lowered) -> None:
    """How far sources are."""
    for broker, row in zip(low.brokers, low.broker_rows, strict=True):
        broker.place, broker.taken = int(row["place"]), int(row["taken"])


def lift_brokers(low: Lowered) -> None:
    """All of them, back; tasks are told when they poll."""
    for broker, row in zip(low.brokers, low.broker_rows, strict=True):
        (source, alarm), here = _source(broker), int(row["here"])
        again = low.blocks[here, "again"][int(row["again_place"]) : int(row["again_count"])].tolist()
        source.queue.clear()
        source.queue.extend([Record(born_s, 0.0, born_s) for born_s in again])
        logic = logics_of(source)[0]
        if isinstance(logic, ReplayableSource):
            logged = low.blocks[here, "log"][: int(row["logged"])].tolist()
            logic.log += [Record(born_s, 0.0, born_s) for born_s in logged]
        alarm.show(inf)
        task = view(k.TASK, int(row["task"]))
        if not task["busy"]:
            low.resume(alarm, int(task["slot"]))
