"""Surroundings of compiled code: errors and signals, plain Python, its cache, its memory."""

from __future__ import annotations

import gc
import os
import random
import re
import resource
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from scenarios.files.scenario_file import set_value
from tests.twin.checkpointed import meeting
from tests.twin.worlds import chain
from twin import machine
from twin.machine import object_code
from twin.machine.layout import Arena
from twin.profiles import STORM
from twin.run import waiting
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.world.clock import Callbacks

WINDOW = {"policy": "time", "size_s": 0.2, "slide_s": 0.1}


def small(rate_per_s: float = 300.0, horizon_s: float = 1.0, **more: Any) -> Scenario:
    """Job that asks Python for all kinds of things: random numbers, arrivals, more room."""
    middle = [
        {"kind": "filter", "name": "some", "selectivity": 0.7, "service_time_s": 1e-4, "service_scv": 1},
        {"kind": "aggregate", "name": "sums", "window": WINDOW, "group_by": "int", "groups": 5},
    ]
    settings = RunSettings(horizon_s=horizon_s, period_s=horizon_s / 2)
    return Scenario(**dict(chain(middle, rate_per_s, **more)), run=settings)


def in_another_process(code: str, *arguments: str, **environment: str) -> tuple[int, str, str]:
    """Status and output of code in another process."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment
    done = subprocess.run([sys.executable, "-c", code, *arguments], env=env, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


# errors and signals --------------------------------------------------------------------------------------------------


FAILING = """
import sys

from tests.twin.machine.test_running import far
from twin import simulation
from twin.world.clock import Callbacks

def fail(*_):
    raise LookupError("nothing there")

for name in sys.argv[1:]:
    real = getattr(Callbacks, name)
    setattr(Callbacks, name, fail)
    try:
        simulation.simulate(far())
    except LookupError as error:
        print(name, error)
    setattr(Callbacks, name, real)
"""


def far() -> Scenario:
    """Small job over a network whose latency varies."""
    hosts = [{"name": name, "cpu_percent": 400, "ram_mb": 1000, "bandwidth_mbps": 10, "latency_ms": 5} for name in "ab"]
    engine = STORM.model_dump(mode="json") | {"name": "jittered", "noise": {"jitter_scv": 1.0}}
    return small(
        5_000.0, hosts=hosts, placement={"some": "b", "source": "a", "sums": ["a", "b"], "sink": "b"}, engine=engine
    )


def test_an_error_in_what_compiled_code_calls_is_raised_where_the_run_was_started() -> None:
    """Errors in calls from compiled code are raised by the run; in a process of its own, as it might abort."""
    names = ("_uniforms", "_services", "_arrivals", "_path", "_knot", "_items", "_grow")
    said = "".join(f"{name} nothing there\n" for name in names)
    code = f"from twin.machine import layout\nlayout.LEAST_ROOM = 16\n{FAILING}"
    assert in_another_process(code, *names) == (0, said, "")


def test_without_any_memory_a_run_says_so_and_ends() -> None:
    """Where not even a few items can be had, the process ends, as compiled code would write beyond its arrays."""
    without = "from twin.machine.layout import Arena\n\n"
    without += "def none(*_):\n    raise MemoryError('none left')\n\nArena.chunk = none\n"
    status, said, complaint = in_another_process(without + FAILING, "_knot")
    assert (status, said) == (1, "") and complaint.endswith("MemoryError: none left\n")


def interrupting(whole: Callable[..., None]) -> Callable[..., None]:
    """Callback that is interrupted by Ctrl-C while compiled code runs."""

    def interrupted(self: object, *given: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        whole(self, *given)

    return interrupted


@pytest.fixture
def heeding() -> Iterator[None]:
    """Lets Ctrl-C interrupt, also where a shell started the tests in the background, with it ignored."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


