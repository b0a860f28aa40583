"""Trace format: flat Parquet tables shared with the Spark pipeline, and their atomic writer.

Rates and times carry the names of Flink's metrics where it has one. One folder holds the tables of one or more runs; it
appears whole or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from twin.errors import BadInput
from twin.files import altered, new_folder, seal, sums
from twin.words import meant

_F, _I, _S, _B = pa.float64(), pa.int64(), pa.string(), pa.bool_()

RUNS = pa.schema(
    [
        pa.field("run", _S, nullable=False),
        ("index", _I),
        ("name", _S),
        ("status", _S),  # "ok", or "failed" with the reason in `error` and nulls below
        ("error", _S),
        ("seed", _I),
        ("horizon_s", _F),
        ("warmup_s", _F),
        ("period_s", _F),
        ("version", _S),
        ("config_hash", _S),
        ("deployment", _S),  # JSON, parses as twin.deployment.Deployment
        ("checkpoints", _S),  # JSON, parses as twin.checkpoints.Checkpoints; null: none that cost anything
        ("cpu_s", _F),  # of the simulation itself, on the machine that ran it
        ("crashed", _B),
    ]
)
"""Table with one row a run."""

SPENT = pa.struct(
    [
        ("way", _S),  # of twin.histograms.WAYS
        ("count", _I),  # times
        ("sum_s", _F),
        ("buckets", pa.list_(pa.int32())),  # of twin.histograms, ascending
        ("counts", pa.list_(pa.int64())),
    ]
)
"""Times that records spent at an operator in one way."""

OPERATORS = pa.schema(
    [
        pa.field("run", _S, nullable=False),
        ("operator", _S),
        ("kind", _S),
        ("parallelism", _I),
        ("period", _I),
        ("start_s", _F),
        ("end_s", _F),
        ("numRecordsIn", _I),  # records taken up in the period, all subtasks
        ("numRecordsOut", _I),  # records emitted, counted once per output stream's record, not per consumer
        ("numRecordsDropped", _I),  # records that full channels lost on its output streams
        ("busyTimeMsPerSecond", _F),  # these three are means over the subtasks; they sum to 1000
        ("backPressuredTimeMsPerSecond", _F),
        ("idleTimeMsPerSecond", _F),
        ("queueLength", _I),  # records waiting at the end of the period
        ("stateBytes", _F),  # at the end of the period
        ("arrived", _I),  # sources: records that reached the broker
        ("backlog", _I),  # sources: records waiting in the broker at the end
        ("latencyCount", _I),  # sinks: result records in the latency columns
        ("processingLatencySum_s", _F),
        ("processingLatencyBuckets", pa.list_(pa.int32())),  # twin.histograms: bucket indices, ascending
        ("processingLatencyCounts", pa.list_(pa.int64())),
        ("e2eLatencySum_s", _F),
        ("e2eLatencyBuckets", pa.list_(pa.int32())),
        ("e2eLatencyCounts", pa.list_(pa.int64())),
        ("resultDelaySum_s", _F),  # sinks: since all that a result waited for was there; without windows as processing
        ("resultDelayBuckets", pa.list_(pa.int32())),
        ("resultDelayCounts", pa.list_(pa.int64())),
        ("spent", pa.list_(SPENT)),  # where the time goes; of chained operators at the first
        ("numLateRecordsDropped", _I),  # operators over event time
        ("numLateRecordsAside", _I),  # late records that were sent to an output for them
        ("watermarkLagMean_s", _F),  # how far the watermark is behind the clock; null before the first one
        ("watermarkLagMax_s", _F),
    ]
)
"""Table with one row for each operator and period."""

SUBTASKS = pa.schema(
    [
        pa.field("run", _S, nullable=False),
        ("operator", _S),
        ("subtask", _I),  # from 0, in the order in which they were added
        ("host", _S),  # where it is at the end of the period
        ("socket", _I),
        ("period", _I),
        ("start_s", _F),  # of the period, or when the subtask was added
        ("end_s", _F),  # of the period, or when the subtask was removed
        *(OPERATORS.field(name) for name in ("numRecordsIn", "numRecordsOut", "numRecordsDropped")),
        ("busyTimeMsPerSecond", _F),  # these three sum to 1000
        ("backPressuredTimeMsPerSecond", _F),
        ("idleTimeMsPerSecond", _F),
        *(OPERATORS.field(name) for name in ("queueLength", "stateBytes", "arrived", "backlog")),
    ]
)
"""Table with one row for each subtask and period in which it existed. Single runs have it; corpora leave it out."""

HOSTS = pa.schema(
    [
        pa.field("run", _S, nullable=False),
        ("host", _S),
        ("period", _I),
        ("start_s", _F),
        ("end_s", _F),
        ("cpuUtilisation", _F),  # share of the host's capacity, 0 to 1
        ("memoryUsedMb", _F),
        ("gcSlowdown", _F),  # factor on CPU work, >= 1
        ("bytesOut", _F),
    ]
)
"""Table with one row for each host that carries an operator, and period."""

LINKS = pa.schema(
    [
        pa.field("run", _S, nullable=False),
        ("link", _S),  # "a->b" for one direction of a link; a host's name for its network card
        ("period", _I),
        ("start_s", _F),
        ("end_s", _F),
        ("bytesOut", _F),  # sent in the period; what still waits to be sent is not in it
        ("utilisation", _F),  # share of the bandwidth, 0 to 1
        ("recordsIn", _I),  # handed to the card or link
        ("recordsOut", _I),  # arrived at its other end
    ]
)
"""Table with one row for each network card or direction of a link that a stream crosses, and period."""
EVENTS = pa.schema(
    [
        pa.field("run", _S, nullable=False),
        ("at_s", _F),
        ("end_s", _F),  # null: it lasts until the end of the run
        ("kind", _S),  # of twin.events, or "decision" of a policy
        ("component", _S),  # operator, host, source, link, or policy
        ("paused_s", _F),  # how long the subtask, the key groups or the job stood still
        ("bytes", _F),  # of state that was moved
        ("detail", _S),  # JSON
    ]
)
"""Table with one row for each change of the running job."""

TRAINING_ROWS = pa.schema(
    [
        pa.field("run", _S, nullable=False),
        ("index", _I),
        ("seed", _I),
        ("config_hash", _S),
        ("horizon_s", _F),
        ("warmup_s", _F),  # start of the measured time
        ("deployment", _S),
        ("throughput_per_s", _F),
        ("processing_latency_s", _F),  # means; null when nothing reached a sink
        ("processing_latency_p50_s", _F),
        ("processing_latency_p95_s", _F),
        ("processing_latency_p99_s", _F),
        ("e2e_latency_s", _F),
        ("e2e_latency_p50_s", _F),
        ("e2e_latency_p95_s", _F),
        ("e2e_latency_p99_s", _F),
        ("result_delay_s", _F),
        ("result_delay_p50_s", _F),
        ("result_delay_p95_s", _F),
        ("result_delay_p99_s", _F),
        ("backpressure_per_s", _F),
        ("backpressured", _B),
        ("success", _B),
        ("records_out", _I),
        ("behind_share", _F),
        ("backlog_max", _I),
        ("checkpoints", _S),
        ("checkpoint_duration_s", _F),
        ("checkpoint_bytes", _F),
    ]
)
"""Table with one row for each successful simulation, which `twin dataset` makes of a corpus to train cost models."""

TABLES: Mapping[str, pa.Schema] = {
    "runs": RUNS,
    "operators": OPERATORS,
    "subtasks": SUBTASKS,
    "hosts": HOSTS,
    "links": LINKS,
    "events": EVENTS,
}
RETIRED: Mapping[str, tuple[str, ...]] = {"runs": ("fidelity",)}
"""Columns in traces of older versions that are ignored, by table."""
LATER: Mapping[str, tuple[str, ...]] = {
    "runs": ("checkpoints",),
    "operators": (
        "resultDelaySum_s",
        "resultDelayBuckets",
        "resultDelayCounts",
        "spent",
        "numLateRecordsDropped",
        "numLateRecordsAside",
        "watermarkLagMean_s",
        "watermarkLagMax_s",
    ),
}
"""Columns that traces of older versions lack, by table; they are read as nulls."""
OPTIONAL = frozenset({"subtasks"})
"""Tables that have no file if they have no rows."""

Rows = Mapping[str, Sequence[Mapping[str, Any]]]
"""Rows by table name; a table without rows may be left out."""


def write_trace(rows: Rows, folder: Path) -> None:
    """Writes all tables and their checksums to `folder`, which appears when complete. A table without rows is empty, or
    left out if it is optional.

    Raises BadInput if `folder` exists.
    """
    if folder.exists():
        raise BadInput(f"{folder} exists; remove it or name another folder")
    with new_folder(folder) as aside:
        write_tables(rows, aside)


def write_tables(rows: Rows, folder: Path) -> None:
    """Writes the tables to a folder that exists, one file after the other, and then their checksums."""
    written = []
    for name, schema in TABLES.items():
        if name in OPTIONAL and not rows.get(name):
            continue
        table = pa.Table.from_pylist([dict(row) for row in rows.get(name, ())], schema=schema)
        written.append(f"{name}.parquet")
        pq.write_table(table, folder / written[-1], compression="zstd")
    seal(folder, written)


def damage(folder: Path) -> str:
    """First damage in a trace folder, in words; empty if files are as written, or readable without checksums."""
    known = sums(folder)
    for name in TABLES:
        file = f"{name}.parquet"
        if not (folder / file).is_file():
            if name in OPTIONAL and file not in (known or ()):
                continue
            return f"{file} is missing"
        if known is None:
            try:
                read_table(folder, name)
            except BadInput as error:
                return str(error)
        elif file not in known:
            return f"{file} is not as it was written"
    return next((f"{file} is not as it was written" for file in altered(folder)), "")


def of_table(found: pa.Schema, table: str) -> bool:
    """Whether a schema is that of a table, but for columns that older traces lack."""
    later = LATER.get(table, ())
    return bool(
        found.equals(pa.schema([each for each in TABLES[table] if each.name in found.names or each.name not in later]))
    )


def read_table(folder: Path, table: str) -> pa.Table:
    """Reads one table of one trace folder. An optional table that was left out has no rows.

    Raises BadInput if it is missing, unreadable, or of another schema.
    """
    path = folder / f"{table}.parquet"
    if table in OPTIONAL and not path.is_file():
        return TABLES[table].empty_table()
    if not path.is_file():
        raise BadInput(f"{path} is missing; write a trace with 'twin run SCENARIO --out DIR' or 'twin corpus'")
    try:
        found = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise BadInput(f"{path} is not a readable Parquet file ({error}); simulate again") from None
    found = found.rename_columns([meant(name, TABLES[table].names) for name in found.column_names])
    found = found.drop_columns([name for name in RETIRED.get(table, ()) if name in found.column_names])
    for number, each in enumerate(TABLES[table]):
        if each.name in LATER.get(table, ()) and each.name not in found.column_names:
            found = found.add_column(min(number, found.num_columns), each, pa.nulls(found.num_rows, each.type))
    if not found.schema.equals(TABLES[table]):
        raise BadInput(f"{path} has another schema than this version writes; simulate again")
    return found
