"""Hub of a server: all jobs with their desks, the long questions about them, and the pages that listen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException

from streamtwin.serve import page
from streamtwin.serve.controls import plan_option
from streamtwin.serve.desk import Desk
from streamtwin.serve.inquiry import Inquiry, Shelf
from streamtwin.serve.jobs import Jobs
from streamtwin.serve.work import LongQuestion, plan_of, readable, words
from streamtwin.serve.workers import Workers
from twin.errors import BadInput

MOST_WORKS, MOST_LISTENERS = 2, 200


PING_S = 15.0


class Hub:
    """Hub of all jobs, their desks, and the pages that listen."""

    def __init__(self, jobs: Jobs, state: Path, count: int) -> None:
        self.jobs, self.shelf = jobs, Shelf(state, jobs.called, readable)
        self.workers = Workers(count, self.tell)
        self.desks: dict[str, Desk] = {}
        self.works: dict[str, LongQuestion] = {}
        self.listeners: set[asyncio.Queue[str]] = set()
        self.closing = asyncio.Event()
        self._stages: dict[str, str] = {}
        self._views: dict[str, tuple[str, Mapping[str, str]]] = {}
        self._going: set[asyncio.Task[None]] = set()

    def desk(self, name: str) -> tuple[Desk, Inquiry]:
        """Desk and inquiry of a job. Raises HTTPException (404) for an unknown name."""
        if name not in self.jobs.called:
            raise HTTPException(404, f"there is no scenario {name!r} here")
        inquiry = self.shelf.get(name)
        if name not in self.desks:
            self.desks[name] = Desk(name, self.workers)
        self.desks[name].look_at(inquiry)
        return self.desks[name], inquiry

    def view(self, name: str) -> tuple[dict[str, Any], Mapping[str, str]]:
        """Progress of a job, and the regions of its page, which are made anew when there is something new."""
        desk, inquiry = self.desk(name)
        work, stage = self.works.get(name), self._stage(name)
        if name not in self._views or self._views[name][0] != stage:
            self._views[name] = stage, page.regions(desk, inquiry, work)
        done, of, _ = desk.progress()
        state = {"version": inquiry.version, "done": done, "of": of, "working": work is not None}
        return state, self._views[name][1]

    def put(self, name: str, inquiry: Inquiry) -> None:
        """Keeps an inquiry as that of the job, and tells all listeners."""
        self.shelf.put(name, inquiry)
        self.desk(name)
        self.tell()

    def tell(self) -> None:
        """Tells all listeners which jobs have something new to see."""
        for name in self.desks:
            stage = self._stage(name)
            if self._stages.get(name) != stage:
                self._stages[name] = stage
                for each in self.listeners:
                    if each.qsize() < MOST_LISTENERS:
                        each.put_nowait(name)

    def _stage(self, name: str) -> str:
        """Text that changes when a job has something new to see."""
        work = self.works.get(name)
        return f"{self.desks[name].stage()} {[] if work is None else [work.question, *work.lines]}"

    def ask(self, name: str, question: str, fields: Mapping[str, str]) -> None:
        """Begins to answer a long question. Raises BadInput if too many are being answered."""
        desk, inquiry = self.desk(name)
        if desk.asked is None:
            raise BadInput(desk.wrong)
        if name in self.works:
            raise BadInput("a question about this job is being answered; stop it, or wait for it")
        if len(self.works) >= MOST_WORKS:
            raise BadInput(
                f"{MOST_WORKS} long questions are being answered, on {', '.join(self.works)}; stop one, or wait"
            )
        work = self.works[name] = LongQuestion(question, words(inquiry, question, fields), desk.asked.key)
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
        self.put(name, self.shelf.get(name).answered(answered))

    def _plan(self, name: str, work: LongQuestion, document: str) -> str:
        """Option's text that takes the plan found; empty if it is the given one, or was asked of an earlier state."""
        asked = self.desk(name)[0].asked
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


async def stream(hub: Hub) -> AsyncIterator[str]:
    """Yields events with the names of jobs as they have something new, and a first one at once, which tells a page that
    it is connected."""
    heard: asyncio.Queue[str] = asyncio.Queue()
    hub.listeners.add(heard)
    try:
        yield "retry: 1000\n\n"
        while not hub.closing.is_set():
            try:
                name = await asyncio.wait_for(heard.get(), PING_S)
                yield f"data: {json.dumps(name)}\n\n"
            except TimeoutError:
                yield ": still here\n\n"
    finally:
        hub.listeners.discard(heard)
