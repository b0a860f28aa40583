"""All spaces of random scenarios by name, and the scenarios that a corpus draws from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pkgutil import resolve_name

import numpy as np

from optimizers.interface import plan_on
from optimizers.rules import PlacementSpace
from scenarios.spaces.generator import (
    COSTREAM,
    UNSEEN_HARDWARE,
    ParameterSpace,
    chains,
    on_random_hardware,
    random_scenario,
)
from twin.cluster import Host
from twin.errors import BadInput, suggest
from twin.randomness import child_seed, random_stream
from twin.scenario import RunSettings, Scenario
from twin.spec import parse

# spaces by name ------------------------------------------------------------------------------------------------------


SPACES: Mapping[str, ParameterSpace] = {
    "costream": COSTREAM,
    "costream-chain2": chains(2),
    "costream-chain3": chains(3),
    "costream-chain4": chains(4),
    "costream-chains": chains(2, 3, 4),
    **UNSEEN_HARDWARE,
}


@dataclass(frozen=True, slots=True)
class DrawnSpace:
    """Space that draws engines, too. draws: `module:function`, from a seed and the length of the run in seconds (or
    None) to a scenario; it is imported only when it is used."""

    summary: str
    draws: str

    def scenario(self, seed: int, horizon_s: float | None) -> Scenario:
        """Draws a scenario. horizon_s: length of the run in seconds; None: as the space draws it."""
        drawn: Scenario = resolve_name(self.draws)(seed, horizon_s)
        return drawn


DRAWN: Mapping[str, DrawnSpace] = {
    "wide": DrawnSpace(
        "random engines, queries with maps and measured joins, subtasks and sockets; for models used as they are",
        "scenarios.spaces.wide:wide_scenario",
    ),
    "demanding": DrawnSpace(
        "bursts, skewed and drifting keys, calls, links in a row, crowded hosts near their limits; likewise",
        "scenarios.spaces.wide:demanding_scenario",
    ),
    "flink": DrawnSpace(
        "jobs of Flink over all that composes: kinds, windows, event time, state, checkpoints, calls; 1 to 12 sources",
        "scenarios.spaces.flink:flink_scenario",
    ),
}
"""Spaces that are no `ParameterSpace`. A new one is a file and an entry here."""


# scenarios of a corpus -----------------------------------------------------------------------------------------------
# A corpus is made by a function from a run's index to its scenario that can be pickled: an object, or a partial.


RATE_FACTOR = 2.0
HARDWARE_FACTOR = 1.5
"""Largest factors, up and down, by which a family varies each source's rate and host's features (log-uniformly)."""

Make = Callable[[int], Scenario]
"""Function from a run's index to its scenario."""
OTHERS_EVERY = 10
"""One run in so many is one of the others (`among_others`)."""
MOST_DRAWS = 100
"""Most placements that are drawn for a run until links allow one."""


@dataclass(frozen=True, slots=True)
class RandomScenarios:
    """Random queries on random clusters, from a space of `scenarios.spaces.generator`."""

    space: str
    seed: int
    settings: RunSettings

    def __post_init__(self) -> None:
        _check_space(self.space)

    def __call__(self, index: int) -> Scenario:
        """Scenario of a run, determined by space, seed and index."""
        return random_scenario(SPACES[self.space], child_seed(self.seed, index), self.settings)


def drawn(space: str, seed: int, index: int, horizon_s: float | None = None) -> Scenario:
    """Scenario of a run in a space that draws engines, too, determined by space, seed and index. horizon_s: of every
    run; None: as the space draws it."""
    return DRAWN[space].scenario(child_seed(seed, index), horizon_s)


@dataclass(frozen=True, slots=True)
class OneQuery:
    """Scenarios of one query, with rates, hosts and placement drawn from a space (Costream, Exp. 6)."""

    scenario: Scenario
    space: str
    seed: int

    def __post_init__(self) -> None:
        _check_space(self.space)
        refuse_unseen(self.scenario)
        if self.scenario.cluster.links:
            raise BadInput(
                f"{self.scenario.name} has links between its own hosts, and a space draws others without any; remove "
                "cluster.links from the file, or leave --space out"
            )
        if self.scenario.checkpoints is not None and self.scenario.checkpoints.storage is not None:
            raise BadInput(
                f"{self.scenario.name} keeps checkpoints on its host {self.scenario.checkpoints.storage!r}, and a "
                "space draws other hosts; add --set checkpoints.storage=null, or leave --space out"
            )
        if pinned := _pinned(self.scenario):
            free = " ".join(f"--set query.operators.{name}.pinned=false" for name in pinned)
            raise BadInput(
                f"{self.scenario.name} pins {', '.join(pinned)} to its own hosts, and a space draws others; "
                f"add {free}, or leave --space out"
            )
        self(0)  # a space may lack rates for so many sources

    def __call__(self, index: int) -> Scenario:
        """Scenario of a run, determined by scenario, space, seed and index."""
        base = self.scenario.model_copy(update={"name": f"{self.scenario.name}-{index}", "description": ""})
        return on_random_hardware(base, SPACES[self.space], child_seed(self.seed, index))


