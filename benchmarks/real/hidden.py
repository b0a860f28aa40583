"""Learning curves on engines that nobody told: what N runs of random queries are worth, judged on other runs.

    python -m benchmarks.real.hidden A --runs 20 100 300 --keep runs     # A: constants unknown; B: structure, too

Simulated, both (`benchmarks.real.hidden_engines`). Known of each run are rates, host CPU and mean latency. With
--physics only what needs no learning is judged, which is quick. --again N takes N other seeds of the engine itself: one
of them is judged as a predictor, which shows chance that nobody can tell, and everything is judged against the mean of
them all and of the first, too, which has less of it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from benchmarks.real.hidden_engines import hidden
from benchmarks.real.hidden_predictors import LEAST, PREDICTORS, Costs, rates, shipped_network
from benchmarks.real.kept_runs import Measured, measured
from benchmarks.table import print_table
from models.evaluation import q_error
from scenarios.calibration.calibrate import Calibration, calibrate
from scenarios.calibration.profile_file import profile_of
from scenarios.planning.calibrated_cost import CalibratedCostModel
from scenarios.spaces.families import RandomScenarios
from twin.errors import BadInput
from twin.metrics import METRICS
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario

JUDGED_FROM = 100_000
"""Index of the first run that is judged; none before is."""
SHOWN = {"T": "throughput_per_s", "Le": "e2e_latency_s", "Lp": "processing_latency_s"}


class Answer(NamedTuple):
    """What a predictor said of the runs that are judged. seen: runs it knows; spent_s: CPU time."""

    predictor: str
    seen: int | str
    costs: Costs
    spent_s: str = ""


def judged(costs: Costs, unseen: Sequence[Measured]) -> list[object]:
    """q-errors (median / 95 %) of T, Le and Lp, and the share of right answers on RO."""
    labels = np.array([each.labels for each in unseen])
    shown: list[object] = []
    for metric in SHOWN.values():
        truth = labels[:, METRICS.index(metric)]
        known = np.isfinite(truth) & np.isfinite(costs[metric])
        q50, q95 = np.quantile(q_error(truth[known], np.maximum(costs[metric][known], 1e-9)), [0.5, 0.95])
        shown.append(f"{q50:.3f}/{q95:.2f}")
    right = (costs["backpressured"] > 0.5) == (labels[:, METRICS.index("backpressured")] > 0.5)
    return [*shown, f"{right.mean():.3f}"]


def spread_and_error(found: Calibration, unseen: Sequence[Measured]) -> str:
    """Whether the spread over a calibration's draws tells where its latencies are wrong."""
    profile = profile_of(unseen[0].known, found, (), 1, "")
    model, number = CalibratedCostModel("draws", profile, RateModel()), METRICS.index("processing_latency_s")
    pairs = []
    for each in unseen:
        if np.isfinite(each.labels[number]):
            said = model.predict(each.known, [each.known.plan])
            error = abs(np.log(said["processing_latency_s"][0] / each.labels[number]))
            pairs.append((float(said.spread[0]), float(error)))
    spread, error = np.array(sorted(pairs)).T
    halves = [f"{np.exp(np.quantile(part, 0.9)):.2f}" for part in np.array_split(error, 2)]
    shown = [f"{part.mean():.3f}" for part in np.array_split(spread, 2)]
    return (
        f"draws: where they differ by {shown[0]} (log) on average, the 90 % q-error of Lp is {halves[0]}; "
        f"where by {shown[1]}, {halves[1]}; rank correlation {stats.spearmanr(spread, error).statistic:.2f}"
    )


