"""Brute force for `jobs.yaml`: whole streams as arrays, one operator after the other, as the documentation says.

Nothing of the simulator is used. An operator's subtask is a recursion over its inputs in order of arrival (Lindley), so
this holds where no channel is full and every task has a core; `run_crowded` computes the other jobs.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.ordinary import streams
from benchmarks.ordinary.jobs import HOST, Costs
from benchmarks.ordinary.streams import Array, Clock, Records, fifo, fifo_of_many, together

# tasks ---------------------------------------------------------------------------------------------------------------
# Tasks that are more than a queue: they wait for answers, or evaluate windows, in which records are compared with each
# other.


def calling(t: Array, services: Array, away: Array, each: Mapping[str, Any]) -> tuple[Array, Array]:
    """Times at which answers leave, and services start; at most `capacity` calls are pending, in order or not."""
    turn_s, outside = 1 / each.get("rate_per_s", np.inf), list[float]()
    back, started = np.empty(len(t)), np.empty(len(t))
    free = turn = last = 0.0
    for k, service in enumerate(services):
        started[k] = max(t[k], free)
        free = started[k] + service
        while outside and outside[0] <= free:
            heapq.heappop(outside)
        if len(outside) == each.get("capacity", np.inf):
            free = heapq.heappop(outside)
        free = max(free, turn)
        turn = free + turn_s
        last = max(last, free + away[k]) if each.get("ordered") else free + away[k]
        back[k] = last
        heapq.heappush(outside, last)
    return back, started


def evaluating(
    records: Records, services: Array, each: Mapping[str, Any], engine: Mapping[str, Any], horizon_s: float
) -> tuple[Records, Array, Array]:
    """Results of a time window, and starts and ends of services and evaluations.

    An evaluation takes the task: it scans what the window holds, makes the results, and all leave at its end.
    """
    window = each["window"]
    slide_s = window.get("slide_s", window["size_s"])
    done, started = np.full(len(services), np.inf), np.full(len(services), np.inf)
    parts, spans, free, last = [records[:0]], list[tuple[float, float]](), 0.0, 0
    for end_s in slide_s * np.arange(1, int(horizon_s / slide_s) + 2):
        while last < len(services) and max(free, records.t[last]) < end_s:
            started[last] = max(free, records.t[last])
            done[last] = free = started[last] + services[last]
            last += 1
        first = int(np.searchsorted(done[:last], end_s - window["size_s"]))
        held = records[first:last][done[first:last] < end_s]
        begun = max(free, end_s)
        found = results(held, begun, each)
        free = begun + (engine["scan_us"] * len(held.t) + engine["result_us"] * len(found.t)) / 1e6
        parts.append(found.at(np.full(len(found.t), free)))
        spans.append((begun, free))
    begun_at, done_at = np.array(spans).T
    return together(parts), np.concatenate([started, begun_at]), np.concatenate([done, done_at])


def evaluations(done: Records, window: Mapping[str, Any], horizon_s: float) -> Iterator[tuple[float, Records]]:
    """Ends of windows, and the records that they hold.

    A count window ends after every slide of the subtask's records, a time window at all multiples of the slide.
    """
    if window["policy"] == "count":
        size = window["size_records"]
        for end in range(size, len(done.t) + 1, window.get("slide_records", size)):
            yield done.t[end - 1], done[end - size : end]
        return
    size_s = window["size_s"]
    slide_s = window.get("slide_s", size_s)
    for end_s in slide_s * np.arange(1, int(horizon_s / slide_s) + 1):
        first, last = np.searchsorted(done.t, (end_s - size_s, end_s))
        yield end_s, done[first:last]


def of_groups(held: Records, now: float) -> Records:
    """Results of an evaluation, one for each group, as old as its oldest record, in the order of the groups."""
    _, first, inverse = np.unique(held.key, return_index=True, return_inverse=True)
    found = held[first].at(np.full(len(first), now))
    found.born, found.taken = np.full(len(first), np.inf), np.full(len(first), np.inf)
    np.minimum.at(found.born, inverse, held.born)
    np.minimum.at(found.taken, inverse, held.taken)
    return found


def matches(held: Records, now: float, sides: int) -> Records:
    """Results of a join, one for each combination of records of all sides with one key, as old as the oldest, in the
    order of the keys."""
    whole = held[held.side == 0]
    for side in range(1, sides):
        other = held[held.side == side]
        a, b = np.nonzero(whole.key[:, None] == other.key[None, :])
        born, taken = np.minimum(whole.born[a], other.born[b]), np.minimum(whole.taken[a], other.taken[b])
        whole = Records(whole.t[a], born, taken, whole.key[a], whole.side[a])
    return whole[np.argsort(whole.key, kind="stable")].at(np.full(len(whole.t), now))


def emitted(done: Records, each: Mapping[str, Any], horizon_s: float) -> Records:
    """All results of a window, a join or a session."""
    if each["kind"] == "session":
        return _sessions(done, each["gap_s"], horizon_s)
    parts = [done[:0]]
    for now, held in evaluations(done, each["window"], horizon_s):
        parts.append(results(held, now, each))
    return together(parts)


def results(held: Records, now: float, each: Mapping[str, Any]) -> Records:
    """Results of one evaluation."""
    return matches(held, now, len(each["from"])) if each["kind"] == "join" else of_groups(held, now)


def _sessions(done: Records, gap_s: float, horizon_s: float) -> Records:
    """Results of sessions, one for each run of a key's records without a gap, when the gap after them is over."""
    by_key = done[np.lexsort((done.t, done.key))]
    new = np.concatenate([[True], (np.diff(by_key.t) >= gap_s) | (np.diff(by_key.key) != 0)])
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], len(new)) - 1
    found = by_key[starts].at(by_key.t[ends] + gap_s)
    found = found[found.t < horizon_s]
    return found[np.argsort(found.t, kind="stable")]


