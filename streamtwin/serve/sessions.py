"""Sessions of a server: all jobs with their sessions, the long questions about them, and what people do on a page."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException

from scenarios.files import registry
from scenarios.files.run_folder import write_text
from scenarios.files.scenario_file import dump, load
from streamtwin.serve import page
from streamtwin.serve.asking import cancelled, happening, moved
from streamtwin.serve.inquiry import SET, Alteration, Inquiry, Store, given, plan_option, turned
from streamtwin.serve.session import Session
from streamtwin.serve.work import LongQuestion, Workers, plan_of, readable, words
from twin.errors import BadInput

# jobs ----------------------------------------------------------------------------------------------------------------
# Jobs that are served: one scenario, those of a folder, or the library; nothing outside of these is ever read.


STATE = ".twin-serve"


@dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs that are served. called: names for commands, by the name on the page. folder: where new files are saved."""

    called: Mapping[str, str]
    folder: Path

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
            return cls({each.stem if _alone(each, found) else each.name: str(each) for each in found}, path)
        load(target)
        if target in registry.names():
            return cls({target: target}, Path())
        return cls({path.stem: target}, path.parent)

    def about(self, name: str) -> str:
        """First sentence of a job's description; empty if it has none, or cannot be read."""
        try:
            return registry.summary(registry.find(self.called[name]))
        except (BadInput, OSError, UnicodeDecodeError):
            return ""


def _inside(file: Path, folder: Path) -> bool:
    """Whether a file is in the folder itself, and not a link that leads out of it."""
    return file.is_file() and file.resolve().parent == folder.resolve()


def _alone(file: Path, found: list[Path]) -> bool:
    return sum(each.stem == file.stem for each in found) == 1


# the sessions --------------------------------------------------------------------------------------------------------
# Sessions of a server: all jobs, the long questions about them, and the pages that listen.


MOST_WORKS, MOST_LISTENERS = 2, 200


PING_S = 15.0


class Sessions:
    """All jobs of a server with their sessions, the long questions about them, and the pages that listen."""

    def __init__(self, jobs: Jobs, state: Path, count: int) -> None:
        self.jobs, self.store = jobs, Store(state, jobs.called, readable)
        self.workers = Workers(count, self.tell)
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
            self._views[name] = stage, page.regions(session, inquiry, work)
        done, of, _ = session.progress()
        state = {"version": inquiry.version, "done": done, "of": of, "working": work is not None}
        return state, self._views[name][1]

    def put(self, name: str, inquiry: Inquiry) -> None:
        """Keeps an inquiry as that of the job, and tells all listeners."""
        self.store.put(name, inquiry)
        self.session(name)
        self.tell()

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
        return f"{self.sessions[name].stage()} {[] if work is None else [work.question, *work.lines]}"

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
            each.put_nowait("")

    async def close(self) -> None:
        """Ends all questions and workers that were started."""
        for going in self._going:
            going.cancel()
        await asyncio.gather(*self._going, return_exceptions=True)
        self.workers.close()


async def stream(sessions: Sessions) -> AsyncIterator[str]:
    """Yields events with the names of jobs as they have something new, and a first one at once, which tells a page that
    it is connected."""
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
    elif kind == "save":
        return _save(sessions, inquiry, asked.get("file", ""))
    elif kind != "stop":
        raise BadInput(f"act {kind!r}: unknown")
    sessions.tell()
    return ""


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
