"""A fixed, versioned suite of placement problems, so that optimizers are compared on the same ones everywhere.

A change of what it has, or of how a family makes its scenarios, is a new version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from optimizers.balancing.problem import Balance
from optimizers.milp.optimizer import highest_rate
from optimizers.objectives import USUAL_METRIC, at_rate
from optimizers.program import ProgramLimits
from optimizers.space import ALL_PLANS, Space
from scenarios.files import scenario_file
from scenarios.spaces.generator import COSTREAM, ParameterSpace, random_scenario
from scenarios.spaces.wide import at_utilisation
from twin.arrivals.laws import BurstState, Bursty
from twin.cluster import Cluster, Host, Link, Numa, Socket
from twin.errors import BadInput, suggest
from twin.plan import ExecutionPlan
from twin.randomness import random_stream
from twin.scenario import RunSettings, Scenario
from twin.spec import parse
from twin.workload import Workload, group_count

# contents ------------------------------------------------------------------------------------------------------------
# Contents of the suite by family: a line about it, and the seeds of its members, without making any.
#
# Members of families that ask for a placement have the first seeds whose jobs have fifty plans or more, one of which
# keeps up by the rate model, and brings twenty results or more in a run. In `demanding`, the best plan by the rate
# model is also overloaded in bursts. Jobs that ask for the cheapest hosts have a plan that keeps up with head room by
# the rate model.


VERSION = 4
"""Version of the suite. 2 added families that ask for something else than a placement, 3 added `demanding`, 4
`nexmark`. Members of earlier versions are unchanged."""


@dataclass(frozen=True, slots=True)
class Members:
    """Members of one family. asks: the kind of answer, which chooses the judge (`scenarios/benchmarking`)."""

    summary: str
    seeds: tuple[int, ...]
    asks: str = "placement"


MEMBERS: Mapping[str, Members] = {
    "edge-linear": Members(
        "one source, Costream's hosts",
        (9000, 9001, 9002, 9004, 9005, 9006, 9007, 9008, 9009, 9011, 9013, 9014),
    ),
    "edge-2-way": Members(
        "two sources and a join",
        (9101, 9102, 9104, 9105, 9106, 9107, 9109, 9110, 9112, 9114, 9116, 9117),
    ),
    "edge-3-way": Members(
        "three sources and two joins",
        (9202, 9204, 9209, 9216, 9217, 9219, 9220, 9221, 9225, 9227),
    ),
    "links": Members("gateways, fog and cloud behind links; sources are pinned", tuple(range(9300, 9310))),
    "replicas": Members("two subtasks an operator, on equal hosts", tuple(range(9400, 9408))),
    "hosts-and-sockets": Members(
        "three hosts of two sockets",
        (9500, 9501, 9502, 9503, 9504, 9505, 9507, 9508),
    ),
    "numa": Members("one host of four sockets", (9600, 9601, 9602, 9604, 9605, 9606, 9607, 9608)),
    "demanding": Members(
        "arrivals in bursts, on hosts of one core each",
        (
            *(10000, 10001, 10002, 10003, 10004, 10008, 10009, 10010, 10011, 10012, 10014, 10016),
            *(10017, 10018, 10019, 10020, 10023, 10024, 10025, 10026, 10027, 10028, 10029, 10030),
        ),
    ),
    "nexmark": Members(
        "SQL jobs of Flink on four task managers, three subtasks an operator", (3, 4, 8, 9, 17, 18, 19, 20)
    ),
    "cheapest-hosts": Members(
        "six hosts at two prices, for a given rate with head room",
        (9700, 9701, 9702, 9704, 9705, 9706, 9707, 9708),
        asks="hosts",
    ),
    "key-groups": Members(
        "key groups on unequally loaded nodes; a limited number may migrate", tuple(range(9800, 9812)), asks="balance"
    ),
    "changing-load": Members(
        "loads that rise and fall while the job runs; a policy may scale it", tuple(range(9900, 9906)), asks="policy"
    ),
}
JUDGED: Mapping[str, str] = {
    "placement": "regret in the simulator",
    "hosts": "price of hosts over the cheapest, proved in the simulator",
    "balance": "what is left of the imbalance that can be removed, computed",
    "policy": "end-to-end latency over the best, in the simulator",
}
"""Meaning of regret, by the kind of answer that a family asks for."""


# problems that ask for no placement ----------------------------------------------------------------------------------
# Problems of the suite that ask for no placement, from a seed each: jobs whose load changes while they run, and key
# groups on nodes that are loaded unevenly.


CHANGING_RUN = RunSettings(horizon_s=240.0, warmup_s=20.0, period_s=10.0)
LOW = 0.5
"""Utilisation of the most costly operator at the start."""
WORKERS = 4
MEAN = 60.0
"""Mean load of a node, in percent."""
SKEWS = (0.2, 0.5, 1.0)
"""Standard deviations of the log of a group's load."""
SHARES = (0.01, 0.05, 0.2)
"""Shares of key groups that may migrate."""


