"""Turns a scenario's events into processes of the simulation."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import simpy

from twin.change.coordinator import Coordinator
from twin.change.failover import Failover
from twin.change.faults import Recovery, degrade, slow_down
from twin.change.reconfiguration import Reconfigurer
from twin.event_time_events import Combine, Repartition, Split
from twin.events import AnyEvent, Failure, LinkDegradation, Migration, RateChange, Scale, Skew, SlowDown

if TYPE_CHECKING:
    from twin.change.rewiring import Rewiring

STEPS = 10
"""In which a gradual skew comes."""


class Timeline:
    """Plays events. Those of the same time happen in the order in which they are listed."""

    def __init__(self, change: Reconfigurer, events: Sequence[AnyEvent], checkpoint_interval_s: float) -> None:
        self.change = change
        self._rate_factors: dict[str, float] = {}
        self._skews: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        env = change.env
        for event in events:
            if not isinstance(event, Failure):
                env.process(self._at(event))
        failures = [event for event in events if isinstance(event, Failure)]
        if change.wiring.checkpoints is not None:
            Failover(Coordinator(change, change.wiring.checkpoints), failures)
        elif failures:
            Recovery(change, failures, checkpoint_interval_s)

    def _at(self, event: AnyEvent) -> Generator[simpy.Event, Any, None]:
        yield self.change.env.timeout(event.at_s)
        match event:
            case RateChange():
                self._change_rate(self.change.wiring, event)
            case SlowDown():
                yield from slow_down(self.change.wiring, event)
            case LinkDegradation():
                yield from degrade(self.change.wiring, event)
            case Migration():
                yield from self.change.move(event)
            case Skew():
                yield from self._skew(event)
            case Scale():
                yield from self.change.rescale(event)
            case Repartition() | Split() | Combine():
                yield from self.change.operate(event)

    def _skew(self, event: Skew) -> Generator[simpy.Event, Any, None]:
        """Factors are relative to how it began, not to earlier changes."""
        world = self.change.world
        keys, groups = world.key_groups[event.operator], list(event.key_groups)
        base_g, factor_g = self._skews.setdefault(event.operator, (keys.weights.copy(), np.ones(len(keys))))
        record = world.ledger.record(event.kind, event.operator, world.env.now, factor=event.factor)
        before_g, steps = factor_g[groups].copy(), 1 if event.over_s is None else STEPS
        for step in range(1, steps + 1):
            if event.over_s is not None:
                yield world.env.timeout(event.over_s / STEPS)
            factor_g[groups] = before_g + (event.factor - before_g) * step / steps
            keys.reweigh(base_g * factor_g / np.sum(base_g * factor_g))
        record.end_s = float(world.env.now)

    def _change_rate(self, wiring: Rewiring, event: RateChange) -> None:
        """Factors and rates are relative to the law, not to earlier changes."""
        world = wiring.world
        factor = event.factor
        if factor is None:
            assert event.rate_per_s is not None
            factor = event.rate_per_s / wiring.deployment.workload.arrivals[event.source].mean_rate_per_s
        world.ledger.record(event.kind, event.source, world.env.now, factor=factor).end_s = world.env.now
        for broker in world.brokers[event.source]:
            broker.scale(factor / self._rate_factors.get(event.source, 1.0))
        self._rate_factors[event.source] = factor
