"""How much work the tuples of a run will be: what operators take in, send, and evaluate (see `twin.effort`)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from twin.deployment import Deployment
from twin.engine.channel import LOTS
from twin.engine.partition import BURST_PARTS
from twin.events import AnyEvent, RateChange, Scale
from twin.query import Aggregate, AnyOperator, Filter, Join, Map, Source, Stream
from twin.randomness import stream
from twin.rates import Flow, through
from twin.resolution import resolution
from twin.scenario import RunSettings
from twin.workload import ArrivalLaw

PHASES_READ = 20_000
"""So many phases of an arrival law are looked at; the rest of the run counts as more of the same."""
CROWD = 50
"""So many replicas on a processor make each segment twice the work: all of them share it."""
HELD_STEPS = 400.0
"""A segment of results that one evaluation makes: they wait in memory, all at the same time."""


@dataclass(frozen=True, slots=True)
class Load:
    """One cause of steps: what it is, and what to do about it."""

    steps: float
    cause: str
    remedy: str


def most_replicas(deployment: Deployment, events: Sequence[AnyEvent]) -> dict[str, int]:
    """The most replicas of each operator at any time, policies apart."""
    most = {name: len(places) for name, places in deployment.plan.placement.items()}
    for event in events:
        if isinstance(event, Scale):
            most[event.operator] = max(most[event.operator], len(event.placement))
    return most


def traffic(deployment: Deployment, settings: RunSettings, events: Sequence[AnyEvent]) -> list[Load]:
    """What operators handle and send, sources first; each takes in no more than its processors allow."""
    query, exact, horizon_s = deployment.query, settings.fidelity == "exact", settings.horizon_s
    replicas, accepted = most_replicas(deployment, events), _accepted(deployment)
    span_s = resolution(deployment, settings).span_s
    cap = 1 if exact else max(1, deployment.engine.channel_tuples // 2)
    sent: dict[Stream, float] = {}  # tuples a second
    segments: dict[Stream, float] = {}  # in all
    crowd = _crowd(deployment, events)
    loads = []
    for operator in query.topological:
        name, inputs = operator.name, query.inputs(operator.name)
        if isinstance(operator, Source):
            law = deployment.workload.arrivals[name]
            phases, tuples = _offered(law, horizon_s)
            loads.append(
                Load(
                    phases * replicas[name],
                    f"the {phases:.1e} changes of rate in workload.arrivals.{name}",
                    "make its phases longer or run.horizon_s shorter",
                )
            )
            offered = [tuples * _mean_factor(name, law, events, horizon_s) / horizon_s]
            handled = math.inf if exact else horizon_s / span_s + 2 * replicas[name]
        else:
            offered = [sent[each] for each in inputs]
            handled = sum(segments[each] for each in inputs)
        share = min(1.0, accepted[name] / max(sum(offered), 1e-300))
        flow = _flow(operator, [rate * share for rate in offered], horizon_s)
        taken = float(flow.in_per_s[0]) * horizon_s
        handled = min(taken, max(handled, 2 * taken / cap))
        loads.append(
            Load(
                handled * (1.0 + crowd[name] / CROWD),
                f"the {taken:.1e} tuples that {name!r} takes in",
                "lower rates or selectivities, or run.horizon_s" + (", or use fidelity fast" if exact else ""),
            )
        )
        if isinstance(operator, Aggregate | Join):
            loads.append(_results(operator, flow, cap))
            loads.append(_evaluations(operator, flow, replicas[name], horizon_s))
        for each in query.outputs(name):
            sent[each] = _sent(operator, flow, each, accepted[each.consumer], horizon_s, cap)
            how, fan = query.partitioning(each), replicas[each.consumer]
            copies = fan if how == "broadcast" else 1
            wide = fan > BURST_PARTS and copies == 1
            fair = -(-fan // replicas[name])  # a part for each replica while a producer makes one segment
            parts = fan if copies > 1 else 1 if how in ("forward", "global", "shared") else fair
            sent[each] *= copies
            tuples = sent[each] * horizon_s
            begun = handled if isinstance(operator, Source | Filter | Map) else loads[-1].steps
            segments[each] = min(tuples, max(begun * parts, tuples / cap * (LOTS if wide else 1)))
            loads.append(
                Load(
                    segments[each],
                    f"the {tuples:.1e} tuples on stream {each.producer} -> {each.consumer}",
                    f"lower the rate or the selectivity of {name!r}, or use fewer replicas",
                )
            )
    return loads


def _crowd(deployment: Deployment, events: Sequence[AnyEvent]) -> dict[str, int]:
    """By operator, the most replicas of any operator that ever share a processor with one of its own."""
    placement = deployment.plan.placement
    placements = [(event.operator, event.placement) for event in events if isinstance(event, Scale)]
    here = Counter(place for _, places in [*placement.items(), *placements] for place in places)
    crowd = dict.fromkeys(placement, 0)
    for name, places in [*placement.items(), *placements]:
        crowd[name] = max(crowd[name], *(here[place] for place in set(places)))
    return crowd


def _flow(operator: AnyOperator, inputs: Sequence[float], horizon_s: float) -> Flow:
    """The flow through an operator; a window holds no more than comes until the horizon."""
    if isinstance(operator, Aggregate | Join):
        window = operator.window
        if window.policy == "time":
            most = min(window.size, horizon_s)
            limits: dict[str, float] = {"size_s": most, "slide_s": min(window.slide, most)}
        else:
            tuples = max(1, math.ceil(min(window.size, sum(inputs) * horizon_s)))
            limits = {"size_tuples": tuples, "slide_tuples": min(int(window.slide), tuples)}
        operator = operator.model_copy(update={"window": window.model_copy(update=limits)})
    spread = np.full(1, np.inf)
    return through(operator, tuple(np.array([rate]) for rate in inputs), [spread] * len(inputs))


def _evaluations(operator: Aggregate | Join, flow: Flow, replicas: int, horizon_s: float) -> Load:
    window = operator.window
    count = replicas * horizon_s / window.slide if window.policy == "time" else float(flow.fires_per_s[0]) * horizon_s
    unit = "s" if window.policy == "time" else "tuples"
    return Load(
        count,
        f"the {count:.1e} evaluations of the window of {operator.name!r}, which slides every {window.slide:g} {unit}",
        "make its slide longer or run.horizon_s shorter",
    )


def _at_once(flow: Flow) -> float:
    """Results of one evaluation of a window."""
    return float(flow.out_per_s[0]) / max(float(flow.fires_per_s[0]), 1e-300)


def _results(operator: Aggregate | Join, flow: Flow, cap: int) -> Load:
    return Load(
        HELD_STEPS * _at_once(flow) / cap,
        f"the {_at_once(flow):.1e} results of one evaluation of the window of {operator.name!r}",
        "make the window shorter or its results fewer",
    )


def _sent(operator: AnyOperator, flow: Flow, each: Stream, accepted: float, horizon_s: float, cap: int) -> float:
    """Tuples a second that leave on a stream: what its consumer accepts and what is sent at once, or all."""
    emitted = float(flow.out_per_s[0])
    if each.overflow == "drop":
        return emitted
    if isinstance(operator, Aggregate | Join):
        at_once = _at_once(flow)
    else:
        at_once = getattr(operator, "selectivity", 1.0) * cap
    return min(emitted, accepted + at_once / horizon_s)


def _accepted(deployment: Deployment) -> dict[str, float]:
    """Tuples a second that each operator takes in at most: by its processors, and by what its consumers accept."""
    query, hosts = deployment.query, {host.name: host for host in deployment.cluster.hosts}
    most: dict[str, float] = {}
    for operator in reversed(query.topological):
        service_s = deployment.engine.service_s(query, operator)
        cores = sum(
            count * min(hosts[place.host].socket_capacity(place.socket), hosts[place.host].core_speed(place.socket))
            for place, count in Counter(deployment.plan.locations(operator.name)).items()
        )
        accepted = cores / service_s if service_s > 0.0 else math.inf
        selectivity = 1.0 if isinstance(operator, Source) else getattr(operator, "selectivity", None)
        if isinstance(operator, Source | Filter | Map) and selectivity:
            blocking = [most[each.consumer] for each in query.outputs(operator.name) if each.overflow == "block"]
            accepted = min([accepted, *(rate / selectivity for rate in blocking)])
        most[operator.name] = accepted
    return most


def _offered(law: ArrivalLaw, horizon_s: float) -> tuple[float, float]:
    """Phases and expected tuples of one law until the horizon."""
    phases, tuples, now_s = 0, 0.0, 0.0
    for length_s, rate_per_s in islice(law.phases(stream(0, "effort")), PHASES_READ):
        lasts_s = min(length_s, horizon_s - now_s)
        phases, tuples, now_s = phases + 1, tuples + rate_per_s * lasts_s, now_s + lasts_s
        if now_s >= horizon_s:
            return phases, tuples
    if phases < PHASES_READ:  # nothing comes any more
        return phases, tuples
    more = horizon_s / max(now_s, 1e-300)
    return phases * more, tuples * more


def _mean_factor(source: str, law: ArrivalLaw, events: Sequence[AnyEvent], horizon_s: float) -> float:
    """By how much the events raise a source's rate, averaged over the run."""
    changes = [each for each in events if isinstance(each, RateChange) and each.source == source]
    mean, factor, since_s = 0.0, 1.0, 0.0
    for each in sorted(changes, key=lambda event: event.at_s):
        until_s = min(each.at_s, horizon_s)
        mean += factor * (until_s - since_s) / horizon_s
        factor = each.factor or (each.rate_per_s or 1.0) / law.mean_rate_per_s
        since_s = until_s
    return mean + factor * (horizon_s - since_s) / horizon_s
