"""Files of results, one JSON object a line: a journal that grows, and a sorted one fit for a repository."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Result = dict[str, Any]


class Journal:
    """Lines in the order in which they were written. One that was cut off by a kill is ignored."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[str, Result] = {}
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if text and not text.endswith("\n"):
            text = text[: text.rfind("\n") + 1]
            path.write_text(text, encoding="utf-8")
        for line in text.splitlines():
            entry = json.loads(line)
            self._found[entry["key"]] = entry["result"]

    def get(self, key: str) -> Result | None:
        """The result of that key."""
        return self._found.get(key)

    def put(self, label: str, key: str, result: Mapping[str, Any]) -> None:
        """Appends a line."""
        self._found[key] = dict(result)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_line(label, key, result) + "\n")


class Shelf:
    """One line a label, sorted by it: a result replaces the one that had its label, so the file holds no old ones.

    Several processes may put results: each writes the file anew with what the others have put, under a lock.
    """

    def __init__(self, path: Path, lock: Path) -> None:
        self._path = path
        self._lock = lock
        self._found = {entry["key"]: entry["result"] for entry in map(json.loads, self._lines().values())}

    def get(self, key: str) -> Result | None:
        """The result of that key."""
        return self._found.get(key)

    def put(self, label: str, key: str, result: Mapping[str, Any]) -> None:
        """Writes the file with this line in it; whoever reads meanwhile sees the one from before."""
        self._found[key] = dict(result)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(self._lock):
            lines = self._lines()
            lines[label] = _line(label, key, result)
            draft = self._path.with_suffix(".draft")
            draft.write_text("".join(lines[each] + "\n" for each in sorted(lines)), encoding="utf-8")
            os.replace(draft, self._path)

    def _lines(self) -> dict[str, str]:
        """The lines of the file by label."""
        text = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
        return {json.loads(line)["label"]: line for line in text.splitlines()}


def _line(label: str, key: str, result: Mapping[str, Any]) -> str:
    return json.dumps({"label": label, "key": key, "result": result}, separators=(",", ":"))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
