"""What a policy is told of a period, read off the running job by counters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from twin.change.group_meter import Counted, GroupMeter
from twin.control import KeyGroupStatistics, PeriodStatistics
from twin.engine.measure.statistics import Row
from twin.engine.station.task import Task

if TYPE_CHECKING:
    from twin.change.rewiring import Rewiring


class Observer:
    """Closes each period, whether a policy is asked then or not."""

    def __init__(self, wiring: Rewiring) -> None:
        self.wiring = wiring
        self._meters = {name: GroupMeter(keys) for name, keys in wiring.world.key_groups.items()}
        self._busy_s: dict[Task, float] = {}

    def close(self, operators: Sequence[Row], hosts: Sequence[Row]) -> PeriodStatistics:
        """The period that these rows are of."""
        wiring, world = self.wiring, self.wiring.world
        start_s, end_s = operators[0]["start_s"], operators[0]["end_s"]
        percent = self._percent_a_second(hosts)
        counted = {name: meter.close() for name, meter in self._meters.items()}
        return PeriodStatistics(
            start_s=start_s,
            end_s=end_s,
            operators={row["operator"]: row for row in operators},
            hosts={row["host"]: row for row in hosts},
            placement={name: tuple(str(wiring.places[task]) for task in tasks) for name, tasks in world.tasks.items()},
            key_groups={name: self._groups(name, counted[name], percent, end_s - start_s) for name in counted},
        )

    def _percent_a_second(self, hosts: Sequence[Row]) -> Mapping[str, float]:
        """Percent of a host's CPU that a second stands for in which one of its replicas was busy.

        Replicas that share a processor are busy for longer than they work, all by the same factor on average, as it
        serves them in turns: what the host did is theirs in proportion to their busy times.
        """
        busy_s: dict[str, float] = defaultdict(float)
        for tasks in self.wiring.world.tasks.values():
            for task in tasks:
                busy_s[self.wiring.places[task].host] += task.busy_s - self._busy_s.get(task, 0.0)
                self._busy_s[task] = task.busy_s
        used = {row["host"]: 100.0 * row["cpuUtilisation"] for row in hosts}
        return {host: used.get(host, 0.0) / seconds if seconds > 0.0 else 0.0 for host, seconds in busy_s.items()}

    def _groups(
        self, operator: str, counted: Counted, percent: Mapping[str, float], length_s: float
    ) -> tuple[KeyGroupStatistics, ...]:
        wiring = self.wiring
        keys, fan, tasks = wiring.world.key_groups[operator], wiring.fan(operator), wiring.world.tasks[operator]
        replica = {fan.index(task): number for number, task in enumerate(tasks)}
        factor = [percent[wiring.places[task].host] for task in tasks]
        columns = (keys.owner, counted.tuples_g / length_s, counted.busy_g_s, keys.states_bytes())
        return tuple(
            KeyGroupStatistics(group, number, float(rate), float(size), float(busy_s) * factor[number])
            for group, (owner, rate, busy_s, size) in enumerate(zip(*columns, strict=True))
            for number in [replica.get(owner, 0)]
        )
