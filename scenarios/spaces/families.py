"""What a corpus simulates: picklable functions from a run's index to its scenario."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optimizers.enumeration import PlacementSpace
from optimizers.interface import plan_on
from scenarios.spaces.generator import SPACES, on_random_hardware, random_scenario
from twin.cluster import Cluster, Host
from twin.errors import BadInput, suggest
from twin.randomness import child_seed, stream
from twin.scenario import RunSettings, Scenario
from twin.workload import Workload

RATE_FACTOR = 2.0
HARDWARE_FACTOR = 1.5
"""A family varies each source's rate, and each host's features, by up to this factor up and down (log-uniformly)."""

OTHERS_EVERY = 10


@dataclass(frozen=True, slots=True)
class RandomScenarios:
    """Random queries on random clusters, from a space of `scenarios.spaces.generator`."""

    space: str
    seed: int
    settings: RunSettings

    def __post_init__(self) -> None:
        _check_space(self.space)

    def __call__(self, index: int) -> Scenario:
        """Scenario `index`; the same for the same space, seed and index."""
        return random_scenario(SPACES[self.space], child_seed(self.seed, index), self.settings)


@dataclass(frozen=True, slots=True)
class OneQuery:
    """The query of one scenario; rates, hosts and placement drawn from a space (Costream, Exp. 6)."""

    scenario: Scenario
    space: str
    seed: int

    def __post_init__(self) -> None:
        _check_space(self.space)
        if self.scenario.events:
            raise BadInput(f"{self.scenario.name} has events, which may name its own hosts; remove them from the file")
        self(0)  # a space may lack rates for so many sources

    def __call__(self, index: int) -> Scenario:
        """Scenario `index`; the same for the same scenario, space, seed and index."""
        base = self.scenario.model_copy(update={"name": f"{self.scenario.name}-{index}", "description": ""})
        return on_random_hardware(base, SPACES[self.space], child_seed(self.seed, index))


@dataclass(frozen=True, slots=True)
class ScenarioFamily:
    """One scenario with its placement drawn anew (uniformly, by Costream's rules), rates and hardware varied."""

    scenario: Scenario
    seed: int
    rate_factor: float = RATE_FACTOR
    hardware_factor: float = HARDWARE_FACTOR

    def __call__(self, index: int) -> Scenario:
        """Member `index`; the same for the same scenario, seed and index."""
        base = self.scenario
        rng = stream(child_seed(self.seed, index), "family")
        hosts = tuple(_varied(host, rng, self.hardware_factor) for host in base.cluster.hosts)
        cluster = Cluster(hosts=hosts)
        arrivals = {name: law.scaled(_factor(rng, self.rate_factor)) for name, law in base.workload.arrivals.items()}
        placement = PlacementSpace(base.query, cluster).draw(rng)
        parts = {
            "cluster": cluster,
            "workload": Workload(arrivals=arrivals),
            "plan": plan_on(base, placement),
            "name": f"{base.name}-{index}",
            "description": "",
        }
        return Scenario(**{**dict(base), **parts})


@dataclass(frozen=True, slots=True)
class FamilyAmongOthers:
    """A family, with every tenth run from `others`: a model must also see jobs that fail, or it cannot tell them."""

    family: ScenarioFamily
    others: RandomScenarios

    def __call__(self, index: int) -> Scenario:
        """Scenario `index` of whichever has its turn."""
        return self.others(index) if index % OTHERS_EVERY == OTHERS_EVERY - 1 else self.family(index)


@dataclass(frozen=True, slots=True)
class Replicated:
    """The first `distinct` scenarios of a maker, and from there on the same ones again.

    A corpus gives every run a seed of its own, so the second run of a scenario differs in nothing but the seed.
    """

    make: RandomScenarios | OneQuery | FamilyAmongOthers
    distinct: int

    def __call__(self, index: int) -> Scenario:
        """Scenario `index` modulo the number of distinct ones."""
        return self.make(index % self.distinct)


def _check_space(name: str) -> None:
    if name not in SPACES:
        raise BadInput(f"unknown space {name!r}; {suggest(name, SPACES)}")


def _factor(rng: np.random.Generator, most: float) -> float:
    return float(np.exp(rng.uniform(-np.log(most), np.log(most))))


def _varied(host: Host, rng: np.random.Generator, most: float) -> Host:
    features = ("cpu_percent", "ram_mb", "bandwidth_mbps", "latency_ms")
    return host.model_copy(update={name: getattr(host, name) * _factor(rng, most) for name in features})