# crowded rows --------------------------------------------------------------------------------------------------------
# Tasks that delay each other: stations in a row that share cores, or have little room between them.


IDLE, BUSY, HELD = 0, 1, 2


class CrowdedRow:
    """A source and the stations that follow it, one task each. cores: shared evenly by the working tasks, at most one
    each. room: records sent and not yet taken up by the next station. One that does not fit blocks its station."""

    def __init__(self, services: Sequence[Array], kept: Sequence[Array], cores: float, room: int) -> None:
        self.services, self.kept, self.cores, self.room = services, kept, cores, room
        count = len(services)
        self.lines: list[deque[int]] = [deque() for _ in range(count)]
        self.state, self.left, self.who = [IDLE] * count, [0.0] * count, [0] * count
        self.taken = np.full(len(services[0]), np.nan)
        self.done = np.full((count, len(services[0])), np.nan)
        self.busy = np.zeros(count)

    def run(self, arrivals: Array, start_s: float, end_s: float) -> None:
        """Fills taken [s], done [s] and, between start and end, busy [s]."""
        now, coming = 0.0, 0
        while now < end_s:
            working = [k for k, state in enumerate(self.state) if state == BUSY]
            speed = min(1.0, self.cores / max(1, len(working)))
            first = min(working, key=self.left.__getitem__, default=None)
            finish = np.inf if first is None else now + self.left[first] / speed
            arrival = arrivals[coming] if coming < len(arrivals) else np.inf
            then = min(finish, arrival, end_s)
            for k in working:
                self.left[k] -= (then - now) * speed
                self.busy[k] += max(0.0, then - max(now, start_s))
            now = then
            if then == arrival:
                self.lines[0].append(coming)
                coming += 1
                self._take(0, now)
            elif first is not None and then == finish:
                self._finish(first, now)

    def _take(self, k: int, now: float) -> None:
        if self.state[k] != IDLE or not self.lines[k]:
            return
        self.who[k] = self.lines[k].popleft()
        self.state[k], self.left[k] = BUSY, float(self.services[k][self.who[k]])
        if k == 0:
            self.taken[self.who[k]] = now
        elif self.state[k - 1] == HELD:
            self._pass_on(k - 1, now)

    def _finish(self, k: int, now: float) -> None:
        self.done[k, self.who[k]] = now
        if k + 1 == len(self.state) or not self.kept[k][self.who[k]]:
            self.state[k] = IDLE
            self._take(k, now)
        else:
            self._pass_on(k, now)

    def _pass_on(self, k: int, now: float) -> None:
        if len(self.lines[k + 1]) >= self.room:
            self.state[k] = HELD
            return
        if k == 0:
            self.taken[self.who[k]] += now - self.done[k, self.who[k]]  # a source polls when there is room
        self.lines[k + 1].append(self.who[k])
        self.state[k] = IDLE
        self._take(k + 1, now)
        self._take(k, now)


