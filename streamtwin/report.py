"""Reports: a run, a scenario or an answer as one page that needs nothing else, for `twin report`."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from figures.job_map import job_map
from figures.svg import element, text
from figures.time_line import time_line
from scenarios.files.run_folder import check_file, read_run
from scenarios.files.scenario_file import dump
from scenarios.questions.kept import QUESTION
from streamtwin.answers import SIMULATED, Presentation, difference
from streamtwin.answers.verdict import verdict
from streamtwin.questions.registry import QUESTIONS
from streamtwin.tables import rounding, run_tables
from streamtwin.tables.job_maps import drawn
from streamtwin.tables.run_tables import apart, keeps_up, marks, panels
from streamtwin.tables.tables import Column, Wide, number, seconds
from twin import VERSION
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.files import altered, parse_json
from twin.metrics import ERRORS
from twin.run import Run
from twin.scenario import Scenario

# pages of HTML -------------------------------------------------------------------------------------------------------
# Makes pages of HTML that are one file: no scripts, nothing from elsewhere, well-formed as XML.


STYLE = Path(__file__).parent / "templates" / "page.css"
OURS = '<meta name="generator" content="streamtwin" />'
"""Mark of our own pages, which may be replaced."""


def page(title: str, parts: Iterable[str], made: str, numbers: str = SIMULATED) -> str:
    """Whole page. parts: elements, in order. made: words on how to make the page again. numbers: on where its numbers
    come from."""
    head = (OURS, element("title", text(title)), element("style", f"\n{STYLE.read_text(encoding='utf-8')}"))
    foot = element("footer", paragraph(f"{numbers} Made by streamtwin {VERSION}; {made}"))
    body = element("body", element("main", element("h1", text(title)), *parts), foot)
    return html(head, body)


def html(head: Iterable[str], body: str) -> str:
    """HTML document, to be read at any width. head: further elements of its head."""
    width = '<meta name="viewport" content="width=device-width, initial-scale=1" />'
    first = element("head", '<meta charset="utf-8" />', width, *head)
    return f"<!DOCTYPE html>\n{element('html', first, body, lang='en')}\n"


def section(heading: str, *parts: str) -> str:
    """Section of a page under a heading; empty without parts."""
    return element("section", element("h2", text(heading)), *parts) if parts else ""


def paragraph(words: str, look: str | None = None) -> str:
    """Paragraph of text. look: a class of the style sheet."""
    return element("p", text(words), class_=look)


def cards(known: Sequence[tuple[str, str]]) -> str:
    """Cards of (name, value) with large values."""
    return element(
        "div",
        *(
            element("div", element("b", text(value)), element("span", text(name)), class_="card")
            for name, value in known
        ),
        class_="cards",
    )


def scrolling(*parts: str, label: str, look: str = "") -> str:
    """Box that scrolls by itself, also by keyboard, for parts that may be wider than the screen. label: what is in it,
    for screen readers. look: a class of the style sheet."""
    return element("div", *parts, class_=f"scroll {look}".strip(), tabindex=0, role="group", aria_label=label)


def folded(summary: str, *parts: str) -> str:
    """Details that are shown on a click on their summary."""
    return element("details", element("summary", text(summary)), *parts)


def inline(png: bytes) -> str:
    """Address of a picture that is within the page itself."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def check_ours(out: Path) -> None:
    """Raises BadInput if `out` exists and is no report, or cannot be written."""
    if out.is_dir():
        raise BadInput(f"{out} is a folder; name a file with --out, such as report.html")
    if not out.exists():
        check_file(out)
    elif OURS not in out.read_text(encoding="utf-8", errors="replace")[:1000]:
        raise BadInput(f"{out} exists and is no report; name another file with --out")


def table(shown: Wide) -> str:
    """HTML of one table under its title, in a frame that scrolls."""
    head = element("tr", *(_cell("th", " ".join(column.heading), column) for column in shown.columns))
    rows = zip(*(column.cells for column in shown.columns), strict=True)
    body = (
        element("tr", *(_cell("td", cell, column) for cell, column in zip(row, shown.columns, strict=True)))
        for row in rows
    )
    caption = element("caption", text(shown.title)) if shown.title else ""
    whole = element("table", caption, element("thead", head), element("tbody", *body, ""))
    return scrolling(whole, label=shown.title or "table")


def tables(several: Iterable[Wide]) -> list[str]:
    """HTML of tables, in order."""
    return [table(each) for each in several]


