"""`twin import flink`: answers, servers and names that are refused, in one line each."""

from __future__ import annotations

import base64
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from streamtwin.connect.importers import flink_answers as forms
from streamtwin.connect.importers import flink_live
from streamtwin.connect.importers.flink_answers import from_folder
from streamtwin.connect.importers.flink_job import read_job
from streamtwin.connect.importers.flink_live import from_endpoint
from streamtwin.connect.importers.flink_scenario import scenario_of
from tests.commands import refused
from tests.streamtwin.importers.flink_cluster import Cluster, job_at, managers, serving
from tests.streamtwin.importers.test_flink import described, imported, live, save, with_metrics, with_vertex
from twin.errors import BadInput
from twin.scenario import Scenario
from twin.spec import parse


def with_hardware(**changed: Any) -> dict[str, Any]:
    """Answer of GET /taskmanagers with other hardware of the last task manager."""
    answer = managers()
    answer["taskmanagers"][-1]["hardware"] |= changed
    return answer


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("job_jobs_id.json", job_at(100.0, "RESTARTING"), "the job is RESTARTING"),
        ("job_jobs_id.json", with_vertex(2, status="INITIALIZING"), "window is INITIALIZING"),
        ("job_jobs_id.json", {"errors": ["Not found"]}, "is no such answer of Flink: vertices: Field required"),
        ("job_jobs_id.json", with_vertex(id="other"), "no node of vertex 'Source: gen'"),
        ("job_jobs_id.json", with_metrics(0, write_records=0), "has delivered nothing"),
        ("job_jobs_id.json", "<html>", "is no answer of Flink's REST API"),
        ("job_jobs_id_plan.json", {"nodes": 3}, "is no such answer of Flink: plan.nodes: Input should be a valid list"),
        ("taskmanagers.json", {"taskmanagers": []}, "there is no task manager"),
        ("job_v0_detail.json", {"subtasks": [{"taskmanager-id": "x"}]}, "task manager 'x', which is not listed"),
        ("job_jobs_id_first.json", job_at(200.0), "the job was restarted"),
        ("jobmanager_config.json", [{"key": "execution.buffer-timeout", "value": "soon"}], "one such as '10 s'"),
        ("other_jobs_id.json", job_at(10.0), "choose one with --job"),
        ("job_jobs_id.json", with_vertex(parallelism="two"), "no such answer of Flink: vertices.0.parallelism"),
        ("job_jobs_id.json", with_vertex(metrics={"write-records": -5}), "write-records is -5"),
        ("job_jobs_id.json", with_vertex(metrics={}), "Source: gen has no metrics"),
        (
            "job_jobs_id.json",
            with_vertex(metrics={"write-records": 5, "write-records-complete": False}),
            "write-records is of some of its subtasks only",
        ),
        ("taskmanagers.json", None, "taskmanagers.json is missing"),
        ("job_jobs_id.json", with_vertex(parallelism=10**9), "vertices.0.parallelism: Input should be less than"),
        ("job_jobs_id.json", "[" * 200_000, "is no answer of Flink's REST API"),
        ("jobmanager_config.json", {"a": 1}, "jobmanager_config.json is no such answer of Flink: it: Input should be"),
        ("taskmanagers.json", {"taskmanagers": [None]}, "no such answer of Flink: taskmanagers.0"),
        ("job_v0_detail.json", {"subtasks": 3}, "no such answer of Flink: subtasks"),
        ("taskmanagers.json", {"errors": ["Service temporarily unavailable"]}, "taskmanagers: Field required"),
        *(
            ("taskmanagers.json", with_hardware(**{key: value}), f"{says} {key}")
            for key in ("cpuCores", "physicalMemory")
            for value, says in (
                (-4, "says"),
                (0, "says"),
                (1e300, "says"),
                (True, "says"),
                ("many", "says"),
                (None, "not say its"),
            )
        ),
        ("job_taskmanager_0_metrics.json", {"errors": []}, "job_taskmanager_0_metrics.json is no such answer"),
        ("job_v1_threads.json", {"asleep": -1}, "job_v1_threads.json is no such answer of Flink: asleep"),
        ("job_v1_subtasks_metrics.json", [{"avg": 1}], "job_v1_subtasks_metrics.json is no such answer"),
    ],
)
def test_jobs_that_mean_nothing_and_answers_of_another_shape_are_refused(
    file: str, content: Any, words: str, tmp_path: Path
) -> None:
    saved, out = save(tmp_path / "answers", **{file: content}), tmp_path / "job.yaml"
    assert words in refused("import", "flink", saved, "--out", out)
    assert not out.exists()