@pytest.mark.usefixtures("heeding")
def test_an_interruption_is_heeded_and_breaks_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    job = small(rate_per_s=1500.0)  # more than a block of arrivals
    before = simulate(job)
    for what in ("_items", "_uniforms", "_arrivals", "_grow"):
        with monkeypatch.context() as patch:
            patch.setattr(Callbacks, what, interrupting(getattr(Callbacks, what)))
            if what == "_grow":  # more than there is room for at first
                patch.setattr("twin.machine.layout.LEAST_ROOM", 16)
            with pytest.raises(KeyboardInterrupt):
                simulate(job)
    assert capfd.readouterr() == ("", "")
    assert simulate(job).operator_rows == before.operator_rows


def test_a_limit_of_time_is_kept(capfd: pytest.CaptureFixture[str]) -> None:
    def late(*_: Any) -> None:
        raise TimeoutError("too long")

    handler = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(TimeoutError, match="too long"):
            simulate(small(20_000.0, 1000.0))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    assert capfd.readouterr() == ("", "")


def test_in_a_thread_runs_are_the_same() -> None:
    found = []
    thread = threading.Thread(target=lambda: found.append(simulate(small())))
    thread.start()
    thread.join()
    assert found[0].operator_rows == simulate(small()).operator_rows


# as plain Python, and from the cache ---------------------------------------------------------------------------------

CODE = """
from tests.twin.machine.test_running import small
from twin.simulation import simulate
run = simulate(small(100.0))
print(run.operator_rows, run.metrics)
"""


def test_plain_python_and_machine_code_say_the_same_and_none_is_made_twice() -> None:
    here = simulate(small(100.0))
    said = f"{here.operator_rows} {here.metrics}\n"
    assert in_another_process(CODE, NUMBA_DISABLE_JIT="1") == (0, said, "")
    assert object_code.cached() is not None
    assert in_another_process(CODE) == (0, said, "")  # nothing is compiled, or it would say so


def refusing(*places: Path) -> Callable[..., None]:
    """`Path.mkdir` of a file system that cannot be written at these places."""
    mkdir = Path.mkdir

    def made(self: Path, *rest: Any, **more: Any) -> None:
        if any(self.is_relative_to(place) for place in places):
            raise PermissionError(13, "Read-only file system", str(self))
        mkdir(self, *rest, **more)

    return made


