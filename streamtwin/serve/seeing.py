"""What is seen of a job on its page: the answer, the picture, what the scrubber plays, and the comparison."""

from __future__ import annotations

import json
from collections.abc import Iterator

from figures.job_map import job_map
from figures.svg import element, text
from figures.time_line import FOOT_PX, LEFT_PX, PLOT_PX, RIGHT_PX, WIDTH_PX
from scenarios.questions.whatif import VariantsCompared
from streamtwin.answers.comparison import change as shown_change
from streamtwin.answers.comparison import keeps_up
from streamtwin.report.html_tables import table
from streamtwin.report.page import cards, paragraph
from streamtwin.report.run_page import headline
from streamtwin.report.verdict import good, verdict
from streamtwin.serve.desk import Asked, Desk
from streamtwin.serve.inquiry import PAIRS
from streamtwin.tables import rounding
from streamtwin.tables.job_maps import drawn
from streamtwin.tables.tables import of_rows, seconds

MEASURES = {
    "throughput_per_s": "results a second",
    "e2e_latency_s.mean": "end-to-end latency, mean",
    "e2e_latency_s.p99": "end-to-end latency, 99 %",
}


def answered(desk: Desk, asked: Asked) -> Iterator[str]:
    """The run in a sentence and in large numbers, and the CPU time that it took."""
    made = desk.run()
    if asked.too_long:
        yield paragraph(
            f"Too long to run on each change: {asked.too_long}. To run it: {asked.inquiry.run_command()}", "verdict"
        )
        return
    if made is None:
        yield paragraph(f"Running ...{asked.meanwhile}", "verdict waiting")
        return
    if made.result is None:
        yield paragraph(f"This does not run: {made.refused}", "verdict bad")
        return
    run = made.result
    yield paragraph(verdict(asked.now, run), "verdict" if good(asked.now, run) else "verdict bad")
    yield cards(headline(asked.now, run))
    yield "".join(paragraph(f"Careful: {warning}", "note") for warning in run.warnings)
    done, of, cpu_s = desk.progress()
    waited = f"answered in {seconds(desk.answered_s)}; " if desk.answered_s is not None else ""
    more = f", {of - done} more on the way" if done < of else ""
    yield paragraph(f"Simulated: {waited}{done} runs took {seconds(cpu_s)} of CPU time{more}.", "note cost")


def pictured(desk: Desk, asked: Asked) -> str:
    """The job on its hosts: the means of the whole run."""
    made = desk.run()
    run = None if made is None else made.result
    return job_map(drawn(asked.now, run, free_apart=True).picture)


def film_told(desk: Desk, asked: Asked) -> str:
    """What the scrubber has to know, as JSON."""
    film = desk.film()
    ends_s = () if film is None else film.ends_s
    axis = {"left": LEFT_PX, "wide": WIDTH_PX - LEFT_PX - RIGHT_PX, "end_s": asked.now.run.horizon_s}
    axis |= {"foot": FOOT_PX, "high": PLOT_PX}
    return json.dumps({"of": asked.key, "ends_s": ends_s, **axis})


def beside(desk: Desk, asked: Asked) -> Iterator[str]:
    """The effect of the last change, or of all changes."""
    inquiry = asked.inquiry
    if not inquiry.changes:
        yield paragraph("Change something: its effect is shown here, compared with the run before.", "note")
        return
    choices = {"before": "the run before", "given": "the scenario as given"}
    options = (
        element("option", text(words), value=key, selected="selected" if key == inquiry.against else None)
        for key, words in choices.items()
    )
    yield element("label", "compared with ", element("select", *options, id="against", data_act="against"))
    answer = desk.compared("before", "now")
    yield (
        "".join(compared(answer, choices[inquiry.against], "now"))
        if answer
        else paragraph("Pairs of runs are on the way ...", "note")
    )


def compared(answer: VariantsCompared, first: str, second: str) -> Iterator[str]:
    """A line a quantity: both means, the change, and whether it is more than chance."""
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
    states = [
        f"no, in {row.backpressured_runs} of {answer.replications}" if row.backpressured_runs else keeps_up(row)
        for row in (before, now)
    ]
    rows.append({"what": "keeps up", "before": states[0], "now": states[1], "change": "", "words": ""})
    columns = {"what": "", "before": first, "now": second, "change": "change", "words": ""}
    runs = f"Means ± 95 % of {answer.replications} of {PAIRS} pairs of runs on the same random numbers, simulated."
    yield table(of_rows("", columns, rows))
    yield paragraph(runs, "note")
