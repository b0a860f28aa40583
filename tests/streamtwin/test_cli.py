"""Command line as a user meets it: exit codes, one-line errors, --json purity, speed of the light commands."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from scenarios.files import scenario_file
from streamtwin.cli import app as cli
from tests.commands import ROOT, answer, done, in_a_shell, refused, twin
from tests.twin.worlds import queue
from twin.scenario import Scenario
from twin.trace import TABLES, read_table

QUICK = ("--horizon", "15")


def test_a_document_is_alone_on_stdout_and_a_run_is_kept_as_it_was_told(tmp_path):
    done = in_a_shell("run", "smart-grid", *QUICK, "--json", "--seed", 3, "--out", tmp_path / "trace")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert "trace written" in done.stderr
    assert (document["manifest"]["seed"], document["manifest"]["horizon_s"]) == (3, 15)
    names = {path.name for path in (tmp_path / "trace").iterdir()}
    assert names == {*(f"{table}.parquet" for table in TABLES), "SHA256SUMS", "manifest.json", "result.json"}
    assert json.loads((tmp_path / "trace" / "manifest.json").read_text()) == document["manifest"]
    assert read_table(tmp_path / "trace", "runs")["config_hash"].to_pylist() == [document["manifest"]["config_hash"]]
    assert json.loads((tmp_path / "trace" / "result.json").read_text()) == document


def test_tables_are_on_stdout_seeds_decide_and_what_is_there_is_left_alone(tmp_path):
    one, same, other = (done("run", "edge-filter", *QUICK, "--seed", seed) for seed in (1, 1, 2))
    assert "throughput" in one and "sensors" in one
    assert one == same != other
    (tmp_path / "here").mkdir()
    assert "exists; remove it" in refused("run", "edge-filter", "--out", tmp_path / "here")
    assert list((tmp_path / "here").iterdir()) == []


def raising(error: BaseException) -> Callable[..., None]:
    """Function in place of a simulation that raises the error."""

    def failing(*_: Any, **__: Any) -> None:
        raise error

    return failing


def test_interrupt_exits_with_130_and_promises_nothing_where_nothing_is_kept(monkeypatch):
    monkeypatch.setattr("twin.simulation.simulate", raising(KeyboardInterrupt()))
    monkeypatch.delitem(sys.modules, "jax", raising=False)  # with JAX loaded, a process ends at once
    done = twin("run", "edge-filter")
    assert done.returncode == 130
    assert "interrupted; nothing half-made is left" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_internal_error_is_one_line_and_1_and_the_traceback_is_there_for_the_asking(monkeypatch):
    monkeypatch.setattr("twin.simulation.simulate", raising(RuntimeError("the\nmachine is on fire")))
    for extra in ((), ("--traceback",)):
        done = twin("run", "edge-filter", *extra)
        assert done.returncode == 1
        assert "the machine is on fire" in done.stderr
        assert (done.stderr.count("\n") > 1) == ("Traceback" in done.stderr) == bool(extra)


def test_light_commands_do_not_load_the_heavy_libraries():
    code = f"""
import sys
from streamtwin.cli import app as cli

for arguments in (["list", "--json"], ["run", "edge-filter", "--json", *{QUICK}], ["--help"]):
    try:
        cli.main(arguments)
    except SystemExit as ended:
        assert not ended.code
print(*sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    heavy = {"jax", "flax", "pyspark", "lightgbm", "matplotlib", "pandas", "scipy.sparse"}
    assert not heavy & set(done.stderr.split())


def cpu_s(code: str) -> float:
    """CPU time of a process that runs this code alone, with the bytecode that an earlier one left [s]."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@cache
def numpy_s() -> float:
    """CPU seconds that importing numpy takes here."""
    return min(cpu_s("import numpy") - cpu_s("pass") for _ in range(3))


UNTIL_IT_RUNS = """
import twin.simulation
from streamtwin.cli import app as cli

def stop(*_, **__):
    raise SystemExit

twin.simulation.simulate = stop
cli.main(["run", "word-count", "--quiet"])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "usual_s"),
    [("import twin", 0.03), (UNTIL_IT_RUNS, 0.45), ("from streamtwin.cli import app as cli; cli.main(['list'])", 0.47)],
    ids=["import", "run", "list"],
)
def test_commands_start_at_once(code, usual_s):
    """Commands take at most twice their usual CPU time, which is for a machine that imports numpy in 0.09 s."""
    limit_s = 2 * usual_s
    assert cpu_s(code) < limit_s or min(cpu_s(code) for _ in range(3)) < limit_s * max(1.0, numpy_s() / 0.09)


@pytest.mark.slow
def test_what_a_cost_model_does_not_see_is_said_once_and_in_json():
    done = twin("optimize", "failover", "--estimates", 5, "--json")
    assert done.stderr.count("note (failover): the cost model rates ignores events (") == 1
    assert any(words.startswith("events") for words in json.loads(done.stdout)["blind_to"])
    judged = ("--replications", 1, "--references", 0, "--optimizers", "as-given,random")
    done = twin("validate", "rush-hour", *judged, "--json")
    assert done.stderr.count("ignores that a run has few peaks of gates, and so its own") == 1
    assert list(json.loads(done.stdout)["blind_to"]["rush-hour"]) == ["rates"]
    plain = twin("optimize", "smart-grid", "--estimates", 5, "--json")
    assert "does not see" not in plain.stderr and json.loads(plain.stdout)["blind_to"] == []


