"""What several commands take: a scenario with some of its values replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from twin.scenario import Scenario

ScenarioName = Annotated[str, typer.Argument(metavar="SCENARIO", help="A name from `twin list`, or a YAML file.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Replace one value; operators and hosts by name. Repeatable."),
]


def scenario_of(name: str, assignments: Sequence[str] | None, **options: object) -> Scenario:
    """The scenario of that name or file, with the values of --set, and then of other options, in the place of its own.

    options: by the name of a run setting, None if it was not given. Raises BadInput for what cannot be.
    """
    from scenarios.files import scenario_file
    from scenarios.files.overrides import set_value, set_values

    loaded = set_values(scenario_file.load(name), assignments or ())
    for setting, value in options.items():
        if value is not None:
            loaded = set_value(loaded, f"run.{setting}={value}", f"--{setting.removesuffix('_s')}")
    return loaded
