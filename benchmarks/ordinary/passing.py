"""Brute force for jobs over event time, with checkpoints that cost something, and on hosts that pause: one operator
after the other, each subtask by itself (`subtasks`), from the beginning of the run to its end.

After a failure the whole job is passed through again: records that sources had not taken before the barriers of the
last complete checkpoint come when the job runs again, and all before them is as it was. What the first pass gives
counts before the failure, and what the second one gives counts after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np

from benchmarks.ordinary import streams
from benchmarks.ordinary.contents import AtOnce, Content, Intervals, Keyed, Timed, Windows
from benchmarks.ordinary.items import BARRIER, RECORD, Item, Pauses
from benchmarks.ordinary.jobs import Costs, hosts_of
from benchmarks.ordinary.records import Array
from benchmarks.ordinary.subtasks import Kept, Subtask

EVENT_TIME = ("compute", "consolidate", "interval-join")


Place = tuple[str, int]
"""Operator and number of a subtask."""


@dataclass(frozen=True, slots=True)
class Outage:
    """From the beginning of the last complete checkpoint until the job runs again [s]. number: of the checkpoint, if
    checkpoints cost anything."""

    begun_s: float
    again_s: float
    number: int | None


@dataclass(slots=True)
class Passing:
    """One pass. triggers: when each checkpoint begins [s]. born, coming: when each record of a source came to the
    broker, and when it can be read [s]. hosts: of the subtasks of each operator. outages: what has happened."""

    job: Mapping[str, Any]
    seed: int
    triggers: Mapping[int, float]
    born: Mapping[Place, Array]
    coming: Mapping[Place, Array]
    hosts: Mapping[str, Sequence[str]]
    outages: Sequence[Outage]
    tasks: dict[Place, Subtask] = field(default_factory=dict)
    pauses: dict[str, Pauses] = field(default_factory=dict)
    sent: dict[tuple[str, int, str], list[list[Item]]] = field(default_factory=dict)

    def run(self) -> Passing:
        """Fills `tasks`, and returns itself."""
        noise, end_s = self.job["engine"].get("noise", {}), self.job["run"]["horizon_s"]
        for host in hosts_of(self.job):
            rng = self._rng("pauses", host)
            self.pauses[host] = Pauses(noise.get("gc_interval_s"), noise.get("gc_pause_s", 0.0), end_s, rng)
        for name in self.job["operators"]:
            for k in range(len(self.hosts[name])):
                self.tasks[name, k] = self._subtask(name, k)
        return self

    def results(self, place: Place) -> list[Item]:
        """Records that a subtask emits, or a sink is done with."""
        return [item for item in self.tasks[place].out if item.what == RECORD]

    def _rng(self, *about: Any) -> Any:
        return np.random.default_rng([self.seed + 10**6, *(crc32(str(each).encode()) for each in about)])

    def _subtask(self, name: str, k: int) -> Subtask:
        each, costs = self.job["operators"][name], self.job["checkpoints"]
        channels = self._channels(name, k) if each["from"] else [self._arrived(name, k), self._barriers()]
        count = sum(item.what == RECORD for channel in channels for item in channel)

        def sync_s(kept: Kept) -> float:
            uploaded = kept.changed_bytes if costs.get("state") == "incremental" else kept.state_bytes
            return float(costs.get("sync_ms", 1) / 1e3 + costs.get("sync_ns_per_byte", 0) * uploaded / 1e9)

        task = Subtask(
            channels=channels,
            services=self._services(name, k, count),
            content=self._content(name, k),
            pauses=self.pauses[self.hosts[name][k]],
            sync_s=sync_s,
            size=self._size(name),
            overtaking=costs.get("mode") == "unaligned",
            source=not each["from"],
        )
        task.run()
        later = self._later(task)
        if later:
            task.out = sorted([*task.out, *later], key=lambda item: item.t)
        return task

    def _content(self, name: str, k: int) -> Content:
        operators = self.job["operators"]
        each, rng = operators[name], self._rng("content", name, k)
        if not each["from"]:
            timed = any(other["kind"] in EVENT_TIME for other in operators.values())
            return Timed(each, rng) if timed else Content(each, rng)
        if each["kind"] == "interval-join":
            return Intervals(each, rng)
        if each["kind"] in EVENT_TIME and ("windows" in each or "partial_s" in each):
            behind = [
                other for reader, other in operators.items() if name in other["from"] and reader != each.get("late_to")
            ]
            return Windows(each, behind[0], self.job["engine"].get("lateness", "pane"), rng)
        if each["kind"] in EVENT_TIME:
            return AtOnce(each, rng)
        if "window" in each or "gap_s" in each or "key_groups" in each:
            groups, parallelism = each.get("key_groups", 0), len(self.hosts[name])
            mine = sum(group * parallelism // groups == k for group in range(groups))
            return Keyed(each, rng, mine, self._size(name))
        return Content(each, rng)

    def _size(self, name: str) -> float:
        """Size of a record that comes to an operator [bytes], all of one size."""
        producers = self.job["operators"][name]["from"] or [name]
        return Costs(self.job["operators"], self.job["engine"]).bytes_of(next(iter(producers)))

    def _services(self, name: str, k: int, count: int) -> list[float]:
        each, engine = self.job["operators"][name], self.job["engine"]
        scv, mean_s = (
            each.get("service_scv", engine["service_scv"]),
            Costs(self.job["operators"], engine).service_s(name),
        )
        if not scv or not mean_s:
            return [mean_s] * count
        return list(self._rng("service", name, k).gamma(1 / scv, mean_s * scv, size=count))

    # What comes

    def _arrived(self, name: str, k: int) -> list[Item]:
        born, disorder_s = self.born[name, k], self.job["operators"][name].get("disorder_s", 0.0)
        event = born - disorder_s * self._rng("events", name, k).random(len(born))
        times = zip(self.coming[name, k], born, event, strict=True)
        return [Item(float(t), born=float(at), event=float(when)) for t, at, when in times]

    def _barriers(self) -> list[Item]:
        return [Item(t, BARRIER, number) for number, t in self.triggers.items()]

    def _channels(self, name: str, k: int) -> list[list[Item]]:
        found: list[list[Item]] = []
        for producer, how in self.job["operators"][name]["from"].items():
            for j in range(len(self.hosts[producer])):
                if (producer, j, name) not in self.sent:
                    self.sent[producer, j, name] = self._dealt(producer, j, name, how)
                if how != "forward" or j == k:
                    found.append(self.sent[producer, j, name][k])
        return found

    def _dealt(self, producer: str, j: int, name: str, how: str | None) -> list[list[Item]]:
        """What a producer's subtask sends to each subtask of a consumer, as it arrives there."""
        each, parallelism = self.job["operators"][name], len(self.hosts[name])
        late = self.job["operators"][producer].get("late_to") == name
        out = [item for item in self.tasks[producer, j].out if item.what != RECORD or item.late == late]
        keys = np.array([item.key for item in out if item.what == RECORD], dtype=int)
        rng = self._rng("keys", producer, j, name)
        if each["kind"] != "consolidate":
            keys = streams.draw_keys(each, self.job["keys"].get(name, {}), len(keys), rng)
        how = "hash" if how is None and each["kind"] in EVENT_TIME else how
        whose = streams.dealt(each, how, j, np.zeros(len(keys)), keys, parallelism, rng)
        drawn = iter(zip(keys, whose, strict=True))
        parts: list[list[Item]] = [[] for _ in range(parallelism)]
        for item in out:
            if item.what == RECORD:
                key, k = (int(number) for number in next(drawn))
                there = item.t + self._way_s(producer, j, name, k)
                parts[k].append(item.at(there, key=key, side=producer, late=False))
                continue
            for k, part in enumerate(parts):
                part.append(item.at(item.t + self._way_s(producer, j, name, k)))
        return parts

    def _way_s(self, producer: str, j: int, name: str, k: int) -> float:
        here, there = self.hosts[producer][j], self.hosts[name][k]
        return 0.0 if here == there else hosts_of(self.job)[here]["latency_ms"] / 1e3

    # Windows over processing time

    def _later(self, task: Subtask) -> list[Item]:
        """Results of windows over processing time; those that end while the job is down come when it runs again."""
        each, horizon_s = task.content.each, self.job["run"]["horizon_s"]
        if not isinstance(task.content, Keyed):
            return []
        if each["kind"] == "session":
            return task.content.sessions(horizon_s)
        if "window" not in each:
            return []
        slide_s = each["window"].get("slide_s", each["window"]["size_s"])
        ends = [float(end) for end in slide_s * np.arange(1, int(horizon_s / slide_s) + 1)]
        evaluated, until = dict(zip(ends, ends, strict=True)), dict[float, float]()
        for outage in self.outages:
            turn = outage.begun_s if outage.number is None else task.kept[outage.number].turn
            for end in ends:
                if turn < end < outage.again_s:
                    evaluated[end], until[end] = outage.again_s, turn
        return task.content.results(evaluated, until)
