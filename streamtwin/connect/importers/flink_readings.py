"""What the readings of a Flink job say: rates within it, CPU and waiting for a core, checkpoints and recovery.

For `streamtwin.connect.importers.flink_scenario`, which makes the scenario. What Flink's descriptions of operators say
is in `flink_chain`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scenarios.calibration.structures import APART, Wanted, in_use, waited
from streamtwin.connect.importers.flink_answers import finite
from streamtwin.connect.importers.flink_chain import INTO, OUT_OF, Step
from streamtwin.connect.importers.flink_job import FlinkJob, TaskManagers, Vertex
from twin.checkpoints import Checkpoints
from twin.flink_settings import as_parts, configured
from twin.flink_values import set_s

# rates ---------------------------------------------------------------------------------------------------------------
# There is one for each stream between vertices, and for the operators within one.
#
# A vertex counts what it takes and what it sends, over all of its streams. Where it has several, sums on both sides
# tell most of them apart. Operators of a chain have counters of their own (`Step.counts`), which tell the rest. Of two
# consumers in a chain the producer counts each record twice, so what an operator sends is what the next one takes. Of a
# broadcast stream the producer counts each record once, and each subtask of the consumer counts it again; rates are the
# producer's.


ONE_FOR_ONE = 0.01
"""Distance to 1 below which a ratio of output to input counts as 1: counters are read at different moments."""
Link = tuple[str, int]
"""Stream between vertices: the id of its consumer, and the number of its input."""


@dataclass(frozen=True, slots=True)
class Part:
    """Operator of the twin within a vertex. step: the number of Flink's operator. before: the part that it follows.
    sent_per_s: what it sends to each consumer; None: unknown."""

    step: int
    before: int | None
    sent_per_s: float | None
    is_sink: bool = False


@dataclass(frozen=True, slots=True)
class Flow:
    """Flow through a job. parts: of each vertex, the first one first. exits: by stream, the part that sends it.
    rates: by stream, records a second. guessed: vertices whose streams no counter tells apart. unplaced: vertices of
    which no counter tells which operator of the chain sends which stream."""

    parts: Mapping[str, tuple[Part, ...]]
    exits: Mapping[Link, int]
    rates: Mapping[Link, float]
    guessed: tuple[str, ...]
    unplaced: tuple[str, ...]


def flow_of(vertices: Sequence[Vertex]) -> Flow:
    """Flow through a job with these vertices."""
    producer = {(each.id, number): made[0] for each in vertices for number, made in enumerate(each.inputs)}
    outputs = {each.id: [link for link, made in producer.items() if made == each.id] for each in vertices}
    rates = _solved(vertices, producer, outputs)
    placed = {each.id: _exits(each, outputs[each.id], vertices, rates) for each in vertices}
    ends = {id_: found for id_, (found, _) in placed.items()}
    for vertex in vertices:
        for link in outputs[vertex.id]:
            counted = vertex.chain[ends[vertex.id][link]].counts.get(OUT_OF)
            alone = sum(end == ends[vertex.id][link] for end in ends[vertex.id].values()) == 1
            if link not in rates and counted is not None and alone:
                rates[link] = counted
    guessed = []
    for vertex in vertices:
        unknown = [link for link in outputs[vertex.id] if link not in rates]
        left = vertex.out_per_s - sum(rates[link] for link in outputs[vertex.id] if link in rates)
        if unknown:
            guessed.append(vertex.id)
            rates |= dict.fromkeys(unknown, max(0.0, left) / len(unknown))
    parts, exits = dict[str, tuple[Part, ...]](), dict[Link, int]()
    for vertex in vertices:
        own = {link: rates[link] for link in outputs[vertex.id]}
        parts[vertex.id], ends_in = _parts(vertex.chain, ends[vertex.id], own)
        exits |= ends_in
    return Flow(parts, exits, rates, tuple(guessed), tuple(id_ for id_, (_, told) in placed.items() if not told))


def _solved(
    vertices: Sequence[Vertex], producer: Mapping[Link, str], outputs: Mapping[str, Sequence[Link]]
) -> dict[Link, float]:
    """Rates of streams that the counters of vertices tell: all streams but one of a vertex are known, again and again.

    Where a vertex has one output, it is what the vertex says that it sends.
    """
    copies = {
        (each.id, number): each.parallelism
        for each in vertices
        for number, (_, how) in enumerate(each.inputs)
        if how == "BROADCAST"
    }
    sent = [(dict.fromkeys(outputs[each.id], 1), each.out_per_s) for each in vertices]
    sums = [(links, total) for links, total in sent if len(links) == 1]
    sums += [
        ({link: copies.get(link, 1) for link in producer if link[0] == each.id}, each.in_per_s) for each in vertices
    ]
    sums += sent
    found = dict[Link, float]()
    more = True
    while more:
        more = False
        for links, total in sums:
            unknown = [link for link in links if link not in found]
            if len(unknown) == 1:
                left = total - sum(found[link] * times for link, times in links.items() if link in found)
                found[unknown[0]] = max(0.0, left) / links[unknown[0]]
                more = True
                break
    return found


def _exits(
    vertex: Vertex, links: Sequence[Link], vertices: Sequence[Vertex], rates: Mapping[Link, float]
) -> tuple[dict[Link, int], bool]:
    """Operator of a vertex that sends each of its streams, and whether that is told: Flink does not say. A local phase
    sends to its global one. Of the others each is sent by the operator that sends as much, if counters tell; else they
    are taken in their order, the ends of the chain first. rates: of streams, those that are known."""
    chain = vertex.chain
    followed = {each.before for each in chain}
    ends = [number for number, each in enumerate(chain) if number not in followed and not each.is_sink]
    heads = {each.id: each.chain[0].word for each in vertices}
    found = dict[Link, int]()
    for link in links:
        phase = heads[link[0]].replace("Global", "Local", 1)
        if phase.startswith("Local") and (match := next((end for end in ends if chain[end].word == phase), None)):
            found[link] = match
            ends.remove(match)
    rest = [link for link in links if link not in found]
    more = max(0, len(rest) - len(ends))
    last = max(found.values(), default=len(chain) - 1)
    inner = chain[last].before
    places = [*(ends if len(links) > 1 else ends[-1:]), *[last if inner is None else inner] * more][: len(rest)]
    within = [each for each in range(len(chain)) if each in followed and not chain[each].is_sink]
    could = [*ends, *(within or places) * more]
    in_order = found | dict(zip(rest, places, strict=True))
    if not rest or len({_rate_made_at(chain, each) for each in could}) == 1:
        return in_order, True
    sent = _each_sends(chain, could, Counter(in_order.values()))
    known = [rates[link] for link in rest if link in rates]
    if len(sent) < len(could) or len(known) < len(rest):
        return in_order, False
    from scipy.optimize import linear_sum_assignment  # takes longer to import than most commands take to start

    apart = np.abs(np.subtract.outer(known, sent))
    rows, columns = linear_sum_assignment(apart)
    alike = np.abs(np.subtract.outer(sent, sent))[columns] <= ONE_FOR_ONE * max(sent)
    told = bool((np.where(alike, np.inf, apart).min(axis=1) > apart[rows, columns]).all())
    return found | {link: could[column] for link, column in zip(rest, columns, strict=True)}, told


def _rate_made_at(chain: Sequence[Step], number: int) -> int:
    """Operator of a chain from which on the rate is that of one behind it: those between let all records pass."""
    before = chain[number].before
    return _rate_made_at(chain, before) if before is not None and chain[number].passes_all else number


def _each_sends(chain: Sequence[Step], places: Sequence[int], streams: Mapping[int, int]) -> list[float]:
    """What those operators of a chain that are counted send to each that follows. streams: that each sends to other
    vertices, by its number."""
    found = list[float]()
    for place in places:
        after = [each for each in chain if each.before == place]
        taken = [each.counts[INTO] for each in after if INTO in each.counts]
        if not taken and OUT_OF in chain[place].counts:
            taken = [chain[place].counts[OUT_OF] / max(1, len(after) + streams[place])]
        found += taken[:1]
    return found


def _parts(
    chain: Sequence[Step], ends: Mapping[Link, int], rates: Mapping[Link, float]
) -> tuple[tuple[Part, ...], dict[Link, int]]:
    """Operators of the twin for a chain: the first one, those that change a rate, and sinks; and the part of each
    stream."""
    sent = dict[int, float]()
    for link, end in ends.items():
        sent[end] = max(sent.get(end, 0.0), rates[link])
    for step in chain:
        if step.before is not None and INTO in step.counts:
            sent[step.before] = max(sent.get(step.before, 0.0), step.counts[INTO])
    if 0 not in sent and (OUT_OF in chain[0].counts and len(chain) == 1):
        sent[0] = chain[0].counts[OUT_OF]
    if 0 not in sent and ends:
        sent[0] = max(sent.values())
    parts = [Part(0, None, sent.get(0))]
    part_of = {0: 0}
    for number, step in enumerate(chain[1:], start=1):
        before = part_of[step.before or 0]
        now, then = sent.get(number), parts[before].sent_per_s
        part_of[number] = before
        if parts[before].is_sink:  # a committer behind its writer
            continue
        if step.is_sink:
            parts.append(Part(number, before, None, is_sink=True))
        elif now is not None and then and not step.passes_all and abs(now / then - 1.0) > ONE_FOR_ONE:
            part_of[number] = len(parts)
            parts.append(Part(number, before, now))
    return tuple(parts), {link: part_of[end] for link, end in ends.items()}


# CPU and waiting -----------------------------------------------------------------------------------------------------
# Busy times are split into these, by host.
#
# A subtask is busy while it computes, while it waits for a core, and while it sleeps or waits for an answer. Thread
# dumps tell the last; JVMs tell the CPU that they used. One point does not tell the CPU that they use without records.


TOLD = 0.1
"""Share of its busy time beyond which a vertex that is asleep is named in a note."""


@dataclass(frozen=True, slots=True)
class HostUse:
    """Use of a host. share: of the time for which subtasks want a core, in which they have one. others: cores that
    other processes use. asleep: mean number of subtasks that are busy without needing a core. cpu: share of the cores
    left by others that was used; None if busy times cannot tell the part of it that records used."""

    share: float = 1.0
    others: float = 0.0
    asleep: float = 0.0
    cpu: float | None = None


def uses_of(
    job: FlinkJob, places: Mapping[str, Sequence[str]], names: Mapping[str, str], notes: list[str]
) -> dict[str, HostUse]:
    """Use of each host, by name. places: by vertex, the host of each of its subtasks. names: by vertex, its name in the
    twin. notes: get words for people."""
    wanted: dict[str, list[Wanted]] = defaultdict(list)
    asleep: dict[str, float] = defaultdict(float)
    unread = {host for vertex in job.vertices if vertex.busy is None for host in places[vertex.id]}
    for vertex in job.vertices:
        for host, count in Counter(places[vertex.id]).items():
            wanted[host].append((count, min(1.0, vertex.busy or 0.0) * (1.0 - vertex.asleep)))
            asleep[host] += count * vertex.asleep if vertex.asleep > TOLD else 0.0
        if vertex.asleep > TOLD:
            notes.append(
                f"{names[vertex.id]}: it sleeps or waits for answers for {vertex.asleep:.0%} of its busy time; its "
                "service time holds that, and as it takes no core, its hosts count as many cores more; for each "
                "subtask that you add to it, give its host another one (cpu_percent)"
            )
    uses = {
        each.name: _use(each, wanted[each.name], asleep[each.name], each.name in unread, notes) for each in job.machines
    }
    if any(use.cpu is not None for use in uses.values()):
        notes.append(
            "what task managers use without records (garbage collection, heartbeats) counts as costs, as one point "
            "cannot tell it; a second one in --points, at half or twice the rate, tells twin calibrate"
        )
    return uses


def busy_of(vertex: Vertex, places: Sequence[str], uses: Mapping[str, HostUse]) -> float | None:
    """Sum of the subtasks' busy shares of time without waiting for a core; None if they were not measured."""
    if vertex.busy is None:
        return None
    return sum(vertex.busy * (vertex.asleep + (1.0 - vertex.asleep) * uses[host].share) for host in places)


