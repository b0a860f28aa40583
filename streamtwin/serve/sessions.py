"""Sessions of a server: all jobs with their sessions, the long questions about them, and what people do on a page."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from starlette.exceptions import HTTPException

from scenarios.files import registry
from scenarios.files.run_folder import write_text
from scenarios.files.scenario_file import dump, load
from streamtwin.answers.difference import of_run
from streamtwin.answers.verdict import verdict
from streamtwin.report import headline
from streamtwin.serve import keeping, opening, page
from streamtwin.serve.asking import cancelled, happening, moved
from streamtwin.serve.inquiry import SET, Alteration, Inquiry, Store, given, modified_ns, plan_option, turned
from streamtwin.serve.keeping import RUN, KeptAnswer, KeptAnswers
from streamtwin.serve.opening import STOPPED, Brought, Import
from streamtwin.serve.session import Session
from streamtwin.serve.work import LongQuestion, Workers, plan_of, readable, shown, words
from twin.errors import BadInput

# jobs ----------------------------------------------------------------------------------------------------------------
# Jobs that are served: one scenario, those of a folder, or the library; nothing outside of these is ever read.


STATE = ".twin-serve"


@dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs that are served. called: names for commands, by the name on the page; jobs that people bring are added.
    folder: where new files are saved. heading: over their list; empty: the library, under its own headings."""

    called: dict[str, str]
    folder: Path
    heading: str = ""

    @classmethod
    def of(cls, target: str | None) -> Jobs:
        """Jobs of a target: a file, a folder of files or a library name; None: the library, whose new files are saved
        in the current folder. Raises BadInput if there is no such scenario, or none in the folder."""
        if target is None:
            return cls({name: name for name in registry.names()}, Path())
        path = Path(target)
        if path.is_dir():
            found = sorted(each for each in path.iterdir() if each.suffix in registry.SUFFIXES and _inside(each, path))
            if not found:
                raise BadInput(f"{target} has no scenario files; name a folder with .yaml files, or a scenario")
            called = {each.stem if _alone(each, found) else each.name: str(each) for each in found}
            return cls(called, path, f"Scenarios in {path}")
        load(target)
        if target in registry.names():
            return cls({target: target}, Path(), "Scenario")
        return cls({path.stem: target}, path.parent, "Scenario")

    def about(self, name: str) -> str:
        """First sentence of a job's description; empty if it has none, cannot be read, or was removed meanwhile."""
        try:
            file = registry.find(self.called[name])
            return _summary(file, modified_ns(file))
        except (KeyError, BadInput, OSError, UnicodeDecodeError):
            return ""


@lru_cache(1000)
def _summary(file: Path, _modified_ns: int) -> str:
    return registry.summary(file)


def _inside(file: Path, folder: Path) -> bool:
    """Whether a file is in the folder itself, and not a link that leads out of it."""
    return file.is_file() and file.resolve().parent == folder.resolve()


def _alone(file: Path, found: list[Path]) -> bool:
    return sum(each.stem == file.stem for each in found) == 1


# the sessions --------------------------------------------------------------------------------------------------------
# Sessions of a server: all jobs, the long questions about them, and the pages that listen.


MOST_WORKS, MOST_LISTENERS = 2, 200
MOST_RECENT = 6
"""Most jobs that the start page lists as asked about last."""

PING_S = 15.0
START = ""
"""What listeners hear instead of a job's name when the start page has something new to see."""

Result = TypeVar("Result")


