"""A deployment as one vector of derived numbers: what boosted trees learn from.

Where the graph holds every operator's and host's features, this holds counts, sums, extremes, and the rate model's view
of the whole plan. Trees see only the order of values, so nothing is scaled; what does not apply (no join) is NaN, which
they know. Flows are nominal (all sources keep up) unless a meaning says `reached` (after sources are slowed).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from models.derived_plan import DerivedPlan
from models.facts import OperatorFacts
from models.features import LEARNED, require_learned
from twin.deployment import Deployment
from twin.kinds.registry import SINKS, SOURCES
from twin.kinds.windowed import Windowed
from twin.metrics import METRICS
from twin.rates.answer import RateAnswer

NEAR_FULL = 0.95
HARDWARE = {"cpu_percent": "%", "ram_mb": "MB", "bandwidth_mbps": "Mbit/s", "latency_ms": "ms"}

Read = Callable[[DerivedPlan], float]


@dataclass(frozen=True, slots=True)
class Feature:
    """One entry of the vector. read: the value, NaN where it does not apply."""

    name: str
    unit: str
    meaning: str
    read: Read


OVER: Mapping[str, Callable[[np.ndarray], float]] = {"min": np.min, "mean": np.mean, "max": np.max, "sum": np.sum}


def _over(how: str, values: Callable[[DerivedPlan], np.ndarray]) -> Read:
    def read(plan: DerivedPlan) -> float:
        found = values(plan)
        return float(OVER[how](found)) if len(found) else float("nan")

    return read


def _kind(kind: str, array: str) -> Callable[[DerivedPlan], np.ndarray]:
    """An array over the operators, of one kind."""
    return lambda plan: np.asarray(getattr(plan, array)[plan.kinds == kind])


def _number(kind: str) -> Read:
    return lambda plan: float((plan.kinds == kind).sum())


def _counts() -> list[Feature]:
    return [
        *(Feature(f"{kind}s", "1", "operators", _number(kind)) for kind in LEARNED),
        Feature("hosts", "1", "in use", lambda plan: float(len(plan.loads["tasks"]))),
        Feature("levels", "1", "streams on the longest path", lambda plan: float(plan.levels.max())),
        Feature("remote_streams", "1", "between hosts", lambda plan: float((plan.leaving > 0).sum())),
    ]


def _rates() -> list[Feature]:
    found = [Feature(f"source_in_{how}", "1/s", "arrivals", _over(how, _kind("source", "in_per_s"))) for how in OVER]
    for kind in ("filter", "map", "aggregate", "join"):
        for how in ("max", "sum"):
            found += [
                Feature(f"{kind}_in_{how}", "1/s", "input rates", _over(how, _kind(kind, "in_per_s"))),
                Feature(f"{kind}_out_{how}", "1/s", "output rates", _over(how, _kind(kind, "out_per_s"))),
            ]
    return [
        *found,
        Feature("sink_in", "1/s", "results", _over("sum", _kind("sink", "in_per_s"))),
        Feature("smallest_rate", "1/s", "least output of an operator", _over("min", lambda plan: plan.out_per_s)),
        Feature("kept", "1", "results per arriving tuple", _kept),
    ]


def _kept(plan: DerivedPlan) -> float:
    results, arriving = (plan.in_per_s[np.isin(plan.kinds, list(kinds))].sum() for kinds in (SINKS, SOURCES))
    return float(results / max(arriving, 1e-12))


OfWindow = Callable[[OperatorFacts, Windowed], float]


def _seconds(facts: OperatorFacts, operator: Windowed, length: float) -> float:
    return length if operator.window.policy == "time" else length / max(facts.rates.in_per_s, 1e-12)


def _results(facts: OperatorFacts) -> float:
    return facts.rates.out_per_s / max(facts.rates.fires_per_s, 1e-12)


WINDOWED: Mapping[str, tuple[str, str, OfWindow]] = {
    "in": ("1/s", "input rate", lambda facts, _: facts.rates.in_per_s),
    "content": ("tuples", "in the window at an evaluation", lambda facts, _: facts.rates.window_tuples),
    "fires": ("1/s", "evaluations", lambda facts, _: facts.rates.fires_per_s),
    "results": ("tuples", "of an evaluation", lambda facts, _: _results(facts)),
    "groups": ("1", "distinct at an evaluation", lambda facts, _: facts.rates.groups_per_fire),
    "selectivity": ("1", "Costream, Definitions 7 and 8", lambda facts, _: facts.selectivity),
    "span": ("s", "length of the window", lambda facts, operator: _seconds(facts, operator, operator.window.size)),
    "slide": ("s", "between evaluations", lambda facts, operator: _seconds(facts, operator, operator.window.slide)),
    "by_time": ("0 or 1", "whether time ends a window", lambda _, operator: float(operator.window.policy == "time")),
}  # fmt: skip


def _windows() -> list[Feature]:
    places: Mapping[str, tuple[str, int]] = {
        "first_join": ("join", 0),
        "last_join": ("join", -1),
        "last_aggregate": ("aggregate", -1),
    }
    return [
        Feature(f"{place}_{name}", unit, meaning, _window(kind, position, read))
        for place, (kind, position) in places.items()
        for name, (unit, meaning, read) in WINDOWED.items()
    ]


def _window(kind: str, position: int, read: OfWindow) -> Read:
    """Of the first or last such operator in data-flow order."""

    def found(plan: DerivedPlan) -> float:
        values = [
            read(each, each.spec) for each in plan.facts if isinstance(each.spec, Windowed) and each.spec.kind == kind
        ]
        return values[position] if values else float("nan")

    return found


def _data() -> list[Feature]:
    return [
        Feature(
            "width_max", "values", "widest tuple", lambda p: float(max(each.columns_out.width for each in p.facts))
        ),
        Feature("bytes_max", "bytes", "largest tuple", lambda p: max(each.bytes_out for each in p.facts)),
        Feature("traffic", "bytes/s", "all streams", lambda p: float(p.stream_bytes_per_s.sum())),
        Feature("remote_traffic", "bytes/s", "between hosts", lambda p: float(p.stream_bytes_per_s @ p.leaving)),
    ]


def _hosts() -> list[Feature]:
    def hardware(name: str) -> Callable[[DerivedPlan], np.ndarray]:
        return lambda plan: plan.hardware[name]

    def load(name: str) -> Callable[[DerivedPlan], np.ndarray]:
        return lambda plan: plan.loads[name]

    return [
        *(
            Feature(f"{name}_{how}", unit, "of hosts in use", _over(how, hardware(name)))
            for name, unit in HARDWARE.items()
            for how in ("min", "mean", "max")
        ),
        *(
            Feature(f"host_{name}_{how}", "share", "of hosts in use", _over(how, load(name)))
            for name in ("cpu_load", "network_load", "memory_load")
            for how in ("mean", "max")
        ),
    ]


def _costs() -> list[Feature]:
    return [
        *(Feature(f"{kind}_pressure", "1", "highest", _over("max", _kind(kind, "pressure"))) for kind in LEARNED),
        Feature("pressure_max", "1", "highest utilisation", lambda p: float(p.pressure.max())),
        Feature("pressure_second", "1", "second highest", lambda p: float(np.sort(p.pressure)[-2])),
        Feature("service_max", "s", "CPU of a tuple", lambda p: max(each.service_s for each in p.facts)),
        Feature("service_sum", "s", "CPU of a tuple", lambda p: sum(each.service_s for each in p.facts)),
        Feature("cores_max", "cores", "of an operator", lambda p: max(each.cpu_cores for each in p.facts)),
        Feature("cores_sum", "cores", "of all", lambda p: sum(each.cpu_cores for each in p.facts)),
        Feature("state_sum", "MB", "of all windows", lambda p: sum(each.state_mb for each in p.facts)),
    ]


def _bottleneck() -> list[Feature]:
    return [
        Feature("bottleneck_kind", "1", "index into KINDS", lambda p: float(LEARNED.index(p.kinds[p.bottleneck]))),
        Feature("bottleneck_level", "1", "streams from its sources", lambda p: float(p.levels[p.bottleneck])),
        Feature("bottleneck_to_end", "1", "levels below it", lambda p: float(p.levels.max() - p.levels[p.bottleneck])),
        Feature("bottleneck_upstream", "1", "operators, itself too", lambda p: float(p.upstream.sum())),
        Feature("bottleneck_in", "1/s", "input reached", lambda p: float(p.reached_per_s[p.bottleneck])),
        Feature("upstream_in_min", "1/s", "least input reached", lambda p: float(p.reached_per_s[p.upstream].min())),
        Feature("in_min", "1/s", "least input reached", lambda p: float(p.reached_per_s.min())),
        Feature("nearly_full", "1", "operators above 0.95", lambda p: float((p.pressure > NEAR_FULL).sum())),
    ]


def _answer() -> list[Feature]:
    def metric(name: str) -> Read:
        return lambda plan: float(plan.answer.costs[name][0])

    def age(name: str) -> Callable[[DerivedPlan], np.ndarray]:
        return lambda plan: np.asarray(getattr(plan.answer, name)[0])

    return [
        *(Feature(f"rates_{name}", "as the metric", "the rate model's answer", metric(name)) for name in METRICS),
        *(
            Feature(f"{name[:-2]}_{how}", "s", "a result's, reached", _over(how, age(name)))
            for name in ("channel_s", "queue_s", "window_s")
            for how in ("max", "sum")
        ),
        Feature("blocked", "1", "operators with full inputs", lambda p: float(p.answer.blocked[0].sum())),
        Feature("ingested_min", "1", "share of a source's rate", lambda p: float(p.answer.ingested[0].min())),
        Feature("ingested_max", "1", "share of a source's rate", lambda p: float(p.answer.ingested[0].max())),
        Feature("lag", "s", "of output behind the run's start", lambda p: float(p.answer.lag_s[0])),
        Feature("results", "tuples", "of the run", lambda p: float(p.answer.results[0])),
        Feature("chances", "1", "independent ones of a result", lambda p: float(p.answer.chances[0])),
        Feature("evaluations", "1", "of the window that has fewest", _evaluations),
        Feature("horizon", "s", "length of the run", lambda p: p.horizon_s),
    ]


def _evaluations(plan: DerivedPlan) -> float:
    fires = [each.rates.fires_per_s for each in plan.facts if isinstance(each.spec, Windowed)]
    return min(fires) * plan.horizon_s if fires else float("nan")


FEATURES: tuple[Feature, ...] = (
    *_counts(), *_rates(), *_windows(), *_data(), *_hosts(), *_costs(), *_bottleneck(), *_answer(),
)  # fmt: skip
"""The entries of the vector, in order."""

DERIVED_VERSION: str = hashlib.sha256(
    "\n".join(f"{each.name}|{each.unit}|{each.meaning}" for each in FEATURES).encode()
).hexdigest()[:12]
"""12 hex digits over name, unit and meaning of every entry."""


def derived_vector(
    deployment: Deployment, facts: Sequence[OperatorFacts], answer: RateAnswer, horizon_s: float
) -> list[float]:
    """The vector of a deployment under its own plan, in the order of FEATURES.

    facts: of its operators. answer: the rate model's, for that plan alone and a run of `horizon_s`. Raises BadInput if
    models know no operators of one of the kinds.
    """
    require_learned(facts)
    plan = DerivedPlan(deployment, facts, answer, horizon_s)
    return [float(feature.read(plan)) for feature in FEATURES]
