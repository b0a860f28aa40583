"""Start page: what a person comes with, a file or a Flink; what is being imported; what was asked last; and the
scenarios that there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap

from figures.job_map import SIZE_PX
from figures.svg import element, text
from streamtwin.report import paragraph
from streamtwin.serve import keeping, opening
from streamtwin.serve.keeping import KeptAnswer
from streamtwin.serve.opening import Import
from streamtwin.serve.page import job_address, whole


def regions(
    groups: Mapping[str, Sequence[str]],
    recent: Mapping[str, str],
    about: Mapping[str, str],
    kept: Sequence[KeptAnswer],
    imports: Mapping[str, Import],
) -> dict[str, str]:
    """HTML of the parts that change while the page is open, by name. groups: names of jobs under their headings.
    recent: jobs that were asked about, with words on that, the last first. about: a sentence on each job; none on one
    that was opened since they were read. imports: those that are under way, by number."""
    listed = [
        *_jobs("Asked about last", recent, 2),
        *([element("h2", "Kept answers"), *keeping.listed(kept, with_job=True)] if kept else []),
        element("h2", "Scenarios") if len(groups) > 1 else "",
    ]
    for heading, names in groups.items():
        listed += _jobs(heading, {name: about.get(name, "") for name in names}, 3 if len(groups) > 1 else 2)
    return {"importing": "".join(starmap(_importing, imports.items())), "listed": "".join(listed)}


def page(regions: Mapping[str, str], folder: str) -> str:
    """Start page with its regions. folder: of the server's files."""
    parts = [
        element("h1", "What would your job do?"),
        element("div", *_doors(), class_="doors"),
        *(element("div", html, id=name, class_="region") for name, html in regions.items()),
        paragraph(f"What you change is kept in {folder}; the scenarios themselves stay as they are.", "note"),
    ]
    return whole("twin serve", [element("main", *parts, class_="list")])


def _importing(number: str, work: Import) -> str:
    """Import that is under way, with what it waits for, or why it has failed."""
    post = {"type": "button", "id": f"import-{number}", "data_post": f"/import/{number}/stop"}
    if work.refused:
        dismiss = element("button", "×", **post, aria_label=f"dismiss the import of {work.of}")
        return element("div", paragraph(f"{work.of}: {work.refused}", "verdict bad"), dismiss, class_="row")
    stop = element("button", "Stop", **post, aria_label=f"stop the import of {work.of}")
    words = f"{'Stopping' if work.stopped else 'Importing'} {work.of} ..."
    lines = element("pre", text("\n".join(work.lines)), class_="progress") if work.lines else ""
    return element("div", element("p", text(words), class_="waiting"), stop, class_="row") + lines


def _jobs(heading: str, listed: Mapping[str, str], level: int) -> Iterator[str]:
    """Yields a list of jobs with a picture each, under a heading; nothing if there are none."""
    if not listed:
        return
    rows = []
    for name, words in listed.items():
        address, (width, height) = job_address(name), map(int, SIZE_PX)
        look = {"width": width, "height": height, "loading": "lazy", "class_": "sketch"}
        picture = element("img", src=f"{address}/sketch.svg", alt="", **look)
        link = element("a", picture, text(name), href=address)
        about = {"type": "button", "data_post": f"{address}/drop", "aria_label": f"remove {name}"}
        drop = element("button", "×", **about) if heading == opening.HEADING else ""
        rows.append(element("li", link, drop, element("span", text(words))))
    yield element(f"h{level}", text(heading))
    yield element("ul", *rows, class_="jobs")


def _doors() -> Iterator[str]:
    """Yields the forms by which a person brings a job."""
    yield _door(
        "Open a scenario file",
        "Open",
        _field("A YAML file", "file", type="file", accept=".yaml,.yml", required="required"),
    )
    yield _door(
        "Import a running job of Flink",
        "Import",
        _field("Address of its REST API, as of its web page", "url", type="url", required="required",
               placeholder="http://localhost:8081"),
        _field("Name of the job, if there are several", "job"),
        _field("Seconds for which it is watched", "window", type="number", min=1, max=600, value=20),
    )  # fmt: skip
    yield _door(
        "Import saved answers of Flink",
        "Import",
        _field("The .json files of a folder, or the answer to /jobs/:id", "answers", type="file", accept=".json",
               multiple="multiple", required="required"),
        _field("Name of the job, if there are several", "job"),
    )  # fmt: skip


def _door(title: str, act: str, *fields: str) -> str:
    button = element("button", text(act), type="submit", class_="main")
    return element("section", element("h2", text(title)), element("form", *fields, button), class_="door")


def _field(label: str, name: str, **about: object) -> str:
    return element("label", text(label), element("input", name_=name, **about))
