"""Controller of a job: asks a policy at the end of each period, and carries out its decisions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from twin.change.observation import Observer
from twin.change.reconfiguration import Reconfigurer
from twin.change.running_job import Process
from twin.control import Policy, Reconfiguration
from twin.engine.measure.meters import Row
from twin.errors import BadInput
from twin.event_checks import check_move, check_rescale


class Controller:
    """Gives a policy the statistics of each period, and carries out its decision `latency_s` after the period's end."""

    def __init__(self, change: Reconfigurer, policy: Policy, latency_s: float) -> None:
        self.change = change
        self.job = change.job
        self.env = change.env
        self.policy = policy
        self.latency_s = latency_s
        self._noted = ""
        self.observer = Observer(self.job)
        self.job.statistics.listeners.append(self._period_ended)

    def _period_ended(self, operators: Sequence[Row], hosts: Sequence[Row]) -> None:
        availability = self.job.availability
        statistics = self.observer.close(operators, hosts)
        if availability.outage is not None or availability.changes:
            return
        decision = self.policy.decide(statistics)
        if decision is None:
            return
        self._warn(decision.warnings)
        if not (decision.moves or decision.rescales or decision.operations):
            self._note(decision.reason)
            return
        self._noted = ""
        self._check(decision)
        availability.changes += 1
        self.env.process(self._apply(decision))

    def _warn(self, warnings: Sequence[str]) -> None:
        told = self.job.world.ledger.warnings
        lines = (f"policy {self.policy.name!r} {warning}" for warning in warnings)
        told += [line for line in lines if line not in told]

    def _note(self, reason: str) -> None:
        """Records why nothing changes, if the reason is a new one."""
        if reason and reason != self._noted:
            record = self.job.world.ledger.record("decision", self.policy.name, self.env.now)
            record.detail, record.end_s = {"reason": reason, "moves": 0, "rescales": {}}, self.env.now
        self._noted = reason

    def _check(self, decision: Reconfiguration) -> None:
        """Raises BadInput if a policy orders something impossible."""
        deployment, whose = self.job.wiring.deployment, f"policy {self.policy.name!r}"
        placement = {name: tuple(map(str, tasks)) for name, tasks in self.job.world.tasks.items()}
        try:
            for rescale in decision.rescales:
                check_rescale(rescale, deployment, whose)
            for move in decision.moves:
                check_move(move, deployment, whose, None if decision.rescales else placement)
        except ValueError as error:
            raise BadInput(str(error)) from None

    def _apply(self, decision: Reconfiguration) -> Process:
        record = self.job.world.ledger.record("decision", self.policy.name, self.env.now)
        record.detail = {
            "reason": decision.reason,
            "moves": len(decision.moves),
            "rescales": {rescale.operator: len(rescale.placement) for rescale in decision.rescales},
            **({"operations": [event.kind for event in decision.operations]} if decision.operations else {}),
            **decision.figures,
        }
        if self.latency_s > 0.0:
            yield self.env.timeout(self.latency_s)
        rescales = [self.change.rescale(rescale) for rescale in decision.rescales]
        operations, moves = [self.change.operate(event) for event in decision.operations], self._moves(decision)
        together = self.change.restarts is not None  # all changes share one restart
        for requests in [operations, rescales + moves] if together else [rescales, operations, moves]:
            if requests:
                yield self.env.all_of([self.env.process(request) for request in requests])
        self.job.availability.changes -= 1
        record.end_s = self.env.now

    def _moves(self, decision: Reconfiguration) -> list[Process]:
        """Processes of the moves: replicas one by one, all key groups of an operator together."""
        whole = [self.change.move(move) for move in decision.moves if move.replica is not None]
        operator = attrgetter("operator")
        parts = sorted((move for move in decision.moves if move.replica is None), key=operator)
        grouped = [list(moves) for _, moves in groupby(parts, key=operator)]
        return whole + [self.change.regroup(moves, retire=decision.retire) for moves in grouped]