def _cell(kind: str, words: str, column: Column) -> str:
    """Cell of a table; a heading without words heads nothing."""
    heads = kind == "th" and bool(words.strip())
    number = "number" if column.number else None
    return element("th" if heads else "td", text(words), class_=number, scope="col" if heads else None)


# runs and answers ----------------------------------------------------------------------------------------------------
# Pages of `twin report`: a run (the query on its hosts, time-lines, tables, the scenario), and a kept answer.


MOST_ROWS = 50
NARROW = 6
"""Most columns of tables that may stand beside each other, and come first."""
MOST_LISTED = 12
"""Most events that are listed below the time-lines."""
MOST_TEXT = 60_000
RANKED = {"operators": "busy", "hosts": "cpu", "links": "utilisation"}
"""Columns by which the rows of long tables are chosen: the fullest first."""


def run_page(name: str, job: Deployment, run: Run) -> str:
    """Page of one run. job: as it began; effects of events are in the time-lines and the tables."""
    about = run.manifest
    made = f"seed {about['seed']}, {about['horizon_s']:g} s, configuration {about['config_hash']}."
    return page(f"{name}: a simulated run", _parts(name, job, run), made)


def _parts(name: str, job: Deployment, run: Run) -> Iterator[str]:
    yield paragraph(verdict(job, run), "verdict" if run.metrics.keeps_up else "verdict bad")
    if isinstance(job, Scenario) and job.description:
        yield paragraph(job.description)
    yield cards(headline(run))
    for warning in run.warnings:
        yield paragraph(f"Careful: {warning}", "note")
    yield _picture(job, run)
    lines = element("div", *(time_line(panel) for panel in panels(run)), class_="lines")
    yield section("Over time", lines, *_marks(run))
    listed, left_out = shortened(run)
    shown = element(
        "div",
        *tables(sorted(run_tables.of_run(name, listed), key=lambda shown: len(shown.columns) > NARROW)),
        class_="tables",
    )
    yield section("Tables", shown, *(paragraph(each, "note") for each in left_out))
    yield section("The scenario", *_scenario(job))


def _picture(job: Deployment, run: Run) -> str:
    picture, told = drawn(job, run)
    words = (
        "Operators in the direction of the data, each on its hosts, coloured by their busiest subtask. "
        "Bar: busy, then backpressured (red). Thicker lines carry more; dashed red ones hold their producer up "
        "(backpressure)."
    )
    said = (
        [paragraph(f"{told[:1].upper()}{told[1:]}; a box shows the busiest of its operators.", "note")] if told else []
    )
    return section(
        "The query on its hosts",
        scrolling(job_map(picture), label=picture.title, look="map"),
        paragraph(words, "note"),
        *said,
    )


def _marks(run: Run) -> list[str]:
    """List of the events that are numbered in the time-lines."""
    known = marks(run)
    if not known:
        return []
    listed = element("ol", *(element("li", text(mark.told)) for mark in known[:MOST_LISTED]), class_="marks")
    more = (
        f" The others are in the table of events, {len(known) - MOST_LISTED} of them."
        if len(known) > MOST_LISTED
        else ""
    )
    return [listed, paragraph(f"Dashed verticals are these events; shaded is how long they lasted.{more}", "note")]


def headline(run: Run) -> list[tuple[str, str]]:
    """Main results of a run as (name, value), for `cards`."""
    metrics, errors = run.metrics, run.standard_errors
    rate, latency = metrics.throughput_per_s, metrics.e2e_latency_s
    rate_error = errors.throughput_per_s and ERRORS * errors.throughput_per_s
    latency_error = errors.e2e_latency_s and ERRORS * errors.e2e_latency_s
    mean_s = latency.mean if latency else math.inf
    return [
        ("keeps up", keeps_up(run).partition(":")[0]),
        ("results a second", rounding.number(rate, rate_error) or number(rate)),
        ("end-to-end latency, mean", rounding.seconds(mean_s, latency_error) or seconds(mean_s)),
        ("99 % of results within", seconds(latency.p99 if latency else None)),
        ("left unread a second", number(metrics.backpressure_per_s)),
        ("results", f"{metrics.records_out:,}"),
    ]


