"""The command line as a user meets it: exit codes, one-line errors, --json purity, speed of the light commands."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scenarios.files import registry, scenario_file
from streamtwin.cli import app as cli
from twin.trace import TABLES, read_table
from twin.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
QUICK = ("--horizon", "15")


def twin(*arguments: object, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, as a shell would start it."""
    return subprocess.run(
        [sys.executable, "-m", "streamtwin.cli.app", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def done(*arguments: object) -> None:
    """The command, called in this process, ends well."""
    with pytest.raises(SystemExit) as stopped:
        cli.main([*map(str, arguments), "--quiet"])
    assert not stopped.value.code


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line on stderr with which the command, called in this process, ends with 2."""
    with pytest.raises(SystemExit) as stopped:
        cli.main([*map(str, arguments), "--quiet"])
    output = capsys.readouterr()
    assert stopped.value.code == 2, output.err
    assert output.out == ""
    assert output.err.startswith("twin: ")
    assert output.err.count("\n") == 1
    assert "Traceback" not in output.err
    return output.err


def test_run_prints_the_promised_json_and_nothing_else(tmp_path):
    done = twin("run", "smart-grid", *QUICK, "--json", "--seed", 3, "--out", tmp_path / "trace")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    latency = {"mean", "p50", "p95", "p99"}
    assert latency == set(document["processing_latency_s"]) == set(document["e2e_latency_s"])
    assert document["manifest"]["seed"] == 3
    assert document["manifest"]["horizon_s"] == 15
    assert document["tuples_in"] > 0
    assert {"throughput_per_s", "backpressure_per_s", "backpressured", "success", "tuples_out", "cpu_s"} <= set(
        document
    )
    assert set(document["operators"]) >= {"meters", "compare", "operator-room"}
    assert "edge-1" in document["hosts"]
    assert all("few results" in line for line in document["warnings"])  # of so short a run
    assert {path.name for path in (tmp_path / "trace").iterdir()} == {f"{t}.parquet" for t in TABLES} | {
        "SHA256SUMS",
        "manifest.json",
        "result.json",
    }
    assert json.loads((tmp_path / "trace" / "manifest.json").read_text()) == document["manifest"]
    assert read_table(tmp_path / "trace", "runs")["config_hash"].to_pylist() == [document["manifest"]["config_hash"]]


def test_same_seed_same_result_and_other_seed_another():
    results = [json.loads(twin("run", "edge-filter", *QUICK, "--json", "--seed", seed).stdout) for seed in (1, 1, 2)]
    for result in results:
        del result["cpu_s"]
    assert results[0] == results[1]
    assert results[0]["e2e_latency_s"] != results[2]["e2e_latency_s"]


def test_tables_are_on_stdout_and_notes_on_stderr(tmp_path):
    done = twin("run", "edge-filter", *QUICK, "--out", tmp_path / "t")
    assert done.returncode == 0
    assert "throughput" in done.stdout
    assert "sensors" in done.stdout
    assert "trace written" in done.stderr
    assert twin("run", "edge-filter", *QUICK, "--out", tmp_path / "u", "--quiet").stderr == ""


def test_existing_output_is_refused_before_anything_is_done(tmp_path):
    (tmp_path / "here").mkdir()
    done = twin("run", "edge-filter", "--out", tmp_path / "here")
    assert done.returncode == 2
    assert "exists; remove it or name another folder" in done.stderr
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.slow
def test_an_optimized_plan_is_a_scenario_that_runs(tmp_path):
    out = tmp_path / "better.yaml"
    done = twin("optimize", "smart-grid", "--budget", 60, "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["evaluations"] <= 60
    before, after = (json.loads(twin("run", each, *QUICK, "--json").stdout) for each in ("smart-grid", out))
    assert before["backpressured"]
    assert not after["backpressured"]
    assert after["e2e_latency_s"]["mean"] < before["e2e_latency_s"]["mean"] / 3


def test_validate_has_a_row_an_optimizer():
    options = ("--optimizers", "as-given,exhaustive", "--replications", 2, "--references", 2)
    done = twin("validate", "edge-filter", *options, "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["optimizer"] for row in rows] == ["as-given", "exhaustive"]
    assert all(row["regret"] is None or row["regret"] >= 0 for row in rows)
    assert {"scenario", "cost_model", "ci95", "plan_s"} <= set(rows[0])


def test_interrupt_exits_with_130_and_promises_nothing_where_nothing_is_kept(tmp_path):
    code = (
        "import sys; from streamtwin.cli import app as cli; import twin.simulation\n"
        "def stop(*_, **__): raise KeyboardInterrupt\n"
        "twin.simulation.simulate = stop; cli.main(['run', 'edge-filter'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert "interrupted; nothing half-made is left" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_internal_error_is_one_line_and_1_and_the_traceback_is_there_for_the_asking():
    code = (
        "import sys; from streamtwin.cli import app as cli; import twin.simulation\n"
        "def fail(*_, **__): raise RuntimeError('the\\nmachine is on fire')\n"
        "twin.simulation.simulate = fail; cli.main(['run', 'edge-filter', *sys.argv[1:]])"
    )
    for extra, lines in ((), 1), (("--traceback",), 5):
        done = subprocess.run(
            [sys.executable, "-c", code, *extra], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert "the machine is on fire" in done.stderr
        assert (done.stderr.count("\n") > 1) == (lines > 1)
        assert ("Traceback" in done.stderr) == (lines > 1)


def test_light_commands_do_not_load_the_heavy_libraries():
    code = (
        "import sys; from streamtwin.cli import app as cli\n"
        "try: cli.main({})\n"
        "finally: print(*sorted(sys.modules), file=sys.stderr)"
    )
    for arguments in (["list", "--json"], ["run", "edge-filter", "--json", *QUICK], ["--help"]):
        done = subprocess.run(
            [sys.executable, "-c", code.format(arguments)], cwd=ROOT, capture_output=True, text=True, check=False
        )
        heavy = {"jax", "flax", "pyspark", "lightgbm", "matplotlib", "pandas", "scipy.sparse"}
        assert not heavy & set(done.stderr.split()), arguments


def test_list_names_everything(tmp_path):
    document = json.loads(twin("list", "--json", cwd=tmp_path).stdout)
    assert set(document["scenarios"]) == set(registry.names())
    assert {"governor", "local-search"} <= set(document["optimizers"])
    assert all(document["optimizers"].values())


def cpu_s(code: str) -> float:
    """Of a process that does so and no more, and finds the bytecode that the one before it left."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


UNTIL_IT_RUNS = """
import twin.simulation
from streamtwin.cli import app as cli

def stop(scenario, progress):
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
    """usual_s: CPU seconds where importing numpy takes 0.09. Twice as much is noticed, whatever the machine."""
    numpy_s = min(cpu_s("import numpy") - cpu_s("pass") for _ in range(3))
    assert min(cpu_s(code) for _ in range(3)) < 2 * usual_s * max(1.0, numpy_s / 0.09)


@pytest.mark.slow
def test_what_a_cost_model_does_not_see_is_said_once_and_in_json():
    done = twin("optimize", "failover", "--budget", 5, "--json")
    assert done.stderr.count("note (failover): the cost model rates ignores events (") == 1
    assert any(words.startswith("events") for words in json.loads(done.stdout)["blind_to"])
    done = twin(
        "validate",
        "rush-hour",
        *["--replications", "1", "--references", "0", "--optimizers", "as-given,random", "--json"],
    )
    assert done.stderr.count("ignores how diurnal arrivals of gates vary around their mean") == 1
    assert list(json.loads(done.stdout)["blind_to"]["rush-hour"]) == ["rates"]
    plain = twin("optimize", "smart-grid", "--budget", 5, "--json")
    assert "does not see" not in plain.stderr and json.loads(plain.stdout)["blind_to"] == []


@pytest.mark.slow
def test_values_can_be_set_wherever_a_scenario_is_taken():
    shown = twin("show", "smart-grid", "--set", "run.horizon_s=17", "--set", "cluster.hosts.edge-1.cpu_percent=1600")
    assert "horizon_s: 17" in shown.stdout and "cpu_percent: 1600" in shown.stdout
    sets = [f"cluster.hosts.cloud-1.cpu_percent={each}" for each in (50, 1600)]
    planned = [twin("optimize", "smart-grid", "--budget", 5, "--set", each, "--json") for each in sets]
    slow, quick = (json.loads(each.stdout) for each in planned)
    assert slow["predicted"] > quick["predicted"]


def test_no_command_takes_a_scenario_and_not_its_values() -> None:
    from typer.main import get_command

    def leaves(command: Any, name: str) -> Iterator[tuple[str, Any]]:
        if hasattr(command, "commands"):
            for key, each in command.commands.items():
                yield from leaves(each, f"{name} {key}")
        else:
            yield name, command

    taking = {}
    for name, command in leaves(get_command(cli.app), "twin"):
        options = {option for parameter in command.params for option in parameter.opts}
        words = {str(parameter.metavar).rstrip(".") for parameter in command.params}
        if words & {"SCENARIO", "SCENARIO|RUN"}:
            taking[name] = "--set" in options
    assert len(taking) >= 8 and all(taking.values()), taking


def test_every_command_takes_json_seed_and_quiet_and_shows_an_example():
    commands = [["demo"], ["list"], ["show"], ["schema"], ["version"], ["run"], ["corpus"], ["dataset"], ["train"]]
    commands += [["evaluate"], ["profile"], ["optimize"], ["validate"], ["import", "run-graph"], ["validate-runs"]]
    code = (
        "from streamtwin.cli import app as cli\n"
        f"for command in {commands}:\n"
        "    try: cli.main([*command, '--help'])\n"
        "    except SystemExit as stop: assert not stop.code; print('END OF', *command)\n"
    )
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    pages = done.stdout.split("END OF")[:-1]
    assert len(pages) == len(commands), done.stderr
    for page in pages:
        for text in ("--json", "--seed", "--quiet", "Example"):
            assert text in page


def test_what_show_prints_is_a_scenario_file(tmp_path, capsys):
    path = tmp_path / "mine.yaml"
    with pytest.raises(SystemExit) as stopped:
        cli.main(["show", "word-count"])
    assert stopped.value.code == 0
    path.write_text(capsys.readouterr().out)
    assert scenario_file.load(str(path)) == scenario_file.load("word-count")


def test_schema_and_version_in_json():
    assert json.loads(twin("schema", "--json").stdout) == scenario_file.json_schema()
    assert json.loads(twin("version", "--json").stdout) == {"version": VERSION}


def test_a_run_is_as_precise_as_was_asked_for(tmp_path):
    """M/M/1 beside theory: the answer lies within its own error, and the ladder says how it was found."""
    job = {
        "name": "queue",
        "query": {
            "operators": [
                {"name": "s", "kind": "source", "service_time_s": 0},
                {"name": "m", "kind": "map", "service_time_s": 0.0006, "service_scv": 1},
                {"name": "k", "kind": "sink", "service_time_s": 0},
            ],
            "streams": [{"producer": "s", "consumer": "m"}, {"producer": "m", "consumer": "k"}],
        },
        "cluster": {
            "hosts": [{"name": "h", "cpu_percent": 800, "ram_mb": 8000, "bandwidth_mbps": 1000, "latency_ms": 0}]
        },
        "plan": {"placement": {"s": "h", "m": "h", "k": "h"}},
        "workload": {"arrivals": {"s": {"law": "poisson", "rate_per_s": 1000}}},
        "run": {"horizon_s": 3600, "warmup_s": 10, "period_s": 2},
    }
    file = tmp_path / "queue.yaml"
    file.write_text(json.dumps(job), encoding="utf-8")  # JSON is YAML
    done = twin("run", file, "--precision", "5%", "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["manifest"]["simulated_s"] < found["manifest"]["horizon_s"] == 3600.0
    assert found["throughput_per_s"] == pytest.approx(1000.0, rel=0.05)
    assert found["processing_latency_s"]["mean"] == pytest.approx(0.0015, rel=0.05)


@pytest.mark.parametrize("nonsense", ["two", "0", "-3%", "90%", "nan", "%"])
def test_a_precision_that_means_nothing_is_refused(nonsense, capsys):
    assert "--precision" in refused(capsys, "run", "smart-grid", f"--precision={nonsense}")


@pytest.mark.parametrize(
    ("words", "offered"),
    [("twin exp", "export"), ("twin run rush-hour-s", "rush-hour-scaling"), ("twin report --pl", "--plan")],
)
def test_a_shell_completes_commands_options_and_scenarios(words, offered):
    environment = {"_TWIN_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = twin(**environment)
    assert offered in done.stdout.split(), done.stderr


def test_an_option_that_is_gone_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert "leave it out: every run is exact" in refused(capsys, "run", "smart-grid", "--fidelity", "exact")
