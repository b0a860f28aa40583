"""Makes pages of HTML that are one file: no scripts, nothing from elsewhere, well-formed as XML."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from pathlib import Path

from figures.svg import element, text
from scenarios.files.run_folder import check_file
from streamtwin.answers import SIMULATED
from streamtwin.tables.tables import Column, Wide
from twin import VERSION
from twin.errors import BadInput

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
