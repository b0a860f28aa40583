"""Words that scenarios do not know: those of engines and their users, and those of older versions of this program.

Each is answered in one line, which says what to write instead, or is read as what it is called today. Keys of Flink's
configuration are in `twin.flink_settings`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from twin.errors import suggest
from twin.flink_settings import RECOVERY, SINKS
from twin.flink_settings import told as of_flink
from twin.quantities import SECONDS, unit_of_time

# words of others -----------------------------------------------------------------------------------------------------
# A word that means this in one place only is given as `place word`: the place is the key above the word or, if the word
# is a value, its own key (`mode exactly-once`). Upper and lower case, hyphens, underscores and a unit at the end make
# no difference. Further words are further lines here.


SLACK = "write slack_s: seconds by which watermarks are behind the newest record (disorder_s: by which records are)"
SINK = "write kind: sink, and checkpoints: {sinks: exactly-once} if it is transactional"
SUBTASKS = "write parallelism, or give places in plan.placement"
BACKEND = "write engine: {profile: flink, state_backend: rocksdb}"
TIME = "write policy: time and size_s; without slide_s the window tumbles"
CORES = "write cpu_percent: 100 for each core"
MODE = "mode says how barriers travel, and state is exactly-once in both"

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
    "hosts ram-gb": "write ram_mb: 4000 for 4 GB",
    "hosts memory-gb": "write ram_mb: 4000 for 4 GB",
    "hosts bandwidth-gbps": "write bandwidth_mbps: 1000 for 1 Gbit/s",
    "hosts network": "write bandwidth_mbps and latency_ms",
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
    # arrivals, the engine and runs
    "rate": "write rate_per_s: records a second that arrive at a source (workload.arrivals.SOURCE)",
    "engine buffer-timeout": "write flush_s: seconds; 1e-6 for at once (0 in Flink), 1e7 for never (-1)",
    "engine slots": "leave it out: a host has as many slots as subtasks of one operator are placed there",
    "run duration": "write horizon_s",
    "run warmup-time": "write warmup_s",
    # checkpoints
    "checkpoints incremental": "write state: incremental",
    "checkpoints unaligned": "write mode: unaligned",
    "checkpoints max-concurrent": "write concurrent",
    "checkpoints dir": "write storage: HOST",
    "checkpoints exactly-once": "write sinks: exactly-once",
    "mode exactly-once": f"write sinks: exactly-once; {MODE}",
    "mode at-least-once": f"write sinks: at-least-once; {MODE}",
}
_UNIT = re.compile(r"_(s|ms|mb|bytes)$")


def _plain(word: str) -> str:
    return re.sub(r"[-_]", "", _UNIT.sub("", word).lower())


_PLAIN = {_plain(word): ours for word, ours in OURS.items()}


def ours(word: str, place: str = "") -> str:
    """Says what to write here for a word of others; empty if it is not known. place: the key above it, or its own."""
    plain = _plain(word)
    return _PLAIN.get(f"{_plain(place)} {plain}") or _PLAIN.get(plain) or ""


def remedy(word: str, known: Iterable[str], place: str = "", value: Any = None) -> str:
    """Remedy for an unknown `word` with its value: what to write here for it, or for the words that it holds
    (`execution: {checkpointing: {interval: 10s}}`), else as `suggest`."""
    leaves = _leaves(word, value) if isinstance(value, Mapping) else ()
    told = [f"for {each} {said}" for each, given in leaves if (said := of_flink(each, given))]
    said = of_flink(word, value) or ours(word, place) or _in_our_unit(word, known, value) or suggest(word, known)
    return "; ".join(told) or said


def _in_our_unit(word: str, known: Iterable[str], value: Any) -> str:
    """What to write for a known duration in another unit than ours (`service_time_ms: 5`); empty for anything else."""
    name, _, unit = word.rpartition("_")
    same = [each for each in known if unit in SECONDS and each.rpartition("_")[0] == name and unit_of_time(each)]
    given = value if isinstance(value, int | float) and not isinstance(value, bool) else 5
    return f"write {same[0]}: {given:g}{unit}" if same else ""


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        yield path, value
    else:
        for key, part in value.items():
            yield from _leaves(f"{path}.{key}", part)


# words of older versions ---------------------------------------------------------------------------------------------
# Files with them still run, with one warning a word, and options are answered.
#
# Run settings of versions that could also simulate coarsely mean nothing any more. Keys that spoke of tuples and
# replicas speak of records and subtasks, and `replicas` is `parallelism`.


RETIRED = ("fidelity", "segments")
LEAVE_OUT = "leave it out: every run is exact"
OPTIONS = {
    "prove": "runs judge plans with --budget now: --budget 20 in CPU seconds, or in runs, --budget 40runs",
    "drive": "leave it out: under a learned model, milp chooses among plans near the best by rates",
    "budget": "how many plans predictions may look at is --estimates now",
}
"""Options that commands had, and what to do instead."""
NEWER = {"tuple": "record", "tuples": "records", "replica": "subtask", "replicas": "subtasks"}
"""Words within keys, and those that are said today."""
RENAMED = {"replicas": "parallelism", "tuplesIn": "recordsIn", "tuplesOut": "recordsOut"}
"""Whole keys, and what they are today."""


class Retired(UserWarning):
    """Warning about a setting that no longer means anything, or has another name."""


def told_retired(names: Iterable[str]) -> bool:
    """Whether any of these run settings is retired; if so, warns of it, once."""
    gone = any(name in RETIRED for name in names)
    if gone:
        _warn(f"{' and '.join(f'run.{name}' for name in RETIRED)} can be left out: every run is exact")
    return gone


def newer(key: str) -> str:
    """What an older version's key is called today; the key itself if that has not changed."""
    return RENAMED.get(key) or "_".join(NEWER.get(word, word) for word in key.split("_"))


def meant(key: str, known: Collection[str]) -> str:
    """The one of the known keys that is meant: the name that the key has today if only that is known."""
    today = key if key in known else newer(key)
    return today if today in known else key


def renamed(key: str, known: Collection[str]) -> str:
    """As `meant`, with a warning where a key that somebody has written is called otherwise today."""
    today = meant(key, known)
    if today != key:
        _warn(f"{key} is called {today} now; files that say {key} still run")
    return today


def with_todays_keys(data: Mapping[Any, Any], known: Collection[str]) -> dict[Any, Any]:
    """Data with each key as it is called today, as `renamed` has it."""
    return {renamed(key, known) if isinstance(key, str) else key: value for key, value in data.items()}


def _warn(words: str) -> None:
    warnings.warn(words, Retired, stacklevel=1)  # always from this line, as Python shows a warning once a line
