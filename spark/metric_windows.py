"""Windowed statistics of a growing folder of metric samples, by Structured Streaming.

A window is reported once the samples have passed its end by a given lateness. However the stream stops, the same
call goes on from the checkpoint: the batch that was not finished is reported again, unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from twin.errors import BadInput, Unfinished

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.query import StreamingQuery

FILES = "path STRING, modificationTime TIMESTAMP, length LONG, content BINARY"
SAMPLES = "time_s DOUBLE, metric STRING, of STRING, labels STRING, value DOUBLE"
PARTITIONS = "2"
"""Number of partitions of the state. A checkpoint keeps the number it began with."""
CHECKED_S = 1
"""Seconds between checks whether the stream has ended, or somebody interrupts it."""


class WindowSample(NamedTuple):
    """Sample of a metric. of: the operator or host; labels: those that distinguish series of the same metric."""

    time_s: float
    metric: str
    of: str
    labels: str
    value: float


class Series(NamedTuple):
    """Statistics of a series within a window. first, last: by time, at first_s and last_s."""

    start_s: float
    metric: str
    of: str
    labels: str
    samples: int
    mean: float
    least: float
    most: float
    first: float
    last: float
    first_s: float
    last_s: float


Parse = Callable[[str, bytes], Sequence[WindowSample]]
"""Parses the samples in a file, given its name and content."""
Note = Callable[[str], None]
Told = Callable[[Sequence[Series]], None]
"""Takes whole windows, oldest first; a batch that was interrupted comes again, so a repeated window must count once."""


def watch(
    spark: SparkSession,
    folder: Path,
    checkpoint: Path,
    parse: Parse,
    told: Told,
    *,
    window_s: float,
    late_s: float,
    once: bool,
    files_a_batch: int = 1000,
    every_s: float = 2.0,
    note: Note = lambda _text: None,
) -> None:
    """Reports the windows of all files that are there, and, unless `once`, of those to come, until it is interrupted.

    Files must appear whole: written under a name with a dot before it, then renamed; they are read in the order of
    their modification times. Samples that come later than `late_s` after newer ones do not count; `note` reports them.
    Raises what `parse` (BadInput alone) or `told` raises; Unfinished if the stream ends for another reason.
    """
    spark.conf.set("spark.sql.shuffle.partitions", PARTITIONS)
    raised: list[Exception] = []

    def batch(rows: DataFrame, _number: int) -> None:
        found = sorted(map(_series, rows.collect()))
        try:
            if found:
                told(found)
        except Exception as error:
            raised.append(error)
            raise

    files = spark.readStream.format("binaryFile").schema(FILES).option("maxFilesPerTrigger", files_a_batch)
    windows = _windows(files.load(str(folder.absolute())), parse, window_s, late_s)
    writer = windows.writeStream.foreachBatch(batch).outputMode("append")
    writer = writer.option("checkpointLocation", str(checkpoint.absolute()))
    query = (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{every_s} seconds")).start()
    seen = -1
    try:
        while not query.awaitTermination(CHECKED_S):
            seen = _say_late(query, seen, note)
        _say_late(query, seen, note)
    except StreamingQueryException as error:
        raise _cause(error, raised) from error
    finally:
        if query.isActive:
            query.stop()


def _windows(files: DataFrame, parse: Parse, window_s: float, late_s: float) -> DataFrame:
    def samples(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import pandas as pd

        for part in parts:
            for file, content in zip(part["path"], part["content"], strict=True):
                yield pd.DataFrame(parse(file.removeprefix("file:"), content), columns=list(WindowSample._fields))

    read = files.select("path", "content").mapInPandas(samples, SAMPLES)
    timed = read.withColumn("at", F.timestamp_seconds("time_s"))
    timed = timed.withWatermark("at", f"{round(late_s * 1e6)} microseconds")
    width = F.window("at", f"{round(window_s * 1e6)} microseconds")
    return (
        timed.groupBy(width.alias("within"), "metric", "of", "labels")
        .agg(
            F.collect_list("value").alias("values"),
            F.min(F.struct("time_s", "value")).alias("first"),
            F.max(F.struct("time_s", "value")).alias("last"),
        )
        .select(
            (F.unix_micros("within.start") / 1e6).alias("start_s"), "metric", "of", "labels", "values", "first", "last"
        )
    )


def _series(row: Row) -> Series:
    """Statistics of a row; independent of the batches that samples came in, as the mean is rounded once (`fmean`)."""
    values, first, last = row["values"], row["first"], row["last"]
    within = (len(values), fmean(values), min(values), max(values), first["value"], last["value"])
    return Series(row["start_s"], row["metric"], row["of"], row["labels"], *within, first["time_s"], last["time_s"])


def _say_late(query: StreamingQuery, seen: int, note: Note) -> int:
    """Notes late samples in batches after `seen`. Returns the number of the last batch."""
    for progress in query.recentProgress:
        if progress["batchId"] > seen:
            seen = progress["batchId"]
            if dropped := sum(each["numRowsDroppedByWatermark"] for each in progress["stateOperators"]):
                note(f"{dropped} samples or more came too late for their windows and do not count; see --late")
    return seen


def _cause(error: PySparkException, raised: Sequence[Exception]) -> Exception:
    """Error that ended the stream, as `parse` or `told` raised it; else Unfinished."""
    if raised:
        return raised[0]
    if refused := re.search(r"twin\.errors\.BadInput: (.*)", str(error)):
        return BadInput(refused[1])
    return Unfinished(f"Spark ended the stream ({str(error).splitlines()[0][:300]}); the same command goes on")
