"""Finished simulations on disk, so that an interrupted report goes on where it stopped.

A run is found by its deployment, settings, seed and measure, and by a digest of the whole simulator's source, any
change of which repeats it. Keys leave out fields at their defaults.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.validity.runs import Job

SIMULATOR = Path(__file__).resolve().parents[2] / "twin"
Result = dict[str, Any]


class Store:
    """Results by key: lines of a file in the order in which they were written. One that a kill cut off is ignored."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "runs.jsonl"
        self._found: dict[str, Result] = {}
        self._used: set[str] = set()
        text = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
        if text and not text.endswith("\n"):
            text = text[: text.rfind("\n") + 1]
            self._path.write_text(text, encoding="utf-8")
        for line in text.splitlines():
            entry = json.loads(line)
            self._found[entry["key"]] = entry["result"]

    @staticmethod
    def key(job: Job) -> str:
        """What the job's result is found by."""
        return key_of(job)

    def get(self, job: Job) -> Result | None:
        """What that run measured, if it was made before."""
        result = self._found.get(key_of(job))
        if result is not None:
            self._used.add(key_of(job))
        return result

    @property
    def used(self) -> int:
        """How many different runs have been asked for and found."""
        return len(self._used)

    def put(self, job: Job, result: Mapping[str, Any]) -> None:
        """Keeps a result, at once."""
        key = key_of(job)
        self._found[key] = dict(result)
        line = {"label": f"{job.label}, seed {job.settings.seed}", "key": key, "result": result}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


def key_of(job: Job) -> str:
    """24 hex digits over everything that decides what the run measures."""
    deployment = job.deployment.model_dump(mode="json", exclude_defaults=True)
    deployment["engine"] = job.deployment.engine.model_dump(mode="json", exclude_defaults=True)
    settings = job.settings.model_dump(mode="json", exclude_defaults=True)
    settings["seed"] = job.settings.seed
    text = json.dumps([deployment, settings, job.measure, source_digest()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@cache
def source_digest() -> str:
    """16 hex digits over the simulator's source files, names and contents."""
    digest = hashlib.sha256()
    for path in sorted(SIMULATOR.rglob("*.py")):
        digest.update(str(path.relative_to(SIMULATOR)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
