"""Changes on the page beside its knobs: moves of operators, and events at a given time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scenarios.files.yaml_text import parse_text
from scenarios.questions.change_options import ChangeOptions, planned
from streamtwin.serve.controls import plan_option
from streamtwin.serve.inquiry import EVENT, SET, Alteration, flow
from streamtwin.tables.tables import places
from twin.errors import BadInput, suggest
from twin.plan import Location
from twin.quantities import number
from twin.scenario import Scenario

FIELDS: Mapping[str, Sequence[str]] = {
    "failure": ("at_s", "host", "recover_after_s", "lost"),
    "link-degradation": ("at_s", "host", "link", "latency_factor", "bandwidth_factor", "duration_s"),
    "slow-down": ("at_s", "host", "factor", "duration_s"),
    "rate-change": ("at_s", "source", "factor"),
    "scale": ("at_s", "operator", "replicas"),
}
"""Fields of the form of each kind of event."""


def moved(now: Scenario, operators: Sequence[str], start: str, end: str) -> Alteration:
    """Change that moves replicas of operators from one place to another. start: empty: all replicas.

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
        rescale = f"{filled.get('operator', '')}={filled.get('replicas', '')}"
        event = planned(now, ChangeOptions(rescale=[rescale], at_s=at_s)).scenario.events[-1]
        return Alteration(EVENT, _written(event.model_dump(mode="json", exclude_none=True)))
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
