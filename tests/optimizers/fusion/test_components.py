"""Partition attributes and cardinalities: the paper's examples, and components and jobs that must be refused."""

from __future__ import annotations

import itertools
import math

import pytest

from optimizers.fusion.components import Splits, fused, partition_attributes
from optimizers.fusion.job import FusionJob
from tests.optimizers.fusion.jobs import groups, job, motivating, plain, wanting
from twin.errors import BadInput
from twin.spec import parse

WORD = {"kind": "compute", "schema_in": ["word"], "partition_by": ["word"]}
HOUR = {"length_s": 3600}


def words():
    return job(
        {
            "O1": {**WORD, "schema_out": ["word", "wordcount"]},
            "O2": {**WORD, "schema_out": ["letter", "lettercount"]},
        },
        {},
        distinct={"word": 5000},
    )


def chain(*kinds, **last):
    """Job of operators one behind the other, all split by k."""
    operators = {}
    for number, kind in enumerate(kinds):
        windows = {"windows": [HOUR]} if kind == "consolidate" else {}
        split = {} if kind in ("map", "sink", "source") else {"partition_by": ["k"]}
        schemas = {"schema_in": [] if kind == "source" else ["k"], "schema_out": [] if kind == "sink" else ["k"]}
        operators[f"{kind}{number}"] = {"kind": kind, **schemas, **split, **windows}
    operators[[*operators][-1]] |= last
    names = list(operators)
    return job(operators, {f"{one}>{two}": 1.0 for one, two in itertools.pairwise(names)})


def test_example_1a_and_1b():
    splits = Splits(words())
    assert splits.attributes == {"O1": {"word"}, "O2": {"word"}}
    assert splits.cardinality(["O1"]) == splits.cardinality(["O2"]) == 5000
    (one,) = fused(words(), [("O1", "O2")]).components
    assert (one.attributes, one.cardinality) == ({"word"}, 5000)


def test_example_2a():
    splits = Splits(motivating())
    assert splits.cardinality(["op1"]) == math.inf
    assert splits.attributes["op2"] == splits.attributes["op3"] == {"area"}
    assert splits.cardinality(["op2"]) == splits.cardinality(["op3"]) == 98
    assert splits.attributes["op4"] == splits.attributes["op5"] == set()
    assert splits.cardinality(["op4"]) == splits.cardinality(["op5"]) == 1


def test_an_attribute_that_is_computed_anew_is_another_one():
    def three(**middle):
        keyed = {"kind": "compute", "schema_in": ["k"], "schema_out": ["k"], "partition_by": ["k"]}
        return job(
            {"a": keyed, "m": {"kind": "map", "schema_in": ["k"], "schema_out": ["k"], **middle}, "b": keyed},
            {"a>m": 1, "m>b": 1},
        )

    assert len(fused(three(), [("a", "m", "b")]).components) == 1
    with pytest.raises(BadInput, match=r"'a', split by k and 'b', split by k of m cannot be in one component"):
        fused(three(passes=[]), [("a", "m", "b")])


def test_inputs_that_disagree_make_a_new_attribute_and_those_that_agree_do_not():
    """A join of a k and of a k that a map remade has a k of its own; inputs with the same k leave it."""
    keyed = {"kind": "compute", "schema_in": ["k"], "schema_out": ["k"], "partition_by": ["k"]}
    free = {"kind": "map", "schema_in": ["k"], "schema_out": ["k"]}
    transfers = {"a>m": 1.0, "a>join": 1.0, "m>join": 1.0}
    same = job({"a": keyed, "m": free, "join": keyed}, transfers)
    anew = job({"a": keyed, "m": {**free, "passes": []}, "join": keyed}, transfers)
    assert partition_attributes(same)["join"] == {"k"}
    assert partition_attributes(anew)["join"] == {"k into join"}


def test_what_takes_records_anyhow_stays_with_its_producer_even_without_its_attributes():
    given = job(
        {
            "count": {**WORD, "schema_out": ["total"]},
            "show": {"kind": "map", "schema_in": ["total"], "schema_out": ["line"]},
            "write": {"kind": "sink", "schema_in": ["line"]},
        },
        {"count>show": 1, "show>write": 1},
    )
    (one,) = fused(given, [("count", "show", "write")]).components
    assert one.attributes == {"word"}


def test_subtasks_beyond_what_attributes_allow_are_refused():
    three = {"a": "x", "b": "xy"}
    few = plain(three, {"a>b": 1}, distinct={"x": 4, "y": 10})
    assert Splits(few).cardinality(["b"]) == 40 and Splits(few).cardinality(["a", "b"]) == 4
    wanted = wanting(few, b=8)
    assert len(fused(wanted, []).components) == 2
    with pytest.raises(BadInput, match="map 'b' wants 8 subtasks, but with a it can be split into 4 at most"):
        fused(wanted, [("a", "b")])
    with pytest.raises(
        BadInput,
        match=r"compute 'op4' wants 2 subtasks, but it can be split into 1 at most \('op4', split by nothing\)",
    ):
        fused(wanting(motivating(), op4=2), [])


