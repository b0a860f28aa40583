"""Which seeds belong to each set. The rule is run once and its outcome kept in selection.json, so that a change of
the simulator cannot change what it is judged on.

The rule: seeds are taken in order; a seed is in if its fast run gives at least `MIN_OUTPUTS` results and its cell
(linear, 2-way or 3-way join; backpressured or not, by that run) still has a place. Seeds in the cells are kept in
order, so `small` uses the first few of each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import count, islice
from pathlib import Path

from benchmarks.validity.cases import FIRST_SEEDS, KINDS, Case, case_of
from benchmarks.validity.runs import Job, run_all, shown
from benchmarks.validity.store import Store
from twin.scenario import RunSettings

FILE = Path(__file__).with_name("selection.json")
MIN_OUTPUTS = 200
PLACES = {
    ("costream", "heldout"): 20,
    ("shared", "heldout"): 10,
    ("costream", "dev"): 7,
    ("shared", "dev"): 6,
}
"""Seeds a cell, of which there are six."""
SMALL = 2
AT_ONCE = 120
MOST_SEEDS = 12_000
FAST = RunSettings(seed=3)

Cells = Mapping[str, list[int]]


def chosen(family: str, which: str, scale: str) -> list[Case]:
    """The configurations of a set. `small`: the first few of each cell."""
    cells = json.loads(FILE.read_text(encoding="utf-8"))[f"{family} {which}"]["seeds"]
    seeds = sorted(seed for cell in cells.values() for seed in (cell[:SMALL] if scale == "small" else cell))
    cases = [case_of(family, seed) for seed in seeds]
    return [case for case in cases if case is not None]


def scanned(family: str, which: str) -> int:
    """How many seeds the rule looked at."""
    return int(json.loads(FILE.read_text(encoding="utf-8"))[f"{family} {which}"]["scanned"])


def select(family: str, which: str, store: Store, workers: int) -> None:
    """Runs the rule and writes its outcome."""
    places = PLACES[family, which]
    cells: dict[str, list[int]] = {f"{kind}, {how}": [] for kind in KINDS.values() for how in ("keeps up", "behind")}
    seeds = islice(count(FIRST_SEEDS[family, which]), MOST_SEEDS)
    looked = 0
    with shown(f"places filled in {family} {which}") as report:
        while chunk := list(islice(seeds, AT_ONCE)):
            for seed, cell in _cells_of(family, chunk, store, workers):
                if any(len(each) < places for each in cells.values()):
                    looked = seed + 1 - FIRST_SEEDS[family, which]
                if cell is not None and len(cells[cell]) < places:
                    cells[cell].append(seed)
            report(sum(len(each) for each in cells.values()), places * len(cells))
            if all(len(each) == places for each in cells.values()):
                break
    kept = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    kept[f"{family} {which}"] = {"scanned": looked, "seeds": cells}
    FILE.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def _cells_of(family: str, seeds: list[int], store: Store, workers: int) -> Iterator[tuple[int, str | None]]:
    cases = {seed: case_of(family, seed) for seed in seeds}
    real = [case for case in cases.values() if case is not None]
    results = run_all([fast_job(case) for case in real], store, workers)
    found = {case.seed: (case, result) for case, result in zip(real, results, strict=True)}
    for seed in seeds:
        if seed not in found or found[seed][1]["tuples_out"] < MIN_OUTPUTS:
            yield seed, None
        else:
            case, result = found[seed]
            yield seed, f"{case.kind}, {'behind' if result['backpressured'] else 'keeps up'}"


def fast_job(case: Case) -> Job:
    """The fast run of a configuration."""
    return Job(f"{case.family} {case.seed}", case.deployment, FAST)
