"""Boundary cases: what comes in from outside and may bring a process down. Nested texts, damaged machine code, acts and
states of the page, servers that answer slowly or wrongly."""

from __future__ import annotations

import atexit
import json
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, suppress
from functools import cache
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from benchmarks.fuzz.trying import (
    HANG,
    NOISE,
    RAN,
    REFUSED,
    TRACEBACK,
    UNNOTICED,
    WORDS,
    Outcome,
    any_value,
    changed_bytes,
    changed_data,
    changed_text,
    of_call,
    of_command,
)
from scenarios.files.registry import LIBRARY
from streamtwin.connect.importers import flink_live
from streamtwin.questions.registry import forms
from streamtwin.serve.inquiry import EVENT, SET, Alteration, Inquiry, Store
from streamtwin.serve.sessions import MAKE
from streamtwin.serve.work import readable
from tests.streamtwin.serving import JOB, Served
from twin.machine import object_code

NESTS: Mapping[str, Callable[[int], str]] = {
    "brackets": lambda depth: "[" * depth + "]" * depth,
    "open brackets": lambda depth: "[" * depth,
    "braces": lambda depth: "{a: " * depth + "1" + "}" * depth,
    "json": lambda depth: '{"a":' * depth + "1" + "}" * depth,
    "dashes": lambda depth: "- " * depth + "x",
    "keys": lambda depth: "? " * depth + "x",
    "indentation": lambda depth: "\n".join(" " * each + "a:" for each in range(min(depth, 1500))),
    "aliases": lambda depth: "\n".join(
        ["a0: &a0 x", *(f"a{each}: &a{each} [*a{each - 1}]" for each in range(1, min(depth, 5000)))]
    ),
    "itself": lambda depth: "&a " + "[" * min(depth, 90) + "*a" + "]" * min(depth, 90),
}
"""Texts that nest to a depth, by the way they do."""


def depth_case(random: Random, folder: Path) -> Outcome:
    """Nests a text some way to some depth, and puts it where texts come in."""
    text = NESTS[random.choice([*NESTS])](random.choice((50, 99, 101, 1000, 40_000)))
    file = folder / random.choice(("x.yaml", "x.json"))
    file.write_text(random.choice(("", "x: ", "query: ", "estimates: ")) + text)
    place = random.choice(("file", "profile", "points", "set", "event", "vary", "plan"))
    small = text[:100_000]
    words = {
        "file": ("run", file), "profile": ("use-profile", JOB, file), "points": ("calibrate", JOB, file),
        "set": ("run", JOB, "--set", f"run.warmup_s={small}"), "event": ("run", JOB, f"--event={small}"),
        "vary": ("whatif", JOB, "--vary", f"run.warmup_s={small}"), "plan": ("whatif", JOB, "--plan", file),
    }[place]  # fmt: skip
    return of_command(*map(str, words))


def cache_case(random: Random, folder: Path) -> Outcome:
    """Damages the machine code on disk: it is what was kept, or removed in a line."""
    code = {"symbol": random.randbytes(2000)}
    said, found = StringIO(), list[Any]()
    places = {"XDG_CACHE_HOME": str(folder / "home")}

    def read() -> None:
        with redirect_stderr(said):
            found.append(object_code.cached())

    with (
        patch.object(object_code, "__file__", str(folder / "object_code.py")),
        patch.object(tempfile, "tempdir", str(folder)), patch.dict("os.environ", places),
    ):  # fmt: skip
        path = object_code.keep(code)
        assert path is not None
        content = path.read_bytes()
        path.write_bytes(random.choice((changed_bytes(content, random), content[: random.randrange(len(content))])))
        same = path.read_bytes() == content
        outcome = of_call(read)
    if outcome.kind != RAN:
        return outcome
    if (found[0] == code) != same or (found[0] is None) != (not path.exists()):
        return Outcome(UNNOTICED, "damaged machine code is taken, or stays", outcome.cpu_s)
    lines = said.getvalue().splitlines()
    if len(lines) != (0 if same else 1):
        return Outcome(NOISE, said.getvalue(), outcome.cpu_s)
    return Outcome(RAN if same else REFUSED, "", outcome.cpu_s)


# the page ------------------------------------------------------------------------------------------------------------

ANSWER_S = 10.0
"""Longest time for an answer of the page."""


@cache
def _served() -> Served:
    folder = Path(tempfile.mkdtemp(prefix="streamtwin-fuzz-serve-"))
    shutil.copy(LIBRARY / f"{JOB}.yaml", folder)
    served = Served(folder, str(folder))

    def end() -> None:
        served.process.kill()
        served.process.communicate()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return served


def page_case(random: Random, folder: Path) -> Outcome:
    """Sends the page an act that makes no sense: it answers in a line, and goes on."""
    served, began_s = _served(), time.monotonic()
    body = json.dumps(_act(random, folder), ensure_ascii=random.random() < 0.9)
    if random.random() < 0.1:
        body = changed_text(body, random)
    path = f"/job/{JOB}/act"
    if random.random() < 0.1:
        path = f"/job/{JOB}/{random.choice(('moment/' + '9' * random.randrange(6000), 'act', 'figure.png'))}"
    try:
        status, said, _ = served.send(path, "POST", body.encode("utf-8", "surrogatepass").decode("latin-1"))
        served.send(f"/job/{JOB}/view")
    except OSError as error:
        return Outcome(HANG, f"{body[:200]}: {error}", 0.0)
    took_s = time.monotonic() - began_s
    if status >= 500 or "internal" in said or "Traceback" in said:
        return Outcome(TRACEBACK, f"{status} {said[:200]} to {body[:200]}", 0.0)
    if took_s > ANSWER_S:
        return Outcome(HANG, f"{took_s:.1f} s for {body[:200]}", 0.0)
    return Outcome(RAN if status == 200 else REFUSED, "", 0.0)


