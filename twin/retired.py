"""Words of older versions: files with them still run, with one warning a word, and options are answered.

Run settings of versions that could also simulate coarsely mean nothing any more. Keys that spoke of tuples and replicas
speak of records and subtasks, and `replicas` is `parallelism`.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Any

RETIRED = ("fidelity", "segments")
LEAVE_OUT = "leave it out: every run is exact"
OPTIONS = {
    "prove": "runs judge plans with --budget now: --budget 20 in CPU seconds, or in runs, --budget 40runs",
    "drive": "leave it out: under a learned model, milp chooses among plans near the best by rates",
    "budget": "how many plans predictions may look at is --estimates now",
}
"""Options that commands had, and what to do instead."""
NEWER = {"tuple": "record", "tuples": "records", "replica": "subtask", "replicas": "subtasks"}
"""Words within keys, and those that are said today."""
RENAMED = {"replicas": "parallelism", "tuplesIn": "recordsIn", "tuplesOut": "recordsOut"}
"""Whole keys, and what they are today."""


class Retired(UserWarning):
    """Warning about a setting that no longer means anything, or has another name."""


def told_retired(names: Iterable[str]) -> bool:
    """Whether any of these run settings is retired; if so, warns of it, once."""
    gone = any(name in RETIRED for name in names)
    if gone:
        _warn(f"{' and '.join(f'run.{name}' for name in RETIRED)} can be left out: every run is exact")
    return gone


def newer(key: str) -> str:
    """What an older version's key is called today; the key itself if that has not changed."""
    return RENAMED.get(key) or "_".join(NEWER.get(word, word) for word in key.split("_"))


def meant(key: str, known: Collection[str]) -> str:
    """The one of the known keys that is meant: the name that the key has today if only that is known."""
    today = key if key in known else newer(key)
    return today if today in known else key


def renamed(key: str, known: Collection[str]) -> str:
    """As `meant`, with a warning where a key that somebody has written is called otherwise today."""
    today = meant(key, known)
    if today != key:
        _warn(f"{key} is called {today} now; files that say {key} still run")
    return today


def with_todays_keys(data: Mapping[Any, Any], known: Collection[str]) -> dict[Any, Any]:
    """Data with each key as it is called today, as `renamed` has it."""
    return {renamed(key, known) if isinstance(key, str) else key: value for key, value in data.items()}


def _warn(words: str) -> None:
    warnings.warn(words, Retired, stacklevel=1)  # always from this line, as Python shows a warning once a line
