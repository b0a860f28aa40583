"""Commands `twin list`, `show`, `schema` and `version`, which run nothing.

Commands `twin demo`, which shows the whole loop, small, and `twin serve`, which serves a page for questions.

Command `twin reproduce`: published experiments, our results beside the paper's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from streamtwin.cli.learning import Master
from streamtwin.cli.terminal import (
    ScenarioName,
    Seed,
    Set,
    Terminal,
    kept,
    known_documents,
    known_scenarios,
    scenario_of,
)
from streamtwin.package import PAPERS
from twin import VERSION
from twin.errors import BadInput, suggest


def list_all(
    part: Annotated[
        str | None,
        typer.Argument(metavar="PART", help="scenarios, optimizers, policies, ...: lists these with descriptions."),
    ] = None,
    _seed: Seed = 0,
    *,
    terminal: Terminal,
) -> None:
    """The names of scenarios, optimizers, policies, cost models and experiments, or the descriptions of one part.

    Examples: `twin list` · `twin list scenarios` · `twin list --json`
    """
    from scenarios.files import registry
    from streamtwin import catalogue
    from streamtwin.tables import tables

    scenarios = {name: registry.summary(registry.find(name)) for name in registry.names()}
    parts = {
        "scenarios": scenarios,
        "optimizers": catalogue.optimizers(),
        "policies": catalogue.policies(),
        "cost_models": dict(catalogue.COST_MODELS),
        "spaces": catalogue.spaces(),
        "families": catalogue.families(),
        "experiments": catalogue.experiments(),
        "kinds": catalogue.kinds(),
    }
    if part is None:
        terminal.result(
            parts, *tables.names(parts), "what each of them is: twin list PART, such as twin list scenarios"
        )
        return
    wanted = part.replace("-", "_").replace(" ", "_")
    if wanted not in parts:
        raise BadInput(f"twin list {part}: {suggest(wanted, parts)}")
    terminal.result(parts, tables.glossary(part, parts[wanted]))


def show(scenario: ScenarioName, set_: Set = None, _seed: Seed = 0, *, terminal: Terminal) -> None:
    """Prints a scenario as YAML, ready to be saved and changed.

    Example: `twin show smart-grid > mine.yaml`, then `twin run mine.yaml`
    """
    from scenarios.files import scenario_file

    loaded = scenario_of(scenario, set_)
    terminal.file(scenario_file.dump(loaded), None, loaded.model_dump(mode="json"))


def schema(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND",
            help="What this command prints with --json. Default: a scenario file.",
            autocompletion=known_documents,
        ),
    ] = None,
    _seed: Seed = 0,
    *,
    terminal: Terminal,
) -> None:
    """Prints the JSON Schema of a scenario file, or of what a command prints with --json.

    Examples: `twin schema > scenario.schema.json` · `twin schema run` · `twin schema import flink`
    """
    import json

    from scenarios.files import scenario_file
    from streamtwin.schemas import schema_of

    found = scenario_file.json_schema() if not command else schema_of(" ".join(command))
    terminal.file(json.dumps(found, indent=2), None, found)


def version(_seed: Seed = 0, *, terminal: Terminal) -> None:
    """Prints the version.

    Example: `twin version --json`
    """
    terminal.result({"version": VERSION}, VERSION)


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder; an earlier demo in it is replaced.")] = Path("demo"),
    runs: Annotated[int, typer.Option(metavar="N", min=100, help="Runs to learn from.")] = 500,
    seed: Seed = 0,
    *,
    terminal: Terminal,
) -> None:
    """Simulate, learn, plan, prove: the whole loop on one job with a promise, in two minutes.

    Example: `twin demo`, then open demo/report.html
    """
    from streamtwin.demo.loop import REPORT, Settings, play, prepare, write
    from streamtwin.demo.story import PROMISE_S, SCENARIO, plans_table

    settings = Settings(seed=seed, runs=runs)
    prepare(out, settings)
    with kept("the finished runs"):
        outcome = play(out, settings, terminal)
    write(out, outcome)
    document = {
        "out": out,
        "report": out / REPORT,
        "seconds": outcome.seconds,
        "training_rows": outcome.training_rows,
        "promise_s": PROMISE_S,
        "plans": outcome.story.judged,
        "accuracy": outcome.accuracy,
    }
    total_s = sum(outcome.seconds.values())
    done = f"done in {total_s:.0f} s; now open {out / REPORT}, or turn its knobs yourself: twin serve {SCENARIO}"
    terminal.result(document, outcome.story.verdict, plans_table(outcome.story.judged), done)


def serve(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="SCENARIO|FOLDER",
            help="A name from `twin list`, a YAML file, or a folder of them. Default: the whole library.",
            autocompletion=known_scenarios,
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=65535, help="Default: 8377, or any that is free.")
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where changes are kept. Default: .twin-serve beside the scenarios."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Processes, beside one for first answers. Default: one a core."),
    ] = None,
    _seed: Seed = 0,
    *,
    terminal: Terminal,
) -> None:
    """Serves a page on this machine: turn a knob, and see the effect.

    The page shows the job on its hosts and plays its run; sliders change rates, subtasks and hosts, events happen when
    you say, and the other questions are asked there, too. Each answer has the command that gives the same numbers.
    Ctrl-C ends it; what was changed is kept.

    Examples: `twin serve` · `twin serve rush-hour-scaling` · `twin serve mine.yaml` · `twin serve jobs --port 9000`
    """
    from streamtwin.serve.server import serve as serving
    from streamtwin.serve.sessions import STATE, Jobs

    jobs = Jobs.of(target)
    folder = state if state is not None else jobs.folder / STATE

    def ready(address: str) -> None:
        terminal.note(f"changes are kept in {folder}; Ctrl-C ends the server")
        terminal.result({"address": address, "state": folder}, f"open {address}")

    with kept(f"the changes in {folder}"):
        serving(jobs, folder, port, workers or os.cpu_count() or 1, ready)


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[EXPERIMENT]...", help="Names, or `all`; without any: the list.")
    ] = None,
    scale: Annotated[
        Literal["small", "medium", "paper"], typer.Option(help="Minutes, hours, or the paper's size: a day.")
    ] = "small",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Results, a folder each.")] = Path("results"),
    work: Annotated[
        Path, typer.Option(metavar="DIR", help="Corpora and models, which later commands use again.")
    ] = Path("reproduce"),
    master: Master = "local[*]",
    seed: Annotated[int, typer.Option(min=0, help="Seed of corpora, splits and networks.")] = 1,
    *,
    terminal: Terminal,
) -> None:
    """Runs published experiments: tables and figures with ours beside the paper's.

    Examples: `twin reproduce` · `twin reproduce costream.table3` · `twin reproduce all --scale paper --out results`
    """
    if not PAPERS.is_dir():
        raise BadInput(
            f"{PAPERS} is not there: published experiments are not installed; run this command from a checkout of "
            "the repository"
        )
    from papers.registry import chosen
    from papers.running import check_replaceable, manifest_of, run, write
    from papers.workspace import SCALES, Workspace, fan_out
    from streamtwin import catalogue
    from streamtwin.tables import tables

    if not names:
        known = catalogue.experiments()
        terminal.result({"experiments": known}, tables.glossary("experiments", known))
        return
    experiments = chosen(names)
    for experiment in experiments:
        check_replaceable(out / experiment.name)
    sizes = SCALES[scale]
    workspace = Workspace(work, sizes, seed, terminal, fan_out(master))
    document: dict[str, Any] = {}
    shown: list[Any] = []
    with kept(f"finished runs and networks in {work}"):
        workspace.prepare([recipe for experiment in experiments for recipe in experiment.recipes(sizes, seed)])
        for experiment in experiments:
            terminal.stage(f"{experiment.name}: {experiment.summary}")
            workspace.used.clear()
            result = run(experiment, workspace)
            write(experiment, result, out / experiment.name, manifest_of(experiment, workspace, scale))
            filled = result.tables
            document[experiment.name] = {name: [dict(row) for row in table.rows] for name, table in filled.items()}
            shown += [tables.of_rows(table.title, table.columns, table.rows) for table in filled.values()]
            shown += [*result.notes, f"written to {out / experiment.name}"]
    terminal.result(document, *shown)
