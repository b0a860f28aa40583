"""Features of a scenario beyond a plain job at steady rates, from which cost models say which ones they cannot see.

A plain job has sources of constant or Poisson rates, streams dealt evenly or by keys that are equally frequent, records
that leave one by one, hosts of one socket each that reach each other directly, and nothing that happens meanwhile.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from itertools import combinations

import numpy as np

from twin.arrivals.laws import ArrivalLaw
from twin.arrivals.peaks import has_several_rates, peaks_of
from twin.chaining import fused, links_of
from twin.errors import some_of
from twin.job import compile
from twin.kin import kin
from twin.kinds.windowed import Windowed
from twin.profiles import Noise
from twin.query import AnyOperator, in_time
from twin.scenario import Scenario
from twin.workload import even

PLAIN_LAWS = ("constant", "poisson")
COURSES = ("steps", "replay")
"""Laws that give the rate at each time, and not how it varies, so that a run depends on which part of them it has."""
BATCH_SHARE = 0.1
"""Share of a count window above which batches change the number of pairs in it."""
FEWEST_PEAKS = 30.0
"""Fewest peaks of a law in a run for runs to be alike: their mean number then differs by a fifth."""
OUTLASTED = 4.0
"""Mean lengths of sessions below which a run's length counts: those that end in it are then shorter by a third."""


def unsupported_features(scenario: Scenario, seen: Collection[str]) -> tuple[str, ...]:
    """Features of the scenario, in words, of which a model that sees only `seen` does not know.

    seen: of `events`, `policy`, `checkpoints`, `commits` (for which results wait), `arrivals`, `courses` (of them),
    `few` (peaks of them in a run), `several` (rates of them), `pauses`, `jitter`, `batches`, `pending` (records of
    a source), `sockets`, `links`, `skew`, `drift`, `assignment` (of key groups), `alignment`, `fusion`,
    `partitions` (read unevenly), `counting` (in windows of several subtasks), `sides` (of joins, unmixed), `unlike`
    (keys, where a law takes them as alike and random), `apart` (records of a key, of joins and sessions), `merges`
    (of partial results), `late` (records), `copies` (of a record, that meet), `kin` (copies have one key), `law`
    (what that of a kind misses), `drops`, `lost` (calls), `failing` (of the job by them), `outlasting` (the run, by
    what collects until it is silent), and partitionings by name.
    """
    return tuple(dict.fromkeys(words for name, words in _beyond(scenario) if name not in seen))


def _meeting(scenario: Scenario) -> set[str]:
    """Operators that get copies of a record, unchanged: on several paths, or from subtasks that all got it."""
    query, plan, found = scenario.query, scenario.plan, set[str]()
    ways = Counter(stream.producer for stream in query.streams)
    stems: dict[str, set[str]] = {}  # of unchanged records: the operators that sent them to several consumers
    for operator in query.topological:
        name, inputs = operator.name, query.inputs(operator.name)
        before = [stems[stream.producer] for stream in inputs]
        copied = plan.parallelism(name) > 1 and any(query.partitioning(stream).copies for stream in inputs)
        if any(one & other for one, other in combinations(before, 2)):
            found.add(name)
        stems[name] = set()
        if operator.hands_over == "records":
            own = {name} if ways[name] > 1 and not operator.exclusive else set[str]()
            stems[name] = own.union(*before)
            if copied:
                found.update(stream.consumer for stream in query.streams if stream.producer == name)
    return found


