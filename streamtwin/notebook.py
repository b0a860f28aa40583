"""Runs and answers for `import streamtwin`, as data frames, which notebooks show."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, cast, get_args, get_type_hints

from typer.models import OptionInfo

from figures.job_map import job_map
from figures.svg import element, text
from figures.time_line import time_line
from scenarios.files.documents import document
from scenarios.files.run_folder import read_run as read_kept
from scenarios.files.run_folder import write_run
from scenarios.files.scenario_file import load
from streamtwin.answers import Presentation
from streamtwin.answers.verdict import verdict
from streamtwin.options import Written, parameters
from streamtwin.questions.question import OfScenario, Question
from streamtwin.questions.registry import QUESTIONS
from streamtwin.questions.runs import Compare, ComparePolicies, DryRun, FindCapacity, FindSensitivity, WhatIf
from streamtwin.report import check_ours, paragraph, run_page, scrolling, shortened, tables
from streamtwin.tables import run_tables
from streamtwin.tables.job_maps import drawn
from streamtwin.tables.run_tables import panels
from twin.deployment import Deployment
from twin.errors import BadInput, suggest
from twin.files import write_text
from twin.metrics import Metrics
from twin.run import Run
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.trace import EVENTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


# what is shown -------------------------------------------------------------------------------------------------------
# Objects that a notebook shows: rows as data frames, pictures, and answers (a frame, sentences, a document).


def frame(rows: Iterable[Any], index: str | None = None) -> DataFrame:
    """Data frame with a line a row. rows: mappings, or dataclasses such as those of `validate`. index: the column that

    names the rows. Raises KeyError if there is no such column.
    """
    from pandas import DataFrame

    made = DataFrame(list(rows))
    return made if index is None or not len(made) else made.set_index(index)


class Html(str):
    """HTML that a notebook shows; elsewhere it is text."""

    def __repr__(self) -> str:
        return "<HTML, for notebooks>"

    def _repr_html_(self) -> str:
        return str(self)


def picture(scenario: Deployment, run: Run | None = None) -> Html:
    """Drawing of a query on its hosts, coloured by a run if there is one; many operators are drawn in groups, with a
    note."""
    shown, told = drawn(scenario, run)
    return Html(scrolling(job_map(shown), label=shown.title) + (element("p", text(told)) if told else ""))


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to a question. result: of the type that the command gives. told: its presentation."""

    result: Any
    told: Presentation

    @property
    def document(self) -> Mapping[str, Any]:
        """Document that the command prints with --json."""
        return document(self.result)

    @property
    def frame(self) -> DataFrame:
        """Data frame of the command's table.csv; for variants a line a metric, with intervals, changes and words."""
        return frame(self.told.rows)

    @property
    def sentences(self) -> list[str]:
        """Answer in words; the first sentence says most."""
        return list(self.told.sentences)

    @property
    def warnings(self) -> list[str]:
        """Warnings and other notes on the answer."""
        return list(self.told.notes)

    def __repr__(self) -> str:
        return f"<Answer: {' '.join(self.sentences)}>"

    def _repr_html_(self) -> str:
        return "".join((*map(paragraph, self.sentences), *tables(self.told.tables)))


# runs ----------------------------------------------------------------------------------------------------------------
# Result of a run for people and programs: sentences, data frames, pictures, files.