def run_crowded(job: Mapping[str, Any], arrivals: Array, rng: Any) -> tuple[Array, Array, Array, dict[str, float]]:
    """Times [s] of results, of their records' arrival and of their being taken; and the busy share of each operator."""
    operators = list(job["operators"].items())
    count, settings = len(arrivals), job["run"]
    services = []
    for _, each in operators:
        scv, mean = each.get("service_scv", 1), each.get("ms", 0) / 1e3
        services.append(rng.gamma(1 / scv, mean * scv, size=count) if scv else np.full(count, mean))
    kept = [rng.random(count) < each.get("selectivity", 1) for _, each in operators]
    cores = job["hosts"].get("a", {"cpu_percent": 1e9})["cpu_percent"] / 100
    row = CrowdedRow(services, kept, cores, job["engine"]["channel_records"])
    row.run(arrivals, settings["warmup_s"], settings["horizon_s"])
    results = ~np.isnan(row.done[-1])
    seconds = settings["horizon_s"] - settings["warmup_s"]
    busy = {f"busy {name}": row.busy[k] / seconds for k, (name, _) in enumerate(operators)}
    return row.done[-1][results], arrivals[results], row.taken[results], busy


# the job -------------------------------------------------------------------------------------------------------------


CORES_PERCENT = HOST["cpu_percent"]
ROOM = 1000
"""Least capacity of a channel [records] that is never full in these jobs."""
WINDOWS = ("aggregate", "join", "session")
CALLS = ("async", "lookup-join", "external-sink")


