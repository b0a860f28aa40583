"""`twin serve`: a page on this machine on which questions are asked and answered."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from streamtwin.cli.given import known_scenarios
from streamtwin.cli.interruption import kept
from streamtwin.cli.terminal import Seed, Terminal


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
