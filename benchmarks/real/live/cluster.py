"""A Flink cluster on loopback: a job manager and a task manager, as processes of low priority that end with us."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from twin.errors import BadInput

SETTINGS = Path(__file__).with_name("config.yaml")
NICE = ["nice", "-n", "10"]
T = TypeVar("T")
PATIENCE_S = 180.0
RESTART_S = 3.0
CHECKPOINT_S = 2.0
OPENS = ("java.lang", "java.util", "java.util.concurrent", "java.net", "java.io", "java.nio", "java.text", "java.time")
PROCESSES = {
    "jobmanager": ("org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint", "400m"),
    "taskmanager": ("org.apache.flink.runtime.taskexecutor.TaskManagerRunner", "500m"),
}


def settings(rest_port: int, rpc_port: int, folder: Path) -> str:
    """Text of a cluster's config.yaml."""
    own = {
        "jobmanager.rpc.port": rpc_port,
        "rest.port": rest_port,
        "web.tmpdir": folder / "web",
        "io.tmp.dirs": folder / "tmp",
        "restart-strategy.fixed-delay.delay": f"{RESTART_S:g} s",
        "execution.checkpointing.interval": f"{CHECKPOINT_S:g} s",
    }
    return SETTINGS.read_text(encoding="utf-8") + "".join(f"{key}: {value}\n" for key, value in own.items())


@dataclass(frozen=True, slots=True)
class Cluster:
    """Running Flink cluster. url: of its REST API. jar: id of the uploaded job."""

    url: str
    jar: str

    def get(self, path: str) -> Any:
        """Answer of the REST API to a GET of the path."""
        return asked(f"{self.url}{path}")

    def submit(self, savepoint: str | None = None, **options: object) -> str:
        """Starts a job, from a savepoint where one is given; returns its id."""
        arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        asks = {"programArgsList": arguments, **({"savepointPath": savepoint} if savepoint else {})}
        return str(asked(f"{self.url}/jars/{self.jar}/run", "POST", json.dumps(asks).encode())["jobid"])

    def stop(self, job: str, folder: Path) -> str:
        """Ends a job with a savepoint below the folder; returns the savepoint's location."""
        asks = json.dumps({"targetDirectory": folder.resolve().as_uri(), "drain": False}).encode()
        trigger = asked(f"{self.url}/jobs/{job}/stop", "POST", asks)["request-id"]

        def done() -> Any:
            said = self.get(f"/jobs/{job}/savepoints/{trigger}")
            return said["status"]["id"] == "COMPLETED" and said["operation"]

        operation = patiently(done, f"job {job} has no savepoint")
        if "location" not in operation:
            raise BadInput(f"job {job} gave no savepoint: {str(operation.get('failure-cause'))[:400]}")
        return str(operation["location"])

    def wait(self, job: str, state: str) -> None:
        """Waits until the job is in the state; for RUNNING, until all its vertices are."""

        def there() -> bool:
            said = self.get(f"/jobs/{job}")
            running = all(each["status"] == "RUNNING" for each in said["vertices"])
            return said["state"] == state and (state != "RUNNING" or running)

        patiently(there, f"job {job} is not {state}")

    def cancel(self, job: str) -> None:
        """Ends a job."""
        asked(f"{self.url}/jobs/{job}", "PATCH")
        self.wait(job, "CANCELED")

    def rescale(self, job: str, vertex: str, parallelism: int) -> None:
        """Sets another parallelism of one vertex, while the job runs."""
        path = f"{self.url}/jobs/{job}/resource-requirements"
        wanted = asked(path)
        wanted[vertex]["parallelism"] = {"lowerBound": parallelism, "upperBound": parallelism}
        asked(path, "PUT", json.dumps(wanted).encode())


def patiently(ask: Callable[[], T], otherwise: str) -> T:
    """Asks again and again until the answer is true, and returns it. Raises BadInput after PATIENCE_S."""
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        if answer := ask():
            return answer
        time.sleep(0.05)
    raise BadInput(f"{otherwise} after {PATIENCE_S:.0f} s; look into the logs of the cluster")


def asked(url: str, method: str = "GET", body: bytes | None = None, kind: str = "application/json") -> Any:
    """Answer of Flink's REST API. Raises BadInput with Flink's message."""
    request = urllib.request.Request(url, data=body, method=method, headers={"Content-Type": kind})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as error:
        raise BadInput(f"{method} {url}: {error.read().decode(errors='replace')[:400]}") from None


@contextlib.contextmanager
def running(jars: Path, job_jar: Path, folder: Path, rest_port: int, rpc_port: int) -> Iterator[Cluster]:
    """Runs a cluster for the length of a block. folder: for its configuration, logs and temporary files."""
    for each in ("conf", "web", "tmp"):
        (folder / each).mkdir(parents=True, exist_ok=True)
    (folder / "conf" / "config.yaml").write_text(settings(rest_port, rpc_port, folder), encoding="utf-8")
    with contextlib.ExitStack() as stack:
        url = f"http://127.0.0.1:{rest_port}"
        with contextlib.suppress(OSError):
            asked(f"{url}/overview")
            raise BadInput(f"a Flink answers at {url} already; end it, as two measurements disturb each other")
        for name, (entry, heap) in PROCESSES.items():
            stack.enter_context(_process(name, entry, heap, jars, folder))
        patiently(lambda: _slots(url), f"no task manager at {url}")
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
            process.kill()  # its files are temporary
            process.wait()


def _slots(url: str) -> int:
    """Number of slots; 0 as long as nobody answers."""
    with contextlib.suppress(BadInput, OSError):
        return int(asked(f"{url}/overview").get("slots-total", 0))
    return 0


def _uploaded(url: str, jar: Path) -> str:
    mark = uuid.uuid4().hex
    head = f'--{mark}\r\nContent-Disposition: form-data; name="jarfile"; filename="job.jar"\r\n'
    body = f"{head}Content-Type: application/x-java-archive\r\n\r\n".encode()
    body += jar.read_bytes() + f"\r\n--{mark}--\r\n".encode()
    answer = asked(f"{url}/jars/upload", "POST", body, f"multipart/form-data; boundary={mark}")
    return str(answer["filename"]).rpartition("/")[2]
