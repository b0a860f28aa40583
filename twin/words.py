"""Words that engines and their users have for what a scenario says otherwise: what to write instead, in one line.

A word that means this in one place only is given as `place word`: the place is the key above the word or, if the word
is a value, its own key (`mode exactly-once`). Upper and lower case, hyphens, underscores and a unit at the end make no
difference; a word that ends in * stands for all that begin like it. Further words are further lines here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from twin.errors import suggest

SLACK = "write slack_s: seconds by which watermarks are behind the newest record (disorder_s: by which records are)"
SINKS = "write checkpoints: {sinks: exactly-once}, which is for all sinks"
SINK = "write kind: sink, and checkpoints: {sinks: exactly-once} if it is transactional"
SUBTASKS = "write parallelism, or give places in plan.placement"
BACKEND = "write engine: {profile: flink, state_backend: rocksdb}"
TIME = "write policy: time and size_s; without slide_s the window tumbles"
CORES = "write cpu_percent: 100 for each core"
RAM = "write ram_mb of cluster.hosts: heap and managed memory of a task manager"
MODE = "mode says how barriers travel, and state is exactly-once in both"
RECOVERY = "write engine: {profile: flink, recovery: {noticed_s: 15, delay_s: 1}}, or recover_after_s of a failure"
FREE = "leave it out: it is not simulated"

OURS: Mapping[str, str] = {
    # a file, and its hosts
    "operators": "write query: {operators: [...], streams: [...]}",
    "streams": "write query: {operators: [...], streams: [...]}",
    "hosts": "write cluster: {hosts: [...]}",
    "parallelism": "write parallelism in each operator of query.operators",
    "state-backend": BACKEND,
    "restart-strategy": RECOVERY,
    "hosts cores": CORES,
    "hosts cpu": CORES,
    "hosts ram": "write ram_mb",
    "hosts memory": "write ram_mb",
    "hosts slots": f"{CORES}; a host has as many slots as subtasks are placed there",
    # operators
    "operators partitions": "write kind: kafka-source, which has partitions",
    "operators topic": "write kind: kafka-source, which reads a topic",
    "operators watermark": SLACK,
    "operators watermark-delay": SLACK,
    "operators out-of-orderness": SLACK,
    "operators max-out-of-orderness": SLACK,
    "operators bounded-out-of-orderness": SLACK,
    "operators delivery": SINKS,
    "operators delivery-guarantee": SINKS,
    "operators sink.delivery-guarantee": SINKS,
    "operators semantic": SINKS,
    "operators exactly-once": SINKS,
    "operators replicas": SUBTASKS,
    "operators subtasks": SUBTASKS,
    "operators max-parallelism": "write key_groups",
    "operators key-by": "write partitioning: hash in the stream that leads there",
    "kind kafka": "write kind: kafka-source, or kind: sink",
    "kind kafka-sink": SINK,
    "kind file-sink": SINK,
    "kind print": "write kind: sink",
    "kind jdbc-sink": "write kind: external-sink",
    "kind flat-map": "write kind: map, with a selectivity above 1",
    "kind process": "write kind: map, or keyed-state if it keeps state by key",
    "kind window": "write kind: aggregate, with a window",
    "kind tumble": "write kind: aggregate, with a window",
    "kind hop": "write kind: aggregate, with a window",
    "kind window-join": "write kind: join, with a window",
    "kind rank": "write kind: top-n",
    "kind key-by": "write partitioning: hash in the stream that leads to a keyed operator",
    "kind union": "leave it out: let all streams lead to the consumer",
    # streams and windows
    "streams from": "write producer",
    "streams to": "write consumer",
    "streams ship-strategy": "write partitioning",
    "partitioning key-by": "write hash",
    "partitioning fields": "write hash",
    "partitioning shuffle": "write rebalance",
    "window type": "write policy: time or count; without a slide the window tumbles; sessions are kind: session",
    "window length": "write size_s, or size_records of a count",
    "window gap": "write kind: session, with gap_s, instead of a window",
    "policy tumbling": TIME,
    "policy tumble": TIME,
    "policy sliding": "write policy: time, size_s and slide_s",
    "policy hop": "write policy: time, size_s and slide_s",
    "policy session": "write kind: session, with gap_s, instead of a window",
    "time event-time": "write event",
    "time rowtime": "write event",
    "time processing-time": "write processing",
    "time proctime": "write processing",
    # checkpoints
    "checkpoints incremental": "write state: incremental",
    "checkpoints unaligned": "write mode: unaligned",
    "checkpoints max-concurrent": "write concurrent",
    "checkpoints dir": "write storage: HOST",
    "checkpoints exactly-once": "write sinks: exactly-once",
    "mode exactly-once": f"write sinks: exactly-once; {MODE}",
    "mode at-least-once": f"write sinks: at-least-once; {MODE}",
    # Flink's configuration
    "execution.checkpointing.interval": "write checkpoints: {interval_s: 10}",
    "execution.checkpointing.mode": f"leave it out for state, which is always exactly-once; for sinks, {SINKS}",
    "execution.checkpointing.incremental": "write checkpoints: {state: incremental}",
    "execution.checkpointing.timeout": "write checkpoints: {timeout_s: 600}",
    "execution.checkpointing.min-pause": "write checkpoints: {min_pause_s: 0}",
    "execution.checkpointing.max-concurrent-checkpoints": "write checkpoints: {concurrent: 1}",
    "execution.checkpointing.tolerable-failed-checkpoints": "write checkpoints: {tolerated_failures: 0}",
    "execution.checkpointing.aligned-checkpoint-timeout": "write checkpoints: {mode: unaligned, aligned_timeout_s: 30}",
    "execution.checkpointing.unaligned*": "write checkpoints: {mode: unaligned}",
    "execution.checkpointing.dir": "write checkpoints: {storage: HOST}, or storage_mbps",
    "execution.checkpointing.storage": "write checkpoints: {storage: HOST}, or storage_mbps",
    "execution.checkpointing*": "see docs/checkpoints.md for what checkpoints say",
    "state.checkpoints.dir": "write checkpoints: {storage: HOST}, or storage_mbps",
    "state.backend": BACKEND,
    "state.backend.type": BACKEND,
    "state.backend.incremental": "write checkpoints: {state: incremental}",
    "state.backend.rocksdb*": "write engine: {profile: flink, state_backend: {kind: rocksdb, read_us: 2}}",
    "parallelism.default": "write parallelism in each operator of query.operators",
    "table.exec.resource.default-parallelism": "write parallelism in each operator of query.operators",
    "pipeline.max-parallelism": "write key_groups in each keyed operator of query.operators",
    "pipeline.operator-chaining*": "write engine: {profile: flink, chaining: true}, or plan.fused",
    "pipeline.auto-watermark-interval": "write engine: {profile: flink, watermark_interval_s: 0.2}",
    "pipeline.object-reuse": "leave it out: copies between chained operators cost nothing here",
    "execution.buffer-timeout*": "write engine: {profile: flink, flush_s: 0.1}",
    "taskmanager.numberOfTaskSlots": "leave it out: a host has as many slots as subtasks are placed there",
    "taskmanager.cpu.cores": f"{CORES} in cluster.hosts",
    "taskmanager.memory.segment-size": "write engine: {profile: flink, buffer_bytes: 32768}",
    "taskmanager.memory.managed*": "write engine: {profile: flink, state_backend: {kind: rocksdb, managed_share: 0.4}}",
    "taskmanager.memory.network*": "leave it out: engine.network_memory counts buffers for each channel, not bytes",
    "taskmanager.network.memory*": "write engine: {profile: flink, network_memory: {...}}",
    "taskmanager.memory*": RAM,
    "restart-strategy*": RECOVERY,
    "heartbeat*": RECOVERY,
    "jobmanager.execution.failover-strategy": "write checkpoints: {failover: region}",
    "jobmanager.scheduler": "write engine: {profile: flink, rescaling: reactive}",
    "scheduler-mode": "write engine: {profile: flink, rescaling: reactive}",
    "jobmanager*": FREE,
    "high-availability*": FREE,
    "job.autoscaler*": "write policy: {name: flink-autoscaler}",
    "table.exec.state.ttl": "write ttl_s in each operator that keeps rows",
    "table.exec.source.idle-timeout": "write idle_s in each source",
    "table.exec.mini-batch.size": "write mini_batch_size of kind group-aggregate",
    "table.exec.mini-batch*": "write mini_batch_s of kind group-aggregate",
    "table.exec.async-lookup.buffer-capacity": "write capacity of kind lookup-join",
    "table.exec.async-lookup.timeout": "write timeout_s of kind lookup-join",
    "table.optimizer.agg-phase-strategy": "write two group-aggregates, with phase: local and phase: global",
    "table.exec*": "see docs/sql-kinds.md for what operators of SQL say",
}
_UNIT = re.compile(r"_(s|ms|mb|bytes)$")


def _plain(word: str) -> str:
    return re.sub(r"[-_]", "", _UNIT.sub("", word).lower())


_PLAIN = {_plain(word): ours for word, ours in OURS.items()}
_BEGUN = sorted((word[:-1] for word in _PLAIN if word.endswith("*")), key=len, reverse=True)


def ours(word: str, place: str = "") -> str:
    """Says what to write here for a word of others; empty if it is not known. place: the key above it, or its own."""
    plain = _plain(word)
    found = _PLAIN.get(f"{_plain(place)} {plain}") or _PLAIN.get(plain)
    return found or next((_PLAIN[f"{begun}*"] for begun in _BEGUN if plain.startswith(begun)), "")


def remedy(word: str, known: Iterable[str], place: str = "", value: Any = None) -> str:
    """Remedy for an unknown `word`: what to write here for it, or for the words that it holds (`execution:
    {checkpointing: {interval: 10s}}`), else as `suggest`."""
    inside = [(each, ours(each)) for each in _leaves(word, value)] if isinstance(value, Mapping) else []
    told = [f"for {each} {said}" for each, said in inside if said]
    return "; ".join(told) or ours(word, place) or suggest(word, known)


def _leaves(path: str, value: Any) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield path
    else:
        for key, part in value.items():
            yield from _leaves(f"{path}.{key}", part)
