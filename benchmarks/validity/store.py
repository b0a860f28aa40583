"""Finished simulations on disk, so that an interrupted report goes on where it stopped. What a run is found by:

- exact runs by the deployment, settings, seed and the laws that it depends on (`benchmarks.validity.laws`), not by the
  source code or the version. Those of a family are part of the repository, in `exact/<family>.jsonl`;
- fast runs by the same and a digest of the whole simulator's source, so that any change repeats them.

The meaning of a spec's default values counts too: keys leave out fields at their defaults, so that a new field does
not repeat runs that do not use it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.validity.laws import laws_of
from benchmarks.validity.runs import Job
from benchmarks.validity.shelf import Journal, Shelf

SIMULATOR = Path(__file__).resolve().parents[2] / "twin"
EXACT = Path(__file__).with_name("exact")
"""What was simulated exactly, as part of the repository."""


class Store:
    """Results by key: exact runs of a family in `exact`/<family>.jsonl, all others in `cache`/runs.jsonl."""

    def __init__(self, cache: Path, exact: Path | None = None) -> None:
        """exact: absent: a folder in `cache`."""
        cache.mkdir(parents=True, exist_ok=True)
        self._journal = Journal(cache / "runs.jsonl")
        self._lock = cache / "lock"
        self._exact = cache / "exact" if exact is None else exact
        self._shelves: dict[str, Shelf] = {}
        self._used: set[str] = set()

    @staticmethod
    def key(job: Job) -> str:
        """What the job's result is found by."""
        return key_of(job)

    def get(self, job: Job) -> dict[str, Any] | None:
        """What that run measured, if it was made before."""
        key = key_of(job)
        result = self._place(job).get(key)
        if result is not None:
            self._used.add(key)
        return result

    @property
    def used(self) -> int:
        """How many different runs have been asked for and found."""
        return len(self._used)

    def put(self, job: Job, result: Mapping[str, Any]) -> None:
        """Keeps a result, at once."""
        self._place(job).put(f"{job.label}, seed {job.settings.seed}", key_of(job), result)

    def _place(self, job: Job) -> Journal | Shelf:
        if job.settings.fidelity != "exact" or not job.family:
            return self._journal
        if job.family not in self._shelves:
            self._shelves[job.family] = Shelf(self._exact / f"{job.family}.jsonl", self._lock)
        return self._shelves[job.family]


def key_of(job: Job) -> str:
    """24 hex digits over everything that decides what the run measures."""
    deployment = job.deployment.model_dump(mode="json", exclude_defaults=True)
    deployment["engine"] = job.deployment.engine.model_dump(mode="json", exclude_defaults=True)
    exact = job.settings.fidelity == "exact"
    left_out = {"segments"} if exact else set()
    settings = job.settings.model_dump(mode="json", exclude_defaults=True, exclude=left_out)
    settings["seed"] = job.settings.seed
    laws: Any = laws_of(job.deployment) if exact else source_digest()
    text = json.dumps([deployment, settings, job.measure, laws], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@cache
def source_digest() -> str:
    """16 hex digits over the simulator's source files, names and contents."""
    digest = hashlib.sha256()
    for path in sorted(SIMULATOR.rglob("*.py")):
        digest.update(str(path.relative_to(SIMULATOR)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