def test_components_that_cannot_be_are_refused():
    given = plain({"a": "x", "b": "xy", "c": "y"}, {"a>b": 1, "b>c": 1})
    with pytest.raises(BadInput, match="'a', split by x and 'c', split by y cannot be in one component"):
        fused(given, [("a", "b", "c")])
    with pytest.raises(BadInput, match="unknown operator 'd'"):
        fused(given, [("a", "d")])
    with pytest.raises(BadInput, match="'a' is in components 2 times"):
        fused(given, [("a", "b"), ("a",)])


def test_pairs_may_fit_where_all_do_not():
    given = plain({"a": "xy", "b": "yw", "c": "wx"}, {"a>b": 1, "b>c": 1})
    with pytest.raises(BadInput, match="no attribute splits a, b, c alike"):
        fused(given, [("a", "b", "c")])


def test_a_circle_of_components_is_seen():
    given = plain({"a": "x", "c": "x", "b": "x", "d": "x"}, {"a>d": 1, "c>b": 1})
    found = fused(given, [("a", "b"), ("c", "d")])
    assert found.cyclic
    straight = fused(given, [("a", "d")])
    assert not straight.cyclic
    assert groups(straight) == {frozenset("ad"), frozenset("b"), frozenset("c")}


FREE = {"kind": "map", "schema_in": ["k"], "schema_out": ["k"]}
KEYED = {"kind": "compute", "schema_in": ["k"], "schema_out": ["k"], "partition_by": ["k"]}
MERGE = {**KEYED, "kind": "consolidate", "windows": [{"length_s": 60}]}


@pytest.mark.parametrize(
    ("operators", "transfers", "message"),
    [
        ({"a": {**FREE, "kind": "mop"}}, {}, "kind"),
        ({"a": {**FREE, "schema_in": []}}, {}, "map 'a': schema_in must be empty for a source, and for nothing else"),
        ({"a": {**FREE, "kind": "sink"}}, {}, "schema_out must be empty for a sink"),
        ({"a": {**FREE, "schema_in": ["k", "k"]}}, {}, "attribute 'k' is named 2 times"),
        ({"a": {**FREE, "partition_by": ["q"]}}, {}, "partition_by names 'q'; known: k"),
        ({"a": {**FREE, "passes": ["q"]}}, {}, "passes names 'q'; known: k"),
        ({"a": {**KEYED, "partition_by": None}}, {}, "compute 'a' has no partition_by; name its keys"),
        ({"a": {"kind": "source", "schema_out": ["k"], "partition_by": []}}, {}, "the broker decides"),
        ({"a": {**MERGE, "windows": []}}, {}, "consolidate 'a' has no windows"),
        ({"a": {**FREE, "windows": [{"length_s": 1}]}}, {}, "only compute and consolidate keep state"),
        ({"a": {**KEYED, "windows": [{"length_s": 1, "every_s": 0}]}}, {}, "every_s"),
        ({"a": {**KEYED, "windows": [{"length_s": 1, "every_s": 2}]}}, {}, r"every_s must be <= length_s \(1\), got 2"),
        ({"a": {**FREE, "parallelism": 0}}, {}, "parallelism"),
        ({"a": FREE}, {"a>b": 1}, "a transfer names unknown operator 'b'; known: a"),
        ({"a": FREE}, {"a>a": 1}, "the job has a cycle: a -> a"),
        ({"a": FREE, "b": FREE}, {"a>b": 1, "b>a": 1}, "the job has a cycle"),
        ({"a": FREE, "b": FREE}, {"a>b": -1}, "rate_per_s"),
        ({"a": FREE, "b": FREE}, {"a>b": float("inf")}, "rate_per_s"),
        ({"a": FREE, "s": {"kind": "source", "schema_out": ["k"]}}, {"a>s": 1}, "a source takes none"),
        ({"a": {"kind": "sink", "schema_in": ["k"]}, "b": FREE}, {"a>b": 1}, "a sink gives none"),
        ({"a": FREE, "b": MERGE}, {"a>b": 1}, "merges windows alone"),
        ({"b": MERGE}, {}, "consolidate 'b' has no producer"),
        ({"a": {**FREE, "schema_out": ["q"]}, "b": FREE}, {"a>b": 1}, "map 'b' needs 'k', which none of its producers"),
        (
            {"a": {**FREE, "schema_out": ["q"]}, "b": KEYED},
            {"a>b": 1},
            "'b' is partitioned by 'k', which map 'a' does not",
        ),
    ],
)
def test_refused(operators, transfers, message):
    with pytest.raises(BadInput, match=message):
        job(operators, transfers)


def test_distinct_values_of_unknown_attributes_are_refused():
    with pytest.raises(BadInput, match="distinct names unknown attribute 'aera'; did you mean 'area'"):
        job({"a": {**FREE, "schema_in": ["area"], "schema_out": ["area"]}}, {}, distinct={"aera": 3})


def test_what_is_there_twice_is_refused():
    what = {"transfers": "two transfers have the same producer", "operators": "operator name 'op1' is used 2 times"}
    for name, words in what.items():
        given = motivating().model_dump(mode="json")
        with pytest.raises(BadInput, match=words):
            parse(FusionJob, given | {name: given[name] * 2})


def test_a_job_is_written_and_read_again():
    given = motivating()
    assert parse(FusionJob, given.model_dump(mode="json")) == given
