"""Fraud detection, spike detection and Linear Road fitted to what BriskStream's paper says of them.

Run: python -m benchmarks.fit_applications [--sizes 1,2,4] [FD] [SD] [LR]. Unknown are one factor on all times a tuple
and one on all sizes of tuples, beside what the library's scenarios have; who does how much of the work, and whose
tuples are how large beside the others', stays as assumed. Wanted are the throughput of RLAS's plan on eight sockets of
Server A (Table 4), and what that plan gains over those of RLAS_fix(L) and RLAS_fix(U) (Fig. 12), of which the paper
gives a range for all applications together: the middle of either is aimed at, in units of half its width, on a
logarithmic scale. For each factor on the sizes the one on the times follows from the throughput. All plans are
simulated. The gains jump from factor to factor, as the searches find better or worse plans.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from benchmarks.table import print_table
from optimizers.interface import Problem
from optimizers.registry import optimizer_by_name
from papers.briskstream.applications import APPLICATIONS, on_cluster
from papers.briskstream.published import OVER_FIX_L, OVER_FIX_U, TABLE_4
from scenarios.files import scenario_file
from twin.numa import server_a
from twin.query import Query
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate

FITTED = ("FD", "SD", "LR")
SIZES = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
PUBLISHED = (OVER_FIX_L, OVER_FIX_U)
CLOSE, TRIES = 0.004, 8
"""Of the throughput, as a share; factors on the times that are tried until it is that close, or the closest counts."""


@dataclass(frozen=True)
class Fit:
    """An application with both factors. results_per_s: of RLAS's plan, simulated. gains: of it over RLAS_fix(L) and
    RLAS_fix(U), as shares."""

    application: str
    sizes: float
    times: float
    results_per_s: float
    gains: tuple[float, float]

    @property
    def row(self) -> list[object]:
        """For the table."""
        published = 1e3 * TABLE_4[self.application].measured_kps
        off = self.results_per_s / published - 1.0
        return [self.application, self.sizes, self.times, off, *self.gains, self.distance]

    @property
    def distance(self) -> float:
        """From the middles of the published ranges; up to 1 of each is within it."""
        return math.hypot(*(_off(gain, *ends) for gain, ends in zip(self.gains, PUBLISHED, strict=True)))


def _off(gain: float, low: float, high: float) -> float:
    least, most = math.log1p(low), math.log1p(high)
    return (math.log1p(gain) - (least + most) / 2) / ((most - least) / 2)


def changed(scenario: Scenario, times: float, sizes: float) -> Scenario:
    """The scenario on Server A, saturated, with all times and sizes multiplied.

    In tenths of nanoseconds and whole bytes, which a scenario file can have: a last digit may make another plan."""
    query, engine = scenario.query, scenario.engine
    operators = tuple(
        each.__class__(
            **{
                **dict(each),
                "service_time_s": round(times * engine.service_s(query, each), 10),
                "tuple_bytes": None if each.is_sink else round(sizes * engine.output_bytes(query, each.name)),
            }
        )
        for each in query.operators
    )
    return on_cluster(
        Scenario(**{**dict(scenario), "query": Query(operators=operators, streams=query.streams)}), server_a()
    )


def simulated_per_s(scenario: Scenario, optimizer: str) -> float:
    """Results a second under the optimizer's plan."""
    problem = Problem(scenario=scenario, cost_model=RateModel(), objective="throughput_per_s", seed=1)
    plan = optimizer_by_name(optimizer).solve(problem).plan
    return simulate(scenario.with_plan(plan).with_run(seed=1)).metrics.throughput_per_s


def next_times(tried: Mapping[float, float], wanted_per_s: float) -> float:
    """The factor on the times to try after those that were: results a second by factor, the last one last.

    As if throughput went with its inverse, until one is too fast and one too slow: then the middle of the closest such
    two, since a longer time may well bear more, by a plan that the search happens on."""
    fast = [times for times, reached in tried.items() if reached > wanted_per_s]
    slow = [times for times in tried if times not in fast]
    if fast and slow:
        one, other = min(product(fast, slow), key=_apart)
        return math.sqrt(one * other)
    times, reached = list(tried.items())[-1]
    return times * reached / wanted_per_s


def _apart(pair: tuple[float, float]) -> float:
    return abs(math.log(pair[0] / pair[1]))


def fitted(application: str, sizes: float) -> Fit:
    """The factor on the times at which RLAS's plan reaches the published throughput, and what it then gains."""
    base, wanted = scenario_file.load(APPLICATIONS[application]), 1e3 * TABLE_4[application].measured_kps
    tried, times = dict[float, float](), 1.0
    while True:
        tried[times] = simulated_per_s(changed(base, times, sizes), "rlas")
        best = min(tried, key=lambda each: abs(math.log(tried[each] / wanted)))
        if abs(tried[best] / wanted - 1.0) < CLOSE or len(tried) == TRIES:
            break
        times = next_times(tried, wanted)
    scenario, reached = changed(base, best, sizes), tried[best]
    gains = tuple(reached / simulated_per_s(scenario, name) - 1.0 for name in ("rlas-fix-l", "rlas-fix-u"))
    return Fit(application, sizes, best, reached, (gains[0], gains[1]))


def main() -> None:
    """Prints a line a factor on the sizes, and the one whose gains are the nearest to what is published."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("applications", nargs="*", default=FITTED, metavar="FD|SD|LR")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="factors on the sizes, with commas")
    options = parser.parse_args()
    header = ("application", "sizes x", "times x", "throughput off by", "over fix(L)", "over fix(U)", "distance")
    for application in options.applications:
        found = []
        for size in map(float, options.sizes.split(",")):
            found.append(fitted(application, size))
            print(f"{application}, sizes x {size:g}: RLAS gains {found[-1].gains[0]:.1%} over fix(L)", flush=True)
        best = min(found, key=lambda fit: fit.distance)
        print_table(f"{application} by the factor on all sizes", header, [each.row for each in found])
        print(f"  chosen: sizes x {best.sizes:g}, times x {best.times:.4f}", flush=True)


if __name__ == "__main__":
    main()
