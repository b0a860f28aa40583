"""Rows of a dataset: what their columns say, labels of a run that are made of its trace, and whether rows are sound."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twin import VERSION
from twin.corpus.manifest import content_hash, write_json
from twin.files import TABLE_SUMS, parse_json, seal, write_text
from twin.kinds.registry import SOURCES
from twin.metrics import METRICS, REGRESSION_METRICS, measured

# soundness of rows ---------------------------------------------------------------------------------------------------
# Soundness of training rows, for those who write them and those who read them.


def first_fault(columns: Mapping[str, Sequence[Any]], partly_n: np.ndarray | None = None) -> tuple[int, str] | None:
    """First row with a number that no run has, and which; None: all rows are sound.

    columns: of `twin.trace.TRAINING_ROWS`, METRICS and both times at least. partly_n: whether a row is of a real run,
    of which some metrics may be unknown; None: of no row. Runs without success have no latencies.
    """
    warmup_s, horizon_s = (np.array(columns[name], dtype=float) for name in ("warmup_s", "horizon_s"))
    success_n = np.array(columns["success"], dtype=float) == 1
    found = []
    if wrong := _first(~((warmup_s >= 0.0) & (warmup_s < horizon_s) & np.isfinite(horizon_s))):
        found.append((wrong[0], f"warmup_s = {warmup_s[wrong[0]]:g} of {horizon_s[wrong[0]]:g} s"))
    for metric in METRICS:
        values_n = np.array(columns[metric], dtype=float)
        wrong_n = ~np.isfinite(values_n)
        if metric in REGRESSION_METRICS:
            wrong_n = (wrong_n if partly_n is None else wrong_n & ~partly_n) | (values_n < 0.0)
            wrong_n &= success_n
        if wrong := _first(wrong_n):
            found.append((wrong[0], f"{metric} = {columns[metric][wrong[0]]}"))
    return min(found, default=None)


def _first(wrong_n: np.ndarray) -> list[int]:
    """Index of the first of these, if there is one."""
    return np.flatnonzero(wrong_n)[:1].tolist()


# columns -------------------------------------------------------------------------------------------------------------
# Columns of a dataset: what each says, in which unit, and the card that stands beside the rows.
#
# Readers of folders of Parquet files (pandas, Spark) pass over files whose names begin with `_`, so everything beside
# the rows is named so.


TITLE = "Data card: training rows of simulated runs"
ABOUT, CARD = "_manifest.json", "_card.md"
"""Names of the manifest and of the card of a dataset."""


@dataclass(frozen=True, slots=True)
class Column:
    """What a column of training rows says. unit: empty for names, texts and yes or no; 1 for numbers of things."""

    unit: str
    says: str


_EMPTY = "; it and its quantiles are empty if no result came"
COLUMNS: Mapping[str, Column] = {
    "run": Column("", "name of the run; of several corpora, behind the name of its corpus and a slash"),
    "index": Column("1", "number of the run in its corpus, from 0"),
    "seed": Column("1", "seed of the run's random numbers"),
    "config_hash": Column("", "16 hexadecimal digits, equal for runs that differ in nothing but their seed"),
    "horizon_s": Column("s", "simulated time of the run; of a real run, the time that was measured"),
    "warmup_s": Column("s", "start of the measured time, which ends at the horizon; all below is about that time"),
    "deployment": Column("", "query, cluster, plan, workload and engine of the run, as JSON"),
    "throughput_per_s": Column("1/s", "result records at the sinks"),
    "processing_latency_s": Column(
        "s", "mean, from the ingestion of the oldest record that went into a result to the result's arrival" + _EMPTY
    ),
    "processing_latency_p50_s": Column("s", "median of the processing latency, within 1 %"),
    "processing_latency_p95_s": Column("s", "95th percentile of the processing latency, within 1 %"),
    "processing_latency_p99_s": Column("s", "99th percentile of the processing latency, within 1 %"),
    "e2e_latency_s": Column(
        "s", "mean end-to-end latency: the same, from that record's arrival at the message broker" + _EMPTY
    ),
    "e2e_latency_p50_s": Column("s", "median of the end-to-end latency, within 1 %"),
    "e2e_latency_p95_s": Column("s", "95th percentile of the end-to-end latency, within 1 %"),
    "e2e_latency_p99_s": Column("s", "99th percentile of the end-to-end latency, within 1 %"),
    "result_delay_s": Column(
        "s",
        "mean delay of results: the processing latency without the wait for windows, from the end of the last window "
        "that a result waited for" + _EMPTY + ", and of corpora of older versions",
    ),
    "result_delay_p50_s": Column("s", "median of the delay of results, within 1 %"),
    "result_delay_p95_s": Column("s", "95th percentile of the delay of results, within 1 %"),
    "result_delay_p99_s": Column("s", "99th percentile of the delay of results, within 1 %"),
    "backpressure_per_s": Column("1/s", "records by which those that wait at the brokers grow, over all sources"),
    "backpressured": Column("", "whether these grow by more than 1 % of the offered rate"),
    "success": Column("", "whether a result came, and the job did not crash"),
    "records_out": Column("1", "result records in the measured time"),
    "behind_share": Column(
        "",
        "share of the measured time in which the job is behind: of its periods, those at whose end more records wait "
        "at the brokers than a tenth of those taken in the period",
    ),
    "backlog_max": Column("1", "most records that wait at the brokers at the end of a period, over all sources"),
    "checkpoints": Column("", "checkpoints of the run, as JSON; empty if there are none that cost anything"),
    "checkpoint_duration_s": Column(
        "s", "mean of the completed checkpoints that began in the measured time, from start to end; empty if none did"
    ),
    "checkpoint_bytes": Column("bytes", "mean that such a checkpoint uploads; empty if there is none"),
    "measured": Column("", "whether the run is a real one (`twin import metrics`); such rows may lack any label"),
}
"""Columns by name: those of twin.trace.TRAINING_ROWS, and the one that rows of real runs have besides."""


def column_table(names: Iterable[str] = COLUMNS) -> list[str]:
    """Markdown table of these columns, line by line. Raises KeyError for a column without a description."""
    rows = [f"| `{name}` | {COLUMNS[name].unit} | {COLUMNS[name].says} |" for name in names]
    return ["| column | unit | says |", "|---|---|---|", *rows]


def describe(folder: Path, title: str, about: Mapping[str, Any], names: Iterable[str], parts: Iterable[str]) -> None:
    """Writes manifest, card and checksums beside the rows of a dataset.

    about: where the rows are from, JSON values. names: columns of the rows. parts: Parquet files, as paths within the
    folder.
    """
    names = list(names)
    write_json(
        folder / ABOUT, {"version": VERSION, **about, "columns": {name: asdict(COLUMNS[name]) for name in names}}
    )
    lines = [f"# {title}", "", *_facts(about), "", "## Columns", "", *column_table(names)]
    write_text(folder / CARD, "\n".join(lines) + "\n")
    seal(folder, [*parts, ABOUT, CARD], TABLE_SUMS)


def of_corpora(manifests: Mapping[str, Mapping[str, Any]], counts: Mapping[str, int]) -> dict[str, Any]:
    """Manifest of a dataset without its columns: `corpus` of one, `corpora` by name of several. manifests: of the
    corpora by name."""
    bodies = {name: dict(each) for name, each in manifests.items()}
    if len(bodies) == 1:
        (body,) = bodies.values()
        return {"corpus": body, "corpus_hash": content_hash(body), **counts}
    return {"corpora": bodies, "corpus_hash": content_hash(bodies), **counts}


def _facts(about: Mapping[str, Any]) -> list[str]:
    """What the manifest says, as lines of a list."""
    told = {name: value for name, value in about.items() if not isinstance(value, Mapping)}
    lines = [f"- {name.replace('_', ' ')}: {value}" for name, value in told.items()]
    corpora = {"corpus": about["corpus"]} if "corpus" in about else about.get("corpora", {})
    for name, corpus in corpora.items():
        words = ", ".join(f"{key} {value}" for key, value in sorted(corpus.items()) if key != "settings")
        lines.append(f"- {name}: {words}")
    return lines


# labels of a run -----------------------------------------------------------------------------------------------------
# Labels of a run beside its metrics, from the rows of its trace: how far it is behind, and what checkpoints took.
#
# `spark.pipeline` computes the same of many runs at once.


BEHIND = 0.1
"""Share of the records of a period above which those that wait at its end show that the job is behind: fewer may just
have come."""
CHECKPOINT, COMPLETED = "checkpoint", "completed"
"""Kind of the events, and their status, that are of checkpoints which did not fail."""

Row = Mapping[str, Any]


def further_labels(operators: Sequence[Row], events: Sequence[Row], warmup_s: float) -> dict[str, Any]:
    """Labels `behind_share`, `backlog_max`, `checkpoint_duration_s` and `checkpoint_bytes`; None for what is not known.

    operators, events: rows of these tables of one run; details of events as in a trace, or not yet as JSON.
    """
    return {**_behind(measured(operators, warmup_s)), **_checkpoints(events, warmup_s)}


def _behind(operators: Sequence[Row]) -> dict[str, Any]:
    waiting: dict[tuple[float, float], int] = defaultdict(int)
    taken: dict[tuple[float, float], int] = defaultdict(int)
    for row in operators:
        if row["kind"] in SOURCES and row["backlog"] is not None:
            period = row["start_s"], row["end_s"]
            waiting[period] += row["backlog"]
            taken[period] += row["numRecordsIn"]
    if not waiting:
        return {"behind_share": None, "backlog_max": None}
    seconds = {period: period[1] - period[0] for period in waiting}
    behind = sum(seconds[period] for period, records in waiting.items() if records > BEHIND * taken[period])
    return {"behind_share": behind / sum(seconds.values()), "backlog_max": max(waiting.values())}


def _checkpoints(events: Sequence[Row], warmup_s: float) -> dict[str, Any]:
    done = [
        row
        for row in events
        if row["kind"] == CHECKPOINT and row["at_s"] >= warmup_s and _detail(row)["status"] == COMPLETED
    ]
    if not done:
        return {"checkpoint_duration_s": None, "checkpoint_bytes": None}
    return {
        "checkpoint_duration_s": sum(row["end_s"] - row["at_s"] for row in done) / len(done),
        "checkpoint_bytes": sum(row["bytes"] for row in done) / len(done),
    }


def _detail(event: Row) -> Mapping[str, Any]:
    found = event["detail"]
    return parse_json(found) if isinstance(found, str) else found


if __name__ == "__main__":
    print("\n".join(column_table()))
