"""Rows of a benchmark as they are computed, in a file, so that an interrupted one goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


class OutOfTimeError(Exception):
    """The minutes are over; what was computed is kept."""


@dataclass
class Kept:
    """path: of the rows, a line each. sources: files that rows are computed by; a change of any repeats all rows.
    minutes: after which no row is begun."""

    path: Path
    sources: Iterable[Path]
    minutes: float = float("inf")
    _rows: dict[str, Any] = field(init=False, default_factory=dict)
    _by: str = field(init=False)
    _began_s: float = field(init=False, default_factory=time.monotonic)

    def __post_init__(self) -> None:
        body = b"".join(path.read_bytes() for path in sorted(self.sources))
        self._by = hashlib.sha256(body).hexdigest()[:16]
        if self.path.exists():
            lines = self.path.read_text(encoding="utf-8").splitlines()
            self._rows = {each["key"]: each["row"] for each in map(_read, lines) if each is not None}

    def row(self, key: object, compute: Callable[[], list[Any]]) -> list[Any]:
        """That of this key, from the file or computed now. Raises OutOfTimeError if it is too late to begin."""
        name = f"{self._by} {key}"
        if name not in self._rows:
            if time.monotonic() - self._began_s > 60.0 * self.minutes:
                raise OutOfTimeError
            self._rows[name] = compute()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write("\n" + json.dumps({"key": name, "row": self._rows[name]}))  # the last line may be cut off
        return list(self._rows[name])


def _read(line: str) -> dict[str, Any] | None:
    """None for an empty line, or one that was cut off."""
    try:
        return dict(json.loads(line))
    except ValueError:
        return None
