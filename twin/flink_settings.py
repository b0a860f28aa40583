"""Flink's configuration in the words of a scenario: one table of its keys, with what each is here.

A key means the same as one place of a scenario (`checkpoints.interval_s`), or the same in each of several operators or
hosts, or it is said otherwise, or the twin has no such thing; then the table says why. Keys of older versions stand
behind today's. A key that ends in * stands for all that begin like it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from shlex import quote
from typing import Any

from twin.errors import BadInput
from twin.flink_values import (
    FLINK_SIZE,
    NEVER_S,
    PROCESS_SIZE,
    buffer_timeout_s,
    count,
    number,
    one_of,
    ram_mb,
    size_bytes,
    some_time_s,
    time_s,
    tolerated,
)


@dataclass(frozen=True, slots=True)
class Setting:
    """Key of Flink's configuration. path: the place of the same in a scenario, empty if there is none; an asterisk in
    it stands for operators or hosts, which `says` names. example: value of Flink. read: what a value is at that place,
    None if nothing has to be set. says: what to write instead, or why nothing; beside a path, what to know about it.
    only_with: another key, and its value without which this one has no effect."""

    keys: tuple[str, ...]
    path: str = ""
    example: str = ""
    read: Callable[[str], Any] = str
    says: str = ""
    only_with: tuple[str, str] | None = None


def _same(
    keys: str,
    example: str,
    path: str,
    read: Callable[[str], Any],
    says: str = "",
    only_with: tuple[str, str] | None = None,
) -> Setting:
    return Setting(tuple(keys.split()), path, example, read, says, only_with)


def _other(keys: str, says: str) -> Setting:
    return Setting(tuple(keys.split()), says=says)


C, N, D = "execution.checkpointing.", "taskmanager.network.memory.", "taskmanager.network.memory.buffer-debloat."
A, T, M = "job.autoscaler.", "table.exec.", "taskmanager.memory."
UNALIGNED, DEBLOATING = (f"{C}unaligned.enabled", "true"), (f"{D}enabled", "true")
ROCKSDB, SCALING = ("state.backend.type", "rocksdb"), (f"{A}enabled", "true")
BATCHES = (f"{T}mini-batch.enabled", "true")
FIXED, FAILURE_RATE = ("restart-strategy.type", "fixed-delay"), ("restart-strategy.type", "failure-rate")
STORAGE = "write checkpoints: {storage: HOST}, whose card uploads cross, or storage_mbps, what it takes"
SINKS = "write checkpoints: {sinks: exactly-once}, which is for all sinks"
RECOVERY = "write engine: {profile: flink, recovery: {noticed_s: 15, delay_s: 1}}, or recover_after_s of a failure"
RAM = "each of cluster.hosts that is a task manager: its heap and managed memory"
BACKENDS = {"hashmap": "heap", "filesystem": "heap", "jobmanager": "heap", "rocksdb": "rocksdb"}
"""Flink's names of state backends, those of before 1.13 too, by ours; others are not simulated."""
CORES = "each of cluster.hosts that is a task manager"
SQL_STATE = "each operator of SQL that keeps rows by key"
MEASURED = "leave it out: what storing costs is read_us, write_us and ns_per_byte of engine.state_backend; measure them"
FREE = "leave it out: it is not simulated"
MACHINES = "leave it out: the scenario says which machines there are, and plan.placement what runs where"
HEAP_ALONE = "leave it out: ram_mb is heap and managed memory together"
LOOKUP = "each lookup-join"


def _minutes(text: str) -> int:
    return round(time_s(text) / 60)


def _cpu_percent(text: str) -> float:
    return 100.0 * number(text)


def _ram_of(key: str) -> Callable[[str], Any]:
    return lambda text: ram_mb({key: text})


