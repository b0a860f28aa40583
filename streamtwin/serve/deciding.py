"""Long questions on the page: their forms, their progress, and their answers."""

from __future__ import annotations

from collections.abc import Iterator

from figures.job_map import job_map
from figures.svg import element, text
from streamtwin import catalogue
from streamtwin.report.page import folded, paragraph, scrolling, tables
from streamtwin.serve.asking import choice, command_told, field, form
from streamtwin.serve.desk import Asked, Desk
from streamtwin.serve.seeing import compared
from streamtwin.serve.work import OBJECTIVES, LongQuestion, shown
from streamtwin.tables.job_maps import drawn
from streamtwin.tables.tables import seconds
from twin.scenario import Scenario

USUAL = "local-search"


def questions(now: Scenario) -> Iterator[str]:
    """The forms of the long questions."""
    rates = [each.name for each in now.query.sources if hasattr(now.workload.arrivals[each.name], "rate_per_s")]
    loads = {f"workload.arrivals.{name}.rate_per_s": f"the rate of {name}" for name in rates}
    together = {"load": "all sources together"}
    loads = {**loads, **together} if len(now.query.sources) == 1 else {**together, **loads}
    where = choice("find-max", "the highest", list(loads.values()), list(loads))
    while_ = field("while", "while", "not backpressured")
    yield form("How much load can it take?", {"act": "ask", "question": "capacity"}, where, while_)
    known = dict(sorted(catalogue.optimizers().items(), key=lambda each: each[0] != USUAL))
    optimizer = choice("optimizer", "by", [f"{name}: {words}" for name, words in known.items()], list(known))
    objective = choice("objective", "for", list(OBJECTIVES.values()), list(OBJECTIVES))
    yield form("Find a better plan", {"act": "ask", "question": "optimize"}, objective, optimizer)
    policies = field("policies", "policies", "none,ds2,flink-autoscaler")
    slo = field("slo", "latency of 99 % within", "5s")
    listed = (
        element("li", text(f"{name}: {words.rpartition(' (')[0]}")) for name, words in catalogue.policies().items()
    )
    yield form(
        "Compare policies",
        {"act": "ask", "question": "compare-policies"},
        policies,
        slo,
        folded("which there are", element("ul", *listed)),
    )
    fail = choice(
        "fail",
        "host fails",
        ["-", *(host.name for host in now.cluster.hosts)],
        ["", *(host.name for host in now.cluster.hosts)],
    )
    lost = choice(
        "lost", "and", ["comes back", "is lost, others take over", "is lost, the job waits"], ["", "spread", "wait"]
    )
    operator, host = now.query.topological[0].name, now.cluster.hosts[0].name
    change = (
        field("rescale", "rescale", "", f"such as {operator}=4"),
        field("migrate", "move", "", f"such as {operator}={host}"),
    )
    yield form("Try a change", {"act": "ask", "question": "dry-run"}, fail, lost, *change, field("at", "at", "", "s"))


def long_question(desk: Desk, asked: Asked, work: LongQuestion | None) -> Iterator[str]:
    """The progress of the long question, or its answer."""
    if work is not None:
        stop = element("button", "Stop", type="button", data_act="stop")
        yield element("div", element("p", text(f"{work.command.split()[1]} ..."), class_="waiting"), stop, class_="row")
        if work.lines:
            yield element("pre", text("\n".join(work.lines)), class_="progress")
        return
    answered = asked.inquiry.answer
    if answered is None:
        return
    dismiss = element("button", "×", type="button", data_act="dismiss", aria_label="dismiss this answer")
    stale = answered["of"] != asked.key
    if answered["refused"]:
        yield element(
            "div", paragraph(f"{answered['question']}: {answered['refused']}", "verdict bad"), dismiss, class_="row"
        )
        return
    told = shown(answered["question"], answered["document"], None if stale else asked.now)
    first, *others = told.sentences
    yield element("div", paragraph(first, "verdict"), dismiss, class_="row")
    if stale:
        yield paragraph("Asked of an earlier state of this page.", "note")
    yield "".join(map(paragraph, others))
    if answered["plan"] and not stale:
        yield "".join(_plan(desk))
    elif answered["question"] == "optimize" and not stale:
        yield paragraph("The plan stays as it is.")
    if told.figure is not None:
        yield element("img", src=f"/job/{desk.name}/figure.png?{asked.inquiry.version}", alt=first, class_="figure")
    yield element("div", *tables(told.tables), class_="tables")
    yield "".join(paragraph(note, "note") for note in told.notes)
    yield paragraph(f"It took {seconds(answered['took_s'])}{', and was stopped' * answered['interrupted']}.", "note")
    yield command_told("the command", answered["command"])


def _plan(desk: Desk) -> Iterator[str]:
    """The plan found beside the given one, by runs, and whether to take it."""
    yield element("button", "Take this plan", type="button", data_act="accept", class_="main")
    yield from compared(desk.compared("now", "found"), "now", "with this plan")
    asked, run = desk.asked, desk.found_run()
    if asked is not None and asked.found is not None:
        yield scrolling(job_map(drawn(asked.found, run).picture), look="map")
