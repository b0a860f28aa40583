"""Acts of a person on a page: changes, questions, a new file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from scenarios.files.scenario_file import dump
from scenarios.files.traces import write_text
from streamtwin.serve.controls import turned
from streamtwin.serve.desk import Desk
from streamtwin.serve.happenings import cancelled, happening, moved
from streamtwin.serve.hub import Hub
from streamtwin.serve.inquiry import SET, Alteration, Inquiry, given
from twin.errors import BadInput

_FILE = re.compile(r"[\w][\w .-]{0,99}\.ya?ml")


def act(hub: Hub, name: str, asked: Mapping[str, str]) -> str:
    """Carries out an act of a page. Returns words for the person, or none. Raises BadInput for an invalid act."""
    desk, inquiry = hub.desk(name)
    kind = asked.get("act", "")
    if kind in MAKE:
        changed = inquiry
        for each in MAKE[kind](desk, inquiry, asked):
            changed = changed.changed(each)
        hub.put(name, changed)
    elif kind == "undo":
        hub.put(name, inquiry.dropped(int(_whole(asked.get("at", "-1")))))
    elif kind == "against":
        hub.put(name, inquiry.compared_with(asked.get("value", "")))
    elif kind == "ask":
        hub.ask(name, asked.get("question", ""), asked)
    elif kind == "stop" and name in hub.works:
        hub.works[name].stop()
    elif kind == "dismiss":
        hub.put(name, inquiry.answered(None))
    elif kind == "save":
        return _save(hub, inquiry, asked.get("file", ""))
    elif kind != "stop":
        raise BadInput(f"act {kind!r}: unknown")
    hub.tell()
    return ""


def _save(hub: Hub, inquiry: Inquiry, file: str) -> str:
    """Writes a new scenario file in the folder of the scenarios; returns words for the person."""
    if not _FILE.fullmatch(file):
        raise BadInput(f"file {file!r}: write a plain name that ends in .yaml, such as mine.yaml")
    out = hub.jobs.folder / file
    write_text(dump(inquiry.scenario()), out)
    return f"saved as {out}; twin run {out} gives these numbers"


def _accepted(desk: Desk, _inquiry: Inquiry, _asked: Mapping[str, str]) -> list[Alteration]:
    change = desk.asked.plan_found() if desk.asked is not None else None
    if change is None:
        raise BadInput("there is no plan to take; find one first")
    return [change]


MAKE: Mapping[str, Callable[[Desk, Inquiry, Mapping[str, str]], list[Alteration]]] = {
    "knob": lambda _desk, inquiry, asked: turned(
        given(inquiry.name), inquiry, asked.get("control", ""), asked.get("value", ""), asked.get("stroke", "")
    ),
    "set": lambda _desk, _inquiry, asked: [Alteration(SET, asked.get("text", ""))],
    "event": lambda _desk, inquiry, asked: [happening(inquiry.scenario(), asked.get("kind", ""), asked)],
    "move": lambda _desk, inquiry, asked: [
        moved(inquiry.scenario(), asked.get("operators", "").split(" "), asked.get("start", ""), asked.get("end", ""))
    ],
    "cancel": lambda _desk, inquiry, asked: [cancelled(inquiry.scenario(inquiry.values), _whole(asked.get("at", "")))],
    "accept": _accepted,
}
"""Acts that add changes to the list, as functions that make the changes."""


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadInput(f"{text!r} is no whole number") from None
