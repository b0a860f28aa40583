"""Several streams into one operator: each tuple costs, and weighs, by the columns of its own stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.twin.worlds import deployment, simulated, sink, source
from twin.deployment import Deployment
from twin.profiles import STORM
from twin.scenario import RunSettings
from twin.wiring.build import build
from twin.wiring.wiring import Wiring

NARROW, WIDE = {"ints": 1}, {"ints": 3, "strings": 20}
RATES = {"narrow": 70, "wide": 20}
"""Tuples a second of the two sides, evenly spaced."""


def two_sided(middle: dict[str, Any], order: Sequence[str], **more: Any) -> Deployment:
    """A narrow and a wide source into one operator, whose streams are listed in that order."""
    sides = {"narrow": source("narrow", columns=NARROW), "wide": source("wide", columns=WIDE)}
    operators = [*(sides[name] for name in order), {"name": "both"} | middle, sink()]
    streams = [*((name, "both") for name in order), ("both", "sink")]
    return deployment(operators, streams, {k: {"law": "constant", "rate_per_s": v} for k, v in RATES.items()}, **more)


def join(**window: Any) -> dict[str, Any]:
    return {"kind": "join", "window": window, "selectivity": 0, "service_scv": 0}


def own_s(kind: str) -> dict[str, float]:
    """CPU seconds of a tuple of each side, by hand."""
    base, value = getattr(STORM.tuple_us, kind), STORM.value_us
    values = {"narrow": value.ints, "wide": 3 * value.ints + 20 * value.strings}
    return {name: (base + values_us) * 1e-6 for name, values_us in values.items()}


ORDERS = [("narrow", "wide"), ("wide", "narrow")]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("middle", [join(policy="count", size_tuples=10), {"kind": "map", "service_scv": 0}])
def test_busy_time_is_the_sum_over_the_streams(middle: dict[str, Any], order: Sequence[str]) -> None:
    """Nothing else costs: results and scans are free, all sits on one host."""
    free = STORM.model_copy(update={"result_us": 0.0, "scan_us": 0.0}).model_dump(mode="json")
    job = two_sided(middle, order, engine=free)
    settings = RunSettings(horizon_s=20.5, warmup_s=0, period_s=20.5, noise=False)
    wiring = Wiring(job, settings)
    world = build(wiring)
    world.env.run(until=settings.horizon_s)
    (task,) = world.tasks["both"]
    came = {name: world.streams[name, "both"].inboxes[0].sent for name in RATES}
    assert came["narrow"] > 3 * came["wide"] > 0
    assert not task.busy and not task.queued
    assert task.busy_s == pytest.approx(sum(n * own_s(middle["kind"])[name] for name, n in came.items()), rel=1e-9)


@pytest.mark.parametrize("order", ORDERS)
def test_a_window_holds_each_side_at_its_own_size(order: Sequence[str]) -> None:
    job = two_sided(join(policy="time", size_s=4, slide_s=2), order)
    run = simulated(job, horizon_s=21, warmup_s=0, period_s=21, noise=False)
    (row,) = (row for row in run.operator_rows if row["operator"] == "both")
    sizes = {name: job.engine.output_bytes(job.query, name) for name in RATES}
    assert sizes["wide"] > 5 * sizes["narrow"]
    kept = sum(2 * RATES[name] * size for name, size in sizes.items())  # after the evaluation at 20 s: of 2 s
    assert row["stateBytes"] == pytest.approx(kept, abs=sizes["narrow"] + sizes["wide"])