class Brute:
    """One run of a job by brute force, with random numbers of its own."""

    def __init__(self, job: Mapping[str, Any], seed: int) -> None:
        self.job, self.rng = job, np.random.default_rng(seed + 10**6)
        self.operators, self.horizon_s = job["operators"], float(job["run"]["horizon_s"])
        self.start_s, self.engine = float(job["run"]["warmup_s"]), job["engine"]
        self.costs = Costs(self.operators, self.engine)
        self.scaled = {event["operator"]: event for event in job["events"] if event["kind"] == "scale"}
        self.hosts = {name: self._places(name) for name in self.operators}
        self.out: dict[str, list[Records]] = {}
        self.chosen: dict[tuple[str, int], Array] = {}
        self.kept: dict[str, list[Records]] = {
            f"{what} {name}": [] for name in self.operators for what in ("in", "out")
        }
        self.busy = dict.fromkeys(self.operators, 0.0)

    def _places(self, name: str) -> list[str]:
        """Host of each subtask, for the larger of the operator's placements before and after it is scaled."""
        places = [self.operators[name]["at"], *(self.scaled[each]["placement"] for each in self.scaled if each == name)]
        return max(([host for host, count in at.items() for _ in range(count)] for at in places), key=len)

    def run(self) -> dict[str, float]:
        """Measurements after the warm-up, by name."""
        found = {name: self._arriving(name) for name, each in self.operators.items() if not each["from"]}
        hosts = [host for host in self.job["hosts"].values() if host.get("cpu_percent", CORES_PERCENT) < CORES_PERCENT]
        if hosts or self.engine.get("channel_records", ROOM) < ROOM:
            ((only,),) = found.values()
            t, born, taken, busy = run_crowded(self.job, only.t, self.rng)
            return self._ages(t, born, taken) | busy
        for event in self.job["events"]:
            if event["kind"] == "failure":
                found = self._failing(event, found)
        self._pass(found, 0.0, self.horizon_s)
        return self._measured()

    def _failing(self, event: Mapping[str, Any], found: dict[str, list[Records]]) -> dict[str, list[Records]]:
        """Records that are read after a failure, once the job runs: those not taken at the last checkpoint."""
        interval_s = self.job["run"].get("checkpoint_interval_s", 10)
        checkpoint_s, again_s = event["at_s"] // interval_s * interval_s, event["at_s"] + event["recover_after_s"]
        self._pass(found, 0.0, event["at_s"])
        again = {}
        for name in found:
            left = [records[records.taken >= checkpoint_s] for records in self.out[name]]
            again[name] = [records.at(np.maximum(records.born, again_s)) for records in left]
        return again

    def _pass(self, arriving: dict[str, list[Records]], start_s: float, end_s: float) -> None:
        """Runs all operators once, and keeps what happens before `end_s`."""
        for name, each in self.operators.items():
            incoming = self._incoming(name) if each["from"] else arriving[name]
            self.end_s = end_s
            self.out[name] = self._served(name, incoming)
            incoming = incoming if each["from"] else [records.at(records.taken) for records in self.out[name]]
            for way, parts in (("in", incoming), ("out", self.out[name])):
                self.kept[f"{way} {name}"] += [records[records.t < end_s] for records in parts]

    def _arriving(self, name: str) -> list[Records]:
        each, parallelism = self.operators[name], len(self.hosts[name])
        changes = [event for event in self.job["events"] if event.get("source") == name]
        law = each.get("arrivals") or {"law": "poisson", "rate_per_s": each["rate"]}
        t = streams.arrivals(law, changes, self.horizon_s, self.rng)
        whose = self.rng.integers(each.get("partitions", parallelism), size=len(t)) % parallelism
        nothing = np.zeros(len(t), dtype=int)
        return [Records(t, t, t, nothing, nothing)[whose == subtask] for subtask in range(parallelism)]

    # Streams

    def _incoming(self, name: str) -> list[Records]:
        each, parallelism = self.operators[name], len(self.hosts[name])
        parts: list[list[tuple[str, str, Records]]] = [[] for _ in range(parallelism)]
        for side, (producer, how) in enumerate(each["from"].items()):
            for k, records in enumerate(self.out[producer]):
                mine = records[self._chosen(name, producer, k)]
                keys = streams.draw_keys(each, self.job["keys"].get(name, {}), len(mine.t), self.rng)
                mine = replace(mine, key=keys, side=np.full(len(keys), side))
                whose = self._scaled(name, mine.t, streams.dealt(each, how, k, mine.t, keys, parallelism, self.rng))
                for subtask in range(parallelism):
                    which = slice(None) if whose is None else whose == subtask
                    parts[subtask].append((producer, self.hosts[producer][k], self._batched(producer, mine[which])))
        return [self._carried(pieces, self.hosts[name][k]) for k, pieces in enumerate(parts)]

    def _scaled(self, name: str, t: Array, whose: Array | None) -> Array | None:
        """Subtask of each record of a scaled operator: in turn among the subtasks that exist at the time."""
        if name not in self.scaled:
            return whose
        (_, middle_s, before), (_, _, after) = self._spans(name)
        return np.arange(len(t)) % np.where(t < middle_s, before, after)

    def _spans(self, name: str) -> list[tuple[float, float, int]]:
        """Spans of the measured time with a constant number of subtasks: start [s], end [s], subtasks."""
        before, end_s = sum(self.operators[name]["at"].values()), min(self.end_s, self.horizon_s)
        if name not in self.scaled:
            return [(self.start_s, end_s, before)]
        at_s, after = self.scaled[name]["at_s"], sum(self.scaled[name]["placement"].values())
        return [(self.start_s, at_s, before), (at_s, end_s, after)]

    def _chosen(self, name: str, producer: str, k: int) -> Any:
        """Index of a router's records for this consumer."""
        shares = self.operators[producer].get("shares")
        if shares is None:
            return slice(None)
        count = len(self.out[producer][k].t)
        if sum(shares.values()) > 1:
            return self.rng.random(count) < shares[name]
        drawn = self.chosen.setdefault((producer, k), self.rng.random(count))
        end = sum(share for to, share in shares.items() if list(shares).index(to) <= list(shares).index(name))
        return (drawn < end) & (drawn >= end - shares[name])

    def _batched(self, producer: str, records: Records) -> Records:
        size, flush_s = self.engine.get("batch_records", 1), self.engine.get("flush_s") or np.inf
        if self.engine.get("buffer_bytes"):
            size = int(self.engine["buffer_bytes"] / self.costs.bytes_of(producer))
        return records.at(streams.batched(records.t, size, flush_s, self.rng))

    def _carried(self, pieces: list[tuple[str, str, Records]], there: str) -> Records:
        """Records as they arrive at a subtask from all producers; those that leave one host share its card."""
        arrived = [records for _, here, records in pieces if here == there]
        for here in sorted({here for _, here, _ in pieces} - {there}):
            mine = [(self.costs.bytes_of(producer), records) for producer, host, records in pieces if host == here]
            if self.job["links"]:
                ((size, records),) = mine
                arrived.append(records.at(streams.over_links(self.job, here, there, records.t, size)))
                continue
            sizes = np.concatenate([np.full(len(records.t), size) for size, records in mine])
            order = np.argsort(np.concatenate([records.t for _, records in mine]), kind="stable")
            leaving = together([records for _, records in mine])
            host = HOST | self.job["hosts"].get(here, {})
            arrived.append(leaving.at(streams.over_card(host, leaving.t, sizes[order])))
        return together(arrived)

    # Operators

    def _served(self, name: str, incoming: list[Records]) -> list[Records]:
        each = self.operators[name]
        if "shared" in each["from"].values():
            services, records = self._services(name, len(incoming[0].t)), incoming[0]
            done = fifo_of_many(records.t, services, len(incoming))
            self._count(name, done - services, done)
            return [self._logic(name, records.at(done)[np.argsort(done, kind="stable")])]
        if each["kind"] in CALLS:
            return [self._called(name, records) for records in incoming]
        return [self._one(name, k, records) for k, records in enumerate(incoming)]

    def _services(self, name: str, count: int) -> Array:
        each = self.operators[name]
        scv, mean_s = each.get("service_scv", self.engine["service_scv"]), self.costs.service_s(name)
        return self.rng.gamma(1 / scv, mean_s * scv, size=count) if scv else np.full(count, mean_s)

    def _count(self, name: str, started: Array, done: Array) -> None:
        for start_s, end_s, parallelism in self._spans(name):
            spent = np.clip(done, start_s, end_s) - np.clip(started, start_s, end_s)
            self.busy[name] += float(spent.sum()) / (self.horizon_s - self.start_s) / parallelism

    def _one(self, name: str, k: int, records: Records) -> Records:
        each, services, work = self.operators[name], self._services(name, len(records.t)), Clock(0, 0, 1)
        for event in self.job["events"]:
            if event["kind"] == "slow-down" and event["host"] == self.hosts[name][k]:
                work = Clock(event["at_s"], event["at_s"] + event["duration_s"], 1 / event["factor"])
        if each["kind"] in WINDOWS[:2] and (self.engine["result_us"] or self.engine["scan_us"]):
            found, started, done = evaluating(records, services, each, self.engine, self.horizon_s)
            self._count(name, started, done)
            return found
        done = work.real(fifo(work.virtual(records.t), services))
        started = np.maximum(records.t, np.concatenate([[0.0], done[:-1]]))
        self._count(name, started, done)
        return self._logic(name, (records if each["from"] else replace(records, taken=started)).at(done))

    def _logic(self, name: str, done: Records) -> Records:
        each = self.operators[name]
        if each["kind"] in WINDOWS:
            return emitted(done, each, self.horizon_s)
        if each["kind"] == "temporal-join":
            done = done[done.side != list(each["from"]).index(each["side"])]
        share = each.get("selectivity", 1)
        copies = int(share) + (self.rng.random(len(done.t)) < share - int(share))
        return done[np.repeat(np.arange(len(done.t)), copies)]

    def _called(self, name: str, records: Records) -> Records:
        each, services = self.operators[name], self._services(name, len(records.t))
        scv = each.get("latency_scv", 1)
        away = self.rng.gamma(1 / scv, each["latency_s"] * scv, size=len(services))
        away *= self.rng.random(len(services)) >= each.get("hit_ratio", 0)
        back, started = calling(records.t, services, away, each)
        self._count(name, started, started + services)
        return self._logic(name, records.at(back)[np.argsort(back, kind="stable")])

    # What is compared

    def _measured(self) -> dict[str, float]:
        consumed = {producer for each in self.operators.values() for producer in each["from"]}
        sinks = [name for name in self.operators if name not in consumed]
        results = together([records for name in sinks for records in self.kept[f"out {name}"]])
        found = self._ages(results.t, results.born, results.taken)
        for name, busy in self.busy.items():
            arrived = sum(int((records.t >= self.start_s).sum()) for records in self.kept[f"in {name}"])
            found |= {f"busy {name}": busy, f"in {name}": arrived / (self.horizon_s - self.start_s)}
        return found

    def _ages(self, t: Array, born: Array, taken: Array) -> dict[str, float]:
        measured = (t >= self.start_s) & (t < self.horizon_s)
        found = {"T": measured.sum() / (self.horizon_s - self.start_s)}
        for label, since in (("Lp", taken), ("Le", born)):
            ages = (t - since)[measured]
            found |= {label: float(ages.mean()), f"{label} p95": float(np.quantile(ages, 0.95))}
        return found