SETTINGS: tuple[Setting, ...] = (
    # checkpoints
    _same(f"{C}interval", "10 s", "checkpoints.interval_s", some_time_s),
    _same(f"{C}timeout", "10 min", "checkpoints.timeout_s", some_time_s),
    _same(f"{C}min-pause", "500 ms", "checkpoints.min_pause_s", time_s),
    _same(f"{C}max-concurrent-checkpoints", "2", "checkpoints.concurrent", count),
    _same(f"{C}tolerable-failed-checkpoints", "3", "checkpoints.tolerated_failures", tolerated),
    _same(f"{UNALIGNED[0]} {C}unaligned", "true", "checkpoints.mode", one_of(true="unaligned", false="aligned")),
    _same(
        f"{C}aligned-checkpoint-timeout {C}alignment-timeout",
        "30 s",
        "checkpoints.aligned_timeout_s",
        some_time_s,
        only_with=UNALIGNED,
    ),
    _same(
        f"{C}incremental state.backend.incremental",
        "true",
        "checkpoints.state",
        one_of(true="incremental", false="full"),
        "which Flink has for RocksDB alone",
    ),
    _same(
        "jobmanager.execution.failover-strategy", "region", "checkpoints.failover", one_of(region="region", full="full")
    ),
    _other(f"{C}mode", f"leave it out: state is always exactly-once; for sinks, {SINKS}"),
    _other(f"{C}dir state.checkpoints.dir {C}storage state.checkpoint-storage {C}savepoint-dir", STORAGE),
    _other("state.savepoints.dir", STORAGE),
    _other(
        f"{C}local-backup* state.backend.local-recovery",
        "leave it out: after a failure tasks fetch their state from the storage, never from their own disk",
    ),
    _other(f"{C}interval-during-backlog", "leave it out: a source reads its backlog as it reads anything else"),
    _other(f"{C}snapshot-compression", "count it in checkpoints: {sync_ns_per_byte: 1}, and in storage_mbps"),
    _other(f"{C}unaligned*", "leave it out: every stream but a shared queue can be overtaken, and no file is counted"),
    _other(
        f"{C}externalized* {C}num-retained {C}cleaner* state.checkpoints*",
        "leave it out: only the last complete one counts",
    ),
    _other(f"{C[:-1]}*", "see docs/checkpoints.md for what checkpoints say"),
    # state
    _same(
        "state.backend.type state.backend",
        "rocksdb",
        "engine.state_backend.kind",
        lambda text: BACKENDS.get(text.strip().lower()),
    ),
    _same(
        f"{M}managed.fraction",
        "0.4",
        "engine.state_backend.managed_share",
        number,
        "of ram_mb here, of all its memory in Flink",
        only_with=ROCKSDB,
    ),
    _other("state.backend.changelog* state.changelog*", "leave it out: each checkpoint uploads what changed by itself"),
    _other("state.backend.rocksdb* state.backend.forst*", MEASURED),
    _other("state.backend.latency-track* state.latency-track*", FREE),
    # buffers and streams
    _same("execution.buffer-timeout.interval execution.buffer-timeout", "100 ms", "engine.flush_s", buffer_timeout_s),
    _same("execution.buffer-timeout.enabled", "false", "engine.flush_s", one_of(true=None, false=NEVER_S)),
    _same(f"{M}segment-size", "32kb", "engine.buffer_bytes", size_bytes),
    _same(f"{N}buffers-per-channel", "2", "engine.network_memory.buffers_per_channel", number),
    _same(f"{N}floating-buffers-per-gate", "8", "engine.network_memory.floating_buffers_per_gate", number),
    _same(f"{N}max-buffers-per-channel", "10", "engine.network_memory.max_buffers_per_channel", number),
    _same(DEBLOATING[0], "true", "engine.network_memory.buffer_debloat", one_of(true={}, false=None)),
    _same(f"{D}target", "1 s", "engine.network_memory.buffer_debloat.target_s", time_s, only_with=DEBLOATING),
    _same(f"{D}period", "200 ms", "engine.network_memory.buffer_debloat.period_s", time_s, only_with=DEBLOATING),
    _same(
        f"{D}threshold-percentages",
        "25",
        "engine.network_memory.buffer_debloat.threshold_percentages",
        number,
        only_with=DEBLOATING,
    ),
    _same(f"{D}samples", "20", "engine.network_memory.buffer_debloat.samples", count, only_with=DEBLOATING),
    _other(f"{N}max-overdraft*", "leave it out: a task that has begun to emit several results takes a barrier anyway"),
    _other(f"{M}min-segment-size", "leave it out: debloated buffers are not smaller than 256 bytes, or a record"),
    _other(f"{M}network* {N}fraction {N}min {N}max", "leave it out: engine.network_memory counts buffers, not bytes"),
    _other("taskmanager.network*", "leave it out: hosts have bandwidth_mbps and latency_ms, and nothing is compressed"),
    # the job
    _same(
        "pipeline.operator-chaining.enabled pipeline.operator-chaining",
        "true",
        "engine.chaining",
        one_of(true=True, false=False),
        "or name chains in plan.fused",
    ),
    _same("pipeline.auto-watermark-interval", "200 ms", "engine.watermark_interval_s", some_time_s),
    _same("pipeline.max-parallelism", "128", "query.operators.*.key_groups", count, "each keyed operator"),
    _same(
        f"parallelism.default {T}resource.default-parallelism",
        "4",
        "query.operators.*.parallelism",
        count,
        "each operator without a place in plan.placement",
    ),
    _same("pipeline.name", "clicks", "name", str),
    _other("pipeline.operator-chaining*", "write plan.fused: the chains that there are"),
    _other("pipeline.object-reuse", "leave it out: copies between chained operators cost nothing here"),
    _other("pipeline.watermark-alignment*", "leave it out: sources do not wait for each other's watermarks"),
    _other(
        "pipeline.generic-types pipeline.force* pipeline.serialization* pipeline.registered* pipeline.default-kryo*",
        "leave it out: what serialising costs is engine.serialise_ns_per_byte, for each byte; measure it",
    ),
    _other("pipeline.*", FREE),
    _other("execution.runtime-mode", "leave it out: every job here is one that STREAMING runs; there are no batches"),
    _other("execution.batch*", "leave it out: every job here is a streaming one"),
    _other("execution.*", FREE),
    # task managers
    _same(PROCESS_SIZE, "4g", "cluster.hosts.*.ram_mb", _ram_of(PROCESS_SIZE), RAM),
    _same(FLINK_SIZE, "3g", "cluster.hosts.*.ram_mb", _ram_of(FLINK_SIZE), RAM),
    _same("taskmanager.cpu.cores", "4", "cluster.hosts.*.cpu_percent", _cpu_percent, CORES),
    _other(f"{M}managed* {M}task* {M}framework* {M}jvm*", HEAP_ALONE),
    _other(
        "taskmanager.numberOfTaskSlots",
        "leave it out: a host has as many slots as subtasks of one operator are placed there, and cpu_percent: 100 a "
        "core",
    ),
    _other(
        "taskmanager.load-balance.mode cluster.evenly-spread-out-slots",
        "leave it out: parallelism is spread over task managers; plan.placement says otherwise",
    ),
    _other("taskmanager.resource-id taskmanager.host* taskmanager.bind* taskmanager.rpc*", MACHINES),
    _other("taskmanager.*", FREE),
    # failures and changes
    _other("restart-strategy.type restart-strategy", RECOVERY),
    _same("restart-strategy.exponential-delay.initial-backoff", "1 s", "engine.recovery.delay_s", time_s),
    _same("restart-strategy.fixed-delay.delay", "10 s", "engine.recovery.delay_s", time_s, "", FIXED),
    _same("restart-strategy.failure-rate.delay", "10 s", "engine.recovery.delay_s", time_s, "", FAILURE_RATE),
    _other("restart-strategy*", "leave it out: a job always restarts, each time after engine.recovery"),
    _other("heartbeat.*", RECOVERY),
    _same(
        "jobmanager.scheduler",
        "adaptive",
        "engine.rescaling.how",
        one_of(adaptive="reactive", default="restart", adaptivebatch=None),
    ),
    _same("scheduler-mode", "reactive", "engine.rescaling.how", one_of(reactive="reactive", none=None)),
    _same(SCALING[0], "true", "policy", one_of(true={"name": "flink-autoscaler"}, false=None)),
    *(
        _same(f"{A}{key}", example, f"policy.{ours}", read, only_with=SCALING)
        for key, example, ours, read in (
            ("utilization.target", "0.7", "utilization_target", number),
            ("utilization.min", "0.4", "utilization_min", number),
            ("utilization.max", "1.0", "utilization_max", number),
            ("target.utilization.boundary", "0.3", "target_utilization_boundary", number),
            ("metrics.window", "15 min", "metrics_window_periods", _minutes),
            ("stabilization.interval", "5 min", "stabilization_interval_periods", _minutes),
            ("catch-up.duration", "30 min", "catch_up_duration_periods", _minutes),
            ("restart.time", "5 min", "restart_time_periods", _minutes),
            ("scale-down.interval", "1 h", "scale_down_interval_periods", _minutes),
            ("scale-down.max-factor", "0.6", "scale_down_max_factor", number),
            ("scale-up.max-factor", "100000", "scale_up_max_factor", number),
            ("vertex.min-parallelism", "1", "vertex_min_parallelism", count),
            ("vertex.max-parallelism", "200", "vertex_max_parallelism", count),
        )
    ),
    _other(f"{A[:-1]}*", "write policy: {name: flink-autoscaler}; its options have Flink's names"),
    # SQL
    _same(f"{T}state.ttl", "1 h", "query.operators.*.ttl_s", some_time_s, SQL_STATE),
    _same(f"{T}source.idle-timeout", "30 s", "query.operators.*.idle_s", some_time_s, "each source"),
    _same(
        f"{T}mini-batch.allow-latency",
        "2 s",
        "query.operators.*.mini_batch_s",
        some_time_s,
        "each group-aggregate",
        BATCHES,
    ),
    _same(f"{T}mini-batch.size", "5000", "query.operators.*.mini_batch_size", count, "each group-aggregate", BATCHES),
    _other(BATCHES[0], "write mini_batch_s of each group-aggregate; without, there are no batches"),
    _same(f"{T}async-lookup.buffer-capacity", "100", "query.operators.*.capacity", count, LOOKUP),
    _same(f"{T}async-lookup.timeout", "3 min", "query.operators.*.timeout_s", some_time_s, LOOKUP),
    _other("table.optimizer.agg-phase-strategy", "write two group-aggregates, with phase: local and phase: global"),
    _other("table.optimizer*", "leave it out: the query has the operators that the optimizer made"),
    _other(f"{T[:-1]}*", "see docs/sql-kinds.md for what operators of SQL say"),
    _other("table.* sql-client.*", FREE),
    # the cluster around the job
    _other(
        "jobmanager.* high-availability* rest.* web.* metrics.* security.* kubernetes.* yarn.* env.* blob.* fs.* s3.* "
        "akka.* pekko.* classloader.* io.tmp.dirs historyserver.* client.* cluster.* resourcemanager.* slotmanager.* "
        "slot.* $internal.*",
        FREE,
    ),
)


