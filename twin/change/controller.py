"""Asks a policy at the end of each period, and carries out what it decides."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import simpy

from twin.change.reconfiguration import Reconfigurer
from twin.control import KeyGroupStatistics, PeriodStatistics, Policy, Reconfiguration
from twin.engine.measure.statistics import Row

if TYPE_CHECKING:
    from twin.change.rewiring import Rewiring


class Controller:
    """Between the simulator and a policy: statistics out, reconfigurations in, `latency_s` after the period's end."""

    def __init__(self, change: Reconfigurer, policy: Policy, latency_s: float) -> None:
        self.change = change
        self.policy = policy
        self.latency_s = latency_s
        change.statistics.listeners.append(self._period_ended)

    def _period_ended(self, operators: Sequence[Row], hosts: Sequence[Row]) -> None:
        change = self.change
        if change.outage is not None or change.under_way:
            return
        statistics = observe(change.wiring, operators, hosts)
        decision = self.policy.decide(statistics)
        if decision is None or not (decision.moves or decision.rescales):
            return
        change.check(decision.moves, decision.rescales, f"policy {self.policy.name!r}")
        change.under_way += 1
        change.env.process(self._apply(decision))

    def _apply(self, decision: Reconfiguration) -> Generator[simpy.Event, Any, None]:
        change = self.change
        record = change.world.ledger.record("decision", self.policy.name, change.env.now)
        record.detail = {
            "reason": decision.reason,
            "moves": len(decision.moves),
            "rescales": {each.operator: len(each.placement) for each in decision.rescales},
        }
        if self.latency_s > 0.0:
            yield change.env.timeout(self.latency_s)
        for requests in (
            [change.rescale(each) for each in decision.rescales],
            [change.move(each) for each in decision.moves],
        ):
            if requests:
                yield change.env.all_of([change.env.process(request) for request in requests])
        change.under_way -= 1
        record.end_s = change.env.now


def observe(wiring: Rewiring, operators: Sequence[Row], hosts: Sequence[Row]) -> PeriodStatistics:
    """What a policy is told of the period that these rows are of."""
    world = wiring.world
    rows = {row["operator"]: row for row in operators}
    start_s, end_s = operators[0]["start_s"], operators[0]["end_s"]
    return PeriodStatistics(
        start_s=start_s,
        end_s=end_s,
        operators=rows,
        hosts={row["host"]: row for row in hosts},
        placement={name: tuple(str(wiring.places[task]) for task in tasks) for name, tasks in world.tasks.items()},
        key_groups={
            name: _key_groups(wiring, name, rows[name]["numRecordsIn"] / (end_s - start_s)) for name in world.key_groups
        },
    )


def _key_groups(wiring: Rewiring, operator: str, rate_per_s: float) -> tuple[KeyGroupStatistics, ...]:
    keys, fan = wiring.world.key_groups[operator], wiring.fan(operator)
    replica = {fan.index(task): k for k, task in enumerate(wiring.world.tasks[operator])}
    return tuple(
        KeyGroupStatistics(group, replica[owner], rate_per_s * float(weight), float(size))
        for group, (owner, weight, size) in enumerate(zip(keys.owner, keys.weights, keys.states_bytes(), strict=True))
    )
