"""How much work the tuples of a run will be: what operators take in, send, and evaluate (see `twin.guards.effort`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from twin.engine.windows.trigger import MERGE_ABOVE
from twin.events import AnyEvent, RateChange, Scale
from twin.guards.effort_rates import Outlook, flow_through, outlook
from twin.guards.effort_segments import Cut, most_replicas
from twin.job import Edge, Job
from twin.kinds.flow import Flow
from twin.plan import Location
from twin.query import AnyOperator, Windowed
from twin.randomness import stream
from twin.scenario import RunSettings
from twin.workload import ArrivalLaw

PHASES_READ = 20_000
"""So many phases of an arrival law are looked at; the rest of the run counts as more of the same."""
WINDOWED = 4.0
"""Steps that a segment costs in a window."""
SENT, ACROSS = 0.3, 1.3
"""Steps that a segment costs on its way, and beyond that if it leaves its host."""
EVALUATED = 2.0
"""Steps of one evaluation of a window."""


@dataclass(frozen=True, slots=True)
class Load:
    """One cause of steps: what it is, and what to do about it. held: segments that wait in memory at the same time."""

    steps: float
    cause: str
    remedy: str
    held: float = 0.0


def traffic(job: Job, settings: RunSettings, events: Sequence[AnyEvent]) -> list[Load]:
    """What operators handle and send, sources first; each takes in no more than its processors and cards allow."""
    horizon_s = settings.horizon_s
    offered, loads = {}, []
    replicas = most_replicas(job, events)
    for source in job.sources:
        name, law = source.name, job.deployment.workload.arrivals[source.name]
        phases, tuples = _offered(law, horizon_s)
        offered[name] = tuples * _mean_factor(name, law, events, horizon_s) / horizon_s
        loads.append(
            Load(
                phases * replicas[name],
                f"the {phases:.1e} changes of rate in workload.arrivals.{name}",
                "make its phases longer or run.horizon_s shorter",
            )
        )
    seen = outlook(job, offered, horizon_s)
    walk = _Walk(offered, seen, Cut(job, settings, replicas, seen), _shared(job, events))
    return loads + [load for component in job.components for load in walk.through(component.operator)]


class _Walk:
    """The way of the tuples through a query, an operator after the other."""

    def __init__(self, offered_per_s: Mapping[str, float], seen: Outlook, cut: Cut, shared: Container[str]) -> None:
        self.offered_per_s = offered_per_s
        self.seen = seen
        self.cut = cut
        self.shared = shared
        self.job = cut.job
        self.horizon_s = cut.settings.horizon_s
        self.exact = cut.settings.fidelity == "exact"
        self.sent: dict[Edge, float] = {}  # tuples a second
        self.segments: dict[Edge, float] = {}  # in all

    def through(self, operator: AnyOperator) -> Iterator[Load]:
        """The loads of the next operator."""
        name, inputs = operator.name, self.job.inputs(operator.name)
        flow = self._flow(operator)
        taken = float(flow.in_per_s[0]) * self.horizon_s
        if operator.is_source:
            handled = taken if self.exact else self.cut.read(operator, self.offered_per_s[name], taken)
        else:
            handled = sum(self.segments[each] for each in inputs)
        made = handled = min(taken, handled)
        yield Load(
            handled * _weight(operator, name in self.shared, max(map(self.seen.full, inputs), default=0.0)),
            f"the {taken:.1e} tuples that {name!r} takes in",
            "lower rates or selectivities, or run.horizon_s" + (", or use fidelity fast" if self.exact else ""),
        )
        if isinstance(operator, Windowed):
            made = _evaluated(operator, flow, self.cut.replicas[name], handled, self.horizon_s)
            yield _evaluations(operator, made)
            yield _results(operator, self.seen.flows[name], self.cut.cap)
        for each in self.job.outputs(name):
            yield self._send(operator, flow, each, made)

    def _flow(self, operator: AnyOperator) -> Flow:
        name = operator.name
        coming = [self.sent[each] for each in self.job.inputs(name)] or [self.offered_per_s[name]]
        share = min(1.0, self.seen.accepted_per_s(name) / max(sum(coming), 1e-300))
        let_in = [rate * share for rate in coming]
        flow = self.seen.flows[name]
        same = let_in == [float(rate[0]) for rate in flow.inputs_per_s]
        return flow if same else flow_through(operator, let_in, self.horizon_s)

    def _send(self, operator: AnyOperator, flow: Flow, each: Edge, made: float) -> Load:
        """A stream carries what its consumer accepts and what is sent at once, or all. made: segments not yet dealt."""
        emitted = float(flow.out_per_s[0]) * each.share * self.cut.copies(each)
        if each.blocks:
            if isinstance(operator, Windowed):
                at_once = results_at_once(flow)
            else:
                at_once = operator.gain * self.cut.cap
            emitted = min(emitted, self.seen.accepted_per_s(each.stream.consumer) + at_once / self.horizon_s)
        self.sent[each] = emitted
        tuples = emitted * self.horizon_s
        self.segments[each] = self.cut.sent(operator, each, made, tuples)
        return Load(
            self.segments[each] * (SENT + ACROSS * self.seen.leaving[each]),
            f"the {tuples:.1e} tuples on stream {' -> '.join(each.ends)}",
            f"lower the rate or the selectivity of {operator.name!r}, or use fewer replicas",
        )


def _weight(operator: AnyOperator, shared: bool, full: float) -> float:
    """Steps that a segment costs which an operator takes in; full: chance that its channels are."""
    return (WINDOWED if isinstance(operator, Windowed) else 1.0) + (1.0 + full if shared else 0.0)


def _shared(job: Job, events: Sequence[AnyEvent]) -> set[str]:
    """Operators of which replicas ever are on a processor with fewer cores than tasks."""
    hosts = {host.name: host for host in job.deployment.cluster.hosts}
    placements = [(each.name, each.at) for each in job.components]
    placements += [(event.operator, Counter(event.locations)) for event in events if isinstance(event, Scale)]
    here = sum((at for _, at in placements), start=Counter[Location]())
    crowded = {place for place, tasks in here.items() if tasks > hosts[place.host].socket_capacity(place.socket)}
    return {name for name, at in placements if not crowded.isdisjoint(at)}


def _evaluated(operator: Windowed, flow: Flow, replicas: int, handled: float, horizon_s: float) -> float:
    """Evaluations of an operator's window; those of a count window within a segment are few, or made together."""
    window = operator.window
    if window.policy == "time":
        return replicas * horizon_s / window.slide
    return min(float(flow.fires_per_s[0]) * horizon_s, handled * MERGE_ABOVE)


def _evaluations(operator: Windowed, count: float) -> Load:
    window = operator.window
    unit = "s" if window.policy == "time" else "tuples"
    return Load(
        count * EVALUATED,
        f"the {count:.1e} evaluations of the window of {operator.name!r}, which slides every {window.slide:g} {unit}",
        "make its slide longer or run.horizon_s shorter",
    )


def _results(operator: Windowed, flow: Flow, cap: int) -> Load:
    at_once = results_at_once(flow)
    return Load(
        0.0,  # they count where they are sent
        f"the {at_once:.1e} results of one evaluation of the window of {operator.name!r}",
        "make the window shorter or its results fewer",
        held=at_once / cap,
    )


def results_at_once(flow: Flow) -> float:
    """Results of one evaluation of a window."""
    return float(flow.out_per_s[0]) / max(float(flow.fires_per_s[0]), 1e-300)


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