def _use(machine: TaskManagers, wanted: Sequence[Wanted], asleep: float, unread: bool, notes: list[str]) -> HostUse:
    demand, cores, used = sum(count * share for count, share in wanted), machine.cores, machine.cpu
    if used is None and demand <= cores:
        return HostUse(asleep=asleep)
    says, left = f"{machine.name}: its subtasks are busy for {demand:.2f} cores", cores
    if used is None:
        notes.append(
            f"{says} of {cores:g}, so they wait for cores: costs are CPU, {in_use(wanted, cores) / demand:.0%} of the "
            "busy times; if they sleep or wait for answers instead, import the running job, whose threads tell"
        )
    elif (found := waited(wanted, cores, used)) is not None:
        left = found
        notes.append(
            f"{says}, {demand / used:.1f} times the {used:.2f} that its JVMs used, so they wait for cores: costs are "
            f"CPU, and others use {cores - left:.2f} of {cores:g} cores (others_percent)"
        )
    share = in_use(wanted, left) / demand if demand > 0 else 1.0
    if used is None or asleep or (unread and used > APART * demand):  # the part that records used is unknown
        return HostUse(share, cores - left, asleep)
    return HostUse(share, cores - left, asleep, min(1.0, used / left))


# checkpoints and recovery --------------------------------------------------------------------------------------------
# Flink tells how they are configured, how long checkpoints take, and how the state grows.