def shortened(run: Run) -> tuple[Run, list[str]]:
    """Run with only the fullest operators, hosts and links if there are very many; a sentence for each such part."""
    parts: dict[str, Any] = {}
    told = []
    for part, key in RANKED.items():
        rows = getattr(run, part)
        if len(rows) > MOST_ROWS:
            fullest = sorted(range(len(rows)), key=lambda at, rows=rows, key=key: -getattr(rows[at], key))  # type: ignore[misc]
            parts[part] = tuple(rows[at] for at in sorted(fullest[:MOST_ROWS]))
            told.append(f"Of {len(rows):,} {part} the {MOST_ROWS} fullest are listed.")
    changes, taken = apart(run.event_rows)
    if len(changes) > MOST_ROWS:
        parts["event_rows"] = (*changes[:MOST_ROWS], *taken)
        told.append(f"Of {len(changes):,} events the first {MOST_ROWS} are listed.")
    return replace(run, **parts), told


def _scenario(job: Deployment) -> list[str]:
    scenario = job if isinstance(job, Scenario) else Scenario.of(job)
    written = dump(scenario)
    if len(written) > MOST_TEXT:
        return [paragraph(f"Its file has {len(written):,} characters and is not shown.", "note")]
    return [folded("as a file for twin run", element("pre", text(written)))]


ANSWER, FIGURE = "answer.json", "figure.png"


def holds_answer(folder: Path) -> bool:
    """Whether a folder holds a question."""
    return (folder / QUESTION).is_file()


def answer_page(folder: Path) -> str:
    """Page of a finished answer. Raises BadInput if the answer is not finished, or damaged, or none."""
    question, presentation, _ = _answer(folder)
    return page(presentation.heading, _answer_parts(presentation, folder), _made(question), presentation.numbers)


def _answer(folder: Path) -> tuple[Mapping[str, Any], Presentation, Mapping[str, Any]]:
    """Question in a folder, and the presentation and the document of its answer. Raises BadInput as `answer_page`."""
    if not (folder / ANSWER).is_file():
        raise BadInput(
            f"{folder} holds a question that is not answered yet; give its command again with --out {folder}"
        )
    for file in altered(folder):
        raise BadInput(f"{folder / file} is not as it was written; give its command again, which mends it")
    try:
        question = parse_json((folder / QUESTION).read_text(encoding="utf-8"))
        written = (folder / ANSWER).read_text(encoding="utf-8")
        found: tuple[Mapping[str, Any], Presentation, Mapping[str, Any]] = (
            question, QUESTIONS[question["command"]].presented(written), parse_json(written)
        )  # fmt: skip
        _made(question)
        return found
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise BadInput(f"{folder} does not hold the answer to a question; ask it again in another folder") from None


def _made(question: Mapping[str, Any]) -> str:
    seed = f", seed {question['seed']}" if "seed" in question else ""
    return f"twin {question['command']}{seed}."


def beside_page(folders: Sequence[Path]) -> tuple[str, list[Wide]]:
    """Page that sets two kept runs, or two answers to the same question, beside each other; and its tables of what
    differs. Raises BadInput if a folder holds none, or for two different questions."""
    names = [each.name if folders[0].name != folders[1].name else str(each) for each in folders]
    if all(map(holds_answer, folders)):
        first, second = map(_answer, folders)
        asked = [each["command"] for each, *_ in (first, second)]
        if asked[0] != asked[1]:
            raise BadInput(
                f"{folders[0]} answers twin {asked[0]}, and {folders[1]} twin {asked[1]}; name two answers to one"
            )
        found = difference.tables(asked[0], names, [first[2], second[2]])
        told = [each[1].sentences[0] for each in (first, second)]
        made, numbers = _made(first[0]), first[1].numbers
    else:
        runs = [read_run(each) for each in folders]
        found = difference.tables("run", names, [difference.of_run(each.run) for each in runs])
        told = [verdict(each.job, each.run) for each in runs]
        made, numbers = "twin run.", SIMULATED
    parts = [
        *(section(name, paragraph(words, "verdict")) for name, words in zip(names, told, strict=True)),
        section("What differs", element("div", *tables(found), class_="tables differs")),
    ]
    return page(" beside ".join(names), parts, made, numbers), found


def _answer_parts(told: Presentation, folder: Path) -> Iterator[str]:
    yield paragraph(told.sentences[0], "verdict")
    yield from (paragraph(sentence) for sentence in told.sentences[1:])
    if (folder / FIGURE).is_file():
        drawn_in = inline((folder / FIGURE).read_bytes())
        yield section("Figure", element("img", src=drawn_in, alt=told.sentences[0]))
    elif told.figure is not None:
        yield paragraph(f"{folder / FIGURE} is missing; give the command of the question again to draw it.", "note")
    yield section("Tables", element("div", *tables(told.tables), class_="tables")) if told.tables else ""
    yield from (paragraph(note, "note") for note in told.notes)
