"""Finished simulations on disk, so that an interrupted report goes on where it stopped.

One JSON object a line, appended as each run ends. What a run is found by:

- exact runs by the deployment, settings, seed, the package's version and `EXACT_LAWS`, not by the source code: they
  take hours, and most changes to the code are meant to leave them as they are;
- fast runs by the same and a digest of the whole simulator's source, so that any change repeats them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.validity.runs import Job
from twin.version import VERSION

EXACT_LAWS = 1
"""Raise by hand whenever a change alters what exact simulation computes (its distribution, not just its bits).

The meaning of a spec's default values counts too: keys leave out fields at their defaults, so that a new field does
not repeat runs that do not use it.
"""

SIMULATOR = Path(__file__).resolve().parents[2] / "twin"


class Store:
    """Results by key, in `folder`/runs.jsonl. A line that was cut off by a kill is ignored."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "runs.jsonl"
        self._found: dict[str, dict[str, Any]] = {}
        self._used: set[str] = set()
        text = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
        if text and not text.endswith("\n"):
            text = text[: text.rfind("\n") + 1]
            self._path.write_text(text, encoding="utf-8")
        for line in text.splitlines():
            entry = json.loads(line)
            self._found[entry["key"]] = entry["result"]

    def get(self, job: Job) -> dict[str, Any] | None:
        """What that run measured, if it was made before."""
        key = key_of(job)
        if key in self._found:
            self._used.add(key)
        return self._found.get(key)

    @property
    def used(self) -> int:
        """How many different runs have been asked for and found."""
        return len(self._used)

    def put(self, job: Job, result: Mapping[str, Any]) -> None:
        """Keeps a result, at once."""
        key = key_of(job)
        self._found[key] = dict(result)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "label": job.label, "result": result}) + "\n")


def key_of(job: Job) -> str:
    """24 hex digits over everything that decides what the run measures."""
    deployment = job.deployment.model_dump(mode="json", exclude_defaults=True)
    deployment["engine"] = job.deployment.engine.model_dump(mode="json", exclude_defaults=True)
    settings = job.settings.model_dump(mode="json", exclude_defaults=True) | {"seed": job.settings.seed}
    laws = f"{VERSION}/{EXACT_LAWS}" if job.settings.fidelity == "exact" else source_digest()
    text = json.dumps([deployment, settings, job.measure, laws], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@cache
def source_digest() -> str:
    """16 hex digits over the simulator's source files, names and contents."""
    digest = hashlib.sha256()
    for path in sorted(SIMULATOR.rglob("*.py")):
        digest.update(str(path.relative_to(SIMULATOR)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
