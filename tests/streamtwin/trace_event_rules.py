"""Rules of the Trace Event Format (Google, 2016) that viewers hold a JSON file to, as far as we use it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

METADATA = {f"{of}_{what}": what for of in ("process", "thread") for what in ("name", "sort_index")}
SCOPES = {"g", "p", "t"}


def broken(document: Mapping[str, Any]) -> list[str]:
    """Violations of the rules."""
    found = [] if document.get("displayTimeUnit", "ms") in ("ms", "ns") else ["displayTimeUnit is ms or ns"]
    events = document["traceEvents"]
    for event in events:
        found += [f"{line}: {event}" for line in _one(event)]
    return found + list(_overlaps([event for event in events if event.get("ph") == "X" and not list(_one(event))]))


def _one(event: Mapping[str, Any]) -> Iterator[str]:
    phase = event.get("ph")
    if phase not in ("X", "i", "C", "M"):
        yield "unknown phase"
        return
    for key, kind in (("name", str), ("pid", int), ("tid", int)):
        if not isinstance(event.get(key), kind) or event[key] == "":
            yield f"needs {key}"
    if phase != "M" and not _number(event.get("ts"), 0.0):
        yield "needs a time ts >= 0"
    if phase == "X" and not _number(event.get("dur"), 0.0):
        yield "needs a duration dur >= 0"
    if phase == "i" and event.get("s", "t") not in SCOPES:
        yield "has an unknown scope"
    if phase == "C" and (not event.get("args") or not all(_number(each, -math.inf) for each in event["args"].values())):
        yield "a counter has numbers, at least one"
    if phase == "M" and METADATA.get(event.get("name", "")) not in event.get("args", {}):
        yield "unknown metadata, or without its value"


def _number(value: Any, least: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= least


def _overlaps(slices: list[Mapping[str, Any]]) -> Iterator[str]:
    """Violations of the rule that slices of a track lie one in the other or apart; a nanosecond is rounding."""
    tracks: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for each in slices:
        tracks.setdefault((each["pid"], each["tid"]), []).append(each)
    for track in tracks.values():
        ordered = sorted(track, key=lambda each: (each["ts"], -each["dur"]))
        for one, other in pairwise(ordered):
            end, last = one["ts"] + one["dur"], other["ts"] + other["dur"]
            if other["ts"] < end - 1e-3 and last > end + 1e-3:
                yield f"slices overlap in part: {one} {other}"