Table = Literal["operators", "subtasks", "hosts", "links"]


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one simulated run. name: of the scenario. job: the job that was run. run: all of its results."""

    name: str
    job: Deployment
    run: Run

    @property
    def metrics(self) -> Metrics:
        """Metrics of the run: throughput, latencies, backpressure, success."""
        return self.run.metrics

    @property
    def verdict(self) -> str:
        """Sentences on whether the job keeps up, and on the bottleneck."""
        return verdict(self.job, self.run)

    @property
    def keeps_up(self) -> bool:
        """Whether results came, no records stayed unread, and no queue grew to the end."""
        return self.metrics.keeps_up

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of the run."""
        return self.run.warnings

    @property
    def operators(self) -> DataFrame:
        """Data frame with a line an operator, after the warm-up: rates, shares of time busy, backpressured, idle."""
        return frame(self.run.operators, "operator").drop(columns="subtasks")

    @property
    def subtasks(self) -> DataFrame:
        """Data frame with a line a subtask of each operator: the columns of `operators`, host and socket, and queue."""
        return frame(
            {"operator": operator.operator, **asdict(subtask)}
            for operator in self.run.operators
            for subtask in operator.subtasks
        )

    @property
    def hosts(self) -> DataFrame:
        """Data frame with a line a host: CPU in use, memory, bytes sent."""
        return frame(self.run.hosts, "host")

    @property
    def links(self) -> DataFrame:
        """Data frame with a line a network card, or direction of a link, that carried anything."""
        return frame(self.run.links, "link")

    @property
    def events(self) -> DataFrame:
        """Data frame with a line a change of the running job, in order; empty if there was none."""
        from pandas import DataFrame

        return DataFrame(list(self.run.event_rows), columns=EVENTS.names[1:])

    def periods(self, table: Table = "operators") -> DataFrame:
        """Data frame with a line a component and period of statistics; columns are those of `twin.trace`. Raises
        BadInput for an unknown table."""
        run = self.run
        rows = {"operators": run.operator_rows, "subtasks": run.subtask_rows, "hosts": run.host_rows}
        rows |= {"links": run.link_rows}
        if table not in rows:
            raise BadInput(f"periods({table!r}): {suggest(str(table), rows)}")
        return frame(rows[table])

    def over_time(self) -> DataFrame:
        """Data frame of rates, queues, latency quantiles and busy shares, by the second in which a period ends; columns
        (quantity, series). Queues are those at the end of the period; all else is over the whole period."""
        from pandas import DataFrame, Index

        shown = panels(self.run, by_window=False)
        parts = {(panel.title, name): line for panel in shown for name, line in panel.series.items()}
        at_s = next(panel.at_s for panel in shown if panel.levels)
        return DataFrame(parts, index=Index(at_s, name="at_s"), dtype=float)

    @property
    def picture(self) -> Html:
        """Drawing of the query on its hosts, coloured by the utilisation of operators."""
        return picture(self.job, self.run)

    @property
    def timelines(self) -> Html:
        """Time-lines of `over_time`, drawn in HTML."""
        return Html(element("div", *(time_line(panel) for panel in panels(self.run)), style="max-width: 82rem"))

    def figure(self) -> Figure:
        """Figure of `over_time` by Matplotlib, for print."""
        from figures.answers import run_panels

        return run_panels(panels(self.run))

    def report(self, file: str | Path) -> Path:
        """Writes the page of `twin report`. Raises BadInput if the file exists and is no report."""
        check_ours(Path(file))
        write_text(Path(file), run_page(self.name, self.job, self.run))
        return Path(file)

    def save(self, folder: str | Path) -> Path:
        """Writes the folder of `twin run --out`, from which `read_run` reads it. Raises BadInput if it exists."""
        write_run(self.run, self.name, Path(folder))
        return Path(folder)

    def __repr__(self) -> str:
        return f"<Result of {self.name}: {self.verdict}>"

    def _repr_html_(self) -> str:
        shown = tables(run_tables.of_run(self.name, shortened(self.run)[0])[:1])
        return "".join((paragraph(self.verdict), self.picture, *shown))


def run(scenario: Scenario | str, *, progress: Callable[[int, int], None] | None = None, **settings: Any) -> Result:
    """Simulates a scenario, or the one of that library name or file, under other run settings such as `horizon_s=60`.

    progress: called with (done, total) periods. Raises BadInput for a scenario or settings that are not valid.
    """
    wanted = load(scenario) if isinstance(scenario, str) else scenario
    wanted = wanted.with_run(**settings) if settings else wanted
    return Result(wanted.name, wanted, simulate(wanted, progress=progress))


def read_run(folder: str | Path) -> Result:
    """Reads the run in a folder that `twin run --out` or `Result.save` wrote. Raises BadInput if it holds none."""
    return Result(*read_kept(Path(folder)))


# questions -----------------------------------------------------------------------------------------------------------
# Questions of the command line in Python. Each returns an `Answer` with the result type of its command.
#
# All take `seed` (default: the scenario's own); `workers`, the number of processes (with more than one, a script needs
# `if __name__ == "__main__":`); `master`, a Spark master that makes the runs instead; and `audience`, which gets
# reports of the progress. All raise BadInput for questions that cannot be answered.


