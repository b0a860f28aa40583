"""`twin serve` without a browser: who gets in, and that the page's numbers are the commands'."""

from __future__ import annotations

import http.client
import json
import math
import os
import re
import shlex
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

from scenarios.files.scenario_file import dump, load
from streamtwin.questions.registry import QUESTIONS
from streamtwin.serve.inquiry import SET, Alteration, Inquiry, Store
from streamtwin.serve.server import HEADERS_S
from streamtwin.serve.work import readable
from tests.commands import twin
from tests.streamtwin.serving import JOB, Served
from twin.errors import BadInput

EVIL = "<img src=x onerror=alert(1)>"


JOBS = {"evil": EVIL, **{f"job-{number}": f"job-{number}" for number in range(10)}}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Server of a folder with the job, ten short ones, and one whose texts are markup."""
    folder, job = tmp_path_factory.mktemp("serve"), load(JOB)
    (folder / f"{JOB}.yaml").write_text(dump(job))
    for file, name in JOBS.items():
        short = job.model_copy(update={"name": name, "description": f"{name} is shown"}).with_run(horizon_s=20)
        (folder / f"{file}.yaml").write_text(dump(short))
    with Served(folder, str(folder)) as found:
        yield found


# who gets in ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"Cookie": ""}, 403),
        ({"Cookie": "twin-{port}=wrong"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Host": "localhost:{port}"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({}, 200),
    ],
)
def test_only_a_page_of_this_server_with_its_token_gets_in(served: Served, sent: dict[str, str], status: int) -> None:
    headers = {name: value.format(port=served.port) for name, value in sent.items()}
    found, _, answered = served.send(f"/job/{JOB}", **headers)
    assert found == status
    assert "default-src 'self'" in answered["content-security-policy"]
    assert "unsafe-inline" not in answered["content-security-policy"].replace("style-src-attr 'unsafe-inline'", "")


def test_the_token_in_the_address_becomes_a_cookie_that_no_script_and_no_other_site_has(served: Served) -> None:
    status, _, headers = served.send(f"/job/{JOB}?token={served.token}", Cookie="")
    parts = (f"twin-{served.port}={served.token}", "HttpOnly", "SameSite=Strict")
    assert status == 200 and all(each in headers["set-cookie"] for each in parts)
    assert served.send(f"/job/{JOB}?token=wrong", Cookie="")[0] == 403


@pytest.mark.parametrize(("name", "other"), [("localhost", "127.0.0.1"), ("127.0.0.1", "localhost")])
def test_a_page_of_the_other_name_is_told_what_to_do(served: Served, name: str, other: str) -> None:
    """A browser keeps the cookies of the two names of this machine apart."""
    origin = {"Host": f"{name}:{served.port}", "Origin": f"http://{name}:{served.port}"}
    for method, path in (("GET", f"/job/{JOB}"), ("POST", f"/job/{JOB}/act")):
        status, told, _ = served.send(path, method, '{"act": "stop"}', Cookie="", **origin)
        assert status == 403 and "the whole address that twin serve printed" in told and told.count("\n") == 1
        assert f"{other}:{served.port}" in told
        given = f"twin-{served.port}={served.token}"
        assert served.send(path, method, '{"act": "stop"}', Cookie=given, **origin)[0] == 200
    assert "address that twin serve printed" in served.send(f"/job/{JOB}/act", "POST", "{}", Origin="http://x")[1]


def test_an_act_needs_the_right_origin(served: Served) -> None:
    for origin, status in (("", 403), ("http://evil.example", 403), (f"http://{served.host}", 200)):
        assert served.send(f"/job/{JOB}/act", "POST", '{"act": "stop"}', Origin=origin)[0] == status


@pytest.mark.parametrize(
    "path",
    ["/job/../../etc/passwd", "/job/%2e%2e%2fetc%2fpasswd", "/static/../app.py", "/static/%2e%2e%2fapp.py",
     "/job/smart-grid", "/static/page.html", f"/job/{JOB}/moment/-1", f"/job/{JOB}/moment/0?of=another", "/etc/passwd"],
)  # fmt: skip
def test_nothing_else_is_served(served: Served, path: str) -> None:
    assert served.send(path)[0] in (404, 409)


def test_large_and_senseless_requests_are_refused(served: Served) -> None:
    assert served.send(f"/job/{JOB}/act", "POST", "x" * 1_000_001)[0] == 413
    for body in ("", "[]", "[" * 200_000, "{", '{"act": 1}', "\0", '{"act": "fly"}', '{"act": "undo", "at": "x"}'):
        status, found, _ = served.send(f"/job/{JOB}/act", "POST", body)
        assert status in (400, 422), body
        assert "internal" not in found


@pytest.mark.parametrize(
    "asked",
    [
        {"act": "set", "text": "workload.arrivals.sensors={law: replay, path: /etc/passwd}"},
        {"act": "set", "text": "run.horizon=60"},
        {"act": "set", "text": "x" * 200_000},
        {"act": "knob", "control": "no such", "value": "1"},
        {"act": "knob", "control": "load", "value": "-1"},
        {"act": "knob", "control": "load", "value": EVIL},
        {"act": "knob", "control": "subtasks hot", "value": "1e12"},
        {"act": "event", "kind": "scale", "operator": "hot", "at_s": "10", "parallelism": "1000000000000"},
        {"act": "event", "kind": "scale", "operator": "hot", "at_s": "10", "parallelism": "9" * 5000},
        {"act": "event", "kind": "failure", "host": "moon", "at_s": "10"},
        {"act": "event", "kind": "earthquake"},
        {"act": "move", "operators": "sensors", "end": "moon"},
        {"act": "undo", "at": "77"},
        {"act": "cancel", "at": "77"},
        {"act": "accept"},
        {"act": "against", "value": "moon"},
        {"act": "ask", "question": "rm"},
        {"act": "ask", "question": "optimize", "optimizer": "evil.py:Evil"},
        {"act": "save", "file": "../mine.yaml"},
        {"act": "save", "file": "/tmp/mine.yaml"},
        {"act": "save", "file": "mine.sh"},
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_in_a_line_and_changes_nothing(served: Served, asked: dict[str, str]) -> None:
    before = served.view()["version"]
    status, found = served.act(**asked)
    assert status == 422 and found["wrong"] and "\n" not in found["wrong"]
    assert "internal" not in found["wrong"]
    assert served.view()["version"] == before


def test_a_pipe_is_refused_and_nothing_waits_for_it(served: Served) -> None:
    pipe = served.state.parent / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/zero", "/etc/passwd", served.state / "token"):
        for text in (
            f"workload.arrivals.sensors={{law: replay, path: {path}}}",
            f'workload={{"arrivals": {{sensors: {{law: "replay", "path": "{path}"}}}}}}',
        ):
            status, found = served.act(act="set", text=text)
            assert status == 422 and "may not name a file" in found["wrong"], text


def test_rude_clients_get_a_line_and_no_traceback_is_printed(served: Served) -> None:
    assert served.send(f"/job/{JOB}/moment/{'9' * 5000}?of=another")[0] in (404, 409)
    for text in ("run.warmup_s=" + "[" * 49_000, "run.warmup_s=&a [*a]", "description=\ud800"):
        status, found, _ = served.send(f"/job/{JOB}/act", "POST", json.dumps({"act": "set", "text": text}))
        assert status in (400, 422) and "internal" not in found
    head = f"POST /job/{JOB}/act HTTP/1.1\r\nHost: {served.host}\r\nOrigin: http://{served.host}\r\n"
    head += f"Cookie: twin-{served.port}={served.token}\r\n"
    for body in ("Content-Length: 900\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\nff\r\n{"):
        with socket.create_connection(("127.0.0.1", served.port)) as cut:
            cut.sendall((head + body).encode())
    with socket.create_connection(("127.0.0.1", served.port)) as long:
        chunk = f"{1_100_000:x}\r\n{'x' * 1_100_000}\r\n0\r\n\r\n"
        long.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n{chunk}".encode())
        assert long.recv(100).startswith(b"HTTP/1.1 413 ")
    assert served.act(act="stop")[0] == 200
    assert served.process.stderr is not None
    os.set_blocking(served.process.stderr.fileno(), False)
    assert "Traceback" not in (served.process.stderr.read() or "")


def test_a_folder_belongs_to_one_server(served: Served) -> None:
    done = twin("serve", served.state.parent, "--state", served.state)
    said = f"another server uses {served.state}; go to its page, or name another folder with --state"
    assert (done.returncode, done.stderr) == (2, f"twin: {said}\n")


STATES = {
    "another number in an answer": lambda text: text.replace("5.0", "50.0"),
    "another comparison": lambda text: json.dumps(json.loads(text) | {"against": "x"}),
    "no such version": lambda text: _unsigned(text, version=math.inf),
    "a change that is none": lambda text: _unsigned(text, changes=[[1, 2]]),
    "another option": lambda text: _unsigned(text, changes=[["--out", "/tmp/x", "", ""]]),
    "an answer without keys": lambda text: _unsigned(text, answer={"question": "dry-run"}),
    "an answer of another form": lambda text: _unsigned(text, answer=json.loads(text)["answer"] | {"document": "{}"}),
    "brackets": lambda _text: "[" * 100_000,
    "cut": lambda text: text[: len(text) // 2],
    "nothing": lambda _text: "",
}


def _unsigned(text: str, **changed: Any) -> str:
    """State as an older version wrote it, without a checksum."""
    body = json.loads(text)
    del body["sha256"]
    return json.dumps(body | changed)


@pytest.mark.parametrize("kind", STATES)
def test_a_damaged_state_is_refused_in_a_line(kind: str, tmp_path: Path) -> None:
    answer = {
        "question": "dry-run", "command": "twin dry-run x", "of": "", "plan": "", "took_s": 5.0, "refused": "no",
        "document": "", "interrupted": False,
    }  # fmt: skip
    store = Store(tmp_path, {JOB: JOB}, readable)
    store.put(JOB, Inquiry(JOB, (Alteration(SET, "run.seed=3"),), answer=answer))
    (file,) = tmp_path.glob("*.json")
    whole = file.read_text()
    file.write_text(_unsigned(whole))
    assert Store(tmp_path, {JOB: JOB}, readable).get(JOB) == store.get(JOB)
    file.write_text(STATES[kind](whole))
    with pytest.raises(BadInput, match=re.escape(f"{file} does not hold what a page has kept; remove it")):
        Store(tmp_path, {JOB: JOB}, readable).get(JOB)


# the numbers ---------------------------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_the_commands_and_survive_a_reload(served: Served) -> None:
    """After a rate, subtasks, an event and a move, the page's commands, run as in a shell, give its numbers."""
    for asked in (
        {"act": "knob", "control": "rate sensors", "value": "1.2k"},
        {"act": "event", "kind": "slow-down", "host": "edge-1", "at_s": "30", "factor": "2"},
        {"act": "move", "operators": "hot", "end": "cloud-1"},
    ):
        assert served.act(**asked)[0] == 200, asked
    view = served.settled()
    regions = view["regions"]
    run, compare = (json.loads(twin(*words, "--json").stdout) for words in _commands(regions["changes"]))
    shown = served.document("run.json")
    for document in (run, shown):
        document.pop("cpu_s")
    assert shown == run
    compared = served.document("compared.json")
    for mine, theirs in zip(compared["variants"], compare["variants"], strict=True):
        assert mine["metrics"] == theirs["metrics"]
    assert "runs took" in regions["answer"] and view["version"] >= 3
    page = served.send(f"/job/{JOB}")[1]
    assert regions["changes"] in page and regions["answer"] in page


