"""Named numbers by which a run is judged: `e2e_latency_s.p99` · `operators.match.busy` · `hosts.edge-1.cpu`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

from twin.errors import BadInput, suggest
from twin.metrics import Latency
from twin.run import HostTotals, LinkTotals, OperatorTotals, Run
from twin.scenario import Scenario

Measures = Mapping[str, float]
"""Numbers by name. Latencies are inf if nothing reached a sink; flags are 0 or 1."""

LATENCIES = ("processing_latency_s", "e2e_latency_s")
QUANTILES = tuple(field.name for field in dataclasses.fields(Latency))
MEAN = ".mean"
KEEPS_UP = "keeps_up"
FLAGS = (KEEPS_UP, "backpressured", "success", "crashed")
COUNTS = ("tuples_in", "tuples_out", "duplicates")
WHOLE_JOB = (
    "throughput_per_s",
    *(f"{name}.{quantile}" for name in LATENCIES for quantile in QUANTILES),
    "backpressure_per_s",
    "queue_growth_per_s",
    *FLAGS,
    *COUNTS,
)
USUAL = ("throughput_per_s", "e2e_latency_s.mean", "e2e_latency_s.p99")


def measures(run: Run) -> dict[str, float]:
    """Measures of a run: all that `names` lists, except of links that carried nothing; and `full.*` of full operators
    and hosts, and how busy an operator's busiest subtask on each host is."""
    metrics = run.metrics
    named = {
        "throughput_per_s": metrics.throughput_per_s,
        **_latency("processing_latency_s", metrics.processing_latency_s),
        **_latency("e2e_latency_s", metrics.e2e_latency_s),
        "backpressure_per_s": metrics.backpressure_per_s,
        "queue_growth_per_s": metrics.queue_growth_per_s,
        "backpressured": float(metrics.backpressured),
        "success": float(metrics.success),
        "crashed": float(run.crashed),
        "tuples_in": float(metrics.tuples_in),
        "tuples_out": float(metrics.tuples_out),
        "duplicates": float(run.duplicates),
        **{f"full.{name}": 1.0 for name in run.full},
    }
    for operator in run.operators:
        named |= _totals(f"operators.{operator.operator}", operator)
        busiest = operator.busiest
        named[f"operators.{operator.operator}.busiest"] = operator.busy if busiest is None else busiest.busy
        for subtask in operator.subtasks:
            name = busy_on(operator.operator, subtask.host)
            named[name] = max(named.get(name, 0.0), subtask.busy)
    for host in run.hosts:
        named |= _totals(f"hosts.{host.host}", host)
    for link in run.links:
        named |= _totals(f"links.{link.link}", link)
    return named


def busy_on(operator: str, host: str) -> str:
    """Name of the busy share of the busiest subtask of an operator on a host."""
    return f"busy.{operator}.{host}"


def of(found: Measures, name: str) -> float:
    """Value of a measure; 0 if the run does not list it, as of a link that carried nothing."""
    if name == KEEPS_UP:
        behind = of(found, "backpressured") or of(found, "queue_growth_per_s")
        return float(bool(of(found, "success")) and not behind)
    return found.get(name, 0.0)


def surely_keeps_up(found: Measures) -> bool:
    """Whether the job kept up, and nothing was full, behind which queues may still be filling."""
    return bool(of(found, KEEPS_UP)) and not any(name.startswith("full.") for name in found)


def names(scenario: Scenario) -> list[str]:
    """Names of all measures that a run of the scenario can have."""
    operators = [operator.name for operator in scenario.query.operators]
    hosts = [host.name for host in scenario.cluster.hosts]
    ends = [link.between for link in scenario.cluster.links]
    links = [*hosts, *(f"{a}->{b}" for a, b in ends), *(f"{b}->{a}" for a, b in ends)]
    return [
        *WHOLE_JOB,
        *_fields("operators", operators, OperatorTotals),
        *(f"operators.{name}.busiest" for name in operators),
        *_fields("hosts", hosts, HostTotals),
        *_fields("links", links, LinkTotals),
    ]


def full_name(name: str, scenario: Scenario, where: str) -> str:
    """Full name of a measure: a latency without a quantile is its mean. Raises BadInput, with the nearest name, if it
    is unknown."""
    known = names(scenario)
    wanted = f"{name}{MEAN}" if name in LATENCIES else name
    if wanted not in known:
        first = name.partition(".")[0]
        near = [candidate for candidate in known if candidate.partition(".")[0] == first] or [*WHOLE_JOB, *LATENCIES]
        if name in QUANTILES:
            raise BadInput(f"{where}: {name!r} of what? Write {' or '.join(f'{each}.{name}' for each in LATENCIES)}")
        raise BadInput(f"{where}: unknown metric {name!r}; {suggest(name, near)}")
    return wanted


def full_names(names: Sequence[str], scenarios: Iterable[Scenario], where: str) -> list[str]:
    """Full names of measures, each once. Raises BadInput if a scenario lacks one, which would look like 0."""
    known = [[full_name(name, scenario, f"{where}, {scenario.name}") for name in names] for scenario in scenarios]
    return list(dict.fromkeys(known[0]))


def _latency(name: str, latency: Latency | None) -> dict[str, float]:
    return {f"{name}.{q}": getattr(latency, q) if latency is not None else math.inf for q in QUANTILES}


def _totals(prefix: str, totals: OperatorTotals | HostTotals | LinkTotals) -> dict[str, float]:
    return {f"{prefix}.{field}": float(getattr(totals, field)) for field in _numbers(type(totals))}


def _fields(part: str, of: list[str], totals: type) -> list[str]:
    return [f"{part}.{name}.{field}" for name in of for field in _numbers(totals)]


def _numbers(totals: type) -> list[str]:
    return [field.name for field in dataclasses.fields(totals) if field.type in ("int", "float")]
