"""The folder of an answer (`twin whatif --out` and the other questions) as a page: words, figure, tables."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

from figures.svg import element
from scenarios.files.documents import read
from scenarios.questions.folder import QUESTION
from streamtwin.answers.presentation import Presentation
from streamtwin.answers.registry import ANSWERS
from streamtwin.report.page import page, paragraph, section, tables
from twin.checksums import altered
from twin.errors import BadInput

ANSWER, FIGURE = "answer.json", "figure.png"


def holds_answer(folder: Path) -> bool:
    """Whether a folder is one of a question."""
    return (folder / QUESTION).is_file()


def answer_page(folder: Path) -> str:
    """The page of a finished answer. Raises BadInput if it is not finished, or not one."""
    if not (folder / ANSWER).is_file():
        raise BadInput(
            f"{folder} holds a question that is not answered yet; give its command again with --out {folder}"
        )
    for file in altered(folder):
        raise BadInput(f"{folder / file} is not as it was written; give its command again, which mends it")
    try:
        question = json.loads((folder / QUESTION).read_text(encoding="utf-8"))
        kind, told = ANSWERS[question["command"]]
        presentation = told(read(kind, (folder / ANSWER).read_text(encoding="utf-8")))
        made = f"twin {question['command']}, seed {question['seed']}."
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise BadInput(f"{folder} does not hold the answer to a question; ask it again in another folder") from None
    return page(presentation.heading, _parts(presentation, folder), made)


def _parts(told: Presentation, folder: Path) -> Iterator[str]:
    yield paragraph(told.sentences[0], "verdict")
    yield from (paragraph(sentence) for sentence in told.sentences[1:])
    if (folder / FIGURE).is_file():
        coded = base64.b64encode((folder / FIGURE).read_bytes()).decode()
        yield section("Figure", element("img", src=f"data:image/png;base64,{coded}", alt=told.sentences[0]))
    yield section("Tables", element("div", *tables(told.tables), class_="tables")) if told.tables else ""
    yield from (paragraph(note, "note") for note in told.notes)
