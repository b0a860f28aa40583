"""Sources that are held up now and then, and catch up in between: segments smooth how far they fall behind.

What holds them up throughout, as an outage or a rush does, is followed rightly: the backlog is then what came less
what was taken. So periods in which a source is blocked nearly all the time say nothing, nor do those beside them, into
which the rush reaches.
"""

from __future__ import annotations

from collections.abc import Sequence

from twin.engine.measure.statistics import Row
from twin.events import AnyEvent
from twin.job import Job
from twin.metrics import BACKPRESSURE_SHARE
from twin.query import Windowed
from twin.scenario import RunSettings
from twin.workload import Constant, Poisson

HELD_UP = 0.05
"""Of the time: a source that is blocked for longer, and keeps up, falls behind with each burst."""
BY_CHANCE = 0.02
"""The same where no window makes bursts: four replicas with room for 16 tuples each, by turns, blocked their source for
5 % of the time at a load of 85 %, and were 1.3 times as late in an exact run; for 1 % at 70 %, 1.08 times."""
THROUGHOUT = 0.8
"""Of a period, from which on it is held up by more than bursts."""


def catching_up(job: Job, settings: RunSettings, rows: Sequence[Row], events: Sequence[AnyEvent]) -> list[str]:
    """One line for each source of a fast run. rows: those of the operators."""
    why = "" if settings.fidelity == "exact" else _uncertain(job, events)
    most = HELD_UP if _windowed(job) else BY_CHANCE
    lines = []
    for source in job.sources if why else ():
        mine = [row for row in rows if row["operator"] == source.name and row["start_s"] >= settings.warmup_s]
        arrived, taken = (sum(row[key] for row in mine) for key in ("arrived", "numRecordsIn"))
        blocked = [row["backPressuredTimeMsPerSecond"] / 1000 for row in mine]
        if now_and_then(blocked) > most and arrived - taken <= BACKPRESSURE_SHARE * arrived:
            share = sum(blocked) / len(blocked)
            lines.append(f"{source.name}: it keeps up, but is blocked for {100 * share:.0f} % of the time: {why}")
    return lines


def now_and_then(blocked: Sequence[float]) -> float:
    """Of shares of periods, the mean over all periods of those that lie in no rush; a rush without an end is none."""
    rush = [share > THROUGHOUT for share in blocked]
    loose = [share for index, share in enumerate(blocked) if not any(rush[max(0, index - 1) : index + 2])]
    return sum(loose or blocked) / max(1, len(blocked))


def _windowed(job: Job) -> bool:
    return any(isinstance(each, Windowed) for each in job.query.operators)


def _uncertain(job: Job, events: Sequence[AnyEvent]) -> str:
    """What comes in bursts: the results of windows; or, where nothing else does, queues that fill short channels."""
    if _windowed(job):
        return (
            "how far it falls behind in bursts is smoothed by segments, so end-to-end latencies, high percentiles "
            "above all, may be half or twice of what they are; set fidelity: exact"
        )
    if events or not all(isinstance(law, Constant | Poisson) for law in job.deployment.workload.arrivals.values()):
        return ""
    return (
        "short channels fill by chance, sooner where a stream is dealt to many replicas, which segments smooth, so "
        "end-to-end latencies may be far too low; set fidelity: exact, or give it longer channels"
    )
