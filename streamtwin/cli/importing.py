"""Commands of `twin import`: what real engines and machines tell, as a scenario, training rows or a host; and `twin
validate-runs`, which checks the twin on real runs.

What a file means is read in `streamtwin.connect.importers`. Here are options, notes, and the files that are written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamtwin.cli.terminal import NewYaml, ScenarioName, Seed, Set, Terminal, scenario_of
from streamtwin.options import Options
from twin.errors import BadInput, some_of

if TYPE_CHECKING:
    from streamtwin.connect.importers.flink_answers import Answers
    from streamtwin.connect.importers.hardware import Machine, MemoryDistances
    from streamtwin.connect.importers.kafka_streams import ImportedTopology
    from streamtwin.connect.importers.run_graph import ImportedRun

# real runs -----------------------------------------------------------------------------------------------------------
# A run is told by a published graph, or by metrics as a time-series database exports them.


Points = Annotated[
    Path | None, typer.Option("--points", metavar="CSV", help="Add the readings to a table for `twin calibrate`.")
]


def run_graph(
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="A .graph file of a real Flink run (ZeroTune's form).")
    ],
    out: NewYaml = None,
    _seed: Seed = 0,
    *,
    terminal: Terminal,
) -> None:
    """A published graph of a real Flink run as a scenario, with the rates that were measured beside it.

    Example: `twin import run-graph run.graph --out run.yaml`, then `twin run run.yaml`
    """
    from scenarios.files.run_folder import check_file
    from streamtwin.connect.importers.run_graph import read_run_graph

    check_file(out)
    _tell(read_run_graph(source), out, terminal)


def _tell(imported: ImportedRun | ImportedTopology, out: Path | None, terminal: Terminal) -> None:
    """Writes the scenario that was imported, with its notes."""
    from scenarios.files import scenario_file

    for note in imported.notes:
        terminal.note(f"note: {note}")
    words = f"scenario {imported.scenario.name!r} in {out}; run it with: twin run {out}"
    terminal.file(scenario_file.dump(imported.scenario), out, imported, words)


def validate_runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of .graph files of real runs.")],
    horizon: Annotated[float | None, typer.Option(metavar="S", help="Simulated seconds a run.")] = None,
    seed: Seed = 0,
    *,
    terminal: Terminal,
) -> None:
    """Imports and simulates every run graph below DIR, and compares predicted with measured rates of each operator.

    Example: `twin validate-runs runs --json`
    """
    from streamtwin.connect.importers.run_graph import SETTINGS, validate
    from streamtwin.tables import tables
    from twin.scenario import RunSettings
    from twin.simulation import simulate
    from twin.spec import parse

    changes = {"seed": seed} | ({} if horizon is None else {"horizon_s": horizon})
    settings = parse(RunSettings, {**SETTINGS.model_dump(mode="json"), **changes}, "--horizon")
    terminal.stage(f"importing and simulating the runs in {folder}")
    answer = validate(folder, settings, simulate)
    for name, reason in answer.failed.items():
        terminal.note(f"left out: {name}: {reason}")
    shown = (
        ("relative errors beside what needs no simulation", answer.beside),
        ("relative errors by quantity", answer.by_quantity),
        ("by query family", answer.by_family),
    )
    groups = [tables.of_errors(title, errors) for title, errors in shown]
    median = f"{answer.median_relative_error:.1%}"
    words = f"{answer.runs} runs, {len(answer.failed)} left out; median relative error {median}"
    terminal.result(answer, *groups, words)


def metrics(
    scenario: ScenarioName,
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="Samples (CSV, Parquet): time, metric, value, and labels.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="New folder of training rows.")],
    points: Points = None,
    set_: Set = None,
    *,
    terminal: Terminal,
) -> None:
    """Metrics of measured runs of one scenario, as a time-series database exports them: a training row a run.

    Labels: `run`, `operator` (or Flink's `task_name`), `subtask_index`, `host`; a column with dots sets a value of the
    scenario in that run.

    Example: `twin import metrics job.yaml prometheus.csv rows --points points.csv`, then `twin evaluate MODEL rows`
    """
    from scenarios.calibration.points import check, check_subtasks, points_of, training_row, with_point, write_rows
    from scenarios.files.run_folder import check_free
    from streamtwin.connect.importers.prometheus import read_metrics
    from twin.files import write_bytes

    check_free(out)
    loaded, runs = scenario_of(scenario, set_), read_metrics(source)
    rows = []
    table = ""
    for index, run in enumerate(runs):
        (point,) = points_of(run.rows, loaded, f"{source}, run {run.name}")
        check([point])
        for problem in check_subtasks(point, run.subtasks):
            terminal.note(f"note: run {run.name}: {problem}; a column plan.placement.NAME gives the plan of a run")
        rows.append(training_row(point, index, max(run.seconds, 1e-3)))
        if run.skipped:
            terminal.note(f"note: run {run.name}: metrics not read: {some_of(run.skipped)}")
        if run.unmeasured:
            terminal.note(
                f"note: run {run.name}: samples without a finite value are left out, of {some_of(run.unmeasured)}"
            )
        if points is not None:
            readings = [{key: value for key, value in row.items() if key != "point"} for row in run.rows]
            table = with_point(points, run.name, readings, table)
    write_rows(rows, out)
    if points is not None:
        write_bytes(points, table.encode())
    terminal.result({"rows": len(rows)}, f"{len(rows)} measured training rows in {out}")


# Kafka Streams -------------------------------------------------------------------------------------------------------


def kafka_streams(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="What Topology.describe() prints.")],
    out: NewYaml = None,
    _seed: Seed = 0,
    *,
    terminal: Terminal,
) -> None:
    """The topology of a Kafka Streams program as a scenario; what it does not tell is assumed, and listed.

    Example: `twin import kafka-streams topology.txt --out job.yaml`, then `twin run job.yaml`
    """
    from scenarios.files import scenario_file
    from scenarios.files.run_folder import check_file
    from streamtwin.connect.importers.kafka_streams import read_topology

    check_file(out)
    _tell(read_topology(scenario_file.read_text(source), source.stem, str(source)), out, terminal)


# Flink ---------------------------------------------------------------------------------------------------------------
# A running job, and a configuration.


def flink(
    source: Annotated[
        str, typer.Argument(metavar="URL|DIR|FILE", help="The REST endpoint of a cluster, or saved answers.")
    ],
    out: NewYaml = None,
    job: Annotated[str | None, typer.Option(help="Name or id of the job, where there are several.")] = None,
    window: Annotated[float, typer.Option(min=1.0, metavar="S", help="How long a live job is watched.")] = 20.0,
    offered: Annotated[
        list[str] | None, typer.Option(metavar="SOURCE=RATE", help="What arrives at a source. Repeatable.")
    ] = None,
    points: Points = None,
    point: Annotated[str | None, typer.Option(help="Name of the readings in that table. Default: the job's.")] = None,
    save: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the answers, to import them again.")] = None,
    *,
    terminal: Terminal,
) -> None:
    """A running Flink job as a scenario: its plan, rates, selectivities, service times, sizes, state and machines.

    Examples: `twin import flink http://localhost:8081 --out job.yaml --points a.csv --point 1`, again at other rates,
    then `twin calibrate job.yaml a.csv`
    """
    from scenarios.calibration.points import with_point
    from scenarios.files import scenario_file
    from scenarios.files.run_folder import check_file, check_free
    from streamtwin.connect.importers.flink_job import read_job
    from streamtwin.connect.importers.flink_scenario import scenario_of as scenario_of_job
    from twin.files import write_bytes

    check_file(out)
    check_free(save)
    rates = _rates(offered or [])
    answers = _answers(terminal, source, job, window)
    if save is not None:  # before anything in them is refused: the moment does not come again
        _save(answers, save)
    imported = scenario_of_job(read_job(answers), rates)
    for note in imported.notes:
        terminal.note(f"note: {note}")
    if points is not None and not imported.readings:
        raise BadInput("this job's records cross no channel, so nothing tells its rate; add --offered SOURCE=RATE")
    if points is not None:
        write_bytes(points, with_point(points, point or imported.scenario.name, imported.readings).encode())
    words = f"scenario {imported.scenario.name!r} in {out}; run it with: twin run {out}"
    terminal.file(scenario_file.dump(imported.scenario), out, imported, words)


def _answers(terminal: Terminal, source: str, job: str | None, window_s: float) -> Answers:
    from streamtwin.connect.importers.flink_answers import from_file, from_folder
    from streamtwin.connect.importers.flink_live import from_endpoint, without_credentials

    if source.lower().startswith(("http://", "https://")):
        return from_endpoint(source, job, window_s, terminal)
    if Path(source).is_file():
        return from_file(Path(source))
    if not Path(source).is_dir():
        shown = without_credentials(source)
        meant = f"; if it is an address, write http://{shown}" if re.fullmatch(r"[^/\s]+:\d+", shown) else ""
        raise BadInput(
            f"{shown} is neither an address (http://host:8081) nor a folder of saved answers, nor one of them{meant}"
        )
    return from_folder(Path(source), job)


def _rates(offered: list[str]) -> dict[str, float]:

    rates = {}
    for assignment in offered:
        name, equals, text = assignment.rpartition("=")
        try:
            rates[name] = float(text)
        except ValueError:
            equals = ""
        if not equals or not rates[name] > 0:
            raise BadInput(f"--offered {assignment}: write SOURCE=RATE with a rate above 0, such as gen=2000")
    return rates


def _save(answers: Answers, folder: Path) -> None:
    import json

    from twin.files import new_folder

    with new_folder(folder) as aside:
        for name, answer in answers.saved().items():
            (aside / name).write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")


def flink_config(
    scenario: ScenarioName,
    source: Annotated[Path, typer.Argument(metavar="FILE", help="config.yaml, flink-conf.yaml, or a FlinkDeployment.")],
    out: NewYaml = None,
    set_: Set = None,
    *,
    terminal: Terminal,
) -> None:
    """A scenario with what a configuration of Flink sets; what it has no place for is listed, with what to write.

    Example: `twin import flink-config job.yaml flink-conf.yaml --out tuned.yaml`, then
    `twin compare job.yaml tuned.yaml`
    """
    from scenarios.files import scenario_file
    from scenarios.files.run_folder import check_file
    from streamtwin.connect.importers.flink_config import settings_in, with_settings

    check_file(out)
    settings = settings_in(scenario_file.read_text(source), str(source))
    imported = with_settings(scenario_of(scenario, set_), settings, str(source))
    for note in imported.notes:
        terminal.note(f"note: {note}")
    words = f"{len(imported.values)} of {len(settings)} settings are in {out}; compare: twin compare {scenario} {out}"
    terminal.file(scenario_file.dump(imported.scenario), out, imported, words)


# machines ------------------------------------------------------------------------------------------------------------
# A machine becomes a host with sockets, distances and bandwidths.


Mlc = Annotated[
    Path | None, typer.Option("--mlc", metavar="FILE", help="What mlc measured there: latencies and bandwidths.")
]


@dataclass(frozen=True)
class AsHost(Options):
    """Options of the host that a machine becomes, and of the file to which it is written."""

    name: Annotated[str, typer.Option(help="Name of the host.")] = "host"
    core_percent: Annotated[float, typer.Option(min=1e-3, help="Speed of one core; 100: a reference core.")] = 100.0
    out: NewYaml = None

    def tell(self, machine: Machine, memory: MemoryDistances | None, terminal: Terminal) -> None:
        """Writes a cluster of one host, the machine."""
        from scenarios.files.run_folder import check_file
        from scenarios.files.yaml_text import to_text
        from streamtwin.connect.importers.hardware import cluster_of

        check_file(self.out)
        cluster, notes = cluster_of(machine, memory, self.name, self.core_percent)
        for note in notes:
            terminal.note(f"note: {note}")
        document = cluster.model_dump(mode="json", exclude_defaults=True)
        words = f"cluster of one host in {self.out}"
        terminal.file(to_text(document), self.out, {"cluster": document, "notes": notes}, words)


def lstopo(
    source: Annotated[Path, typer.Argument(metavar="XML", help="Written by `lstopo --of xml FILE` (hwloc).")],
    mlc: Mlc = None,
    *,
    host: AsHost,
    terminal: Terminal,
) -> None:
    """A machine as hwloc sees it, as a cluster of one host.

    Example: `twin import lstopo machine.xml --out host.yaml`, then `twin run JOB --set "cluster=$(cat host.yaml)"`
    """
    from scenarios.files.scenario_file import read_text
    from streamtwin.connect.importers.hardware import read_lstopo

    host.tell(read_lstopo(read_text(source), str(source)), None if mlc is None else _measured(mlc), terminal)


def numactl(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="What `numactl --hardware` printed.")],
    threads_per_core: Annotated[int, typer.Option(min=1, help="numactl lists processing units, not cores.")] = 1,
    mlc: Mlc = None,
    *,
    host: AsHost,
    terminal: Terminal,
) -> None:
    """A machine as numactl sees it, as a cluster of one host.

    Example: `numactl --hardware > numa.txt`, then `twin import numactl numa.txt --threads-per-core 2`
    """
    from scenarios.files.scenario_file import read_text
    from streamtwin.connect.importers.hardware import read_numactl

    machine = read_numactl(read_text(source), str(source), threads_per_core)
    host.tell(machine, None if mlc is None else _measured(mlc), terminal)


def mlc_alone(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="Latencies or bandwidths that Intel's mlc printed.")],
    cores: Annotated[int, typer.Option(min=1, help="Cores of each socket; mlc does not say.")],
    ram_mb: Annotated[float, typer.Option(min=1e-3, help="Memory of the machine; mlc does not say.")],
    *,
    host: AsHost,
    terminal: Terminal,
) -> None:
    """Measured latencies and bandwidths between sockets, as a cluster of one host.

    Example: `mlc --latency_matrix > mlc.txt; mlc --bandwidth_matrix >> mlc.txt`, then
    `twin import mlc mlc.txt --cores 16 --ram-mb 256000`
    """
    from streamtwin.connect.importers.hardware import Machine

    memory = _measured(source)
    nodes = len(memory.latency_ns or memory.bandwidth_gbps or ())
    host.tell(Machine(cores=(cores,) * nodes, ram_mb=ram_mb, distances=None), memory, terminal)


def _measured(path: Path) -> MemoryDistances:
    from scenarios.files.scenario_file import read_text
    from streamtwin.connect.importers.hardware import read_mlc

    return read_mlc(read_text(path), str(path))
