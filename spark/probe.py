"""Probes a standalone cluster before it gets work: the first worker must have this Python, with our packages."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark.jobs import last_line, run_job
from twin.errors import BadInput

PATIENCE_S = 30.0
"""Longest time until the first worker is there, and again for its first task."""
POLLED_S = 0.2
"""Seconds between looks for a worker."""


def require_workers(spark: SparkSession, master: str) -> None:
    """Raises BadInput, within PATIENCE_S each, if the master has no worker with free cores, or if the one that gets a
    task cannot run our code: its Python is missing, of another version, or lacks packages."""
    tracker = spark.sparkContext._jsc.sc().statusTracker()
    ends_s = time.monotonic() + PATIENCE_S
    while len(tracker.getExecutorInfos()) < 2:  # the driver counts as one
        if time.monotonic() > ends_s:
            raise BadInput(
                f"--master {master!r} offered no executor in {PATIENCE_S:g} s; start workers for it, or free some cores"
            )
        time.sleep(POLLED_S)
    ends_s = time.monotonic() + PATIENCE_S

    def wait() -> None:
        if time.monotonic() > ends_s:
            raise _unable(master, f"the first task has not begun in {PATIENCE_S:g} s")

    try:
        numbered = spark.sparkContext.parallelize([0], 1)
        (missing,) = run_job(spark, lambda: numbered.mapPartitions(_missing).collect(), poll=wait)
    except (PySparkException, Py4JError) as error:
        raise _unable(master, last_line(error)) from error
    if missing:
        raise _unable(master, missing)


def _missing(_part: Iterable[int]) -> Iterator[str]:
    """Yields why a worker cannot simulate; an empty text if it can."""
    try:
        import twin.simulation  # noqa: F401  # all that a run needs
    except ImportError as error:
        yield str(error)
    else:
        yield ""


def _unable(master: str, reason: str) -> BadInput:
    version = ".".join(map(str, sys.version_info[:2]))
    return BadInput(
        f"--master {master!r}: its workers cannot run this work ({reason}); install Python {version} with streamtwin's "
        "packages on each of them, and name it: PYSPARK_PYTHON=/path/to/python"
    )
