"""Rates and features are finite, and in their physical ranges, for every valid plan: also where nothing flows."""

from __future__ import annotations

import copy
from dataclasses import fields
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import encoding
from scenarios.files import registry, scenario_file
from scenarios.spaces.generator import UNSEEN_HARDWARE
from scenarios.spaces.registry import DRAWN, SPACES, RandomScenarios, drawn
from tests.twin.machine import random_jobs
from tests.twin.random_event_jobs import event_time_scenario
from tests.twin.worlds import chain
from twin.metrics import DELAY
from twin.rates.model import RateAnswer, RateModel
from twin.scenario import RunSettings, Scenario

SAME = 1.0 + 1e-9
"""Factor up to which numbers are equal but for rounding."""
MANY = {"costream": 30, "costream-chains": 10, "wide": 30, "demanding": 20, "library": 30}
KINDS = (*SPACES, *DRAWN, "any kind", "event time", "library")


def job(kind: str, index: int) -> Scenario:
    """Random scenario of a space, or of kinds that no space has, or one of the library."""
    match kind:
        case "any kind":
            return random_jobs.scenario(Random(index), changing=False)
        case "event time":
            return event_time_scenario(Random(index))
        case "library":
            names = registry.names()
            return scenario_file.load(names[index % len(names)])
    return drawn(kind, 11, index) if kind in DRAWN else RandomScenarios(kind, 11, RunSettings())(index)


def starved(scenario: Scenario, random: Random) -> Scenario:
    """The same with dead operators, sources that bring next to nothing or far too much, hosts that can do next to
    nothing, and full channels; what does not fit is left out."""
    document = scenario.model_dump(mode="json") | {"engine": scenario.engine.model_dump(mode="json")}
    for _ in range(random.choice([1, 1, 2, 4])):
        changed = copy.deepcopy(document)
        _starve(changed, random)
        try:
            scenario, document = Scenario.model_validate(changed), changed
        except ValueError:
            continue
    return scenario


def _starve(document: dict[str, Any], random: Random) -> None:
    operator = random.choice(document["query"]["operators"])
    host = random.choice(document["cluster"]["hosts"])
    match random.choice(["dead", "dead", "dead", "source", "cpu", "network", "memory", "channels", "work"]):
        case "dead":
            for name in {"selectivity", "amplification"} & operator.keys():
                operator[name] = None if operator[name] is None else random.choice([0.0, 0.0, 1e-12, 1e-6])
        case "source":
            name = random.choice(list(document["workload"]["arrivals"]))
            rate = {"law": "poisson", "rate_per_s": random.choice([1e-9, 1e-6, 1e6, 1e9])}
            document["workload"]["arrivals"][name] = rate
        case "cpu":
            host["cpu_percent"] *= random.choice([1e-3, 1e-2, 0.1])
        case "network":
            host["bandwidth_mbps"] *= random.choice([1e-4, 1e-2])
        case "memory":
            host["ram_mb"] = random.choice([1.0, 310.0, 400.0])
        case "channels":
            if "channel_records" in document["engine"]:  # and no buffers
                document["engine"]["channel_records"] = 1
        case "work":
            operator["service_time_s"] = random.choice([0.0, 1e-9, 0.1, 10.0])


