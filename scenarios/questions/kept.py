"""Finished runs in a folder, a line each: whoever asks the same again does not simulate it again.

Only whole lines count, so an interrupted run of the command loses nothing but what was being simulated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from scenarios.questions.measures import Measures
from twin.errors import BadInput

FILE = "runs.jsonl"


class RunOutcome(NamedTuple):
    """What is kept of a run. course: columns by period, where somebody asks for them."""

    measures: Measures
    warnings: tuple[str, ...] = ()
    course: Mapping[str, Sequence[float]] | None = None


@dataclass
class Kept:
    """Outcomes by `key`, in memory and, if there is a folder, in its file."""

    folder: Path | None = None
    outcomes: dict[str, RunOutcome] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.folder is not None and (self.folder / FILE).exists():
            self.outcomes |= _read(self.folder / FILE)

    def add(self, key: str, outcome: RunOutcome) -> None:
        """Remembers a run; it is in the file when this returns."""
        self.outcomes[key] = outcome
        if self.folder is not None:
            with (self.folder / FILE).open("a", encoding="utf-8") as file:
                columns = [] if outcome.course is None else [outcome.course]
                file.write(json.dumps([key, outcome.measures, outcome.warnings, *columns]) + "\n")


def _read(path: Path) -> dict[str, RunOutcome]:
    """All whole lines; what follows the last one, an interruption's, is cut off so that new lines begin afresh."""
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        path.write_bytes(whole)
    try:
        lines = [json.loads(line) for line in whole.decode("utf-8").splitlines()]
        return {key: RunOutcome(measures, tuple(warnings), *course) for key, measures, warnings, *course in lines}
    except (UnicodeDecodeError, ValueError, TypeError):
        raise BadInput(f"{path} does not hold runs; remove it or name another folder") from None