def main() -> None:
    """Prints the table of one engine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=("A", "B"))
    parser.add_argument("--runs", type=int, nargs="+", default=[20], help="how many are seen; each a block of rows")
    parser.add_argument("--judged", type=int, default=100, help="how many other runs are predicted")
    parser.add_argument("--physics", action="store_true", help="leave out all that learns")
    parser.add_argument("--only", nargs="+", choices=list(PREDICTORS), metavar="NAME", help="of what sees runs, these")
    parser.add_argument("--again", type=int, default=0, metavar="N", help="judge by N other seeds of the engine, too")
    parser.add_argument("--keep", type=Path, help="a folder that simulated runs are kept in")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    make = RandomScenarios("costream", given.seed, RunSettings())
    known = [make(JUDGED_FROM + index) for index in range(given.judged)] + [make(n) for n in range(max(given.runs))]
    real = hidden(known, given.engine, given.seed)
    runs = measured(known, real, _file(given.keep, f"hidden-{given.engine}.jsonl"))
    unseen, seen = runs[: given.judged], runs[given.judged :]
    answers = _untaught([each.known for each in unseen], physics=given.physics)
    names = given.only or (["calibrated rates"] if given.physics else list(PREDICTORS))
    for count in given.runs:
        try:
            answers += _answers(seen[:count], unseen, names)
        except BadInput as error:
            parser.exit(2, f"{count} runs: {error}\n")
    answers.append(Answer("rates, the true constants", "", rates(real[: given.judged])))
    others = [
        _again(unseen, real, more, _file(given.keep, f"hidden-{given.engine}-again-{more}.jsonl"))
        for more in range(1, given.again + 1)
    ]
    answers += [Answer("the engine itself, another seed", "", _as_costs(runs)) for runs in others[:1]]
    _show(f"hidden engine {given.engine}, simulated", answers, unseen)
    if len(others) > 1:
        _show(f"the same against the mean of {1 + len(others)} seeds", answers, _means([unseen, *others]))


def _untaught(scenarios: Sequence[Scenario], *, physics: bool) -> list[Answer]:
    found = [Answer("rates, the profile's constants", 0, rates(scenarios))]
    if not physics:
        found.append(Answer("shipped network, the profile's constants", 0, shipped_network(scenarios)))
    return found


def _as_costs(runs: Sequence[Measured]) -> Costs:
    return dict(zip(METRICS, np.array([each.labels for each in runs]).T, strict=True))


def _file(folder: Path | None, name: str) -> Path | None:
    return None if folder is None else folder / name


def _show(title: str, answers: Sequence[Answer], truth: Sequence[Measured]) -> None:
    """Prints a table."""
    lines = [[each.predictor, each.seen, *judged(each.costs, truth), each.spent_s] for each in answers]
    print_table(
        f"{title}: q-errors (median/95 %) on {len(truth)} other runs",
        ["predictor", "runs", *SHOWN, "RO", "CPU s"],
        lines,
    )


def _again(unseen: Sequence[Measured], real: Sequence[Scenario], more: int, file: Path | None) -> list[Measured]:
    """The runs that are judged, once more under another seed. file: of that seed alone, as its name is not in there."""
    known, judge = [each.known for each in unseen], real[: len(unseen)]
    return measured(known, [each.with_run(seed=each.run.seed + more) for each in judge], file)


def _means(seeds: Sequence[Sequence[Measured]]) -> list[Measured]:
    """Each run with the mean of its labels over the seeds; nan where most seeds have none."""
    labels_snm = np.array([[each.labels for each in runs] for runs in seeds])
    missing_nm = np.isnan(labels_snm).mean(axis=0) > 0.5
    known_nm = (~np.isnan(labels_snm)).sum(axis=0)
    means_nm = np.where(missing_nm, np.nan, np.nansum(labels_snm, axis=0) / np.maximum(known_nm, 1))
    return [replace(each, labels=tuple(row)) for each, row in zip(seeds[0], means_nm.tolist(), strict=True)]


def _answers(seen: Sequence[Measured], unseen: Sequence[Measured], names: Sequence[str]) -> list[Answer]:
    started_s = time.process_time()
    found = calibrate([each.point for each in seen])
    spent_s, answers = time.process_time() - started_s, []
    print(f"{len(seen)} runs; {spread_and_error(found, unseen)}", flush=True)
    for name in names:
        if len(seen) < LEAST.get(name, 0):
            continue
        started_s = time.process_time()
        try:
            costs = PREDICTORS[name](seen, found, [each.known for each in unseen])
        except BadInput as error:
            print(f"{name}, {len(seen)} runs: {error}", flush=True)
            continue
        words = _words(found) if name == "calibrated rates" else ""
        took_s = spent_s if words else time.process_time() - started_s
        answers.append(Answer(f"{name}{words}", len(seen), costs, f"{took_s:.0f}"))
        print(*answers[-1][:2], *judged(costs, unseen), answers[-1].spent_s, flush=True)
    return answers


def _words(found: Calibration) -> str:
    return f": {found.structure.words}, residual {found.tried[0].residual:.1%}"


if __name__ == "__main__":
    main()
