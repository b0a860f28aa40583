"""Jobs as most people have them: replicas by the dozen, several inputs, keyed windows, latencies of milliseconds.

What a seed gives depends on its draws and on the rate model alone, never on a simulation: the rate model sets the
service times, so that the most loaded resource has the utilisation that was drawn, and the length of the run, so that
an exact one is affordable; and a seed is left out where it expects too few results, or work that no run could afford.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from benchmarks.validity.ordinary_queries import KINDS, Sketch, log_uniform
from twin.deployment import Deployment
from twin.flow import steady_rates
from twin.query import Aggregate, Join, Query
from twin.randomness import stream
from twin.rates.model import RateModel
from twin.scenario import RunSettings
from twin.spec import parse

RATES_PER_S = (100.0, 200_000.0)
"""Of all sources together."""
REPLICAS = (2.0, 80.0)
UTILISATIONS = (0.1, 1.3)
STORM_SHARE = 0.4
"""Of the draws; many more of them are left out than of `flink`'s, as its tuples cost a hundred times as much."""
CORES = (2, 4, 8, 16)
LATENCIES_MS = (0.0, 0.1, 0.5, 1.0, 2.0)
MBPS = (1_000.0, 10_000.0)
RESULTS_PER_INPUT = (0.05, 2.0)
"""Of a join."""
SCVS = (0.0, 0.25, 0.5, 1.0, 2.0)
GIVEN = {"filter": 0.5, "map": 0.5, "aggregate": 0.4, "join": 0.25}
"""Chances that a service time is given; the others cost what the engine's profile says."""
MOST_SERVICE_S = 0.1
HORIZONS_S = (2.0, 60.0)
MOST_SERVICES = 1.0e6
"""Of tuples, in an exact run."""
WINDOWS_A_RUN = 8
LEAST_RESULTS = 500


class OrdinaryJob(NamedTuple):
    """kind: of `KINDS`. settings: how long it runs, beside the seed."""

    seed: int
    kind: str
    deployment: Deployment
    settings: RunSettings


def ordinary_jobs(first_seed: int) -> Iterator[OrdinaryJob]:
    """The jobs of the seeds from this one on that are not left out, without end."""
    return (job for seed in count(first_seed) if (job := draw(seed)) is not None)


def draw(seed: int) -> OrdinaryJob | None:
    """The job of a seed; None if the seed is left out."""
    rng = stream(seed, "ordinary job")
    kind = list(KINDS)[int(rng.integers(len(KINDS)))]
    sketch = Sketch(rng)
    KINDS[kind](sketch)
    job = _job(sketch)
    services = _services(rng, job, float(rng.uniform(*UTILISATIONS)))
    if services is None or max(service_s for service_s, _ in services.values()) > MOST_SERVICE_S:
        return None
    job = _with_services(job, services)
    period_s = _affordable_period_s(job)
    if period_s is None:
        return None
    settings = RunSettings(horizon_s=10 * period_s, warmup_s=2 * period_s, period_s=period_s)
    return OrdinaryJob(seed, kind, job, settings)


def _job(sketch: Sketch) -> Deployment:
    rng = sketch.rng
    rates = _rates(rng, [each["name"] for each in sketch.operators if each["kind"] == "source"])
    replicas = _replicas(sketch)
    _set_selectivity(sketch, rates, replicas)
    cluster = _cluster(rng)
    return parse(
        Deployment,
        {
            "query": sketch.query().model_dump(mode="json"),
            "cluster": cluster,
            "plan": {"placement": _placement(rng, replicas, [host["name"] for host in cluster["hosts"]])},
            "workload": {"arrivals": {name: _arrivals(rng, rate) for name, rate in rates.items()}},
            "engine": "storm" if rng.random() < STORM_SHARE else "flink",
        },
    )


def _rates(rng: np.random.Generator, sources: list[str]) -> dict[str, float]:
    weights = np.array([log_uniform(rng, 0.1, 1.0) for _ in sources])
    total = log_uniform(rng, *RATES_PER_S)
    return {name: float(f"{total * each:.4g}") for name, each in zip(sources, weights / weights.sum(), strict=True)}


def _arrivals(rng: np.random.Generator, rate: float) -> dict[str, Any]:
    return {"law": "constant" if rng.random() < 0.2 else "poisson", "rate_per_s": rate}


def _replicas(sketch: Sketch) -> dict[str, int]:
    """By operator; now and then as many as its producer has, and then often forward."""
    rng, found = sketch.rng, {}
    for operator in sketch.operators:
        name = operator["name"]
        found[name] = round(log_uniform(rng, *REPLICAS))
        inputs = [each for each in sketch.streams if each["consumer"] == name]
        if len(inputs) == 1 and rng.random() < 0.35:
            found[name] = found[inputs[0]["producer"]]
            if operator["kind"] in ("map", "filter", "sink") and rng.random() < 0.6:
                inputs[0]["partitioning"] = "forward"
    return found


