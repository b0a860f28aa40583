"""The state of a task: what its windows hold, how big that is, and how a share of it is taken out and put in."""

from __future__ import annotations

from dataclasses import dataclass, field

from twin.engine.measure.ledger import Buffer
from twin.engine.task import Task
from twin.engine.windows.aggregate import AggregateTask
from twin.engine.windows.history import History
from twin.engine.windows.join import JoinTask
from twin.engine.windows.window import WindowTask

Piece = tuple[float, float, float, tuple[float, float, float, float]]
"""Low and high position, tuples, stamps."""


@dataclass(slots=True)
class State:
    """Window contents on their way from one replica to another; one list a history. Count positions are relative."""

    pieces: list[list[Piece]] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)  # of the job, of which a replica that came later knows nothing
    resumed_s: float = 0.0

    @property
    def tuples(self) -> float:
        """Tuples in it."""
        return sum([piece[2] for pieces in self.pieces for piece in pieces])


def histories(task: Task) -> list[History]:
    """The window contents of a task; none for most operators."""
    if isinstance(task, AggregateTask):
        return [task.history]
    if isinstance(task, JoinTask):
        return list(task.sides)
    return []


def held_tuples(task: Task) -> int:
    """Tuples in a task's windows."""
    return round(sum([history.held() for history in histories(task)]))


def held_bytes(task: Task) -> float:
    """What a task's windows hold: tuples of each input at their own size."""
    return sum([history.held() * size for history, size in zip(histories(task), _sizes(task), strict=True)])


def window_bytes(task: Task | Buffer) -> float:
    """Size of the `state_tuples`: as held_bytes, of what the last evaluation left, and of what waits to be merged."""
    if not task.state_tuples:
        return 0.0
    assert isinstance(task, Task)
    if not isinstance(task, JoinTask):
        return task.state_tuples * task.inputs.tuple_bytes()
    held = sum([history.held() for history in histories(task)])
    return task.state_tuples * (held_bytes(task) / held if held > 0.0 else task.inputs.tuple_bytes())


def _sizes(task: Task) -> list[float]:
    """Of the tuples in each of the histories."""
    if isinstance(task, JoinTask):
        by_side = {inbox.side: inbox.tuple_bytes for inbox in task.inputs.inboxes}
        return [by_side[side] for side in range(len(task.sides))]
    return [task.inputs.tuple_bytes()] * len(histories(task))


def take(task: Task, share: float) -> State:
    """Takes that share of the window contents out of a task, evenly over their length.

    What is in service is not there yet: its last piece may still be corrected, so it stays.
    """
    state = State()
    for history in histories(task):
        origin = _origin(task)
        kept: list[Piece] = []
        taken: list[Piece] = []
        seen = given = 0.0
        pieces = _pieces(history)
        in_service = [pieces.pop()] if task.busy and pieces else []
        for low, high, n, stamps in pieces:
            seen += n
            whole = n.is_integer()  # tuples stay whole, where segments have not merged them with others
            out = min(n, max(0.0, round(share * seen) - given)) if whole else n * share
            given += out
            if out:
                taken.append((low - origin, high - origin, out, stamps))
            if n > out:
                kept.append((low, high, n - out, stamps))
        _replace(history, kept + in_service)
        state.pieces.append(taken)
        state.restarts, state.resumed_s = history.restarts, history.resumed_s
    _settle(task)
    return state


def give(task: Task, state: State) -> None:
    """Merges window contents into those of a task, by their positions."""
    for history, pieces in zip(histories(task), state.pieces, strict=True):
        origin = _origin(task)
        moved = [(low + origin, high + origin, n, stamps) for low, high, n, stamps in pieces]
        present = _pieces(history)
        in_service = [present.pop()] if task.busy and present else []  # must stay the last
        history.restarts = sorted({*history.restarts, *state.restarts})
        history.resumed_s = max(history.resumed_s, state.resumed_s)
        _replace(history, sorted([*present, *moved], key=lambda piece: piece[1]) + in_service)
    _settle(task)


def _origin(task: Task) -> float:
    """Positions of time windows are times, the same everywhere; those of count windows count a replica's tuples."""
    assert isinstance(task, WindowTask)
    if task.by_time:
        return 0.0
    return task._position if isinstance(task, JoinTask) and task._merger is not None else float(task.seen)


def _pieces(history: History) -> list[Piece]:
    counts, start = history.counts, history._start
    before = [counts[start - 1] if start else 0.0, *counts[start:]][:-1]
    return [
        (low, high, float(count - less), stamps)
        for low, high, count, less, stamps in zip(
            history.lows[start:], history.highs[start:], counts[start:], before, history.stamps[start:], strict=True
        )
    ]


def _replace(history: History, pieces: list[Piece]) -> None:
    restarts, resumed_s = history.restarts, history.resumed_s
    history.__init__()  # type: ignore[misc]
    history.restarts, history.resumed_s = restarts, resumed_s
    for piece in pieces:
        history.add(*piece)


def _settle(task: Task) -> None:
    """Notes what the windows hold now; matches of tuples that come or go are drawn anew."""
    task.state_tuples = float(held_tuples(task))
    if isinstance(task, JoinTask):
        task.matches.clear()