def _beyond(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Names and words of all features beyond a plain job."""
    if scenario.events:
        kinds = dict.fromkeys(event.kind for event in scenario.events)
        yield "events", f"events ({', '.join(kinds)})"
    if scenario.policy is not None:
        yield "policy", f"the policy {scenario.policy.name}"
    if scenario.checkpoints is not None:
        yield "checkpoints", "what checkpoints cost beyond the time of threads"
        if scenario.checkpoints.sinks == "exactly-once":
            yield "commits", "results that wait for checkpoints"
    by_law = defaultdict[str, list[str]](list)
    for source, law in scenario.workload.arrivals.items():
        by_law[law.law].append(source)
    for law_name, sources in by_law.items():
        if law_name not in PLAIN_LAWS:
            name = "courses" if law_name in COURSES else "arrivals"
            yield name, f"how {law_name} arrivals of {some_of(sources)} vary around their mean"
    laws = {source: law for source, law in scenario.workload.arrivals.items() if law.law not in COURSES}
    few = [source for source, law in laws.items() if _has_few(law, scenario.run.horizon_s)]
    several = [source for source, law in laws.items() if has_several_rates(law)]
    if several:
        yield "several", f"that arrivals of {some_of(several)} have more rates than two"
    if few:
        yield "few", f"that a run has few peaks of {some_of(few)}, and so its own"
    yield from _of_engine(scenario)
    yield from _of_cluster(scenario)
    yield from _of_keys(scenario)
    chains, meeting = fused(scenario.query, scenario.plan, scenario.engine), _meeting(scenario)
    akin, rates = kin(scenario.query, scenario.plan).meet, compile(scenario).rates
    copied = any(scenario.query.partitioning(stream).copies for stream in scenario.query.streams)
    for group in chains:
        yield "fusion", f"chained operators ({' + '.join(group)})"
    operators = scenario.query.operators
    ancestors = {each.name: scenario.query.ancestors(each.name) for each in operators}
    for operator in operators:
        if operator.parts is not None and not even(operator, scenario.plan.parallelism(operator.name)):
            yield "partitions", f"uneven partitions of {operator.name}"
            if any(each.needs_event_time and operator.name in ancestors[each.name] for each in operators):
                yield "readers", f"that watermarks wait for the subtask of {operator.name} that reads least"
        if operator.unseen:
            yield "law", operator.unseen
        if operator.calls is not None and not operator.calls.sure:
            yield "lost", f"calls of {operator.name} that are repeated or lost"
            if operator.calls.fails:
                yield "failing", f"that the job fails by a lost call of {operator.name}"
        if operator.if_unlike:
            yield from _of_alike(scenario, operator)
        if (isinstance(operator, Windowed) and operator.joins) or operator.if_unlike:
            ways = [scenario.query.partitioning(each) for each in scenario.query.inputs(operator.name)]
            together = all(way.keeps_keys or way.whole or way.copies for way in ways)
            if scenario.plan.parallelism(operator.name) > 1 and not together:
                yield "apart", f"that records of a key come to several subtasks of {operator.name}"
        if isinstance(operator, Windowed) and operator.joins and _in_batches(scenario, operator):
            yield "sides", f"that {operator.name} gets batches of one side after the other in its count window"
        lasts_s = float(operator.lasts_s(np.array(rates[operator.name].in_per_s)))
        if lasts_s * OUTLASTED > scenario.run.horizon_s:
            yield (
                "outlasting",
                f"that a run sees only the shorter results of {operator.name}, of {lasts_s:.3g} s on average",
            )
        if getattr(operator, "merge_time_s", 0.0) > 0.0:
            yield "merges", f"what merging costs {operator.name}"
        keeps_all = not operator.needs_event_time or operator.hands_over == "records"
        if not (keeps_all or operator.merges or in_time(scenario.query, operator.name)):
            yield "late", f"late records of {operator.name}"
        counts = isinstance(operator, Windowed) and operator.window.policy == "count"
        if counts and scenario.plan.parallelism(operator.name) > 1:
            yield "counting", f"that each subtask of {operator.name} has count windows of its own"
        told = any(scenario.query.operator(each.producer).sends_keys for each in scenario.query.inputs(operator.name))
        paired = operator.joins and len(scenario.query.inputs(operator.name)) == 2 and not copied  # laws count them
        if operator.name in akin and operator.hands_over != "records" and not told and not paired:
            yield "kin", f"that copies of a record have the same key at {operator.name}"
        if operator.name in meeting:
            yield "copies", f"that copies of a record meet again at {operator.name}, and wait for each other"
    within = links_of(scenario.query, chains)
    for stream in scenario.query.streams:
        if (stream.producer, stream.consumer) in within:  # chained operators have no stream
            continue
        how = scenario.query.partitioning(stream)
        if (not how.in_turn and not how.keeps_keys) or how.pointwise or how.near:
            yield how.name, f"{how} partitioning"
        if stream.alignment is not None:
            yield "alignment", f"the alignment of keys from {stream.producer} to {stream.consumer}"
        if stream.overflow == "drop":
            yield "drops", "records dropped at full channels"


def _has_few(law: ArrivalLaw, run_s: float) -> bool:
    peaks = peaks_of(law)
    return peaks.mean_s > 0.0 and run_s * peaks.share / peaks.mean_s < FEWEST_PEAKS


def _of_alike(scenario: Scenario, operator: AnyOperator) -> Iterator[tuple[str, str]]:
    """Features that make gaps between records of a key other than exponential, or keys unlike."""
    skew = scenario.workload.keys.get(operator.name)
    if skew is not None and skew.uneven:
        yield "unlike", operator.if_unlike
    windows = [
        name for name in scenario.query.ancestors(operator.name) if isinstance(scenario.query.operator(name), Windowed)
    ]
    if windows:
        yield "unlike", f"that results of {windows[0]} come to {operator.name} together, and not at random"


def _in_batches(scenario: Scenario, join: Windowed) -> bool:
    """Whether batches are so large, compared with its count window, that fewer pairs match than if sides were mixed."""
    engine, query = scenario.engine, scenario.query
    if engine.flush_s is None or join.window.policy != "count" or getattr(join, "amplification", None) is not None:
        return False
    batches = [engine.batch_of(engine.output_bytes(query, name)) for name in query.feeds(join.name)]
    return max(batches) > max(1.0, BATCH_SHARE * join.window.size)


def _of_engine(scenario: Scenario) -> Iterator[tuple[str, str]]:
    engine = scenario.engine
    noise = engine.noise if scenario.run.noise else Noise()
    if noise.gc_interval_s is not None:
        yield "pauses", f"pauses ({noise.gc_pause_s:g} s every {noise.gc_interval_s:g} s)"
    if engine.max_spout_pending is not None:
        yield "pending", f"that a source waits while {engine.max_spout_pending} of its records are not handled"
    if noise.jitter_scv > 0.0:
        yield "jitter", "jitter of the network"
    if engine.flush_s is not None and (engine.batch_records > 1 or engine.buffer_bytes is not None):
        yield "batches", f"waits for batches (flushed every {engine.flush_s:g} s)"


def _of_cluster(scenario: Scenario) -> Iterator[tuple[str, str]]:
    if any(host.socket_count > 1 for host in scenario.cluster.hosts):
        yield "sockets", "sockets"
    if scenario.cluster.links:
        yield "links", "links and switches"


def _of_keys(scenario: Scenario) -> Iterator[tuple[str, str]]:
    for name, skew in scenario.workload.keys.items():
        if skew.uneven:
            yield "skew", f"skewed keys of {name}"
        if skew.drift_every_s is not None:
            yield "drift", f"keys of {name} that drift"
    if scenario.plan.key_groups:
        yield "assignment", f"key groups assigned by hand ({', '.join(scenario.plan.key_groups)})"
