"""The Java process behind a session: what it and its bridge say is kept from the user, and its end is told."""

from __future__ import annotations

import logging
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from twin.errors import BadInput, Unfinished

ENDING_S = 2.0
"""How long an ending process may take to be gone, once its connection is."""


@contextmanager
def quiet_bridge() -> Iterator[None]:
    """py4j logs the tracebacks of what it raises, too, and for that it takes the root logger."""

    def from_elsewhere(record: logging.LogRecord) -> bool:
        return "/py4j/" not in record.pathname.replace("\\", "/")

    root = logging.getLogger()
    root.addFilter(from_elsewhere)
    try:
        yield
    finally:
        root.removeFilter(from_elsewhere)


@contextmanager
def end_told() -> Iterator[None]:
    """Raises Unfinished for whatever is raised because the Java process has ended."""
    try:
        yield
    except BadInput:
        raise
    except Exception as error:
        status = _ended()
        if status is None:
            raise
        how = f"was ended by signal {-status}" if status < 0 else f"ended with {status}"
        raise Unfinished(
            f"Spark's Java process {how} (the machine may be out of memory); free memory and give the same command "
            f"again: it goes on where it was"
        ) from error


def stop(spark: SparkSession) -> None:
    """Also where the Java process is gone: the next session then starts another."""
    with suppress(Py4JError, OSError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the process may be gone, or its connection cut by Ctrl-C
        spark.stop()
        return
    if _ended() is not None:
        spark.sparkContext.stop()
        SparkSession._instantiatedSession = SparkSession._activeSession = None
        SparkContext._gateway = SparkContext._jvm = None


def _ended() -> int | None:
    """The status with which the Java process has ended; None if it runs, or is not ours."""
    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return None
    with suppress(subprocess.TimeoutExpired):
        return process.wait(ENDING_S)
    return None
