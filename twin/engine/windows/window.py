"""Windowed operators: when a window is evaluated, and what that costs.

Count windows are evaluated within the service of the segment that completes them. Time windows follow the clock: in
an exact run the evaluation is a job of its own, right at the boundary; in a fast run it looks at the boundary a little
later, when the segments that cover it have come, and its results carry the boundary's time.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import simpy

from twin.engine.alarm import Alarm
from twin.engine.segment import Segment
from twin.engine.snapshot import Snapshot
from twin.engine.task import Task
from twin.engine.windows.history import History
from twin.engine.windows.state import Piece, State
from twin.query import CountWindow, TimeWindow

if TYPE_CHECKING:
    from twin.engine.compute.processor import Processor
    from twin.engine.draws import Draws

LATE_MARGIN = 1.5
"""A fast run looks at a time boundary this many times as late as tuples lately came to be known after their service."""
LATE_FORGET = 0.01
"""Per segment, when the lateness falls; it rises at once."""
MERGE_ABOVE = 3
"""More evaluations than this within one segment become one output segment."""


@dataclass(slots=True)
class Results:
    """What one evaluation, or several merged ones, emits: n tuples over the share [low, high] of a segment.

    early_s: how much earlier than that, for evaluations that were due before the segment came (< 0: after it).
    """

    n: int
    low: float
    high: float
    born0_s: float
    born1_s: float
    taken0_s: float
    taken1_s: float
    early_s: float = 0.0

    def leave(self, first_s: float, last_s: float) -> Segment:
        """As a segment that leaves while the service runs from first_s to last_s."""
        span_s = last_s - first_s
        from_s = first_s - self.early_s
        return Segment(
            self.n,
            from_s + self.low * span_s,
            from_s + self.high * span_s,
            self.born0_s,
            self.born1_s,
            self.taken0_s,
            self.taken1_s,
        )


class WindowSnapshot(Snapshot):
    """pending: results of an evaluation that is a job of its own; planned: of those within the service."""

    __slots__ = ("boundary_s", "due", "histories", "late_s", "pending", "planned", "seen", "state_tuples")

    def __init__(self, task: WindowTask) -> None:
        serving = task._current[0].copy() if task.busy and task._pending is None else None
        super().__init__([segment.copy() for segment in task.queue], serving, task.held(), task.alignment)
        self.seen = task.seen
        self.due = list(task._due)
        self.planned = task._planned.copy()
        self.pending = (task._pending or []).copy()
        self.boundary_s = task._boundary_s
        self.late_s = task._late_s
        self.state_tuples = task.state_tuples
        self.histories = tuple([history.copy() for history in task.histories])


class WindowTask(Task):
    """Keeps a window's content and evaluates it. Subclasses say what is remembered and what comes out.

    evaluate(position, fires, low, high): results of `fires` evaluations, the last at `position`, and their CPU seconds.
    """

    __slots__ = (
        "_boundary_s",
        "_clock",
        "_due",
        "_late_s",
        "_pending",
        "_planned",
        "by_time",
        "fires",
        "follows",
        "histories",
        "planning",
        "result_s",
        "scan_s",
        "seen",
        "size",
        "slide",
    )

    def __init__(
        self,
        env: simpy.Environment,
        name: str,
        processor: Processor,
        draws: Draws,
        service_s: float,
        service_scv: float,
        exact: bool,
        window: CountWindow | TimeWindow,
        result_s: float,
        scan_s: float,
    ) -> None:
        super().__init__(env, name, processor, draws, service_s, service_scv, exact)
        self.by_time = self.follows = isinstance(window, TimeWindow)
        self.size = float(window.size)
        self.slide = float(window.slide)
        self.result_s = result_s
        self.scan_s = scan_s
        self.seen = 0
        self.fires = 0
        self.planning: Segment | None = None  # whose count windows are being evaluated
        self._planned: list[Results] = []
        self._due: deque[float] = deque()  # boundaries whose evaluation waits for this task
        self._late_s = 0.0  # how long after a tuple's service it is remembered here
        self._pending: list[Results] | None = None  # of the evaluation that is a job of its own
        self._boundary_s = 0.0
        if self.by_time:
            self._boundary_s = (self.env.now // self.slide + 1.0) * self.slide
            self._clock = Alarm(self.env, self._boundary)
            self._clock.set(self._boundary_s)

    def stop(self) -> None:
        """Drops the results under way, too."""
        super().stop()
        self._pending = None
        self._planned = []

    # what subclasses say -------------------------------------------------------------------------------------------

    histories: tuple[History, ...]
    """One an input side, or a single one for all."""

    def remember(self, segment: Segment, low: float, high: float) -> None:
        """Adds the segment's tuples at the positions (low, high]."""
        raise NotImplementedError

    def correct(self, segment: Segment, low: float, high: float) -> None:
        """Moves the tuples just remembered to where they were really served."""
        raise NotImplementedError

    def evaluate(self, position: float, fires: int, low: float, high: float) -> tuple[Results | None, float]:
        """See the class."""
        raise NotImplementedError

    def forget(self, position: float) -> None:
        """Drops what no later window holds; notes how many tuples are left in `state_tuples`."""
        raise NotImplementedError

    # count windows: within the service -----------------------------------------------------------------------------

    def plan(self, segment: Segment) -> float:
        """Evaluates the count windows that this segment completes."""
        if self.by_time:
            return 0.0
        self.planning = segment
        before, n = self.seen, segment.n
        self.seen += n
        self.remember(segment, float(before), float(self.seen))
        slide = int(self.slide)
        first = before // slide + 1
        fires = self.seen // slide - first + 1
        work_s = 0.0
        if fires > MERGE_ABOVE:
            low, high = ((first * slide - before) / n, ((first + fires - 1) * slide - before) / n)
            work_s = self._fire((first + fires - 1) * slide, fires, low, high)
        else:
            for k in range(first, first + fires):
                at = (k * slide - before) / n
                work_s += self._fire(k * slide, 1, at, at)
        if fires:
            self.forget((first + fires) * slide - self.size)
        return work_s

    def _fire(self, position: float, fires: int, low: float, high: float) -> float:
        self.fires += fires
        results, work_s = self.evaluate(position, fires, low, high)
        if results is not None and results.n > 0:
            self._planned.append(results)
            work_s += results.n * self.send_s
        return work_s

    def emit(self, segment: Segment, first_s: float, last_s: float) -> None:
        """Sends the results of the evaluations within this service."""
        if not self._planned:
            return
        planned, self._planned = self._planned, []
        for results in planned:
            self._send_results(results, first_s, last_s)

    def _send_results(self, results: Results, first_s: float, last_s: float) -> None:
        segment = results.leave(first_s, last_s)
        if segment.n == 1:  # one result, of an age that is anywhere in the range
            segment.collapse(self.draws.uniform())
        self.send(segment)

    # what it holds -------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """What is in service is in the window already: its results are sent at the restart."""
        return WindowSnapshot(self)

    def restore(self, snapshot: Snapshot, at_s: float, now_s: float) -> int:
        """Windows that the content belongs to end now, if their time is over; the clock goes on."""
        assert isinstance(snapshot, WindowSnapshot)
        self.seen, self.state_tuples, self._late_s = snapshot.seen, snapshot.state_tuples, snapshot.late_s
        self._due = deque(snapshot.due)
        self._planned = snapshot.planned.copy()
        self.histories = tuple([history.copy() for history in snapshot.histories])
        for history in self.histories:
            history.restarted(at_s, now_s)
        boundary_s = snapshot.boundary_s
        while self.by_time and boundary_s < min(self._boundary_s, at_s + self.size):
            self._due.append(boundary_s)
            boundary_s += self.slide
        return super().restore(snapshot, at_s, now_s)

    def finish(self, snapshot: Snapshot) -> None:
        """Sends the results of what was in service."""
        assert isinstance(snapshot, WindowSnapshot)
        now: float = self.env.now
        if snapshot.serving is not None:
            self.emit(snapshot.serving.copy(), now, now)
        for results in snapshot.pending:
            if results.n > 0:
                self._send_results(results, now, now)

    def held(self) -> float:
        """See Task."""
        return sum([history.held() for history in self.histories])

    def held_bytes(self) -> float:
        """Tuples of each input at their own size."""
        return sum([history.held() * size for history, size in zip(self.histories, self.sizes(), strict=True)])

    def sizes(self) -> list[float]:
        """Of a tuple in each of the histories, in bytes."""
        return [self.inputs.tuple_bytes()] * len(self.histories)

    def window_bytes(self) -> float:
        """See Task."""
        return self.state_tuples * self.inputs.tuple_bytes() if self.state_tuples else 0.0

    def take(self, share: float) -> State:
        """See Task."""
        origin = self.origin()
        state = State()
        left = []
        for history in self.histories:
            pieces = history.pieces()
            in_service = [pieces.pop()] if self.busy and pieces else []
            taken, kept = divided(pieces, share)
            state.pieces.append([(low - origin, high - origin, n, stamps) for low, high, n, stamps in taken])
            left.append(history.replaced(kept + in_service))
            state.restarts, state.resumed_s = history.restarts, history.resumed_s
        self.histories = tuple(left)
        self.settle()
        return state

    def give(self, state: State) -> None:
        """See Task."""
        origin = self.origin()
        merged = []
        for history, pieces in zip(self.histories, state.pieces, strict=True):
            moved = [(low + origin, high + origin, n, stamps) for low, high, n, stamps in pieces]
            present = history.pieces()
            in_service = [present.pop()] if self.busy and present else []  # must stay the last
            history.restarts = sorted({*history.restarts, *state.restarts})
            history.resumed_s = max(history.resumed_s, state.resumed_s)
            merged.append(history.replaced(sorted([*present, *moved], key=lambda piece: piece[1]) + in_service))
        self.histories = tuple(merged)
        self.settle()

    def origin(self) -> float:
        """Positions of time windows are times, the same everywhere; those of count windows count a replica's tuples."""
        return 0.0 if self.by_time else float(self.seen)

    def settle(self) -> None:
        """Content came or went: notes what is held now."""
        self.state_tuples = float(round(self.held()))

    # time windows: at boundaries -----------------------------------------------------------------------------------

    def served(self, segment: Segment, start_s: float, end_s: float) -> None:
        """Remembers when the tuples were processed; corrects it at the end of a job."""
        known_s = end_s if self.blocked_s > 0.0 and segment.b_s > segment.a_s else start_s
        late_s = max(0.0, self.env.now - known_s)
        self._late_s = late_s if late_s > self._late_s else self._late_s + LATE_FORGET * (late_s - self._late_s)
        if self.busy and self._current[0] is segment:
            self.correct(segment, start_s, end_s)
        else:
            self.remember(segment, start_s if segment.n > 1 else end_s, end_s)

    def _boundary(self, alarm: Alarm) -> None:
        if self.halted:
            return
        boundary_s = self._boundary_s
        self._boundary_s = boundary_s + self.slide
        late_s = 0.0 if self.exact else LATE_MARGIN * self._late_s
        self._clock.set(max(self._boundary_s + late_s, self.env.now + 1e-9))
        if self.blocked or (self.exact and self.busy):
            self._due.append(boundary_s)
        else:
            self._evaluate_at(boundary_s, boundary_s)

    def _evaluate_at(self, boundary_s: float, from_s: float) -> None:
        """Evaluates the window that ended at a boundary; the work begins at `from_s` at the earliest."""
        self.fires += 1
        histories = self.histories if self.blocked_s > 0.0 and not self.exact else ()
        under_way = False  # tuples are being served meanwhile that will come to be known only with their segment
        for history in histories:
            under_way |= history.foresee(boundary_s)
        results, work_s = self.evaluate(boundary_s, 1, 0.0, 1.0)
        for history in histories:
            history.recall()
        self.forget(boundary_s + self.slide - self.size)
        if results is not None and results.n > 0:
            work_s += results.n * self.send_s
        work_s *= self.processor.slowdown
        self.processor.work_s += work_s
        if self.exact:
            self._evaluate_as_job(results, work_s)
            return
        speed = self.processor.speed
        time_s = work_s / speed
        if results is not None and results.n > 0:
            self._send_results(results, from_s + time_s, from_s + time_s)
        if self.blocked and not self.processor.shared:
            # the results fill a channel: the task evaluates first, then it is blocked, and takes no tuples meanwhile
            self.busy_s += time_s
            self._blocked_since_s += time_s
        elif self.busy or under_way or self.processor.shared:
            self.debt_s += work_s / self.processor.slowdown
            self.processor.work_s -= work_s
        else:
            self.occupy(from_s, time_s)
            self.busy_s += time_s

    def _evaluate_as_job(self, results: Results | None, work_s: float) -> None:
        started_s: float = self.env.now
        self.busy = True
        self.in_service_work_s = work_s
        pending = self._pending = [] if results is None else [results]

        def finish() -> None:
            self._pending = None
            now: float = self.env.now
            self.busy_s += now - started_s
            self.free_s = now
            if results is not None and results.n > 0:
                self._send_results(results, now, now)
            self.busy = False

        def done(_: object = None) -> None:
            if self._pending is pending:  # else it was stopped meanwhile
                finish()
                self.work()

        if work_s <= 0.0:  # whoever evaluates goes on with what is queued
            finish()
        elif self.processor.shared:
            self.processor.start(self.share, work_s, done)
        else:
            Alarm(self.env, done).set(started_s + work_s / self.processor.speed)

    def work(self) -> None:
        """Evaluations that are due come before the next segment."""
        while (self._due or self.queue) and not self.busy and not self.blocked and not self.halted:
            if self._due:
                self._evaluate_at(self._due.popleft(), self.env.now)
                continue
            segment = self.queue.popleft()
            if segment.n:
                self._begin(segment)
            else:
                self.heed(segment)
        if self.pool is not None:
            self.pool.feed(self)


def divided(pieces: list[Piece], share: float) -> tuple[list[Piece], list[Piece]]:
    """That share of each piece, and the rest. Tuples stay whole, where segments have not merged them with others."""
    taken: list[Piece] = []
    kept: list[Piece] = []
    seen = given = 0.0
    for low, high, n, stamps in pieces:
        seen += n
        out = min(n, max(0.0, round(share * seen) - given)) if n.is_integer() else n * share
        given += out
        if out:
            taken.append((low, high, out, stamps))
        if n > out:
            kept.append((low, high, n - out, stamps))
    return taken, kept