def _plain(key: str) -> str:
    """Key without what people write otherwise: upper case, hyphens, underscores."""
    return re.sub(r"[-_]", "", key.lower())


_BY_KEY = {_plain(key): setting for setting in SETTINGS for key in setting.keys}
_BEGUN = sorted((key[:-1] for key in _BY_KEY if key.endswith("*")), key=len, reverse=True)


def setting_of(key: str) -> Setting | None:
    """Row of the table about a key; None if it is none of Flink's."""
    plain = _plain(key)
    begun = (f"{each}*" for each in _BEGUN if plain.startswith(each))
    return _BY_KEY.get(plain) or _BY_KEY.get(next(begun, ""))


def value(settings: Mapping[str, str], key: str) -> Any:
    """What the value of a key is at its place in a scenario, from settings by key; None if it is not set, or nothing
    has to be. Raises BadInput, beginning with the key that was given, for a value that cannot be read."""
    setting = setting_of(key)
    assert setting is not None and setting.path
    for name in setting.keys:
        if name in settings:
            return _read(setting, name, settings[name])
    return None


def _read(setting: Setting, key: str, text: str) -> Any:
    try:
        return setting.read(text)
    except BadInput as error:
        raise BadInput(str(error) if str(error).startswith(key) else f"{key}: {error}") from None


