"""Two streams between two operators: each is an input of its own, which has a name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.twin.test_kin import FREE, KEYS, MATCHING, MEETING, PASS, PER_S, close
from tests.twin.worlds import deployment, simulated, sink, source
from twin.control import PeriodStatistics, Reconfiguration
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import Failure
from twin.job import compile as compiled
from twin.query import Query
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario, put
from twin.simulation import measure
from twin.spec import parse

SELF = {"left": "early", "right": "late"}
FORMS = [
    (MEETING | SELF, 2.0),
    (MEETING | SELF | {"key_groups": 8}, 2.0),
    (MEETING | SELF | {"key_groups": 8, "time": "event"}, 2.0),
    (MATCHING, 1.0),
    (MATCHING | {"key_groups": 8}, 1.0),
]


def job(at: dict[str, Any], parallelism: int = 1, rate: float = PER_S) -> Deployment:
    """Job of a source whose records come to an operator twice, as its inputs `early` and `late`."""
    made = deployment(
        [source(), PASS | {"name": "at"}, sink()],
        [("source", "at"), ("at", "sink")],
        {"source": rate},
        engine=FREE,
        placement={"at": {"h": parallelism}},
    )
    document = made.model_dump(mode="json")
    document["query"]["operators"][1] = {"service_time_s": 0.0} | at | {"name": "at"}
    first, last = ({"producer": a, "consumer": b} for a, b in (("source", "at"), ("at", "sink")))
    document["query"]["streams"] = [first | {"input": "late"}, last, first | {"input": "early"}]
    return parse(Deployment, document)


@pytest.mark.parametrize(("at", "span_s"), FORMS)
@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_stream_is_joined_with_itself(at: dict[str, Any], span_s: float, parallelism: int) -> None:
    """Each record matches its own copy, and others by chance; every run checks the laws of conservation."""
    if "key_groups" not in at and parallelism > 1 and at["kind"] == "interval-join":
        at = at | {"keys": KEYS}
    close(job(at, parallelism), PER_S + PER_S**2 * span_s / KEYS)


def test_each_stream_has_meters_and_an_order_by_the_names_of_its_input() -> None:
    made = compiled(job(MEETING | SELF))
    assert [edge.key for edge in made.edges] == [("at", "sink"), ("source", "at", "early"), ("source", "at", "late")]
    assert [edge.stream.side for edge in made.inputs("at")] == ["early", "late"]
    assert [made.position(edge.stream) for edge in made.outputs("source")] == [0, 1]
    result = simulated(job(MEETING | SELF), horizon_s=20.0)
    source_, at = result.operators[0], result.operators[1]
    assert at.records_in == pytest.approx(2 * source_.records_out, abs=3)


def test_key_groups_of_both_ends_have_traffic_on_both_streams() -> None:
    """A keyed map sends each record twice to a join with key groups: policies see the sum of both streams."""
    seen: list[Any] = []

    class Looks:
        name = "looks"

        def decide(self, statistics: PeriodStatistics) -> Reconfiguration:
            seen.append(statistics.traffic["keyed", "at"].sum())
            return Reconfiguration()

    document = job(MATCHING | {"key_groups": 8}).model_dump(mode="json")
    keyed = PASS | {"name": "keyed", "key_groups": 4}
    document["query"]["operators"].insert(1, keyed)
    document["plan"]["placement"]["keyed"] = "h"
    for stream in document["query"]["streams"]:
        stream["producer"] = {"source": "keyed"}.get(stream["producer"], stream["producer"])
    document["query"]["streams"].append({"producer": "source", "consumer": "keyed"})
    simulated(parse(Deployment, document), policy=Looks(), horizon_s=20.0, period_s=5.0)
    assert np.mean(seen) == pytest.approx(2 * PER_S, rel=0.15)


def test_one_side_of_a_stream_changes_a_table() -> None:
    """A temporal join of a stream with itself: only records of the input `facts` leave."""
    at = {"kind": "temporal-join", "side": "late"}
    result = simulated(job(at), horizon_s=20.0)
    found = {each.operator: each for each in result.operators}
    assert found["at"].records_out == pytest.approx(found["at"].records_in / 2, abs=3)
    answer = RateModel().answer(job(at), [job(at).plan])
    rates = dict(zip(answer.operators, answer.out_per_s[0], strict=True))
    assert rates["at"] == pytest.approx(PER_S) and answer.in_per_s[0].max() == pytest.approx(2 * PER_S)


def test_sides_of_a_failed_join_are_read_again() -> None:
    """Of so many keys that no others match, each record meets its copy once, also if both are read again."""
    down = Failure(at_s=4.3, host="h", recover_after_s=0.1)
    made = job(MEETING | SELF | {"keys": 10**8})
    run = simulated(made, down, horizon_s=8.0, warmup_s=0.0, checkpoint_interval_s=2.0)
    assert run.duplicates > 0 and run.metrics.records_out == run.metrics.records_in


def test_the_rate_model_has_the_pairs_of_other_records_and_of_each_with_itself() -> None:
    made = Scenario.of(job(MEETING | SELF), RunSettings())
    found = RateModel().predict(made, [made.plan])
    assert found["throughput_per_s"][0] == pytest.approx(PER_S + PER_S**2 * 2.0 / KEYS, rel=0.02)
    assert not any("same key" in each for each in RateModel().blind_to(made))


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({}, "stream 'source' -> 'at' is given twice; remove one, or give one an input of its own"),
        ({"input": "early"}, "stream 'source' -> 'at' has the input 'early', as another has"),
        ({"input": "source"}, "stream 'source' -> 'at' is given twice"),
        ({"input": "a b"}, "letters, digits"),
    ],
)
def test_inputs_have_names_of_their_own(more: dict[str, Any], says: str) -> None:
    document = job(MATCHING).query.model_dump(mode="json")
    document["streams"][2].pop("input")
    document["streams"][0] = document["streams"][2] | more
    if more.get("input") == "early":
        document["streams"][2] |= more
    with pytest.raises(BadInput, match=says):
        parse(Query, document)


def test_a_stream_without_a_name_is_written_as_ever() -> None:
    written = job(MATCHING).query.model_dump(mode="json")["streams"]
    assert [each.get("input") for each in written] == ["late", None, "early"] and "input" not in written[1]


def test_values_of_either_stream_can_be_set() -> None:
    made = put(Scenario.of(job(MATCHING), RunSettings()), "query.streams.source->at:late.overflow", "drop", "--set")
    found = {each.input: each.overflow for each in made.query.streams}
    assert found == {None: "block", "late": "drop", "early": "block"}


def test_a_join_of_a_stream_with_itself_can_be_measured() -> None:
    made = job(MATCHING | {"service_time_s": 1e-4, "window": {"policy": "time", "size_s": 0.5}})
    found = measure(made, "at", {"source": 100.0}, 400, 1)
    assert np.mean(found.times_s) > 5e-5 and found.inputs["source"] == pytest.approx(len(found.times_s), rel=0.6)
