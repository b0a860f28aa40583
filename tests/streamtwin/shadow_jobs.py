"""Jobs with metrics to shadow, and the windows of their files, summed up without Spark."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from spark.metric_windows import Series, WindowSample
from streamtwin.connect.belief import parsed
from streamtwin.export import files_of
from tests.scenarios.questions.jobs import host
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse

WINDOW_S = 10.0
SERVICE_S = 1e-3
FROM_PER_S, BY_PER_S2, LONG_S = 200, 5.0, 130


def crossing(**changes: Any) -> Scenario:
    """Job of two operators of a millisecond that share a core of `small` and can bear 500 records a second together;
    `spare` is idle. The rate grows by 5 records a second in a second, so that they are full after a minute."""
    steps = [{"at_s": at_s, "rate_per_s": FROM_PER_S + BY_PER_S2 * at_s} for at_s in range(LONG_S)]
    data: Mapping[str, Any] = {
        "name": "crossing",
        "query": {
            "operators": [
                {"name": "in", "kind": "source", "service_time_s": 0},
                {"name": "parse", "kind": "map", "service_time_s": SERVICE_S},
                {"name": "rate", "kind": "map", "service_time_s": SERVICE_S},
                {"name": "out", "kind": "sink", "service_time_s": 0},
            ],
            "streams": [
                {"producer": "in", "consumer": "parse"},
                {"producer": "parse", "consumer": "rate"},
                {"producer": "rate", "consumer": "out"},
            ],
        },
        "cluster": {"hosts": [host("door", 4), host("small", 1), host("spare", 2)]},
        "plan": {"placement": {"in": "door", "parse": "small", "rate": "small", "out": "door"}},
        "workload": {"arrivals": {"in": {"law": "steps", "steps": steps, "poisson": False}}},
        "run": {"horizon_s": 50, "warmup_s": 10, "period_s": 1, "seed": 3},
    }
    return parse(Scenario, {**data, **changes})


def steady(rate_per_s: float, **changes: Any) -> Scenario:
    """Job `crossing` at a constant rate."""
    return crossing(workload={"arrivals": {"in": {"law": "constant", "rate_per_s": rate_per_s}}}, **changes)


def write_metrics(scenario: Scenario, folder: Path) -> list[Path]:
    """Files of a run's metrics, in the order of time in which they were written."""
    folder.mkdir(exist_ok=True)
    for number, (name, text) in enumerate(files_of(simulate(scenario))):
        (folder / name).write_text(text)
        os.utime(folder / name, (1e9 + number, 1e9 + number))
    return sorted(folder.iterdir())


def series_of(files: Iterable[Path], window_s: float = WINDOW_S) -> list[Series]:
    """Series of all windows but the one that is not over."""
    samples = [each for file in files for each in parsed(str(file), file.read_bytes())]
    groups: dict[tuple[float, str, str, str], list[WindowSample]] = {}
    for each in sorted(samples):
        start_s = each.time_s // window_s * window_s
        groups.setdefault((start_s, each.metric, each.of, each.labels), []).append(each)
    last_s = max(start_s for start_s, *_ in groups)
    return sorted(_series(key, group) for key, group in groups.items() if key[0] < last_s)


def _series(key: tuple[float, str, str, str], group: list[WindowSample]) -> Series:
    values = [each.value for each in group]
    within = (len(values), fmean(values), min(values), max(values), values[0], values[-1])
    return Series(*key, *within, group[0].time_s, group[-1].time_s)
