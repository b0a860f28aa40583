"""How far the rate model is off simulated runs of random jobs of Flink's, by quantity: factors of at least 1.

Run: python -m benchmarks.predictions [--set dev|heldout] [--jobs] [--choose]. An interrupted call goes on. Of 30 jobs
each, with sources of 100 to 200,000 tuples a second, replicas by the dozen, unions, windows, joins, two sinks, and 10
to 130 % of what the most loaded resource can take. Goals: T 1.02 median and 1.10 at 95 %, Lp 1.10, 1.6.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.predictions.jobs import FIRST_SEEDS, choose, jobs_of, run_of
from benchmarks.table import markdown
from benchmarks.validity.cases import Case
from benchmarks.validity.runs import run_all
from benchmarks.validity.store import Store
from twin.metrics import REGRESSION_METRICS
from twin.rates.model import RateModel
from twin.scenario import Scenario

CACHE = Path(__file__).resolve().parents[2] / ".validity"
GOALS = {"throughput_per_s": (1.02, 1.10), "processing_latency_s": (1.10, 1.6)}


class Beside(NamedTuple):
    """One job. said: by the rate model; seen: in the run; by metric, NaN where there is none."""

    case: Case
    said: Mapping[str, float]
    seen: Mapping[str, float]
    keeps_up: bool
    """Whether both say the same of backpressure."""

    def ratio(self, metric: str) -> float:
        """Said over seen."""
        return self.said[metric] / self.seen[metric] if self.seen[metric] else float("nan")


def beside(case: Case, result: Mapping[str, Any]) -> Beside:
    """The prediction beside a run's result."""
    scenario = Scenario.of(case.deployment, case.settings)
    costs = RateModel().predict(scenario, [scenario.plan])
    seen = {metric: _value(result[metric]) for metric in REGRESSION_METRICS}
    said = {metric: float(costs[metric][0]) for metric in REGRESSION_METRICS}
    return Beside(case, said, seen, bool(costs["backpressured"][0] > 0.5) == result["backpressured"])


def _value(measured: Any) -> float:
    """A mean, of latencies too."""
    if isinstance(measured, Mapping):
        return float(measured["mean"])
    return float("nan") if measured is None else float(measured)


def table(found: Sequence[Beside]) -> str:
    """Quantiles of the factors, by metric."""
    rows: list[list[object]] = []
    for metric in REGRESSION_METRICS:
        ratios = np.array([each.ratio(metric) for each in found])
        factors = np.exp(np.abs(np.log(ratios[np.isfinite(ratios) & (ratios > 0)])))
        goal = " / ".join(f"{each:g}" for each in GOALS.get(metric, ()))
        rows.append([metric, len(factors), *np.quantile(factors, [0.5, 0.95, 1.0]).tolist(), goal])
    agreed = sum(each.keeps_up for each in found)
    title = f"The rate model beside simulated runs; backpressure: {agreed} of {len(found)} right"
    return markdown(title, ["", "jobs", "median", "95 %", "worst", "goal"], rows)


def by_job(found: Sequence[Beside]) -> str:
    """A row a job: said over seen."""
    rows = [
        [each.case.seed, each.case.kind, each.seen[REGRESSION_METRICS[0]], *map(each.ratio, REGRESSION_METRICS)]
        for each in found
    ]
    return markdown("Said over seen", ["seed", "kind", "results a second", *REGRESSION_METRICS], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=list(FIRST_SEEDS), default="dev", dest="which")
    parser.add_argument("--jobs", action="store_true", help="a row a job besides")
    parser.add_argument("--choose", action="store_true", help="draw the jobs anew, and do nothing else")
    given = parser.parse_args()
    if given.choose:
        choose()
        return
    cases = jobs_of(given.which)
    results = run_all([run_of(case) for case in cases], Store(CACHE), 1, "runs")
    found = [beside(case, result) for case, result in zip(cases, results, strict=True)]
    print(table(found))
    if given.jobs:
        print("\n" + by_job(found))


if __name__ == "__main__":
    main()
