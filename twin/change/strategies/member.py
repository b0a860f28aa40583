"""Members: operators whose key groups move together, either one alone or a compute and its consolidate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from twin.change.fan import Fan, KeyFlow, keys_of
from twin.change.running_job import Process, RunningJob
from twin.engine.station.task import Task
from twin.engine.windows.ownership import Cut, Ownership
from twin.engine.windows.watermark import TimedLogic
from twin.panes import covering
from twin.plan import Location
from twin.windows import EventWindow


@dataclass(frozen=True)
class Member:
    """One operator over event time whose key groups move."""

    job: RunningJob
    name: str

    @property
    def fan(self) -> Fan:
        """Fan of the operator."""
        return self.job.fan(self.name)

    @property
    def owners(self) -> Ownership:
        """Owners of its key groups."""
        return self.job.world.owners[self.name]

    @property
    def seats(self) -> list[Location | None]:
        """Places of its replicas, by index of the fan; None where there is no replica."""
        seats = zip(self.fan.slots, self.fan.places, strict=True)
        taken = [place if isinstance(receiver, Task) else None for receiver, place in seats]
        while taken and taken[-1] is None:
            taken.pop()
        return taken

    @property
    def replicas(self) -> list[TimedLogic]:
        """Logics of its replicas."""
        return [cast("TimedLogic", task.logic) for task in self.job.world.tasks[self.name]]

    def replica(self, index: int) -> TimedLogic:
        """Logic of the replica at an index of its fan."""
        task = self.fan.slots[index]
        assert isinstance(task, Task) and isinstance(task.logic, TimedLogic)
        return task.logic

    @property
    def windows(self) -> tuple[EventWindow, ...]:
        """Windows that its state belongs to."""
        return self.job.wiring.event_times.merged_windows(self.name)

    @property
    def longest_us(self) -> int:
        """Length of its longest window."""
        return max(window.length_us for window in self.windows)

    def cut(self, flows: Sequence[KeyFlow], at_us: int, over_us: int, *, by_end: bool = False) -> Cut:
        """Cut at which the key groups of these flows change hands."""
        old = {group: flow.source for flow in flows for group in flow.groups}
        new = {group: flow.target for flow in flows for group in flow.groups}
        return Cut(at_us, over_us, old, new, by_end)

    def settle(self, flows: Iterable[KeyFlow]) -> None:
        """Sends tuples of the key groups to their new owners from now on."""
        for flow in flows:
            self.fan.shift(flow.source, flow.target, flow.amount, flow.groups)

    def owning(self, flows: Sequence[KeyFlow]) -> list[TimedLogic]:
        """Logics of all old and new owners."""
        return [self.replica(index) for flow in flows for index in (flow.source, flow.target)]


def reached(job: RunningJob, far: Sequence[tuple[TimedLogic, int]]) -> Process:
    """Waits until the job is up and all replicas have reached their event times. A failure may take them back."""
    up = job.availability
    yield job.env.until(lambda: up.outage is None and all(logic.watermark_us >= us for logic, us in far))


def change_hands(job: RunningJob, members: Sequence[Member], cuts: Sequence[Cut], flows: Sequence[KeyFlow]) -> Process:
    """Waits until the last windows of the old owners are complete, and then gives everything to the new owners."""
    yield from reached(
        job, [(logic, cut.over_us) for member, cut in zip(members, cuts, strict=True) for logic in member.owning(flows)]
    )
    for member, cut in zip(members, cuts, strict=True):
        member.owners.over(cut)
        member.settle(flows)
        for flow in flows:
            member.replica(flow.source).drop(keys_of(member.owners.keys, flow), cut.at_us)
    job.checkpoints.plan_changed()


def last_before(windows: Iterable[EventWindow], at_us: int) -> int:
    """End of the last window that begins before `at_us`."""
    return max(span.end for window in windows for span in covering(window, at_us - 1))