def changing(seed: int) -> Scenario:
    """Job of a source, a costly map, a keyed window, a sink; its rate rises once, rises and falls, or climbs in steps.

    At first one subtask of each operator is enough by far; at the peak the most costly one needs two to four.
    """
    rng = random_stream(seed, "suite")
    rate, window_s = float(rng.uniform(200, 600)), float(rng.choice([1.0, 2.0, 5.0]))
    peak = float(rng.uniform(2.5, 5.0))
    courses = ([(60, peak)], [(60, peak), (150, 1.0)], [(50, peak**0.5), (110, peak)])
    operators: list[dict[str, Any]] = [
        {"kind": "source", "name": "events", "columns": {"ints": 2, "strings": 1, "doubles": 1}},
        {"kind": "map", "name": "enrich", "service_time_s": LOW / rate},
        {
            "kind": "aggregate",
            "name": "count",
            "group_by": "int",
            "groups": 200,
            "window": {"policy": "time", "size_s": window_s},
            "service_time_s": float(rng.uniform(0.05, 0.4)) * LOW / rate,
        },
        {"kind": "sink", "name": "out"},
    ]
    names = [each["name"] for each in operators]
    hosts = [_worker(f"worker-{n}") for n in range(1, WORKERS + 1)]
    document = {
        "name": f"changing-load-{seed}",
        "query": {
            "operators": operators,
            "streams": [{"producer": a, "consumer": b} for a, b in pairwise(names)],
        },
        "cluster": {"hosts": [_worker("gateway"), *hosts]},
        "plan": {"placement": dict(zip(names, ("gateway", "worker-1", "worker-1", "gateway"), strict=True))},
        "workload": {"arrivals": {"events": {"law": "poisson", "rate_per_s": rate}}},
        "run": CHANGING_RUN.model_dump(mode="json"),
        "events": [
            {"kind": "rate-change", "at_s": float(at_s), "source": "events", "factor": factor}
            for at_s, factor in courses[int(rng.integers(len(courses)))]
        ],
    }
    return parse(Scenario, document, "suite")


def _worker(name: str) -> dict[str, Any]:
    return {"name": name, "cpu_percent": 200, "ram_mb": 8000, "bandwidth_mbps": 1000, "latency_ms": 1}


def unbalanced(seed: int) -> Balance:
    """Balancing problem: 5 to 40 nodes of one or two capacities, unevenly loaded by 10 to 40 groups of lognormal load
    each."""
    rng = random_stream(seed, "suite")
    nodes, each = int(rng.integers(5, 41)), int(rng.integers(10, 41))
    load = np.exp(rng.choice(SKEWS) * rng.standard_normal((nodes, each)))
    load *= (MEAN * rng.uniform(0.5, 1.5, nodes) / load.sum(axis=1))[:, None]
    capacity = rng.choice([1.0, 2.0], nodes) if rng.random() < 0.5 else np.ones(nodes)
    budget = max(1, round(float(rng.choice(SHARES)) * nodes * each))
    home = np.repeat(np.arange(nodes), each)
    return Balance(loads={"cpu": load.ravel()}, home_g=home, capacity_h=capacity, budget=budget)