# one key in one line -------------------------------------------------------------------------------------------------


def told(key: str, given: object = None, *, in_file: bool = True) -> str:
    """What to write for a key of Flink, in one line, with its value converted, or that of an example if it has none or
    cannot be read; empty if the key is none of Flink's. in_file: as YAML of a scenario file, else as --set takes it."""
    setting = setting_of(key)
    if setting is None or not setting.path:
        return "" if setting is None else setting.says
    text = setting.example if given is None or isinstance(given, Mapping) else as_text(given)
    try:
        ours = setting.read(text)
    except BadInput:
        ours = setting.read(setting.example)
    if ours is None:
        return f"leave it out: {text} changes nothing here"
    if "*" in setting.path:
        return f"write {setting.path.rpartition('.')[2]}: {_flow(ours)} in {setting.says}"
    values = joined({**_switched(setting), setting.path: ours})
    written = (
        [f"{part}: {_flow(each)}" for part, each in as_parts(values).items()]
        if in_file
        else [quote(f"{path}={_flow(each)}") for path, each in values.items()]
    )
    return f"write {' and '.join(written)}{f', {setting.says}' if setting.says else ''}"


def _switched(setting: Setting) -> dict[str, Any]:
    """What sets here the key without which this one has no effect."""
    switch = setting_of(setting.only_with[0]) if setting.only_with else None
    if switch is None or not switch.path or "*" in switch.path or setting.only_with is None:
        return {}
    return {switch.path: switch.read(setting.only_with[1])}


