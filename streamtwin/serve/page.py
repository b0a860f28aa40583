"""Page of one job: the parts that stay, and those that show the job and are sent again when it changes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import quote

from figures.job_map import job_map
from figures.svg import element, text
from figures.time_line import FOOT_PX, LEFT_PX, PLOT_PX, RIGHT_PX, WIDTH_PX, time_line
from scenarios.questions.whatif import VariantsCompared
from streamtwin.answers.comparison import change as shown_change
from streamtwin.answers.comparison import state
from streamtwin.answers.verdict import verdict
from streamtwin.questions.question import FormField
from streamtwin.questions.registry import forms
from streamtwin.report import cards, folded, headline, html, paragraph, scrolling, section, shortened, table, tables
from streamtwin.serve.asking import changes, choice, command_told, events, field, form, keep, knobs, select
from streamtwin.serve.inquiry import PAIRS, Inquiry
from streamtwin.serve.session import Asked, Session
from streamtwin.serve.work import LongQuestion, shown
from streamtwin.tables import rounding, run_tables
from streamtwin.tables.job_maps import drawn
from streamtwin.tables.run_tables import marks, panels
from streamtwin.tables.tables import of_rows, seconds
from twin.scenario import Scenario

# parts that show -----------------------------------------------------------------------------------------------------
# Parts of the page that show a job: the answer, the picture, the comparison, and long questions with their answers.


MEASURES = {
    "throughput_per_s": "results a second",
    "e2e_latency_s.mean": "end-to-end latency, mean",
    "e2e_latency_s.p99": "end-to-end latency, 99 %",
}


def answered(session: Session, asked: Asked) -> Iterator[str]:
    """Yields the run in a sentence and in large numbers, and the CPU time that it took."""
    made = session.run()
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
    done, of, cpu_s = session.progress()
    waited = f"answered in {seconds(session.answered_s)}; " if session.answered_s is not None else ""
    more = f", {of - done} more on the way" if done < of else ""
    yield paragraph(f"Simulated: {waited}{done} runs took {seconds(cpu_s)} of CPU time{more}.", "note cost")
    yield keep("run")


def pictured(session: Session, asked: Asked) -> str:
    """Drawing of the job on its hosts, with the means of the whole run."""
    made = session.run()
    run = None if made is None else made.result
    return job_map(drawn(asked.now, run, free_apart=True).picture)


def replay_told(session: Session, asked: Asked) -> str:
    """Data for the scrubber, as JSON."""
    replay = session.replay()
    ends_s = () if replay is None else replay.ends_s
    axis = {"left": LEFT_PX, "wide": WIDTH_PX - LEFT_PX - RIGHT_PX, "end_s": asked.now.run.horizon_s}
    axis |= {"foot": FOOT_PX, "high": PLOT_PX}
    return json.dumps({"of": asked.key, "ends_s": ends_s, **axis})


def beside(session: Session, asked: Asked) -> Iterator[str]:
    """Yields the effect of the last change, or of all changes."""
    inquiry = asked.inquiry
    if not inquiry.changes:
        yield paragraph("Change something: its effect is shown here, compared with the run before.", "note")
        return
    choices = {"before": "the run before", "given": "the scenario as given"}
    against = select([*choices.values()], [*choices], inquiry.against, id="against", data_act="against")
    yield element("label", "compared with ", against)
    yield from compared(session.compared("before", "now"), choices[inquiry.against], "now")


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


def questions(now: Scenario) -> Iterator[str]:
    """Yields the forms of the long questions."""
    for command, asked in forms().items():
        fields = (_field(name, each, now) for name, each in asked.fields.items())
        allowed = (each.allowed() for each in asked.fields.values() if each.allowed and not each.choices)
        yield form(asked.title, {"act": "ask", "question": command}, *fields, *map(_glossary, allowed))


def _field(name: str, asked: FormField, now: Scenario) -> str:
    """Field of a form: a choice, or one in which people write."""
    if asked.choices is not None:
        words = asked.choices(now)
        return choice(name, asked.label, list(words.values()), list(words))
    return field(name, asked.label, asked.value, asked.about if isinstance(asked.about, str) else asked.about(now))


def _glossary(allowed: Mapping[str, str]) -> str:
    """List of what may be written in a field, without options."""
    told = (f"{name}: {_before_options(words)}" for name, words in allowed.items() if words)
    return folded("which there are", _list(told))


def _before_options(words: str) -> str:
    """Words without the options at their end, which are in brackets; there may be brackets in them."""
    depth = 0
    for at in reversed(range(len(words) if words.endswith(")") else 0)):
        depth += (words[at] == ")") - (words[at] == "(")
        if not depth:
            return words[:at].rstrip()
    return words


def _list(listed: Iterable[str]) -> str:
    return element("ul", *(element("li", text(each)) for each in listed))


def long_question(session: Session, asked: Asked, work: LongQuestion | None) -> Iterator[str]:
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
        yield "".join(_plan(session))
    elif answered["question"] == "optimize" and not stale:
        yield paragraph("The plan stays as it is.")
    if told.figure is not None:
        yield element("img", src=f"/job/{session.name}/figure.png?{asked.inquiry.version}", alt=first, class_="figure")
    yield element("div", *tables(told.tables), class_="tables")
    yield "".join(paragraph(note, "note") for note in told.notes)
    yield paragraph(f"It took {seconds(answered['took_s'])}{', and was stopped' * answered['interrupted']}.", "note")
    yield command_told("the command", answered["command"])
    yield keep("answer")


def _plan(session: Session) -> Iterator[str]:
    """Yields the plan found, compared with the present one by runs, and a button to take it."""
    yield element("button", "Take this plan", type="button", data_act="accept", class_="main")
    yield from compared(session.compared("now", "found"), "now", "with this plan")
    asked, run = session.asked, session.found_run()
    if asked is not None and asked.found is not None:
        picture = drawn(asked.found, run).picture
        yield scrolling(job_map(picture), label=picture.title, look="map")


# the page ------------------------------------------------------------------------------------------------------------
# Page of one job: the parts that stay, and the regions that are sent again when there is something new.
#
# All text of a scenario goes through `figures.svg.text` or an attribute, so none of it is ever markup.


SAID_BY_COLOUR = (
    "Boxes are coloured by their busiest subtask; thicker lines carry more, dashed red ones hold their producer up. "
    "While it plays, purple bars are records that wait. Drag a box to another host, or use the forms."
)


def job_address(name: str) -> str:
    """Address of the page of a job."""
    return f"/job/{quote(name, safe='')}"


def whole(title: str, parts: Sequence[str], job: str = "", jobs: Sequence[str] = ()) -> str:
    """Whole page with its parts. job: its name; empty on other pages than that of a job. jobs: names to choose from."""
    head = (
        element("title", text(title)),
        element("link", rel="icon", href="/static/icon.svg"),
        element("link", rel="stylesheet", href="/static/page.css"),
        element("link", rel="stylesheet", href="/static/serve.css"),
        element("script", "", type="module", src=f"/static/{'serve' if job else 'start'}.js"),
    )
    picker = element(
        "form",
        select(jobs, (), job, id="jobs", aria_label="scenario"),
        element("button", "Go", type="submit", aria_label="go to this scenario"),
        id="go",
    )
    bar = element(
        "header",
        element("a", "twin serve", href="/", class_="home"),
        picker if len(jobs) > 1 else "",
        element("output", "", id="state", role="status"),
    )
    body = element("body", bar, element("p", "", id="wrong", role="alert"), *parts, data_job=job)
    return html(head, body)


def page(name: str, regions: Mapping[str, str], jobs: Sequence[str], about: str, assumed: Sequence[str] = ()) -> str:
    """Page of a job, with its regions. jobs: names to choose from. about: a sentence on the job. assumed: what its
    import assumed."""

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
        element(
            "div", region("map"), class_="scroll map", tabindex=0, id="stage", role="group", aria_label="map of the job"
        ),
        scrubber,
        element("div", "", id="owned"),
        paragraph(SAID_BY_COLOUR, "note"),
        class_="see",
        aria_label="the job on its hosts",
    )
    ask = element(
        "section",
        region("changes"),
        element("h2", "Turn a knob"),
        region("controls"),
        element("h2", "Make something happen"),
        region("events"),
        class_="ask",
        aria_label="what to change",
    )
    decided = (region("questions"), region("work"), region("kept"))
    decide = element("section", element("h2", "Decide"), *decided, class_="decide")
    columns = element(
        "div",
        see,
        element("section", element("h2", "What a change does"), region("beside"), class_="beside"),
        ask,
        decide,
        element("section", region("lines"), class_="over-time"),
        element("section", region("rest"), class_="rest"),
        class_="columns",
    )
    parts = [
        element("h1", text(name)),
        paragraph(about, "note about") if about else "",
        folded(f"What its import assumed ({len(assumed)})", _list(assumed)) if assumed else "",
        columns,
    ]
    return whole(f"{name}: twin serve", [element("main", *parts)], name, jobs)


def regions(session: Session, inquiry: Inquiry, work: LongQuestion | None, kept: str) -> dict[str, str]:
    """HTML of all regions of a page as they are now, by name. kept: list of the kept answers."""
    asked = session.asked
    if asked is None:
        wrong = paragraph(f"This does not run: {session.wrong}", "verdict bad")
        return {"answer": wrong, "changes": "".join(changes(inquiry)), "map": "", "film": "{}"}
    found = {
        "answer": "".join(answered(session, asked)),
        "map": pictured(session, asked),
        "changes": "".join(changes(inquiry)),
        "controls": "".join(knobs(asked)),
        "events": "".join(events(asked)),
        "beside": "".join(beside(session, asked)),
        "questions": "".join(questions(asked.now)),
        "work": "".join(long_question(session, asked, work)),
        "kept": section("Kept answers", kept, paragraph("Open one to set it beside another.", "note")) if kept else "",
        "film": replay_told(session, asked),
    }
    run = session.run()
    if run is not None and run.result is not None:
        replay = session.replay()
        lines = element(
            "div", *(time_line(each) for each in panels(replay.run if replay else run.result)), class_="lines"
        )
        known = [element("li", text(mark.told)) for mark in marks(run.result)]
        found["lines"] = section("Over time", lines, element("ol", *known, class_="marks") if known else "")
        short, _ = shortened(run.result)
        shown_tables = tables(run_tables.of_run(inquiry.name, short))
        found["rest"] = folded("All tables of this run", element("div", *shown_tables, class_="tables"))
    return found
