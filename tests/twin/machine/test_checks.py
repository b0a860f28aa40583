"""Accesses of compiled code to memory are checked on request, and its text gives the same results as plain Python."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from array import array
from pathlib import Path

import numpy as np
import pytest

from tests.twin.machine.digests import digest
from twin.machine import checks
from twin.machine import layout as k

ROOT = Path(__file__).resolve().parents[3]
PLAIN = {"NUMBA_DISABLE_JIT": "1"}
CHECKED = {"STREAMTWIN_CHECK": "1", "NUMBA_OPT": "0"}  # compiled sooner, and run for a second or two
WRONG = """
import sys
from tests.twin.machine.test_tiny_worlds import STEADY
from tests.twin.worlds import chain
from twin import simulation
from twin.scenario import RunSettings, Scenario
from twin.world.windows import Content, WindowLogic

class Wrong(simulation.World):
    def _build(self):
        super()._build()
        for view in [*self.memory.at.values()]:
            if sys.argv[1] == "index" and type(view) is Content:
                view.room *= 2
            if sys.argv[1] == "address" and isinstance(view, WindowLogic):
                view.window.task += 8

simulation.World = Wrong
work = {"kind": "aggregate", "name": "work", "window": {"policy": "time", "size_s": 1.0}}
job = Scenario(**dict(chain([work], 400.0)), run=RunSettings(horizon_s=2.0, period_s=0.5))
simulation.simulate(job)
"""


def ran(*command: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Process of Python in the house."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_plain_python_finds_the_same_to_the_last_bit_and_stays_in_its_memory() -> None:
    found = ran("-m", "tests.twin.machine.digests", "10", **PLAIN, **CHECKED)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == [digest(seed) for seed in range(10)]


@pytest.mark.slow
def test_compiled_code_stays_in_its_memory() -> None:
    found = ran("-m", "tests.twin.machine.digests", "60", **CHECKED)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == [digest(seed) for seed in range(60)]


@pytest.mark.parametrize("how", [PLAIN, pytest.param({}, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("what", "why"),
    [("index", "ROW at 0x[0-9a-f]+, 0 bytes behind the end of 'rows' of work#0"), ("address", "TASK at .*, amid one")],
)
def test_a_wrong_access_ends_the_run_with_a_line(what: str, why: str, how: dict[str, str]) -> None:
    found = ran("-c", WRONG, what, **CHECKED, **how)
    assert found.returncode == 1
    last = found.stderr.splitlines()[-1]
    assert last.startswith("twin.machine.checks.AccessError: compiled code asks for ")
    assert re.search(why, last), last


@pytest.fixture
def checking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "CHECK", True)


@pytest.mark.usefixtures("checking")
def test_what_may_lie_where() -> None:
    rows, numbers, times = np.zeros(30, k.ROW), np.zeros(4, np.int64), array("d", [1.0, 2.0])
    for each in (rows, numbers, times):
        checks.know(each, lambda: "rows")
    row, item, real = (checks.number_of(each) for each in (k.ROW, k.ITEM, np.dtype([("value", "f8")], align=True)))
    start, size = rows.ctypes.data, k.ROW.itemsize
    assert [checks.why_not(start + size * n, row) for n in range(3)] == ["", "", ""]
    assert "ROW" in checks.why_not(start + size * len(rows), row) and "ROW" in checks.why_not(start - size, row)
    assert "amid one of rows" in checks.why_not(start + 8, row)
    assert "where rows is" in checks.why_not(start, item)
    assert checks.why_not(times.buffer_info()[0] + 8, real) == ""
    assert "where rows is" in checks.why_not(numbers.ctypes.data, real)
    assert "outside of all arrays" in checks.why_not(0, row)
    with pytest.raises(checks.AccessError, match="outside of all arrays"):
        checks.require(0, row)
    del rows
    assert checks.why_not(start, row)
