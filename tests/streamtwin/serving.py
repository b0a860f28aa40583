"""Server of `twin serve`, for tests and the benchmark of the page."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

from tests.commands import ROOT

JOB = "edge-filter"
Answered = tuple[int, str, dict[str, str]]


class Served:
    """Server in its own process, with the requests that pages would send to it."""

    def __init__(self, folder: Path, *arguments: str, heeds: Any = signal.default_int_handler) -> None:
        """Starts the server. heeds: its initial handler of Ctrl-C."""
        command = [sys.executable, "-m", "streamtwin.cli.app", "serve", *arguments, "--json", "--workers", "1"]
        self.process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, heeds),
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        told = json.loads(line)
        self.address, self.state = told["address"], folder / told["state"]
        match = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/(\S*)\?token=(\S+)", self.address)
        assert match
        self.port, self.token = int(match[1]), match[3]
        self.host = f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.process.kill()
        self.process.communicate()

    def send(self, path: str, method: str = "GET", body: str | None = None, **headers: str) -> Answered:
        """Status, body and headers of an answer. Requests have the token's Cookie by default, and a POST the right
        Origin."""
        sent = {"Host": self.host, "Cookie": f"twin-{self.port}={self.token}"}
        sent |= {"Origin": f"http://{self.host}"} if method == "POST" else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, {name: value for name, value in sent.items() if value})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), {k.lower(): v for k, v in answer.getheaders()}
        finally:
            connection.close()

    def act(self, job: str = JOB, **asked: str) -> tuple[int, dict[str, Any]]:
        status, body, _ = self.send(f"/job/{job}/act", "POST", json.dumps(asked))
        return status, json.loads(body)

    def view(self, job: str = JOB) -> dict[str, Any]:
        return dict(json.loads(self.send(f"/job/{job}/view")[1]))

    def settled(self, job: str = JOB) -> dict[str, Any]:
        """View when all runs are done."""
        ends_s = time.monotonic() + 60
        while True:
            found = self.view(job)
            if found["done"] == found["of"] and not found["working"]:
                return found
            assert time.monotonic() < ends_s, found
            time.sleep(0.05)

    def document(self, name: str, job: str = JOB) -> dict[str, Any]:
        """Document of a job, when it is there."""
        ends_s = time.monotonic() + 60
        while (found := self.send(f"/job/{job}/{name}"))[0] == 409:
            assert time.monotonic() < ends_s, found
            time.sleep(0.05)
        return dict(json.loads(found[1]))
