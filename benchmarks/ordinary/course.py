"""Course of a job by brute force: passes (`passing`) from one failure to the next, and when checkpoints are complete.

One pass gives all up to a failure. The next one begins at the beginning of the run again, but what the sources had not
taken before the barriers of the last complete checkpoint comes when the job runs again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.ordinary import streams
from benchmarks.ordinary.items import RECORD
from benchmarks.ordinary.jobs import hosts_of
from benchmarks.ordinary.passing import Outage, Passing, Place
from benchmarks.ordinary.records import Array
from benchmarks.ordinary.subtasks import Kept


@dataclass(frozen=True, slots=True)
class Stretch:
    """What a pass gives between two times [s]. ended: ends of its complete checkpoints, by number [s]."""

    passing: Passing
    ended: Mapping[int, float]
    from_s: float
    until_s: float


class Course:
    """One run of a job by brute force. found: seconds of outage, records replayed and results that come twice."""

    def __init__(self, job: Mapping[str, Any], seed: int) -> None:
        self.job, self.seed, self.operators = job, seed, job["operators"]
        self.costs, self.horizon_s = job["checkpoints"], float(job["run"]["horizon_s"])
        self.hosts = {
            name: [host for host, count in each["at"].items() for _ in range(count)]
            for name, each in self.operators.items()
        }
        self.born = self._arrivals()
        self.coming: dict[Place, Array] = dict(self.born)
        self.begun: dict[int, float] = {}
        self.following_s = self._first_s()
        self.outages: list[Outage] = []
        self.found: dict[str, float] = {}

    def stretches(self) -> Iterator[Stretch]:
        """What happens up to each failure, and then to the end."""
        from_s = 0.0
        for event in sorted(self.job["events"], key=lambda each: each["at_s"]):
            passing, ended = self._passed(float(event["at_s"]))
            yield Stretch(passing, ended, from_s, float(event["at_s"]))
            self._fail(event, passing, max(ended, default=None))
            self.begun = {number: passing.triggers[number] for number in ended}
            from_s = float(event["at_s"])
        yield Stretch(*self._passed(self.horizon_s), from_s, self.horizon_s)

    def _arrivals(self) -> dict[Place, Array]:
        found, rng = dict[Place, Array](), np.random.default_rng(self.seed + 10**6)
        for name, each in self.operators.items():
            if not each["from"]:
                parallelism = len(self.hosts[name])
                law = each.get("arrivals") or {"law": "poisson", "rate_per_s": each["rate"]}
                t = streams.arrivals(law, [], self.horizon_s, rng)
                whose = rng.integers(each.get("partitions", parallelism), size=len(t)) % parallelism
                found |= {(name, k): t[whose == k] for k in range(parallelism)}
        return found

    # Checkpoints

    def _first_s(self) -> float:
        """Start of the first checkpoint [s], as given or by chance."""
        chance = float(np.random.default_rng(self.seed).random()) * self.costs.get("interval_s", 10.0)
        return float(self.costs.get("first_s", chance))

    def _passed(self, until_s: float) -> tuple[Passing, dict[int, float]]:
        """A pass, and the ends of its checkpoints that are complete before a time, by number [s].

        It is as if each checkpoint were over before the next one is due; from the first that is not, the others begin
        when it is over, and all is passed through again.
        """
        if not self.costs:
            return self._pass({}), {}
        interval_s, pause_s = self.costs.get("interval_s", 10.0), self.costs.get("min_pause_s", 0.0)
        sure, following_s = dict(self.begun), self.following_s
        while True:
            triggers = dict(sure)
            while following_s < until_s:
                triggers[len(triggers)] = following_s
                following_s += interval_s
            passing = self._pass(triggers)
            ends = {number: self._end_s(passing, number) for number in triggers}
            over = {
                number: min(end_s, triggers[number] + self.costs.get("timeout_s", 600))
                for number, end_s in ends.items()
            }
            for number in range(len(sure), len(triggers)):
                following_s = max(triggers[number] + interval_s, over[number] + pause_s)
                if number + 1 in triggers and following_s > triggers[number + 1]:
                    sure = {each: triggers[each] for each in range(number + 1)}
                    break
            else:
                self.following_s = following_s
                return passing, {n: end_s for n, end_s in ends.items() if end_s == over[n] and end_s < until_s}

    def _pass(self, triggers: Mapping[int, float]) -> Passing:
        return Passing(self.job, self.seed, triggers, self.born, self.coming, self.hosts, tuple(self.outages)).run()

    def _end_s(self, passing: Passing, number: int) -> float:
        """End of a checkpoint [s]: the storage, or the card of a host, is busy while anything is to be uploaded."""
        kept = {place: task.kept[number] for place, task in passing.tasks.items()}
        ends, free = [each.ready for each in kept.values()], dict[str, float]()
        for (name, k), each in sorted(kept.items(), key=lambda pair: pair[1].ready):
            host = self.hosts[name][k] if "storage" in self.costs else ""
            if uploaded := self.uploaded(each):
                free[host] = max(free.get(host, 0.0), each.ready) + uploaded / self._bytes_per_s(host)
                ends.append(free[host] + (hosts_of(self.job)[host]["latency_ms"] / 1e3 if host else 0.0))
        return max(ends)

    def uploaded(self, kept: Kept) -> float:
        """Bytes that a subtask uploads."""
        return kept.flying_bytes + (
            kept.changed_bytes if self.costs.get("state") == "incremental" else kept.state_bytes
        )

    def _bytes_per_s(self, host: str = "") -> float:
        """What the storage takes, or the card of a host whose uploads go to another one."""
        mbps = hosts_of(self.job)[host]["bandwidth_mbps"] if host else self.costs.get("storage_mbps", np.inf)
        return float(mbps) * 1e6 / 8

    # Failures

    def _fail(self, event: Mapping[str, Any], passing: Passing, number: int | None) -> None:
        """Lets records come again after a failure. number: of the last complete checkpoint."""
        at_s, hit = float(event["at_s"]), self._region(event["host"])
        begun_s = 0.0 if number is None else passing.triggers[number]
        if not self.costs:
            interval_s = self.job["run"].get("checkpoint_interval_s", 10)
            begun_s = at_s // interval_s * interval_s
        turns = {place: begun_s if number is None else passing.tasks[place].kept[number].turn for place in hit}
        states = [0.0 if number is None else passing.tasks[place].kept[number].state_bytes for place in hit]
        again_s = at_s + event["recover_after_s"] + sum(states) / self._bytes_per_s()
        replayed = duplicates = 0
        for place in hit:
            if place in self.coming:
                taken = np.array([item.taken for item in passing.tasks[place].out if item.what == RECORD])
                lost = taken >= turns[place]
                replayed += int((lost & (taken < at_s)).sum())
                self.coming[place] = np.where(lost, np.maximum(self.coming[place], again_s), self.coming[place])
            elif place[0] in self.sinks() and self.costs.get("sinks") != "exactly-once":
                duplicates += sum(turns[place] <= item.t < at_s for item in passing.results(place))
        down_s = again_s - max([at_s, *(outage.again_s for outage in self.outages)])
        for name, value in (("down s", down_s), ("replayed", replayed), ("duplicates", duplicates)):
            self.found[name] = self.found.get(name, 0.0) + value
        self.outages.append(Outage(begun_s, again_s, number))
        self.following_s = max(self.following_s, again_s)
        if event.get("lost"):
            (other,) = {each for hosts in self.hosts.values() for each in hosts} - {event["host"]}
            self.hosts = {name: [other] * len(hosts) for name, hosts in self.hosts.items()}

    def sinks(self) -> set[str]:
        """Operators that nobody reads."""
        return set(self.operators) - {producer for each in self.operators.values() for producer in each["from"]}

    def _region(self, host: str) -> set[Place]:
        """Subtasks that start again: those that channels connect with one on the host, or all."""
        everything = {(name, k) for name, hosts in self.hosts.items() for k in range(len(hosts))}
        if not self.costs or self.costs.get("failover") == "full":
            return everything
        channels = {
            ((producer, j), (name, k))
            for name, each in self.operators.items()
            for producer, how in each["from"].items()
            for j in range(len(self.hosts[producer]))
            for k in range(len(self.hosts[name]))
            if how != "forward" or j == k
        }
        hit = {place for place in everything if self.hosts[place[0]][place[1]] == host}
        while more := ({b for a, b in channels if a in hit} | {a for a, b in channels if b in hit}) - hit:
            hit |= more
        return hit
