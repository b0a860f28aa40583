"""Command `twin import flink`: a running job of Apache Flink as a scenario, and its readings as an operating point."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamtwin.cli.given import NewYaml
from streamtwin.cli.importing import Points
from streamtwin.cli.terminal import Terminal

if TYPE_CHECKING:
    from streamtwin.connect.importers.flink_answers import Answers


def flink(
    source: Annotated[
        str, typer.Argument(metavar="URL|DIR", help="The REST endpoint of a cluster, or a folder of saved answers.")
    ],
    terminal: Terminal,
    out: NewYaml = None,
    job: Annotated[str | None, typer.Option(help="Name or id of the job, where there are several.")] = None,
    window: Annotated[float, typer.Option(min=1.0, metavar="S", help="How long a live job is watched.")] = 20.0,
    offered: Annotated[
        list[str] | None, typer.Option(metavar="SOURCE=RATE", help="What arrives at a source. Repeatable.")
    ] = None,
    points: Points = None,
    point: Annotated[str | None, typer.Option(help="Name of the readings in that table. Default: the job's.")] = None,
    save: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the answers, to import them again.")] = None,
) -> None:
    """A running Flink job as a scenario: its plan, rates, selectivities, service times, sizes, state and machines.

    Examples: `twin import flink http://localhost:8081 --out job.yaml --points a.csv --point 1`, again at other rates,
    then `twin calibrate job.yaml a.csv`
    """
    from scenarios.calibration.point_files import with_point
    from scenarios.files import scenario_file
    from scenarios.files.traces import check_free
    from streamtwin.connect.importers.flink_job import read_job
    from streamtwin.connect.importers.flink_scenario import scenario_of
    from twin.atomic import write_bytes

    check_free(out, save)
    rates = _rates(offered or [])
    answers = _answers(terminal, source, job, window)
    imported = scenario_of(read_job(answers), rates)
    for note in imported.notes:
        terminal.note(f"note: {note}")
    if points is not None:
        write_bytes(points, with_point(points, point or imported.scenario.name, imported.readings).encode())
    if save is not None:
        _save(answers, save)
    words = f"scenario {imported.scenario.name!r} in {out}; run it with: twin run {out}"
    terminal.file(scenario_file.dump(imported.scenario), out, imported, words)


def _answers(terminal: Terminal, source: str, job: str | None, window_s: float) -> Answers:
    from streamtwin.connect.importers.flink_answers import from_endpoint, from_folder, without_credentials
    from twin.errors import BadInput

    if source.lower().startswith(("http://", "https://")):
        with terminal.progress("answers") as report:
            return from_endpoint(source, job, window_s, report)
    if not Path(source).is_dir():
        shown = without_credentials(source)
        raise BadInput(f"{shown} is neither an address (http://host:8081) nor a folder of saved answers")
    return from_folder(Path(source), job)


def _rates(offered: list[str]) -> dict[str, float]:
    from twin.errors import BadInput

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

    from twin.atomic import new_folder

    with new_folder(folder) as aside:
        for name, answer in answers.saved().items():
            (aside / name).write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
