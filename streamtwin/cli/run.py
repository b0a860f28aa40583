"""`twin run`: one simulation, its metrics as tables, its trace as Parquet."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamtwin.cli.given import Events, PolicyName, ScenarioName, Set, scenario_of, seconds
from streamtwin.cli.terminal import ScenarioSeed, Terminal

if TYPE_CHECKING:
    from twin.run import Run

Horizon = Annotated[
    float | None, typer.Option("--horizon", metavar="S", parser=seconds, help="Simulated seconds, or as in 2min.")
]


def run(
    scenario: ScenarioName,
    terminal: Terminal,
    set_: Set = None,
    event: Events = None,
    horizon: Horizon = None,
    policy: PolicyName = None,
    precision: Annotated[
        str | None, typer.Option(metavar="SHARE", help="End once throughput and latencies are this precise: 1%.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the trace to this new folder.")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the run over time: a .png, .pdf or .svg.")
    ] = None,
    seed: ScenarioSeed = None,
) -> None:
    """Simulates a scenario, with its events, and prints throughput, latency and load.

    Examples: `twin run smart-grid` · `twin run smart-grid --set plan.placement.compare=fog-2` ·
    `twin run failover` · `twin run rush-hour-scaling --policy ds2 --set policy.margin=0.1` ·
    `twin run smart-grid --horizon 3600 --precision 1%` · `twin run failover --plot failover.png` ·
    `twin run mine.yaml --horizon 60 --seed 7 --out trace --json`
    """
    from scenarios.files.pictures import check_picture
    from scenarios.files.traces import check_free
    from scenarios.questions.ranges import share
    from streamtwin.tables import run_tables
    from twin.guards.effort import SOONER, require_feasible
    from twin.simulation import simulate

    if out is not None:
        check_free(out)
    if plot is not None:
        check_picture(plot)
    policies = [] if policy is None else [f"policy={policy}"]  # first, so that --set can then change its options
    asked = None if precision is None else share(precision)
    loaded = scenario_of(scenario, [*policies, *(set_ or [])], event, horizon_s=horizon, precision=asked, seed=seed)
    effort = require_feasible(loaded)
    if effort.long:
        ends_early = loaded.run.precision is not None
        terminal.note(
            f"a long run: {'at most ' if ends_early else ''}{effort.describe()}{'' if ends_early else SOONER}"
        )
    with terminal.progress("periods") if effort.long else nullcontext() as report:
        result = simulate(loaded, progress=report)
    _close(terminal, result, loaded.name, out, plot)
    terminal.result(result.to_dict(), *run_tables.of_run(loaded.name, result))


def _close(terminal: Terminal, result: Run, name: str, out: Path | None, plot: Path | None) -> None:
    """The trace and the picture, if they are wanted, and the run's warnings."""
    from scenarios.files.traces import write_bytes, write_run

    if out is not None:
        write_run(result, name, out)
        terminal.note(f"trace written to {out}")
    if plot is not None:
        from figures.run_panels import run_panels
        from scenarios.files.pictures import picture
        from streamtwin.tables.timelines import panels

        write_bytes(picture(run_panels(panels(result)), plot), plot)
        terminal.note(f"picture written to {plot}")
    for warning in result.warnings:
        terminal.note(f"warning: {warning}")