def _commands(changes: str) -> Iterator[list[str]]:
    for words in re.findall(r'data-copy="([^"]*)"', changes):
        yield shlex.split(unescape(words))[1:]


def test_each_moment_of_a_replay_is_a_picture(served: Served) -> None:
    replay = json.loads(served.settled()["regions"]["film"])
    count = len(replay["ends_s"])
    moments = [served.send(f"/job/{JOB}/moment/{number}?of={replay['of']}") for number in (0, count - 1, count)]
    assert count > 50 and [status for status, *_ in moments] == [200, 200, 404]
    assert all(json.loads(body)["picture"].startswith("<svg") for _, body, _ in moments[:2])


@pytest.mark.slow  # a proof takes dozens of runs
def test_capacity_is_the_commands_and_can_be_stopped(served: Served) -> None:
    while served.act(act="undo")[0] == 200:
        pass
    assert served.act(act="ask", question="capacity", **{"find-max": "load", "while": "not backpressured"})[0] == 200
    assert served.act(act="ask", question="capacity")[0] == 422
    view = served.settled()
    job = served.state.parent / f"{JOB}.yaml"
    told = json.loads(twin("capacity", job, "--find-max=load", "--while=not backpressured", "--json").stdout)
    (kept,) = (json.loads(file.read_text()) for file in served.state.glob(f"{JOB}-*.json"))
    assert json.loads(kept["answer"]["document"]) == told
    assert escape(QUESTIONS["capacity"].presented(json.dumps(told)).sentences[0]) in view["regions"]["work"]
    assert served.act(act="dismiss")[0] == 200
    assert served.act(act="ask", question="compare-policies", policies="none,ds2")[0] == 200
    assert served.act(act="stop")[0] == 200
    assert served.settled()["regions"]["work"]


