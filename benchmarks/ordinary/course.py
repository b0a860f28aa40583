"""Jobs over event time, with checkpoints, failures and pauses, by brute force, and what is measured of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np

from benchmarks.ordinary import streams
from benchmarks.ordinary.jobs import Costs, hosts_of
from benchmarks.ordinary.streams import BARRIER, RECORD, Array, Item, Pauses
from benchmarks.ordinary.subtasks import AtOnce, Content, Intervals, Kept, Keyed, Subtask, Timed, Windows

# passes --------------------------------------------------------------------------------------------------------------
# Brute force for jobs over event time, with checkpoints that cost something, and on hosts that pause: one operator
# after the other, each subtask by itself (`subtasks`), from the beginning of the run to its end.
#
# After a failure the whole job is passed through again: records that sources had not taken before the barriers of the
# last complete checkpoint come when the job runs again, and all before them is as it was. What the first pass gives
# counts before the failure, and what the second one gives counts after it.


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


# courses -------------------------------------------------------------------------------------------------------------
# Course of a job by brute force: passes (`Passing`) from one failure to the next, and when checkpoints are complete.
#
# One pass gives all up to a failure. The next one begins at the beginning of the run again, but what the sources had
# not taken before the barriers of the last complete checkpoint comes when the job runs again.


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


# measurements --------------------------------------------------------------------------------------------------------
# Measurements of a job's course: results, latencies, checkpoints, failures, late records.


def handles(job: Mapping[str, Any]) -> bool:
    """Whether a job has what `brute` does not know: event time, checkpoints, pauses."""
    timed = any(each["kind"] in EVENT_TIME for each in job["operators"].values())
    return timed or bool(job["checkpoints"]) or bool(job["engine"].get("noise", {}).get("gc_interval_s"))


def ages(t: Array, taken: Array, born: Array) -> dict[str, float]:
    """Means and quantiles of latencies [s] of results that come at t."""
    found = {}
    for label, since in (("Lp", taken), ("Le", born)):
        found[label] = float((t - since).mean())
        found |= {
            f"{label} p{percent}": float(np.quantile(t - since, percent / 100, method="inverted_cdf"))
            for percent in (50, 95, 99)
        }
    return found


class Whole:
    """One run of a job by brute force, with random numbers of its own."""

    def __init__(self, job: Mapping[str, Any], seed: int) -> None:
        self.job, self.course = job, Course(job, seed)
        self.start_s, self.horizon_s = float(job["run"]["warmup_s"]), float(job["run"]["horizon_s"])
        self.results: list[Item] = []
        self.done: dict[int, tuple[float, float, list[Kept]]] = {}
        self.found: dict[str, float] = {}

    def run(self) -> dict[str, float]:
        """Measurements after the warm-up, by name."""
        for stretch in self.course.stretches():
            self._results(stretch)
            for number, end_s in stretch.ended.items():
                kept = [task.kept[number] for task in stretch.passing.tasks.values()]
                self.done.setdefault(number, (stretch.passing.triggers[number], end_s, kept))
            for (name, _), task in stretch.passing.tasks.items():
                self._flow(name, task, stretch)
        for (name, _), task in stretch.passing.tasks.items():
            each = self.job["operators"][name]
            if each["kind"] in EVENT_TIME and each["kind"] != "consolidate" and "late_to" not in each:
                self._add(f"late {name}", sum(item.late and item.t < self.horizon_s for item in task.out))
        t, taken, born = np.array([(each.t, each.taken, each.born) for each in self.results]).T
        measured = (t >= self.start_s) & (t < self.horizon_s)
        latencies = ages(t[measured], taken[measured], born[measured])
        rate = float(measured.sum()) / (self.horizon_s - self.start_s)
        return {"T": rate} | latencies | self.found | self.course.found | self._checkpoints()

    def _add(self, name: str, value: float) -> None:
        self.found[name] = self.found.get(name, 0.0) + float(value)

    def _results(self, stretch: Stretch) -> None:
        """Results that are seen in a stretch: when they come, or when the checkpoint that has them is complete."""
        for place, task in stretch.passing.tasks.items():
            if place[0] not in self.course.sinks():
                continue
            turns = sorted((task.kept[number].turn, end_s) for number, end_s in stretch.ended.items())
            for each in stretch.passing.results(place):
                seen_s = each.t
                if self.job["checkpoints"].get("sinks") == "exactly-once":
                    seen_s = next((end_s for turn, end_s in turns if turn >= each.t), np.inf)
                if stretch.from_s <= seen_s < stretch.until_s:
                    self.results.append(each.at(seen_s))

    def _flow(self, name: str, task: Subtask, stretch: Stretch) -> None:
        """Adds the rates of what comes and leaves, and the busy share of time, of a subtask."""
        begin_s, end_s = max(stretch.from_s, self.start_s), min(stretch.until_s, self.horizon_s)
        if end_s <= begin_s:
            return
        seconds, each = self.horizon_s - self.start_s, self.job["operators"][name]
        spans = np.clip(np.array(task.worked).reshape(-1, 2), begin_s, end_s)
        self._add(f"busy {name}", (spans[:, 1] - spans[:, 0]).sum() / seconds / sum(each["at"].values()))
        coming = [item.t for channel in task.channels for item in channel if item.what == RECORD]
        if task.source:
            coming = [item.taken for item in task.out if item.what == RECORD]
        self._add(f"in {name}", sum(begin_s <= t < end_s for t in coming) / seconds)
        if name not in self.course.sinks():
            leaving = [i.t for i in task.out if i.what == RECORD and (not i.late or "late_to" in each)]
            self._add(f"out {name}", sum(begin_s <= t < end_s for t in leaving) / seconds)

    def _checkpoints(self) -> dict[str, float]:
        done = [each for each in self.done.values() if each[0] >= self.start_s]
        if not done:
            return {"checkpoints": 0.0} if self.job["checkpoints"] else {}
        return {
            "checkpoints": float(len(done)),
            "checkpoint s": float(np.mean([end_s - at_s for at_s, end_s, _ in done])),
            "aligned s": float(np.mean([max(each.turn - each.first for each in kept) for *_, kept in done])),
            "put aside": float(np.mean([sum(each.aside for each in kept) for *_, kept in done])),
            "bytes": float(np.mean([sum(map(self.course.uploaded, kept)) for *_, kept in done])),
        }


# full channels -------------------------------------------------------------------------------------------------------
# Brute force for checkpoints of stations in a row whose channels are full: one record after the other.
#
# A record is taken up when its station is free, served, and leaves once there is room behind it. So the times of each
# follow from those of the records before it, and nothing is simulated. An aligned barrier is in the row as a record of
# no size. One that overtakes passes each station when its record in service is done; where it costs no CPU, records do
# not notice it.


class Row:
    """One run of a job whose operators are maps in a row, on one host."""

    def __init__(self, job: Mapping[str, Any], seed: int) -> None:
        self.job, self.rng, self.costs = job, np.random.default_rng(seed + 10**6), job["checkpoints"]
        self.start_s, self.horizon_s = float(job["run"]["warmup_s"]), float(job["run"]["horizon_s"])
        self.names = list(job["operators"])
        law = {"law": "poisson", "rate_per_s": job["operators"][self.names[0]]["rate"]}
        self.born = streams.arrivals(law, [], self.horizon_s, self.rng)
        shape = len(self.names), len(self.born)
        means_s = np.array([job["operators"][name].get("ms", 0) / 1e3 for name in self.names])
        self.services = means_s[:, None] * self.rng.exponential(size=shape)
        self.taken, self.done, self.left = np.full(shape, np.inf), np.full(shape, np.inf), np.full(shape, np.inf)
        self.triggers = np.arange(self.costs["first_s"], self.horizon_s, self.costs["interval_s"])
        self.passed = np.full((len(self.names), len(self.triggers)), np.inf)

    def run(self) -> dict[str, float]:
        """Measurements after the warm-up, by name."""
        overtaking, sync_s = self.costs.get("mode") == "unaligned", self.costs.get("sync_ms", 1) / 1e3
        assert not (overtaking and sync_s)
        free, due = np.zeros(len(self.names)), 0
        for i, born in enumerate(self.born):
            while not overtaking and due < len(self.triggers) and self.triggers[due] <= max(born, free[0]):
                t = self.triggers[due]
                for k in range(len(self.names)):
                    self.passed[k, due] = t = max(t, free[k])
                    free[k] = t + sync_s
                due += 1
            self._record(i, born, free)
        if overtaking:
            self._overtake()
        return self._measured(sync_s)

    def _record(self, i: int, t: float, free: Array) -> None:
        room = self.job["engine"]["channel_records"]
        for k in range(len(self.names)):
            self.taken[k, i] = max(t, free[k])
            self.done[k, i] = t = self.taken[k, i] + self.services[k, i]
            if k + 1 < len(self.names) and i >= room:
                t = max(t, self.taken[k + 1, i - room])
            self.left[k, i] = free[k] = t

    def _overtake(self) -> None:
        for number, t in enumerate(self.triggers):
            for k in range(len(self.names)):
                last = int(np.searchsorted(self.taken[k], t, side="right")) - 1
                self.passed[k, number] = t = max(t, self.done[k, last])

    def _flying(self, number: int) -> int:
        """Records that a barrier overtakes: those that a station is done with and the next one has not taken up."""
        found = 0
        for k in range(1, len(self.names)):
            t = self.passed[k, number]
            done, taken = np.searchsorted(self.done[k - 1], t, side="right"), np.searchsorted(self.taken[k], t)
            found += int(done) - int(taken)
        return found

    def _measured(self, sync_s: float) -> dict[str, float]:
        seconds, last = self.horizon_s - self.start_s, len(self.names) - 1
        measured = (self.left[last] >= self.start_s) & (self.left[last] < self.horizon_s)
        polled = self.left[0] - self.services[0]  # a source polls when there is room
        t = self.left[last][measured]
        found = {"T": float(measured.sum()) / seconds} | ages(t, polled[measured], self.born[measured])
        ends = self.passed[-1] + sync_s
        size = 0.0
        if self.costs.get("mode") == "unaligned":
            size = Costs(self.job["operators"], self.job["engine"]).bytes_of(self.names[0])
        sent = np.array([size * self._flying(number) if size else 0.0 for number in range(len(self.triggers))])
        ends = ends + sent * 8e-6 / self.costs.get("storage_mbps", np.inf)
        done = (self.triggers >= self.start_s) & (ends < self.horizon_s)
        found |= {"checkpoints": int(done.sum()), "checkpoint s": float((ends - self.triggers)[done].mean())}
        return found | {"aligned s": 0.0, "put aside": 0.0, "bytes": float(sent[done].mean())}
