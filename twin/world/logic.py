"""Operators of a subtask as Python sees them, views of what compiled code does: their base, and those without state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twin.machine import layout as k
from twin.operators.state import Leaves, State
from twin.world.memory import RunMemory, StructView
from twin.world.parts import SinkCounts

if TYPE_CHECKING:
    from twin.operators.key_groups import KeyGroups
    from twin.operators.watermark import Watch
    from twin.world.parts import Task


class Logic(StructView, layout=k.LOGIC):
    """One operator of a subtask; it passes every record on.

    task: its subtask. number: its position there. bytes_in: size of a record that comes from the logic before. law: the
    balance of its records, in words; empty if there is none. keeps: whether it holds records.
    """

    code = k.PASS
    law = ""
    keeps = False

    def __init__(self, memory: RunMemory, task: Task, number: int, bytes_in: float) -> None:
        super().__init__(memory.add(k.LOGIC, kind=self.code, side=k.NONE, thins=k.NONE, selectivity=k.NONE))
        self.memory, self.task, self.number, self.bytes_in = memory, task, number, bytes_in
        memory.at[self.here] = self

    @property
    def fires(self) -> int:
        """Evaluations of its windows so far."""
        return 0

    @property
    def begun(self) -> int:
        """Sessions that have begun."""
        return 0

    @property
    def finished(self) -> int:
        """Sessions that have ended."""
        return 0

    def know_send(self, send_s: float) -> None:
        """Notes the CPU seconds that it takes to send a record on."""
        self.send_s = send_s

    # changes of the plan ---------------------------------------------------------------------------------------------

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        """Takes records out of what it holds: those that leave, or else a share of them, evenly over their length."""
        return State()

    def give(self, state: State) -> None:
        """Merges the state of another subtask into its own."""

    def stores(self) -> int:
        """Number of stores that it gives and takes."""
        return 0

    def know_share(self, share: float, values: list[int]) -> None:
        """Notes a change of its share of an operator without key groups. values: distinct keys, its own first."""

    def save(self) -> None:
        """Moves calls without an answer into its state, as the barrier of a savepoint passes."""

    def resume(self) -> None:
        """Goes on after a restart, with what it saved."""

    def know_keys(self, keys: KeyGroups, subtask: int) -> None:
        """Notes a change of the key groups that it owns."""

    # checkpoints -----------------------------------------------------------------------------------------------------

    def progress(self) -> Any:
        """What a checkpoint must know of it as it is complete."""
        return None

    def snapshot(self, again: bool) -> Any:
        """State from which it can go on. again: whether the record in service will be served again."""
        return self.progress()

    def restore(self, kept: Any, at_s: float) -> int:
        """Goes back to its state at `at_s`. Returns the number of records that its subtask will read again."""
        return 0

    def complete(self, kept: Any, now_s: float) -> None:
        """Notes that the checkpoint of this snapshot is complete: no failure goes back to an earlier one."""

    def stopped(self) -> None:
        """Forgets what was under way, as its subtask stops."""

    # event time ------------------------------------------------------------------------------------------------------

    def follow(self, kind: str, value: float) -> bool:
        """Lets a mark wait until the records before it have left; returns whether it has to wait."""
        return False

    # what it holds, and what is counted ------------------------------------------------------------------------------

    def ended(self) -> int:
        """Number of records that went no further."""
        return int(self.dropped)

    def in_service(self) -> int:
        """Number of records in service that have still to leave or to end."""
        return self.task.in_service

    def away(self) -> int:
        """Number of records that wait for something outside of the job."""
        return 0

    def asking(self) -> list[int]:
        """Addresses of the records that it will serve again after a restart, in the order in which they came."""
        return []

    def held(self) -> float:
        """Number of records, or states, that it holds."""
        return 0.0

    def held_bytes(self) -> float:
        """Size of what it holds, in bytes."""
        return 0.0

    def changed_bytes(self, came: int) -> float:
        """Size of the part of what it holds that the last `came` records changed, in bytes."""
        held = self.held()
        return self.held_bytes() * min(1.0, came / held) if held > 0.0 else 0.0

    def held_keys(self) -> list[tuple[list[int], float]]:
        """Keys of what it holds, and the bytes of each, by window; keys of key groups only."""
        return []

    def sink(self) -> Any:
        """Counts of results, if it ends in a sink."""
        return None

    def watched(self) -> Watch | None:
        """What operators look at over event time; None if it is not over event time."""
        return None

    def record_bytes(self) -> float:
        """Mean size of the records that come to it, in bytes."""
        return self.bytes_in or self.task.record_bytes()


class ReadLogic(Logic):
    """Logic of a source."""

    code = k.READ
    law = "in = out + in service + stopped"

    def snapshot(self, again: bool) -> int:
        broker = self.task.polling.reads if self.task.polling is not None else None
        return 0 if broker is None else broker.read() - again

    def restore(self, kept: int, at_s: float) -> int:
        broker = self.task.polling.reads if self.task.polling is not None else None
        return 0 if broker is None else broker.read_again(kept)

    def complete(self, kept: int | None, now_s: float) -> None:
        broker = self.task.polling.reads if self.task.polling is not None else None
        if broker is not None and kept is not None:
            broker.forget(kept)


class SelectLogic(Logic):
    """Logic of a filter, map, or join with a table. side: number of the input whose records change the table."""

    code = k.SELECT

    def __init__(self, *where: Any, selectivity: float, thins: bool, side: int = k.NONE) -> None:
        super().__init__(*where)
        self.selectivity, self.thins, self.side = selectivity, thins, side
        self.law = "in = out + dropped + in service + stopped" if thins else ""

    def in_service(self) -> int:
        return int(self.results) if self.task.in_service else 0


class CollectLogic(Logic):
    """Logic of a sink."""

    code = k.COLLECT
    law = "in = counted + in service + stopped"

    def __init__(self, *where: Any, commits: bool) -> None:
        """commits: whether results count only when a checkpoint commits them."""
        super().__init__(*where)
        self.counts = SinkCounts(self.memory)
        self.counts.commits = commits
        self.counts.spent = self.task.spent.here
        self.undone = 0
        self.raw_sink = self.counts.here

    def sink(self) -> SinkCounts:
        return self.counts

    def progress(self) -> int:
        return int(self.counts.made)

    def restore(self, kept: int, at_s: float) -> int:
        """Drops the results that were not committed."""
        sink = self.counts
        self.undone += sink.held_results
        sink.held_results = sink.first_held = sink.last_held = 0
        return 0

    def complete(self, kept: int, now_s: float) -> None:
        """Counts the results that the checkpoint commits."""
        if self.counts.commits:
            self.memory.do(k.COMMIT, self.counts.here, subject=kept)

    def ended(self) -> int:
        return int(self.counts.counted + self.counts.held_results + self.undone)


class RouteLogic(Logic):
    """Logic of a router."""

    code = k.ROUTE
    law = "in = out + dropped + in service + stopped"

    def __init__(self, *where: Any, shares: Sequence[float], exclusive: bool) -> None:
        super().__init__(*where)
        self.thins = exclusive
        self.parts = self.memory.array(k.PART, self.here, "parts", len(shares))
        self.memory.blocks[self.here, "parts"]["share"] = shares

    def in_service(self) -> int:
        return int(self.results) if self.task.in_service else 0
