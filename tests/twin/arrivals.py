"""Helpers for tests of arrivals: laws, records from a law's clock, a source that only collects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.twin.worlds import chain, world_of
from twin.arrivals.laws import ArrivalLaw
from twin.randomness import random_stream
from twin.run import Run
from twin.scenario import RunSettings
from twin.spec import parse
from twin.workload import Workload
from twin.world.brokers import ArrivalClock, Broker, arrival_clock
from twin.world.world import World

TWO_STATES = {"law": "bursty", "states": [{"rate_per_s": 400, "mean_s": 0.5}, {"rate_per_s": 0, "mean_s": 1.5}]}
DIURNAL = {"law": "diurnal", "rate_per_s": 300, "amplitude": 1, "period_s": 8, "phase": 0.25}
STEPS = {
    "law": "steps",
    "period_s": 8,
    "steps": [{"at_s": 1, "rate_per_s": 500}, {"at_s": 3, "rate_per_s": 0}, {"at_s": 6, "rate_per_s": 100}],
}
SPIKES = {"law": "spikes", "rate_per_s": 100, "factor": 8, "every_s": 4, "duration_s": 1}
RATES = "time_s,rate_per_s\n100,50\n102,700\n103,0\n104,100\n"  # lasts 4 + 4/3 s
LAWS = {
    "poisson": {"law": "poisson", "rate_per_s": 200},
    "constant": {"law": "constant", "rate_per_s": 200},
    "diurnal": DIURNAL,
    "steps": STEPS,
    "spikes": SPIKES,
}


def law_of(data: dict[str, Any]) -> ArrivalLaw:
    return parse(Workload, {"arrivals": {"source": data}}).arrivals["source"]


def clock_of(law: ArrivalLaw, seed: int = 1, subtask: int = 0, parallelism: int = 1) -> ArrivalClock:
    return arrival_clock(law, subtask, parallelism, random_stream(seed, f"own{subtask}"), random_stream(seed, "shared"))


def times(clock: ArrivalClock, until_s: float) -> Iterator[float]:
    """Times at which records arrive, up to a time."""
    while True:
        for at_s in clock.block().tolist():
            if at_s > until_s:
                return
            yield at_s


def counts(clock: ArrivalClock, edges: np.ndarray) -> np.ndarray:
    """Numbers of records between neighbouring edges."""
    return np.histogram(list(times(clock, edges[-1] + 0.5)), edges)[0]


def broker_of(data: dict[str, Any], seed: int = 1) -> tuple[World, Broker]:
    """World with a source that takes nothing, and its broker."""
    world = world_of(chain([], data), RunSettings(seed=seed))
    (task,) = world.tasks["source"]
    task.halted = True
    (broker,) = world.brokers["source"]
    return world, broker


def arrived(run: Run) -> np.ndarray:
    return np.array([row["arrived"] for row in run.operator_rows if row["operator"] == "source"])