def check(scenario: Scenario, model: RateModel) -> None:
    """Checks the rate model's answer about a scenario."""
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        answer = model.answer(scenario, [scenario.plan])
    costs = answer.costs.by_metric
    arrays = {field.name: getattr(answer, field.name) for field in fields(RateAnswer)}
    arrays = {name: each for name, each in arrays.items() if isinstance(each, np.ndarray)} | dict(costs)
    for name, each in arrays.items():
        assert np.isfinite(each).all(), f"{name} is not finite"
        assert (each >= 0.0).all(), f"{name} is negative"
    for name in ("ingested", "delivered", "busiest_used", "backpressured", "success"):
        assert (arrays[name] <= SAME).all(), f"{name} is no share"
    assert (answer.ingested > 0.0).all()
    assert (answer.busiest * SAME >= 1.0).all()
    at_sources = [answer.operators.index(name) for name in answer.sources]
    assert (answer.in_per_s[:, at_sources] <= answer.offered_in_per_s[:, at_sources] * SAME).all()
    assert (costs["processing_latency_s"] <= costs["e2e_latency_s"] * SAME).all()
    assert (costs["e2e_latency_s"] <= model.run_s(scenario) * SAME).all()
    assert (answer.age_s <= answer.e2e_age_s * SAME).all()
    assert (answer.line_s <= answer.queue_s * SAME).all()
    for used in (answer.pressure, answer.cpu, answer.card, answer.links):
        assert (used <= 1.01).all(), "overloaded once sources are slowed"


def features(scenario: Scenario) -> np.ndarray:
    """Inputs of learned models other than the graph's, which are checked as they are made. NaN: does not apply."""
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        found = encoding.encode([scenario.deployment], [RateModel().measured(scenario)])
    assert np.isfinite(found.about_GxA).all()
    return np.concatenate([found.flat_GxF[0], found.derived_GxD[0]])


def check_features(plain: Scenario, *others: Scenario) -> None:
    """Checks that features of others are known where those of `plain` are."""
    first, *rest = map(features, (plain, *others))
    for found in (first, *rest):
        assert not np.isinf(found).any()
        assert (np.isnan(found) == np.isnan(first)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_finite_and_possible(kind: str) -> None:
    for index in range(2 if kind in DRAWN or kind in UNSEEN_HARDWARE else 12):
        plain = job(kind, index)
        found = starved(plain, Random(index))
        check(found, RateModel())
        check_features(plain, found)


def check_many(kind: str, indices: range) -> None:
    """Checks scenarios as they are and starved, by all forms of the model in turn."""
    models = RateModel(), RateModel().planning(), RateModel().lasting()
    for index in indices:
        plain = job(kind, index)
        starving = [starved(plain, Random(f"{index} {number}")) for number in range(2)]
        for found in (plain, *starving):
            check(found, models[index % 3])
        check_features(plain, *starving)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), {"any kind": 150, "event time": 90, **MANY}.items())
def test_a_thousand_answers_are_finite_and_possible(kind: str, count: int) -> None:
    check_many(kind, range(count))


WINDOWS = st.sampled_from(
    [
        {"policy": "count", "size_records": 7},
        {"policy": "count", "size_records": 7, "slide_records": 2},
        {"policy": "time", "size_s": 2.0},
        {"policy": "time", "size_s": 2.0, "slide_s": 0.5},
    ]
)


@given(WINDOWS, st.sampled_from([1, 50]), st.floats(10.0, 5000.0))
def test_nothing_is_the_limit_of_next_to_nothing(window: dict[str, Any], groups: int, rate_per_s: float) -> None:
    """Behind a filter that passes nothing, all is as behind one that passes one record in the age of the world."""

    def answer(selectivity: float) -> RateAnswer:
        dead = {"kind": "filter", "name": "f", "selectivity": selectivity, "service_time_s": 1e-3}
        grouped = {"group_by": "int", "groups": groups} if groups > 1 else {}
        work = [dead, {"kind": "aggregate", "name": "g", "window": window, **grouped}]
        made = chain(work, rate_per_s)
        return RateModel(240.0).answer(made, [made.plan])

    none, hardly = answer(0.0), answer(1e-17)
    for metric, values in none.costs.by_metric.items():
        if metric not in ("throughput_per_s", DELAY):  # of results: what is hoped for, and how long one is made
            np.testing.assert_allclose(values, hardly.costs[metric], rtol=1e-3, atol=1e-9, err_msg=metric)
    for name in ("out_per_s", "pressure", "service_s", "speed", "channel_s", "queue_s"):
        np.testing.assert_allclose(getattr(none, name), getattr(hardly, name), rtol=1e-3, atol=1e-9, err_msg=name)
