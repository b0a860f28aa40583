"""Scenarios are judged whole: events and policies are simulated wherever plans are; corpora keep them."""

from __future__ import annotations

from typing import Any

import pytest

from scenarios import learning
from scenarios.files import scenario_file
from scenarios.files.scenario_file import set_value
from scenarios.planning.bench import SimulatedCostModel
from scenarios.planning.validation import validate
from scenarios.spaces.registry import OneQuery, ScenarioFamily
from tests.twin.changing import job
from twin.cluster import Link
from twin.errors import BadInput
from twin.events import Failure, SlowDown
from twin.key_skew import KeySkew
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate

SHORT = {"horizon_s": 20.0, "period_s": 1.0}


def failing() -> Scenario:
    return Scenario.of(job()).with_run(**SHORT).with_events(Failure(at_s=5, host="h2", recover_after_s=5))


def overloaded() -> Scenario:
    """Job in which one subtask of m bears half of what comes; ds2 adds others."""
    return Scenario.of(job(service_s=5e-3)).with_run(**SHORT)


@pytest.mark.parametrize("given", [failing(), overloaded().with_policy("ds2")])
def test_the_simulator_as_cost_model_and_validation_simulate_what_happens(given: Scenario) -> None:
    truth = simulate(given.with_run(seed=SimulatedCostModel(simulate).seed or 0))
    bare = given.with_events().with_policy(None)
    says, quiet = (SimulatedCostModel(simulate).predict(each, [each.plan]) for each in (given, bare))
    assert truth.event_rows
    assert says["e2e_latency_s"][0] != pytest.approx(quiet["e2e_latency_s"][0], rel=0.05)
    from scenarios.planning.planner import AsGiven

    (row,) = validate([given], [AsGiven()], [RateModel()], simulate, 1, given.run.seed, references=0)
    assert row.simulated is not None
    assert row.simulated == pytest.approx(
        SimulatedCostModel(simulate).predict(given, [given.plan])["processing_latency_s"][0]
    )


def test_a_policy_is_part_of_a_scenario_and_of_its_file() -> None:
    given = overloaded().with_policy("ds2")
    changed = set_value(given, "policy.margin=0.1")
    assert changed.policy is not None and changed.policy.model_dump()["margin"] == 0.1
    text = scenario_file.dump(changed)
    assert "policy: {name: ds2, margin: 0.1}" in text
    assert scenario_file.parse_scenario(text, "again") == changed
    assert scenario_file.parse_scenario(scenario_file.dump(given), "again") == given
    eager = set_value(given, "policy={name: ds2, target_utilisation: 0.4, margin: 0.05}")
    first, again, other, bare = (simulate(each) for each in (given, given, eager, overloaded()))
    assert first.event_rows == again.event_rows and first.event_rows != other.event_rows
    assert len({each.manifest["config_hash"] for each in (first, again, other, bare)}) == 3


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("policy=ds1", "unknown policy 'ds1'; did you mean 'ds2'"),
        ("policy={name: ds2, margins: 1}", "unknown key 'margins'; did you mean 'margin'"),
        ("policy={margin: 1}", "a policy is a name, or a mapping"),
        ("policy=[ds2]", "a policy is a name, or a mapping"),
        ("policy={name: ds2, margin: 1}", "give 0 <= margin < target_utilisation"),
        ("policy={name: relieve, hot: 2}", "hot: .* less than or equal to 1"),
    ],
)
def test_a_policy_that_cannot_be_is_one_clear_line(assignment: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        set_value(overloaded(), assignment)


def networked(**changes: Any) -> Scenario:
    """Keyed, skewed job with key groups dealt by hand, on hosts joined by a switch."""
    base = Scenario.of(job(key_groups=8))
    links = tuple(Link(between=(f"h{k}", "switch"), bandwidth_mbps=100, latency_ms=500) for k in range(4))
    cluster = base.cluster.model_copy(update={"links": links, "switches": ("switch",)})
    workload = base.workload.model_copy(update={"keys": {"a": KeySkew(zipf=1.5)}})
    plan = base.plan.model_copy(update={"key_groups": {"a": (0, 0, 0, 0, 0, 0, 0, 1)}})
    return Scenario(**{**dict(base), "cluster": cluster, "workload": workload, "plan": plan, **changes})


def test_members_of_a_family_keep_links_switches_skew_and_key_groups() -> None:
    base = networked()
    members = [ScenarioFamily(base, seed=3)(index) for index in range(12)]
    for member in members:
        assert (member.cluster.links, member.cluster.switches) == (base.cluster.links, base.cluster.switches)
        assert (member.workload.keys, member.plan.key_groups) == (base.workload.keys, base.plan.key_groups)
        assert member.engine == base.engine
    assert len({each.plan.model_dump_json() for each in members}) > 5


def test_members_sit_where_links_lead() -> None:
    """Only placements whose streams have routes are drawn: h3 has no link."""
    base = networked()
    apart = base.cluster.model_copy(update={"links": base.cluster.links[:3]})
    family = ScenarioFamily(networked(cluster=apart), seed=1)
    for index in range(12):
        hosts = {place for places in family(index).plan.placement.values() for place in places}
        assert "h3" not in hosts or hosts == {"h3"}


def test_a_corpus_refuses_what_its_rows_would_not_show() -> None:
    for given, what in (
        (networked().with_events(SlowDown(at_s=1, host="h0", factor=2)), "has events"),
        (networked().with_policy("ds2"), "has policy"),
    ):
        with pytest.raises(BadInput, match=what):
            learning.around(given, runs=3, seed=0)
        with pytest.raises(BadInput, match=what):
            OneQuery(given, "costream", seed=0)
    with pytest.raises(BadInput, match="has links"):
        OneQuery(networked(), "costream", seed=0)