class Sessions:
    """All jobs of a server with their sessions, the long questions about them, and the pages that listen."""

    def __init__(self, jobs: Jobs, state: Path, workers: int) -> None:
        self.jobs, self.store, self.kept = jobs, Store(state, jobs.called, readable), KeptAnswers(state)
        opened = opening.known(state)
        for name, file in opened.items():
            others = opened.keys() - {name}
            jobs.called[opening.free(name, {*jobs.called, *others})] = file
        self.imports: dict[str, Import] = {}
        self._numbers, self._keeping = map(str, count(1)), asyncio.Lock()
        self.workers = Workers(workers, self.tell)
        self.sessions: dict[str, Session] = {}
        self.works: dict[str, LongQuestion] = {}
        self.listeners: set[asyncio.Queue[str]] = set()
        self.closing = asyncio.Event()
        self._stages: dict[str, str] = {}
        self._views: dict[str, tuple[str, Mapping[str, str]]] = {}
        self._going: set[asyncio.Task[None]] = set()

    def session(self, name: str) -> tuple[Session, Inquiry]:
        """Session and inquiry of a job. Raises HTTPException (404) for an unknown name."""
        if name not in self.jobs.called:
            raise HTTPException(404, f"there is no scenario {name!r} here")
        inquiry = self.store.get(name)
        if name not in self.sessions:
            self.sessions[name] = Session(name, self.workers)
        self.sessions[name].look_at(inquiry)
        return self.sessions[name], inquiry

    def view(self, name: str) -> tuple[dict[str, Any], Mapping[str, str]]:
        """Progress of a job, and the regions of its page, which are made anew when there is something new."""
        session, inquiry = self.session(name)
        work, stage = self.works.get(name), self._stage(name)
        if name not in self._views or self._views[name][0] != stage:
            kept = "".join(keeping.listed(self.kept.of(name)))
            self._views[name] = stage, page.regions(session, inquiry, work, kept)
        done, of, _ = session.progress()
        state = {"version": inquiry.version, "done": done, "of": of, "working": work is not None}
        return state, self._views[name][1]

    def put(self, name: str, inquiry: Inquiry) -> None:
        """Keeps an inquiry as that of the job, and tells all listeners."""
        self.store.put(name, inquiry)
        self.session(name)
        self.tell()

    async def take(self, brought: Brought, left: Callable[[], Awaitable[bool]]) -> str:
        """Takes a job that a person brings; returns its name. left: whether the page that asked is gone.

        Raises BadInput if it cannot be read or imported, was stopped, or if too many are being imported.
        """
        name, written = (
            (Path(brought.file).stem, brought.text) if brought.text else await self._imported(Import(brought), left)
        )
        async with self._keeping:
            name, file = await asyncio.to_thread(opening.keep, self.store.folder, {**self.jobs.called}, name, written)
            self.jobs.called[name] = str(file)
        self._tell_start()
        return name

    async def _imported(self, work: Import, left: Callable[[], Awaitable[bool]]) -> tuple[str, str]:
        """Name and text of a job that is imported, which all start pages show meanwhile. Why it failed stays there if
        the page that asked is gone. Raises BadInput as `take`."""
        going = [each.of for each in self.imports.values() if not each.refused]
        if len(going) >= MOST_WORKS:
            raise BadInput(f"{MOST_WORKS} imports are under way, of {' and '.join(going)}; stop one, or wait")
        number = next(self._numbers)
        self.imports[number] = work
        self._tell_start()
        try:
            found = await self._unless_closing(work.made(self._tell_start))
            if work.stopped:
                raise BadInput(STOPPED)
        except BadInput as error:
            if not work.stopped and await left():
                work.refused = str(error)
            raise BadInput(STOPPED if work.stopped else str(error)) from None
        finally:
            if not work.refused:
                del self.imports[number]
            self._tell_start()
        return found

    def stop_import(self, number: str) -> None:
        """Stops an import, or forgets why it has failed. Raises BadInput if there is none of this number."""
        if number not in self.imports:
            raise BadInput("this import is over")
        if self.imports[number].refused:
            del self.imports[number]
        else:
            self.imports[number].stop()
        self._tell_start()

    def _tell_start(self) -> None:
        for each in self.listeners:
            if each.qsize() < MOST_LISTENERS:
                each.put_nowait(START)

    async def _unless_closing(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Result of some work, which is given up when the server ends. Raises BadInput then."""
        going, ends = asyncio.create_task(work), asyncio.create_task(self.closing.wait())
        await asyncio.wait({going, ends}, return_when=asyncio.FIRST_COMPLETED)
        ends.cancel()
        if not going.done():
            going.cancel()
            await asyncio.gather(going, return_exceptions=True)
            raise BadInput("the server was ended meanwhile; do it again when it runs")
        return going.result()

    def drop(self, name: str) -> None:
        """Removes a job that a person brought, with its changes and kept answers. Raises BadInput for another one, or
        while a question about it is answered."""
        file = self.jobs.called.get(name)
        if file is None or file not in opening.known(self.store.folder).values():
            raise BadInput(f"{name}: it was not opened here, so it stays; remove its file where it is")
        if name in self.works:
            raise BadInput(f"{name}: a question about it is being answered; stop it first")
        self.store.forget(name)
        for answer in self.kept.of(name):
            self.kept.forget(answer.number)
        self.workers.want(name, [])
        del self.jobs.called[name]
        for each in (self.sessions, self._stages, self._views):
            each.pop(name, None)
        Path(file).unlink(missing_ok=True)

    def listed(self) -> dict[str, list[str]]:
        """Names of all jobs under their headings; those that people brought first."""
        called, files = self.jobs.called, {*opening.known(self.store.folder).values()}
        opened = sorted(name for name, file in called.items() if file in files)
        others = [name for name in called if name not in opened]
        groups = {self.jobs.heading: others} if self.jobs.heading else registry.by_theme(others)
        return ({opening.HEADING: opened} if opened else {}) | groups

    def recent(self) -> dict[str, str]:
        """Jobs that were asked about or opened, with words on that; the last first."""
        files = {*opening.known(self.store.folder).values()}
        opened = {name: Path(file) for name, file in self.jobs.called.items() if file in files}
        known = {name: max(self.store.asked_ns(name), modified_ns(opened.get(name))) for name in self.jobs.called}
        last = sorted(filter(known.__getitem__, known), key=lambda name: -known[name])
        return {name: self._asked(name) for name in last[:MOST_RECENT]}

    def _asked(self, name: str) -> str:
        """What was asked about a job, in words."""
        try:
            inquiry = self.store.get(name)
        except BadInput as error:
            return str(error)
        count, answer = len(inquiry.changes), inquiry.answer
        changed = f"{count} change{'s' * (count != 1)}" if count else "as given"
        return changed if answer is None else f"{changed}, last asked: {answer['question']}"

    def tell(self) -> None:
        """Tells all listeners which jobs have something new to see."""
        for name in self.sessions:
            stage = self._stage(name)
            if self._stages.get(name) != stage:
                self._stages[name] = stage
                for each in self.listeners:
                    if each.qsize() < MOST_LISTENERS:
                        each.put_nowait(name)

    def _stage(self, name: str) -> str:
        """Text that changes when a job has something new to see."""
        work = self.works.get(name)
        kept = [each.number for each in self.kept.of(name)]
        return f"{self.sessions[name].stage()} {[] if work is None else [work.question, *work.lines]} {kept}"

    def ask(self, name: str, question: str, fields: Mapping[str, str]) -> None:
        """Begins to answer a long question. Raises BadInput if too many are being answered."""
        session, inquiry = self.session(name)
        if session.asked is None:
            raise BadInput(session.wrong)
        if name in self.works:
            raise BadInput("a question about this job is being answered; stop it, or wait for it")
        if len(self.works) >= MOST_WORKS:
            raise BadInput(
                f"{MOST_WORKS} long questions are being answered, on {', '.join(self.works)}; stop one, or wait"
            )
        work = self.works[name] = LongQuestion(question, words(inquiry, question, fields), session.asked.key)
        going = asyncio.get_running_loop().create_task(self._answer(name, work))
        self._going.add(going)
        going.add_done_callback(self._going.discard)

    async def _answer(self, name: str, work: LongQuestion) -> None:
        try:
            answered = await work.answer(self.tell)
        finally:
            del self.works[name]
        if answered["document"] and work.question == "optimize":
            answered["plan"] = self._plan(name, work, answered["document"])
        self.put(name, self.store.get(name).answered(answered))

    def _plan(self, name: str, work: LongQuestion, document: str) -> str:
        """Option's text that takes the plan found; empty if it is the given one, or was asked of an earlier state."""
        asked = self.session(name)[0].asked
        if asked is None or asked.key != work.of:
            return ""
        found = asked.now.with_plan(plan_of(document))
        return "" if found.plan == asked.now.plan else plan_option(asked.now, found)

    def hush(self) -> None:
        """Ends the streams to all listeners, which would keep the server waiting."""
        self.closing.set()
        for each in self.listeners:
            each.put_nowait(START)

    async def close(self) -> None:
        """Ends all questions and workers that were started."""
        for going in self._going:
            going.cancel()
        await asyncio.gather(*self._going, return_exceptions=True)
        self.workers.close()


async def stream(sessions: Sessions) -> AsyncIterator[str]:
    """Yields events with the names of jobs, or START, as they have something new, and a first one at once, which tells
    a page that it is connected."""
    heard: asyncio.Queue[str] = asyncio.Queue()
    sessions.listeners.add(heard)
    try:
        yield "retry: 1000\n\n"
        while not sessions.closing.is_set():
            try:
                name = await asyncio.wait_for(heard.get(), PING_S)
                yield f"data: {json.dumps(name)}\n\n"
            except TimeoutError:
                yield ": still here\n\n"
    finally:
        sessions.listeners.discard(heard)


# acts ----------------------------------------------------------------------------------------------------------------
# Acts of a person on a page: changes, questions, a new file.


_FILE = re.compile(r"[\w][\w .-]{0,99}\.ya?ml")


def act(sessions: Sessions, name: str, asked: Mapping[str, str]) -> str:
    """Carries out an act of a page. Returns words for the person, or none. Raises BadInput for an invalid act."""
    session, inquiry = sessions.session(name)
    kind = asked.get("act", "")
    if kind in MAKE:
        changed = inquiry
        for each in MAKE[kind](session, inquiry, asked):
            changed = changed.changed(each)
        sessions.put(name, changed)
    elif kind == "undo":
        sessions.put(name, inquiry.dropped(int(_whole(asked.get("at", "-1")))))
    elif kind == "against":
        sessions.put(name, inquiry.compared_with(asked.get("value", "")))
    elif kind == "ask":
        sessions.ask(name, asked.get("question", ""), asked)
    elif kind == "stop" and name in sessions.works:
        sessions.works[name].stop()
    elif kind == "dismiss":
        sessions.put(name, inquiry.answered(None))
    elif kind == "keep":
        sessions.kept.keep(_answer(name, session, inquiry, asked))
    elif kind == "save":
        return _save(sessions, inquiry, asked.get("file", ""))
    elif kind != "stop":
        raise BadInput(f"act {kind!r}: unknown")
    sessions.tell()
    return ""


def _answer(job: str, session: Session, inquiry: Inquiry, asked: Mapping[str, str]) -> KeptAnswer:
    """Answer that a page shows, to be kept. Raises BadInput if it shows none."""
    name, last, made = asked.get("name", "").strip(), inquiry.answer, session.run()
    what = asked.get("what", "")
    if what not in ("answer", RUN):
        raise BadInput(f"what {what!r}: the answer is kept, or the run")
    if what == "answer":
        if last is None or not last["document"]:
            raise BadInput("there is no answer to keep; ask a question first")
        told = shown(last["question"], last["document"]).sentences[0]
        parts = {key: last[key] for key in ("question", "command", "document")}
        return KeptAnswer(name=name, job=job, told=told, **parts)
    if session.asked is None or made is None or made.result is None:
        raise BadInput("there is no run to keep yet; wait for it")
    told, facts = verdict(session.asked.now, made.result), tuple(headline(made.result))
    parts = {"command": inquiry.run_command(), "document": json.dumps(of_run(made.result))}
    return KeptAnswer(name=name, job=job, question=RUN, told=told, facts=facts, **parts)


def _save(sessions: Sessions, inquiry: Inquiry, file: str) -> str:
    """Writes a new scenario file in the folder of the scenarios; returns words for the person."""
    if not _FILE.fullmatch(file):
        raise BadInput(f"file {file!r}: write a plain name that ends in .yaml, such as mine.yaml")
    out = sessions.jobs.folder / file
    write_text(dump(inquiry.scenario()), out)
    return f"saved as {out}; twin run {out} gives these numbers"


def _accepted(session: Session, _inquiry: Inquiry, _asked: Mapping[str, str]) -> list[Alteration]:
    change = session.asked.plan_found() if session.asked is not None else None
    if change is None:
        raise BadInput("there is no plan to take; find one first")
    return [change]


MAKE: Mapping[str, Callable[[Session, Inquiry, Mapping[str, str]], list[Alteration]]] = {
    "knob": lambda _session, inquiry, asked: turned(
        given(inquiry.name), inquiry, asked.get("control", ""), asked.get("value", ""), asked.get("stroke", "")
    ),
    "set": lambda _session, _inquiry, asked: [Alteration(SET, asked.get("text", ""))],
    "event": lambda _session, inquiry, asked: [happening(inquiry.scenario(), asked.get("kind", ""), asked)],
    "move": lambda _session, inquiry, asked: [
        moved(inquiry.scenario(), asked.get("operators", "").split(" "), asked.get("start", ""), asked.get("end", ""))
    ],
    "cancel": lambda _session, inquiry, asked: [
        cancelled(inquiry.scenario(inquiry.values), _whole(asked.get("at", "")))
    ],
    "accept": _accepted,
}
"""Acts that add changes to the list, as functions that make the changes."""


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadInput(f"{text!r} is no whole number") from None