def as_text(given: object) -> str:
    """Value as Flink's configuration writes it, of one that YAML has read."""
    return str(given).lower() if isinstance(given, bool) else str(given)


def joined(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by their paths, of which one that lies within a mapping before it is put there."""
    found = dict[str, Any]()
    for path, each in values.items():
        whole, _, last = path.rpartition(".")
        if isinstance(found.get(whole), dict):
            found[whole][last] = each
        else:
            found[path] = {**each} if isinstance(each, dict) else each
    return found


def as_parts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by their paths as parts of a scenario file, nested. The engine is Flink's profile with these changes."""
    found = dict[str, Any]()
    for path, each in joined(values).items():
        *parents, last = path.split(".")
        node = found
        for parent in parents:
            node = node.setdefault(parent, {"profile": "flink"} if parent == "engine" else {})
        node[last] = each
    return found


def _flow(node: Any) -> str:
    if isinstance(node, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(each)}" for key, each in node.items()) + "}"
    if isinstance(node, bool):
        return str(node).lower()
    return f"{node:.10g}" if isinstance(node, float) else str(node)


# a whole configuration -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Configured:
    """What a configuration of Flink is here. values: by their paths, of keys that mean the same as one place of a
    scenario. keys: those keys, by path. others: a line for each other key, by key."""

    values: Mapping[str, Any]
    keys: Mapping[str, str]
    others: Mapping[str, str]


def configured(settings: Mapping[str, str]) -> Configured:
    """What settings are here, by key, in the order of the table. Raises BadInput, beginning with the key, for a value
    that cannot be read."""
    values, keys, others = dict[str, Any](), dict[str, str](), dict[str, str]()
    known = set[str]()
    for setting, key in _given(settings):
        known.add(key)
        if setting.only_with is not None and not _is_so(settings, *setting.only_with):
            others[key] = f"without {': '.join(setting.only_with)} it has no effect"
            continue
        ours = _read(setting, key, settings[key])
        if ours is None or "*" in setting.path:
            others[key] = told(key, settings[key])
        else:
            values[setting.path], keys[setting.path] = ours, key
    for key in settings.keys() - known:
        others[key] = told(key, settings[key]) or "it is none of the keys that are known here"
    size = next((key for key in (PROCESS_SIZE, FLINK_SIZE, f"{M}task.heap.size") if key in others), None)
    if size is not None and (whole_mb := ram_mb(settings)) is not None:  # several sizes together make it
        others[size] = f"write ram_mb: {_flow(whole_mb)} in {RAM}"
    return Configured(values, keys, {key: others[key] for key in settings if key in others})


def _given(settings: Mapping[str, str]) -> Iterator[tuple[Setting, str]]:
    """Rows with a place in a scenario, and the key of each that is set."""
    for setting in SETTINGS:
        key = next((each for each in setting.keys if each in settings), None)
        if setting.path and key is not None:
            yield setting, key


def _is_so(settings: Mapping[str, str], key: str, text: str) -> bool:
    setting = setting_of(key)
    assert setting is not None
    return any(settings.get(each, "").strip().lower() == text for each in setting.keys)
