"""A compiled job is the same however its operators and streams are listed."""

from __future__ import annotations

import dataclasses
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenarios.spaces.generator import random_scenario
from scenarios.spaces.registry import SPACES
from twin.deployment import Deployment
from twin.guards.effort import estimate
from twin.job import Job, compile
from twin.query import Query
from twin.scenario import RunSettings, Scenario


def listed_otherwise(deployment: Deployment, seed: int) -> Deployment:
    """The same deployment, its operators and streams listed in another order."""
    shuffled = random.Random(seed)
    operators, streams = list(deployment.query.operators), list(deployment.query.streams)
    shuffled.shuffle(operators)
    shuffled.shuffle(streams)
    return Deployment(**{**dict(deployment), "query": Query(operators=tuple(operators), streams=tuple(streams))})


def told(job: Job) -> list[object]:
    """All of a job but the deployment that it was made of."""
    return [[dataclasses.astuple(each) for each in part] for part in (job.components, job.edges)]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 99))
def test_nothing_depends_on_the_order_in_which_operators_are_listed(seed: int, order: int) -> None:
    deployment = random_scenario(SPACES["costream"], seed, RunSettings()).deployment
    other = listed_otherwise(deployment, order)
    assert told(compile(deployment)) == told(compile(other))
    assert estimate(Scenario.of(deployment)).cpu_s == pytest.approx(estimate(Scenario.of(other)).cpu_s)
