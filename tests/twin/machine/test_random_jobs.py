"""Random jobs obey the laws of conservation on any plan and network, and whatever happens to them; and compiled code
and Python may take turns whenever they want: all tables of a run are equal to the last bit."""

from __future__ import annotations

from random import Random

from hypothesis import event, given, settings
from hypothesis import strategies as st

from scenarios.spaces.wide import wide_scenario
from tests.twin.machine.random_jobs import checkpointed, scenario
from tests.twin.machine.random_timed_jobs import timed_scenario
from tests.twin.machine.runs import differences, looking_after_each_event, outcome, require_lawful
from tests.twin.random_event_jobs import event_time_scenario
from twin.scenario import Scenario
from twin.world import mechanisms

SEEDS = st.integers(0, 2**32 - 1)
JOBS = {
    "plain": lambda random: scenario(random, changing=False),
    "changing": lambda random: scenario(random, changing=True),
    "checkpointed": checkpointed,
    "over event time": lambda random: timed_scenario(random, random.random() < 0.5),
    "windows over event time": event_time_scenario,
}


def require_same(job: Scenario) -> None:
    found = outcome(job)
    with looking_after_each_event():
        assert differences(found, outcome(job)) == []
    event("a run" if found.run is not None else "refused")
    if found.run is not None:
        require_lawful(found.run)


@settings(max_examples=40)
@given(st.sampled_from(sorted(JOBS)), SEEDS)
def test_on_any_job(kind: str, seed: int) -> None:
    require_same(JOBS[kind](Random(seed)))


@settings(max_examples=4)
@given(SEEDS)
def test_on_what_models_are_trained_with(seed: int) -> None:
    require_same(wide_scenario(seed, 1.0))


def test_each_mechanism_has_one_logic() -> None:
    """A logic in Python stands only for a mechanism that is not compiled."""
    assert not set(mechanisms.LOGICS) & set(mechanisms.IN_PYTHON)
