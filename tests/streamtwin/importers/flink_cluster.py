"""Fake Flink: a clock, counters that follow from rates, and answers of the REST API's shape."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

VERTICES = (
    # name, description, parallelism, records/s in and out, share of time busy and backpressured, inputs
    ("Source: gen", "Source: gen<br/>", 1, 0.0, 1000.0, 0.01, 0.0, ()),
    ("parse -> clean", "parse<br/>+- clean<br/>", 2, 1000.0, 900.0, 0.3, 0.0, ((0, "REBALANCE"),)),
    ("window", "Window(TumblingProcessingTimeWindows(2000), Sum)<br/>", 2, 900.0, 25.0, 0.05, 0.0, ((1, "HASH"),)),
    ("sink: Writer", "sink: Writer<br/>", 1, 25.0, 0.0, 0.001, 0.0, ((2, "REBALANCE"),)),
)
BYTES = 50.0
MANAGERS = ("10.0.0.1:1-a", "10.0.0.2:1-b")


def job_at(second: float, state: str = "RUNNING") -> dict[str, Any]:
    """Answer of GET /jobs/:id after so many seconds."""
    vertices = []
    for number, (name, _, parallelism, in_per_s, out_per_s, busy, behind, _) in enumerate(VERTICES):
        lived_ms = 1000.0 * second * parallelism
        metrics = {
            "read-records": round(in_per_s * second),
            "write-records": round(out_per_s * second),
            "read-bytes": round(BYTES * in_per_s * second),
            "write-bytes": round(BYTES * out_per_s * second),
            "accumulated-busy-time": busy * lived_ms,
            "accumulated-backpressured-time": behind * lived_ms,
            "accumulated-idle-time": (1.0 - busy - behind) * lived_ms,
        }
        about = {"id": f"v{number}", "name": name, "parallelism": parallelism, "maxParallelism": 128}
        vertices.append({**about, "status": "RUNNING", "duration": round(1000 * second), "metrics": metrics})
    return {"jid": "j1", "name": "clicks", "state": state, "now": round(1000 * second), "vertices": vertices}


def plan() -> dict[str, Any]:
    """Answer of GET /jobs/:id/plan: last vertex first, as Flink lists them."""
    nodes = []
    for number, (_, description, parallelism, *_, inputs) in enumerate(VERTICES):
        sources = [{"id": f"v{producer}", "ship_strategy": how} for producer, how in inputs]
        node: dict[str, Any] = {"id": f"v{number}", "description": description, "parallelism": parallelism}
        nodes.insert(0, {**node, "inputs": sources} if sources else node)
    return {"plan": {"jid": "j1", "nodes": nodes}}


def detail(number: int) -> dict[str, Any]:
    """Answer of GET /jobs/:id/vertices/:vertexid."""
    return {"subtasks": [{"subtask": n, "taskmanager-id": MANAGERS[n % 2]} for n in range(VERTICES[number][2])]}


MARKERS = "0.latency.source_id.v0.operator_id.v1.operator_subtask_index.{}.latency_{}"


def markers() -> list[dict[str, Any]]:
    """Answer of GET /jobs/:id/vertices/v1/metrics?get=...: markers are 20 and 40 ms old there."""
    return [{"id": MARKERS.format(n, "mean"), "value": str(20.0 + 20.0 * n)} for n in (0, 1)]


def managers() -> dict[str, Any]:
    """Answer of GET /taskmanagers."""
    hardware = {"cpuCores": 4, "physicalMemory": 16_000_000_000}
    listed = [
        {
            "id": each,
            "path": f"pekko.tcp://flink@{each.partition(':')[0]}:37587/user/rpc/taskmanager_0",
            "hardware": hardware,
        }
        for each in MANAGERS
    ]
    return {"taskmanagers": listed}


CONFIG = [
    {"key": "taskmanager.memory.segment-size", "value": "16kb"},
    {"key": "taskmanager.network.memory.floating-buffers-per-gate", "value": "4"},
    {"key": "execution.buffer-timeout", "value": "50 ms"},
]


def written(folder: Path, files: Mapping[str, Any]) -> Path:
    """Folder of saved answers; texts are written as they are, and None is left out."""
    folder.mkdir(exist_ok=True)
    for name, answer in files.items():
        if answer is not None:
            (folder / name).write_text(answer if isinstance(answer, str) else json.dumps(answer))
    return folder


class Cluster:
    """Cluster whose clock moves by a second an answer. A job's metrics are those of the last time it was asked for, or
    older: new ones are gathered every gathered_s at most."""

    def __init__(self, gathered_s: float = 0.0) -> None:
        self.second = 60.0
        self.gathered_s = gathered_s
        self._snapshot = job_at(1.0)

    def answer(self, path: str) -> Any:
        """Answer of the REST API; None for an unknown path."""
        self.second += 1.0
        if path == "/jobs/j1":
            stale = self._snapshot
            if 1000 * self.second >= stale["now"] + 1000 * self.gathered_s:
                self._snapshot = job_at(self.second)
            lived = {"duration": round(1000 * self.second)}
            return stale | {"vertices": [each | lived for each in stale["vertices"]]}
        fixed = {
            "/jobs/overview": {"jobs": [{"jid": "j1", "name": "clicks", "state": "RUNNING"}]},
            "/jobs/j1/plan": plan(),
            "/taskmanagers": managers(),
            "/overview": {"flink-version": "2.3.0"},
            "/jobmanager/config": CONFIG,
            "/jobs/j1/checkpoints": {"latest": {"completed": {"state_size": 256_000}}},
            "/jobs/j1/vertices/v1/metrics": [{"id": each["id"]} for each in markers()] + [{"id": "0.numRecordsIn"}],
            f"/jobs/j1/vertices/v1/metrics?get={','.join(each['id'] for each in markers())}": markers(),
            **{f"/jobs/j1/vertices/v{number}": detail(number) for number in range(len(VERTICES))},
        }
        return fixed.get(path)


@contextmanager
def serving(
    cluster: Cluster,
    first: Callable[[str | None], tuple[int, bytes | None] | None] = lambda _: None,
    drips: bool = False,
) -> Iterator[str]:
    """Serves the cluster by HTTP, on this machine. first: replaces an answer, by the header of credentials: status and
    body, None for one that is promised and never sent. drips: that body comes again and again."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            instead = first(self.headers["Authorization"])
            found = cluster.answer(self.path) if instead is None else None
            status, body = instead or (404 if found is None else 200, json.dumps(found).encode())
            self.send_response(status)
            if body is None:
                self.send_header("Content-Length", "1000")
            self.end_headers()
            with suppress(BrokenPipeError, ConnectionResetError):  # the client may have left
                self.wfile.write(body or b"")
                for _ in range(100 if drips else 0):
                    time.sleep(0.02)
                    self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
