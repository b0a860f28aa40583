"""Answers that were kept under a name: their files, and the page that shows one, or sets one beside another."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from figures.svg import element, text
from streamtwin.answers import Presentation, difference
from streamtwin.report import cards, paragraph, table, tables
from streamtwin.serve.asking import MOST_NAME, command_told
from streamtwin.serve.inquiry import EVENT, SET
from streamtwin.serve.page import job_address, whole
from streamtwin.serve.work import readable, shown
from streamtwin.tables.tables import Wide, of_rows
from twin.errors import BadInput
from twin.files import parse_json, stamped, unstamped, write_text

# files ---------------------------------------------------------------------------------------------------------------
# Files of kept answers, one each, with a checksum. The number of an answer follows from its name, so that a name is
# given once.


FOLDER = "kept"
MOST = 200
"""Most answers that are kept."""
RUN = "run"
"""Question of the run itself, which a page answers without being asked."""


class KeptAnswer(BaseModel, strict=True, extra="forbid", frozen=True):
    """Answer with the name that a person gave it. job: on the page. question: a command, RUN for the run. command: that
    gives the same answer. told: the answer in a sentence. facts: (what, value) in words, of a run. document: of the
    answer, which `shown` presents, or of the run, as in `difference.of_run`; empty in files of older versions."""

    name: str
    job: str
    question: str
    command: str
    told: str
    facts: tuple[tuple[str, str], ...] = ()
    document: str = ""

    @property
    def number(self) -> str:
        """Number in addresses."""
        return sha256(self.name.encode()).hexdigest()[:12]

    @property
    def address(self) -> str:
        """Address of its page."""
        return f"/kept/{self.number}"

    @property
    def changes(self) -> list[str]:
        """Changes of the job when it was asked, as options of the command have them."""
        return [value for flag, value in pairwise(shlex.split(self.command)) if flag in (SET, EVENT)]

    def presentation(self) -> Presentation | None:
        """What is shown of the answer beside its sentence and facts; None for a run."""
        return shown(self.question, self.document) if self.document and self.question != RUN else None

    @property
    def figures(self) -> Mapping[str, Any]:
        """Document of the answer; empty if it was kept without one."""
        found: Mapping[str, Any] = parse_json(self.document or "{}")
        return found


class KeptAnswers(Mapping[str, KeptAnswer]):
    """Kept answers of a server, by number, the last one first."""

    def __init__(self, state: Path) -> None:
        """Reads those that there are. state: folder of the server's files. Raises BadInput if one is damaged."""
        self._folder = state / FOLDER
        files = sorted(self._folder.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
        self._known = {each.number: each for each in map(_read, files)}

    def __getitem__(self, number: str) -> KeptAnswer:
        return self._known[number]

    def __iter__(self) -> Iterator[str]:
        return reversed(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def of(self, job: str) -> list[KeptAnswer]:
        """Kept answers about a job."""
        return [each for each in self.values() if each.job == job]

    def keep(self, answer: KeptAnswer) -> None:
        """Keeps an answer. Raises BadInput if it has no name, a name that is taken, or if there are too many."""
        if not answer.name.strip() or len(answer.name) > MOST_NAME or not answer.name.isprintable():
            raise BadInput(f"name {answer.name[:MOST_NAME]!r}: give one of 1 to {MOST_NAME} printable characters")
        if answer.number in self._known:
            raise BadInput(f"an answer is kept as {answer.name!r} already; give another name, or forget that one")
        if len(self) >= MOST:
            raise BadInput(f"{MOST} answers are kept, which are the most; forget some")
        write_text(self._file(answer.number), stamped(answer.model_dump()) + "\n")
        self._known[answer.number] = answer

    def forget(self, number: str) -> None:
        """Removes an answer. Raises BadInput if there is none of this number."""
        if self._known.pop(number, None) is None:
            raise BadInput("this answer is kept no longer")
        self._file(number).unlink(missing_ok=True)

    def _file(self, number: str) -> Path:
        return self._folder / f"{number}.json"


def _read(file: Path) -> KeptAnswer:
    try:
        found = KeptAnswer.model_validate_json(json.dumps(unstamped(file.read_text(encoding="utf-8"))))
        if found.question == RUN:
            dict(found.figures)
        else:
            readable(found.model_dump())
        return found
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise BadInput(f"{file} does not hold an answer that was kept; remove it") from None


# pages ---------------------------------------------------------------------------------------------------------------
# What a page shows of kept answers: a list, and one answer, or two beside each other.


def listed(answers: Sequence[KeptAnswer], with_job: bool = False) -> Iterator[str]:
    """Yields a list of kept answers, with buttons that forget them; nothing if there are none."""
    if not answers:
        return
    rows = [
        element(
            "li",
            element("a", text(each.name), href=each.address),
            element("span", text(f"{each.job}: {each.told}" if with_job else each.told)),
            element(
                "button", "×", type="button", data_post=f"/kept/{each.number}/forget", aria_label=f"forget {each.name}"
            ),
        )
        for each in answers
    ]
    yield element("ul", *rows, class_="kept")


def page(answers: Sequence[KeptAnswer], others: Sequence[KeptAnswer]) -> str:
    """Page of one kept answer, or of two beside each other. others: all that are kept, to be set beside it."""
    title = " beside ".join(each.name for each in answers)
    first = answers[0]
    links = [
        element("a", text(each.name), href=f"{first.address}/{each.number}")
        for each in sorted(others, key=lambda each: each.question != first.question)
        if each not in answers
    ]
    chosen = element("ul", *(element("li", each) for each in links), class_="choices")
    beside = [element("h2", text(f"Set {first.name} beside")), chosen] if links else []
    apart = _difference(answers)
    columns = element("div", *(element("section", *_one(each, len(answers) == 1)) for each in answers), class_="pair")
    facts = (
        [element("h2", "Side by side"), element("div", table(_facts(answers)), class_="facts")]
        if len(answers) > 1
        else []
    )
    return whole(title, [element("main", element("h1", text(title)), *facts, *apart, columns, *beside, class_="list")])


def _difference(answers: Sequence[KeptAnswer]) -> list[str]:
    """What differs between two answers to the same question; nothing of one, or of two different ones."""
    questions, documents = {each.question for each in answers}, [each.figures for each in answers]
    if len(answers) < 2 or len(questions) > 1 or not all(documents):
        return []
    found = tables(difference.tables(answers[0].question, [each.name for each in answers], documents))
    return [element("h2", "What differs"), element("div", *found, class_="tables differs")]


def _facts(answers: Sequence[KeptAnswer]) -> Wide:
    """Table of two answers, a column each: what was asked, and a line a fact."""
    columns = [
        {"scenario": each.job, "changed": "; ".join(each.changes) or "as given", **dict(each.facts)} for each in answers
    ]
    lines = dict.fromkeys(what for column in columns for what in column)
    rows = [{"what": what, **{str(n): column.get(what, "") for n, column in enumerate(columns)}} for what in lines]
    return of_rows("", {"what": "", **{str(n): each.name for n, each in enumerate(answers)}}, rows)


def _one(answer: KeptAnswer, alone: bool) -> Iterator[str]:
    """Yields what is shown of one answer. alone: whether there is no table of facts beside it."""
    yield element("h2", text("The answer" if alone else answer.name))
    asked = "the run" if answer.question == RUN else answer.question
    of = element("a", text(answer.job), href=job_address(answer.job))
    yield element("p", text(f"{asked}, of "), of, text("" if answer.changes else ", as given"), class_="note")
    yield paragraph(answer.told, "verdict")
    if alone and answer.changes:
        yield element("ul", *(element("li", element("code", text(each))) for each in answer.changes), class_="changes")
    if alone and answer.facts:
        yield cards(answer.facts)
    told = answer.presentation()
    if told is not None:
        yield "".join(map(paragraph, told.sentences[1:]))
        if told.figure is not None:
            yield element("img", src=f"{answer.address}/figure.png", alt=answer.told, class_="figure")
        yield element("div", *tables(told.tables), class_="tables")
        yield "".join(paragraph(note, "note") for note in told.notes)
    yield command_told("the command", answer.command)
