"""Checkpoints as a run shows them: one table, apart from what changed the job; who does not see them says so."""

from __future__ import annotations

import json

import pytest

from scenarios.spaces.families import _refuse_unseen
from streamtwin.tables import checkpoint_table, run_tables
from streamtwin.tables.timelines import marks
from tests.twin.checkpointed import lines, run
from twin.errors import BadInput
from twin.events import Failure
from twin.rates.model import RateModel
from twin.scenario import Scenario, config_hash
from twin.spec import parse
from twin.steadiness import change, steady
from twin.unsupported import unsupported_features


def given(**checkpoints: object) -> Scenario:
    return parse(Scenario, dict(Scenario.of(lines(2))) | {"checkpoints": checkpoints})


def test_they_have_a_table_of_their_own() -> None:
    result = run(lines(2), Failure(at_s=8, host="h0", recover_after_s=3))
    titles = [str(table.title) for table in run_tables.of_run("job", result)]
    assert titles[-2:] == ["events", "checkpoints: 3 completed"]
    assert len(marks(result)) == 1
    changes, taken = checkpoint_table.apart(result.event_rows)
    assert (len(changes), len(taken)) == (1, 3)
    stored = {(row["kind"], json.loads(row["detail"]).get("status")) for row in result.rows("r")["events"]}
    assert stored == {("failure", None), ("checkpoint", "completed")}


def test_what_ended_them_is_counted() -> None:
    rows = [
        {"kind": "checkpoint", "at_s": 5.0, "end_s": 5.5, "bytes": None, "detail": {"status": "failed", "why": "x"}},
        {"kind": "checkpoint", "at_s": 9.0, "end_s": None, "bytes": None, "detail": {"status": "under way"}},
    ]
    assert str(checkpoint_table.of_checkpoints(rows).title) == "checkpoints: 1 failed (x), 1 under way"


def test_whoever_does_not_see_them_says_so() -> None:
    assert unsupported_features(given(), ())[0] == "what checkpoints cost"
    assert "results that wait for checkpoints" not in unsupported_features(given(), ())
    assert "results that wait for checkpoints" in unsupported_features(given(sinks="exactly-once"), ())
    assert "checkpoints" not in "".join(unsupported_features(given(sinks="exactly-once"), ("checkpoints", "commits")))
    seen = set(unsupported_features(given(sinks="exactly-once"), ())) - set(
        RateModel().blind_to(given(sinks="exactly-once"))
    )
    assert seen == {"results that wait for checkpoints"}
    with pytest.raises(BadInput, match="checkpoints=null"):
        _refuse_unseen(given())


def test_they_are_part_of_what_decides_a_run() -> None:
    none, some, others = Scenario.of(lines(2)), given(), given(interval_s=3)
    assert len({config_hash(each) for each in (none, some, others)}) == 3
    assert change(some, (), None) == "checkpoints"
    assert not steady(some, (), policy=False)
    assert steady(none, (), policy=False)
