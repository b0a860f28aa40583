"""Parts of the page that ask: the list of changes, the knobs, and forms for events."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from figures.svg import element, text
from streamtwin.report.page import folded
from streamtwin.serve.controls import Control, controls
from streamtwin.serve.desk import Asked
from streamtwin.serve.happenings import told
from streamtwin.serve.inquiry import EVENT, Alteration, Inquiry
from twin.scenario import Scenario

MOST_CONTROLS = 12
"""Most controls of a group that are shown; the others are one click away."""


def changes(inquiry: Inquiry) -> Iterator[str]:
    """Yields the list of changes, the commands that give the same answers, and a form to save."""
    count = len(inquiry.changes)
    heading = f"{count} change{'s' * (count != 1)}" if count else "As given"
    undo = element(
        "button", "Undo", type="button", data_act="undo", data_at=-1, id="undo", disabled=None if count else "disabled"
    )
    yield element("div", element("h2", heading), undo, class_="row")
    rows = [
        element(
            "li",
            _change(each),
            element("button", "×", type="button", data_act="undo", data_at=at, aria_label=f"undo {each.text[:60]}"),
        )
        for at, each in enumerate(inquiry.changes)
    ]
    if rows:
        yield element("ol", *rows, class_="changes")
    commands = [command_told("the run as a command", inquiry.run_command())]
    if compare := inquiry.compare_command() if count else "":
        commands.append(command_told("the comparison", compare))
    yield "".join(commands)
    save = element(
        "form",
        element("input", name_="file", placeholder="mine.yaml", aria_label="file name", id="file", required="required"),
        element("button", "Save as a file", type="submit"),
        data_act="save",
        class_="row",
    )
    yield save


def _change(each: Alteration) -> str:
    return element("span" if each.said else "code", text(each.said or each.text), title=each.text)


def command_told(name: str, words: str) -> str:
    """Command to copy. name: of its result."""
    copy = element("button", text(f"Copy {name}"), type="button", data_copy=words)
    return element("details", element("summary", copy), element("pre", text(words)), class_="command")


def knobs(asked: Asked) -> Iterator[str]:
    """Yields all controls, by group; a group that was touched is open."""
    known = controls(asked.given, asked.now)
    for number_, (group, members) in enumerate(groupby(known.values(), key=lambda each: each.group)):
        listed = [_knob(each) for each in members]
        shown_, hidden = listed[:MOST_CONTROLS], listed[MOST_CONTROLS:]
        more = [folded(f"{len(hidden)} more", *hidden)] if hidden else []
        touched = any(each.value != each.given for each in known.values() if each.group == group)
        opened = "open" if number_ < 2 or touched else None
        yield element("details", element("summary", text(group)), *shown_, *more, open=opened, id=f"group-{group}")
    free = element(
        "form",
        element("label", "Any other value, as in --set", for_="any"),
        element("input", name_="text", id="any", placeholder="run.noise=false", required="required"),
        element("button", "Set", type="submit"),
        data_act="set",
        class_="row",
    )
    yield free


def _knob(control: Control) -> str:
    """Control as a slider with a field, a choice, or a field."""
    key = f"knob-{control.name}"
    moved = control.value != control.given
    label = element("label", text(control.label), for_=key)
    about = {"id": key, "data_control": control.name}
    if control.choices:
        return element("div", label, select(control.choices, (), control.value, **about), class_="knob choice")
    written = _plain(control.value)
    field = element("input", type="text", inputmode="decimal", value=written, **about)
    unit = element("span", text(control.unit), class_="unit")
    if control.low is None or control.high is None:
        return element("div", label, field, unit, class_="knob field")
    ends = {
        "data_low": f"{control.low:.6g}",
        "data_high": f"{control.high:.6g}",
        "data_value": f"{float(control.value):.12g}",
    }
    steps = int(control.high - control.low) if control.whole else 100
    slider = element(
        "input",
        type="range",
        id=f"slide-{control.name}",
        min=0,
        max=steps,
        value=_at(control, steps),
        aria_label=f"{control.group}: {control.label}",
        aria_valuetext=f"{written} {control.unit}",
        data_control=control.name,
        data_log="log" if control.log else None,
        data_whole="whole" if control.whole else None,
        **ends,
    )
    return element("div", label, slider, field, unit, class_=f"knob{' moved' * moved}")


def _plain(value: Any) -> str:
    """Value as people write it."""
    if isinstance(value, float):
        return f"{value / 1e6:.6g}M" if value >= 1e6 else f"{value:.6g}"
    return str(value)


def _at(control: Control, steps: int) -> int:
    """Position of a control's slider, from 0 to `steps`."""
    low, high = float(control.low or 0.0), float(control.high or 1.0)
    value = min(max(float(control.value), low), high)
    share = math.log(value / low) / math.log(high / low) if control.log else (value - low) / (high - low)
    return round(steps * share)


