"""Pages of `twin report`, and the verdict on a run in sentences."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from figures.job_map import job_map
from figures.svg import element, text
from figures.time_line import time_line
from scenarios.files.scenario_file import dump
from scenarios.measures import measures
from scenarios.questions.kept import QUESTION, RunOutcome
from scenarios.questions.resources import (
    FULL,
    Resource,
    busy_words,
    holding,
    most_subtasks,
    others_words,
    resources,
    task_of,
)
from streamtwin.answers.presentation import Presentation
from streamtwin.questions.registry import QUESTIONS
from streamtwin.report.page import cards, folded, inline, page, paragraph, scrolling, section, tables
from streamtwin.tables import rounding, run_tables
from streamtwin.tables.checkpoint_table import apart
from streamtwin.tables.job_maps import drawn
from streamtwin.tables.run_tables import drops, keeps_up, marks, panels
from streamtwin.tables.tables import number, seconds
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.files import altered, parse_json
from twin.metrics import measured
from twin.run import Run
from twin.scenario import Scenario
from twin.standard_errors import ERRORS

# verdicts ------------------------------------------------------------------------------------------------------------
# Verdict on a run in sentences: whether the job keeps up, and its bottleneck.


MOST_NAMES = 4
LONGER = "A longer run may show that it does not keep up, as this is full"
"""Words for runs in which a resource was full all of the time, or at the end: queues before it may still be filling."""
LONG = 0.1
"""Share of the periods in which a resource must be full to be called the bottleneck of a run."""


def verdict(job: Deployment, run: Run) -> str:
    """Sentences on whether a job kept up, what binds, and how long it was paused."""
    return " ".join((_state(run), *_drops(job, run), _bottleneck(job, run), *_pauses(run)))


def _state(run: Run) -> str:
    metrics = run.metrics
    if run.crashed:
        return f"{run.warnings[0][0].upper()}{run.warnings[0][1:]}."
    if not metrics.success:
        return "No result reached a sink."
    if metrics.backpressured:
        return f"The job does not keep up: {number(metrics.backpressure_per_s)} records a second stay unread."
    if more_per_s := metrics.queue_growth_per_s:
        return f"The job does not keep up: its queues grow by {number(more_per_s)} records a second until the end."
    return "The job keeps up with its input."


def _bottleneck(job: Deployment, run: Run) -> str:
    found = holding(resources(job, [RunOutcome(measures(run))]), job)
    words = list(_full(job, found))
    if run.metrics.keeps_up and run.full:
        words = list(_full(job, [each for each in found if each.name in run.full])) or list(run.full)
        return f"{LONGER}: {joined(words)}."
    if words:
        return f"{'Nearly full:' if run.metrics.keeps_up else 'The bottleneck is'} {joined(words)}."
    found = [each for each in found if each.kind != "memory"]  # which more records need not fill
    if not found:
        return "Nothing was in use."
    top = found[0]
    operator = f"{'the busiest subtask of ' * top.uneven}operator {task_of(top.name, job)}"
    name = operator if top.kind == "operator" else f"the {top.kind} of {top.name}"
    if run.metrics.keeps_up:
        room = f"it could bear about {number(1 / top.used)} times as much"
        which = " that could hold it up" if drops(run) else ""
        return f"The fullest resource{which} is {name} ({top.used:.0%} in use): {room}."
    at_times = _at_times(job, run)
    average = f"{name}, {top.used:.0%} in use on average"
    return f"The bottleneck is {at_times}." if at_times else f"Nothing was full for long (the fullest: {average})."


def _at_times(job: Deployment, run: Run) -> str:
    """Resource that was full in most periods after the warm-up, if in one of ten: a host's CPU before operators."""
    periods = measured(run.host_rows, run.manifest["warmup_s"])
    names = job.query.holding_up
    hosts = job.plan.hosts(*names)
    cpus = Counter(row["host"] for row in periods if row["cpuUtilisation"] >= FULL and row["host"] in hosts)
    rows = measured(run.operator_rows, run.manifest["warmup_s"])
    full = [row["operator"] for row in rows if row["busyTimeMsPerSecond"] >= 1000 * FULL]
    busy = Counter(name for name in full if name in names)
    count = len({row["period"] for row in rows})
    for found in (cpus, busy):
        for name, times in found.most_common(1):
            if times >= LONG * count:
                on = some(sorted(job.plan.hosts(name))) if found is busy else ""
                what = f"operator {task_of(name, job)} on {on}" if found is busy else f"the CPU of {name}"
                return f"{what}, full in {times} of {count} periods"
    return ""


