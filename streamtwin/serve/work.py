"""Work of a server: worker processes that make runs, and long questions in processes of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from scenarios.executing import starting
from scenarios.files.documents import read
from scenarios.planning.planner import PlanChosen
from streamtwin.answers import Presentation
from streamtwin.answers.plans import told_of_plan
from streamtwin.package import ENDS_WITH_STDIN, ROOT
from streamtwin.questions.plans import OptimizePlan
from streamtwin.questions.registry import QUESTIONS, forms
from streamtwin.serve.inquiry import Inquiry, command
from twin.errors import BadInput, TooMuch, suggest
from twin.plan import ExecutionPlan
from twin.scenario import Scenario
from twin.spec import parse

# workers -------------------------------------------------------------------------------------------------------------
# Worker processes that make runs for the sessions, and drop runs that are no longer wanted.
#
# A session declares all tasks that it wants now. Tasks that it wanted before and does not want now leave the queue, and
# their runs are ended with their processes. So nobody waits for answers to older questions.


PATIENCE_S = 1.0
"""Longest time for which a run of a comparison may keep others waiting."""
BACK = 3
"""Nice value of the processes for comparisons, so that they leave the processor to first answers."""
RUN_LIMIT_S = 300.0
"""Longest time of a run, after which it is given up."""


class RunTask(NamedTuple):
    """Task of making one run. key: of the result. kind: by which results are kept, up to a number (KEPT). rank: smaller
    ones first."""

    key: str
    kind: str
    rank: int
    call: Callable[..., Any]
    arguments: tuple[Any, ...]


class Made(NamedTuple):
    """Result of a task, or words on why there is none; and the CPU seconds that it took. too_much: whether that is
    because a run takes too much for a page."""

    result: Any
    refused: str
    cpu_s: float
    too_much: bool = False


KEPT: Mapping[str, int] = {"run": 96, "replay": 32, "outcome": 4000}
"""Most results of each kind that are remembered."""


class Workers:
    """Pool of processes, one of which is kept for first answers alone, and the results. Use it from one event loop."""

    def __init__(self, count: int, told: Callable[[], None]) -> None:
        """Starts `count` processes and one more. told: called when a result is ready."""
        self._told, self._threads = told, ThreadPoolExecutor(count + 1)
        self._idle = [_Worker(first=number == 0) for number in range(count + 1)]
        self._running: dict[str, _Running] = {}
        self._closed = False
        self._wanted: dict[str, Sequence[RunTask]] = {}
        self._made: dict[str, OrderedDict[str, Made]] = {kind: OrderedDict() for kind in KEPT}
        self._tasks: set[asyncio.Task[None]] = set()

    def want(self, owner: str, tasks: Sequence[RunTask]) -> None:
        """Replaces the tasks of an owner, such as a session. The owner that has asked last comes first."""
        self._wanted.pop(owner, None)
        self._wanted = {owner: tasks, **self._wanted}
        wanted = {task.key for task in self._open()}
        for key, running in self._running.items():
            if key not in wanted:
                running.worker.end()
        self._go_on()

    def made(self, task: RunTask) -> Made | None:
        """Result of a task; None if it is not done yet."""
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
        """Tasks that are not done: first answers before all else, then those of the last owner to ask, by rank."""
        listed = [task for tasks in self._wanted.values() for task in sorted(tasks, key=lambda task: task.rank)]
        return sorted((task for task in listed if self.made(task) is None), key=lambda task: task.rank > 0)

    def _go_on(self) -> None:
        """Begins tasks on idle processes; if tasks wait, makes room after PATIENCE_S of the longest run."""
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
        """Ends one run of a comparison if the last owner to ask has to wait for it."""
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
        late = loop.call_later(RUN_LIMIT_S, worker.end)
        try:
            self._keep(task, await calling)
        except (EOFError, OSError, BrokenPipeError):  # it was ended, or has crashed
            ended = True
            if time.monotonic() - began_s >= RUN_LIMIT_S:
                why = f"the run took more than {RUN_LIMIT_S:.0f} s and was given up; lower rates or run.horizon_s"
                self._keep(task, Made(None, why, RUN_LIMIT_S))
            elif not worker.wanted_end:
                why = "the process of the run has died, perhaps for lack of memory; lower rates or run.horizon_s"
                self._keep(task, Made(None, why, 0.0))
        finally:
            late.cancel()
            self._running.pop(task.key, None)
        if self._closed:
            return
        if ended or worker.wanted_end:
            worker.close()
            worker = await loop.run_in_executor(None, _Worker, worker.first)
        self._idle.insert(0 if worker.first else len(self._idle), worker)
        self._go_on()
        self._told()

    def _keep(self, task: RunTask, made: Made) -> None:
        """Keeps a result, and takes its task off all owners' lists, so that it is not made again if it is forgotten."""
        self._wanted = {
            owner: [each for each in tasks if each.key != task.key] for owner, tasks in self._wanted.items()
        }
        kept = self._made[task.kind]
        kept[task.key] = made
        while len(kept) > KEPT[task.kind]:
            kept.popitem(last=False)


class _Worker:
    """Process that does one task at a time. first: it is reserved for first answers."""

    def __init__(self, first: bool) -> None:
        self.first = first
        context = starting("streamtwin.serve.session")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, 0 if first else BACK), daemon=True)  # type: ignore[attr-defined]
        self._process.start()
        theirs.close()
        self.wanted_end = False

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Made:
        """Calls a function in the process; returns its result. Raises EOFError or OSError if the process ends first."""
        self._pipe.send((function, arguments))
        made: Made = self._pipe.recv()
        return made

    def end(self) -> None:
        """Kills the process."""
        self.wanted_end = True
        self._process.kill()

    def close(self) -> None:
        """Gives back the descriptors of a process that has ended or is killed, when nobody waits for its answer."""
        self._process.kill()
        self._process.join()
        self._process.close()
        self._pipe.close()


