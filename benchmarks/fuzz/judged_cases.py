"""Scenarios with other numbers, whose figures are judged: no law of conservation is broken (every run checks them),
the kernel and the engine agree to the last bit, and the rate model says about the same throughput."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

from benchmarks.fuzz.mutate import changed_data
from benchmarks.fuzz.outcome import ANNOUNCED, RAN, WRONG, Outcome, of_call
from benchmarks.fuzz.scenario_cases import FILES
from benchmarks.validity.kernel import difference, in_engine
from scenarios.files import scenario_file
from scenarios.files.yaml_text import parse_text, to_text
from twin.guards.effort import ENGINE_S, require_feasible
from twin.rates.model import RateModel
from twin.run import Run
from twin.scenario import Scenario
from twin.simulation import simulate

RUN = {"horizon_s": 8, "warmup_s": 2, "period_s": 2, "noise": False}
MOST_CPU_S = 1.0
"""Of a run in the engine."""
ENOUGH, APART = 500, 1.5
"""Results of a run whose throughput is judged, and the factor by which the rate model may be off."""


def judged_case(random: Random, folder: Path) -> Outcome:
    """A file of the library with up to four other numbers, run by both."""
    found: list[str] = []
    outcome = of_call(lambda: found.append(_judged(random, folder / "s.yaml")))
    if outcome.kind != RAN or not found[0]:
        return outcome
    return Outcome(ANNOUNCED if found[0] == ANNOUNCED else WRONG, found[0], outcome.cpu_s)


def _judged(random: Random, path: Path) -> str:
    """What is wrong; empty if nothing is."""
    data = parse_text(random.choice(FILES).read_text(encoding="utf-8"), "library")
    assert isinstance(data, dict)
    data["run"] = {**data.get("run", {}), **RUN, "seed": random.randrange(1000)}
    changed = changed_data({key: value for key, value in data.items() if key != "run"}, random, numbers_only=True)
    assert isinstance(changed, dict)
    path.write_text(to_text({**changed, "run": data["run"]}), encoding="utf-8")
    scenario = scenario_file.load(str(path))
    if sum(load.services for load in require_feasible(scenario).loads) * ENGINE_S > MOST_CPU_S:
        return ANNOUNCED
    engine, kernel = in_engine(scenario), simulate(scenario)
    if differing := difference(engine, kernel):
        return f"kernel and engine differ in {differing}"
    return _against_rates(scenario, kernel)


def _against_rates(scenario: Scenario, run: Run) -> str:
    model = RateModel()
    if scenario.events or scenario.policy or scenario.checkpoints or model.blind_to(scenario) or run.crashed:
        return ""
    said = float(model.predict(scenario, [scenario.plan])["throughput_per_s"][0])
    measured = run.metrics.throughput_per_s
    seconds = run.manifest["simulated_s"] - run.manifest["warmup_s"]
    if min(said, measured) * seconds < ENOUGH or abs(math.log(said / measured)) < math.log(APART):
        return ""
    return f"the rate model says {said:.4g} results a second, the run has {measured:.4g}"
