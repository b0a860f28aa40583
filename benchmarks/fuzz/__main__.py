"""Fuzzing: python -m benchmarks.fuzz [--cases 3000] [--seed 0] [--kinds scenarios,recordings] [--first N] [--keep DIR]

Case i of a kind depends on the seed, the kind and i alone, so `--first` goes on where an interrupted run stopped, and
a fault is made again with `--kinds KIND --first I --cases 1`. Ends with 1 if there is a traceback, a hang, a refusal of
more than one line, a wrong figure, or damage that nobody notices.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random

from benchmarks.fuzz.boundary_cases import cache_case, depth_case, drip_case, page_case, state_case
from benchmarks.fuzz.file_cases import (
    graph_case,
    import_case,
    judged_case,
    override_case,
    recording_case,
    scenario_case,
)
from benchmarks.fuzz.kept_cases import checkpoint_case, damage_case, dataset_case
from benchmarks.fuzz.trying import FAULTS, OUTCOMES, SLOW, Outcome
from benchmarks.table import print_table
from scenarios.executing import bar

KINDS: Mapping[str, tuple[float, Callable[[Random, Path], Outcome]]] = {
    "scenarios": (0.5, scenario_case),
    "overrides": (0.15, override_case),
    "recordings": (0.1, recording_case),
    "graphs": (0.1, graph_case),
    "checkpoints": (0.1, checkpoint_case),
    "datasets": (0.05, dataset_case),
    "damage": (0.05, damage_case),
    "imports": (0.1, import_case),
    "judged": (0.2, judged_case),
    "depth": (0.1, depth_case),
    "caches": (0.05, cache_case),
    "pages": (0.1, page_case),
    "states": (0.05, state_case),
    "drips": (0.05, drip_case),
}
"""For each kind of case, its share of all cases and the function that runs one."""


def cases(kinds: list[str], total: int, first: int) -> Iterator[tuple[str, int]]:
    """Kind and number of each case, kind by kind, in the shares of KINDS."""
    shares = sum(KINDS[kind][0] for kind in kinds)
    for kind in kinds:
        for number in range(first, first + max(1, round(total * KINDS[kind][0] / shares))):
            yield kind, number


def run(kind: str, number: int, seed: int, keep: Path | None) -> Outcome:
    """Runs a case in a folder of its own, which is kept under `keep` if the case shows a fault."""
    folder = Path(tempfile.mkdtemp(prefix="streamtwin-fuzz-"))
    try:
        outcome = KINDS[kind][1](Random(f"{seed} {kind} {number}"), folder)
        if keep is not None and outcome.kind in (*FAULTS, SLOW):
            shutil.copytree(folder, keep / f"{kind}-{number}", dirs_exist_ok=True)
            (keep / f"{kind}-{number}" / "outcome.txt").write_text(f"{outcome}\n{outcome.detail}\n")
        return outcome
    finally:
        shutil.rmtree(folder)


def main() -> None:
    """Runs the cases, and prints their outcomes and the faults."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(KINDS))
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    faults: list[tuple[str, int, Outcome]] = []
    todo = list(cases(options.kinds, options.cases, options.first))
    with bar("cases") as report:
        for done, (kind, number) in enumerate(todo, start=1):
            outcome = run(kind, number, options.seed, options.keep)
            counts[kind, outcome.kind] += 1
            if outcome.kind in (*FAULTS, SLOW):
                faults.append((kind, number, outcome))
            report(done, len(todo))
    table = [(kind, *(counts[kind, each] for each in OUTCOMES)) for kind in options.kinds]
    print_table(f"{len(todo)} cases, seed {options.seed}", ("kind", *OUTCOMES), table)
    for kind, number, outcome in faults:
        end = outcome.detail.strip().splitlines()[-1:] or [""]
        print(f"{kind} {number}: {outcome.kind}, {outcome.cpu_s:.1f} CPU s: {end[0][:200]}")
    sys.exit(any(outcome.kind in FAULTS for _, _, outcome in faults))


if __name__ == "__main__":
    main()
