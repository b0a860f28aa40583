"""Page of one job: the parts that stay, and the regions that are sent again when there is something new.

All text of a scenario goes through `figures.svg.text` or an attribute, so none of it is ever markup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from figures.svg import element, text
from figures.time_line import time_line
from streamtwin.report.page import folded, html, paragraph, section, tables
from streamtwin.report.pages import shortened
from streamtwin.serve.asking import changes, events, knobs, select
from streamtwin.serve.desk import Desk
from streamtwin.serve.inquiry import Inquiry
from streamtwin.serve.seeing import answered, beside, film_told, long_question, pictured, questions
from streamtwin.serve.work import LongQuestion
from streamtwin.tables import run_tables
from streamtwin.tables.timelines import marks, panels

SAID_BY_COLOUR = (
    "Boxes are coloured by their busiest subtask; thicker lines carry more, dashed red ones hold their producer up. "
    "While it plays, purple bars are records that wait. Drag a box to another host, or use the forms."
)


def whole(title: str, parts: Sequence[str], job: str = "", jobs: Sequence[str] = ()) -> str:
    """Whole page with its parts. job: its name; empty on the list of jobs. jobs: names to choose from."""
    head = (
        element("title", text(title)),
        element("link", rel="icon", href="/static/icon.svg"),
        element("link", rel="stylesheet", href="/static/page.css"),
        element("link", rel="stylesheet", href="/static/serve.css"),
        element("script", "", type="module", src="/static/serve.js"),
    )
    picker = select(jobs, (), job, id="jobs", aria_label="scenario") if len(jobs) > 1 else ""
    bar = element(
        "header",
        element("a", "twin serve", href="/", class_="home"),
        picker,
        element("output", "", id="state", role="status"),
    )
    body = element("body", bar, *parts, data_job=job)
    return html(head, body)


def listed(jobs: Mapping[str, str], folder: str) -> str:
    """Page that lists the jobs. jobs: a sentence on each, by name."""
    rows = [
        element("li", element("a", text(name), href=f"/job/{name}"), " ", element("span", text(about)))
        for name, about in jobs.items()
    ]
    parts = [
        element("h1", "Which job?"),
        element("ul", *rows, class_="jobs"),
        paragraph(f"What you change is kept in {folder}; the scenarios themselves stay as they are.", "note"),
    ]
    return whole("twin serve", [element("main", *parts, class_="list")])


def page(name: str, regions: Mapping[str, str], jobs: Sequence[str], about: str) -> str:
    """Page of a job, with its regions. jobs: names to choose from. about: a sentence on the job."""

    def region(key: str, tag: str = "div") -> str:
        return element(tag, regions.get(key, ""), id=key, class_="region")

    scrubber = element(
        "div",
        element("button", "▶ Play", id="play", type="button", aria_label="play the run"),
        element("input", id="moment", type="range", min=0, max=0, value=0, aria_label="moment of the run"),
        element("button", "Whole run", id="entire", type="button"),
        element("output", "the means of the whole run", id="moment-told", for_="moment"),
        class_="scrubber",
    )
    see = element(
        "section",
        region("answer"),
        element("div", region("map"), class_="scroll map", tabindex=0, id="stage"),
        scrubber,
        element("div", "", id="owned"),
        paragraph(SAID_BY_COLOUR, "note"),
        class_="see",
        aria_label="the job on its hosts",
    )
    ask = element(
        "aside",
        region("changes"),
        element("h2", "Turn a knob"),
        region("controls"),
        element("h2", "Make something happen"),
        region("events"),
        aria_label="what to change",
    )
    decide = element("section", element("h2", "Decide"), region("questions"), region("work"), class_="decide")
    parts = [
        element("h1", text(name)),
        paragraph(about, "note about") if about else "",
        element("p", "", id="wrong", role="alert"),
        element(
            "main",
            see,
            element("section", element("h2", "What a change does"), region("beside"), class_="beside"),
            ask,
            decide,
            element("section", region("lines"), class_="over-time"),
            element("section", region("rest"), class_="rest"),
        ),
    ]
    return whole(f"{name}: twin serve", parts, name, jobs)


def regions(desk: Desk, inquiry: Inquiry, work: LongQuestion | None) -> dict[str, str]:
    """HTML of all regions of a page as they are now, by name."""
    asked = desk.asked
    if asked is None:
        wrong = paragraph(f"This does not run: {desk.wrong}", "verdict bad")
        return {"answer": wrong, "changes": "".join(changes(inquiry)), "map": "", "film": "{}"}
    found = {
        "answer": "".join(answered(desk, asked)),
        "map": pictured(desk, asked),
        "changes": "".join(changes(inquiry)),
        "controls": "".join(knobs(asked)),
        "events": "".join(events(asked)),
        "beside": "".join(beside(desk, asked)),
        "questions": "".join(questions(asked.now)),
        "work": "".join(long_question(desk, asked, work)),
        "film": film_told(desk, asked),
    }
    run = desk.run()
    if run is not None and run.result is not None:
        film = desk.film()
        lines = element("div", *(time_line(each) for each in panels(film.run if film else run.result)), class_="lines")
        known = [element("li", text(mark.told)) for mark in marks(run.result)]
        found["lines"] = section("Over time", lines, element("ol", *known, class_="marks") if known else "")
        short, _ = shortened(run.result)
        shown_tables = tables(run_tables.of_run(inquiry.name, short))
        found["rest"] = folded("All tables of this run", element("div", *shown_tables, class_="tables"))
    return found
