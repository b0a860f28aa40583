"""Makes Spark sessions: local by default, quiet, in UTC, on the loopback, without an installed Java."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

import twin
from spark.jvm import end_told, find_java, quiet_bridge, stop, write_java_home
from spark.master import check_master, is_local, on_loopback, with_retries
from spark.probe import require_workers
from twin.errors import BadInput, Unfinished
from twin.kernel import object_code

SHIPPED = ("twin", "spark", "optimizers", "scenarios")
"""Packages that are sent to executors on other machines; the packages that these import must be installed there."""

_LOG4J = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


@contextmanager
def session(master: str = "local[*]") -> Iterator[SparkSession]:
    """Session that is stopped at the end; one at a time in a process, and the next one in it starts faster.

    Ctrl-C inside is a plain KeyboardInterrupt. Raises BadInput if the master is unknown, does not answer, takes no
    application, or has no workers that can run our code; Unfinished if its Java process ends, or does not start.
    """
    check_master(master)
    with scratch_folder() as scratch, quiet_bridge():
        spark = _start(master, scratch)
        try:
            with end_told():
                if not is_local(master):
                    spark.sparkContext.addPyFile(str(zip_packages(SHIPPED, scratch / "streamtwin.zip")))
                if master.startswith("spark://"):
                    require_workers(spark, master)
                yield spark
        finally:
            stop(spark)


def _start(master: str, scratch: Path) -> SparkSession:
    log = scratch / "spark.log"
    settings = _settings(master, scratch)
    try:
        with _environment(_variables(master, scratch)), _own_interrupts():
            gateway = None if SparkContext._gateway else _launch(settings, scratch, log)
            conf = SparkConf().setAll(list(settings.items()))
            context = SparkContext(conf=conf, gateway=gateway)
            try:
                return SparkSession(context)
            except BaseException:
                context.stop()
                raise
    except (PySparkException, Py4JError) as error:
        reason = _reason(error, log)
        if is_local(master):
            raise Unfinished(
                f"Spark did not start ({reason}); free memory if it is short, and give the same command again"
            ) from error
        raise BadInput(f"--master {master!r} took no application: {reason}; mend it, or use local[*]") from error


def _launch(settings: Mapping[str, str], scratch: Path, log: Path) -> object:
    write_java_home(find_java(os.environ), scratch / "java")
    (scratch / "conf").mkdir()
    (scratch / "conf" / "log4j2.properties").write_text(_LOG4J)
    with log.open("wb") as sink, _environment({"JAVA_HOME": str(scratch / "java")}):
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        return launch_gateway(conf, {"stdout": sink, "stderr": sink})  # the JVM's own output is not for the user


def _settings(master: str, scratch: Path) -> dict[str, str]:
    settings = {
        "spark.master": with_retries(master),
        "spark.app.name": "streamtwin",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.python.worker.reuse": "true",
        "spark.executorEnv.PYTHONSAFEPATH": "1",  # a module of the current folder must not replace ours
        "spark.executorEnv.OMP_NUM_THREADS": "1",  # one simulation a core; threads inside would only compete
    }
    if is_local(master):
        # Jobs here take seconds: compiling once, quickly, halves the JVM's CPU time (to a session: 9.6 to 4.8 s).
        settings["spark.driver.extraJavaOptions"] = "-XX:TieredStopAtLevel=1"
        settings["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))  # 200 tasks are slow on one machine
        settings["spark.executorEnv.PYTHONPATH"] = str(Path(twin.__path__[0]).resolve().parent)
    if on_loopback(master):
        settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    return settings


def _variables(master: str, scratch: Path) -> dict[str, str | None]:
    """Environment variables (None: unset) under which the JVM is launched and the context made."""
    variables: dict[str, str | None] = {
        "SPARK_HOME": str(Path(pyspark.__path__[0])),  # another Spark's jars would not match this Python side
        "PYSPARK_SUBMIT_ARGS": None,
        "SPARK_REMOTE": None,
    }
    if on_loopback(master):
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    if is_local(master) or "PYSPARK_PYTHON" not in os.environ:
        variables["PYSPARK_PYTHON"] = sys.executable
    if is_local(master) or "SPARK_CONF_DIR" not in os.environ:
        variables["SPARK_CONF_DIR"] = str(scratch / "conf")
    return variables


@contextmanager
def _environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Sets variables of the process environment and puts them back at the end: pyspark reads them nowhere else."""
    before = {name: os.environ.get(name) for name in variables}
    _set_environment(variables)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Undoes the SIGINT handler that a new SparkContext installs: it talks to the JVM from inside the signal."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if in_main_thread:
            signal.signal(signal.SIGINT, before)


def _reason(error: Exception, log: Path) -> str:
    """Most telling line of an error: the JVM's last exception, else Python's message."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    telling = [line.strip() for line in lines if re.search(r"\w(Exception|Error): |\bERROR\b", line)]
    return telling[-1] if telling else str(error).strip().splitlines()[0]


PREFIX = "streamtwin-spark-"
_LOCK = ".in-use"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Scratch folder, empty but for a lock, which ends with the process, however it ends."""
    _clear()
    made = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
    with made as folder, (Path(folder) / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Path(folder)


def _clear() -> None:
    """Removes scratch folders whose lock nobody holds. One without a lock is being made, or is not ours: it stays."""
    for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{_LOCK}"):
        try:
            with lock.open() as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:  # it is held, belongs to another user, or has just gone
            continue


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
            target.write(path, Path("twin", "kernel", object_code.CACHE, path.name))
    return archive
