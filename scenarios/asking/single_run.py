"""One run of one scenario: the only place of this room that simulates."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from optimizers.policies import policy_by_name
from twin.run import Run
from twin.scenario import Scenario, config_hash
from twin.simulation import simulate
from twin.version import VERSION
from twin.workload import Replay


@dataclass(frozen=True, slots=True)
class Case:
    """What is simulated, whatever the random numbers. policy: who decides while it runs, by name."""

    scenario: Scenario
    policy: str | None = None


def run(case: Case, seed: int) -> Run:
    """Same arguments, same run. Raises BadInput as `twin.simulation.simulate` does."""
    scenario = case.scenario
    settings = scenario.run.model_copy(update={"seed": seed})
    policy = policy_by_name(case.policy, scenario.deployment) if case.policy is not None else None
    return simulate(scenario.deployment, settings, scenario.events, policy)


def key(case: Case) -> str:
    """16 hex digits over all that decides a run except its seed, the recordings that are replayed included."""
    scenario = case.scenario
    laws = scenario.workload.arrivals.items()
    recorded = {name: _digest(Path(law.path)) for name, law in laws if isinstance(law, Replay)}
    settled = config_hash(scenario.deployment, scenario.run, scenario.events, case.policy)
    return hashlib.sha256(json.dumps([VERSION, settled, recorded]).encode()).hexdigest()[:16]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
