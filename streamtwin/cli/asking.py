"""Options that all commands with a question share, the making of their runs, and the printing of their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from scenarios.files.documents import document
from streamtwin.cli.given import Events, Horizon, Set, scenario_of
from streamtwin.cli.interruption import kept
from streamtwin.cli.options import Options
from streamtwin.cli.terminal import AsJson, Quiet, ScenarioSeed, Terminal

if TYPE_CHECKING:
    from scenarios.questions.bench import Bench, Of
    from scenarios.questions.replications import Wanted
    from streamtwin.answers.presentation import Presentation
    from twin.scenario import Scenario

Workers = Annotated[
    int | None, typer.Option("--workers", metavar="N", help="Number of processes. Default: one a core.")
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master", metavar="URL", help="Run on this Spark master instead: spark://HOST:PORT; the result is the same."
    ),
]
OutFolder = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Keep runs, table.csv, figure.png and answer.json; resume there."),
]
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Answering(Options):
    """Options of every question: where its runs are made and kept, and how the answer is printed."""

    out: OutFolder = None
    workers: Workers = None
    master: Master = None
    as_json: AsJson = False
    quiet: Quiet = False
    terminal: Terminal = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "terminal", Terminal(as_json=self.as_json, quiet=self.quiet))

    @contextmanager
    def bench(self, of: Of | None = None, keeps: str = "the finished runs") -> Iterator[Bench]:
        """Context with the bench that makes the runs of a question. of: makes a run, and returns its outcome; None: the
        measures. keeps: words for what an interrupted command finds again."""
        from scenarios.executing.processes import executor
        from scenarios.questions.bench import Bench, outcome

        made_by = executor(self.workers, self.master, self.terminal.stage)
        keeping = nullcontext() if self.out is None else kept(f"{keeps} in {self.out}")
        with keeping, Bench(made_by, of or outcome) as made:
            yield made

    def keep(self, bench: Bench, question: Mapping[str, Any]) -> None:
        """Makes the bench keep runs in the folder of --out, if any. Runs that it holds are not made again.

        Raises BadInput if it holds the answer to another question.
        """
        from scenarios.questions import folder

        bench.kept = folder.opened(self.out, question)

    def answered(self, answer: Answer, told: Callable[[Answer], Presentation]) -> None:
        """Prints the notes, writes the files of the folder of --out, if any, and prints the answer."""
        presentation = told(answer)
        for line in presentation.notes:
            self.terminal.note(line)
        if self.out is not None:
            from scenarios.files.pictures import png
            from scenarios.questions import folder

            figure = None if presentation.figure is None else png(presentation.figure())
            folder.write(self.out, document(answer), presentation.rows, figure)
            self.terminal.note(f"table.csv, figure.png and answer.json are in {self.out}")
        self.terminal.result(answer, "\n".join(presentation.sentences), *presentation.tables)


@dataclass(frozen=True)
class AskingGiven(Answering):
    """Options of a question about one scenario: those of every question, --set, --horizon and --seed."""

    set_: Set = None
    horizon: Horizon = None
    seed: ScenarioSeed = None

    def scenario(self, name: str, question: str) -> Scenario:
        """Scenario of a name or file, with the values of these options. question: for progress messages."""
        self.terminal.stage(f"{question}: reading {name}")
        return scenario_of(name, self.set_, horizon_s=self.horizon, seed=self.seed)


@dataclass(frozen=True)
class AskingOne(AskingGiven):
    """Options of a question about one scenario, with --event, which adds events to it."""

    event: Events = None

    def scenario(self, name: str, question: str) -> Scenario:
        """Scenario of a name or file, with the values of these options. question: for progress messages."""
        from scenarios.questions.alterations import with_all_events

        return with_all_events(super().scenario(name, question), self.event or ())


@dataclass(frozen=True)
class Comparing(Options):
    """Options of a comparison: its metrics, and their precision."""

    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="What to compare, such as e2e_latency_s.p99 or hosts.HOST.cpu. Repeatable. "
            "Default: throughput, latency and its p99.",
        ),
    ] = None
    replications: Annotated[
        int, typer.Option(metavar="N", help="Runs of each variant; with --precision, the first ones.")
    ] = 10
    precision: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Add runs until every 95 % interval is this narrow: 2%.")
    ] = None

    def wanted(self) -> Wanted:
        """Number of runs, or precision of means, that is wanted. Raises BadInput if the options make no sense."""
        from scenarios.questions.ranges import share
        from scenarios.questions.replications import Wanted

        wanted = Wanted(self.replications, None if self.precision is None else share(self.precision))
        wanted.check()
        return wanted

    def metrics(self, scenarios: Iterable[Scenario]) -> list[str]:
        """Full names of the metrics. Raises BadInput if a scenario lacks one."""
        from scenarios.questions.measures import USUAL, full_names

        return full_names(self.metric or USUAL, scenarios, "--metric")
