"""A law that is taken out of the rate model is out while it is, and back afterwards."""

from __future__ import annotations

import pytest

from benchmarks.ablation import LAWS, without
from tests.twin.worlds import chain
from twin.profiles import FLINK
from twin.rates.model import RateModel

WORK = {"kind": "map", "name": "work", "selectivity": 1, "service_time_s": 1e-3}


def latency_s() -> float:
    job = chain([WORK], 500).model_copy(update={"engine": FLINK})
    return float(RateModel(1e4).answer(job, [job.plan]).costs["processing_latency_s"][0])


@pytest.mark.parametrize("law", LAWS)
def test_every_law_can_be_taken_out_and_is_back_then(law: str) -> None:
    proper_s = latency_s()
    with without(LAWS[law]):
        plain_s = latency_s()
    assert latency_s() == proper_s
    assert (plain_s < proper_s) == (law == "waits for batches, and in them")