def _full(job: Deployment, found: Sequence[Resource]) -> Iterator[str]:
    """Words for each resource that binds. An operator on a host with a full CPU waits for it, and is named with it."""
    full = [each for each in found if each.used >= FULL]
    hosts = {each.name for each in full if each.kind == "CPU"}
    on = {name: {*job.plan.hosts(name)} for name in job.plan.placement}
    for each in full:
        if each.kind == "CPU":
            there = [operator.name for operator in job.query.topological if each.name in on[operator.name]]
            used = f"{each.used:.0%} in use{others_words(each, job)}"
            yield f"the CPU of {each.name} ({used}), which {some(there)} use{'s' * (len(there) == 1)}"
        elif each.kind != "operator":
            yield f"the {each.kind} of {each.name} ({each.used:.0%} in use)"
        elif not on[each.name] & hosts:
            where = some(sorted(each.full_on or on[each.name]))
            # with several sockets, one of them may be full; and where one subtask is hot, more of them help little
            spare = not each.uneven and all(job.cluster.host(name).socket_count == 1 for name in on[each.name])
            room = f", with {most_subtasks(each.name, job) or 'cores to spare there'}" if spare else ""
            yield f"operator {task_of(each.name, job)} on {where} ({busy_words(each)}){room}"


def _drops(job: Deployment, run: Run) -> Iterator[str]:
    """Sentences on what was lost at full channels after the warm-up, by producer."""
    totals = {each.operator: each for each in run.operators}
    for name, lost in drops(run).items():
        into = [totals[each.consumer] for each in job.query.outputs(name) if each.overflow == "drop"]
        share = lost / (lost + sum(each.records_in for each in into))
        busy = joined(f"{each.operator} ({each.busy:.0%} busy)" for each in into)
        yield f"It drops {number(100 * share)}% of all records for {busy}, at full channels from {name}."


def _pauses(run: Run) -> Iterator[str]:
    events, _ = apart(run.event_rows)
    paused = [row["paused_s"] for row in events if row["paused_s"]]
    if events:
        stood = f", which paused it, or a part of it, for {seconds(sum(paused))} in all" if paused else ""
        yield f"{len(events):,} event{'s' * (len(events) > 1)} changed it while it ran{stood}."


def some(names: Sequence[str]) -> str:
    """Words for a few of many names."""
    if len(names) <= MOST_NAMES + 1:
        return joined(names)
    return f"{', '.join(names[:MOST_NAMES])} and {len(names) - MOST_NAMES:,} more"


def joined(words: Iterable[str]) -> str:
    """Words joined as in a sentence."""
    listed = list(words)
    return " and ".join(filter(None, (", ".join(listed[:-1]), listed[-1]))) if listed else ""


# pages ---------------------------------------------------------------------------------------------------------------
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
        "Bar: busy (dark), backpressured (red). Thicker lines carry more; dashed red ones hold their producer up "
        "(backpressure)."
    )
    said = (
        [paragraph(f"{told[:1].upper()}{told[1:]}; a box shows the busiest of its operators.", "note")] if told else []
    )
    return section("The query on its hosts", scrolling(job_map(picture), look="map"), paragraph(words, "note"), *said)


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
    if not (folder / ANSWER).is_file():
        raise BadInput(
            f"{folder} holds a question that is not answered yet; give its command again with --out {folder}"
        )
    for file in altered(folder):
        raise BadInput(f"{folder / file} is not as it was written; give its command again, which mends it")
    try:
        question = parse_json((folder / QUESTION).read_text(encoding="utf-8"))
        presentation = QUESTIONS[question["command"]].presented((folder / ANSWER).read_text(encoding="utf-8"))
        made = f"twin {question['command']}, seed {question['seed']}."
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise BadInput(f"{folder} does not hold the answer to a question; ask it again in another folder") from None
    return page(presentation.heading, _answer_parts(presentation, folder), made)


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
