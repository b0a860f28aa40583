"""The kernel and the engine run the same world: all tables of a run are equal to the last bit, whatever happens."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from scenarios.spaces.wide import wide_scenario
from tests.twin.kernel.both import differences, in_engine, in_kernel
from tests.twin.kernel.random_jobs import scenario
from twin.scenario import Scenario

SEEDS = st.integers(0, 2**32 - 1)
WORTH = st.sampled_from([0, 5, 1000])
"""How soon after a change the kernel takes over again."""


def require_same(job: Scenario, worth: int) -> None:
    found = in_kernel(job, worth)
    event("in the kernel" if found.stretches else "left to the engine")
    assert differences(in_engine(job), found) == []


@settings(max_examples=10)
@given(SEEDS, WORTH)
def test_on_any_job(seed: int, worth: int) -> None:
    require_same(scenario(Random(seed), changing=False), worth)


@settings(max_examples=15)
@given(SEEDS, WORTH)
def test_on_any_job_to_which_something_happens(seed: int, worth: int) -> None:
    require_same(scenario(Random(seed), changing=True), worth)


@settings(max_examples=4)
@given(SEEDS)
def test_on_what_models_are_trained_with(seed: int) -> None:
    require_same(wide_scenario(seed, 1.0), 0)


@pytest.mark.slow
@settings(max_examples=150)
@given(SEEDS, st.booleans(), WORTH)
def test_on_many_jobs(seed: int, changing: bool, worth: int) -> None:
    require_same(scenario(Random(seed), changing), worth)
