"""`twin run`: one simulation, its metrics as tables, its trace as Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scenarios.commands.given import ScenarioName, Set, scenario_of
from scenarios.commands.terminal import AsJson, Quiet, ScenarioSeed, Terminal

if TYPE_CHECKING:
    from twin.run import Run
    from twin.scenario import RunSettings

Horizon = Annotated[float | None, typer.Option("--horizon", metavar="S", help="Simulated seconds.")]
FidelityName = Annotated[
    str | None,
    typer.Option(
        "--fidelity", metavar="auto|exact|fast", help="Tuple by tuple, in segments of tuples, or as is cheap."
    ),
]


def register(app: typer.Typer) -> None:
    """Adds the command of this file."""
    app.command("run", rich_help_panel="Scenarios")(run)


def run(
    scenario: ScenarioName,
    set_: Set = None,
    fidelity: FidelityName = None,
    horizon: Horizon = None,
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="NAME", help="Who reconfigures the running job; see `twin list`.")
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option("--precision", metavar="SHARE", help="Finer and longer runs until the error is so small: 2%."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write the trace to this new folder.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the run over time: a .png, .pdf or .svg.")
    ] = None,
    seed: ScenarioSeed = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Simulates a scenario, with its events, and prints throughput, latency and load.

    Examples: `twin run smart-grid` · `twin run smart-grid --set plan.placement.compare=fog-2` ·
    `twin run failover` · `twin run rush-hour-scaling --policy ds2 --set policy.margin=0.1` ·
    `twin run smart-grid --precision 2%` · `twin run failover --plot failover.png` ·
    `twin run mine.yaml --horizon 60 --seed 7 --out trace --json`
    """
    from scenarios.files.traces import check_free
    from scenarios.telling import run_tables
    from scenarios.telling.pictures import check_picture
    from twin.guards.effort import estimate
    from twin.guards.fidelity import settled
    from twin.simulation import simulate

    terminal = Terminal(as_json=as_json, quiet=quiet)
    if out is not None:
        check_free(out)
    if plot is not None:
        check_picture(plot)
    policies = [] if policy is None else [f"policy={policy}"]  # first, so that --set can then change its options
    loaded = scenario_of(scenario, [*policies, *(set_ or [])], fidelity=fidelity, horizon_s=horizon, seed=seed)
    if precision is not None:
        from scenarios.asking import precise_run
        from twin.precision.plans import Question
        from twin.precision.search import answer

        asked = precise_run.share(precision)

        def one(settings: RunSettings, steps: float) -> Run:
            fineness = settings.fidelity if settings.segments is None else f"{settings.segments:,} segments"
            terminal.stage(f"a run of {settings.horizon_s:g} s, {fineness}: about {steps:.0e} steps")
            return simulate(loaded.with_run(**dict(settings)))

        found = answer(Question(loaded, asked), one)
        told = precise_run.document(found, asked)
        _close(terminal, found.finest.run, loaded.name, out, plot)
        for line in precise_run.reached(told):
            terminal.note(line)
        document = found.finest.run.to_dict() | {"precision": told}
        terminal.result(document, *precise_run.tables(loaded.name, told), *run_tables.of_run(loaded.name, document))
        return
    effort = estimate(loaded, settled(loaded).run, loaded.events)
    if effort.long:
        terminal.note(f"a long run: about {effort.cpu_s:.0f} CPU seconds, {effort.describe()}")
    result = simulate(loaded)
    _close(terminal, result, loaded.name, out, plot)
    document = result.to_dict()
    terminal.result(document, *run_tables.of_run(loaded.name, document))


def _close(terminal: Terminal, result: Run, name: str, out: Path | None, plot: Path | None) -> None:
    """The trace and the picture, if they are wanted, and the run's warnings."""
    from scenarios.files.traces import write_bytes, write_run

    if out is not None:
        write_run(result, name, out)
        terminal.note(f"trace written to {out}")
    if plot is not None:
        from figures.run_panels import run_panels
        from scenarios.telling.pictures import picture
        from scenarios.telling.timelines import panels

        write_bytes(picture(run_panels(panels(result)), plot), plot)
        terminal.note(f"picture written to {plot}")
    for warning in result.warnings:
        terminal.note(f"warning: {warning}")
