"""Plans of one query scored a second, by each cost model; what a model has learned does not matter for its speed.

Run: python -m benchmarks.plan_scoring [--plans N] [--repeat N]. The learned models have fresh weights and the sizes of
the presets: Costream's, one network of 128 features for each of five metrics, and ours, one for all, which sees the
rate model's answer for each plan. Three members each. All is warm: the best of a few repetitions. The query is the
first of the Costream space that is large enough.
"""

from __future__ import annotations

import argparse
import time
from itertools import count

from benchmarks.table import print_table
from models.checkpoint import Ensemble
from models.gnn import initial
from models.labels import Scaling
from models.prediction import LearnedCostModel
from models.settings import OURS, PAPER, NetworkConfig, TrainingSettings
from optimizers.rules import PlacementSpace
from scenarios.spaces.generator import COSTREAM, random_scenario
from twin.metrics import BINARY_METRICS, METRICS, CostModel
from twin.randomness import random_stream
from twin.rates.model import RateModel
from twin.rates.seats import Placements
from twin.scenario import RunSettings, Scenario

MEMBERS = 3
GOAL_PER_S = 50_000
CHOICE = ("processing_latency_s", *BINARY_METRICS)


def query(plans: int) -> tuple[Scenario, PlacementSpace]:
    """First random query of eight operators or more with at least twice as many valid placements as `plans`."""
    drawn = (random_scenario(COSTREAM, seed, RunSettings()) for seed in count())
    large = ((each, PlacementSpace(each.query, each.cluster)) for each in drawn if len(each.query.operators) >= 8)
    return next((scenario, space) for scenario, space in large if space.count >= 2 * plans)


def untrained(settings: TrainingSettings, metrics: tuple[str, ...]) -> Ensemble:
    """Ensemble with fresh weights."""
    scaling = Scaling((0.0,) * len(metrics), (1.0,) * len(metrics), settings.scale)
    network = settings.network.model_copy(update={"outputs": len(metrics)})
    return Ensemble(metrics, network, scaling, tuple(initial(network, seed) for seed in range(MEMBERS)), {})


def models() -> dict[str, CostModel]:
    """Cost models by what each one scores."""
    costs = TrainingSettings(network=NetworkConfig(features="costs"))
    costream = LearnedCostModel("paper", tuple(untrained(PAPER, (metric,)) for metric in METRICS))
    return {
        "rate model, five metrics": RateModel(),
        "Costream's networks, Lp": costream.only(CHOICE[:1]),
        "Costream's networks, Lp, RO, S: what a choice needs": costream.only(CHOICE),
        "Costream's networks, five metrics": costream,
        "48 features, no rate model, five metrics": LearnedCostModel("costs", (untrained(costs, METRICS),)),
        "ours, five metrics": LearnedCostModel("ours", (untrained(OURS, METRICS),)),
    }


def main() -> None:
    """Prints plans a second beside the goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    scenario, space = query(options.plans)
    started_s = time.perf_counter()
    placements = Placements(scenario, space.sample(random_stream(0, "candidates"), options.plans))
    rows = [("drawing different valid plans", len(placements) / (time.perf_counter() - started_s), "", "")]
    for name, model in models().items():
        wall_s, cpu_s = [], []
        for _ in range(1 + options.repeat):
            started_s, cpu_started_s = time.perf_counter(), time.process_time()
            model.predict(scenario, placements)
            wall_s.append(time.perf_counter() - started_s)
            cpu_s.append(time.process_time() - cpu_started_s)
        rows.append((name, len(placements) / min(wall_s[1:]), len(placements) / min(cpu_s[1:]), GOAL_PER_S))
    title = (
        f"{len(placements):,} of {space.count:,} plans of {len(scenario.query.operators)} operators on "
        f"{len(scenario.cluster.hosts)} hosts, {MEMBERS} members"
    )
    print_table(title, ("", "plans/s", "plans a CPU second", "goal/s"), rows)


if __name__ == "__main__":
    main()