def _set_selectivity(sketch: Sketch, rates: dict[str, float], replicas: dict[str, int]) -> None:
    """Such that the join emits some share of what it takes in, and keys are shared by more tuples than replicas."""
    flow = steady_rates(sketch.query(), rates)
    for operator in sketch.operators:
        if operator["kind"] == "join":
            name = operator["name"]
            wanted = flow[name].in_per_s * log_uniform(sketch.rng, *RESULTS_PER_INPUT)
            selectivity = operator["selectivity"] * wanted / flow[name].out_per_s
            operator["selectivity"] = float(f"{min(selectivity, 0.5 / replicas[name]):.4g}")


def _cluster(rng: np.random.Generator) -> dict[str, Any]:
    """Hosts that reach each other directly, or over a switch."""
    card = {"bandwidth_mbps": MBPS[int(rng.integers(len(MBPS)))]}
    latency_ms = LATENCIES_MS[int(rng.integers(len(LATENCIES_MS)))]
    hosts = [
        {"name": f"host{k}", "cpu_percent": 100 * int(rng.choice(CORES)), "ram_mb": 65_536, "latency_ms": latency_ms}
        | card
        for k in range(int(rng.integers(1, 9)))
    ]
    if len(hosts) == 1 or rng.random() < 0.7:
        return {"hosts": hosts}
    links = [{"between": [host["name"], "switch"], "latency_ms": latency_ms / 2} | card for host in hosts]
    return {"hosts": hosts, "switches": ["switch"], "links": links}


def _placement(rng: np.random.Generator, replicas: dict[str, int], hosts: list[str]) -> dict[str, list[str]]:
    """Each operator's replicas round robin over all hosts, or over one or two of them."""
    crowded, found = rng.random() < 0.4, {}
    for name, number in replicas.items():
        on = [str(each) for each in rng.permutation(hosts)]
        if crowded:
            on = on[: int(rng.integers(1, 3))]
        found[name] = [on[k % len(on)] for k in range(number)]
    return found


def _services(rng: np.random.Generator, job: Deployment, target: float) -> dict[str, tuple[float, float]] | None:
    """(Mean, scv) of some operators' service times such that the most loaded resource has that utilisation.

    None if the others alone ask for more.
    """
    simple = [each.name for each in job.query.operators if each.kind in ("map", "filter", "sink")]
    given = [simple[int(rng.integers(len(simple)))]]
    chances = {each.name: GIVEN[each.kind] for each in job.query.operators if each.kind in GIVEN}
    given += [name for name, chance in chances.items() if name not in given and rng.random() < chance]
    flow = RateModel().answer(job, [job.plan])
    in_per_s = dict(zip(flow.operators, flow.offered_in_per_s[0], strict=True))
    full_s = {name: log_uniform(rng, 0.2, 1.0) * job.plan.replicas(name) / in_per_s[name] for name in given}
    scvs = {name: SCVS[int(rng.integers(len(SCVS)))] for name in given}

    def scaled(log_factor: float) -> dict[str, tuple[float, float]]:
        return {name: (float(f"{full_s[name] * np.exp(log_factor):.4g}"), scvs[name]) for name in given}

    def used(log_factor: float) -> float:
        found = _with_services(job, scaled(log_factor))
        return float(RateModel().answer(found, [found.plan]).offered_pressure.max())

    low, high = np.log(1e-4), np.log(1e2)
    if used(low) > target:
        return None
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if used(middle) < target else (low, middle)
    return scaled(high)


def _with_services(job: Deployment, services: Mapping[str, tuple[float, float]]) -> Deployment:
    operators = tuple(
        each.model_copy(update=dict(zip(("service_time_s", "service_scv"), services[each.name], strict=True)))
        if each.name in services
        else each
        for each in job.query.operators
    )
    return Deployment(**{**dict(job), "query": Query(operators=operators, streams=job.query.streams)})


def _affordable_period_s(job: Deployment) -> float | None:
    """A tenth of the run that can be afforded; None if that gives too few results, or sees too few windows."""
    answer = RateModel(HORIZONS_S[1]).answer(job, [job.plan])
    horizon_s = min(HORIZONS_S[1], MOST_SERVICES / float(answer.in_per_s.sum()))
    period_s = float(f"{horizon_s / 10:.2g}")
    windows_s = [each.window.size for each in job.query.operators if isinstance(each, Aggregate | Join)]
    results = RateModel(10 * period_s).answer(job, [job.plan]).results[0] * 0.8
    few = horizon_s < max([HORIZONS_S[0], *(WINDOWS_A_RUN * each for each in windows_s)]) or results < LEAST_RESULTS
    return None if few else period_s