# families ------------------------------------------------------------------------------------------------------------
# Costream's queries by their number of sources; such queries behind links, with sources pinned to gateways; subtasks
# that may run on different hosts; hosts with sockets; one host of many sockets; arrivals in bursts; jobs of Flink SQL.
# Rates are set so that the best placement by linear loads has a utilisation of LOAD: there placement decides, but a
# good plan keeps up.


TOGETHER = Space(spread=False)
LOAD = 0.7
RUN = RunSettings(horizon_s=40.0, warmup_s=10.0, period_s=10.0)
NODES = 200
"""Most nodes of the search for a job's highest rate; a limit on nodes, unlike one on time, is the same on all machines.
"""


@dataclass(frozen=True, slots=True)
class Family:
    """Family of problems. make: a scenario from a seed. space: of the plans that may be chosen. seeds: of its members.
    objective: by which plans are judged; with bursts the end-to-end latency, as records wait before they are ingested.
    """

    name: str
    make: Callable[[int], Scenario]
    space: Space
    seeds: tuple[int, ...]
    objective: str = USUAL_METRIC

    def scenarios(self, most: int | None = None) -> list[Scenario]:
        """Members of the family, or the first `most` of them, in order, named after the family."""
        return [self.member(number) for number in range(len(self.seeds[:most]))]

    def member(self, number: int) -> Scenario:
        """Member of the family, counted from 0."""
        return self.make(self.seeds[number]).model_copy(update={"name": f"{self.name}-{number + 1}"})


def edge(sources: int) -> Callable[[int], Scenario]:
    """Function that makes members from Costream's space with so many sources."""
    space = replace(COSTREAM, sources={sources: 1.0}, window_sizes_s=(0.25, 0.5, 1, 2, 4))
    return lambda seed: loaded(_drawn(space, seed))


def behind_links(seed: int) -> Scenario:
    """Job on a tree of links: two gateways, on which the sources stay, two fog nodes and a cloud."""
    base = _drawn(replace(COSTREAM, sources={1: 1.0, 2: 1.0}, window_sizes_s=(0.25, 0.5, 1)), seed)
    hosts = (
        *(_host(f"gateway-{n}", 100, 2000, 100) for n in (1, 2)),
        *(_host(f"fog-{n}", 300, 8000, 1000) for n in (1, 2)),
        _host("cloud", 800, 32_000, 10_000),
    )
    links = (
        *(Link(between=(f"gateway-{n}", f"fog-{n}"), bandwidth_mbps=100, latency_ms=2) for n in (1, 2)),
        *(Link(between=(f"fog-{n}", "cloud"), bandwidth_mbps=1000, latency_ms=20) for n in (1, 2)),
    )
    sources = [source.name for source in base.query.sources]
    placement = {each.name: ("cloud",) for each in base.query.operators}
    placement |= {name: (f"gateway-{number % 2 + 1}",) for number, name in enumerate(sources)}
    operators = tuple(
        each.model_copy(update={"pinned": True}) if each.name in sources else each for each in base.query.operators
    )
    query = base.query.model_copy(update={"operators": operators})
    return loaded(_changed(base, query=query, cluster=Cluster(hosts=hosts, links=links), placement=placement))


def replicated(seed: int) -> Scenario:
    """Job on three or four equal hosts, with two subtasks, maybe apart, of every operator but sources and sinks."""
    base = _drawn(replace(COSTREAM, sources={1: 1.0}), seed)
    count = int(random_stream(seed, "suite").integers(3, 5))
    hosts = tuple(_host(f"host-{n}", 200, 16_000, 1000, latency_ms=1) for n in range(1, count + 1))
    placement = {each.name: ("host-1",) * (1 if each.is_source or each.is_sink else 2) for each in base.query.operators}
    return loaded(_changed(base, cluster=Cluster(hosts=hosts), placement=placement))


