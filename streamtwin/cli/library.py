"""Commands `twin list`, `show`, `schema` and `version`, which run nothing."""

from __future__ import annotations

from typing import Annotated

import typer

from streamtwin.cli.given import ScenarioName, Set, known_documents, scenario_of
from streamtwin.cli.terminal import Seed, Terminal
from twin.errors import BadInput, suggest
from twin.version import VERSION


def list_all(
    terminal: Terminal,
    part: Annotated[
        str | None,
        typer.Argument(metavar="PART", help="scenarios, optimizers, policies, ...: lists these with descriptions."),
    ] = None,
    _seed: Seed = 0,
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


def show(scenario: ScenarioName, terminal: Terminal, set_: Set = None, _seed: Seed = 0) -> None:
    """Prints a scenario as YAML, ready to be saved and changed.

    Example: `twin show smart-grid > mine.yaml`, then `twin run mine.yaml`
    """
    from scenarios.files import scenario_file

    loaded = scenario_of(scenario, set_)
    terminal.file(scenario_file.dump(loaded), None, loaded.model_dump(mode="json"))


def schema(
    terminal: Terminal,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND",
            help="What this command prints with --json. Default: a scenario file.",
            autocompletion=known_documents,
        ),
    ] = None,
    _seed: Seed = 0,
) -> None:
    """Prints the JSON Schema of a scenario file, or of what a command prints with --json.

    Examples: `twin schema > scenario.schema.json` · `twin schema run` · `twin schema import flink`
    """
    import json

    from scenarios.files import scenario_file
    from streamtwin.schemas.registry import schema_of

    found = scenario_file.json_schema() if not command else schema_of(" ".join(command))
    terminal.file(json.dumps(found, indent=2), None, found)


def version(terminal: Terminal, _seed: Seed = 0) -> None:
    """Prints the version.

    Example: `twin version --json`
    """
    terminal.result({"version": VERSION}, VERSION)
