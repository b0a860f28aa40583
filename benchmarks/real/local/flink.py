"""Flink of the Python package index on this machine: its jars, clusters on loopback, and operating points of jobs."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from streamtwin.connect.importers.flink_answers import Answers
from twin.errors import BadInput
from twin.files import new_folder

# jars ----------------------------------------------------------------------------------------------------------------
# Installs Flink's jars, and compiled jobs, in a cache folder of the user.


PACKAGE = "apache-flink-libraries"
VERSION = "2.3.0"
PACED = Path(__file__).parent / "Paced.java"
"""Source of records that all jobs share."""
FACTORIES = "META-INF/services/org.apache.flink.table.factories.Factory"
"""File in a jar that names its sources and sinks of tables to Flink."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamtwin" / f"flink-{VERSION}"


def jars() -> Path:
    """Folder of Flink's jars, which pip downloads (330 MB) if they are missing."""
    found = CACHE / "pyflink" / "lib"
    if not found.is_dir():
        print(f"installing {PACKAGE} {VERSION} (330 MB) into {CACHE}", flush=True)
        with new_folder(CACHE) as aside:
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(aside)]
            _run([*pip, f"{PACKAGE}=={VERSION}"], "pip could not install Flink")
    return found


def job_jar(source: Path, factories: Sequence[str] = ()) -> Path:
    """Job, compiled against the jars, with the class of the file's name as its main program. factories: classes that
    make its tables. Raises BadInput without a Java compiler."""
    for tool in ("java", "javac", "jar"):
        if shutil.which(tool) is None:
            raise BadInput(f"there is no {tool}; install a JDK (17 or 21) to run Flink and compile its job")
    libraries, classes, found = jars(), CACHE / "classes" / source.stem, CACHE / f"{source.stem}.jar"
    if found.is_file() and found.stat().st_mtime > max(each.stat().st_mtime for each in (source, PACED)):
        return found
    shutil.rmtree(classes, ignore_errors=True)  # classes of an older source
    _run(["javac", "-d", str(classes), "-cp", f"{libraries}/*", str(source), str(PACED)], "the job does not compile")
    (classes / FACTORIES).parent.mkdir(parents=True)
    (classes / FACTORIES).write_text("".join(f"{each}\n" for each in factories), encoding="utf-8")
    _run(["jar", "cfe", str(found), source.stem, "-C", str(classes), "."], "the job cannot be packed")
    return found


