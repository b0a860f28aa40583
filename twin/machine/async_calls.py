"""Asynchronous calls to external systems: a served record waits for its answer."""

from __future__ import annotations

from typing import Any

from twin.histograms import ANSWER_TIME
from twin.machine import layout as k
from twin.machine.backpressure import block, unblock
from twin.machine.calendar import cancel, next_sequence, pop, push, ring_at, schedule
from twin.machine.channels import send_times
from twin.machine.draws import rounded, service, uniform
from twin.machine.items import collect, release, spend
from twin.machine.native import call, compiled, inlined
from twin.machine.python_logics import listed, send_one


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
        fly(s, calling, here, s.now)


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
    fly(s, calling, here, s.now)
    unblock(s, task)


@compiled
def fly(s: Any, calling: Any, here: int, at_s: float) -> None:
    """Makes a call at `at_s`: draws its time, and puts the record among those that wait for an answer."""
    wait_s, calling.lost = calling.hit_s, 0
    if calling.hit_ratio <= 0.0 or uniform(s, calling.answers) >= calling.hit_ratio:
        wait_s = calling.latency_s * service(s, calling.answers)
        if calling.unsure:
            wait_s = try_again(s, calling, wait_s)
    if calling.unsure:
        k.item_at(here).step = calling.lost  # of no use while it waits here
    back_s = at_s + wait_s
    if not fails_job(calling, calling.lost):
        back_s = max(calling.last_s, back_s)
        if calling.ordered:
            calling.last_s = back_s
    spend(k.task_at(calling.task).spent, ANSWER_TIME, back_s - k.item_at(here).at_s)
    wait_until(s, calling, here, back_s)


@compiled
def wait_until(s: Any, calling: Any, here: int, back_s: float) -> None:
    """Lets a record, or a mark, wait until `back_s`."""
    if calling.flying == calling.room:
        call(s.call_python, k.CALLS, calling.here)
    k.item_at(here).at_s = back_s
    push(calling.heap, calling.flying, back_s, next_sequence(s), here)
    calling.flying += 1
    expect_answer(s, calling)


@compiled
def follow(s: Any, calling: Any, here: int) -> None:
    """Lets a mark wait until all calls before it are answered. Answers of later calls leave behind it, also where the
    others leave as they come (Flink's `UnorderedStreamElementQueue`)."""
    for number in range(calling.flying):
        calling.last_s = max(calling.last_s, k.job_at(calling.heap + k.JOB_BYTES * number).end)
    calling.marks += 1
    wait_until(s, calling, here, max(calling.last_s, s.now))


@compiled
def try_again(s: Any, calling: Any, wait_s: float) -> float:
    """Draws what becomes of a call whose first attempt takes `wait_s`; returns the seconds until it is answered or
    lost. Further attempts take their turns at the gate now, ahead of time."""
    delay_s, tries = calling.delay_s, 0
    while calling.failure_share > 0.0 and uniform(s, calling.answers) < calling.failure_share:
        if tries == calling.retries:
            calling.lost = k.FAILED
            break
        wait_s += delay_s
        if wait_s > calling.timeout_s:
            break
        tries += 1
        wait_s += calling.latency_s * service(s, calling.answers)
        delay_s = min(delay_s * calling.multiplier, calling.most_delay_s)
    if tries and calling.gate != 0:
        k.gate_at(calling.gate).free_s += tries * calling.retry_s
    if wait_s > calling.timeout_s:
        calling.lost = k.LATE
        return float(calling.timeout_s)
    return float(wait_s)


@inlined
def fails_job(calling: Any, lost: int) -> bool:
    """Whether a call that ends in this way fails the job."""
    return (lost == k.LATE and calling.late_lost == 0) or (lost == k.FAILED and calling.failed_lost == 0)


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
    if k.item_at(here).mark != 0:
        calling.marks -= 1
        pass_mark(s, task, here)
    elif calling.unsure and k.item_at(here).step != 0:
        lose(s, task, calling, here)
    else:
        leave_answered(s, task, calling, here)
    if calling.stuck != 0 and calling.waits == 0 and calling.flying < calling.capacity:
        stuck = calling.stuck
        calling.stuck = 0
        ask(s, task, calling, stuck)
        unblock(s, task)


@compiled
def pass_mark(s: Any, task: Any, here: int) -> None:
    """Sends on a mark that has waited for answers."""
    call(s.call_python, k.PASS_ON, here)
    release(s, here)
    here = listed(task)
    while here != 0:
        following = k.item_at(here).next
        send_one(s, task, here)
        here = following


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


@compiled
def lose(s: Any, task: Any, calling: Any, here: int) -> None:
    """Drops a record whose call is lost, or tells Python that the job has failed by it."""
    lost, k.item_at(here).step = k.item_at(here).step, 0
    calling.answered += 1
    if lost == k.LATE:
        calling.late += 1
    else:
        calling.failed += 1
    if fails_job(calling, lost):
        call(s.call_python, k.GIVEN_UP, calling.here)
    k.logic_at(calling.logic).dropped += 1
    if calling.sink != 0:
        release(s, here)
    else:
        send_times(s, task, 0, here)


@compiled
def fly_now(state: int, here: int) -> int:
    """Makes the call of the record `subject` again, at `asked`; a mark waits for the calls before it."""
    s = k.state_at(state)
    if k.item_at(s.subject).mark != 0:
        follow(s, k.calling_at(here), s.subject)
    else:
        fly(s, k.calling_at(here), s.subject, s.asked)
    return 0