MS, LONGEST_S = 1e-3, 1e7
"""Seconds in a millisecond; longest time that a scenario can say."""
NOT_TOLD = ("state", "failover")
"""What a job says nothing of, so that it is the cluster's."""
HEARTBEAT, RESTART = "heartbeat.", "restart-strategy."
NO_RESTART = ("none", "off", "disable")
DELAYS = {
    "": "exponential-delay.initial-backoff",  # the default
    "exponentialdelay": "exponential-delay.initial-backoff",
    "fixeddelay": "fixed-delay.delay",
    "failurerate": "failure-rate.delay",
}
"""Settings of the time before a restart, by the strategy; that of each is 1 s by default."""
SYNC_MS: float = Checkpoints.model_fields["sync_ms"].default
"""Time of a task's own work at a checkpoint, which is part of what was measured, too."""
TIMEOUT_S: float = Checkpoints.model_fields["timeout_s"].default
FASTEST_MBPS = 1e9
"""Bytes that are stored faster than this take no time."""
SIZES_APART = 1.5
"""Ratio of the largest checkpoint to the smallest from which on their times tell what a byte takes."""
BACKPRESSURED = 0.1
"""Share of time from which on a task's barriers are counted as waiting."""
GROWS = 0.05
"""Share of a state by which it must have grown between two checkpoints to be named."""


