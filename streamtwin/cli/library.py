"""`twin list`, `show`, `schema`, `version`: what there is, without running anything."""

from __future__ import annotations

from typing import Annotated

import typer

from streamtwin.cli.given import ScenarioName, Set, known_documents, scenario_of
from streamtwin.cli.terminal import AsJson, Quiet, Seed, Terminal
from twin.version import VERSION


def register(app: typer.Typer) -> None:
    """Adds the commands of this file."""
    app.command("list", rich_help_panel="Scenarios")(list_all)
    app.command("show", rich_help_panel="Scenarios")(show)
    app.command("schema", rich_help_panel="Scenarios")(schema)
    app.command("version", rich_help_panel="Other")(version)


def list_all(as_json: AsJson = False, _seed: Seed = 0, quiet: Quiet = False) -> None:
    """Scenarios, optimizers, policies, cost models and experiments, a line each.

    Example: `twin list --json`
    """
    from scenarios.files import registry
    from streamtwin.cli import catalogue
    from streamtwin.tables import tables

    terminal = Terminal(as_json=as_json, quiet=quiet)
    scenarios = {entry.name: entry.summary for entry in registry.entries()}
    parts = {
        "scenarios": scenarios,
        "optimizers": catalogue.optimizers(),
        "policies": catalogue.policies(),
        "cost_models": dict(catalogue.COST_MODELS),
        "spaces": catalogue.spaces(),
        "families": catalogue.families(),
        "experiments": catalogue.experiments(),
    }
    terminal.result(parts, *(tables.glossary(title.replace("_", " "), part) for title, part in parts.items()))


def show(
    scenario: ScenarioName, set_: Set = None, as_json: AsJson = False, _seed: Seed = 0, quiet: Quiet = False
) -> None:
    """Prints a scenario as YAML, ready to be saved and changed.

    Example: `twin show smart-grid > mine.yaml`, then `twin run mine.yaml`
    """
    from scenarios.files import scenario_file

    terminal = Terminal(as_json=as_json, quiet=quiet)
    loaded = scenario_of(scenario, set_)
    if as_json:
        terminal.result(loaded.model_dump(mode="json"))
    else:
        terminal.text(scenario_file.dump(loaded))


def schema(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND",
            help="What this command prints with --json. Default: a scenario file.",
            autocompletion=known_documents,
        ),
    ] = None,
    as_json: AsJson = False,
    _seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Prints the JSON Schema of a scenario file, or of what a command prints with --json.

    Examples: `twin schema > scenario.schema.json` · `twin schema run` · `twin schema import flink`
    """
    import json

    from scenarios.files import scenario_file
    from streamtwin.schemas.registry import schema_of

    terminal = Terminal(as_json=as_json, quiet=quiet)
    found = scenario_file.json_schema() if not command else schema_of(" ".join(command))
    if as_json:
        terminal.result(found)
    else:
        terminal.text(json.dumps(found, indent=2))


def version(as_json: AsJson = False, _seed: Seed = 0, quiet: Quiet = False) -> None:
    """Prints the version.

    Example: `twin version --json`
    """
    Terminal(as_json=as_json, quiet=quiet).result({"version": VERSION}, VERSION)
