"""Cost models that ignore checkpoints say so, and checkpoints are part of what decides a run."""

from __future__ import annotations

import pytest

from scenarios.spaces.registry import OneQuery, ScenarioFamily
from tests.twin.checkpointed import lines
from twin.errors import BadInput
from twin.rates.model import RateModel
from twin.scenario import Scenario, config_hash
from twin.spec import parse
from twin.steadiness import source_of_change, steady
from twin.unsupported import unsupported_features


def given(**checkpoints: object) -> Scenario:
    return parse(Scenario, dict(Scenario.of(lines(2))) | {"checkpoints": checkpoints})


def test_whoever_does_not_see_them_says_so() -> None:
    assert unsupported_features(given(), ())[0] == "what checkpoints cost beyond the time of threads"
    assert "results that wait for checkpoints" not in unsupported_features(given(), ())
    assert "results that wait for checkpoints" in unsupported_features(given(sinks="exactly-once"), ())
    assert "checkpoints" not in "".join(unsupported_features(given(sinks="exactly-once"), ("checkpoints", "commits")))
    seen = set(unsupported_features(given(sinks="exactly-once"), ())) - set(
        RateModel().blind_to(given(sinks="exactly-once"))
    )
    assert seen == {"results that wait for checkpoints", "forward partitioning"}
    assert RateModel().blind_to(given())[0] == "what checkpoints cost beyond the time of threads"


def test_variations_of_a_scenario_keep_them() -> None:
    """Rows of training have them in a column. A storage host is not among other hosts."""
    assert ScenarioFamily(given(), seed=1)(0).checkpoints == given().checkpoints
    with pytest.raises(BadInput, match=r"checkpoints\.storage=null"):
        OneQuery(given(storage="store"), "costream", seed=1)


def test_they_are_part_of_what_decides_a_run() -> None:
    none, some, others = Scenario.of(lines(2)), given(), given(interval_s=3)
    assert len({config_hash(each) for each in (none, some, others)}) == 3
    assert source_of_change(some, (), None) == "checkpoints"
    assert not steady(some, (), policy=False)
    assert steady(none, (), policy=False)
