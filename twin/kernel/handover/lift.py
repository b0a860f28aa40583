"""Lifting: from the kernel's structures back to the engine's objects, either only what meters read, or everything."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from heapq import heapify
from itertools import count, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from twin.engine.processor import Worker
from twin.engine.record import Record
from twin.engine.streams.ports import GatheringPort
from twin.kernel import layout as k
from twin.kernel.advance import count_pooled, count_waiting, expire
from twin.kernel.arena import BROKER, view, write_back
from twin.kernel.handover.channels import lift_hops, lift_ports
from twin.kernel.handover.logics import lift_logics, send_s
from twin.kernel.handover.stations import lift_brokers, lift_pools, lift_tasks

if TYPE_CHECKING:
    from twin.kernel.lower import Lowered


def counters(low: Lowered) -> None:
    """Gives back all that meters read."""
    for filled in low.filled:
        write_back(*filled)
    _under_way(low)
    heaps(low)
    for sink, row in zip(low.sinks, low.sink_rows, strict=True):
        for field in ("processing", "e2e"):
            counts = low.blocks[int(row["here"]), field]
            where = np.flatnonzero(counts)
            setattr(sink, field, dict(zip(where.tolist(), counts[where].tolist(), strict=True)))


def heaps(low: Lowered) -> None:
    """Gives back the sizes of queues, of windows and of states, and the records sent, also those under way."""
    low.card_rows["flying"] = 0
    low.task_rows["queued"] = 0
    state = int(low.state[0]["here"])
    count_waiting(state, int(low.state[0]["lanes"]))
    for pool in low.pool_rows["here"].tolist()[: len(low.pools)]:
        count_pooled(state, pool)
    for task, waiting in zip(low.tasks, low.task_rows["queued"].tolist(), strict=True):
        task.queued = waiting
    columns = (low.card_rows[name].tolist() for name in ("tuples_in", "flying"))
    for card, came, coming in zip(low.cards, *columns, strict=True):
        card.tuples_in, card.tuples_out = came, came - coming - low.others[card]
    write_back(low.broker_rows, low.brokers, BROKER)
    for broker, row in zip(low.brokers, low.broker_rows, strict=True):
        broker.source.queued = int(row["again_count"] - row["again_place"])
    for inbox, sent in zip(low.inboxes, low.inbox_rows["sent"].tolist(), strict=True):
        inbox.sent = sent  # weights of the record sizes of several streams
    for rows, contents in low.contents:
        for content, held in zip(contents, rows["count"].tolist(), strict=True):
            content.elsewhere = held
    for logic, row in low.stores:
        if row["slot"] == k.NONE:
            expire(state, int(row["here"]))
        logic.elsewhere = int(row["count"])


def _under_way(low: Lowered) -> None:
    """Gives back the ends of services, as far as they are known."""
    slots, busy = (low.task_rows[field].tolist() for field in ("slot", "busy"))
    for task, slot, works in zip(low.tasks, slots, busy, strict=True):
        task.finish_alarm.show(float(low.times[slot]) if works else math.inf)  # jobs on processors leave it infinite
    for processor, row in zip(low.processors, low.processor_rows, strict=True):
        processor.jobs = _jobs(low, row)


def _jobs(low: Lowered, row: Any) -> list[tuple[float, int, Worker, Any]]:
    jobs = []
    for number in range(int(row["jobs"])):
        job = view(k.JOB, int(row["heap"]) + k.JOB_BYTES * number)
        task = low.object_at[int(job["task"])]
        jobs.append((float(job["end"]), int(job["order"]), task, task.work_done))
    return jobs


def heed(low: Lowered) -> None:
    """Takes over costs of work and frequencies of keys that a process which looked has set."""
    low.processor_rows["slowdown"] = [each.slowdown for each in low.processors]
    low.task_rows["service_s"] = [each.service_s for each in low.tasks]
    low.task_rows["halted"] = [each.halted for each in low.tasks]
    low.task_rows["send_s"] = [each.output.send_s for each in low.tasks]
    low.port_rows["send_s"] = [each.send_s for each in low.ports]
    for logic, row in low.logics:
        row["send_s"] = send_s(logic)
    for groups in low.keyed:
        low.blocks[low.here[id(groups)], "steps"][:] = groups.group_steps


def heed_counters(low: Lowered) -> None:
    """Takes over counters that a process which looked has set to zero."""
    for sink, row in zip(low.sinks, low.sink_rows, strict=True):
        if not sink.count and row["count"]:
            row["count"], row["processing_sum_s"], row["e2e_sum_s"] = 0, 0.0, 0.0
            for field in ("processing", "e2e"):
                low.blocks[int(row["here"]), field][:] = 0


ANY: Any = (None, Record(0.0, 0.0, 0.0))
"""Stands for a record that waits to be sent."""


def close(low: Lowered) -> None:
    """Gives a world back that has come to its end: it can be counted, but cannot go on. Waiting records, which may be
    many, are only counted."""
    counters(low)
    for port, row in zip(low.ports, low.port_rows, strict=True):
        port.outbox = deque(repeat(ANY, int(row["held"])))
        if row["kind"] == k.GATHERING:
            assert isinstance(port, GatheringPort)
            counts = low.blocks[int(row["here"]), "buffers"]["count"].tolist()
            held = {number: [ANY[1]] * count for number, count in enumerate(counts) if count}
            port._buffers = defaultdict(list, held)
    for channel, row in low.channels:
        channel.unsent = deque(repeat(ANY, int(row["unsent"])))
    for columns in low.held:
        write_back(*columns)
    lift_logics(low, closing=True)


def lift(low: Lowered) -> None:
    """Gives the whole world back, so that anything may happen. The structures are of no use afterwards."""
    env = low.world.env
    counters(low)
    env._eid = count(int(low.state[0]["sequence"]))
    for draws in low.streams:
        row = view(k.STREAM, low.here[id(draws)])
        draws._uniforms, draws._services = (
            low.blocks[int(row["here"]), field][: int(row[f"{field}_left"])].tolist()
            for field in ("uniforms", "services")
        )
    for columns in low.held:
        write_back(*columns)
    lift_logics(low)
    for lift in (lift_hops, lift_brokers, lift_ports, lift_tasks, lift_pools):
        lift(low)
    heapify(env._queue)
