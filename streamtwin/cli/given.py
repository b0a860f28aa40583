"""Arguments that several commands take: a scenario with some of its values replaced, or a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from scenarios.files.run_folder import KeptRun
    from twin.scenario import Scenario


def known_scenarios(begun: str) -> list[str]:
    """Names of scenarios of the library that begin with `begun`, for completion; the shell itself completes files."""
    from scenarios.files import registry

    return [name for name in registry.names() if name.startswith(begun)]


def known_optimizers(begun: str) -> list[str]:
    """Names of optimizers that begin with `begun`, for completion."""
    from streamtwin import catalogue

    return [name for name in catalogue.optimizers() if name.startswith(begun)]


def known_documents(begun: str) -> list[str]:
    """Names of commands whose output has a schema that begin with `begun`, for completion."""
    from streamtwin.schemas.registry import DOCUMENTS

    return [name for name in DOCUMENTS if name.startswith(begun)]


def seconds(text: str | float) -> float:
    """Seconds that an option gives, such as 90, 500ms or 2min; a default is a number already."""
    from twin.quantities import number

    try:
        return number(str(text), "_s")
    except ValueError:
        raise typer.BadParameter("no duration; write seconds, or a unit as in 500ms or 2min") from None


def share(text: str) -> float:
    """Share that an option gives, such as 0.2 or 20%."""
    from twin.quantities import number

    try:
        return number(text)
    except ValueError:
        raise typer.BadParameter("no share; write it as in 0.2 or 20%") from None


ScenarioName = Annotated[
    str,
    typer.Argument(metavar="SCENARIO", help="A name from `twin list`, or a YAML file.", autocompletion=known_scenarios),
]
Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="A folder of `twin run --out`, or a scenario, which is run for it.",
        autocompletion=known_scenarios,
    ),
]
Horizon = Annotated[
    float | None, typer.Option("--horizon", metavar="S", parser=seconds, help="Simulated seconds, or as in 2min.")
]
NewYaml = Annotated[Path | None, typer.Option("--out", metavar="YAML", help="New file. Default: stdout.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Replace one value; operators and hosts by name. Repeatable."),
]
Events = Annotated[
    list[str] | None,
    typer.Option(
        "--event", metavar="EVENT", help="Add an event, in YAML: 'kind: failure, at_s: 60, host: H'. Repeatable."
    ),
]
Places = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="HOST,...",
        help="Hosts that all subtasks take in turn. Default: those there stay, others go where the engine puts them.",
    ),
]


def places(text: str | None) -> list[str]:
    """Places that --on lists."""
    return [place.strip() for place in (text or "").split(",") if place.strip()]


def _policy(name: str | None) -> str | None:
    if name is not None and name.isidentifier():
        from optimizers.policies import POLICIES
        from twin.errors import BadInput, suggest

        if name not in POLICIES:
            raise BadInput(f"--policy {name}: unknown policy; {suggest(name, POLICIES)}")
    return name


PolicyName = Annotated[
    str | None,
    typer.Option(
        "--policy", metavar="NAME", help="A policy that reconfigures the job; see `twin list`.", callback=_policy
    ),
]


def scenario_of(
    name: str,
    assignments: Sequence[str] | None,
    events: Sequence[str] | None = None,
    policy: str | None = None,
    **options: object,
) -> Scenario:
    """Scenario of a name or file. The values of --set replace its own, and then those of other options do.

    events: further events, in YAML. policy: another one, whose options --set can then change. options: values by the
    name of a run setting; None if an option was not given. Raises BadInput if a value is not valid.
    """
    from scenarios.files import scenario_file
    from scenarios.files.overrides import set_value, set_values
    from scenarios.questions.alterations import with_all_events

    policies = [] if policy is None else [f"policy={policy}"]
    loaded = set_values(scenario_file.load(name), [*policies, *(assignments or ())])
    for setting, value in options.items():
        if value is not None:
            loaded = set_value(loaded, f"run.{setting}={value}", f"--{setting.removesuffix('_s')}")
    return with_all_events(loaded, events or ())


def run_of(
    target: str,
    assignments: Sequence[str] | None,
    plan: str | None = None,
    seed: int | None = None,
    policy: str | None = None,
    events: Sequence[str] | None = None,
    horizon_s: float | None = None,
) -> KeptRun:
    """Run in a folder, or else a run, made now, of the scenario of that name or file.

    Raises BadInput if a value is not valid, or if values are given for a run that is finished already.
    """
    from scenarios.files.run_folder import KeptRun, read_run
    from twin.errors import BadInput
    from twin.simulation import simulate

    if Path(target).is_dir():
        if plan is not None or assignments or events or policy is not None or (seed, horizon_s) != (None, None):
            given = "--plan, --policy, --set, --event, --seed and --horizon"
            raise BadInput(f"{target} is a finished run; {given} need a scenario")
        return read_run(Path(target))
    scenario = scenario_of(target, assignments, events, policy, seed=seed, horizon_s=horizon_s)
    if plan is not None:
        from scenarios.questions.alterations import with_plan_of

        scenario = with_plan_of(scenario, plan)
    return KeptRun(scenario.name, scenario, simulate(scenario))
