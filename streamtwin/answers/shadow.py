"""Shows the answer of `twin shadow`: how near a job is to what it can bear, window by window, and its alerts."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from streamtwin.answers import Presentation
from streamtwin.connect.shadow import JobFollowed
from streamtwin.tables.tables import of_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 10
"""Most alerts that are shown."""


def told(answer: JobFollowed) -> Presentation:
    """Presentation of the answer, with a row for each window that has a forecast."""
    alerts = [{"at": f"{each.end_s:,.0f} s", "words": each.words} for each in answer.alerts[-MOST:]]
    more = f", the last {MOST} of {len(answer.alerts)}" if len(answer.alerts) > MOST else ""

    def figure() -> Figure:
        from figures.charts import lines

        series: dict[str, list[Any]] = {"series": [], "x": [], "y": []}
        for name, at in (("as it was", "pressure_now"), ("forecast for then", "pressure_then")):
            for each in answer.course:
                series["series"].append(name)
                series["x"].append(each.end_s + (each.ahead_s if at == "pressure_then" else 0.0))
                series["y"].append(100.0 * getattr(each, at))
        return lines(series, "time of the job (s)", "of what the fullest can bear (%)")

    return Presentation(
        heading=f"{answer.scenario}: followed",
        sentences=[_summary(answer)],
        tables=[of_rows(f"alerts{more}", {"at": "at", "words": ""}, alerts)] if alerts else [],
        rows=[asdict(each) for each in answer.course],
        figure=figure if answer.course else None,
        numbers="Utilisations are predicted by rates, from the metrics of the job; what moves bring is simulated.",
    )


def _summary(answer: JobFollowed) -> str:
    """Sentence on the windows so far, and on the present and forecast utilisation."""
    last = answer.last
    if last is None:
        return f"{answer.scenario}: no window is complete yet; a window is told when samples have passed its end"
    used = f"{last.pressure_now:.0%} of what {last.operator} can bear now, {last.pressure_then:.0%} then"
    return f"{answer.scenario}: {answer.windows} windows up to {last.end_s:,.0f} s; {used}; rows are in {answer.out}"
