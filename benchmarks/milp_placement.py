"""Plans by mixed-integer programs: how far from the best there is, how long they take, how large a job may be.

Run: python -m benchmarks.milp_placement [--jobs N] [--large N]. First, random jobs of Costream's space (30 to 50,000
valid placements), as drawn and with arrivals scaled so that the least of the highest utilisations is 0.9: the plan
beside the exhaustive optimum under the rate model, of the jobs that any plan bears. A latency contains windows of
seconds that no placement changes, so the regret is given of what placement can change as well: of the optimum beyond
the age that windows alone give. Then the highest rate beside the least of the highest utilisations over all placements.
Last, large random jobs on hosts that reach each other directly and on a tree of edge, fog and cloud with pinned
sources; gaps are to the bound that the optimizer reports. CPU seconds of one core throughout.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.table import print_table
from optimizers.enumeration import PlacementSpace
from optimizers.interface import Problem, Solution
from optimizers.milp.highest_rate import highest_rate
from optimizers.milp.optimizer import Milp
from optimizers.milp.placing import Placing
from optimizers.program import ProgramLimits
from optimizers.requirements import Requirements, at_rate
from optimizers.selection import estimate
from optimizers.space import Space
from scenarios.files.scenario_file import load
from scenarios.spaces.generator import random_scenario
from scenarios.spaces.parameter_space import COSTREAM
from twin.randomness import stream
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.model import RateModel
from twin.rates.placements import Placements
from twin.scenario import RunSettings, Scenario
from twin.spec import parse

PLANS = (30, 50_000)
RULED = Space(costream_rules=True)
HOT = 0.9
USED = 0.99
SIZES = ((15, 20), (20, 20), (20, 50))
CLOSE = 0.01
CHANNELS = ("hosts reach each other", "a tree with links")


def jobs() -> Iterator[tuple[Scenario, np.ndarray]]:
    """Random jobs with all of their valid placements."""
    seed = 0
    while True:
        scenario = random_scenario(COSTREAM, seed, RunSettings())
        space = PlacementSpace(scenario.query, scenario.cluster)
        if space.exact and PLANS[0] <= space.count <= PLANS[1]:
            yield scenario, space.all()
        seed += 1


@dataclass(frozen=True)
class Judged:
    """regret: of the latency; of_rest: of what placements can change. evaluations: of plans by the cost model."""

    regret: float
    of_rest: float
    status: str
    cpu_s: float
    evaluations: int


def judged(job: Scenario, placements: np.ndarray) -> Judged | None:
    """The plan of one job against the exhaustive optimum; None if no plan bears the job."""
    problem = Problem(scenario=job, cost_model=RateModel(), space=RULED)
    found = estimate(problem, Placements(job, placements))
    sane = (found.backpressured < 0.5) & (found.success >= 0.5)
    if not sane.any():
        return None
    best = float(found.objective[sane].min())
    solution, cpu_s = timed(Milp(), problem)
    if not solution.sane:
        return Judged(float("inf"), float("inf"), str(solution.status), cpu_s, solution.evaluations)
    over = solution.objective - best
    rest = max(best - Placing(PlacementCoefficients.of(job), RULED, "bound").fixed_s, 1e-9)
    return Judged(over / best, over / rest, str(solution.status), cpu_s, solution.evaluations)


def timed(optimizer: Milp, problem: Problem) -> tuple[Solution, float]:
    """With its CPU seconds."""
    started_s = time.process_time()
    solution = optimizer.solve(problem)
    return solution, time.process_time() - started_s


def heated(job: Scenario, space: Space) -> Scenario | None:
    """The job at the rate at which the least of the highest utilisations is HOT; None if no plan fits into memory."""
    factor = highest_rate(job, space, ProgramLimits()).factor
    return at_rate(job, factor * HOT / USED) if factor > 0.0 else None


def quality(count: int) -> list[tuple[Any, ...]]:
    """As drawn and hot: rows of the first table."""
    rows = []
    for name in ("as drawn", "hot"):
        found: list[Judged] = []
        for job, placements in jobs():
            asked = job if name == "as drawn" else heated(job, RULED)
            each = None if asked is None else judged(asked, placements)
            found += [] if each is None else [each]
            if len(found) == count:
                break
        regret, of_rest = (np.array([getattr(each, field) for each in found]) for field in ("regret", "of_rest"))
        cpu_s = np.array([each.cpu_s for each in found])
        rows.append(
            (
                name,
                len(found),
                f"{np.mean(regret <= CLOSE):.1%}",
                f"{np.mean(of_rest <= CLOSE):.1%}",
                f"{regret.max():.3%}",
                f"{of_rest.max():.3%}",
                f"{np.mean([each.status == 'optimal' for each in found]):.0%}",
                float(np.mean([each.evaluations for each in found])),
                cpu_s.mean(),
                cpu_s.max(),
            )
        )
    return rows


def rates(count: int) -> tuple[Any, ...]:
    """The highest rate beside an exhaustive search at that rate: the row of the second table."""
    off, cpu_s, borne = [], [], []
    for job, placements in jobs():
        started_s = time.process_time()
        found = highest_rate(job, RULED, ProgramLimits())
        seconds = time.process_time() - started_s
        if found.counts_ol is None:
            continue
        cpu_s.append(seconds)
        at = PlacementCoefficients.of(at_rate(job, found.factor))
        least = least_used(at, placements)
        off.append(abs(USED / least - 1.0))
        ahead = at_rate(job, found.factor)
        costs = RateModel().predict(ahead, Placements(ahead, placements))
        borne.append(bool((costs["backpressured"] < 0.5).any()))
        if len(off) == count:
            break
    return (
        count,
        f"{np.mean(np.array(off) < 2e-3):.1%}",
        f"{max(off):.2%}",
        f"{np.mean(borne):.1%}",
        np.mean(cpu_s),
        max(cpu_s),
    )


def least_used(job: PlacementCoefficients, placements: np.ndarray) -> float:
    """Over all placements that fit into memory, the least of the highest utilisations of linear loads."""
    listed = [operator.name for operator in job.deployment.query.operators]
    hosts_no = placements[:, [listed.index(name) for name in job.names]]
    loads = job.loads(np.eye(len(job.places.host_l))[hosts_no])
    return float(loads.highest_n[(loads.memory_nh < job.deployment.engine.memory.crash).all(axis=1)].min())


def large(operators: int, hosts: int, seed: int, linked: bool) -> tuple[Scenario, Space]:
    """Three sources, two joins and filters on so many random hosts, at HOT of what they take."""
    rng = stream(seed, f"large-{operators}-{hosts}-{linked}")
    middle = operators - 6
    names = [f"f{number}" for number in range(middle)]
    parts = np.array_split(np.array(names), 5)
    chains = [
        ["a", *parts[0], "j"],
        ["b", *parts[1], "j"],
        ["j", *parts[2], "k"],
        ["c", *parts[3], "k"],
        ["k", *parts[4], "sink"],
    ]
    streams = [{"producer": str(p), "consumer": str(c)} for chain in chains for p, c in pairwise(chain)]
    columns = {"ints": 3, "strings": 2}
    window = {"policy": "time", "size_s": 0.5}
    described: list[dict[str, Any]] = [{"name": name, "kind": "source", "columns": columns} for name in "abc"]
    described += [{"name": name, "kind": "filter", "selectivity": float(rng.uniform(0.5, 1.0))} for name in names]
    described += [{"name": name, "kind": "join", "window": window, "selectivity": 0.003} for name in "jk"]
    described.append({"name": "sink", "kind": "sink"})
    machines = [
        {
            "name": f"h{number}",
            "cpu_percent": float(rng.choice([50, 100, 200, 300, 400])),
            "ram_mb": float(rng.choice([4000, 8000, 16000])),
            "bandwidth_mbps": float(rng.choice([100, 200, 400, 800, 1600])),
            "latency_ms": float(rng.choice([1, 2, 5, 10, 20, 40])),
        }
        for number in range(hosts)
    ]
    edge, fog = int(0.6 * hosts), int(0.9 * hosts)
    links, allowed = [], {}
    if linked:
        links = [link(f"h{number}", f"h{edge + number % (fog - edge)}", rng) for number in range(edge)]
        links += [link(f"h{number}", f"h{fog}", rng) for number in range(edge, fog)]
        links += [link(f"h{number}", f"h{fog}", rng) for number in range(fog + 1, hosts)]
        allowed = {name: (f"h{int(rng.integers(edge))}",) for name in "abc"}
    document = {
        "name": "large",
        "query": {"operators": described, "streams": streams},
        "cluster": {"hosts": machines, **({"links": links} if linked else {})},
        "plan": {"placement": {each["name"]: "h0" for each in described}},
        "workload": {"arrivals": {name: {"law": "poisson", "rate_per_s": 1000.0} for name in "abc"}},
    }
    job, space = parse(Scenario, document), Space(allowed=allowed)
    hot = heated(job, space)
    assert hot is not None
    return hot, space


def link(one: str, other: str, rng: np.random.Generator) -> dict[str, Any]:
    """A random link."""
    return {
        "between": [one, other],
        "bandwidth_mbps": float(rng.choice([50, 100, 400])),
        "latency_ms": float(rng.choice([2, 5, 10, 20])),
    }


def sizes(count: int) -> list[tuple[Any, ...]]:
    """Rows of the third table."""
    rows = []
    for linked in (False, True):
        for operators, hosts in SIZES:
            for seed in range(count):
                job, space = large(operators, hosts, seed, linked)
                solution, cpu_s = timed(Milp(), Problem(scenario=job, cost_model=RateModel(), space=space))
                gap = "-" if solution.gap is None else f"{solution.gap:.2%}"
                what = str(solution.status) if solution.sane else "not sane"
                rows.append(
                    (
                        CHANNELS[linked],
                        f"{operators} x {hosts}",
                        solution.objective,
                        gap,
                        what,
                        solution.evaluations,
                        cpu_s,
                    )
                )
    return rows


def fewest() -> list[tuple[Any, ...]]:
    """The library's cluster of machines with sockets at shares of what all its cores could do."""
    scenario = load("numa-cluster")
    job = PlacementCoefficients.of(scenario.deployment)
    capacity = float(job.places.capacity_l.sum() / job.operators.work.sum())
    rows = []
    for share in (0.2, 0.25, 0.3, 0.5):
        for head_room in (0.0, 0.2):
            asked = at_rate(scenario, share * capacity)
            optimizer, required = Milp("milp-hosts", goal="hosts"), Requirements(head_room=head_room)
            solution, cpu_s = timed(
                optimizer, Problem(scenario=asked, cost_model=RateModel(scenario.run.horizon_s), requirements=required)
            )
            rows.append((f"{share:.0%}", f"{head_room:.0%}", solution.message, cpu_s))
    return rows


def main() -> None:
    """Prints four tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--large", type=int, default=2)
    options = parser.parse_args()
    columns = ("jobs", "n", "within 1 %", "of the rest", "worst", "of the rest", "optimal", "plans", "CPU s", "most")
    print_table("Against the exhaustive optimum under the rate model", columns, quality(options.jobs))
    columns = ("n", "equal", "worst", "borne", "CPU s", "most")
    print_table("The highest rate against all placements", columns, [rates(options.jobs)])
    columns = ("network", "operators x hosts", "age (s)", "gap", "status", "plans", "CPU s")
    print_table("Large jobs, hot", columns, sizes(options.large))
    print_table("Fewest hosts of numa-cluster", ("load", "head room", "answer", "CPU s"), fewest())


if __name__ == "__main__":
    main()
