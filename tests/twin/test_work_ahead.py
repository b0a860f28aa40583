"""Work is booked as it begins, and may lie beyond the end of a run: no law is broken by that."""

from __future__ import annotations

import pytest

from tests.twin.changing import run
from tests.twin.worlds import HOST, chain
from twin.deployment import Deployment
from twin.events import AnyEvent, Migration
from twin.profiles import STORM

BOTH = pytest.mark.parametrize("fidelity", ["exact", "fast"])
EVALUATION = {"name": "evaluated slowly", "result_us": 1e5}
"""About a minute an evaluation of a thousand groups."""


def slow_windows(cpu_percent: float) -> Deployment:
    """source -> a window over two seconds, evaluated each second -> sink."""
    window = {"policy": "time", "size_s": 2, "slide_s": 1}
    return chain(
        [{"kind": "aggregate", "name": "a", "window": window, "group_by": "int", "groups": 100_000}],
        {"law": "constant", "rate_per_s": 1000},
        hosts=[{**HOST, "cpu_percent": cpu_percent}, {**HOST, "name": "other"}],
        engine=STORM.model_copy(update=EVALUATION).model_dump(),
    )


@BOTH
@pytest.mark.parametrize("cpu_percent", [100, 400])
@pytest.mark.parametrize("events", [(), (Migration(at_s=1.1, operator="a", replica=0, to="other"),)])
def test_an_evaluation_may_end_after_the_run(fidelity: str, cpu_percent: float, events: tuple[AnyEvent, ...]) -> None:
    """work <= capacity * time, checked inside; a replica that moves ends its evaluation first."""
    result = run(slow_windows(cpu_percent), *events, fidelity=fidelity, horizon_s=1.4, period_s=0.1)
    assert result.host_rows[-1]["cpuUtilisation"] > 0.2
    assert all(row["end_s"] is None for row in result.event_rows)