@dataclass(frozen=True, slots=True)
class ScenarioFamily:
    """Variations of one scenario: its placement is drawn anew (uniformly, by Costream's rules), rates and hosts vary.
    Links, switches, the skew of keys and the assignment of key groups stay; so do pinned operators, even against the
    rules.
    """

    scenario: Scenario
    seed: int

    def __post_init__(self) -> None:
        refuse_unseen(self.scenario)
        self(0)  # links may leave no placement

    def __call__(self, index: int) -> Scenario:
        """Variation of a run, determined by scenario, seed and index."""
        base = self.scenario
        rng = random_stream(child_seed(self.seed, index), "family")
        hosts = tuple(_varied(host, rng) for host in base.cluster.hosts)
        cluster = base.cluster.model_copy(update={"hosts": hosts})
        arrivals = {name: law.scaled(_factor(rng, RATE_FACTOR)) for name, law in base.workload.arrivals.items()}
        parts = {
            "cluster": cluster,
            "workload": base.workload.model_copy(update={"arrivals": arrivals}),
            "name": f"{base.name}-{index}",
            "description": "",
        }
        space = PlacementSpace(base.query, cluster)
        pinned = {name: base.plan.placement[name] for name in _pinned(base)}
        fields = {**dict(base), **parts}
        for _ in range(MOST_DRAWS):
            drawn = plan_on(base, space.draw(rng)).placement
            fields["plan"] = base.plan.with_placement({**drawn, **pinned})
            try:
                return Scenario(**fields)
            except ValueError:  # no route connects the hosts
                continue
        return parse(Scenario, fields, f"{base.name}: none of {MOST_DRAWS} random placements fits it, such as")


def among_others(family: ScenarioFamily, others: RandomScenarios, index: int) -> Scenario:
    """Scenario of a family, or in every tenth run of `others`: a model must see jobs that fail to recognise them."""
    return others(index) if index % OTHERS_EVERY == OTHERS_EVERY - 1 else family(index)


def replicated(make: Make, distinct: int, index: int) -> Scenario:
    """Scenario of a run where the first `distinct` scenarios of a maker are repeated after them.

    A corpus gives every run a seed of its own, so the second run of a scenario differs in nothing but the seed.
    """
    return make(index % distinct)


def _pinned(scenario: Scenario) -> list[str]:
    return [operator.name for operator in scenario.query.operators if operator.pinned]


def refuse_unseen(scenario: Scenario, where: str = "", remedy: str = "add --set '{key}={none}'") -> None:
    """Raises BadInput for events and policies: labels would depend on them, but training rows do not hold them. where,
    remedy: beginning and end of the message."""
    for key, given, none in (("events", scenario.events, "[]"), ("policy", scenario.policy, "null")):
        if given:
            told = f"{scenario.name} has {key}, which no row of a data set shows"
            raise BadInput(f"{where}{': ' * bool(where)}{told}; {remedy.format(key=key, none=none)}")


def _check_space(name: str) -> None:
    if name in DRAWN:
        raise BadInput(f"space {name!r} draws its own queries and engines; leave --scenario out, or take costream")
    if name not in SPACES:
        raise BadInput(f"unknown space {name!r}; {suggest(name, (*SPACES, *DRAWN))}")


def _factor(rng: np.random.Generator, most: float) -> float:
    return float(np.exp(rng.uniform(-np.log(most), np.log(most))))


def _varied(host: Host, rng: np.random.Generator) -> Host:
    features = ("cpu_percent", "ram_mb", "bandwidth_mbps", "latency_ms")
    return host.model_copy(update={name: getattr(host, name) * _factor(rng, HARDWARE_FACTOR) for name in features})
