"""Asynchronous calls to external systems: a served record waits for its answer (`twin.engine.logics.calls`)."""

from __future__ import annotations

from typing import Any

from twin.kernel import layout as k
from twin.kernel.backpressure import block, unblock
from twin.kernel.calendar import cancel, next_sequence, pop, push, ring_at, schedule
from twin.kernel.channels import send_times
from twin.kernel.draws import rounded, service, uniform
from twin.kernel.items import collect
from twin.kernel.native import call, compiled


@compiled
def ask(s: Any, task: Any, calling: Any, here: int) -> None:
    """Makes the call of a served record, or holds it back if the call may not be made now."""
    at_s = s.now
    if calling.flying >= calling.capacity:
        hold(s, task, calling, here)
        return
    if calling.gate != 0:
        gate = k.gate_at(calling.gate)
        at_s = max(gate.free_s, at_s)
        gate.free_s = at_s + gate.each_s
    if at_s > s.now:
        hold(s, task, calling, here)
        calling.waits = 1
        ring_at(s, calling.turn, at_s)
    else:
        fly(s, calling, here)


@compiled
def hold(s: Any, task: Any, calling: Any, here: int) -> None:
    """Holds back a record that may not ask yet, and blocks the station."""
    calling.stuck = here
    block(s, task)


@compiled
def through_gate(s: Any, task: Any, calling: Any) -> None:
    """Lets the record that was held back through the gate, as its turn has come."""
    cancel(s, calling.turn)
    here = calling.stuck
    calling.stuck, calling.waits = 0, 0
    fly(s, calling, here)
    unblock(s, task)


@compiled
def fly(s: Any, calling: Any, here: int) -> None:
    """Makes a call: draws its time, and puts the record among those that wait for an answer."""
    wait_s = calling.hit_s
    if calling.hit_ratio <= 0.0 or uniform(s, calling.answers) >= calling.hit_ratio:
        wait_s = calling.latency_s * service(s, calling.answers)
    back_s = s.now + wait_s
    if calling.ordered:
        back_s = max(calling.last_s, back_s)
        calling.last_s = back_s
    if calling.flying == calling.room:
        call(s.call_python, k.CALLS, calling.here)
    k.item_at(here).at_s = back_s
    push(calling.heap, calling.flying, back_s, next_sequence(s), here)
    calling.flying += 1
    expect_answer(s, calling)


@compiled
def expect_answer(s: Any, calling: Any) -> None:
    """Sets the event of the next answer."""
    if calling.flying == 0:
        cancel(s, calling.slot)
    else:
        first = k.job_at(calling.heap)
        schedule(s, calling.slot, first.end, first.order)


@compiled
def answer(s: Any, task: Any, calling: Any) -> None:
    """Takes the next answer: its results leave, and a record that was held back may ask."""
    here = pop(calling.heap, calling.flying)
    calling.flying -= 1
    expect_answer(s, calling)
    leave_answered(s, task, calling, here)
    if calling.stuck != 0 and calling.waits == 0 and calling.flying < calling.capacity:
        stuck = calling.stuck
        calling.stuck = 0
        ask(s, task, calling, stuck)
        unblock(s, task)


@compiled
def leave_answered(s: Any, task: Any, calling: Any, here: int) -> None:
    """Sends the results of an answered record."""
    calling.answered += 1
    if calling.sink != 0:
        collect(s, calling.sink, here)
        return
    results = 1
    if calling.selectivity < 1.0:
        results = 1 if uniform(s, task.stream) < calling.selectivity else 0
    elif calling.selectivity > 1.0:
        results = rounded(s, task.stream, calling.selectivity)
    if results == 0:
        k.logic_at(calling.logic).dropped += 1
    send_times(s, task, results, here)
