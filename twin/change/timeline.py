"""Timeline: turns a scenario's events into processes of the simulation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twin.change.checkpoint import Coordinator, FreeCheckpoints, NoCheckpoints
from twin.change.failover import Failover, Restarts
from twin.change.reconfiguration import Reconfigurer
from twin.change.running_job import Process, RunningJob
from twin.events import (
    AnyEvent,
    Combine,
    Failure,
    LinkDegradation,
    Migration,
    RateChange,
    Repartition,
    Scale,
    Skew,
    SlowDown,
    Split,
)
from twin.profiles import Rescaling
from twin.world.parts import Card

STEPS = 10
"""Number of steps of a gradual skew."""


def play(job: RunningJob, events: Sequence[AnyEvent], deciding: bool) -> Reconfigurer:
    """Plays events when they are due, those of the same time in the order listed. deciding: whether a policy may order
    changes. Returns the object that changes the running job."""
    failures = [event for event in events if isinstance(event, Failure)]
    restarting = restarts(job.world.engine.rescaling, events, deciding)
    checkpoints = job.checkpoints = _checkpoints(job, bool(failures), restarting)
    failover = Failover(checkpoints) if isinstance(checkpoints, FreeCheckpoints) else None
    change = Reconfigurer(job, Restarts(job, failover) if failover is not None and restarting else None)
    timeline = Timeline(change)
    for event in events:
        if not isinstance(event, Failure):
            job.env.process(timeline.at(event))
    if isinstance(checkpoints, FreeCheckpoints) and failover is not None:
        if isinstance(checkpoints, Coordinator):
            checkpoints.restart = failover.give_up
        job.env.process(checkpoints.run())
        for failure in failures:
            job.env.process(failover.fail(failure))
    return change


def restarts(rescaling: Rescaling, events: Sequence[AnyEvent], deciding: bool) -> bool:
    """Whether changes of the plan may stop the job."""
    return rescaling.stops and (deciding or any(isinstance(event, Migration | Scale) for event in events))


def reads_again(rescaling: Rescaling, events: Sequence[AnyEvent], deciding: bool) -> bool:
    """Whether failures or restarts may make sources read records a second time."""
    failing = any(isinstance(event, Failure) for event in events)
    return failing or (rescaling.how == "reactive" and restarts(rescaling, events, deciding))


def _checkpoints(job: RunningJob, failing: bool, restarting: bool) -> NoCheckpoints:
    if job.world.checkpoints is not None:
        return Coordinator(job, job.world.checkpoints)
    if failing or restarting:
        every_one = restarting and job.world.engine.rescaling.how == "reactive"
        return FreeCheckpoints(job, job.world.settings.checkpoint_interval_s, every_one)
    return NoCheckpoints()


class Timeline:
    """Carries events out. Factors of rates and weights are relative to their first values, not to earlier changes."""

    def __init__(self, change: Reconfigurer) -> None:
        self.change = change
        self.world = change.job.world
        self.world = change.world
        self.env = change.env
        self._rate_factors: dict[str, float] = {}
        self._skews: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def at(self, event: AnyEvent) -> Process:
        """Waits until an event is due, and carries it out."""
        yield self.env.timeout(event.at_s)
        match event:
            case RateChange():
                self._change_rate(event)
            case SlowDown():
                yield from self._slow_down(event)
            case LinkDegradation():
                yield from self._degrade(event)
            case Migration():
                yield from self.change.move(event)
            case Skew():
                yield from self._skew(event)
            case Scale():
                yield from self.change.rescale(event)
            case Repartition() | Split() | Combine():
                yield from self.change.operate(event)

    def _change_rate(self, event: RateChange) -> None:
        factor = event.factor
        if factor is None:
            assert event.rate_per_s is not None
            factor = event.rate_per_s / self.world.deployment.workload.arrivals[event.source].mean_rate_per_s
        self.world.ledger.record(event.kind, event.source, self.env.now, factor=factor).end_s = self.env.now
        for broker in self.world.brokers[event.source]:
            broker.scale(factor / self._rate_factors.get(event.source, 1.0))
        self._rate_factors[event.source] = factor

    def _slow_down(self, event: SlowDown) -> Process:
        record = self.world.ledger.record(event.kind, event.host, self.env.now, factor=event.factor)
        self.change.job.throttle(event.host, event.factor)
        if event.duration_s is not None:
            yield self.env.timeout(event.duration_s)
            self.change.job.throttle(event.host, 1.0 / event.factor)
            record.end_s = self.env.now

    def _degrade(self, event: LinkDegradation) -> Process:
        cards = self._degraded(event)
        factors = {"bandwidth_factor": event.bandwidth_factor, "latency_factor": event.latency_factor}
        record = self.world.ledger.record(event.kind, event.component, self.env.now, **factors)
        for card in cards:
            card.degrade(event.bandwidth_factor, event.latency_factor)
        if event.duration_s is not None:
            yield self.env.timeout(event.duration_s)
            for card in cards:
                card.degrade(1.0 / event.bandwidth_factor, 1.0 / event.latency_factor)
            record.end_s = self.env.now

    def _degraded(self, event: LinkDegradation) -> list[Card]:
        """Cards of an event: a host's card, or both directions of a link."""
        if event.link is None:
            assert event.host is not None
            return [self.world.network.card(event.host)]
        return [self.world.links["->".join(ends)] for ends in (event.link, event.link[::-1])]

    def _skew(self, event: Skew) -> Process:
        keys, groups = self.world.key_groups[event.operator], list(event.key_groups)
        base_g, factor_g = self._skews.setdefault(event.operator, (keys.weights.copy(), np.ones(len(keys))))
        record = self.world.ledger.record(event.kind, event.operator, self.env.now, factor=event.factor)
        before_g, steps = factor_g[groups].copy(), 1 if event.over_s is None else STEPS
        for step in range(1, steps + 1):
            if event.over_s is not None:
                yield self.env.timeout(event.over_s / STEPS)
            factor_g[groups] = before_g + (event.factor - before_g) * step / steps
            keys.reweigh(base_g * factor_g / np.sum(base_g * factor_g))
        record.end_s = float(self.env.now)