def _run(command: list[str], otherwise: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BadInput(f"{otherwise}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")


# clusters ------------------------------------------------------------------------------------------------------------
# A Flink cluster on loopback: a job manager and a task manager, as processes of low priority that end with us.


SETTINGS = Path(__file__).with_name("config.yaml")
NICE = ["nice", "-n", "10"]
T = TypeVar("T")
PATIENCE_S = 180.0
RESTART_S = 3.0
CHECKPOINT_S = 2.0
OPENS = ("java.lang", "java.util", "java.util.concurrent", "java.net", "java.io", "java.nio", "java.text", "java.time")
JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"


@dataclass(frozen=True, slots=True)
class Setup:
    """Setup of a cluster. heap: of the Java machines of the job manager and the task manager. settings: of Flink, which
    replace those of config.yaml."""

    rest_port: int
    rpc_port: int
    heap: tuple[str, str] = ("400m", "500m")
    settings: Mapping[str, object] = field(default_factory=dict)


def settings(setup: Setup, folder: Path) -> str:
    """Text of a cluster's config.yaml."""
    given = yaml.safe_load(SETTINGS.read_text(encoding="utf-8"))
    own = {
        "jobmanager.rpc.port": setup.rpc_port,
        "rest.port": setup.rest_port,
        "web.tmpdir": folder / "web",
        "io.tmp.dirs": folder / "tmp",
        "restart-strategy.fixed-delay.delay": f"{RESTART_S:g} s",
        "execution.checkpointing.interval": f"{CHECKPOINT_S:g} s",
    }
    return "".join(f"{key}: {value}\n" for key, value in {**given, **own, **setup.settings}.items())


@dataclass(frozen=True, slots=True)
class Cluster:
    """Running Flink cluster. url: of its REST API. jar: id of the uploaded job. jars, folder: as of `managing`."""

    url: str
    jar: str
    setup: Setup
    jars: Path
    folder: Path

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
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as error:
        raise BadInput(f"{method} {url}: {error.read().decode(errors='replace')[:400]}") from None


@contextlib.contextmanager
def managing(jars: Path, job_jar: Path, folder: Path, setup: Setup) -> Iterator[Cluster]:
    """Runs a job manager for the length of a block. folder: for its configuration, logs and temporary files."""
    for each in ("conf", "web", "tmp"):
        (folder / each).mkdir(parents=True, exist_ok=True)
    (folder / "conf" / "config.yaml").write_text(settings(setup, folder), encoding="utf-8")
    url = f"http://127.0.0.1:{setup.rest_port}"
    with contextlib.suppress(OSError):
        asked(f"{url}/overview")
        raise BadInput(f"a Flink answers at {url} already; end it, as two measurements disturb each other")
    with _process("jobmanager", JOB_MANAGER, setup.heap[0], jars, folder):
        patiently(lambda: _slots(url) is not None, f"no job manager at {url}")
        yield Cluster(url, _uploaded(url, job_jar), setup, jars, folder)


@contextlib.contextmanager
def working(cluster: Cluster, name: str = "taskmanager") -> Iterator[subprocess.Popen[bytes]]:
    """Runs a task manager for the length of a block, beside others that there may be, and waits until Flink has noticed
    its end. name: of its log. Yields its process."""
    before = _slots(cluster.url) or 0
    with _process(name, TASK_MANAGER, cluster.setup.heap[1], cluster.jars, cluster.folder) as process:
        patiently(lambda: (_slots(cluster.url) or 0) > before, f"no task manager at {cluster.url}")
        yield process
    patiently(lambda: (_slots(cluster.url) or 0) <= before, f"the task manager at {cluster.url} has not gone")


@contextlib.contextmanager
def running(jars: Path, job_jar: Path, folder: Path, setup: Setup) -> Iterator[Cluster]:
    """Runs a cluster with one task manager for the length of a block; as `managing`."""
    with managing(jars, job_jar, folder, setup) as cluster, working(cluster):
        yield cluster


@contextlib.contextmanager
def _process(name: str, entry: str, heap: str, jars: Path, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    opens = [f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in OPENS]
    command = [
        *NICE,
        "java",
        f"-Xms{heap}",
        f"-Xmx{heap}",
        "-XX:+UseSerialGC",
        "-XX:+AlwaysPreTouch",
        *opens,
        "-cp",
        f"{jars}/*",
        entry,
    ]
    with (folder / f"{name}.log").open("w") as log:
        process = subprocess.Popen([*command, "--configDir", str(folder / "conf")], stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()  # its files are temporary
            process.wait()


def _slots(url: str) -> int | None:
    """Number of slots; None as long as nobody answers."""
    with contextlib.suppress(BadInput, OSError):
        return int(asked(f"{url}/overview")["slots-total"])
    return None


def _uploaded(url: str, jar: Path) -> str:
    mark = uuid.uuid4().hex
    head = f'--{mark}\r\nContent-Disposition: form-data; name="jarfile"; filename="job.jar"\r\n'
    body = f"{head}Content-Type: application/x-java-archive\r\n\r\n".encode()
    body += jar.read_bytes() + f"\r\n--{mark}--\r\n".encode()
    answer = asked(f"{url}/jars/upload", "POST", body, f"multipart/form-data; boundary={mark}")
    return str(answer["filename"]).rpartition("/")[2]


# operating points ----------------------------------------------------------------------------------------------------
# A job is started in time, and kept as a folder that `twin import flink` reads.


AHEAD_S = (5.0, 10.0, 20.0)
"""Times from the submission to the first record; the next one is tried if the job did not run by then."""
ABOUT = "run.json"
"""File of a folder that describes the run."""


@contextlib.contextmanager
def kept(folder: Path, about: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Folder to write to, and a description of the run; the folder gets its name only if the run is not cut short."""
    about = {**about, "cores": os.cpu_count()}
    with new_folder(folder) as aside:
        yield aside, about
        about["load"] = os.getloadavg()[0]
        (aside / ABOUT).write_text(json.dumps(about), encoding="utf-8")


def started(
    cluster: Cluster, options: Callable[[float], Mapping[str, object]], about: dict[str, Any]
) -> tuple[str, float]:
    """Starts a job. options: of its main program, given the time of its first record. Returns its id and that time (s
    since 1970), which is after it runs; `about` gets it, too, and the time of the submission."""
    for ahead_s in AHEAD_S:
        begun_s = time.time()
        start_s = int(1000 * (begun_s + ahead_s)) / 1000
        job = cluster.submit(**options(start_s))
        cluster.wait(job, "RUNNING")
        about |= {"submitted_s": time.time() - begun_s, "start_s": start_s}
        if time.time() < start_s:
            return job, start_s
        cluster.cancel(job)
    raise BadInput(f"a job takes more than {AHEAD_S[-1]:.0f} s to start; the machine is too busy to measure anything")


def write(folder: Path, answers: Answers) -> None:
    """Writes the answers about a job as `from_folder` reads them."""
    for name, answer in answers.saved().items():
        (folder / name).write_text(json.dumps(answer), encoding="utf-8")
