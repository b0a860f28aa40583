"""Keeps finished runs in a folder, one line for each, so that the same question does not simulate them again.

Only undamaged lines count, so an interrupted command loses only the runs that were being simulated, and a damaged line
only its run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from warnings import warn

from scenarios.questions.measures import Measures
from twin.atomic import write_bytes
from twin.checksums import stamped, unstamped

FILE = "runs.jsonl"
LISTED = 5
"""Most places that a warning names as its origin."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Stored results of a run. course: columns by period, if the question needs them.

    cpu_s: the CPU time that it took, which differs each time and does not count in comparisons.
    """

    measures: Measures
    warnings: tuple[str, ...] = ()
    course: Mapping[str, Sequence[float]] | None = None
    cpu_s: float = field(default=0.0, compare=False)


@dataclass
class Kept:
    """Outcomes of runs by key, in memory and, if there is a folder, in a file in it."""

    folder: Path | None = None
    outcomes: dict[str, RunOutcome] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.folder is not None and (self.folder / FILE).exists():
            self.outcomes |= _read(self.folder / FILE)

    def add(self, key: str, outcome: RunOutcome) -> None:
        """Remembers a run, and appends it to the file."""
        self.outcomes[key] = outcome
        if self.folder is not None:
            with (self.folder / FILE).open("a", encoding="utf-8") as file:
                course = {} if outcome.course is None else {"course": outcome.course}
                line = {"run": key, "measures": outcome.measures, "warnings": outcome.warnings, **course}
                file.write(stamped(line) + "\n")


def said_once(warnings: Iterable[tuple[str, str]]) -> list[str]:
    """Warnings without repetitions, each with its origins. warnings: (origin, text); texts that differ only in numbers
    count as one."""
    alike: dict[str, tuple[str, list[str]]] = {}
    for where, text in warnings:
        _, places = alike.setdefault(re.sub(r"\d[\d.,]*", "", text), (text, []))
        if where not in places:
            places.append(where)
    return [f"{text} ({_listed(places)})" for text, places in alike.values()]


def _listed(places: Sequence[str]) -> str:
    few = places if len(places) <= LISTED else [*places[: LISTED - 1], f"{len(places) - LISTED + 1} others"]
    return f"{', '.join(few[:-1])} and {few[-1]}" if len(few) > 1 else few[0]


def _read(path: Path) -> dict[str, RunOutcome]:
    """Reads all undamaged lines, and removes the others, so that the next line is whole."""
    found, whole = {}, list[bytes]()
    *lines, unfinished = path.read_bytes().split(b"\n")
    for line in lines:
        try:
            body = unstamped(line.decode())
            found[body["run"]] = RunOutcome(body["measures"], tuple(body["warnings"]), body.get("course"))
        except (ValueError, KeyError, TypeError):
            continue
        whole.append(line + b"\n")
    if damaged := len(lines) - len(whole):
        warn(f"{damaged} of {len(lines)} runs in {path} are damaged, and are made again", stacklevel=1)
    if damaged or unfinished:
        write_bytes(path, b"".join(whole))
    return found
