"""Executors that make runs in the processes of this machine, and their progress."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from types import TracebackType
from typing import Any, Protocol, Self

from twin.errors import BadInput
from twin.work import Executor

# progress ------------------------------------------------------------------------------------------------------------
# Shows the progress of long work: a bar for a person at a terminal, a line at every tenth elsewhere.


Progress = Callable[[int, int], None]
"""Function that is called with (done, total)."""


class Report(Protocol):
    """Progress that can also say how the work stands."""

    def __call__(self, done: int, total: int, words: str = "", /) -> None:
        """Takes (done, total), and words on the state of the work."""


class Audience(Protocol):
    """Receiver of the progress of a command."""

    def stage(self, text: str) -> None:
        """Shows a line on the present stage of the command."""

    def progress(self, what: str) -> AbstractContextManager[Report]:
        """Context with a function that takes (done, total) of the `what` that are counted."""


class Lines:
    """Audience that shows plain lines: for logs, pipes and tests."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.stage = say

    @contextmanager
    def progress(self, what: str) -> Iterator[Report]:
        """Context with a function that shows a line at every tenth, with the time left where work takes long."""
        began: list[tuple[float, int]] = []  # the first report: work that goes on begins later than at 0

        def show(done: int, total: int, words: str = "") -> None:
            now_s = time.monotonic()
            if not began:
                began.append((now_s, done))
            passed_s, made = now_s - began[0][0], done - began[0][1]
            left = ""
            if passed_s >= LONG_S and made and done < total:
                left = f", some {in_words(passed_s * (total - done) / made)} left"
            self.stage(f"    {done} of {total} {what}{words and f': {words}'}{left}")

        with to_the_end(every_tenth(show)) as report:
            yield report


LONG_S = 5.0
"""Time from which on lines tell how much is left."""


def in_words(seconds: float) -> str:
    """Time to come, in seconds, minutes or hours."""
    if seconds < 100.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} minutes" if seconds < 6000.0 else f"{seconds / 3600.0:.1f} hours"


@contextmanager
def bar(what: str) -> Iterator[Report]:
    """Context with a function that moves a bar on stderr, with counts and the time left."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(TextColumn("   "), *columns, console=Console(file=sys.stderr)) as bars:
        task = bars.add_task(what, total=None)

        def move(done: int, total: int, words: str = "") -> None:
            bars.update(task, completed=done, total=total, description=words or what)

        with to_the_end(move) as report:
            yield report


@contextmanager
def to_the_end(report: Report) -> Iterator[Report]:
    """Context with `report`, called with the total at the end if work ended before it, as trainings stop early."""
    done, total = 0, 0

    def watch(now: int, of: int, words: str = "") -> None:
        nonlocal done, total
        done, total = now, of
        report(now, of, words)

    yield watch
    if done < total:
        report(total, total)


def every_tenth(report: Report) -> Report:
    """Function that calls `report` only when another tenth is done."""
    tenths = -1

    def watch(done: int, total: int, words: str = "") -> None:
        nonlocal tenths
        if done * 10 // total > tenths:
            tenths = done * 10 // total
            report(done, total, words)

    return watch


# processes -----------------------------------------------------------------------------------------------------------
# Runs work in as many processes as there are cores, or in this one where starting others would take longer.


STARTED_S = 4.0
"""CPU seconds of work from which on it is worth while to start processes, which takes one or two."""
CLAIMS = "streamtwin.command"
"""Module that takes the names of our packages, whatever modules of these names a user has; imported first."""
IMPORTED = "twin.simulation"
"""Module that takes long to import and almost all work needs: it is imported once, before workers are forked."""


class Processes:
    """Executor of work in processes of this machine; a `twin.work.Executor`.

    workers: number of processes; None: one a core. Raises BadInput for fewer than 1.
    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise BadInput(f"--workers {workers}: at least 1")
        self._workers = workers or os.cpu_count() or 1
        self._pool: ProcessPoolExecutor | None = None
        self._told, self._tells = multiprocessing.Pipe(duplex=False)

    def each(self, work: Callable[[Any], Any], items: Sequence[Any], done: Callable[[int, Any], None]) -> None:
        """Calls `done` with position and result of each item, as from `Executor.each`. The first items are done here,
        until they have shown that the rest is worth other processes."""
        rest, began_s = deque(enumerate(items)), time.process_time()
        while rest and not self._worth_while(len(rest), len(items), time.process_time() - began_s):
            position, item = rest.popleft()
            done(position, work(item))
        futures = {self._started().submit(work, item): position for position, item in rest}
        for future in as_completed(futures):
            done(futures[future], future.result())

    def expect(self, work_s: float) -> None:
        """Starts the processes, if so many CPU seconds of work that is still to come are worth it."""
        if self._workers > 1 and work_s >= STARTED_S:
            self._started()

    def _worth_while(self, rest: int, items: int, spent_s: float) -> bool:
        """Whether other processes should do the rest of the items, after the first have taken so many CPU seconds."""
        if self._workers == 1 or rest < 2:
            return False
        return self._pool is not None or (rest < items and spent_s / (items - rest) * rest >= STARTED_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._pool is not None:
            if kind is not None:
                self._tells.close()
            self._pool.shutdown(wait=kind is None, cancel_futures=True)

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self._workers, starting(), _end_when_told, (self._told,))
        return self._pool


def executor(workers: int | None, master: str | None, say: Callable[[str], None] = lambda _text: None) -> Executor:
    """Executor of work in processes of this machine, or on Spark. say: called with a text before a long start.

    Raises BadInput if both are asked for, and as `Processes` and `OnSpark` do.
    """
    if master is None:
        return Processes(workers)
    if workers is not None:
        raise BadInput(f"--workers {workers} is for runs on this machine, not for --master {master}; give one of them")
    from spark.executor import OnSpark

    return OnSpark(master, say)


def starting(*imported: str) -> BaseContext:
    """Context for starting processes: forked, where possible, from one that has imported IMPORTED and these modules."""
    forks = "forkserver" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if forks else "spawn")
    context.set_forkserver_preload([CLAIMS, IMPORTED, *imported])
    if forks:
        resource_tracker.ensure_running()  # first, as starting it unblocks SIGINT
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # else Ctrl-C makes it print a traceback
        try:
            forkserver.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context


def _end_when_told(told: Connection) -> None:
    """Makes a worker end at once when the process that started it gives up or is gone. Ctrl-C, which a terminal sends
    to all of its processes, is for that process alone: it may go on, to the best so far."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_after, args=(told,), daemon=True).start()


def _end_after(told: Connection) -> None:
    told.poll(None)  # nothing is ever sent: it returns when the other end is closed
    os._exit(1)