def test_places_that_are_no_flink_are_refused(tmp_path: Path) -> None:
    assert "neither an address" in refused("import", "flink", tmp_path / "nothing")
    assert "holds no answer of a job" in refused("import", "flink", tmp_path)
    assert "gives no answer" in refused("import", "flink", "http://127.0.0.1:9")
    saved = save(tmp_path / "answers")
    assert "has no job 'jbo'" in refused("import", "flink", saved, "--job", "jbo")
    assert "SOURCE=RATE" in refused("import", "flink", saved, "--offered", "gen")
    with serving(Cluster()) as url:
        assert "has no job 'clikcs'; did you mean 'clicks'?" in refused("import", "flink", url, "--job", "clikcs")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"[]", "is no such answer of Flink: it: Input should be"),
        (b"null", "is no such answer of Flink"),
        (b'{"jobs": [{"name": "a", "state": "RUNNING"}]}', "jobs.0.jid: Field required"),
        (b"[" * 200_000, "gives no answer of Flink's REST API"),
        (b" " * 2**21, "it has more than 1 MiB"),
        (b"\xff\xfe\x00", "gives no answer of Flink's REST API"),
        (None, "the connection was cut after 0 bytes; give the same command again"),
    ],
)
def test_a_server_that_is_no_flink_ends_in_one_line(
    body: bytes | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is no Flink is refused in one line. None: it promises a body, and cuts the connection."""
    monkeypatch.setattr(flink_live, "MOST_BYTES", 2**20)
    with serving(Cluster(), lambda _: (200, body)) as url:
        assert words in refused("import", "flink", url)


def test_an_answer_that_never_ends_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flink_live, "PATIENCE_S", 0.3)
    with serving(Cluster(), lambda _: (200, b" "), drips=True) as url:
        assert "it takes more than 0.3 s" in refused("import", "flink", url)


@contextmanager
def saying(lines: Iterator[bytes]) -> Iterator[str]:
    """Server that says these lines to whoever connects, a tenth of a second apart, whatever is asked."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError), server.accept()[0] as client:
                for line in lines:
                    client.sendall(line)
                    time.sleep(0.1)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_headers_that_never_end_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flink_live, "PATIENCE_S", 0.5)
    drips = (b"X-Drip: %d\r\n" % number for number in range(90))
    began_s = time.monotonic()
    with saying(chain([b"HTTP/1.1 200 OK\r\n"], drips)) as url:
        assert "it takes more than 0.5 s" in refused("import", "flink", url)
    assert time.monotonic() - began_s < 8.0  # all drips would take nine


@pytest.mark.parametrize("to", ["ftp://127.0.0.1/x", "http://127.0.0.2:1/jobs/overview", "https://127.0.0.1/"])
def test_a_redirect_to_another_server_is_refused(to: str) -> None:
    answer = f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()
    with saying(iter([answer])) as url:
        assert f"it leads to {to}; name that address if it is the right one" in refused("import", "flink", url)


def test_credentials_follow_a_redirect_within_the_server() -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = 302 if not self.path.endswith("/") else 200 if self.headers["Authorization"] else 401
            self.send_response(status)
            if status == 302:
                self.send_header("Location", f"{self.path}/")
            self.end_headers()
            self.wfile.write(b'{"taskmanagers": []}' if status == 200 else b"")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = flink_live.Endpoint.of(f"http://ann:s3cret@127.0.0.1:{server.server_port}")
        assert endpoint.ask("taskmanagers", forms.ManagersAnswer).taskmanagers == []
        server.shutdown()


