"""A Flink cluster on loopback: a job manager and a task manager, as processes of low priority that end with us."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twin.errors import BadInput

NICE = ["nice", "-n", "10"]
PATIENCE_S = 180.0
RESTART_S = 3.0
CHECKPOINT_S = 2.0
OPENS = ("java.lang", "java.util", "java.util.concurrent", "java.net", "java.io", "java.nio", "java.text", "java.time")
PROCESSES = {
    "jobmanager": ("org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint", "400m"),
    "taskmanager": ("org.apache.flink.runtime.taskexecutor.TaskManagerRunner", "500m"),
}


def settings(rest_port: int, rpc_port: int, folder: Path) -> dict[str, object]:
    """Flink's own defaults, but for what a run of a few seconds needs: small buffers, so that they fill."""
    megabytes = {
        "task.heap.size": 300,
        "task.off-heap.size": 0,
        "framework.heap.size": 128,
        "framework.off-heap.size": 64,
        "network.min": 64,
        "network.max": 64,
        "managed.size": 16,
        "jvm-metaspace.size": 128,
        "jvm-overhead.min": 64,
        "jvm-overhead.max": 64,
    }
    return {
        "jobmanager.rpc.address": "127.0.0.1",
        "jobmanager.rpc.port": rpc_port,
        "jobmanager.bind-host": "127.0.0.1",
        "taskmanager.host": "127.0.0.1",
        "taskmanager.bind-host": "127.0.0.1",
        "rest.address": "127.0.0.1",
        "rest.bind-address": "127.0.0.1",
        "rest.port": rest_port,
        "web.tmpdir": str(folder / "web"),
        "io.tmp.dirs": str(folder / "tmp"),
        "taskmanager.cpu.cores": 2.0,
        "taskmanager.numberOfTaskSlots": 8,
        "taskmanager.memory.segment-size": "4kb",
        **{f"taskmanager.memory.{name}": f"{size}m" for name, size in megabytes.items()},
        "jobmanager.scheduler": "adaptive",
        "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout": "0 s",
        "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "0 s",
        "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "0 s",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 3,
        "restart-strategy.fixed-delay.delay": f"{RESTART_S:g} s",
        "execution.checkpointing.interval": f"{CHECKPOINT_S:g} s",
        "execution.checkpointing.storage": "jobmanager",
        "metrics.latency.granularity": "operator",
        "metrics.fetcher.update-interval": "500 ms",
        "web.refresh-interval": "100 ms",
    }


@dataclass(frozen=True, slots=True)
class Cluster:
    """url: of its REST API. jar: id of the uploaded job."""

    url: str
    jar: str

    def get(self, path: str) -> Any:
        """An answer."""
        return asked(f"{self.url}{path}")

    def submit(self, savepoint: str | None = None, **options: object) -> str:
        """Starts a job, from a savepoint where one is given; its id."""
        arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        asks = {"programArgsList": arguments, **({"savepointPath": savepoint} if savepoint else {})}
        return str(asked(f"{self.url}/jars/{self.jar}/run", "POST", json.dumps(asks).encode())["jobid"])

    def stop(self, job: str, folder: Path) -> str:
        """Ends a job with a savepoint below the folder; where that is."""
        asks = json.dumps({"targetDirectory": folder.resolve().as_uri(), "drain": False}).encode()
        trigger = asked(f"{self.url}/jobs/{job}/stop", "POST", asks)["request-id"]
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s:
            said = self.get(f"/jobs/{job}/savepoints/{trigger}")
            if said["status"]["id"] == "COMPLETED":
                operation = said["operation"]
                if "location" not in operation:
                    raise BadInput(f"job {job} gave no savepoint: {str(operation.get('failure-cause'))[:400]}")
                return str(operation["location"])
            time.sleep(0.05)
        raise BadInput(f"job {job} has no savepoint after {PATIENCE_S:.0f} s; look into the logs of the cluster")

    def wait(self, job: str, state: str) -> None:
        """Until the job is in that state, and all its vertices are where it is RUNNING."""
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s:
            said = self.get(f"/jobs/{job}")
            if said["state"] == state and (state != "RUNNING" or _all_running(said)):
                return
            time.sleep(0.05)
        raise BadInput(f"job {job} is not {state} after {PATIENCE_S:.0f} s; look into the logs of the cluster")

    def cancel(self, job: str) -> None:
        """Ends a job."""
        asked(f"{self.url}/jobs/{job}", "PATCH")
        self.wait(job, "CANCELED")

    def rescale(self, job: str, vertex: str, replicas: int) -> None:
        """Another parallelism of one vertex, while the job runs."""
        path = f"{self.url}/jobs/{job}/resource-requirements"
        wanted = asked(path)
        wanted[vertex]["parallelism"] = {"lowerBound": replicas, "upperBound": replicas}
        asked(path, "PUT", json.dumps(wanted).encode())


def _all_running(job: dict[str, Any]) -> bool:
    return all(each["status"] == "RUNNING" for each in job["vertices"])


def asked(url: str, method: str = "GET", body: bytes | None = None, kind: str = "application/json") -> Any:
    """The answer of Flink's REST API. Raises BadInput with what Flink says."""
    request = urllib.request.Request(url, data=body, method=method, headers={"Content-Type": kind})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as error:
        raise BadInput(f"{method} {url}: {error.read().decode(errors='replace')[:400]}") from None


@contextlib.contextmanager
def running(jars: Path, job_jar: Path, folder: Path, rest_port: int, rpc_port: int) -> Iterator[Cluster]:
    """A cluster that lives as long as the block. folder: its configuration, logs, temporary files."""
    for each in ("conf", "web", "tmp"):
        (folder / each).mkdir(parents=True, exist_ok=True)
    lines = [f"{key}: {value}" for key, value in settings(rest_port, rpc_port, folder).items()]
    (folder / "conf" / "config.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with contextlib.ExitStack() as stack:
        url = f"http://127.0.0.1:{rest_port}"
        with contextlib.suppress(OSError):
            asked(f"{url}/overview")
            raise BadInput(f"a Flink answers at {url} already; end it, as two measurements disturb each other")
        for name, (entry, heap) in PROCESSES.items():
            stack.enter_context(_process(name, entry, heap, jars, folder))
        _await_slots(url)
        yield Cluster(url, _uploaded(url, job_jar))


@contextlib.contextmanager
def _process(name: str, entry: str, heap: str, jars: Path, folder: Path) -> Iterator[None]:
    opens = [f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in OPENS]
    command = [*NICE, "java", f"-Xmx{heap}", "-XX:+UseSerialGC", *opens, "-cp", f"{jars}/*", entry]
    with (folder / f"{name}.log").open("w") as log:
        process = subprocess.Popen([*command, "--configDir", str(folder / "conf")], stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _await_slots(url: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        with contextlib.suppress(BadInput, OSError):
            if asked(f"{url}/overview").get("slots-total"):
                return
        time.sleep(0.5)
    raise BadInput(f"no task manager at {url} after {PATIENCE_S:.0f} s; look into the logs of the cluster")


def _uploaded(url: str, jar: Path) -> str:
    mark = uuid.uuid4().hex
    head = f'--{mark}\r\nContent-Disposition: form-data; name="jarfile"; filename="job.jar"\r\n'
    body = f"{head}Content-Type: application/x-java-archive\r\n\r\n".encode()
    body += jar.read_bytes() + f"\r\n--{mark}--\r\n".encode()
    answer = asked(f"{url}/jars/upload", "POST", body, f"multipart/form-data; boundary={mark}")
    return str(answer["filename"]).rpartition("/")[2]
