"""Processes that make runs for whoever asks: told what is wanted now, they drop what no longer is.

Whoever asks declares all that it wants, in order; what it wanted before and does not now is left out of the queue, and
a run of it that has gone on for a while is ended with its process. So nobody waits for answers to older questions.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from scenarios.executing.processes import starting
from twin.errors import BadInput

PATIENCE_S = 1.0
"""A run of a comparison may keep others waiting for so long."""
BACK = 3
"""Nice value of the processes for comparisons, which so leave the processor to first answers."""
LIMIT_S = 300.0
"""A run that takes longer is given up."""


class RunTask(NamedTuple):
    """key: of the result. kind: results of a kind are kept up to a number. rank: smaller ones first."""

    key: str
    kind: str
    rank: int
    call: Callable[..., Any]
    arguments: tuple[Any, ...]


class Made(NamedTuple):
    """A result, or in words why there is none; and the CPU seconds that it took."""

    result: Any
    refused: str
    cpu_s: float


KEPT: Mapping[str, int] = {"run": 96, "film": 32, "outcome": 4000}
"""Most results of each kind that are remembered."""


class Workers:
    """A number of processes, one more for first answers alone, and what they have made. Use it from one event loop."""

    def __init__(self, count: int, told: Callable[[], None]) -> None:
        """told: called when something is ready."""
        self._told, self._threads = told, ThreadPoolExecutor(count + 1)
        self._idle = [_Worker(first=number == 0) for number in range(count + 1)]
        self._running: dict[str, _Running] = {}
        self._closed = False
        self._wanted: dict[str, Sequence[RunTask]] = {}
        self._made: dict[str, OrderedDict[str, Made]] = {kind: OrderedDict() for kind in KEPT}
        self._tasks: set[asyncio.Task[None]] = set()

    def want(self, owner: str, tasks: Sequence[RunTask]) -> None:
        """From now on this is all that the owner wants. Whoever has asked last comes first."""
        self._wanted.pop(owner, None)
        self._wanted = {owner: tasks, **self._wanted}
        wanted = {task.key for task in self._open()}
        for key, running in self._running.items():
            if key not in wanted:
                running.worker.end()
        self._go_on()

    def made(self, task: RunTask) -> Made | None:
        """What became of a task; None if it is not done yet."""
        kept = self._made[task.kind]
        if task.key in kept:
            kept.move_to_end(task.key)
        return kept.get(task.key)

    def close(self) -> None:
        """Ends all processes."""
        self._closed = True
        self._wanted.clear()
        for worker in [*self._idle, *(running.worker for running in self._running.values())]:
            worker.end()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _open(self) -> list[RunTask]:
        """What is still to be done: first answers before all else, then what was asked for last, by rank."""
        listed = [task for tasks in self._wanted.values() for task in sorted(tasks, key=lambda task: task.rank)]
        return sorted((task for task in listed if self.made(task) is None), key=lambda task: task.rank > 0)

    def _go_on(self) -> None:
        """Begins what can be begun; looks again when a run that is in the way has gone on for long."""
        loop, waiting = asyncio.get_running_loop(), False
        for task in self._open():
            if task.key in self._running:
                continue
            worker = next((each for each in self._idle if task.rank == 0 or not each.first), None)
            if worker is None:
                waiting = True
                continue
            self._idle.remove(worker)
            self._running[task.key] = _Running(worker, task, time.monotonic())
            going = loop.create_task(self._run(worker, task))
            self._tasks.add(going)
            going.add_done_callback(self._tasks.discard)
        if waiting and self._running:
            oldest_s = time.monotonic() - min(running.since_s for running in self._running.values())
            loop.call_later(max(0.0, PATIENCE_S - oldest_s), self._make_room)

    def _make_room(self) -> None:
        """Ends one run of a comparison if who asked last has to wait for it."""
        wanted = ({task.key for task in tasks if self.made(task) is None} for tasks in self._wanted.values())
        last = next(filter(None, wanted), set())
        for key, running in sorted(self._running.items(), key=lambda each: -each[1].task.rank):
            in_the_way = running.task.rank > 0 and key not in last
            if last - self._running.keys() and in_the_way and time.monotonic() - running.since_s >= PATIENCE_S:
                running.worker.end()
                break

    async def _run(self, worker: _Worker, task: RunTask) -> None:
        loop, ended = asyncio.get_running_loop(), False
        began_s = time.monotonic()
        calling = loop.run_in_executor(self._threads, worker.call, task.call, task.arguments)
        late = loop.call_later(LIMIT_S, worker.end)
        try:
            self._keep(task, await calling)
        except (EOFError, OSError, BrokenPipeError):  # it was ended, or has crashed
            ended = True
            if time.monotonic() - began_s >= LIMIT_S:
                why = f"the run took more than {LIMIT_S:.0f} s and was given up; lower rates or run.horizon_s"
                self._keep(task, Made(None, why, LIMIT_S))
            elif not worker.wanted_end:
                why = "the process of the run has died, perhaps for lack of memory; lower rates or run.horizon_s"
                self._keep(task, Made(None, why, 0.0))
        finally:
            late.cancel()
            self._running.pop(task.key, None)
        if self._closed:
            return
        if ended or worker.wanted_end:
            worker = await loop.run_in_executor(None, _Worker, worker.first)
        self._idle.insert(0 if worker.first else len(self._idle), worker)
        self._go_on()
        self._told()

    def _keep(self, task: RunTask, made: Made) -> None:
        """What is made is wanted no longer, also when it is forgotten, until somebody asks for it again."""
        self._wanted = {
            owner: [each for each in tasks if each.key != task.key] for owner, tasks in self._wanted.items()
        }
        kept = self._made[task.kind]
        kept[task.key] = made
        while len(kept) > KEPT[task.kind]:
            kept.popitem(last=False)


class _Worker:
    """A process that does one thing at a time. first: it is kept for first answers."""

    def __init__(self, first: bool) -> None:
        self.first = first
        context = starting("streamtwin.serve.desk")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, 0 if first else BACK), daemon=True)  # type: ignore[attr-defined]
        self._process.start()
        theirs.close()
        self.wanted_end = False

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Made:
        """What becomes of it. Raises EOFError or OSError if the process ends before."""
        self._pipe.send((function, arguments))
        made: Made = self._pipe.recv()
        return made

    def end(self) -> None:
        """At once."""
        self.wanted_end = True
        self._process.kill()


class _Running(NamedTuple):
    """A task that is being worked on."""

    worker: _Worker
    task: RunTask
    since_s: float


def _work(pipe: Connection, nice: int) -> None:
    """Until the other end of the pipe is closed. Ctrl-C is for the server, which then ends this."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(nice)
    while True:
        try:
            function, arguments = pipe.recv()
        except (EOFError, OSError):
            return
        began_s, result, refused = time.process_time(), None, ""
        try:
            result = function(*arguments)
        except BadInput as error:
            refused = str(error)
        except Exception as error:
            refused = f"internal error: {type(error).__name__}: {error}"
        pipe.send(Made(result, refused, time.process_time() - began_s))
