"""How much random ordinary jobs bear: `twin capacity` and the rate model alone beside a plain bisection of exact runs.

Run: python -m benchmarks.limits FOLDER [--jobs N] [--seed S] [--workers N] [--show NUMBER]

Factors of at least 1: of the largest load at which a job keeps up, by `twin capacity` (wanted: 1.03 at most) and by the
rate model alone, and of processing latency at 0.5 and 0.8 of it. Wanted of the rate model: 1.02 at the median, 1.15 at
95 %, and of each prediction beyond 1.3, that `scenarios.beside` named something. FOLDER keeps an answer a job, from
which an interrupted benchmark goes on. 200 jobs take an hour or so on a core.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.limits.asking import factors, kept
from benchmarks.limits.jobs import random_job
from benchmarks.table import print_table
from scenarios.executing import Processes
from scenarios.files.scenario_file import dump

FAR, FAR_CAPACITY = 1.3, 1.03
"""Factors beyond which a job is listed: by the rate model, if it did not say that it is unsure, and by capacity."""
NEAR = 1.15
"""Factor up to which a prediction is a good one."""


def rows(answers: Mapping[int, Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows of the table: by figure, of all jobs, of plain ones (even numbers) and of Flink's."""
    kinds = {"all": [*answers.values()]}
    for first, kind in enumerate(("plain", "Flink")):
        kinds[kind] = [each for number, each in answers.items() if number % 2 == first]
    found: list[tuple[Any, ...]] = []
    for name in ("capacity", "rates", "latency 0.5", "latency 0.8"):
        for kind, those in kinds.items():
            if those:
                values = np.array([factors(each)[name] for each in those])
                named = np.array([bool(each["unseen"].get(name)) for each in those])
                middle, most = np.sort(values)[[len(values) // 2, min(len(values) - 1, math.ceil(0.95 * len(values)))]]
                figures = float(middle), float(most), float(values.max())
                found.append((name, kind, len(values), *figures, int((~named & (values > FAR)).sum())))
    return found


def listed(answers: Mapping[int, Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows of jobs whose answers are far off without a word, the farthest first."""
    found = []
    for number, each in answers.items():
        off = factors(each)
        silent = {
            name: value
            for name, value in off.items()
            if name != "capacity" and value > FAR and not each["unseen"].get(name)
        }
        if off["capacity"] > FAR_CAPACITY:
            silent["capacity"] = off["capacity"]
        found += [(number, name, value, each.get(name), each["runs"]) for name, value in silent.items()]
    return sorted(found, key=lambda row: -row[2])


def main(arguments: Sequence[str] | None = None) -> None:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--show", type=int, help="number of a job, to be printed as a scenario file instead")
    options = parser.parse_args(arguments)
    if options.show is not None:
        print(dump(random_job(options.seed, options.show)))
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    with Processes(options.workers) as pool:
        pool.each(partial(kept, options.folder, options.seed), range(options.jobs), lambda _number, _none: None)
    asked = {n: json.loads((options.folder / f"{options.seed}-{n}.json").read_text()) for n in range(options.jobs)}
    answers = {n: each for n, each in asked.items() if math.isfinite(each["runs"])}
    header = ("factor of", "kind", "jobs", "median", "95 %", "worst", f"silent beyond {FAR}")
    print_table(f"{options.jobs} random jobs of seed {options.seed}, beside exact runs", header, rows(answers))
    far = listed(answers)
    print_table("Far off", ("job", "factor of", "factor", "said (and right)", "load by runs"), far[:40])
    print(f"\n{options.jobs - len(answers)} jobs have no limit among the loads that are tried, and are left out")
    for name in ("rates", "latency 0.5", "latency 0.8"):
        said = [factors(each)[name] for each in answers.values() if each["unseen"][name]]
        good = sum(each <= NEAR for each in said)
        print(f"{name}: something is named of {len(said)} predictions, {good} of them within a factor of {NEAR}")


if __name__ == "__main__":
    main()
