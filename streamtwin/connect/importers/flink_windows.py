"""Reads windows, sessions and calls of a Flink job from its plan and its readings."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from streamtwin.connect.importers.flink_job import FlinkJob, Vertex

JOINS = re.compile("CoGroup|Join")
"""Words in the descriptions of windows that join; several inputs of other windows are one stream."""
MOST_KEYS = 10**9
SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


def window_in(text: str) -> dict[str, Any] | None:
    """Time window in a description; None if there is none."""
    if found := re.search(r"Tumbling\w*TimeWindows\((\d+)", text):
        return {"policy": "time", "size_s": int(found.group(1)) / 1000}
    if found := re.search(r"Sliding\w*TimeWindows\((\d+),\s*(\d+)", text):
        return {"policy": "time", "size_s": int(found.group(1)) / 1000, "slide_s": int(found.group(2)) / 1000}
    if found := re.search(r"TUMBLE\(.*?size=\[(\d+) (\w+)\]", text):
        return {"policy": "time", "size_s": _seconds(found, 1)}
    if found := re.search(r"HOP\(.*?size=\[(\d+) (\w+)\].*?slide=\[(\d+) (\w+)\]", text):
        return {"policy": "time", "size_s": _seconds(found, 1), "slide_s": _seconds(found, 3)}
    return None


def gap_s_in(text: str) -> float | None:
    """Gap (s) of the session windows in a description; None if there is none."""
    if found := re.search(r"TimeSessionWindows\((\d+)", text):
        return int(found.group(1)) / 1000
    if found := re.search(r"SESSION\(.*?gap=\[(\d+) (\w+)\]", text):
        return _seconds(found, 1)
    return None


def keys_of(vertex: Vertex, told: int, noun: str, notes: list[str]) -> int:
    """Number of keys: `told` by results, but at least the number of subtasks that got records. If results tell nothing
    (0): one a key group, which allows for any shares of the subtasks. noun: for notes.
    """
    fed = sum(each > 0 for each in vertex.dealt)
    if not told:
        notes.append(
            f"{vertex.name}: its results do not say how many {noun} it has; taken as {vertex.key_groups:,}, one a key "
            f"group; set its {noun} if you know them"
        )
    elif told < fed:
        notes.append(
            f"{vertex.name}: its results tell of {told:,} {noun}, but {fed:,} subtasks get records; taken as {fed:,}"
        )
    return max(told, fed) if told else vertex.key_groups


def sessions(vertex: Vertex, gap_s: float, notes: list[str]) -> dict[str, Any]:
    """Session operator with its number of keys, from the share of results: if each of n keys gets in_per_s / n records
    a second at random, a record is the last of its session with probability exp(-gap in_per_s / n).
    """
    ended = vertex.out_per_s / vertex.in_per_s if vertex.in_per_s else 0.0
    keys = MOST_KEYS if ended >= 1 else 0
    if 0 < ended < 1:
        keys = min(MOST_KEYS, round(vertex.in_per_s * gap_s / -math.log(ended)))
    if keys:
        notes.append(
            f"{vertex.name}: Flink does not tell how many keys have sessions; that one record in {1 / ended:.3g} ends "
            f"a session says {keys:,}, if keys are alike and their records come by chance; else set its keys"
        )
    keys = keys_of(vertex, keys, "keys", notes)
    groups = {"key_groups": vertex.key_groups} if keys >= vertex.key_groups else {}
    return {"kind": "session", "gap_s": gap_s, "keys": keys, **groups}


def calls(vertex: Vertex, notes: list[str]) -> dict[str, Any]:
    """Asynchronous call, of which no answer of Flink's tells more."""
    notes.append(
        f"{vertex.name}: Flink tells neither how long a call takes nor how many may wait; taken as 0 s and its default "
        "of 100: set its latency_s, capacity and ordered; its busy time holds waits for a place, so it says no cost"
    )
    return {"kind": "async", "latency_s": 0.0}


def matching(vertex: Vertex, job: FlinkJob, window: dict[str, Any], notes: list[str]) -> dict[str, float]:
    """Selectivity of a join of two streams: the probability that a pair matches; else its output per input."""
    sent_per_s = [each.out_per_s for each in job.vertices if each.id in dict(vertex.inputs)]
    size_s = window["size_s"]
    pairs_per_s = float(np.prod([rate * size_s for rate in sent_per_s])) / window.get("slide_s", size_s)
    if len(sent_per_s) == 2 and 0 < vertex.out_per_s <= pairs_per_s:
        return {"selectivity": vertex.out_per_s / pairs_per_s}
    notes.append(f"{vertex.name}: what matches cannot be read; its results by input are those at these rates")
    return {"amplification": vertex.out_per_s / vertex.in_per_s if vertex.in_per_s else 0.0}


def _seconds(found: re.Match[str], group: int) -> float:
    return float(found.group(group)) * SECONDS.get(found.group(group + 1), 1.0)