def events(asked: Asked) -> Iterator[str]:
    """Yields the list of events, and forms for more."""
    now = asked.now
    added = [at for at, each in enumerate(asked.inquiry.changes) if each.flag == EVENT]
    acts = [*(("cancel", at) for at in range(len(now.events) - len(added))), *(("undo", at) for at in added)]
    rows = [
        element(
            "li",
            text(words),
            element("button", "×", type="button", data_act=act, data_at=at, aria_label=f"cancel {words}"),
        )
        for event, (act, at) in sorted(zip(now.events, acts, strict=True), key=lambda each: each[0].at_s)
        for words in [told(event.model_dump(mode="json", exclude_none=True))]
    ]
    if rows:
        yield element("ul", *rows, class_="changes")
    hosts, links = [host.name for host in now.cluster.hosts], [" - ".join(link.between) for link in now.cluster.links]
    operators = [operator.name for operator in now.query.topological]
    at = field("at_s", "at", f"{now.run.warmup_s + (now.run.horizon_s - now.run.warmup_s) / 3:.3g}", "s", "moment")
    where = choice("host", "host", hosts)
    link = [choice("link", "link", links, [f"[{a}, {b}]" for a, b in (each.between for each in now.cluster.links)])]
    slow = link if links else [where]
    back = field("recover_after_s", "the job goes on after", "10", "s; empty: never")
    on = choice("lost", "on", ["the same host", "other hosts, as this one stays lost"], ["", "true"])
    yield form("Kill a host", {"kind": "failure"}, where, at, back, on)
    factors = (field("latency_factor", "latency times", "10"), field("bandwidth_factor", "bandwidth times", "1"))
    lasts = field("duration_s", "for", "", "s, or to the end")
    yield form("Slow a link", {"kind": "link-degradation"}, *slow, at, *factors, lasts)
    yield form("Slow a host", {"kind": "slow-down"}, where, at, field("factor", "work takes", "2", "times"), lasts)
    yield form(
        "Change a rate",
        {"kind": "rate-change"},
        choice("source", "source", [each.name for each in now.query.sources]),
        at,
        field("factor", "times", "2"),
    )
    yield form(
        "Rescale while it runs",
        {"kind": "scale"},
        choice("operator", "operator", operators),
        at,
        field("replicas", "replicas", "2"),
    )
    move = (choice("operators", "operator", operators), choice("end", "to", [*_places(now)]))
    yield form("Move an operator", {"act": "move", "start": ""}, *move)


def _places(now: Scenario) -> Iterator[str]:
    for host in now.cluster.hosts:
        if host.socket_count == 1:
            yield host.name
        else:
            yield from (f"{host.name}/{socket}" for socket in range(host.socket_count))


def form(title: str, fixed: Mapping[str, str], *fields: str) -> str:
    """Form that is one act. fixed: fields with one value; `act`, if it is not an event."""
    act = fixed.get("act", "event")
    hidden = [element("input", type="hidden", name_=key, value=value) for key, value in fixed.items() if key != "act"]
    form = element("form", *hidden, *fields, element("button", text(title), type="submit"), data_act=act)
    return element("details", element("summary", text(title)), form)


def field(name: str, label: str, value: str, unit: str = "", look: str | None = None) -> str:
    """Field of a form, with its label. look: a class of the style sheet."""
    box = element("input", name_=name, value=value, inputmode="decimal", class_=look)
    return element("label", text(label), " ", box, " ", element("span", text(unit), class_="unit"))


def choice(name: str, label: str, options: Sequence[str], values: Sequence[str] = ()) -> str:
    """Choice in a form, with its label. values: sent for each option, if not its words."""
    return element("label", text(label), " ", select(options, values, name_=name))


def select(options: Sequence[str], values: Sequence[str] = (), chosen: str | None = None, **about: str) -> str:
    """Choice without a label. values: sent for each option, if not its words. chosen: one of them; None: the first."""
    listed = (
        element("option", text(each), value=value, selected="selected" if value == chosen else None)
        for each, value in zip(options, values or options, strict=True)
    )
    return element("select", *listed, **about)
