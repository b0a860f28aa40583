"""Commands `twin run`, `report` and `export`: a simulation as tables and a trace, as a page, and for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamtwin.cli.terminal import (
    Events,
    Horizon,
    ScenarioName,
    ScenarioSeed,
    Set,
    Target,
    Terminal,
    known_scenarios,
    run_of,
    scenario_of,
)
from streamtwin.options import Written
from streamtwin.questions.runs import PolicyName, precise

if TYPE_CHECKING:
    from streamtwin.tables.tables import Wide
    from twin.run import Run


def run(
    scenario: ScenarioName,
    set_: Set = None,
    event: Events = None,
    horizon: Horizon = None,
    policy: PolicyName = None,
    precision: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="End once throughput and latencies are this precise: 1%."),
        Written(precise),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the trace to this new folder.")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the run over time: a .png, .pdf or .svg.")
    ] = None,
    seed: ScenarioSeed = None,
    *,
    terminal: Terminal,
) -> None:
    """Simulates a scenario, with its events: whether it keeps up, what binds, throughput, latency and load.

    Examples: `twin run smart-grid` · `twin run smart-grid --set plan.placement.compare=fog-2` ·
    `twin run failover` · `twin run rush-hour-scaling --policy ds2 --set policy.margin=0.1` ·
    `twin run smart-grid --horizon 3600 --precision 1%` · `twin run failover --plot failover.png` ·
    `twin run mine.yaml --horizon 60 --seed 7 --out trace --json`
    """
    from scenarios.files.run_folder import check_free, check_picture
    from streamtwin.tables import run_tables
    from twin.simulation import simulate

    check_free(out)
    if plot is not None:
        check_picture(plot)
    loaded = scenario_of(scenario, set_, event, policy, horizon_s=horizon, precision=precision, seed=seed)
    result = simulate(loaded, tell=terminal.waiting)
    _write(terminal, result, loaded.name, out, plot)
    from streamtwin.answers.verdict import verdict  # here, so that the run begins at once

    terminal.result(result.to_dict(), verdict(loaded.deployment, result), *run_tables.of_run(loaded.name, result))
    for warning in result.warnings:
        terminal.note(f"warning: {warning}")


def _write(terminal: Terminal, result: Run, name: str, out: Path | None, plot: Path | None) -> None:
    """Writes the trace and the picture, if they are wanted."""
    from scenarios.files.run_folder import write_bytes, write_run

    if out is not None:
        write_run(result, name, out)
        terminal.note(f"trace written to {out}")
    if plot is not None:
        from figures.answers import run_panels
        from scenarios.files.run_folder import picture
        from streamtwin.tables.run_tables import panels

        write_bytes(picture(run_panels(panels(result)), plot), plot)
        terminal.note(f"picture written to {plot}")


def report(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="A folder of `twin run --out` or of a question, or a scenario to run.",
            autocompletion=known_scenarios,
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The page. Default: NAME.html in the current folder.")
    ] = None,
    plan: Annotated[
        str | None, typer.Option(metavar="FILE", help="Run the scenario under the plan of this file.")
    ] = None,
    policy: PolicyName = None,
    beside: Annotated[
        Path | None,
        typer.Option("--beside", metavar="DIR", help="Another kept run or answer: what differs, as a page and here."),
    ] = None,
    set_: Set = None,
    event: Events = None,
    horizon: Horizon = None,
    seed: ScenarioSeed = None,
    *,
    terminal: Terminal,
) -> None:
    """One self-contained page: the query on its hosts, the bottleneck in a sentence, time-lines, tables.

    Examples: `twin report smart-grid` · `twin report rush-hour-scaling --policy ds2` ·
    `twin report smart-grid --plan better.yaml --out better.html` ·
    `twin run failover --out trace`, then `twin report trace` · `twin whatif word-count --policy ds2 --out answer`, then
    `twin report answer` · `twin report answer --beside earlier`
    """
    terminal.stage(f"report: reading {target}")
    from scenarios.files.run_folder import writing
    from streamtwin.report import check_ours
    from twin.files import write_text

    page = out if out is not None else Path(f"{Path(target).resolve().stem if Path(target).exists() else target}.html")
    check_ours(page)
    if page.exists():
        terminal.note(f"note: replaces the report {page}")
    asked = (plan, policy, set_ or None, event or None, seed, horizon)
    html, apart = (_html(target, *asked), []) if beside is None else _beside(Path(target), beside, asked)
    with writing(page, "name another file with --out"):
        write_text(page, html)
    done = f"report written to {page}; open it in a browser"
    terminal.result({"page": page, "bytes": len(html.encode())}, *apart, done)


def _beside(target: Path, other: Path, asked: tuple[object, ...]) -> tuple[str, list[Wide]]:
    from streamtwin.report import beside_page
    from twin.errors import BadInput

    if asked != (None,) * len(asked) or not (target.is_dir() and other.is_dir()):
        raise BadInput(
            f"--beside {other}: it sets two folders of --out beside each other, without other options; "
            "scenarios are compared by twin compare"
        )
    return beside_page([target, other])


def _html(
    target: str,
    plan: str | None,
    policy: str | None,
    set_: list[str] | None,
    event: list[str] | None,
    seed: int | None,
    horizon_s: float | None,
) -> str:
    from streamtwin.report import answer_page, holds_answer, run_page

    asked = (plan, policy, set_ or None, event or None, seed, horizon_s)
    if asked == (None,) * len(asked) and holds_answer(Path(target)):
        return answer_page(Path(target))
    return run_page(*run_of(target, set_, plan, seed, policy, event, horizon_s))


def export(
    target: Target,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="perfetto|csv|parquet|metrics",
            help="A trace for a viewer, tables, or samples of metrics.",
        ),
    ] = "perfetto",
    out: Annotated[
        Path | None, typer.Option(metavar="PATH", help="A new file (perfetto) or folder. Default: by name.")
    ] = None,
    set_: Set = None,
    event: Events = None,
    horizon: Horizon = None,
    seed: ScenarioSeed = None,
    *,
    terminal: Terminal,
) -> None:
    """Writes a run for other programs: a trace for Perfetto's viewer, tables as CSV or Parquet, or samples of metrics.

    Examples: `twin export failover` · `twin run failover --out trace`, then `twin export trace --format csv` ·
    `twin export rush-hour --format metrics --out metrics`, then `twin shadow rush-hour metrics --once`
    """
    terminal.stage(f"export: reading {target}")
    from scenarios.files.run_folder import check_free
    from streamtwin import export

    export.check_format(form)
    place = out if out is not None else export.default_place(Path(target).stem, form)
    check_free(place)
    export.export(run_of(target, set_, seed=seed, events=event, horizon_s=horizon), form, place)
    opened = "; open it at ui.perfetto.dev or in chrome://tracing" if form == "perfetto" else ""
    terminal.result({"format": form, "path": place}, f"written to {place}{opened}")
