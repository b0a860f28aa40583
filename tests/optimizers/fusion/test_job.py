"""Jobs that make no sense are refused in one line, with the remedy."""

from __future__ import annotations

import pytest

from optimizers.fusion.job import FusionJob
from tests.optimizers.fusion.jobs import job, motivating
from twin.errors import BadInput
from twin.spec import parse

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
        ({"a": {**FREE, "replicas": 0}}, {}, "replicas"),
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


def test_a_transfer_twice():
    twice = motivating().model_dump(mode="json")
    twice["transfers"] *= 2
    with pytest.raises(BadInput, match="two transfers have the same producer and consumer"):
        parse(FusionJob, twice)


def test_a_name_twice():
    twice = motivating().model_dump(mode="json")
    twice["operators"] *= 2
    with pytest.raises(BadInput, match="operator name 'op1' is used 2 times"):
        parse(FusionJob, twice)


def test_a_job_is_written_and_read_again():
    given = motivating()
    assert parse(FusionJob, given.model_dump(mode="json")) == given