# many at once --------------------------------------------------------------------------------------------------------


def test_ten_pages_and_a_hundred_requests_a_second_get_their_own_answers(served: Served) -> None:
    """Ten pages that ask for their jobs again and again, while all rates change, get their own answers."""
    before = time.monotonic()

    def page(number: int) -> set[int]:
        job, statuses = f"job-{number}", set()
        for step in range(10):
            if step % 5 == 0:
                value = str(100 * (number + 1) + step)
                statuses.add(served.act(job, act="knob", control="rate sensors", value=value, stroke="one")[0])
            status, body, _ = served.send(f"/job/{job}/view")
            statuses.add(status)
            assert f"rate_per_s={100 * (number + 1)}"[:-2] in json.loads(body)["regions"]["changes"]
        return statuses

    with ThreadPoolExecutor(10) as pages:
        assert set().union(*pages.map(page, range(10))) == {200}
    assert time.monotonic() - before < 60
    for number in range(10):
        rate = served.document("run.json", f"job-{number}")["operators"]["sensors"]["rate_in_per_s"]
        assert rate == pytest.approx(100 * (number + 1) + 5, rel=0.1)


def test_a_scenario_is_never_markup(served: Served) -> None:
    assert served.act("evil", act="set", text=f"description={json.dumps(EVIL)}")[0] == 200
    page = served.send("/job/evil")[1] + json.dumps(served.settled("evil")["regions"])
    assert EVIL not in page and EVIL.replace('"', '\\"') not in page
    assert escape(EVIL, quote=False) in page
    assert served.act("evil", act="save", file="mine.yaml")[0] == 200
    assert load(str(served.state.parent / "mine.yaml")).description == EVIL
    status, told = served.act("evil", act="save", file="mine.yaml")
    assert status == 422 and told["wrong"].endswith("mine.yaml exists; remove it or give another name")


