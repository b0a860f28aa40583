"""StreamBed's Flink clusters of up to 1,099 subtasks, told from its runs of at most 80.

    python -m benchmarks.real.streambed --data DIR --kept FOLDER [--exact both] [--queries q1,q5] [--json FILE]
    python -m benchmarks.real.streambed --data DIR --kept FOLDER --exact small --queries q5 --one-key

DIR holds runs.csv and operators.csv. Costs are of runs in which the authors searched for the largest rate of a small
cluster. Small configurations are predicted in folds: none of a configuration's own runs tells its costs. Large ones are
predicted from all small runs of the same query and memory. Exact runs (`--exact`) are kept in FOLDER, so that what was
cut short goes on.

Versions were chosen on small runs: by --one-key all results of a window go to one subtask, as the SQL of q5 has it, and
by --floating-buffers 8 gates have as many buffers as Flink's default says.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.real.streambed.predictors import (
    FLOATING_BUFFERS,
    LONG,
    PROBE,
    Plan,
    Predicted,
    Settings,
    calibrated,
    least_source_us,
    predicted,
)
from benchmarks.real.streambed.runs import KEPT, LARGE, QUERIES, SMALL, Run, grouped, read_runs
from benchmarks.table import print_table
from scenarios.calibration.calibrate import LEVEL, reach
from scenarios.questions.kept import Kept
from twin.errors import BadInput

ENOUGH_MB = 32_768
"""Memory of a task manager from which on state fits, so that small runs of the same subtasks are repeats."""
REPEATS = 2
"""Runs of a small configuration from which on it is judged."""
METHODS = ("program", "slowest", "with key groups", "twin at once", "twin exact")


@dataclass(frozen=True)
class Judged:
    """Configuration, what was measured of it, and what was predicted. best_per_s: the largest rate that was sustained,
    or delivered under overload. kept_per_s, failed_per_s: largest offer that was kept, least one that was not, of large
    runs. promised_per_s: by StreamBed's program. rates_per_s: of each run of a small one."""

    plan: Plan
    runs: int
    rates_per_s: tuple[float, ...]
    best_per_s: float
    kept_per_s: float | None
    failed_per_s: float | None
    promised_per_s: float | None
    said: Predicted
    took_s: float

    @property
    def factors(self) -> list[float | None]:
        """What each method says over what was measured, in the order of METHODS."""
        said = self.said
        rates = (
            self.promised_per_s,
            said.slowest_per_s,
            said.with_groups_per_s,
            said.at_once_per_s,
            said.exact_per_s,
        )
        return [None if rate is None else rate / self.best_per_s for rate in rates]

    @property
    def saturated(self) -> bool:
        """Whether it is known where it ends: small ones by search, large ones if an offer was not kept."""
        return self.kept_per_s is None or self.failed_per_s is not None

    def beyond(self, rate_per_s: float) -> float:
        """By how much a rate is outside the interval, as the log of a factor; 0 inside."""
        low, high = self.said.interval_per_s
        return max(0.0, math.log(low / rate_per_s), math.log(rate_per_s / high))

    def inside(self, rate_per_s: float) -> bool:
        """Whether a rate is between what was kept and what failed."""
        kept, failed = self.kept_per_s or 0.0, self.failed_per_s or float("inf")
        return kept * KEPT <= rate_per_s <= failed


def small_judged(runs: Sequence[Run], source_us: float, kept: Kept | None, settings: Settings = PROBE) -> list[Judged]:
    """Small configurations with repeats, each predicted from the runs of the others."""
    found = []
    small = [run for run in runs if run.set in SMALL and run.memory_mb >= ENOUGH_MB and run.readings]
    for mine in grouped(small, lambda run: run.job).values():
        others = [run for run in small if run.query == mine[0].query and run.job != mine[0].job]
        if len(mine) < REPEATS:
            continue
        began_s = time.perf_counter()
        plan = Plan.of(mine[0])
        said = predicted(plan, calibrated(others, source_us), kept, settings)
        promised = [run.promised_per_s for run in mine if run.promised_per_s is not None]
        measured = float(np.mean([run.observed_per_s for run in mine]))
        program = float(np.mean(promised)) if promised else None
        took_s, rates = time.perf_counter() - began_s, tuple(run.observed_per_s for run in mine)
        found.append(Judged(plan, len(mine), rates, measured, None, None, program, said, took_s))
        print(*_line(found[-1]), flush=True)
    return found


def large_judged(runs: Sequence[Run], source_us: float, kept: Kept | None, settings: Settings = LONG) -> list[Judged]:
    """Large configurations, predicted from all small runs of the same query and memory."""
    found = []
    large = [run for run in runs if run.set == LARGE]
    for mine in grouped(large, lambda run: f"{run.job} {run.memory_mb}").values():
        plan = Plan.of(mine[0])
        small = [
            run
            for run in runs
            if run.set in SMALL and run.query == plan.query and run.memory_mb == plan.memory_mb and run.readings
        ]
        began_s = time.perf_counter()
        said = predicted(plan, calibrated(small, source_us), kept, settings)
        offers = [(run.offered_per_s or 0.0, run.observed_per_s) for run in mine]
        held = [offer for offer, took in offers if took >= KEPT * offer]
        failed = [offer for offer, took in offers if took < KEPT * offer]
        best = max(took for _, took in offers)
        program = next((run.promised_per_s for run in mine if run.promised_per_s is not None), None)
        bracket, took_s = (max(held, default=0.0), min(failed, default=None)), time.perf_counter() - began_s
        found.append(Judged(plan, len(mine), (), best, *bracket, program, said, took_s))
        print(*_line(found[-1]), flush=True)
    return found