def rented(seed: int) -> Scenario:
    """Job of four subtasks an operator, and six hosts to rent: of one core, or of four at three times the price."""
    base = _drawn(replace(COSTREAM, sources={1: 1.0, 2: 1.0}, window_sizes_s=(0.25, 0.5, 1)), seed)
    hosts = tuple(
        _host(f"{size}-{n}", percent, 16_000, 1000).model_copy(update={"price_per_hour": price})
        for size, percent, price in (("small", 100.0, 1.0), ("large", 400.0, 3.0))
        for n in range(1, 4)
    )
    places = {each.name: ("large-1",) if each.is_sink else ("large-1", "large-2") * 2 for each in base.query.operators}
    whole = loaded(_changed(base, cluster=Cluster(hosts=hosts), placement=places), ALL_PLANS)
    share = float(random_stream(seed, "suite").uniform(0.5, 1.1))
    return at_rate(whole, share)


def sockets(hosts: int, count: int) -> Callable[[int], Scenario]:
    """Function that makes jobs on `hosts` hosts of `count` sockets with two cores each; remote cache lines are slow."""

    def make(seed: int) -> Scenario:
        base = _drawn(replace(COSTREAM, sources={1: 1.0, 2: 1.0}, window_sizes_s=(0.25, 0.5, 1)), seed)
        latency_ns = float(random_stream(seed, "suite").choice([1000, 4000, 16_000]))
        far = tuple(tuple(0.0 if i == j else latency_ns for j in range(count)) for i in range(count))
        parts = {"sockets": (Socket(cores=2),) * count, "numa": Numa(latency_ns=far)}
        made = tuple(
            _host(f"host-{n}", 200 * count, 64_000, 10_000, latency_ms=0.2).model_copy(update=parts)
            for n in range(1, hosts + 1)
        )
        placement = {each.name: ("host-1",) for each in base.query.operators}
        return loaded(_changed(base, cluster=Cluster(hosts=made), placement=placement))

    return make


def demanding(seed: int) -> Scenario:
    """Job on three or four hosts of a core each. One host bears all operators at the mean rates, at a utilisation of 50
    to 90 %, but mostly not in bursts of 1.5 to 4 times these."""
    base = _drawn(replace(COSTREAM, sources={1: 2.0, 2: 1.0}, window_sizes_s=(0.25, 0.5, 1, 2, 4)), seed)
    rng = random_stream(seed, "suite")
    count, latency_ms = int(rng.integers(3, 5)), float(rng.choice([1.0, 5.0, 20.0]))
    hosts = tuple(_host(f"host-{n}", 100, 16_000, 1000, latency_ms) for n in range(1, count + 1))
    placement = {each.name: ("host-1",) for each in base.query.operators}
    steady = at_utilisation(
        _changed(base, cluster=Cluster(hosts=hosts), placement=placement), float(rng.uniform(0.5, 0.9))
    )
    arrivals = {name: _bursts(law.mean_rate_per_s, rng) for name, law in steady.workload.arrivals.items()}
    run = RunSettings(horizon_s=130.0, warmup_s=10.0, period_s=20.0)
    return Scenario(**{**dict(steady), "workload": Workload(arrivals=dict(arrivals)), "run": run})


SLOW_PERCENT = 2.0
"""Speed of the cores of a SQL job's task managers: a fiftieth of those that were measured, so that as many fewer
records make as high a load."""


