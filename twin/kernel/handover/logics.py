"""Handover of logics, one by one or chained at a station, with calls to external systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from simpy.events import NORMAL

from twin.engine.calendar import Once
from twin.engine.logic import Logic
from twin.engine.logics.calls import CallLogic
from twin.engine.logics.chain import Chain
from twin.engine.logics.remember import RememberLogic
from twin.engine.logics.select import RouteLogic
from twin.engine.output import EvaluationResult, as_record
from twin.engine.station.task import Task
from twin.engine.windows.session import SessionLogic
from twin.engine.windows.window import WindowLogic
from twin.kernel import layout as k
from twin.kernel.arena import LOGIC, STEP, addresses, view
from twin.kernel.handover.records import arrived, chain, ends, record
from twin.kernel.handover.state import lift_store, lift_window, lower_found, lower_store, lower_window, results_of
from twin.kernel.traits import LOGICS, logics_of

if TYPE_CHECKING:
    from twin.kernel.lower import Lowered


def send_s(logic: Logic) -> float:
    """CPU seconds of sending a record; for calls, the mean for an answer, if any is sent."""
    if not isinstance(logic, CallLogic):
        return logic.out.send_s
    return logic.selectivity * logic.out.send_s if logic.end is None else 0.0


def lower_calls(low: Lowered, logic: CallLogic, place: Any, owner: Any) -> int:
    """Makes the structure of a task's calls; `lower_answer` adds the records that wait for an answer."""
    row, calls, gate = low.make(k.CALLING, [logic], held="answered last_s")[0], logic.calls, logic.gate
    here = int(row["here"])
    row["task"], row["logic"], row["answers"] = owner["here"], place["here"], low.stream(logic.answers)
    row["slot"], row["turn"] = low.slot(k.ANSWERS, here), low.slot(k.TURNS, here)
    low.pending[id(logic.turn)] = int(row["turn"])
    row["sink"] = 0 if logic.end is None else low.here[id(logic.end)]
    row["capacity"], row["selectivity"] = logic.capacity, logic.selectivity
    row["hit_ratio"], row["hit_s"], row["latency_s"] = calls.hit_ratio, calls.hit_s, calls.latency_s
    row["ordered"], row["waits"] = calls.ordered, logic.turn.pending
    if gate is not None:
        if id(gate) not in low.here:
            low.make(k.GATE, [gate], held="each_s free_s")
        row["gate"] = low.here[id(gate)]
    if logic.stuck is not None:
        row["stuck"] = arrived(low, [logic.stuck])[0]
    room = max(k.LEAST_ROOM, 2 * len(logic.flying))
    row["heap"], row["room"] = low.array(k.JOB, here, "heap", room).ctypes.data, room
    return here


def lower_answer(low: Lowered, logic: CallLogic, number: int, at_s: float, order: int) -> None:
    """Adds a record that waits for an answer, in the order in which answers are due. Answers of calls that were given
    up are left out."""
    if number not in logic.flying:
        return
    row = view(k.CALLING, low.here[id(logic)])
    count = int(row["flying"])
    low.blocks[int(row["here"]), "heap"][count] = order, arrived(low, [logic.flying[number]])[0], at_s
    row["flying"] = count + 1
    if not count:
        low.times[row["slot"]], low.orders[row["slot"]] = at_s, order


def lift_calls(low: Lowered, logic: CallLogic) -> None:
    """Gives back the calls of a logic."""
    row = view(k.CALLING, low.here[id(logic)])
    logic.stuck = record(low, int(row["stuck"])) if row["stuck"] else None
    low.resume(logic.turn, int(row["turn"]))
    logic.flying.clear()
    heap = low.blocks[int(row["here"]), "heap"][: int(row["flying"])]
    for order, here, at_s in sorted(heap.tolist()):
        logic.number += 1
        logic.flying[logic.number] = record(low, here)
        low.world.env._queue.append((at_s, NORMAL, order, Once(logic.answer, logic.number)))


BUCKETS = 2048
"""Number of buckets of a histogram of latencies: up to more seconds than a run may last."""


def lower_sinks(low: Lowered) -> None:
    """Fills the histograms of sinks."""
    for sink, row in zip(low.sinks, low.sink_rows, strict=True):
        for field, counts in (("processing", sink.processing), ("e2e", sink.e2e)):
            row[field] = low.block(int(row["here"]), field, (), BUCKETS, np.int64)
            low.blocks[int(row["here"]), field][list(counts)] = list(counts.values())


