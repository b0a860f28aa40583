"""Parts of the page that show a job: the answer, the picture, the comparison, and long questions with their answers."""

from __future__ import annotations

import json
from collections.abc import Iterator

from figures.job_map import job_map
from figures.svg import element, text
from figures.time_line import FOOT_PX, LEFT_PX, PLOT_PX, RIGHT_PX, WIDTH_PX
from scenarios.questions.whatif import VariantsCompared
from streamtwin import catalogue
from streamtwin.answers.comparison import change as shown_change
from streamtwin.answers.comparison import state
from streamtwin.report.page import cards, folded, paragraph, scrolling, table, tables
from streamtwin.report.pages import headline
from streamtwin.report.verdict import verdict
from streamtwin.serve.asking import choice, command_told, field, form, select
from streamtwin.serve.desk import Asked, Desk
from streamtwin.serve.inquiry import PAIRS
from streamtwin.serve.work import OBJECTIVES, LongQuestion, shown
from streamtwin.tables import rounding
from streamtwin.tables.job_maps import drawn
from streamtwin.tables.tables import of_rows, seconds
from twin.scenario import Scenario

MEASURES = {
    "throughput_per_s": "results a second",
    "e2e_latency_s.mean": "end-to-end latency, mean",
    "e2e_latency_s.p99": "end-to-end latency, 99 %",
}


def answered(desk: Desk, asked: Asked) -> Iterator[str]:
    """Yields the run in a sentence and in large numbers, and the CPU time that it took."""
    made = desk.run()
    if made is None:
        yield paragraph(f"Running ...{asked.meanwhile}", "verdict waiting")
        return
    if made.result is None:
        how = f". To run it by itself: {asked.inquiry.run_command()}" if made.too_much else ""
        yield paragraph(f"This does not run: {made.refused}{how}", "verdict bad")
        return
    run = made.result
    yield paragraph(verdict(asked.now, run), "verdict" if run.metrics.keeps_up else "verdict bad")
    yield cards(headline(run))
    yield "".join(paragraph(f"Careful: {warning}", "note") for warning in run.warnings)
    yield "".join(paragraph(f"{line[0].upper()}{line[1:]}.", "note") for line in asked.beside(run))
    done, of, cpu_s = desk.progress()
    waited = f"answered in {seconds(desk.answered_s)}; " if desk.answered_s is not None else ""
    more = f", {of - done} more on the way" if done < of else ""
    yield paragraph(f"Simulated: {waited}{done} runs took {seconds(cpu_s)} of CPU time{more}.", "note cost")


def pictured(desk: Desk, asked: Asked) -> str:
    """Drawing of the job on its hosts, with the means of the whole run."""
    made = desk.run()
    run = None if made is None else made.result
    return job_map(drawn(asked.now, run, free_apart=True).picture)


def film_told(desk: Desk, asked: Asked) -> str:
    """Data for the scrubber, as JSON."""
    film = desk.film()
    ends_s = () if film is None else film.ends_s
    axis = {"left": LEFT_PX, "wide": WIDTH_PX - LEFT_PX - RIGHT_PX, "end_s": asked.now.run.horizon_s}
    axis |= {"foot": FOOT_PX, "high": PLOT_PX}
    return json.dumps({"of": asked.key, "ends_s": ends_s, **axis})


def beside(desk: Desk, asked: Asked) -> Iterator[str]:
    """Yields the effect of the last change, or of all changes."""
    inquiry = asked.inquiry
    if not inquiry.changes:
        yield paragraph("Change something: its effect is shown here, compared with the run before.", "note")
        return
    choices = {"before": "the run before", "given": "the scenario as given"}
    against = select([*choices.values()], [*choices], inquiry.against, id="against", data_act="against")
    yield element("label", "compared with ", against)
    yield from compared(desk.compared("before", "now"), choices[inquiry.against], "now")


def compared(answer: VariantsCompared | None, first: str, second: str) -> Iterator[str]:
    """Yields a table of quantities: both means, the change, its significance. answer: None before the first pairs."""
    if answer is None:
        yield paragraph("Pairs of runs are on the way ...", "note")
        return
    before, now = answer.variants
    rows = []
    for metric, label in MEASURES.items():
        old, new = before.metrics[metric], now.metrics[metric]
        rows.append(
            {
                "what": label,
                "before": rounding.metric(metric, old.mean, old.half_width95),
                "now": rounding.metric(metric, new.mean, new.half_width95),
                "change": shown_change(metric, new),
                "words": "-" if new.significant is None else "significant" if new.significant else "not significant",
            }
        )
    states = [state(row, answer.replications) for row in (before, now)]
    rows.append({"what": "keeps up", "before": states[0], "now": states[1], "change": "", "words": ""})
    columns = {"what": "", "before": first, "now": second, "change": "change", "words": ""}
    runs = f"Means ± 95 % of {answer.replications} of {PAIRS} pairs of runs on the same random numbers, simulated."
    yield table(of_rows("", columns, rows))
    yield paragraph(runs, "note")


USUAL = "local-search"


def questions(now: Scenario) -> Iterator[str]:
    """Yields the forms of the long questions."""
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
    """Yields the progress of the long question, or its answer."""
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
    """Yields the plan found, compared with the present one by runs, and a button to take it."""
    yield element("button", "Take this plan", type="button", data_act="accept", class_="main")
    yield from compared(desk.compared("now", "found"), "now", "with this plan")
    asked, run = desk.asked, desk.found_run()
    if asked is not None and asked.found is not None:
        yield scrolling(job_map(drawn(asked.found, run).picture), look="map")
