"""The compiled engine: the same traces as plain Python, and never one that is older than its source."""

from __future__ import annotations

import ast
import json
import os
import platform
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import numpy as np
import pytest

from twin.engine import compiled

ROOT = Path(__file__).resolve().parents[2]
TRACES = """
import hashlib, json
from scenarios.files.overrides import set_values
from scenarios.files.scenario_file import load
from twin.engine import ENGINE
from twin.simulation import simulate
TOLD = ("numRecordsIn", "numRecordsOut", "numRecordsDropped", "busyTimeMsPerSecond", "backPressuredTimeMsPerSecond",
        "queueLength", "stateBytes", "backlog", "latencyCount", "processingLatencySum_s", "e2eLatencyCounts")
found = {"engine": ENGINE}
for name in ("threeway-join", "failure", "scale", "gc-storm-cores", "flink-keyby", "flink-keyby chained", "drop-small"):
    file, _, chained = name.partition(" ")
    scenario = set_values(load(f"benchmarks/jobs/{file}.yaml"), ["engine.chaining=true"] if chained else [])
    for fidelity, horizon_s in (("fast", 20.0), ("exact", 0.5)):
        times = {"horizon_s": horizon_s, "warmup_s": horizon_s / 5, "period_s": horizon_s / 10}
        settings = scenario.run.model_copy(update={"fidelity": fidelity, "seed": 5, **times})
        run = simulate(scenario.model_copy(update={"run": settings}))
        told = [[row.get(each) for each in TOLD] for row in run.operator_rows]
        text = json.dumps([*told, run.event_rows], default=str)
        found[f"{name} {fidelity}"] = hashlib.sha256(text.encode()).hexdigest()[:16]
print(json.dumps(found))
"""
PINNED = {
    "threeway-join fast": "541af855cb550341",
    "threeway-join exact": "d5548686539b2002",
    "failure fast": "434133974175db87",
    "failure exact": "2c0b6fcfc4805682",
    "scale fast": "f11762fd59c9108b",
    "scale exact": "521287d2c2370d3d",
    "gc-storm-cores fast": "61e321d661818fd1",
    "gc-storm-cores exact": "eedb9907c2e89945",
    "flink-keyby fast": "47cf5ea96981e245",
    "flink-keyby exact": "414da1e5364c1f50",
    "flink-keyby chained fast": "836804a53c75cdb2",
    "flink-keyby chained exact": "9461a414c88c6b4f",
    "drop-small fast": "3c54e917ab7ae357",
    "drop-small exact": "eaec6d89976ef536",
}
"""What the traces were. They change where a law of the simulator does, and then with a word of why in the commit."""
PINNED_ON = ("Linux", "x86_64", "2.4")
"""Where they were made: system, machine, NumPy. Elsewhere a logarithm may round otherwise, or a random number be."""


def python(code: str, folder: Path = ROOT, engine: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, compiled.VARIABLE: engine, "PYTHONPATH": str(folder)}
    return subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A copy of the package beside which something claims to be its compiled engine."""
    shutil.copytree(ROOT / "twin", tmp_path / "twin", ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__"))
    engine = tmp_path / "twin" / "engine"
    for module in (engine.parent / "engine__mypyc", engine / "segment"):
        Path(f"{module}{EXTENSION_SUFFIXES[0]}").write_bytes(b"no library")
    digests = compiled.fingerprint(engine, compiled.sources(engine))
    (engine / compiled.BUILT).write_text(json.dumps(digests))
    return tmp_path


WHICH = "import twin.engine, twin.engine.segment as s; print(twin.engine.ENGINE, s.__file__.rpartition('.')[2])"


def traces(engine: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(python(TRACES, engine=engine).stdout)
    assert found.pop("engine") == engine
    return found


@pytest.fixture(scope="module")
def plain() -> dict[str, str]:
    return traces("python")


def test_traces_are_the_same_to_the_last_bit(plain: dict[str, str]):
    if not compiled.present(compiled.FOLDER) or compiled.changed(compiled.FOLDER):
        pytest.skip("no compiled engine here: make compiled")
    assert traces("compiled") == plain


def test_traces_are_what_they_were(plain: dict[str, str]):
    here = platform.system(), platform.machine(), np.__version__.rpartition(".")[0]
    if here != PINNED_ON:
        pytest.skip(f"pinned on {PINNED_ON}, and this is {here}")
    assert plain == PINNED


def test_an_engine_as_it_was_compiled_is_taken(built: Path):
    assert "ImportError" in python(WHICH, built).stderr  # it is no library, but Python was to load it
    assert python(WHICH, built, "python").stdout == "python py\n"


def test_a_changed_source_is_run_and_said(built: Path):
    (built / "twin/engine/dealing/turns.py").open("a").write("\n")
    done = python(WHICH, built)
    assert done.stdout == "python py\n"
    assert done.stderr == (
        "twin: the compiled engine is older than its source (twin/engine/dealing/turns.py); plain Python runs. "
        "'make compiled' compiles it again\n"
    )
    assert not python(WHICH, built, "python").stderr  # nobody asked for it


def test_a_removed_source_is_a_changed_one(built: Path):
    (built / "twin/engine/dealing/turns.py").unlink()
    (built / "twin/engine/streams/pool.py").open("a").write("\n")
    assert "dealing/turns.py and 1 more" in python(WHICH, built).stderr


@pytest.mark.parametrize(
    ("engine", "says"), [("compiled", "there is none for this Python"), ("numba", "no such engine")]
)
def test_what_is_asked_for_and_not_there_is_an_error(built: Path, engine: str, says: str):
    for extension in built.rglob(f"*{EXTENSION_SUFFIXES[0]}"):
        extension.unlink()
    assert python(WHICH, built).stdout == "python py\n"  # a build for another Python is none
    line = python(WHICH, built, engine).stderr.splitlines()[-1]
    assert line.startswith("twin.errors.BadInput: TWIN_ENGINE=") and says in line


def test_a_stale_engine_that_was_asked_for_is_an_error(built: Path):
    (built / "twin/engine/dealing/turns.py").open("a").write("\n")
    assert "'make compiled' compiles it again" in python(WHICH, built, "compiled").stderr.splitlines()[-1]


def test_the_command_line_says_which_and_what_is_wrong():
    done = subprocess.run(
        [sys.executable, "-m", "scenarios.cli", "--version"],
        cwd=ROOT, env={**os.environ, compiled.VARIABLE: "nmba"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and "TWIN_ENGINE=nmba" in done.stderr


def test_float_sums_are_of_lists():
    """A compiled sum of a generator is not Python's own."""
    found = [
        f"{name}:{call.lineno}"
        for name in compiled.sources()
        for call in ast.walk(ast.parse((compiled.FOLDER / name).read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "sum"
        if call.args and isinstance(call.args[0], ast.GeneratorExp)
    ]
    assert not found
