"""The random jobs: ordinary ones (`benchmarks.validity.ordinary`) of Flink's, with replicas by the dozen.

Seeds are taken in order. A job's service times and the length of its run are set by the rate model, which is what is
judged here: so they are kept in jobs.json, and a better rate model does not change the jobs.
"""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

from benchmarks.validity.cases import Case, case_of
from benchmarks.validity.runs import Job

FILE = Path(__file__).with_name("jobs.json")
ENGINE = "flink"
FIRST_SEEDS = {"dev": 8_800_000, "heldout": 8_810_000}
"""The rate model is worked on with `dev`; nothing may be tuned or looked at on `heldout` before its table is made."""
JOBS = 30


def jobs_of(which: str) -> list[Case]:
    """The jobs of a set."""
    kept = json.loads(FILE.read_text(encoding="utf-8"))[which]
    cases = (case_of("ordinary", int(seed), settled) for seed, settled in kept.items())
    return [case for case in cases if case is not None]


def choose() -> None:
    """Draws both sets and writes jobs.json."""
    kept = {which: {str(case.seed): case.settled for case in _drawn(first)} for which, first in FIRST_SEEDS.items()}
    sets = [
        f" {json.dumps(which)}: {{\n"
        + ",\n".join(f"  {json.dumps(seed)}: {json.dumps(settled)}" for seed, settled in seeds.items())
        + "\n }"
        for which, seeds in kept.items()
    ]
    FILE.write_text("{\n" + ",\n".join(sets) + "\n}\n", encoding="utf-8")


def _drawn(first: int) -> list[Case]:
    found: list[Case] = []
    for seed in count(first):
        if len(found) == JOBS:
            break
        case = case_of("ordinary", seed)
        if case is not None and case.deployment.engine.name == ENGINE:
            found.append(case)
    return found


def run_of(case: Case) -> Job:
    """What the prediction is compared with."""
    return Job(f"{case.family} {case.seed}", case.deployment, case.settings.model_copy(update={"seed": 1}))
