"""What the commands that ask questions share: their options, and how they end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scenarios.files.documents import document
from streamtwin.cli.interruption import kept
from streamtwin.cli.terminal import Terminal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from scenarios.questions.bench import Bench, Of
    from scenarios.questions.replications import Wanted
    from streamtwin.answers.presentation import Presentation
    from twin.scenario import Scenario

Metric = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="What to compare, such as e2e_latency_s.p99 or hosts.HOST.cpu. Repeatable. "
        "Default: throughput, latency and its p99.",
    ),
]
Replications = Annotated[
    int, typer.Option("--replications", metavar="N", help="Runs of each variant; with --precision, the first ones.")
]
Precision = Annotated[
    str | None,
    typer.Option("--precision", metavar="SHARE", help="Add runs until every 95 % interval is this narrow: 2%."),
]
Workers = Annotated[
    int | None, typer.Option("--workers", metavar="N", help="Processes; the result is the same. Default: one a core.")
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master", metavar="URL", help="Run on this Spark master instead: spark://HOST:PORT; the result is the same."
    ),
]
OutFolder = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Keep runs, table.csv, figure.png and answer.json; go on from there."),
]


def bench(terminal: Terminal, workers: int | None, master: str | None, of: Of | None = None) -> Bench:
    """Where the runs of a question are made. of: what is kept of a run; absent: its measures."""
    from scenarios.executing.chosen import executor
    from scenarios.questions.bench import Bench, outcome

    return Bench(executor(workers, master, terminal.stage), of or outcome)


def keeping(out: Path | None) -> AbstractContextManager[None]:
    """What an interruption leaves of a question."""
    return nullcontext() if out is None else kept(f"the finished runs in {out}")


def adjusted(scenario: str, set_: Sequence[str] | None, seed: int | None) -> Scenario:
    """The scenario of that name or file with the values of --set and --seed."""
    from scenarios.files import scenario_file
    from scenarios.files.overrides import set_values

    seeds = [] if seed is None else [f"run.seed={seed}"]
    return set_values(scenario_file.load(scenario), [*(set_ or []), *seeds])


def wanted(replications: int, precision: str | None) -> Wanted:
    """Checked before any work is done."""
    from scenarios.questions.ranges import share
    from scenarios.questions.replications import Wanted

    found = Wanted(replications, None if precision is None else share(precision))
    found.check()
    return found


def metric_names(given: Sequence[str] | None, scenarios: Iterable[Scenario]) -> list[str]:
    """In full, each once. Raises BadInput if one of the scenarios has none such, which would look like 0."""
    from scenarios.questions.measures import USUAL, full_name

    asked = given or USUAL
    found = [[full_name(each, scenario, f"--metric, {scenario.name}") for each in asked] for scenario in scenarios]
    return list(dict.fromkeys(found[0]))


def answered(terminal: Terminal, answer: Any, told: Presentation, out: Path | None = None) -> None:
    """How a question ends: its notes, the files in its folder, if there is one, and the answer."""
    from scenarios.files.pictures import png
    from scenarios.questions import folder

    for line in told.notes:
        terminal.note(line)
    if out is not None:
        folder.write(out, document(answer), told.rows, None if told.figure is None else png(told.figure()))
        terminal.note(f"table.csv, figure.png and answer.json are in {out}")
    terminal.result(answer, "\n".join(told.sentences), *told.tables)


def write(
    terminal: Terminal, out: Path, found: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], figure: Figure | None
) -> None:
    """The answer's files."""
    from scenarios.files.pictures import png
    from scenarios.questions import folder

    folder.write(out, document(found), rows, None if figure is None else png(figure))
    terminal.note(f"table.csv, figure.png and answer.json are in {out}")
