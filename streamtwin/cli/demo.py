"""`twin demo`: the whole loop, small, with a report at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