def test_machine_code_is_kept_where_it_can_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package, home, other = (tmp_path / name for name in ("package", "home", "other"))
    for folder in (package, home, other):
        folder.mkdir()
    monkeypatch.setattr(object_code, "__file__", str(package / "object_code.py"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    monkeypatch.setattr("tempfile.tempdir", str(other))
    code = {"symbol": b"machine code"}
    name = object_code.file_name()
    assert object_code.cached() is None
    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", refusing(package, home))
        last = object_code.keep(code)
    assert last == other / f"streamtwin-{os.getuid()}" / name
    assert last.parent.stat().st_mode & 0o077 == 0
    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", refusing(package))
        assert object_code.keep(code) == home / "streamtwin" / name
    names = f"{name.rpartition('-')[0]}-old.zip", "machine-1-2.zip"
    mine, others = (package / "__pycache__" / each for each in names)
    mine.parent.mkdir()
    mine.touch()
    others.touch()
    assert object_code.keep(code) == mine.parent / name
    assert not mine.exists(), "it is of older sources"
    assert others.exists(), "it is of a machine with another processor, which may share the folder"
    assert object_code.cached() == code
    assert [each.name for each in object_code.files_to_ship()] == [name]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files to others")
def test_what_somebody_else_has_put_there_is_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(object_code, "__file__", str(tmp_path / "object_code.py"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    code = {"symbol": b"machine code"}
    kept = object_code.keep(code)
    assert kept is not None and object_code.cached() == code
    os.chown(kept, 12345, 12345)
    assert object_code.cached() is None
    os.chown(kept.parent, 12345, 12345)
    assert object_code.keep(code) == tmp_path / "home" / "streamtwin" / object_code.file_name()


DAMAGE: dict[str, Callable[[bytearray, random.Random], bytes]] = {
    "one bit differs": lambda content, at: flipped(content, at),
    "cut by a power failure": lambda content, at: content[: at.randrange(len(content))],
    "other bytes": lambda content, at: at.randbytes(len(content)),
    "an archive without checksum": lambda content, _at: content.split(b"\n", 1)[1],
}


def flipped(content: bytearray, at: random.Random) -> bytes:
    """Content with one bit changed."""
    content[at.randrange(len(content))] ^= 1 << at.randrange(8)
    return content


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_machine_code_is_removed_with_a_line(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(object_code, "__file__", str(tmp_path / "object_code.py"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    code = {"symbol": bytes(range(256)) * 20}
    path = object_code.keep(code)
    assert path is not None
    for seed in range(100):
        path.write_bytes(DAMAGE[kind](bytearray(path.read_bytes()), random.Random(seed)))
        assert object_code.cached() is None
        assert not path.exists()
        (said,) = capsys.readouterr().err.splitlines()
        assert str(path) in said and "made anew" in said
        object_code.keep(code)
    assert object_code.cached() == code


def test_a_folder_in_the_place_of_machine_code_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(object_code, "__file__", str(tmp_path / "object_code.py"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    (tmp_path / object_code.CACHE / object_code.file_name()).mkdir(parents=True)
    code = {"symbol": b"machine code"}
    assert object_code.cached() is None
    assert object_code.keep(code) == tmp_path / "home" / "streamtwin" / object_code.file_name()
    assert object_code.cached() == code


def test_the_cache_is_of_all_that_is_compiled_in() -> None:
    """The cache depends on all files from which compiled files take functions."""
    files = [path for path in Path(machine.__path__[0]).glob("*.py") if "@compiled" in path.read_text()]
    taken = re.findall(r"^from twin\.(?!machine)(.+) import", "\n".join(path.read_text() for path in files), re.M)
    assert {f"{each.replace('.', '/')}.py" for each in taken} == set(object_code.SHARED.split())


# memory --------------------------------------------------------------------------------------------------------------


def test_runs_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs leave no memory behind except what waits for the collector; each takes a third of a megabyte at least."""
    job, alive = small(20.0, 0.3), []
    init = Arena.__init__

    def counted(self: Arena) -> None:
        init(self)
        alive.append(weakref.ref(self))

    monkeypatch.setattr(Arena, "__init__", counted)
    for _ in range(20):
        simulate(job)
    gc.collect()
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(60):
        simulate(job)
        if number % 10 == 9:
            gc.collect()
    assert len(alive) >= 80 and not any(each() for each in alive)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 12_000


def test_who_looks_at_queues_sees_them_and_changes_nothing() -> None:
    """Records seen at the ends of periods are those that wait or are on the network by the rows, also with failures."""
    down = {"kind": "failure", "at_s": 5, "host": "near", "recover_after_s": 2}
    made = set_value(Scenario.of(meeting(), RunSettings(horizon_s=12, period_s=0.5)), f"events=[{down}]")
    alone = simulate(made)
    fast = simulate(made, looks=round(made.run.horizon_s / made.run.period_s))
    ends: dict[float, int] = {}
    for row in alone.operator_rows:
        ends[row["end_s"]] = ends.get(row["end_s"], 0) + waiting(row)
    on_the_way = dict.fromkeys(ends, 0)
    for row in alone.link_rows:
        on_the_way[row["end_s"]] += row["recordsIn"] - row["recordsOut"]
    there = map(int.__add__, ends.values(), accumulate(on_the_way.values()))
    assert fast.looks == tuple(zip(ends, there, strict=True))[:-1] and any(on_the_way.values())
    assert max(ends.values()) > 100
    assert (fast.operator_rows, fast.metrics) == (alone.operator_rows, alone.metrics)


def test_code_of_sources_that_changed_meanwhile_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """An update while the code is compiled: it must not be taken for that of the new sources."""
    monkeypatch.setattr(object_code, "sources", lambda: [b"of another version"])
    assert object_code.keep({"entry": b"code"}) is None
    assert object_code.cached() is None
