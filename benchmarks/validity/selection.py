"""Which seeds belong to each set. The rule is run once and its outcome kept in selection.json, so that a change of
the simulator cannot change what it is judged on.

The rule: seeds are taken in order; a seed is in if its cell still has a place. Ordinary jobs have a cell a kind of
query, and are drawn without a simulation. The other families have cells by kind (linear, 2-way or 3-way join) and
backpressure in a fast run, which has to give at least `MIN_OUTPUTS` results. Seeds in the cells are kept in order, so
`small` uses the first few of each. What the rate model set in a configuration is kept as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any

from benchmarks.validity.cases import FIRST_SEEDS, KINDS, Case, case_of
from benchmarks.validity.runs import Job, run_all, shown
from benchmarks.validity.store import Store
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario

FILE = Path(__file__).with_name("selection.json")
MIN_OUTPUTS = 200
PLACES = {
    ("costream", "heldout"): 20,
    ("shared", "heldout"): 10,
    ("ordinary", "heldout"): 6,
    ("costream", "dev"): 7,
    ("shared", "dev"): 6,
    ("ordinary", "dev"): 3,
}
"""Seeds a cell, of which there are six in every family."""
SMALL = 2
CALM = 0.9
AT_ONCE = 120
MOST_SEEDS = 12_000
EXACT_SEEDS = (1, 2)
FAST_SEED = 3
"""Of two exact runs and a fast one, so that no pair shares its arrivals."""

Cells = Mapping[str, list[int]]


def chosen(family: str, which: str, scale: str) -> list[Case]:
    """The configurations of a set. `small`: the first few of each cell."""
    kept = json.loads(FILE.read_text(encoding="utf-8"))[f"{family} {which}"]
    cells, settled = kept["seeds"], kept.get("settled", {})
    seeds = sorted(seed for cell in cells.values() for seed in (cell[:SMALL] if scale == "small" else cell))
    cases = [case_of(family, seed, settled.get(str(seed))) for seed in seeds]
    return [case for case in cases if case is not None]


def scanned(family: str, which: str) -> int:
    """How many seeds the rule looked at."""
    return int(json.loads(FILE.read_text(encoding="utf-8"))[f"{family} {which}"]["scanned"])


def select(family: str, which: str, store: Store, workers: int) -> None:
    """Runs the rule and writes its outcome."""
    places = PLACES[family, which]
    hows = ("",) if family == "ordinary" else (", keeps up", ", behind")
    cells: dict[str, list[int]] = {f"{kind}{how}": [] for kind in KINDS[family] for how in hows}
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
    kept[f"{family} {which}"] = {"scanned": looked, "seeds": cells, "settled": _settled(family, cells)}
    FILE.write_text(_text(kept), encoding="utf-8")


def _text(kept: Mapping[str, Any]) -> str:
    """Indented, with what the rate model set on a line a seed."""
    a_seed = re.compile(r'("\d+": )(\{.*?\n   \})', re.DOTALL)
    return a_seed.sub(lambda found: found[1] + " ".join(found[2].split()), json.dumps(kept, indent=1)) + "\n"


def _settled(family: str, cells: Cells) -> dict[str, Mapping[str, Any]]:
    """By seed, what the rate model set."""
    seeds = sorted(seed for cell in cells.values() for seed in cell)
    found = {seed: case_of(family, seed) for seed in seeds}
    return {str(seed): case.settled for seed, case in found.items() if case is not None and case.settled is not None}


def _cells_of(family: str, seeds: list[int], store: Store, workers: int) -> Iterator[tuple[int, str | None]]:
    cases = {seed: case_of(family, seed) for seed in seeds}
    if family == "ordinary":
        yield from ((seed, None if case is None else case.kind) for seed, case in cases.items())
        return
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
    return Job(f"{case.family} {case.seed}", case.deployment, case.settings.model_copy(update={"seed": FAST_SEED}))


def default_job(case: Case) -> Job:
    """The run of a configuration that leaves the fidelity to the simulator."""
    settings = default_scenario(case).run
    return replace(fast_job(case), label=f"{case.family} {case.seed}, default", settings=settings)


def default_scenario(case: Case) -> Scenario:
    """What that run simulates."""
    settings = case.settings.model_copy(update={"seed": FAST_SEED, "fidelity": "auto"})
    return Scenario.of(case.deployment, settings)


def long_job(case: Case) -> Job:
    """A fast run of the default length: the longer a run, the coarser its segments, if nothing is said."""
    length = RunSettings(fidelity="fast")
    settings = length.model_copy(update={"warmup_s": length.horizon_s / 5, "seed": FAST_SEED})
    return Job(f"{case.family} {case.seed}, long", case.deployment, settings)


def keeps_up(case: Case) -> bool:
    """Whether nothing is overloaded, by the rate model, so that a longer run measures the same."""
    answer = RateModel(case.settings.horizon_s).answer(case.deployment, [case.deployment.plan])
    return float(answer.offered_pressure.max()) < CALM


def exact_jobs(which: str, cases: Sequence[Case]) -> list[Job]:
    """The exact runs of a set: all configurations with the first seed, then with the second."""
    return [
        Job(
            f"{case.family} {case.seed}",
            case.deployment,
            case.settings.model_copy(update={"fidelity": "exact", "seed": seed}),
            family=f"{case.family}-{which}",
        )
        for seed in EXACT_SEEDS
        for case in cases
    ]
