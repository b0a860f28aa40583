"""What tasks on a processor know of each other's demands."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twin.engine.compute.load import Load
from twin.engine.compute.neighbours import FEW, Neighbours


@dataclass
class Asking:
    """A task, as its neighbours see it."""

    load: Load
    service_scv: float


@given(
    rows=st.lists(
        st.tuples(st.integers(1, 50), st.floats(0.0, 2.0), st.floats(0.0, 3.0)), min_size=2, max_size=3 * FEW
    ),
    speed=st.floats(0.01, 1.0),
)
def test_neighbours_are_summed_alike_whether_few_or_many(rows, speed):
    loads = [Load() for _ in rows]
    for load, (tuples, work_s, _) in zip(loads, rows, strict=True):
        load.tuples, load.work_s, load.last_s = tuples, work_s, 1.0
    scvs = [scv for _, _, scv in rows]
    neighbours = Neighbours(Asking(load, scv) for load, scv in zip(loads, scvs, strict=True))
    found = [neighbours.below(load, speed, 1.0) for load in loads]
    for own, (work, variance) in zip(loads, found, strict=True):
        others = [
            (each.work_per_s, each.tuples_per_s * each.work_each_s**2 * scv)
            for each, scv in zip(loads, scvs, strict=True)
            if each is not own and each.work_per_s < speed
        ]
        assert work == pytest.approx(math.fsum(each for each, _ in others), abs=1e-9)
        assert variance == pytest.approx(math.fsum(each for _, each in others), abs=1e-9)