Of = ParamSpec("Of")


def _of_scenario(kind: Callable[Of, OfScenario]) -> Callable[Concatenate[Scenario | str, Of], Answer]:
    """Function that asks a question about a scenario, or about the one of that library name or file."""

    def ask(scenario: Scenario | str, *args: Of.args, **options: Of.kwargs) -> Answer:
        question = kind(*args, **options)
        _check_numbers(question)
        given = load(scenario) if isinstance(scenario, str) else scenario
        seeded = given if question.seed is None else given.with_run(seed=question.seed)
        return _answer(question, question.ask(seeded, question.runs))

    _describe(ask, cast(type[Question], kind))
    return ask


def _of_scenarios(kind: Callable[Of, Compare]) -> Callable[Concatenate[Mapping[str, Scenario], Of], Answer]:
    """Function that asks a question about scenarios, by label."""

    def ask(scenarios: Mapping[str, Scenario], *args: Of.args, **options: Of.kwargs) -> Answer:
        if not isinstance(scenarios, Mapping):
            raise BadInput("compare: scenarios without labels; give them as {'as given': one, 'better': another}")
        question = kind(*args, **options)
        _check_numbers(question)
        return _answer(question, question.ask([*scenarios.items()], question.runs))

    _describe(ask, cast(type[Question], kind))
    return ask


NUMBERS: Mapping[Any, type] = {int: Integral, float: Real, bool: bool, type(None): type(None)}
"""Types of the values of options that are numbers; NumPy's count, too."""


def _check_numbers(question: Question) -> None:
    """Raises BadInput for an option that is to be a number, or true or false, and is none."""
    for name, hint in get_type_hints(type(question)).items():
        kinds, value = get_args(hint) or (hint,), getattr(question, name, None)
        if not all(each in NUMBERS for each in kinds) or type(value) in kinds:
            continue
        if isinstance(value, bool) or not isinstance(value, tuple(NUMBERS[each] for each in kinds)):
            words = "a whole number" if int in kinds else "a number" if float in kinds else "True or False"
            raise BadInput(f"{question.command.replace('-', '_')}: {name}={value!r}; give {words}")


def _answer(question: Question, result: Any) -> Answer:
    return Answer(result, question.told()(result))


def _describe(function: Callable[..., Answer], kind: type[Question]) -> None:
    """Gives a function the name, options and description of its question."""
    common = {field.name for field in fields(Question)}
    given = next(iter(inspect.signature(function).parameters.values()))
    options = sorted(parameters(kind), key=lambda each: (each.kind, each.name in common))
    helps = [f"{each.name}: {words}" for each in options if (words := _help(each.annotation))]
    summary, _, _ = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")
    function.__name__ = function.__qualname__ = kind.command.replace("-", "_")
    function.__doc__ = "\n\n".join([f"{summary} As `twin {kind.command}`.", "\n".join(helps)])
    plain = get_type_hints(kind)
    typed = [each.replace(annotation=plain[each.name]) for each in options]
    function.__signature__ = inspect.Signature([given, *typed], return_annotation=Answer)  # type: ignore[attr-defined]


def _help(annotation: Any) -> str:
    """Help on the form of an option in Python; empty if a field is none."""
    about = get_args(annotation)
    told = [each.python for each in about if isinstance(each, Written) and each.python]
    told += [str(each.help).replace(" Repeatable.", "") for each in about if isinstance(each, OptionInfo)]
    return next(iter(told), "")


def function_of(name: str) -> Callable[..., Answer] | None:
    """Function of another question about a scenario, `my_question` of `twin my-question`; None if there is none."""
    kind = QUESTIONS.get(name.replace("_", "-"))
    return _of_scenario(kind) if kind is not None and issubclass(kind, OfScenario) else None


whatif = _of_scenario(WhatIf)
compare = _of_scenarios(Compare)
compare_policies = _of_scenario(ComparePolicies)
capacity = _of_scenario(FindCapacity)
dry_run = _of_scenario(DryRun)
sensitivity = _of_scenario(FindSensitivity)