def sql(number: int) -> Scenario:
    """Nexmark query of the library on four task managers of two cores, with three subtasks of all but what is chained
    to its source, or has one key."""
    base = scenario_file.load(f"nexmark-q{number}")
    chain_of = {name: chain for chain in base.plan.fused for name in chain}
    alone = [each.name for each in base.query.operators if each.is_source or group_count(base.query, each.name, 3) == 1]
    single = {name for each in alone for name in chain_of.get(each, (each,))}
    first = base.cluster.hosts[0].name
    placement = {each.name: (first,) * (1 if each.name in single else 3) for each in base.query.operators}
    power = {"core_percent": SLOW_PERCENT, "cpu_percent": 2.0 * SLOW_PERCENT}
    hosts = tuple(base.cluster.hosts[0].model_copy(update={**power, "name": f"tm-{number}"}) for number in range(1, 5))
    plan = base.plan.model_copy(update={"placement": placement})
    cluster = base.cluster.model_copy(update={"hosts": hosts})
    return loaded(base.model_copy(update={"cluster": cluster, "plan": plan}), ALL_PLANS)


def _bursts(mean_per_s: float, rng: np.random.Generator) -> Bursty:
    """Bursts of 0.5 to 3 s on average, in 10 to 35 % of the time, with the mean rate unchanged."""
    share, burst_s = float(rng.uniform(0.1, 0.35)), float(rng.uniform(0.5, 3.0))
    peak = float(rng.uniform(1.5, min(4.0, 0.9 / share)))
    low = (1.0 - share * peak) / (1.0 - share)
    states = ((low, burst_s * (1.0 - share) / share), (peak, burst_s))
    return Bursty(states=tuple(BurstState(rate_per_s=factor * mean_per_s, mean_s=mean_s) for factor, mean_s in states))


def loaded(scenario: Scenario, space: Space = TOGETHER) -> Scenario:
    """Scenario at LOAD times the highest rate that a placement bears."""
    found = highest_rate(scenario.deployment, space, ProgramLimits(nodes=NODES)).factor
    return at_rate(scenario, LOAD * found) if found else scenario


def _drawn(space: ParameterSpace, seed: int) -> Scenario:
    return random_scenario(space, seed, RUN)


def _changed(base: Scenario, *, placement: Mapping[str, tuple[str, ...]], **parts: object) -> Scenario:
    return Scenario(**{**dict(base), **parts, "plan": ExecutionPlan(placement=dict(placement))})


def _host(name: str, cpu_percent: float, ram_mb: float, bandwidth_mbps: float, latency_ms: float = 1.0) -> Host:
    return Host(name=name, cpu_percent=cpu_percent, ram_mb=ram_mb, bandwidth_mbps=bandwidth_mbps, latency_ms=latency_ms)


FAMILIES: Mapping[str, Family] = {
    name: Family(name, make, space, MEMBERS[name].seeds)
    for name, make, space in (
        ("edge-linear", edge(1), TOGETHER),
        ("edge-2-way", edge(2), TOGETHER),
        ("edge-3-way", edge(3), TOGETHER),
        ("links", behind_links, TOGETHER),
        ("replicas", replicated, ALL_PLANS),
        ("hosts-and-sockets", sockets(3, 2), TOGETHER),
        ("numa", sockets(1, 4), TOGETHER),
        ("cheapest-hosts", rented, ALL_PLANS),
        ("nexmark", sql, ALL_PLANS),
    )
} | {"demanding": Family("demanding", demanding, TOGETHER, MEMBERS["demanding"].seeds, "e2e_latency_s")}
"""Families that ask for a plan of a scenario. A new one is a line here and in `MEMBERS`, and raises the version. Of a
family that asks for something else, `MEMBERS` names the kind of answer, and `scenarios/benchmarking` judges it."""


def families(names: str | None) -> Sequence[str]:
    """Families of a comma-separated list without duplicates, or all. Raises BadInput for none or unknown ones."""
    if names is None:
        return tuple(MEMBERS)
    wanted = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if not wanted:
        raise BadInput(f"--families names none; {suggest('', MEMBERS)}")
    for name in wanted:
        if name not in MEMBERS:
            raise BadInput(f"unknown family {name!r}; {suggest(name, MEMBERS)}")
    return tuple(wanted)