def widened(judged: Sequence[Judged], small: Sequence[Judged]) -> list[Judged]:
    """The same with intervals as wide as it takes that LEVEL of the runs of other small configurations of the query
    would have been inside: what costs are unsure by is not all by which a prediction may be off."""
    found = []
    for each in judged:
        others = [other for other in small if other.plan.query == each.plan.query and other.plan != each.plan]
        off = [other.beyond(rate) for other in others for rate in other.rates_per_s]
        factor = reach(off).factor if off else 1.0
        low, high = each.said.interval_per_s
        found.append(replace(each, said=replace(each.said, interval_per_s=(low / factor, high * factor))))
    return found


HEADER = ("query", "subtasks", "GiB", "runs", "measured", "bracket", *METHODS, "interval", "s")


def _line(each: Judged) -> list[object]:
    low, high = each.said.interval_per_s
    bracket = "-"
    if each.kept_per_s is not None:
        bracket = f"{each.kept_per_s / 1e6:.3g} to {each.failed_per_s / 1e6:.3g}" if each.failed_per_s else "at least"
    return [
        each.plan.query,
        " ".join(str(count) for count in each.plan.parallelism.values()),
        each.plan.memory_mb // 1024,
        each.runs,
        f"{each.best_per_s / 1e6:.3f} M/s",
        bracket,
        *("-" if factor is None else f"{factor:.2f}" for factor in each.factors),
        f"{low / each.best_per_s:.2f} to {high / each.best_per_s:.2f}",
        f"{each.took_s:.0f}",
    ]


def summary(judged: Sequence[Judged]) -> list[list[object]]:
    """Rows of mean errors by query, and over all; and of the share of configurations that are in their interval."""
    lines: list[list[object]] = []
    by_query = {query: [each for each in judged if each.plan.query == query] for query in QUERIES}
    for name, some in {**by_query, "all": list(judged)}.items():
        if not some:
            continue
        errors: list[object] = []
        for method in range(len(METHODS)):
            factors = [each.factors[method] for each in some]
            off = [abs(factor - 1.0) for factor in factors if factor is not None]
            errors.append(f"{100 * np.mean(off):.1f} %" if off else "-")
        inside = [each.said.interval_per_s[0] <= each.best_per_s <= each.said.interval_per_s[1] for each in some]
        lines.append([name, len(some), *errors, f"{np.mean(inside):.2f}"])
    return lines


def as_json(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """Configurations with all figures."""
    return [asdict(each) for each in judged]


def main() -> None:
    """Prints what was judged, and mean errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--kept", type=Path, required=True, help="folder of runs, made if it is not there")
    parser.add_argument("--queries", default=",".join(QUERIES), help="of these queries alone, by commas")
    parser.add_argument("--exact", choices=("small", "large", "both"), help="by exact runs, too")
    parser.add_argument("--json", type=Path, help="file for all figures")
    parser.add_argument("--one-key", action="store_true", help="results of one evaluation go to one subtask")
    parser.add_argument("--floating-buffers", type=int, default=FLOATING_BUFFERS, help="of a gate")
    given = parser.parse_args()
    assumed = {"one_key": given.one_key, "floating_buffers": given.floating_buffers}
    wanted = given.queries.split(",")
    for query in wanted:
        if query not in QUERIES:
            raise BadInput(f"--queries {query}: give some of {', '.join(QUERIES)}")
    everything = read_runs(given.data)
    source_us = least_source_us([run for run in everything if run.set in SMALL])
    runs = [run for run in everything if run.query in wanted]
    given.kept.mkdir(parents=True, exist_ok=True)
    kept = Kept(given.kept)
    exact = {size: kept if given.exact in (size, "both") else None for size in ("small", "large")}
    small = small_judged(runs, source_us, exact["small"], replace(PROBE, **assumed))
    large = large_judged(runs, source_us, exact["large"], replace(LONG, **assumed))
    small, large = widened(small, small), widened(large, small)
    header = ("query", "configurations", *METHODS, f"in the {LEVEL:.0%} interval")
    print_table("small clusters, in folds: over what was measured", HEADER, [_line(each) for each in small])
    print_table("small clusters, in folds: mean errors", header, summary(small))
    print_table("large clusters: over the best rate that was delivered", HEADER, [_line(each) for each in large])
    print_table("large, saturated: mean errors", header, summary([each for each in large if each.saturated]))
    if given.json is not None:
        given.json.write_text(json.dumps(as_json([*small, *large]), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except BadInput as error:
        sys.exit(f"streambed: {error}")
