"""What goes wrong: slow hosts, slow links, and failures with a restart from the last checkpoint."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import simpy

from twin.change.checkpoint import complete, take_checkpoint
from twin.change.restarting import all_tasks, restart, stop
from twin.engine.station.task import Task
from twin.events import Failure, LinkDegradation, SlowDown

if TYPE_CHECKING:
    from twin.change.reconfiguration import Reconfigurer
    from twin.change.rewiring import Rewiring
    from twin.engine.streams.network import Nic

Process = Generator[simpy.Event, Any, None]


def slow_down(wiring: Rewiring, event: SlowDown) -> Process:
    """Multiplies the host's CPU work while it lasts."""
    env = wiring.world.env
    record = wiring.world.ledger.record(event.kind, event.host, env.now, factor=event.factor)
    wiring.throttle(event.host, event.factor)
    if event.duration_s is not None:
        yield env.timeout(event.duration_s)
        wiring.throttle(event.host, 1.0 / event.factor)
        record.end_s = env.now


def degrade(wiring: Rewiring, event: LinkDegradation) -> Process:
    """Multiplies bandwidth and latency while it lasts."""
    env, ledger = wiring.world.env, wiring.world.ledger
    nics = _degraded(wiring, event)
    factors = {"bandwidth_factor": event.bandwidth_factor, "latency_factor": event.latency_factor}
    record = ledger.record(event.kind, event.component, env.now, **factors)
    for nic in nics:
        nic.degrade(event.bandwidth_factor, event.latency_factor)
    if event.duration_s is not None:
        yield env.timeout(event.duration_s)
        for nic in nics:
            nic.degrade(1.0 / event.bandwidth_factor, 1.0 / event.latency_factor)
        record.end_s = env.now


def _degraded(wiring: Rewiring, event: LinkDegradation) -> list[Nic]:
    """A host's card, or both directions of a link."""
    if event.link is None:
        assert event.host is not None
        return [wiring.network.nic(event.host)]
    return [wiring.world.links["->".join(ends)] for ends in (event.link, event.link[::-1])]


@dataclass(slots=True)
class Outage:
    """Failures that overlap: the job is down from the first until the last has recovered."""

    start_s: float
    end_s: float
    hosts: list[str]


def outages(failures: Sequence[Failure]) -> list[Outage]:
    """Failures in order of time; one that comes while the job is down prolongs that outage."""
    merged: list[Outage] = []
    for each in sorted(failures, key=lambda failure: failure.at_s):
        end_s = math.inf if each.recover_after_s is None else each.at_s + each.recover_after_s
        if merged and each.at_s <= merged[-1].end_s:
            merged[-1].end_s = max(merged[-1].end_s, end_s)
            merged[-1].hosts.append(each.host)
        else:
            merged.append(Outage(each.at_s, end_s, [each.host]))
    return merged


class Recovery:
    """Checkpoints, stops and restarts of a job. Only the last checkpoint before a failure is really taken."""

    def __init__(self, change: Reconfigurer, failures: Sequence[Failure], interval_s: float) -> None:
        self.change = change
        self.wiring = change.wiring
        self.world = change.world
        self.env = change.env
        self.interval_s = interval_s
        self.checkpoint = take_checkpoint(self.world)
        change.on_change = self.take
        change.on_arrival = self.arrived
        change.wiring.announced = self.take
        self.env.process(self._run(outages(failures)))

    def take(self) -> None:
        """A checkpoint now, if the job is up: a change of the plan is followed by one."""
        if self.change.outage is None:
            self.checkpoint = take_checkpoint(self.world)
            complete(self.checkpoint, self.env.now)

    def arrived(self, task: Task) -> None:
        """A replica that came since the checkpoint goes back to how it came: empty."""
        self.checkpoint.tasks[task] = task.snapshot()

    def _run(self, planned: Sequence[Outage]) -> Process:
        for outage in planned:
            due_s = math.floor(outage.start_s / self.interval_s) * self.interval_s
            if due_s > self.env.now:
                yield self.env.timeout(due_s - self.env.now)
                self.take()
            yield self.env.timeout(max(0.0, outage.start_s - self.env.now))  # floor(x / y) * y may be more than x
            if self._crashed():
                return
            hosts = [host for host in outage.hosts if self._used(host)]
            component = ", ".join(dict.fromkeys(outage.hosts))
            record = self.world.ledger.record("failure", component, self.env.now)
            if not hosts:
                record.detail["effect"] = "none: it carries no operator"
                self.world.ledger.warnings.append(
                    f"failure of {component} at {outage.start_s:g} s changes nothing: it carries no operator"
                )
                continue
            self.change.outage = self.env.event()
            self.change.interrupt()
            lost, duplicates = stop(self.wiring, self.checkpoint, all_tasks(self.wiring))
            record.detail |= {"checkpoint_s": self.checkpoint.at_s, "lost": lost, "duplicates": duplicates}
            if outage.end_s == math.inf:
                self.world.ledger.warnings.append(
                    f"{component} failed at {outage.start_s:g} s and never recovers: the job stays down"
                )
                for task in all_tasks(self.wiring):
                    task.halted = True
                return
            yield self.env.timeout(outage.end_s - self.env.now)
            if self._crashed():
                return
            ended, self.change.outage = self.change.outage, None
            record.detail["replayed"] = restart(self.wiring, self.checkpoint, all_tasks(self.wiring))
            ended.succeed()
            record.end_s = self.env.now
            record.paused_s = record.end_s - record.at_s

    def _crashed(self) -> bool:
        """Whether it ran out of memory, which is final."""
        return any(task.halted for task in all_tasks(self.wiring))

    def _used(self, host: str) -> bool:
        return any(self.wiring.places[task].host == host for task in all_tasks(self.wiring))
