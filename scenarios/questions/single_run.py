"""Makes one run of one scenario. This is the only file of this folder that simulates."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from twin.guards.watch import MOST_S
from twin.run import Run
from twin.scenario import Scenario, config_hash
from twin.simulation import simulate
from twin.version import VERSION
from twin.workload import Replay


def run(scenario: Scenario, seed: int, looks: int = 0, most_s: float = MOST_S) -> Run:
    """Makes a run, as `twin.simulation.simulate` does; the same arguments give the same run."""
    return simulate(scenario.with_run(seed=seed), looks=looks, most_s=most_s)


def key(scenario: Scenario) -> str:
    """Hash (16 hex digits) of all that decides a run except its seed, including the recordings that are replayed."""
    laws = scenario.workload.arrivals.items()
    recorded = {name: _digest(Path(law.path)) for name, law in laws if isinstance(law, Replay)}
    return hashlib.sha256(json.dumps([VERSION, config_hash(scenario), recorded]).encode()).hexdigest()[:16]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