def lower_logics(low: Lowered, task: Task, owner: Any) -> None:
    """Makes the structures of a task's logics, and of the evaluations that are due there."""
    logics = logics_of(task)
    rows = low.arena.make(k.LOGIC, len(logics))
    rows["here"] = places = addresses(rows)
    rows["next"] = [*places[1:], 0]
    owner["logic"], owner["steps"] = places[0], len(logics)
    low.columns(rows, logics, LOGIC)
    for logic, row, place in zip(logics, rows, places, strict=True):
        low.logics.append((logic, row))
        low.logic_at[place] = logic
        row["kind"], row["send_s"] = LOGICS[type(logic)], send_s(logic)
        for field in ("selectivity", "thins", "side"):
            row[field] = getattr(logic, field, k.NONE)
        row["results"] = getattr(logic, "n_out", 0)
        _particular(low, logic, row, owner)
    if isinstance(task.logic, Chain):
        _chain(low, task.logic, rows, owner)
    due = [(low.here[id(logic)], at_s) for logic, at_s in task.timers]
    errands = low.array(k.ERRAND, int(owner["here"]), "errands", max(k.LEAST_ROOM, 2 * len(due)))
    errands[: len(due)] = due
    owner["errands"], owner["errands_room"], owner["errands_count"] = errands.ctypes.data, len(errands), len(due)


def _particular(low: Lowered, logic: Logic, row: Any, owner: Any) -> None:
    """Fills the fields that only one kind of logic has."""
    if row["kind"] == k.COLLECT:
        row["sink"] = low.here[id(logic)]
    elif isinstance(logic, RouteLogic):
        row["thins"] = logic.exclusive
        parts = low.array(k.PART, int(row["here"]), "parts", len(logic.shares))
        parts["share"], parts["part"] = logic.shares, logic.goes
        row["parts"] = parts.ctypes.data
    elif isinstance(logic, WindowLogic):
        row["window"] = lower_window(low, logic, row, owner)
    elif isinstance(logic, RememberLogic | SessionLogic):
        row["store"] = lower_store(low, logic, owner)
    elif isinstance(logic, CallLogic):
        row["calls"] = lower_calls(low, logic, row, owner)


def _chain(low: Lowered, logic: Chain, rows: np.ndarray, owner: Any) -> None:
    low.columns(rows, logic.steps, STEP)
    rows["stream"] = [low.stream(step.draws) for step in logic.steps]
    if rows[-1]["kind"] == k.COLLECT:
        owner["chain_end"] = rows[-1]["here"]
    _wait(low, owner, arrived(low, logic.planned), logic.entered)


def _wait(low: Lowered, owner: Any, planned: Sequence[int], entered: Any) -> None:
    """Fills the lists of records that leave, or enter windows, when the service or evaluation under way ends."""
    owner["planned"], owner["last_planned"] = ends(planned)
    places = {id(logic): place for place, logic in low.logic_at.items()}
    inside = arrived(low, [each for _, each in entered])
    for here, (logic, _) in zip(inside, entered, strict=True):
        low.item(here)["step"] = places[id(logic)]
    owner["entered"], owner["last_entered"] = ends(inside)


def lower_outcome(low: Lowered, task: Task, owner: Any, outcome: EvaluationResult) -> None:
    """Fills in an evaluation under way, or other work without a result."""
    owner["evaluating"] = 1
    if isinstance(task.logic, Chain):
        _wait(low, owner, arrived(low, [as_record(each, 0.0) for each in outcome.results]), outcome.entered)
    elif isinstance(task.logic, WindowLogic):
        lower_found(low, task.logic, outcome.results)


def lift_logics(low: Lowered, closing: bool = False) -> None:
    """Gives back the counts and state of logics. closing: whether the run is over, so that the content of windows is
    not needed."""
    for logic, row in low.logics:
        if row["kind"] in (k.SELECT, k.REMEMBER, k.ROUTE):
            logic.n_out = int(row["results"])  # type: ignore[attr-defined]
        if isinstance(logic, RouteLogic):
            logic.goes = [bool(part) for part in low.blocks[int(row["here"]), "parts"]["part"].tolist()]
        elif isinstance(logic, WindowLogic):
            if not closing:
                lift_window(low, logic)
        elif isinstance(logic, RememberLogic | SessionLogic):
            lift_store(low, logic)
        elif isinstance(logic, CallLogic):
            lift_calls(low, logic)

    for task, owner in zip(low.tasks, low.task_rows, strict=True):
        _outcome(low, task, owner)


def _outcome(low: Lowered, task: Task, row: Any) -> None:
    """Gives back a task's unsent results, and the evaluations that are due."""
    due = low.ring(int(row["here"]), "errands", row["errands_first"], row["errands_count"])
    task.timers.clear()
    task.timers.extend((low.object_at[window], at_s) for window, at_s in due.tolist())
    task.evaluating, logic, outcome = None, task.logic, EvaluationResult([], task.output, [])
    if isinstance(logic, Chain):
        planned = [record(low, here) for here in chain(row["planned"])]
        entered = [(low.logic_at[int(low.item(here)["step"])], record(low, here)) for here in chain(row["entered"])]
        if row["busy"] and row["evaluating"]:
            outcome = EvaluationResult([(each.key, each.born_s, each.taken_s) for each in planned], logic.end, entered)
            planned, entered = [], []
        logic.planned, logic.entered = planned, entered
    elif isinstance(logic, WindowLogic):
        logic.planned = results_of(low, logic)
        if row["busy"] and row["evaluating"]:
            outcome = EvaluationResult(logic.planned, task.output, [])
            logic.planned = []
    if row["busy"] and row["evaluating"]:
        task.evaluating = outcome
