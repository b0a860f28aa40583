"""Calls to systems outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simpy.events import NORMAL

from twin.engine.calendar import Once
from twin.engine.logics.calls import CallLogic
from twin.kernel import layout as k
from twin.kernel.arena import view
from twin.kernel.handover.records import arrived, record

if TYPE_CHECKING:
    from twin.kernel.lower import Lowered


def lower_calls(low: Lowered, logic: CallLogic, place: Any, owner: Any) -> int:
    """The structure of a task's calls; what flies is known from the calendar."""
    row, calls, gate = low.make(k.CALLING, [logic])[0], logic.calls, logic.gate
    here = int(row["here"])
    place["send_s"] = logic.selectivity * logic.out.send_s if logic.end is None else 0.0
    row["task"], row["logic"], row["answers"] = owner["here"], place["here"], low.stream(logic.answers)
    row["slot"], row["turn"] = low.slot(k.ANSWERS, here), low.slot(k.TURNS, here)
    low.pending[id(logic.turn)] = int(row["turn"])
    row["sink"] = 0 if logic.end is None else low.here[id(logic.end)]
    row["capacity"], row["selectivity"], row["last_s"] = logic.capacity, logic.selectivity, logic.last_s
    row["hit_ratio"], row["hit_s"], row["latency_s"] = calls.hit_ratio, calls.hit_s, calls.latency_s
    row["ordered"], row["answered"], row["waits"] = calls.ordered, logic.answered, logic.turn.pending
    if gate is not None:
        if id(gate) not in low.here:
            made = low.make(k.GATE, [gate])[0]
            made["each_s"], made["free_s"] = gate.each_s, gate.free_s
        row["gate"] = low.here[id(gate)]
    if logic.stuck is not None:
        row["stuck"] = arrived(low, [logic.stuck])[0]
    room = max(k.LEAST_ROOM, 2 * len(logic.flying))
    row["heap"], row["room"] = low.array(k.JOB, here, "heap", room).ctypes.data, room
    return here


def lower_answer(low: Lowered, logic: CallLogic, number: int, at_s: float, order: int) -> None:
    """An answer that is due; those that are due later come later. Nobody waits for some."""
    if number not in logic.flying:
        return
    row = view(k.CALLING, low.here[id(logic)])
    count = int(row["flying"])
    low.blocks[int(row["here"]), "heap"][count] = order, arrived(low, [logic.flying[number]])[0], at_s
    row["flying"] = count + 1
    if not count:
        low.times[row["slot"]], low.orders[row["slot"]] = at_s, order


def lift_calls(low: Lowered, logic: CallLogic) -> None:
    """The same, back."""
    row = view(k.CALLING, low.here[id(logic)])
    logic.answered, logic.last_s = int(row["answered"]), float(row["last_s"])
    logic.stuck = record(low, int(row["stuck"])) if row["stuck"] else None
    low.resume(logic.turn, int(row["turn"]))
    if logic.gate is not None:
        logic.gate.free_s = float(view(k.GATE, int(row["gate"]))["free_s"])
    logic.flying.clear()
    heap = low.blocks[int(row["here"]), "heap"][: int(row["flying"])]
    for order, here, at_s in sorted(heap.tolist()):
        logic.number += 1
        logic.flying[logic.number] = record(low, here)
        low.world.env._queue.append((at_s, NORMAL, order, Once(logic.answer, logic.number)))