def checkpoints_of(job: FlinkJob, notes: list[str]) -> dict[str, Any]:
    """Field `checkpoints` of a scenario; empty if the job has none, or Flink does not say. notes: get words."""
    config = job.checkpoint_config
    set_ = as_parts(configured(job.settings).values).get("checkpoints", {})
    interval_s = (finite(config.interval) or 0.0) * MS if config else set_.get("interval_s")
    notes += _grown(job)
    if not interval_s or interval_s > LONGEST_S:  # Flink's longest number stands for none
        return {}
    found: dict[str, Any] = set_ if config is None else {"interval_s": interval_s}
    if config is not None:
        found |= {key: set_[key] for key in NOT_TOLD if key in set_}
        found |= {"mode": "unaligned" if config.unaligned_checkpoints else "aligned"}
        aligned_ms = finite(config.aligned_checkpoint_timeout)
        found |= {"aligned_timeout_s": aligned_ms * MS} if config.unaligned_checkpoints and aligned_ms else {}
        timeout_ms, pause_ms = finite(config.timeout), finite(config.min_pause)
        found |= {"timeout_s": timeout_ms * MS} if timeout_ms and timeout_ms * MS <= LONGEST_S else {}
        found |= {"min_pause_s": pause_ms * MS} if pause_ms else {}
        tolerated = finite(config.tolerable_failed_checkpoints)
        found |= {"tolerated_failures": int(tolerated)} if tolerated is not None and 0 <= tolerated <= 10**6 else {}
        if config.mode == "at_least_once":
            notes.append("its checkpoints do not align barriers (at_least_once); taken as aligned")
    return {"checkpoints": found | _storing(job, found.get("timeout_s", TIMEOUT_S), notes)}