class _Running(NamedTuple):
    """Task that a process is working on."""

    worker: _Worker
    task: RunTask
    since_s: float


def _work(pipe: Connection, nice: int) -> None:
    """Main loop of a worker process, until the other end of the pipe is closed. It ignores Ctrl-C, on which the server
    ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(nice)
    while True:
        try:
            function, arguments = pipe.recv()
        except (EOFError, OSError):
            return
        began_s, result, refused, too_much = time.process_time(), None, "", False
        try:
            result = function(*arguments)
        except BadInput as error:
            refused, too_much = str(error), isinstance(error, TooMuch)
        except Exception as error:
            refused = f"internal error: {type(error).__name__}: {error}"
        pipe.send(Made(result, refused, time.process_time() - began_s, too_much))


# long questions ------------------------------------------------------------------------------------------------------
# Answers long questions by the command itself, in a process of its own, so that the numbers are the command's.
#
# Its progress is shown, and it can be stopped as by Ctrl-C: a search for a plan then gives its best.


MOST_LINES, MOST_FIELD = 8, 500
"""Most lines of progress that are shown, and most characters of a field."""
LIMIT_S = 1800.0
"""Longest time for a question, after which it is stopped as by Ctrl-C."""


def words(inquiry: Inquiry, question: str, fields: Mapping[str, str]) -> list[str]:
    """Words of the command after `twin`. Empty fields are left out. Raises BadInput for an unknown question or name."""
    if question not in forms():
        raise BadInput(f"question {question!r}: {suggest(question, forms())}")
    found = [question, inquiry.name, *inquiry.options()]
    for name, field in forms()[question].fields.items():
        flag, value = f"--{name}", fields.get(name, "").strip()
        if len(value) > MOST_FIELD:
            raise BadInput(f"{flag}: {len(value)} characters; {MOST_FIELD} are the most")
        if value and field.allowed is not None:
            known = field.allowed()
            for each in value.split(","):
                if each.strip() not in known:
                    raise BadInput(f"{flag} {each.strip()}: {suggest(each.strip(), known)}")
        if value:
            found += [f"{flag}={value}"]
    return found


class LongQuestion:
    """Long question that is being answered. lines: the last lines of its progress."""

    def __init__(self, question: str, asked: list[str], of: str) -> None:
        self.question, self.asked, self.of = question, asked, of
        self.lines: deque[str] = deque(maxlen=MOST_LINES)
        self.began_s = time.monotonic()
        self.stopping = False
        self._process: asyncio.subprocess.Process | None = None

    @property
    def command(self) -> str:
        """Command line, quoted for a shell."""
        return command(*self.asked)

    async def answer(self, told: Callable[[], None]) -> dict[str, Any]:
        """Answers the question; returns the values to keep. told: called after each line of progress."""
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "streamtwin", *self.asked, "--json",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            start_new_session=True, env={**os.environ, "PYTHONPATH": path, ENDS_WITH_STDIN: "1"},
            preexec_fn=_hears_ctrl_c,
        )  # fmt: skip
        if self.stopping:  # while its process was being started
            os.killpg(self._process.pid, signal.SIGKILL)
        late = asyncio.get_running_loop().call_later(LIMIT_S, self.stop)
        try:
            document, _ = await asyncio.gather(self._process.stdout.read(), self._listen(told))  # type: ignore[union-attr]
            status = await self._process.wait()
        finally:
            late.cancel()
            await self._end()
        last = self.lines[-1].removeprefix("twin: ") if self.lines else ""
        kept: dict[str, Any] = {"question": self.question, "command": self.command, "of": self.of, "plan": ""}
        kept |= {"took_s": time.monotonic() - self.began_s, "refused": "" if document else last or f"status {status}"}
        return {**kept, "document": document.decode(), "interrupted": status != 0}

    async def _listen(self, told: Callable[[], None]) -> None:
        assert self._process is not None and self._process.stderr is not None
        while line := await self._process.stderr.readline():
            self.lines.append(line.decode(errors="replace").rstrip()[:400])
            told()

    def stop(self) -> None:
        """Stops the command as Ctrl-C does; the second call kills it."""
        if self._process is not None and self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL if self.stopping else signal.SIGINT)
        self.stopping = True

    async def _end(self) -> None:
        """Kills the command with all processes that it has started, and closes its pipes."""
        assert self._process is not None
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.communicate()


def _hears_ctrl_c() -> None:
    """Makes a child process heed Ctrl-C, which it would ignore if a shell started the server in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def shown(question: str, document: str, now: Scenario | None = None) -> Presentation:
    """Presentation of an answer's document. now: the scenario for which a plan was found."""
    if question == OptimizePlan.command:
        return told_of_plan(read(PlanChosen, document), now)
    return QUESTIONS[question].presented(document)


def readable(answer: Mapping[str, Any]) -> None:
    """Raises ValueError, LookupError, TypeError or AttributeError if an answer that was kept cannot be shown."""
    if answer["document"]:
        shown(answer["question"], answer["document"])


def plan_of(document: str) -> ExecutionPlan:
    """Plan in a document of `optimize`."""
    chosen = read(PlanChosen, document)
    return parse(ExecutionPlan, {name: getattr(chosen, name) for name in ExecutionPlan.model_fields})
