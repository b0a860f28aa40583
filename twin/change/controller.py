"""Asks a policy at the end of each period, and carries out what it decides."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import groupby
from typing import Any

import simpy

from twin.change.observation import Observer
from twin.change.reconfiguration import Process, Reconfigurer
from twin.control import Policy, Reconfiguration
from twin.engine.measure.meters import Row
from twin.events import Move


class Controller:
    """Between the simulator and a policy: statistics out, reconfigurations in, `latency_s` after the period's end."""

    def __init__(self, change: Reconfigurer, policy: Policy, latency_s: float) -> None:
        self.change = change
        self.policy = policy
        self.latency_s = latency_s
        self._noted = ""
        self.observer = Observer(change.wiring)
        change.statistics.listeners.append(self._period_ended)

    def _period_ended(self, operators: Sequence[Row], hosts: Sequence[Row]) -> None:
        change = self.change
        statistics = self.observer.close(operators, hosts)
        if change.outage is not None or change.under_way:
            return
        decision = self.policy.decide(statistics)
        if decision is None:
            return
        if not (decision.moves or decision.rescales or decision.operations):
            self._note(decision.reason)
            return
        self._noted = ""
        change.check(decision.moves, decision.rescales, f"policy {self.policy.name!r}")
        change.under_way += 1
        change.env.process(self._apply(decision))

    def _note(self, reason: str) -> None:
        """Why nothing changes, once for each time that this is new."""
        if reason and reason != self._noted:
            record = self.change.world.ledger.record("decision", self.policy.name, self.change.env.now)
            record.detail, record.end_s = {"reason": reason, "moves": 0, "rescales": {}}, self.change.env.now
        self._noted = reason

    def _apply(self, decision: Reconfiguration) -> Generator[simpy.Event, Any, None]:
        change = self.change
        record = change.world.ledger.record("decision", self.policy.name, change.env.now)
        record.detail = {
            "reason": decision.reason,
            "moves": len(decision.moves),
            "rescales": {each.operator: len(each.placement) for each in decision.rescales},
            **({"operations": [each.kind for each in decision.operations]} if decision.operations else {}),
            **decision.figures,
        }
        if self.latency_s > 0.0:
            yield change.env.timeout(self.latency_s)
        for requests in (
            [change.rescale(each) for each in decision.rescales],
            [change.operate(each) for each in decision.operations],
            self._moves(decision),
        ):
            if requests:
                yield change.env.all_of([change.env.process(request) for request in requests])
        change.under_way -= 1
        record.end_s = change.env.now

    def _moves(self, decision: Reconfiguration) -> list[Process]:
        """Replicas one by one; all key groups of an operator together."""
        whole = [self.change.move(each) for each in decision.moves if each.replica is not None]
        parts = sorted((each for each in decision.moves if each.replica is None), key=_operator)
        grouped = [list(each) for _, each in groupby(parts, key=_operator)]
        return whole + [self.change.regroup(each, retire=decision.retire) for each in grouped]


def _operator(move: Move) -> str:
    return move.operator