def test_credentials_are_asked_for_sent_and_never_shown(tmp_path: Path) -> None:
    cluster = Cluster()

    def guarded(header: str | None) -> tuple[int, bytes] | None:
        known = base64.b64encode(b"ann:s3cr/t").decode()
        return None if header == f"Basic {known}" else (401, b"")

    with serving(cluster, guarded) as url:
        host = url.removeprefix("http://")
        assert f"{url}/jobs/overview refuses questions without credentials (401 Unauthorized)" in refused(
            "import", "flink", url
        )
        for address in (f"http://ann:wrong@{host}", f"HTTP://ann:wrong@{host}/"):
            words = refused("import", "flink", address)
            assert "refuses these credentials (401" in words and "wrong" not in words and "ann" not in words
        answers = from_endpoint(f"http://ann:s3cr%2Ft@{host}", window_s=3.0, sleep=lambda _: None)
    assert answers.where == f"{url}, job j1" and "s3cr" not in repr(scenario_of(read_job(answers), {}))
    for typo in ("htp://ann:s3cret@host", "http://ann:s3cret@[host", "http://ann:s3cret@h:port"):
        assert "s3cret" not in refused("import", "flink", typo, "--out", tmp_path / "x.yaml")


def test_names_cannot_steer_a_terminal(tmp_path: Path) -> None:
    found = imported(tmp_path / "a", job=with_vertex(name="gen\x1b[2J\n\u202e"))
    assert found.scenario.query.operators[0].name == "gen2J"
    saved = save(tmp_path / "b", **{"job_jobs_id.json": with_vertex(name="a\x1b[2Jb", status="LOST\n\x07")})
    assert "a\ufffd[2Jb is LOST\ufffd\ufffd; import the job" in refused("import", "flink", saved)


ODD: tuple[Any, ...] = (None, [], {}, "", "x", -1, 0, 1e308, 10**400, True, float("nan"), [[]], {"id": None})


def mutated(answer: Any, rng: random.Random) -> Any:
    """Answer of which one value somewhere is another one, or gone."""
    if isinstance(answer, dict | list) and answer and rng.random() < 0.85:
        key = rng.choice(list(answer) if isinstance(answer, dict) else range(len(answer)))
        changed = answer.copy()
        if rng.random() < 0.15:
            del changed[key]
        else:
            changed[key] = mutated(answer[key], rng)
        return changed
    return rng.choice(ODD)


def test_mutated_answers_are_imported_or_refused_in_one_line(tmp_path: Path) -> None:
    recorded = live().saved()
    ends = Counter[str]()
    for seed in range(200):
        rng = random.Random(seed)
        file = rng.choice(list(recorded))
        answers = recorded | {file: mutated(recorded[file], rng)}
        try:
            scenario = imported(tmp_path / str(seed), **answers).scenario
            assert parse(Scenario, scenario.model_dump(mode="json")) == scenario
            ends["imported"] += 1
        except BadInput as error:
            ends["refused" if "\n" not in str(error) else "refused in several lines"] += 1
    assert set(ends) == {"imported", "refused"} and min(ends.values()) > 20, ends


def test_answers_are_kept_though_the_job_in_them_is_refused(tmp_path: Path) -> None:
    saved = save(tmp_path / "answers", **{"job_jobs_id.json": with_metrics(0, write_records=0)})
    kept = tmp_path / "kept"
    assert "has delivered nothing" in refused("import", "flink", saved, "--save", kept, "--out", tmp_path / "job.yaml")
    assert from_folder(kept).saved() == from_folder(saved).saved()


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        *(("1 d", 86400.0), ("2 h", 7200.0), ("10 min", 600.0), ("10 s", 10.0), ("500 ms", 0.5), ("250 µs", 250e-6)),
        *(("1 h 30 min", 5400.0), ("3 days", 259200.0), ("01:30:05", 5405.0), ("PT1M30S", 90.0), ("P1D", 86400.0)),
    ],
)
def test_all_units_of_time_that_flink_writes_are_read(written: str, seconds: float, tmp_path: Path) -> None:
    text = f"WindowAggregate(groupBy=[a], window=[TUMBLE(time_col=[t], size=[{written}])])<br/>"
    window = described(tmp_path, 2, text, hashed=True).scenario.query.operator("window").window
    assert window.size_s == pytest.approx(seconds)


@pytest.mark.parametrize(("written", "named"), [("10 fortnights", "'fortnights'"), ("soon", "'soon'"), ("5", "''")])
def test_units_of_time_that_nobody_knows_are_refused(written: str, named: str, tmp_path: Path) -> None:
    text = f"WindowAggregate(groupBy=[a], window=[TUMBLE(time_col=[t], size=[{written}])])<br/>"
    with pytest.raises(BadInput, match=named):
        described(tmp_path, 2, text, hashed=True)
