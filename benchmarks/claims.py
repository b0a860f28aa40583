"""What optimizers answer and claim, on random jobs: beside the given plan in runs, beside every plan under the model.

Run: python -m benchmarks.claims [--jobs N] [--first SEED] [--long N]. Jobs are those of `benchmarks.claimed_jobs`: on
hosts or on sockets, one to three sources, given plans of all kinds. For each job and optimizer: whether the answer is
worse than the given plan in simulated runs (by more than 2 % and twice the standard error of the difference of paired
runs), and whether status and bound are true of every plan with the given numbers of replicas (of 6,000 at random where
there are more) under the rate model. Then the rate model beside the runs, by quantity. Last, RLAS in long runs beside
plans one change away and random ones, the most promising of each by the rate model."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass

import numpy as np

from benchmarks.claimed_jobs import claimed_job, every_plan
from benchmarks.table import print_table
from optimizers.counted import as_plans
from optimizers.interface import Problem, Solution, Status
from optimizers.keeping import Keeping
from optimizers.random_sockets import scattered
from optimizers.registry import OPTIMIZERS
from optimizers.selection import estimate, goodness
from optimizers.socket_moves import neighbours
from optimizers.space import counts_of
from twin.errors import BadInput
from twin.metrics import Metrics
from twin.plan import ExecutionPlan
from twin.randomness import child_seed, stream
from twin.rates.model import RateModel
from twin.rates.numa_job import NumaJob
from twin.scenario import Scenario
from twin.simulation import simulate

OBJECTIVE = "throughput_per_s"
NAMES = ("local-search", "exhaustive", "milp", "rlas", "rlas-placement")
RUNS = 3
WORSE = 0.02
LONG = 5.0
"""Long runs are so many times as long."""
LOOKED_AT, SIMULATED = 600, 5
"""Random plans by the rate model, and those of them, and of the single changes, that are run."""


@dataclass(frozen=True)
class Judged:
    """worse: by how much, relatively, the answer lets less through than the given plan in runs, 0 if it does not beyond
    noise. false: what is claimed and not true. status: what is claimed."""

    worse: float
    false: str
    status: str


def problem(job: Scenario) -> Problem:
    """Throughput, as all optimizers can be asked for it."""
    return Problem(scenario=job, cost_model=RateModel(), objective=OBJECTIVE)


def runs(job: Scenario, plan: ExecutionPlan, count: int = RUNS) -> list[Metrics]:
    """The same random numbers for every plan."""
    return [simulate(job.with_plan(plan).with_run(seed=child_seed(0, index))).metrics for index in range(count)]


def shortfall(job: Scenario, answer: ExecutionPlan, other: ExecutionPlan, count: int = RUNS) -> float:
    """By how much, relatively, one plan lets less through than another; 0 within noise."""
    if answer == other:
        return 0.0
    mine, theirs = (np.array([run.throughput_per_s for run in runs(job, plan, count)]) for plan in (answer, other))
    lost, error = theirs - mine, np.std(theirs - mine, ddof=1) / np.sqrt(count) if count > 1 else 0.0
    share = float(lost.mean() / max(theirs.mean(), 1e-12))
    return share if share > WORSE and lost.mean() > 2.0 * error else 0.0


def false_claim(asked: Problem, found: Solution, plans: np.ndarray) -> str:
    """What of status and bound is not true of these plans; empty if all is."""
    judged = estimate(asked, [found.plan, *as_plans(asked.deployment, plans)])
    keys = goodness(asked, judged)
    best = float(judged.objective[1:].max())
    sane = keys[0, 1:] == 0.0
    if found.bound is not None and found.bound < best * (1.0 - 1e-6):
        return f"bound {found.bound:.4g} below a plan of {best:.4g}"
    if found.status is Status.INFEASIBLE and sane.any():
        return "infeasible, but a plan keeps up"
    best_sane = float(np.where(sane, judged.objective[1:], 0.0).max(initial=0.0))
    if found.status is Status.OPTIMAL and (keys[0, 0] or judged.objective[0] < best_sane * (1.0 - 1e-3)):
        return f"optimal with {judged.objective[0]:.4g}, but a plan has {best_sane:.4g}"
    return ""


def judge(job: Scenario, name: str, plans: np.ndarray) -> Judged | None:
    """None if the optimizer refuses the job."""
    asked = problem(job)
    try:
        found = Keeping(OPTIMIZERS[name]).solve(asked)
    except BadInput:
        return None
    return Judged(shortfall(job, found.plan, job.plan), false_claim(asked, found, plans), found.status.value)


def predicted(job: Scenario) -> dict[str, float]:
    """The factor, at least 1, between the rate model and runs of the given plan, by quantity."""
    said, seen = RateModel().predict(job, [job.plan]), runs(job, job.plan)
    factors = {}
    for name in ("throughput_per_s", "processing_latency_s", "e2e_latency_s"):
        value = float(np.mean([run.value(name) for run in seen]))
        ours = float(said[name][0])
        if 0.0 < value < np.inf and 0.0 < ours < np.inf:
            factors[name] = max(ours / value, value / ours)
    factors["backpressured, agrees"] = float((said["backpressured"][0] > 0.5) == seen[0].backpressured)
    return factors


def beaten(job: Scenario) -> tuple[float, float]:
    """By how much one change of RLAS's plan, and a random plan, beat it in long runs; 0 if none does."""
    asked, model = problem(job), NumaJob(job)
    answer = OPTIMIZERS["rlas"].solve(asked).plan
    here, most = counts_of(job, answer), int(model.cores_l.sum())
    near = neighbours(here, max(most, int(here.sum())), scale=True)
    rng = stream(job.run.seed, "claims-random")
    other = np.array([scattered(model, most, rng) for _ in range(LOOKED_AT)])
    settings = job.run
    longer = job.with_run(horizon_s=settings.warmup_s + LONG * (settings.horizon_s - settings.warmup_s))
    gains = []
    for each in (near, other):
        found = estimate(asked, as_plans(job, each)).objective
        best = np.argsort(-found)[:SIMULATED]
        gains.append(max(shortfall(longer, answer, plan, 2) for plan in as_plans(job, each[best])))
    return gains[0], gains[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument(
        "--long", type=int, default=10, metavar="N", help="jobs on sockets whose RLAS plans are run long"
    )
    arguments = parser.parse_args()
    found: dict[str, list[Judged]] = {name: [] for name in NAMES}
    errors: dict[str, list[float]] = {}
    for seed in range(arguments.first, arguments.first + arguments.jobs):
        job = claimed_job(seed)
        plans = every_plan(job)
        for name in NAMES:
            if (judged := judge(job, name, plans)) is not None:
                found[name].append(judged)
                if judged.worse or judged.false:
                    print(f"job {seed}, {name}: {judged}", flush=True)
        for quantity, factor in predicted(job).items():
            errors.setdefault(quantity, []).append(factor)
    rows: list[list[object]] = []
    for name, each in found.items():
        worse = [one.worse for one in each]
        claimed = Counter(one.status for one in each)
        said = ", ".join(f"{count} {status}" for status, count in sorted(claimed.items()))
        rows.append(
            [
                name,
                len(each),
                sum(w > 0 for w in worse),
                max(worse, default=0.0),
                sum(bool(one.false) for one in each),
                said,
            ]
        )
    header = ["", "jobs", "worse than given", "by at most", "false claims", "status"]
    print_table("Answers in simulated runs, and claims under the rate model", header, rows)
    rows = [
        [name, len(each), *np.quantile(each, [0.5, 0.95]).tolist()]
        if "agrees" not in name
        else [name, len(each), float(np.mean(each)), ""]
        for name, each in errors.items()
    ]
    print_table(
        "The rate model beside runs of the given plan: factor, at least 1", ["", "jobs", "median", "95 %"], rows
    )
    gains = np.array(
        [
            beaten(claimed_job(seed, on_sockets=True))
            for seed in range(arguments.first, arguments.first + arguments.long)
        ]
    )
    if len(gains):
        header = ["", "jobs", "beat RLAS by more than 2 %", "by at most"]
        rows = [
            [name, len(gains), int((column > WORSE).sum()), float(column.max())]
            for name, column in zip(("one change", f"the best of {LOOKED_AT} random plans"), gains.T, strict=True)
        ]
        print_table("RLAS in long runs", header, rows)


if __name__ == "__main__":
    main()
