"""Purpose of fusion: records that enter a component where its attributes say, and stay there, meet by key.

Random jobs in which operators pass some attributes on and compute others anew are run record by record; every operator
that is split by key must find all records of a key in one instance of its component.
"""

from __future__ import annotations

import itertools
import zlib
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from optimizers.fusion.components import Fusion, Splits, fused, origins
from tests.optimizers.fusion.jobs import job
from tests.optimizers.fusion.test_algorithms import ALGORITHMS, partitions

INSTANCES = 5
ATTRIBUTES = ("x", "y")


def number(*words):
    """Hash of the words: as good as random, and the same for the same words."""
    return zlib.crc32(repr(words).encode())


@st.composite
def jobs(draw):
    """Strategy of DAGs of maps and computes that hold x and y or one of them, pass some of it and compute the rest."""
    names = [f"o{each}" for each in range(draw(st.integers(1, 5)))]
    sent = {name: draw(st.sets(st.sampled_from(ATTRIBUTES), min_size=1)) for name in names}
    transfers, operators = {}, {}
    for place, name in enumerate(names):
        producers = sorted(draw(st.sets(st.sampled_from(names[:place]), max_size=3))) if place else []
        transfers |= {f"{each}>{name}": 1.0 for each in producers}
        there = set(ATTRIBUTES).intersection(*(sent[each] for each in producers))
        some = set(ATTRIBUTES) & set().union(*(sent[each] for each in producers)) if producers else set(ATTRIBUTES)
        taken = draw(st.sets(st.sampled_from(sorted(some)), min_size=1))
        operator = {"schema_in": sorted(taken), "schema_out": sorted(sent[name]), "kind": "map"}
        operator["passes"] = sorted(draw(st.sets(st.sampled_from(sorted(taken & sent[name] or {""})))) - {""})
        if taken & there and draw(st.booleans()):
            keys = draw(st.sets(st.sampled_from(sorted(taken & there)), min_size=1))
            operator |= {"kind": "compute", "partition_by": sorted(keys)}
        operators[name] = operator
    return job(operators, transfers)


def keys_meet(fusion: Fusion) -> bool:
    """Whether each key of each operator that is split by key is found in one instance."""
    given, taken = fusion.job, origins(fusion.job)
    given_out: dict[str, list[tuple[dict[str, int], int]]] = {}
    for operator in given.topological:
        mine = fusion.component_of[operator.name]
        component = fusion.components[mine]
        arrived = []
        for producer in given.producers[operator.name]:
            inside = fusion.component_of[producer] == mine
            for values, instance in given_out[producer]:
                arrived.append((values, instance if inside else entered(operator.name, values, component, taken)))
        if not given.producers[operator.name]:
            fresh = [dict(zip(ATTRIBUTES, each, strict=True)) for each in itertools.product(range(4), repeat=2)]
            arrived = [(values, entered(operator.name, values, component, taken)) for values in fresh]
        found = defaultdict(set)
        for values, instance in arrived:
            if isinstance(operator.partition_by, tuple):
                found[tuple(values[each] for each in operator.partition_by)].add(instance)
        if any(len(instances) > 1 for instances in found.values()):
            return False
        given_out[operator.name] = [
            (
                {
                    each: values[each]
                    if each in operator.passed & values.keys()
                    else number(operator.name, each, values) % 2
                    for each in operator.schema_out
                },
                instance,
            )
            for values, instance in arrived
        ]
    return True


def entered(name, values, component, taken):
    """Instance by the component's attributes; any, if this operator has none of them and does not care."""
    where = {lineage: attribute for attribute, lineage in taken[name].items() if attribute in values}
    if not component.attributes <= set(where):
        return number(name, sorted(values.items())) % INSTANCES
    return number([values[where[each]] for each in sorted(component.attributes)]) % INSTANCES


@settings(max_examples=60, deadline=None)
@given(jobs())
def test_keys_meet_in_what_algorithms_fuse(job):
    for name, algorithm in ALGORITHMS.items():
        assert keys_meet(algorithm(job)), name


@settings(max_examples=40, deadline=None)
@given(jobs())
def test_keys_meet_in_every_component_that_is_not_refused(job):
    splits = Splits(job)
    for parted in partitions(list(job.by_name)):
        if all(len(group) == 1 or splits.common(group) for group in parted):
            assert keys_meet(fused(job, parted))


def test_the_check_would_notice():
    """The check finds a fusion of two counts between which a map computes the key anew."""
    keyed = {"kind": "compute", "schema_in": ["x"], "schema_out": ["x"], "partition_by": ["x"]}
    transfers = {"a>m": 1.0, "m>b": 1.0}
    right = job({"a": keyed, "m": {"kind": "map", "schema_in": ["x"], "schema_out": ["x"]}, "b": keyed}, transfers)
    wrong = job(
        {"a": keyed, "m": {"kind": "map", "schema_in": ["x"], "schema_out": ["x"], "passes": []}, "b": keyed}, transfers
    )
    as_if_right = Fusion(wrong, fused(right, [("a", "m", "b")]).components)
    assert keys_meet(fused(right, [("a", "m", "b")]))
    assert not keys_meet(as_if_right)