def _storing(job: FlinkJob, timeout_s: float, notes: list[str]) -> dict[str, float]:
    """What storing costs, from the checkpoints that Flink remembers: a time of each, and a time of its bytes, neither
    below zero, with the least sum of errors, so that a few slow ones do not count. Empty while records wait for room:
    barriers wait with them. timeout_s: after which none is complete. notes: get words."""
    taken = [each for each in job.taken if each.took_s < timeout_s]
    if not taken:
        notes.append(
            "no complete checkpoint tells how long it took, so storing takes no time; set checkpoints.async_ms"
        )
        return {}
    sizes, took_s = np.array(taken).T
    told = f"its checkpoints took {np.median(took_s) * 1000:,.0f} ms (median), up to {took_s.max() * 1000:,.0f}"
    waiting = [each.name for each in job.vertices if (each.backpressured or 0.0) > BACKPRESSURED]
    if waiting:
        notes.append(
            f"{told}, in which barriers waited behind records ({waiting[0]} is backpressured), so what storing costs "
            "is not known: set checkpoints.async_ms, storage_mbps, or import at a lighter load"
        )
        return {}
    apart = sizes.max() > SIZES_APART * sizes.min()
    async_s, s_per_byte = _line(took_s, sizes) if apart else (float(np.median(took_s)), 0.0)
    storing = {"async_ms": round(max(0.0, async_s / MS - SYNC_MS), 1)}
    if s_per_byte * FASTEST_MBPS > 8e-6:
        storing["storage_mbps"] = float(f"{8e-6 / s_per_byte:.3g}")
    found = " and ".join(f"{key} {value:g}" for key, value in storing.items())
    alike = "" if "storage_mbps" in storing else ", as their sizes do not tell what a byte takes"
    notes.append(f"{told}, from which follows {found}{alike}")
    return storing


def _line(took_s: np.ndarray, sizes: np.ndarray) -> tuple[float, float]:
    """Seconds of a checkpoint and of each of its bytes, neither below zero, with the least sum of absolute errors."""
    from scipy.optimize import linprog  # most commands start without

    count, scale = len(took_s), sizes.max()
    line, errors = np.stack([np.ones(count), sizes / scale], axis=1), np.eye(count)
    bounds = np.vstack([np.hstack([line, -errors]), np.hstack([-line, -errors])])
    found = linprog([0.0, 0.0, *np.ones(count)], A_ub=bounds, b_ub=[*took_s, *-took_s])
    return float(found.x[0]), float(found.x[1] / scale)


def recovery_of(job: FlinkJob, notes: list[str]) -> dict[str, Any]:
    """Field `recovery` of an engine profile; empty if Flink does not tell its settings. notes: get words.

    Flink lists only settings that somebody has set; the others have Flink's defaults (Configuration, "Heartbeat",
    "Restart strategies"). A heartbeat that cannot be sent counts at once, so that the failure of a process is noticed
    between `rpc-failure-threshold` - 1 and as many intervals after it; here in the middle.
    """
    if not job.settings:
        return {}
    interval_s = set_s(job.settings, f"{HEARTBEAT}interval") or 10.0
    timeout_s = set_s(job.settings, f"{HEARTBEAT}timeout") or 50.0
    threshold = finite(job.settings.get(f"{HEARTBEAT}rpc-failure-threshold", 2)) or 0.0
    noticed_s = min(timeout_s, (threshold - 0.5) * interval_s) if threshold > 0 else timeout_s
    strategy = next((job.settings[key] for key in (f"{RESTART}type", "restart-strategy") if key in job.settings), "")
    strategy = strategy.lower().replace("-", "")
    if strategy in NO_RESTART:
        notes.append("it does not restart after a failure (restart-strategy); dry-run --fail says what a restart does")
    delay_s = set_s(job.settings, RESTART + DELAYS.get(strategy, DELAYS[""]))
    noticed = f"the failure of a process is noticed after some {noticed_s:g} s (heartbeat.*)"
    notes.append(f"{noticed}, that of a machine that answers nothing after up to {timeout_s:g} s; see engine.recovery")
    parts = {"noticed_s": noticed_s, "delay_s": 1.0 if delay_s is None else delay_s}
    return {"recovery": {name: min(each_s, LONGEST_S) for name, each_s in parts.items()}}


def _grown(job: FlinkJob) -> list[str]:
    """Notes on vertices whose state grew from one checkpoint to another."""
    found = []
    for vertex in job.vertices:
        before, now, between_s = job.grown.get(vertex.id, (0.0, 0.0, 0.0))
        if between_s > 0 and now - before > GROWS * now and vertex.in_per_s > 0:
            each = (now - before) / (between_s * vertex.in_per_s)
            found.append(f"{vertex.name}: its state grew from {before:,.0f} to {now:,.0f} bytes, {each:.3g} a record")
    return found
