"""When a fast run says that how far its sources fall behind is uncertain."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twin.worlds import deployment, sink, source
from twin.guards.catching_up import now_and_then
from twin.profiles import STORM
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

QUIET = [0.0, 0.0, 0.0, 0.0]
TOLD = "it keeps up, but is blocked"


@pytest.mark.parametrize(
    ("blocked", "share"),
    [
        ([*QUIET, 0.4, 0.9, 1.0, 0.6, *QUIET], 0.0),  # a rush, and the periods into which it reaches
        ([0.3, 0.3, 0.3, 0.3], 0.3),
        ([0.3, 0.3, *QUIET, 0.9, 0.5, *QUIET], 0.05),
        ([0.9, 0.9, 0.9], 0.9),
        ([], 0.0),
    ],
)
def test_a_rush_is_none_of_what_segments_smooth(blocked: list[float], share: float) -> None:
    assert now_and_then(blocked) == pytest.approx(share)


@given(st.lists(st.floats(0.0, 1.0), max_size=30))
def test_it_is_a_part_of_the_time(blocked: list[float]) -> None:
    assert 0.0 <= now_and_then(blocked) <= sum(blocked) / max(1, len(blocked)) + 1e-12


def told(channel_tuples: int, arrivals: object, behind: list[dict[str, Any]]) -> tuple[int, float]:
    """How many sources that deal in turn to four replicas are told of, and the most that one is blocked in a period."""
    slow = {"kind": "map", "name": "slow", "service_time_s": 3.4e-3, "service_scv": 1.0}
    names = ["source", "slow", *(each["name"] for each in behind), "sink"]
    job = deployment(
        [source(), slow, *behind, sink()],
        list(pairwise(names)),
        {"source": arrivals},
        placement={name: ["h"] * 4 if name == "slow" else "h" for name in names},
        engine=STORM.model_copy(update={"channel_tuples": channel_tuples}).model_dump(mode="json"),
    )
    run = simulate(Scenario.of(job, RunSettings(horizon_s=24, warmup_s=2, period_s=1, seed=2, fidelity="fast")))
    assert not run.metrics.backpressured
    blocked = [row["backPressuredTimeMsPerSecond"] / 1000 for row in run.operator_rows if row["operator"] == "source"]
    return sum(TOLD in line for line in run.warnings), max(blocked)


@pytest.mark.parametrize(("channel_tuples", "lines"), [(8, 1), (512, 0)])
def test_channels_that_fill_by_chance_are_told_of(channel_tuples: int, lines: int) -> None:
    """Where they hold 8 tuples, an exact run of such a job is 20 times as late from end to end."""
    assert told(channel_tuples, {"law": "poisson", "rate_per_s": 1000.0}, [])[0] == lines


def test_a_rush_that_ends_is_followed() -> None:
    steps = [{"at_s": 0, "rate_per_s": 500}, {"at_s": 6, "rate_per_s": 1800}, {"at_s": 12, "rate_per_s": 200}]
    window = {"policy": "time", "size_s": 1, "slide_s": 1}
    count = {"kind": "aggregate", "name": "count", "group_by": "int", "groups": 5, "window": window}
    lines, blocked = told(256, {"law": "steps", "steps": steps}, [count])
    assert (lines, blocked > 0.9) == (0, True)
