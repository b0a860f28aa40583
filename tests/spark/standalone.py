"""Standalone Spark cluster on this machine: a master and workers of one core, on the loopback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from spark.session import find_java, write_java_home

STARTED_S = 60.0
MASTER, WORKER = ("org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker")
FAST = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_DEFAULTS = f"""spark.executor.memory 512m
spark.executor.extraJavaOptions {FAST}
spark.driver.extraJavaOptions {FAST}
"""


@dataclass
class Cluster:
    """Standalone cluster. variables: of the environment, under which a command finds it."""

    master: str
    variables: dict[str, str]
    workers: list[subprocess.Popen[bytes]]

    def kill(self, worker: int) -> None:
        """Kills a worker and its executors at once, as if its machine went down, so that none can say so."""
        process = self.workers[worker]
        for pid in (*_children(process.pid), process.pid):
            os.kill(pid, signal.SIGKILL)
        process.wait()


@contextmanager
def standalone(folder: Path, workers: int) -> Iterator[Cluster]:
    """Runs a standalone cluster. folder: empty, for what the cluster writes."""
    write_java_home(find_java(os.environ), folder / "java", folder / "java.log")
    (folder / "conf").mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text(_DEFAULTS)
    port = _free_port()
    variables = os.environ | {
        "SPARK_HOME": str(Path(pyspark.__path__[0])),
        "JAVA_HOME": str(folder / "java"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": FAST,
        "PYSPARK_PYTHON": sys.executable,
    }
    variables.pop("PYTHONPATH", None)  # our packages must come with the job
    address = f"spark://127.0.0.1:{port}"
    running = [_daemon(folder, variables, MASTER, "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")]
    try:
        _wait_until_it_answers(port)
        started = ("--host", "127.0.0.1", "--cores", "1", "--memory", "600m", "--webui-port", "0", address)
        running += [_daemon(folder, variables, WORKER, *started) for _ in range(workers)]
        yield Cluster(address, variables, running[1:])
    finally:
        for process in running:
            process.kill()
            process.wait()


def _daemon(folder: Path, variables: dict[str, str], main: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [str(Path(variables["SPARK_HOME"]) / "bin" / "spark-class"), main, *arguments]
    with (folder / "daemons.log").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, env=variables, stdout=log, stderr=log)


def _wait_until_it_answers(port: int) -> None:
    deadline = time.monotonic() + STARTED_S
    while time.monotonic() < deadline:
        with socket.socket() as caller:
            if caller.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise TimeoutError("the master did not start")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        return int(holder.getsockname()[1])


def _children(pid: int) -> list[int]:
    return [
        int(each) for task in Path(f"/proc/{pid}/task").iterdir() for each in (task / "children").read_text().split()
    ]
