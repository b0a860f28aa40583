"""Commands of questions: where their runs are made and kept, and how their answers are shown; and `twin profile`.

What is asked, and its options, is in `streamtwin.questions`; what an answer looks like, in `streamtwin.answers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamtwin.cli.terminal import (
    AsJson,
    Events,
    Horizon,
    Interrupted,
    Quiet,
    ScenarioName,
    ScenarioSeed,
    Seed,
    Set,
    Terminal,
    hearing,
    kept,
    known_scenarios,
    scenario_of,
    with_events,
)
from streamtwin.options import Options
from streamtwin.questions.plans import (
    BenchmarkSuite,
    ImproveModel,
    OptimizePlan,
    Percentile,
    PlanRules,
    Searching,
    ValidatePlans,
)
from streamtwin.questions.question import OfScenario, Question, Runs
from streamtwin.questions.runs import Compare
from streamtwin.questions.shadow import MASTER, FollowJob
from twin.errors import BadInput

if TYPE_CHECKING:
    from streamtwin.connect.profiles import OperatorProfile
    from streamtwin.tables.tables import Wide
    from twin.scenario import Scenario


# commands from questions ---------------------------------------------------------------------------------------------
# Most commands follow from a question's class (`command`): its fields, and the options of all questions.


Workers = Annotated[
    int | None, typer.Option("--workers", metavar="N", help="Number of processes. Default: one a core.")
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Run on this Spark master instead: spark://HOST:PORT; the result is the same.",
    ),
]


@dataclass(frozen=True)
class Telling(Options):
    """Options of every question: where its answer is kept, and how it is printed."""

    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Keep runs, table.csv, figure.png and answer.json; resume there."),
    ] = None
    master: Master = None
    as_json: AsJson = False
    quiet: Quiet = False
    terminal: Terminal = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "terminal", Terminal(as_json=self.as_json, quiet=self.quiet))

    @property
    def runs(self) -> Runs:
        """Where the runs are made and kept."""
        return Runs(None, self.master, self.terminal, self.out, kept, command=True, note=self.terminal.note)

    def answered(self, question: Question, answer: Any) -> None:
        """Writes the files of the folder of --out, if any, and prints the answer, its tables, and last the notes."""
        presentation = question.told()(answer)
        if self.out is not None:
            from scenarios.files.documents import document
            from scenarios.files.run_folder import png
            from scenarios.questions.kept import write

            figure = None if presentation.figure is None else png(presentation.figure())
            write(self.out, document(answer), presentation.rows, figure)
            self.terminal.note(f"table.csv, figure.png and answer.json are in {self.out}")
        self.terminal.result(answer, "\n".join(presentation.sentences), *presentation.tables)
        for line in presentation.notes:
            self.terminal.note(line)


@dataclass(frozen=True)
class Answering(Telling):
    """Options of a question that makes runs: in how many processes, too."""

    workers: Workers = None

    @property
    def runs(self) -> Runs:
        """Where the runs are made and kept."""
        return replace(super().runs, workers=self.workers)


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
        return with_events(super().scenario(name, question), self.event)


def command(kind: type[Question]) -> Callable[..., None]:
    """Command of a question about a scenario, or about several. Its options are the fields of the question, then those
    of all."""
    if not issubclass(kind, OfScenario):
        return compare

    def ask(scenario: str, question: OfScenario, asking: AskingGiven) -> None:
        asking.answered(question, question.ask(asking.scenario(scenario, question.doing), asking.runs))

    its_own = any(each.name == "events" for each in fields(kind))
    asking = AskingGiven if its_own else AskingOne
    ask.__annotations__ = {"scenario": ScenarioName, "question": kind, "asking": asking}
    return ask


def compare(
    scenarios: Annotated[
        list[str],
        typer.Argument(
            metavar="A B...",
            help="Names from `twin list`, or YAML files; the others are compared with the first.",
            autocompletion=known_scenarios,
        ),
    ],
    question: Compare,
    asking: AskingOne,
) -> None:
    asking.terminal.stage(f"reading {', '.join(scenarios)}")
    given = [(name, scenario_of(name, asking.set_, asking.event, horizon_s=asking.horizon)) for name in scenarios]
    asking.answered(question, replace(question, seed=asking.seed).ask(given, asking.runs))


# commands with parameters of their own -------------------------------------------------------------------------------
# They are about plans, or about a running job: `twin optimize`, `validate`, `benchmark`, `shadow` and `improve`.


def optimize(
    *,
    scenario: ScenarioName,
    set_: Set = None,
    event: Events = None,
    question: OptimizePlan,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the scenario with its new plan.")] = None,
    seed: ScenarioSeed = None,
    searching: Searching,
    rules: PlanRules,
    workers: Workers = None,
    master: Master = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the path of a search by runs: the plan kept (PNG).")
    ] = None,
    terminal: Terminal,
) -> None:
    from scenarios.files import scenario_file
    from scenarios.files.run_folder import check_file, write_text
    from streamtwin.tables import chosen_plan

    check_file(out, figure)
    if searching.budget is None and (figure is not None or workers is not None or master is not None):
        raise BadInput("--figure, --workers and --master are for searches by runs; give --budget 20 or --budget 40runs")
    loaded = scenario_of(scenario, set_, event, seed=seed)
    runs = Runs(workers, master, terminal, note=terminal.note)
    search = question.search(loaded, searching, rules, runs)
    with terminal.search(search.objective) as report, hearing(terminal.note) as heard, runs.executor({}) as executor:
        solved = search.solve(search.problem(heard, report), executor, runs.at_once)
    solution = solved.solution
    if out is not None:
        write_text(scenario_file.dump(loaded.with_plan(solution.plan)), out)
        terminal.note(f"scenario written to {out}; run it with: twin run {out}")
    found = search.found(solved, heard())
    if figure is not None and found.by_runs is not None:
        from figures.answers import search_path
        from scenarios.files.run_folder import png, write_bytes

        told = found.by_runs.told
        write_bytes(png(search_path(told.table, told.runs, search.objective)), figure)
        terminal.note(f"figure written to {figure}")
    terminal.result(found.answer, *chosen_plan.told(found))
    for note in filter(None, (solution.message, chosen_plan.moved_ends(loaded.query, loaded.plan, solution.plan))):
        terminal.note(f"note: {note}")
    if found.interrupted:
        raise Interrupted("the plan is the best so far" + (f", in {out}" if out is not None else ""))


def validate(
    *,
    scenarios: Annotated[
        list[str], typer.Argument(metavar="SCENARIO...", help="Names from `twin list`, or YAML files.")
    ],
    set_: Set = None,
    event: Events = None,
    seed: Seed = 0,
    question: ValidatePlans,
    answering: Answering,
) -> None:
    given = [scenario_of(name, set_, event) for name in scenarios]
    answering.answered(question, question.ask(given, seed, answering.runs))


def benchmark(*, question: BenchmarkSuite, seed: Seed = 0, answering: Answering) -> None:
    answering.answered(question, question.ask(seed, answering.runs))


@dataclass(frozen=True)
class Improving(Answering):
    """Options of every question, where --out has a default: there is always a folder."""

    out: Annotated[Path, typer.Option(metavar="DIR", help="Keep runs, models, table and figure; resume there.")] = Path(
        "improved"
    )


@dataclass(frozen=True)
class Following(Telling):
    """Options of a question about a running job, where --out has a default: there is always a folder."""

    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Keep statistics, forecasts, alerts and the answer; resume there.")
    ] = Path("shadow")
    master: Annotated[str, typer.Option(metavar="URL", help="Spark master that reads.")] = MASTER


def shadow(*, scenario: ScenarioName, set_: Set = None, question: FollowJob, following: Following) -> None:
    given = scenario_of(scenario, set_)
    following.answered(question, question.ask(given, following.out, following.runs))


def improve(*, question: ImproveModel, seed: Seed = 0, answering: Improving) -> None:
    answering.answered(question, question.ask(seed, answering.out, answering.runs))


# profiles of operators -----------------------------------------------------------------------------------------------


def profile(
    scenario: ScenarioName,
    set_: Set = None,
    samples: Annotated[int, typer.Option(min=1, help="Records that each operator is measured on.")] = 10_000,
    percentile: Percentile = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the profiles, for `twin optimize --profile`.")
    ] = None,
    figure: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the distributions of times (PNG).")] = None,
    seed: ScenarioSeed = None,
    *,
    terminal: Terminal,
) -> None:
    """Runs each operator alone, on a core of its own: the distribution of its time per record, and more.

    Examples: `twin profile briskstream-wc` · `twin profile briskstream-lr --out lr.json --figure lr.png`, then
    `twin optimize briskstream-lr --optimizer rlas --profile lr.json --percentile 90`
    """
    from scenarios.files.run_folder import check_file, write_bytes, write_text
    from streamtwin.connect.profiles import MEDIAN, check_percentile, dump, profiles_of
    from streamtwin.connect.profiles import profile as measured

    check_file(out, figure)
    chosen = check_percentile(MEDIAN if percentile is None else percentile)
    loaded = scenario_of(scenario, set_, seed=seed)
    seed = loaded.run.seed
    with terminal.progress("operators profiled") as report:
        found = measured(loaded.deployment, samples, seed, report)
    profiles = profiles_of(loaded, found, samples, seed)
    if out is not None:
        write_text(dump(profiles), out)
        terminal.note(f"profiles written to {out}; plan with: twin optimize {scenario} --profile {out}")
    if figure is not None:
        from figures.charts import profile_times
        from scenarios.files.run_folder import png

        write_bytes(png(profile_times({name: each.times_s for name, each in found.items()})), figure)
        terminal.note(f"figure written to {figure}")
    document = {**profiles.model_dump(mode="json"), "percentile": chosen}
    terminal.result(document, _profile_table(loaded.name, found, chosen))


def _profile_table(name: str, found: Mapping[str, OperatorProfile], percentile: float) -> Wide:
    from streamtwin.tables import tables

    shown = dict.fromkeys((5.0, percentile, 95.0, 99.0))
    columns = {"operator": "operator", "samples": "samples", "mean": "mean"}
    columns |= {str(each): f"{each:g} %" for each in sorted(shown)}
    columns |= {"memory": "memory (B)", "input": "input (B)", "output": "output (B)", "selectivity": "results/input"}
    rows = [
        {
            "operator": operator,
            "samples": each.samples,
            "mean": tables.seconds(each.mean_s),
            **{str(point): tables.seconds(each.time_s(point)) for point in shown},
            "memory": each.memory_bytes,
            "input": each.input_bytes,
            "output": each.output_bytes,
            "selectivity": each.selectivity,
        }
        for operator, each in found.items()
    ]
    return tables.of_rows(f"{name}: time a record on one reference core, and what it reads and makes", columns, rows)
