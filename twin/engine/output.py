"""Output of a task: results, its ports, and the time that it is blocked because one of them is full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import simpy

from twin.engine.draws import Draws
from twin.engine.record import Mark, Record
from twin.engine.streams.channel import Port

Result = tuple[int, float, float]
"""Key of a result, and the seconds at which its oldest record was born and taken in."""


class EvaluationResult:
    """Outcome of evaluations: results that leave by an outlet, and records that logics take when they leave."""

    def __init__(self, results: Sequence[Result], out: Outlet, entered: list[tuple[Any, Record]]) -> None:
        self.results = results
        self.out = out
        self.entered = entered

    def leave(self, at_s: float) -> None:
        """Sends all results at `at_s`."""
        for logic, record in self.entered:
            logic.emit(record, at_s)
        send_results(self.results, self.out, at_s)


def send_results(results: Sequence[Result], out: Outlet, at_s: float) -> None:
    """Sends results, one after the other, at `at_s`."""
    for result in results:
        out.send(as_record(result, at_s))


def as_record(result: Result, at_s: float) -> Record:
    """Record of a result that leaves at `at_s`."""
    key, born_s, taken_s = result
    made = Record(born_s, taken_s, at_s)
    made.key = key
    return made


class Outlet:
    """Base of the places to which a logic sends records: a task's output, or the next logic at the same task.

    send_s: CPU seconds that it takes to hand a record over.
    """

    def __init__(self) -> None:
        self.send_s = 0.0

    def send(self, record: Record) -> None:
        """Takes a record over."""
        raise NotImplementedError

    def know_send(self, send_s: float) -> None:
        """Notes that the task's cost of sending a record has changed."""

    def offer(self, results: Sequence[Result]) -> tuple[EvaluationResult, float]:
        """Outcome of results that leave all at once, and the CPU seconds that this takes."""
        return EvaluationResult(results, self, []), len(results) * self.send_s


class Output(Outlet):
    """Output of one task. blocked: ports that hold a record back. stall, resume: called at the first, after the last.

    lots: random numbers of the lots that records get here, if their copies meet somewhere.
    takes_late: whether a record is taken only when the one before it has left, as by a source: a record that is held
    back is taken later.
    """

    def __init__(
        self, env: simpy.Environment, name: str, stall: Callable[[], None], resume: Callable[[], None], takes_late: bool
    ) -> None:
        super().__init__()
        self.env = env
        self.name = name
        self.stall = stall
        self.resume = resume
        self.takes_late = takes_late
        self.ports: list[Port] = []
        self.lots: Draws | None = None
        self.tuples_out = 0
        self.blocked = 0
        self.blocked_s = 0.0
        self.blocked_since_s = 0.0

    def know_ports(self) -> None:
        """Computes the cost of sending a record, after a change of its ports."""
        self.send_s = sum([port.send_s for port in self.ports])

    def send(self, record: Record) -> None:
        """Sends a record on every output stream."""
        self.tuples_out += 1
        if self.lots is not None:
            record.lot = self.lots.uniform()
        record.left_s = record.at_s - record.taken_s
        ports = self.ports
        if len(ports) > 1:
            for port in ports[1:]:
                port.send(record.copy())
        ports[0].send(record)

    def send_by(self, record: Record, ways: Sequence[bool]) -> None:
        """Sends a record on some of the output streams."""
        self.tuples_out += 1
        if self.lots is not None:
            record.lot = self.lots.uniform()
        record.left_s = record.at_s - record.taken_s
        for port, goes in zip(self.ports, ways, strict=True):
            if goes:
                port.send(record.copy())
            else:
                port.passed_over += 1

    def mark(self, kind: str, value: float) -> None:
        """Sends a control item to all consumers, behind the records sent so far."""
        for port in self.ports:
            port.mark(Mark(kind, value, self.name, self.env.now))

    def held_back(self, record: Record) -> None:
        """Updates the stamps of a record that a full channel held back and that leaves now."""
        at_s = record.at_s
        record.at_s = max(at_s, self.env.now)
        if self.takes_late:
            record.taken_s += record.at_s - at_s

    def block(self) -> None:
        """Counts a port that has a record for which its channel has no room."""
        self.blocked += 1
        if self.blocked == 1:
            self.blocked_since_s = self.env.now
            self.stall()

    def unblock(self) -> None:
        """Counts a port that has sent what it held back; after the last of them, the task goes on."""
        self.blocked -= 1
        if self.blocked:
            return
        self.blocked_s += self.env.now - self.blocked_since_s
        self.resume()

    def blocked_until_now_s(self) -> float:
        """Time spent blocked so far."""
        return self.blocked_s + (self.env.now - self.blocked_since_s if self.blocked else 0.0)
