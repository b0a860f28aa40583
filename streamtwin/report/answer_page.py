"""The folder of an answer (`twin whatif --out` and the other questions) as a page: words, figure, tables."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from figures.svg import element
from scenarios.questions.control_measures import MEANINGS as CONTROL
from scenarios.questions.dry_run import MEANINGS
from scenarios.questions.folder import QUESTION
from streamtwin.report.html_tables import tables
from streamtwin.report.page import page, paragraph, section
from streamtwin.tables import capacity_tables, comparison_tables, dry_run_tables, policy_tables, sensitivity_tables
from streamtwin.tables.tables import of_standings
from streamtwin.tables.wide import Wide
from twin.errors import BadInput

ANSWER, FIGURE = "answer.json", "figure.png"
Document = Mapping[str, Any]


class Told(NamedTuple):
    """heading: of the page. sentences: the first one is the answer."""

    heading: str
    sentences: list[str]
    notes: list[str]
    tables: list[Wide]


def holds_answer(folder: Path) -> bool:
    """Whether a folder is one of a question."""
    return (folder / QUESTION).is_file()


def answer_page(folder: Path) -> str:
    """The page of a finished answer. Raises BadInput if it is not finished, or not one."""
    if not (folder / ANSWER).is_file():
        raise BadInput(
            f"{folder} holds a question that is not answered yet; give its command again with --out {folder}"
        )
    try:
        question, document = (json.loads((folder / file).read_text(encoding="utf-8")) for file in (QUESTION, ANSWER))
        told, made = TELLERS[question["command"]](document), f"twin {question['command']}, seed {question['seed']}."
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise BadInput(f"{folder} does not hold the answer to a question; ask it again in another folder") from None
    return page(told.heading, _parts(told, folder), made)


def _parts(told: Told, folder: Path) -> Iterator[str]:
    yield paragraph(told.sentences[0], "verdict")
    yield from (paragraph(each) for each in told.sentences[1:])
    if (folder / FIGURE).is_file():
        coded = base64.b64encode((folder / FIGURE).read_bytes()).decode()
        yield section("Figure", element("img", src=f"data:image/png;base64,{coded}", alt=told.sentences[0]))
    yield section("Tables", *tables(told.tables))
    yield from (paragraph(each, "note") for each in told.notes)


def _comparison(document: Document) -> Told:
    heading = f"{document['scenario']}: what if"
    table = comparison_tables.of_comparison(document)
    return Told(heading, list(changes(document)), list(comparison_tables.notes(document)), [table])


def changes(document: Document) -> Iterator[str]:
    """How many variants keep up, and for each metric which one differs most for sure."""
    rows, runs = document["variants"], document["replications"]
    well = [
        row for row in rows if row["success_runs"] == runs and not row["backpressured_runs"] and not row.get("full")
    ]
    keep = "keeps" if len(well) == 1 else "keep"
    yield f"Of {len(rows)} variants, {len(well)} {keep} up in all of {runs} runs{_named(well, len(rows))}."
    for metric in document["metrics"]:
        cells = {row["variant"]: row["metrics"][metric] for row in rows[1:]}
        sure = {name: cell for name, cell in cells.items() if cell.get("significant") and cell.get("share") is not None}
        if not sure:
            yield f"{metric.removesuffix('.mean')}: nothing differs significantly from '{document['compared_with']}'."
            continue
        most = max(sure, key=lambda name: abs(sure[name]["share"]))
        words = f"{sure[most]['words']} in '{most}' ({comparison_tables.change(sure[most])})"
        among = f"largest of {len(sure)} significant changes" if len(sure) > 1 else "only significant change"
        yield f"{metric.removesuffix('.mean')}: {words}, the {among}."


def _named(rows: list[Document], of: int) -> str:
    return ": " + ", ".join(f"'{row['variant']}'" for row in rows) if 0 < len(rows) < min(of, 5) else ""


def _capacity(document: Document) -> Told:
    shown = [capacity_tables.of_resources(document)] if document["resources"] else []
    sentences = [f"{each[:1].upper()}{each[1:]}." for each in capacity_tables.sentences(document)]
    return Told(f"{document['scenario']}: capacity", sentences, [], shown)


def _sensitivity(document: Document) -> Told:
    inputs = document["inputs"]
    first = f"{inputs[0]['input']} matters most for {document['metric']}." if inputs else "No input matters."
    return Told(f"{document['scenario']}: sensitivity", [first], [], [sensitivity_tables.of_inputs(document)])


def _dry_run(document: Document) -> Told:
    sentences = [f"{each[:1].upper()}{each[1:]}." for each in dry_run_tables.sentences(document)]
    table = dry_run_tables.of_measures(document, MEANINGS)
    return Told(f"{document['scenario']}: a change tried", sentences, list(document["warnings"]), [table])


def _policies(document: Document) -> Told:
    table = policy_tables.of_policies(document, CONTROL)
    sentences, notes = list(changes(document)), list(comparison_tables.notes(document))
    return Told(f"{document['scenario']}: policies", sentences, notes, [table])


def _judged(document: Document) -> Told:
    known = [
        {name: math.nan if value is None else value for name, value in row.items()} for row in document["standings"]
    ]
    return Told("Optimizers in the simulator", [_best(known)], [], [of_standings(known)])


def _best(standings: Sequence[Document]) -> str:
    """Of the standings, the best first."""
    first = standings[0]
    if math.isnan(first["mean"]):
        return "No optimizer found a plan that keeps up as well as the best known one."
    mean = f"a mean regret of {first['mean']:.1%} against the best plans known"
    return f"{first['optimizer']} by {first['cost_model']} is the best of {len(standings)}: {mean}."


TELLERS: Mapping[str, Callable[[Document], Told]] = {
    "whatif": _comparison,
    "compare": _comparison,
    "capacity": _capacity,
    "sensitivity": _sensitivity,
    "dry-run": _dry_run,
    "compare-policies": _policies,
    "validate": _judged,
    "benchmark": _judged,
}
"""By command."""