def _act(random: Random, folder: Path) -> dict[str, Any]:
    words = (*WORDS, "1", "load", "hot", "edge-1", "10", "-1", "9" * 5000, "\ud800", str(folder / "x"), "/etc/passwd")
    kind = random.choice((*MAKE, "undo", "against", "dismiss", "stop", "save", "fly"))
    fields = "control value stroke kind at_s host factor operators start end at file subtasks operator question"
    asked: dict[str, Any] = {name: random.choice(words) for name in random.sample(fields.split(), random.randrange(8))}
    text = random.choice(
        (
            f"workload.arrivals.sensors={{law: replay, path: {random.choice(words)!r}}}",
            f"run.warmup_s={NESTS[random.choice([*NESTS])](random.choice((50, 101, 20_000)))[:90_000]}",
            f"{random.choice(('run.horizon_s', 'plan.placement.hot', 'name'))}={random.choice(words)}",
        )
    )
    asked = {"act": kind, "text": text, **asked, **({"question": "no"} if kind == "ask" else {})}
    return {name: any_value(random) if random.random() < 0.03 else value for name, value in asked.items()}


def state_case(random: Random, folder: Path) -> Outcome:
    """Damages what the page has kept: it is what was kept, or refused in a line."""
    question = random.choice([*forms()])
    answer = {
        "question": question, "command": f"twin {question} {JOB}", "of": "x", "plan": "", "took_s": 5.0,
        "refused": "no", "document": "", "interrupted": False,
    }  # fmt: skip
    changes = (Alteration(SET, "run.seed=3"), Alteration(EVENT, "kind: failure, at_s: 5, host: edge-1"))
    whole = Inquiry(JOB, changes, "given", 7, answer)
    store = Store(folder, {JOB: JOB}, readable)
    store.put(JOB, whole)
    (file,) = folder.glob("*.json")
    content = file.read_bytes()
    way = random.randrange(3)
    if way == 0:  # as an older version or a person writes it, without a checksum, and of another form
        body = {name: value for name, value in json.loads(content).items() if name != "sha256"}
        file.write_text(json.dumps(changed_data(body, random)), errors="surrogatepass")
    else:
        file.write_bytes(changed_bytes(content, random) if way == 1 else NESTS["json"](50_000).encode())
    found: list[Inquiry] = []
    outcome = of_call(lambda: found.append(Store(folder, {JOB: JOB}, readable).get(JOB)))
    if outcome.kind == RAN and way and found[0] != whole:
        return Outcome(UNNOTICED, f"{file.read_bytes()[:200]!r} is read as {found[0]}", outcome.cpu_s)
    return outcome


# servers -------------------------------------------------------------------------------------------------------------

PATIENCE_S = 0.3


def drip_case(random: Random, folder: Path) -> Outcome:
    """Imports from a server that drips, cuts, promises, redirects or nests: a line, soon."""
    began_s = time.monotonic()
    with patch.object(flink_live, "PATIENCE_S", PATIENCE_S), _saying(_hostile(random)) as url:
        outcome = of_command("import", "flink", url, "--out", str(folder / "x.yaml"))
    took_s = time.monotonic() - began_s
    return Outcome(HANG, f"{took_s:.1f} s", outcome.cpu_s) if took_s > 10 * PATIENCE_S + ANSWER_S else outcome


def _hostile(random: Random) -> list[tuple[bytes, float]]:
    """Pieces of an answer, each with the seconds before it."""
    length = random.choice(("", "Content-Length: 100\r\n", "Content-Length: -1\r\n", "Transfer-Encoding: chunked\r\n"))
    status = random.choice(("200 OK", "404 No", "302 Found", "500 \x1b[31mred", "999", "x"))
    head = f"HTTP/1.1 {status}\r\n{length}"
    to = random.choice(("ftp://127.0.0.1/", "http://127.0.0.2:9/", "/jobs/overview", "file:///etc/passwd", "x" * 5000))
    head += f"Location: {to}\r\n" if "302" in head else ""
    body = random.choice((NESTS["json"](50_000), "{}", "[]", '{"jobs": [{}]}', "\0" * 100, "NaN", '"' + "x" * 10**6))
    pieces = [(piece.encode("latin-1"), 0.0) for piece in (head, "\r\n", body)]
    if random.random() < 0.3:
        pieces[1:1] = [(b"X-Drip: drip\r\n", 0.05) for _ in range(random.choice((5, 90)))]
    if random.random() < 0.3:
        pieces = [(bytes([each]), 0.02) for each in b"".join(piece for piece, _ in pieces)[:200]]
    return pieces[: random.randrange(1, len(pieces) + 1)]


@contextmanager
def _saying(pieces: list[tuple[bytes, float]]) -> Iterator[str]:
    """Server on this machine that says these pieces to each that connects, whatever is asked."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=tell, args=(server.accept()[0],), daemon=True).start()

        def tell(client: socket.socket) -> None:
            with suppress(OSError), client:
                for piece, pause_s in pieces:
                    time.sleep(pause_s)
                    client.sendall(piece)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