def test_what_is_far_too_large_is_said_and_can_be_turned_back(served: Served) -> None:
    """A run that takes too long is refused after a moment, and the slider that asked for it can be turned back."""
    assert served.act(act="knob", control="horizon_s", value="10000000")[0] == 200
    found = served.settled()["regions"]
    assert "does not run" in found["answer"] and "run it by itself" in found["answer"] and "undo" in found["changes"]
    assert served.act(act="knob", control="horizon_s", value="60")[0] == 200
    assert "does not run" not in served.settled()["regions"]["answer"]


# the end -------------------------------------------------------------------------------------------------------------


def test_ctrl_c_ends_all_but_the_changes(tmp_path: Path) -> None:
    """Ctrl-C ends a server and keeps its changes, though a shell in the background made it ignore Ctrl-C at first."""
    served = Served(tmp_path, JOB, "--state", "kept", heeds=signal.SIG_IGN)
    assert served.act(act="set", text="run.seed=3")[0] == 200
    assert served.act(act="ask", question="capacity", **{"find-max": "load"})[0] == 200
    listening = http.client.HTTPConnection("127.0.0.1", served.port)
    listening.request("GET", "/events", headers={"Host": served.host, "Cookie": f"twin-{served.port}={served.token}"})
    assert listening.getresponse().status == 200
    children = _children(served.process.pid)
    served.process.send_signal(signal.SIGINT)
    _, errors = served.process.communicate(timeout=20)
    assert served.process.returncode == 130, errors
    assert errors.splitlines()[-1] == "twin: interrupted; the same command goes on, the changes in kept are kept"
    assert "Traceback" not in errors
    ends_s = time.monotonic() + 30
    while alive := [each for each in children if Path(f"/proc/{each}").exists()]:
        assert time.monotonic() < ends_s, alive
        time.sleep(0.05)
    assert Store(served.state, {JOB: JOB}).get(JOB).changes == (Alteration(SET, "run.seed=3"),)


def test_what_a_killed_server_has_begun_ends_with_it(tmp_path: Path) -> None:
    served = Served(tmp_path, JOB)
    assert served.act(act="ask", question="capacity", **{"find-max": "load"})[0] == 200
    ends_s = time.monotonic() + 20
    while not any(b"capacity" in Path(f"/proc/{each}/cmdline").read_bytes() for each in _children(served.process.pid)):
        assert time.monotonic() < ends_s
        time.sleep(0.05)
    time.sleep(1.0)  # it starts processes of its own
    children = _children(served.process.pid)
    served.process.kill()
    served.process.communicate()
    while alive := [each for each in children if _alive(each)]:
        assert time.monotonic() < ends_s + 20, alive
        time.sleep(0.05)


def _alive(process: str) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False


@pytest.mark.slow  # it waits for the limit
def test_who_does_not_say_what_is_wanted_is_not_waited_for(tmp_path: Path) -> None:
    with Served(tmp_path, JOB) as served:
        silent = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(50)]
        began_s = time.monotonic()
        silent[0].sendall(b"GET / HTTP/1.1\r\n")
        while time.monotonic() < began_s + HEADERS_S - 2:  # a piece of a header now and then does not help
            silent[0].sendall(b"X-Drip: drip\r\n")
            time.sleep(1)
        for each in silent:
            each.settimeout(HEADERS_S)
            assert each.recv(100) == b""
        assert time.monotonic() - began_s < 1.5 * HEADERS_S
        assert served.send(f"/job/{JOB}")[0] == 200


def _children(of: int) -> list[str]:
    """Process ids of all descendants of a process."""
    listed = [child for file in Path(f"/proc/{of}/task").glob("*/children") for child in file.read_text().split()]
    return [*listed, *(each for child in listed for each in _children(int(child)))]
