"""Cost models that ignore checkpoints say so, and checkpoints are part of what decides a run."""

from __future__ import annotations

import pytest

from scenarios.spaces.families import refuse_unseen
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
    assert unsupported_features(given(), ())[0] == "what checkpoints cost"
    assert "results that wait for checkpoints" not in unsupported_features(given(), ())
    assert "results that wait for checkpoints" in unsupported_features(given(sinks="exactly-once"), ())
    assert "checkpoints" not in "".join(unsupported_features(given(sinks="exactly-once"), ("checkpoints", "commits")))
    seen = set(unsupported_features(given(sinks="exactly-once"), ())) - set(
        RateModel().blind_to(given(sinks="exactly-once"))
    )
    assert seen == {"results that wait for checkpoints", "forward partitioning"}
    with pytest.raises(BadInput, match="checkpoints=null"):
        refuse_unseen(given())


def test_they_are_part_of_what_decides_a_run() -> None:
    none, some, others = Scenario.of(lines(2)), given(), given(interval_s=3)
    assert len({config_hash(each) for each in (none, some, others)}) == 3
    assert source_of_change(some, (), None) == "checkpoints"
    assert not steady(some, (), policy=False)
    assert steady(none, (), policy=False)
