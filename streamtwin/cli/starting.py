"""Commands `twin demo`, which shows the whole loop, small, and `twin serve`, which serves a page for questions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from streamtwin.cli.given import known_scenarios
from streamtwin.cli.interruption import kept
from streamtwin.cli.terminal import Seed, Terminal


def demo(
    terminal: Terminal,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder; an earlier demo in it is replaced.")] = Path("demo"),
    runs: Annotated[int, typer.Option(metavar="N", min=100, help="Runs to learn from.")] = 500,
    seed: Seed = 0,
) -> None:
    """Simulate, learn, plan, prove: the whole loop on one query, in a few minutes.

    Example: `twin demo`, then open demo/report.html
    """
    from streamtwin.demo.folder import REPORT, prepare, write
    from streamtwin.demo.loop import Settings, play
    from streamtwin.tables import tables

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
        "rows": outcome.rows,
        "accuracy": outcome.accuracy,
    }
    total_s = sum(outcome.seconds.values())
    done = f"done in {total_s:.0f} s; now open {out / REPORT}, or turn its knobs yourself: twin serve smart-grid"
    terminal.result(document, *tables.of_regrets(outcome.rows), done)


def serve(
    terminal: Terminal,
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
) -> None:
    """Serves a page on this machine: turn a knob, and see the effect.

    The page shows the job on its hosts and plays its run; sliders change rates, replicas and hosts, events happen when
    you say, and the other questions are asked there, too. Each answer has the command that gives the same numbers.
    Ctrl-C ends it; what was changed is kept.

    Examples: `twin serve` · `twin serve rush-hour-scaling` · `twin serve mine.yaml` · `twin serve jobs --port 9000`
    """
    from streamtwin.serve.jobs import STATE, Jobs
    from streamtwin.serve.server import serve as serving

    jobs = Jobs.of(target)
    folder = state if state is not None else jobs.folder / STATE

    def ready(address: str) -> None:
        terminal.note(f"changes are kept in {folder}; Ctrl-C ends the server")
        terminal.result({"address": address, "state": folder}, f"open {address}")

    with kept(f"the changes in {folder}"):
        serving(jobs, folder, port, workers or os.cpu_count() or 1, ready)