@pytest.mark.parametrize(("load", "told"), [(0.5, False), (0.9, True)])
def test_a_plan_by_rates_whose_latency_is_steep_comes_with_a_warning(tmp_path, load, told):
    (tmp_path / "job.yaml").write_text(scenario_file.dump(Scenario.of(queue(100.0, load, 1.0))))
    words = "careful: the rate model does not know loads to better than 5%"
    assert (words in done("optimize", tmp_path / "job.yaml")) == told
    assert words not in done("optimize", tmp_path / "job.yaml", "--budget", "1runs")


@pytest.mark.slow
def test_values_can_be_set_wherever_a_scenario_is_taken():
    shown = twin("show", "smart-grid", "--set", "run.horizon_s=17", "--set", "cluster.hosts.edge-1.cpu_percent=1600")
    assert "horizon_s: 17" in shown.stdout and "cpu_percent: 1600" in shown.stdout
    sets = [f"cluster.hosts.cloud-1.cpu_percent={each}" for each in (50, 1600)]
    planned = [twin("optimize", "smart-grid", "--estimates", 5, "--set", each, "--json") for each in sets]
    slow, quick = (json.loads(each.stdout) for each in planned)
    assert slow["predicted"] > quick["predicted"]


def test_what_show_prints_is_a_scenario_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(done("show", "word-count"))
    assert scenario_file.load(str(path)) == scenario_file.load("word-count")


def commands() -> Iterator[tuple[str, Any]]:
    """Commands by their words."""
    from typer.main import get_command

    for name, command in get_command(cli.app).commands.items():
        inner = getattr(command, "commands", None)
        yield from ((f"{name} {word}", each) for word, each in inner.items()) if inner else [(name, command)]


def test_every_command_takes_json_and_quiet_shows_an_example_and_scenarios_with_their_values() -> None:
    found = dict(commands())
    assert len(found) > 30
    for name, command in found.items():
        options = {option for parameter in command.params for option in parameter.opts}
        words = {str(parameter.metavar).rstrip(".") for parameter in command.params}
        assert {"--json", "--quiet"} <= options and "Example" in command.help, name
        assert "--set" in options or not words & {"SCENARIO", "TARGET"}, name
        assert "--seed" in options or name in UNSEEDED, name


UNSEEDED = {
    "shadow",
    "calibrate",
    "use-profile",
    *(f"import {form}" for form in ("flink", "flink-config", "lstopo", "numactl", "mlc", "metrics")),
}
"""Commands that read measurements, and draw nothing."""


ASKED: dict[str, tuple[str, ...]] = {
    "run": (),
    "report": (),
    "export": (),
    "optimize": (),
    "validate": (),
    "compare": ("word-count",),
    "compare-policies": ("--policies", "none,ds2"),
    "capacity": ("--find-max", "workload.arrivals.sensors.rate_per_s"),
    "dry-run": ("--fail", "edge-1"),
    "sensitivity": ("--input", "run.period_s=5..10", "--input", "run.horizon_s=20..30"),
}


@pytest.mark.parametrize("command", ASKED)
def test_events_can_be_added_wherever_a_scenario_is_run(command):
    event = "kind: slow-down, at_s: 15, host: nowhere, factor: 3"
    assert "nowhere" in refused(command, "edge-filter", *ASKED[command], "--event", event)


def test_an_added_event_happens():
    event = "kind: slow-down, at_s: 12, host: edge-1, factor: 3"
    (happened,) = answer("run", "edge-filter", "--horizon", 20, "--event", event)["events"]
    assert happened["kind"] == "slow-down"


NOWHERE = Path("/proc/none")


@pytest.mark.skipif(not NOWHERE.parent.is_dir(), reason="a folder into which nobody can write is needed")
@pytest.mark.parametrize("command", ["optimize", "run", "export", "profile", "report", "validate"])
def test_what_cannot_be_written_is_refused_before_the_work(command, monkeypatch):
    monkeypatch.setattr("twin.simulation.simulate", None)
    monkeypatch.setattr("scenarios.planning.planner.optimize", None)
    assert "cannot be" in refused(command, "edge-filter", "--out", f"{NOWHERE}.yaml")


@pytest.mark.parametrize("command", ["optimize", "run", "export", "profile"])
def test_what_is_there_is_refused_before_the_work_and_left_alone(command, monkeypatch, tmp_path):
    there = tmp_path / "there.yaml"
    there.write_text("mine")
    monkeypatch.setattr("twin.simulation.simulate", None)
    monkeypatch.setattr("scenarios.planning.planner.optimize", None)
    assert f"{there} exists; remove it" in refused(command, "edge-filter", "--out", there)
    assert there.read_text() == "mine"


def test_a_list_is_short_and_its_parts_say_more():
    short = done("list")
    assert "smart-grid" in short and "milp-hosts" in short and short.count("\n") < 70
    assert "queueing formulas" in done("list", "cost-models")
    assert "keeps the first or the last row of each key" in done("list", "kinds")
    assert "did you mean 'optimizers'" in refused("list", "optimizer")
