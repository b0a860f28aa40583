"""`twin run`: one simulation, its metrics as tables, its trace as Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scenarios.commands.terminal import AsJson, Quiet, ScenarioSeed, Terminal

Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Replace one value; operators and hosts by name. Repeatable."),
]
Horizon = Annotated[float | None, typer.Option("--horizon", metavar="S", help="Simulated seconds.")]
FidelityName = Annotated[
    str | None, typer.Option("--fidelity", metavar="exact|fast", help="Tuple by tuple, or in segments of tuples.")
]


def register(app: typer.Typer) -> None:
    """Adds the command of this file."""
    app.command("run", rich_help_panel="Scenarios")(run)


def run(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="A name from `twin list`, or a YAML file.")],
    set_: Set = None,
    fidelity: FidelityName = None,
    horizon: Horizon = None,
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="NAME", help="Who reconfigures the running job; see `twin list`.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write the trace to this new folder.")
    ] = None,
    seed: ScenarioSeed = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Simulates a scenario, with its events, and prints throughput, latency and load.

    Examples: `twin run smart-grid` · `twin run smart-grid --set plan.placement.compare=fog-2` ·
    `twin run failover` · `twin run rush-hour-scaling --policy ds2` ·
    `twin run mine.yaml --horizon 60 --seed 7 --out trace --json`
    """
    from optimizers.policies import policy_by_name
    from scenarios import files, run_tables
    from scenarios.overrides import set_value, set_values
    from scenarios.traces import check_free, write_run
    from twin.effort import estimate
    from twin.simulation import simulate

    terminal = Terminal(as_json=as_json, quiet=quiet)
    if out is not None:
        check_free(out)
    loaded = set_values(files.load(scenario), set_ or [])
    options = {"--fidelity run.fidelity": fidelity, "--horizon run.horizon_s": horizon, "--seed run.seed": seed}
    for option, value in options.items():
        if value is not None:
            flag, path = option.split()
            loaded = set_value(loaded, f"{path}={value}", flag)
    chosen = policy_by_name(policy, loaded.deployment) if policy is not None else None
    effort = estimate(loaded.deployment, loaded.run, loaded.events)
    if effort.long:
        terminal.note(f"a long run: about {effort.cpu_s:.0f} CPU seconds, {effort.describe()}")
    result = simulate(loaded.deployment, loaded.run, loaded.events, chosen)
    if out is not None:
        write_run(result, loaded.name, out)
        terminal.note(f"trace written to {out}")
    for warning in result.warnings:
        terminal.note(f"warning: {warning}")
    document = result.to_dict()
    terminal.result(document, *run_tables.of_run(loaded.name, document))
