"""How often intervals of differences hold the truth, for a fixed number of runs and for one that a precision asks for.

Run: python -m benchmarks.question_coverage [--runs N]. The truth is the mean over all runs; each experiment of a fixed
number has runs of its own, those with a precision draw theirs from all. Limit: 95 % less four standard errors of so
many experiments. The last column is what common random numbers leave of the variance of a difference.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.table import print_table
from optimizers.policies import POLICIES
from scenarios.executing.progress import Lines
from scenarios.questions.bench import Bench
from scenarios.questions.intervals import Interval, of_difference
from scenarios.questions.knobs import knob
from scenarios.questions.replications import MOST, Samples, Wanted, replicate, runs_needed
from tests.scenarios.questions.jobs import queue, shop
from twin.scenario import Scenario

FIXED = (5, 10)
DRAWN = 400
LIMIT = 0.95
CLICKS = "workload.arrivals.clicks.rate_per_s"


def jobs() -> Iterator[tuple[str, Sequence[Scenario], str, float]]:
    """Name, two scenarios, what they are compared by, and the precision."""
    queues = [queue(rate, horizon_s=6) for rate in (500, 550)]
    yield "queue, 10 % more", queues, "e2e_latency_s.mean", 0.03
    yield "queue, 10 % more", queues, "throughput_per_s", 0.005
    small = shop()
    yield "shop, 25 % more", [small, knob(CLICKS, "--vary").turned(small, 500)], "throughput_per_s", 0.08
    yield "shop, ds2", [small, small.with_policy(POLICIES["ds2"]())], "e2e_latency_s.mean", 0.02


def fixed(samples: Samples, metric: str, count: int) -> tuple[int, int]:
    """Experiments of `count` runs: how many hold the truth, of how many."""
    first, second = (samples.values(case, metric) for case in (0, 1))
    starts = range(0, samples.runs - count + 1, count)
    parts = [of_difference(second[i : i + count], first[i : i + count], metric) for i in starts]
    return sum(_holds(part, np.mean(second - first)) for part in parts), len(parts)


def sequential(samples: Samples, metric: str, precision: float) -> tuple[int, int]:
    """Experiments that go on until the precision is reached, with runs drawn from all."""
    rng, held = np.random.default_rng(1), 0
    first, second = (samples.values(case, metric) for case in (0, 1))
    for _ in range(DRAWN):
        drawn, count = rng.integers(0, samples.runs, MOST), Wanted().runs
        while count < MOST:
            part = Samples([[runs[i] for i in drawn[:count]] for runs in samples.outcomes])
            needed = runs_needed(part, [metric], precision)
            if needed <= count:
                break
            count = min(MOST, 4 * count, needed)
        found = of_difference(second[drawn[:count]], first[drawn[:count]], metric)
        held += _holds(found, np.mean(second - first))
    return held, DRAWN


def _holds(found: Interval, truth: float) -> bool:
    return found.half_width95 is not None and abs(found.mean - truth) <= found.half_width95


def main() -> None:
    """Prints the table; ends with 1 if an interval holds too rarely."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    runs, rows, low = parser.parse_args().runs, [], False
    for name, cases, metric, precision in jobs():
        with Bench() as bench:
            samples = replicate(bench, cases, [metric], Wanted(runs), 7, Lines(lambda _text: None))
        first, second = (samples.values(case, metric) for case in (0, 1))
        left = np.var(second - first) / (np.var(first) + np.var(second))
        ways = [(f"{count} runs", fixed(samples, metric, count)) for count in FIXED]
        ways.append((f"to {precision:.1%}", sequential(samples, metric, precision)))
        for how, (held, of) in ways:
            low = low or held / of < LIMIT - 4 * math.sqrt(LIMIT * (1 - LIMIT) / of)
            rows.append((name, metric, how, held / of, of, left))
    print_table(
        "Intervals that hold the truth",
        ("job", "metric", "experiments of", "hold", "experiments", "variance left"),
        rows,
    )
    raise SystemExit(int(low))


if __name__ == "__main__":
    main()
