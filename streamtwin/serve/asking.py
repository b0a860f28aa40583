"""Parts of the page that ask: the list of changes, the knobs, and forms for events and moves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from figures.svg import element, text
from scenarios.files.yaml_text import parse_text
from scenarios.questions.dry_run import ChangeOptions, planned
from scenarios.questions.variants import events as events_in
from streamtwin.report import folded
from streamtwin.serve.inquiry import EVENT, SET, Alteration, Control, Inquiry, controls, flow, plan_option
from streamtwin.serve.session import Asked
from streamtwin.tables.tables import places
from twin.errors import BadInput, suggest
from twin.plan import Location
from twin.quantities import number
from twin.scenario import Scenario

# events and moves ----------------------------------------------------------------------------------------------------
# Changes on the page beside its knobs: moves of operators, and events at a given time.


FIELDS: Mapping[str, Sequence[str]] = {
    "failure": ("at_s", "host", "recover_after_s", "lost"),
    "link-degradation": ("at_s", "host", "link", "latency_factor", "bandwidth_factor", "duration_s"),
    "slow-down": ("at_s", "host", "factor", "duration_s"),
    "rate-change": ("at_s", "source", "factor"),
    "scale": ("at_s", "operator", "parallelism"),
}
"""Fields of the form of each kind of event."""


def moved(now: Scenario, operators: Sequence[str], start: str, end: str) -> Alteration:
    """Change that moves subtasks of operators from one place to another. start: empty: all subtasks.

    Raises BadInput for an unknown place or operator, and if nothing moves.
    """
    hosts = {host.name: host for host in now.cluster.hosts}
    to = _location(end)
    if to.host not in hosts:
        raise BadInput(f"move to {end}: unknown host; {suggest(to.host, hosts)}")
    placement = dict(now.plan.placement)
    for name in operators:
        if name not in placement:
            raise BadInput(f"move {name}: unknown operator; {suggest(name, placement)}")
        origin = _location(start) if start else None
        places = now.plan.locations(name)
        placement[name] = tuple(str(to) if origin in (None, place) else str(place) for place in places)
    if placement == dict(now.plan.placement):
        raise BadInput(f"move to {end}: it is there already")
    plan = now.plan.model_copy(update={"placement": placement})
    return Alteration(SET, plan_option(now, now.with_plan(plan)))


def happening(now: Scenario, kind: str, fields: Mapping[str, str]) -> Alteration:
    """Change that adds an event, from the fields of its form; empty ones are left out. Raises BadInput for a kind that
    has no form."""
    if kind not in FIELDS:
        raise BadInput(f"event {kind!r}: {suggest(kind, FIELDS)}")
    filled = {name: fields[name].strip() for name in FIELDS[kind] if fields.get(name, "").strip()}
    if kind == "scale":
        at_s = _seconds(filled.get("at_s", ""))
        rescale = f"{filled.get('operator', '')}={filled.get('parallelism', '')}"
        change = planned(now, ChangeOptions(rescale=[rescale], at_s=at_s))
        own = [event.model_dump(mode="json", exclude_none=True) for event in change.scenario.events[-change.own :]]
        return Alteration(EVENT, _written(own[0]) if len(own) == 1 else flow(own))
    read = {name: parse_text(value, f"{kind}: {name}") for name, value in filled.items()}
    return Alteration(EVENT, _written({"kind": kind, **read}))


def told(event: Mapping[str, Any]) -> str:
    """Event in words, such as "60 s: work on edge-1 takes × 2"."""
    kind, where = event["kind"], event.get("host") or event.get("operator") or event.get("source")
    lasts = f" for {event['duration_s']:g} s" if event.get("duration_s") is not None else ""
    if kind == "failure":
        after_s = event.get("recover_after_s")
        goes_on = "the job waits for it to the end" if after_s is None else f"the job goes on after {after_s:g} s"
        words = f"{where} fails; {goes_on}{', on other hosts' * bool(event.get('lost'))}"
    elif kind == "link-degradation":
        by = (f"{name} × {event[f'{name}_factor']:g}" for name in ("latency", "bandwidth"))
        changed = " and ".join(each for each in by if not each.endswith(" 1"))
        words = f"{changed} on {' - '.join(event.get('link') or [f'the network card of {where}'])}{lasts}"
    elif kind == "slow-down":
        words = f"work on {where} takes × {event['factor']:g}{lasts}"
    elif kind == "rate-change":
        rate = f"{event['rate_per_s']:g}/s" if event.get("rate_per_s") else f"× {event['factor']:g}"
        words = f"the rate of {where} is {rate} from here on"
    elif kind == "scale":
        words = f"{where} is rescaled: {places(event['placement'])}"
    else:
        rest = (f"{key} {flow(value)}" for key, value in event.items() if key not in ("kind", "at_s"))
        words = f"{kind}, {', '.join(rest)}"
    return f"{event['at_s']:g} s: {words}"


def cancelled(now: Scenario, at: int) -> Alteration:
    """Change that removes an event of the scenario, by number. now: without events that were added."""
    if not 0 <= at < len(now.events):
        raise BadInput(f"there is no event {at + 1}; there are {len(now.events)}")
    left = [each.model_dump(mode="json", exclude_none=True) for each in now.events]
    gone = left.pop(at)
    return Alteration(SET, f"events={flow(left)}", said=f"without: {told(gone)}")


def _written(event: Mapping[str, object]) -> str:
    return ", ".join(f"{name}: {flow(value)}" for name, value in event.items())


def _location(text: str) -> Location:
    try:
        return Location.parse(text)
    except ValueError as error:
        raise BadInput(str(error)) from None


def _seconds(text: str) -> float:
    try:
        return number(text, "_s")
    except ValueError:
        raise BadInput(f"at_s: {text!r} is no time; write seconds, or a unit as in 2min") from None


# parts that ask ------------------------------------------------------------------------------------------------------
# Parts of the page that ask: the list of changes, the knobs, and forms for events.


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
    written = element("details", element("summary", text(f"show {name}")), element("pre", text(words)))
    return element("div", copy, written, class_="command")


MOST_NAME = 60
"""Most characters of the name of a kept answer."""


def keep(what: str) -> str:
    """Form that keeps an answer under a name. what: "run" or "answer", of a long question."""
    fixed = element("input", type="hidden", name_="what", value=what)
    about = {"id": f"keep-{what}", "placeholder": "a name for it", "aria_label": "name for this answer"}
    name = element("input", name_="name", maxlength=MOST_NAME, required="required", **about)
    return element(
        "form", fixed, name, element("button", "Keep this answer", type="submit"), data_act="keep", class_="row"
    )


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
    changes = enumerate(asked.inquiry.changes)
    added = [at for at, each in changes if each.flag == EVENT for _ in events_in(each.text)]
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
        field("parallelism", "parallelism", "2"),
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
