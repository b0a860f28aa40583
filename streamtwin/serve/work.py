"""Answers long questions by the command itself, in a process of its own, so that the numbers are the command's.

Its progress is shown, and it can be stopped as by Ctrl-C: a search for a plan then gives its best.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from scenarios.files.documents import read
from scenarios.planning.planner import PlanChosen
from streamtwin import catalogue
from streamtwin.answers.presentation import Presentation
from streamtwin.answers.registry import presented
from streamtwin.house import ENDS_WITH_STDIN, ROOT
from streamtwin.serve.inquiry import Inquiry, command
from streamtwin.tables.chosen_plan import quantity
from streamtwin.tables.tables import of_rows, places
from twin.errors import BadInput, suggest
from twin.plan import ExecutionPlan
from twin.scenario import Scenario
from twin.spec import parse

MOST_LINES, MOST_FIELD = 8, 500
"""Most lines of progress that are shown, and most characters of a field."""
LIMIT_S = 1800.0
"""Longest time for a question, after which it is stopped as by Ctrl-C."""
OBJECTIVES: Mapping[str, str] = {
    "e2e_latency_s": "end-to-end latency, mean",
    "processing_latency_s": "processing latency, mean",
    "throughput_per_s": "results a second",
    "price": "price of the hosts",
    "traffic_bytes_per_s": "bytes a second between hosts",
}
"""Words for all of `optimizers.objectives`."""
NAMED: Mapping[str, Mapping[str, Callable[[], Collection[str]]]] = {
    "optimize": {"objective": lambda: OBJECTIVES, "optimizer": catalogue.optimizers},
    "compare-policies": {"policies": lambda: ("none", *catalogue.policies())},
}
"""Allowed values of fields, by question: other values name files, and some of these would be run as code."""
OPTIONS: Mapping[str, Sequence[str]] = {
    "capacity": ("find-max", "find-min", "while"),
    "optimize": ("objective", "optimizer"),
    "compare-policies": ("policies", "slo"),
    "dry-run": ("fail", "rescale", "migrate", "at", "recover-after", "lost"),
}
"""Options that each question has on the page."""


def words(inquiry: Inquiry, question: str, fields: Mapping[str, str]) -> list[str]:
    """Words of the command after `twin`. Empty fields are left out. Raises BadInput for an unknown question or name."""
    if question not in OPTIONS:
        raise BadInput(f"question {question!r}: {suggest(question, OPTIONS)}")
    found = [question, inquiry.name, *inquiry.options()]
    for name in OPTIONS[question]:
        flag, value = f"--{name}", fields.get(name, "").strip()
        if len(value) > MOST_FIELD:
            raise BadInput(f"{flag}: {len(value)} characters; {MOST_FIELD} are the most")
        known = NAMED.get(question, {}).get(name, tuple)()
        for each in value.split(",") if value and known else ():
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
    if question == "optimize":
        return _of_plan(read(PlanChosen, document), now)
    return presented(question, document)


def readable(answer: Mapping[str, Any]) -> None:
    """Raises ValueError, LookupError, TypeError or AttributeError if an answer that was kept cannot be shown."""
    if answer["document"]:
        shown(answer["question"], answer["document"])


def plan_of(document: str) -> ExecutionPlan:
    """Plan in a document of `optimize`."""
    chosen = read(PlanChosen, document)
    return parse(ExecutionPlan, {name: getattr(chosen, name) for name in ExecutionPlan.model_fields})


def _of_plan(chosen: PlanChosen, now: Scenario | None) -> Presentation:
    """Presentation of the plan found beside the given one."""
    shows = quantity(chosen.objective)
    found = "keeps up" if chosen.keeps_up else "does not keep up"
    found += ", but not as required" * (chosen.keeps_up and not chosen.as_required)
    predicted = "no value" if chosen.predicted is None else shows(chosen.predicted)
    what = OBJECTIVES[chosen.objective]
    sentence = f"By {chosen.optimizer}: {what}, {predicted} as predicted by {chosen.cost_model}, and the job {found}"
    if chosen.given is not None:
        given = "no value" if chosen.given.predicted is None else shows(chosen.given.predicted)
        keeps = "does not keep up" if chosen.given.backpressured or not chosen.given.success else "keeps up"
        sentence += f"; as it is now, {given}, and it {keeps}"
    before = {} if now is None else now.plan.model_dump(mode="json")["placement"]
    rows = [
        {
            "operator": name,
            "before": places(before[name]),
            "after": places(where),
            "moves": "moves" * (before[name] != where),
        }
        for name, where in chosen.placement.items()
        if name in before
    ]
    columns = {"operator": "operator", "before": "now", "after": f"by {chosen.optimizer}", "moves": ""}
    claim = f"{chosen.status}: {chosen.evaluations:,} plans estimated by {chosen.cost_model} in {chosen.seconds:.2f} s."
    notes = [f"The cost model ignores {'; '.join(chosen.blind_to)}."] if chosen.blind_to else []
    tables = [of_rows("where operators run", columns, rows)] if rows else []
    return Presentation(heading="A better plan", sentences=[f"{sentence}.", claim], notes=notes, tables=tables)
