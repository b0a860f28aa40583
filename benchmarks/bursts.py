"""What do a learned model and runs add to the rate model, where arrivals come in bursts? Planners on jobs that no suite
and no corpus holds, judged in the simulator.

Run: python -m benchmarks.bursts [--problems N] [--first SEED] [--replications N]. The jobs are those of the family
`demanding` from a seed on: the first that have fifty plans or more and twenty results or more in a run, and whose best
plan at the mean rates keeps up at these, but not at the peak. The rate model is asked about the mean, twice the mean,
and the peak. Regret is against the best of all plans that the planners chose, in runs of the same random numbers.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import count, islice

from benchmarks.table import print_table
from optimizers.interface import Problem
from optimizers.planner import MEAN, PEAK, rates_at
from optimizers.registry import optimizer_by_name
from optimizers.space import SpacePlans
from scenarios.planning import planner, validation
from scenarios.planning.bench import Remembered
from scenarios.planning.cost_models import cost_models, with_loads
from scenarios.planning.searching import in_a_table
from scenarios.planning.validation import validate
from scenarios.suite import FAMILIES
from streamtwin.tables.tables import seconds
from twin.metrics import Estimates
from twin.scenario import Scenario
from twin.simulation import simulate

FAMILY = FAMILIES["demanding"]
PLANNERS, MODELS = "milp,branch-and-bound,searched", "rates,learned"
PLANS, RESULTS = 50, 20
BUDGET = 300


def problems(first: int) -> Iterator[Scenario]:
    """Jobs of the family from a seed on, without end."""
    for seed in count(first):
        job = FAMILY.make(seed).model_copy(update={"name": f"{FAMILY.name}-seed-{seed}"})
        if SpacePlans(job, FAMILY.space.settled(free_subtasks=False)).count >= PLANS and _overloaded_in_bursts(job):
            yield job


def _overloaded_in_bursts(job: Scenario) -> bool:
    """Whether the best plan at the mean rates keeps up, with results enough, but is overloaded at the peak."""
    mean, peak = rates_at(MEAN), rates_at(PEAK)
    asked = Problem(scenario=job, cost_model=mean, objective=FAMILY.objective, space=FAMILY.space)
    found = optimizer_by_name("milp").solve(asked)
    per_s = float(mean.predict(job, [found.plan])["throughput_per_s"][0])
    enough = per_s * (job.run.horizon_s - job.run.warmup_s) >= RESULTS
    return enough and found.feasible and not _keeps_up(peak.predict(job, [found.plan]))


def _keeps_up(said: Estimates) -> bool:
    return bool(said["backpressured"][0] < 0.5 <= said["success"][0])


def main() -> None:
    """Prints a line a planner and cost model, the best first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=16)
    parser.add_argument("--first", type=int, default=20_000, help="seed of the first job that is looked at")
    parser.add_argument("--replications", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0, help="of the runs that judge")
    given = parser.parse_args()
    rows, models = [], list(cost_models(MODELS).values())
    for number, job in enumerate(islice(problems(given.first), given.problems), start=1):
        run = Remembered(simulate)
        rows += validate(
            [job],
            planner.optimizers(PLANNERS),
            with_loads(models, job),
            run,
            given.replications,
            given.seed,
            objective=FAMILY.objective,
            budget=BUDGET,
            references=0,
            space=FAMILY.space,
            planner_of=in_a_table,
        )
        print(f"{number} of {given.problems}: {job.name}", flush=True)
    print_table(
        f"{given.problems} jobs in bursts, from seed {given.first} on; {given.replications} runs a plan",
        ("planner", "cost model", "jobs", "worse kind", "regret, mean", "± 95 %", "median", "90 %", "planning"),
        [
            (
                each.optimizer,
                each.cost_model,
                str(each.scenarios),
                str(each.spoilt),
                *("-" if part is None else f"{part:.1%}" for part in (each.mean, each.ci95, each.median, each.p90)),
                seconds(each.plan_s),
            )
            for each in validation.standings(rows)
        ],
    )


if __name__ == "__main__":
    main()
