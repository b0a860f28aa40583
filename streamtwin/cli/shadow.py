"""Command `twin shadow`: a twin beside a running job, fed by its metrics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamtwin.cli.given import ScenarioName, Set, scenario_of
from streamtwin.cli.interruption import kept
from streamtwin.cli.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamtwin.connect.shadow.shadow import AlertRow, JobFollowed
    from streamtwin.tables.wide import Wide

MOST = 10
"""Most alerts that are shown."""


def shadow(
    scenario: ScenarioName,
    samples: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where files of metric samples arrive; see `twin import metrics`.")
    ],
    terminal: Terminal,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Write statistics, forecasts, alerts; resume there.")] = Path(
        "shadow"
    ),
    window: Annotated[float, typer.Option(metavar="S", min=0.001, help="Length of a window in seconds.")] = 60,
    ahead: Annotated[float, typer.Option(metavar="S", min=0.001, help="Seconds to look ahead.")] = 600,
    trend: Annotated[int, typer.Option(metavar="N", min=2, help="Windows to fit a trend to.")] = 10,
    late: Annotated[float, typer.Option(metavar="S", min=0, help="How long a window waits for late samples.")] = 10,
    once: Annotated[bool, typer.Option("--once", help="End when all files have been read.")] = False,
    master: Annotated[str, typer.Option(metavar="URL", help="Spark master that reads.")] = "local[2]",
    set_: Set = None,
) -> None:
    """Follows a running job: its rates, costs and trends, when it will not keep up, and which move avoids that.

    Reads what arrives in FOLDER until Ctrl-C (or --once), and goes on from there the next time, with nothing lost or
    doubled. Backpressure is forecast by the rate model; a move is found by an optimizer and tried in the simulator.

    Examples: `twin shadow job.yaml metrics --out shadow` ·
    `twin export rush-hour --format metrics --out metrics`, then `twin shadow rush-hour metrics --window 30 --once`
    """
    from scenarios.questions import folder
    from scenarios.questions.single_run import key
    from spark.metric_windows import watch
    from spark.session import session
    from streamtwin.connect.shadow.shadow import Shadow, followed
    from streamtwin.connect.shadow.window import parsed
    from twin.errors import BadInput

    loaded = scenario_of(scenario, set_)
    if not samples.is_dir():
        raise BadInput(f"{samples} is no folder; name the one in which files of metric samples arrive")
    asked = {"command": "shadow", "scenario": key(loaded), "folder": str(samples.resolve())}
    folder.opened(out, {**asked, "window_s": window, "ahead_s": ahead, "trend": trend, "late_s": late})
    terminal.stage(f"{loaded.name}: starting Spark")
    twin = Shadow(loaded, out, window, ahead, trend, terminal.stage)
    with kept(f"what was read, in {out}"), session(master) as spark:
        terminal.stage(f"following {samples}" + ("" if once else "; Ctrl-C ends it, the same command goes on"))
        checkpoint = out / "checkpoint"
        note = terminal.note
        watch(spark, samples, checkpoint, parsed, twin.told, window_s=window, late_s=late, once=once, note=note)
    seen = followed(out)
    terminal.result(seen, *_alerts(seen.alerts), _summary(loaded.name, seen))


def _alerts(alerts: Sequence[AlertRow]) -> list[Wide]:
    """Table of the last alerts; none if there are no alerts."""
    from streamtwin.tables.tables import of_rows

    if not alerts:
        return []
    rows = [{"at": f"{each.end_s:,.0f} s", "words": each.words} for each in alerts[-MOST:]]
    more = f", the last {MOST} of {len(alerts)}" if len(alerts) > MOST else ""
    return [of_rows(f"alerts{more}", {"at": "at", "words": ""}, rows)]


def _summary(name: str, seen: JobFollowed) -> str:
    """Sentence on the windows so far, and on the present and forecast utilisation."""
    last = seen.last
    if last is None:
        return f"{name}: no window is complete yet; a window is told when samples have passed its end"
    used = f"{last.pressure_now:.0%} of what {last.operator} can bear now, {last.pressure_then:.0%} then"
    return f"{name}: {seen.windows} windows up to {last.end_s:,.0f} s; {used}; rows are in {seen.out}"
