"""Queries of the twin as fusion jobs: what they say is used, and what they do not say is never fused."""

from __future__ import annotations

import itertools
import math

import pytest

from optimizers.fusion.components import Splits, by_communication, fused
from optimizers.fusion.optimizer import fusion_job
from scenarios.files import registry, scenario_file
from tests.optimizers.fusion.jobs import groups
from twin.deployment import Deployment, nominal_rates
from twin.errors import BadInput
from twin.spec import parse

HOST = {"name": "h", "cpu_percent": 800, "ram_mb": 8000, "bandwidth_mbps": 1000, "latency_ms": 1}
COUNT = {"kind": "aggregate", "group_by": "string", "groups": 50, "window": {"policy": "time", "size_s": 1}}
MATCH = {"kind": "join", "selectivity": 0.1, "window": {"policy": "time", "size_s": 1}}


def deployment(operators, streams, parallelism=None, **dealt):
    """Deployment of operators, given by name. streams: 'a>b', with the partitioning dealt['a_b']."""
    ends = [each.split(">") for each in streams]
    given = {f"{one}_{two}": {"producer": one, "consumer": two} for one, two in ends}
    for key, partitioning in dealt.items():
        given[key]["partitioning"] = partitioning
    sources = [name for name, each in operators.items() if each["kind"] == "source"]
    document = {
        "query": {
            "operators": [{"name": name, **each} for name, each in operators.items()],
            "streams": [*given.values()],
        },
        "cluster": {"hosts": [HOST]},
        "plan": {"placement": {name: ["h"] * (parallelism or {}).get(name, 1) for name in operators}},
        "workload": {"arrivals": {name: {"law": "constant", "rate_per_s": 100} for name in sources}},
    }
    return parse(Deployment, document)


def chain(*kinds, **options):
    """Deployment source > ... > sink; names are 's', then 'a', 'b', ..., and 'z'."""
    names = ["s", *"abcdef"[: len(kinds)], "z"]
    operators = dict(zip(names, [{"kind": "source"}, *kinds, {"kind": "sink"}], strict=True))
    return deployment(operators, [f"{one}>{two}" for one, two in itertools.pairwise(names)], **options)


PASS = {"kind": "filter", "selectivity": 0.5}


@pytest.mark.parametrize("name", registry.names())
def test_every_scenario_of_the_library_can_be_fused(name):
    given = scenario_file.load(name).deployment
    job = fusion_job(given)
    assert set(job.by_name) == {each.name for each in given.query.operators}
    rates = nominal_rates(given.query, given.workload.arrivals)
    assert {(each.producer, each.consumer): each.rate_per_s for each in job.transfers} == {
        (each.producer, each.consumer): pytest.approx(
            rates[each.producer].out_per_s * given.query.operator(each.producer).share_to(each.consumer)
        )
        for each in given.query.streams
    }
    found = by_communication(job, acyclic=True)
    assert not found.cyclic and found.communication <= 1
    for component in found.components:
        kinds = [job.by_name[each].kind for each in component.operators]
        assert kinds.count("compute") <= 1 and (len(kinds) == 1 or "source" not in kinds)


def test_word_count_keeps_its_splitter_apart():
    found = by_communication(fusion_job(scenario_file.load("word-count").deployment))
    assert groups(found) == {frozenset({"sentences"}), frozenset({"split"}), frozenset({"count", "totals"})}
    assert found.components[2].cardinality == 2000


def test_a_filter_joins_what_is_behind_it():
    """A filter joins the component behind it: in spike detection, filter, mean of each of 54 devices, filter, sink."""
    found = by_communication(fusion_job(scenario_file.load("spike-detection").deployment))
    assert groups(found) == {frozenset({"sensors"}), frozenset({"well-formed", "moving-average", "spikes", "alarms"})}
    assert found.components[1].cardinality == 54


def test_a_total_of_all_records_is_not_split():
    job = fusion_job(scenario_file.load("smart-grid-global").deployment)
    assert Splits(job).cardinality(("grid-load",)) == 1
    assert frozenset({"grid-load"}) in groups(by_communication(job))
    with pytest.raises(BadInput, match="compute 'a' wants 4 subtasks, but it can be split into 1 at most"):
        fusion_job(chain({"kind": "aggregate", "window": {"policy": "time", "size_s": 1}}, parallelism={"a": 4}))


def test_keys_that_are_named_alike_are_fused_and_others_are_not():
    two = chain(COUNT, {**COUNT, "groups": 20})
    assert groups(by_communication(fusion_job(two))) == {frozenset("s"), frozenset("a"), frozenset("bz")}
    named = fusion_job(two, keys={"a": ["house"], "b": ["house"]})
    found = by_communication(named)
    assert groups(found) == {frozenset("s"), frozenset("abz")}
    assert found.components[1].cardinality == 20
    coarse = fusion_job(two, keys={"a": ["house", "plug"], "b": ["house"]})
    assert by_communication(coarse).components[1].attributes == {"house"}


def test_two_sides_of_a_join_and_the_count_behind_it():
    operators = {
        "l": {"kind": "source"},
        "r": {"kind": "source"},
        "f": PASS,
        "g": PASS,
        "j": MATCH,
        "c": COUNT,
        "z": {"kind": "sink"},
    }
    streams = ["l>f", "r>g", "f>j", "g>j", "j>c", "c>z"]
    given = deployment(operators, streams, parallelism={"j": 4, "f": 2})
    assert groups(by_communication(fusion_job(given))) == {*map(frozenset, ("l", "r", "fgj", "cz"))}
    same = fusion_job(given, keys={"j": ["user"], "c": ["user"]})
    assert groups(by_communication(same)) == {*map(frozenset, ("l", "r", "fgjcz"))}


def test_a_map_is_taken_to_compute_all_anew():
    given = chain({"kind": "map"}, COUNT)
    assert groups(by_communication(fusion_job(given))) == {frozenset("s"), frozenset("a"), frozenset("bz")}
    told = fusion_job(given, passes={"a": ["b.key"]})
    assert groups(by_communication(told)) == {frozenset("s"), frozenset("abz")}


def test_maps_and_filters_stay_together_whatever_they_compute():
    assert groups(by_communication(fusion_job(chain({"kind": "map"}, PASS, {"kind": "map"})))) == {
        frozenset("s"),
        frozenset("abcz"),
    }


@pytest.mark.parametrize("dealt", ["broadcast", "two-choice"])
def test_what_gets_records_of_a_key_in_several_places_stays_alone(dealt):
    given = chain(PASS, PASS, parallelism={"b": 3}, a_b=dealt)
    job = fusion_job(given)
    assert groups(by_communication(job)) == {*map(frozenset, "sabz")}
    sent = next(each.rate_per_s for each in job.transfers if each.producer == "a")
    assert sent == pytest.approx(50 * (3 if dealt == "broadcast" else 1))


def test_state_that_is_not_dealt_by_key_stays_alone():
    job = fusion_job(chain(PASS, COUNT, a_b="rebalance", parallelism={"b": 3}))
    assert frozenset("b") in groups(by_communication(job))


def test_one_place_for_all_records():
    assert Splits(fusion_job(chain(PASS, PASS, a_b="global"))).cardinality(("b",)) == 1


def test_key_groups_limit_a_component():
    job = fusion_job(chain(PASS, {"kind": "map", "key_groups": 32}, parallelism={"a": 40}))
    assert Splits(job).cardinality(("b",)) == 32 and Splits(job).cardinality(("a",)) == math.inf
    assert {frozenset("a"), frozenset("bz")} <= groups(by_communication(job))
    with pytest.raises(BadInput, match="map 'a' wants 40 subtasks, but with b it can be split into 32 at most"):
        fused(job, ["ab"])


def test_words_that_name_nothing_are_refused():
    given = chain({"kind": "map"}, COUNT)
    with pytest.raises(BadInput, match="keys names 'a', which is not keyed; known: b"):
        fusion_job(given, keys={"a": ["x"]})
    with pytest.raises(BadInput, match="keys of 'b' should be a list of attributes, got 'house'"):
        fusion_job(given, keys={"b": "house"})
    with pytest.raises(BadInput, match=r"keys of 'b' should be a list of attributes, got \[\]"):
        fusion_job(given, keys={"b": []})
    with pytest.raises(BadInput, match="passes names 'b', which is no map; known: a"):
        fusion_job(given, passes={"b": ["b.key"]})
    with pytest.raises(BadInput, match="passes of 'a' names 'house', by which nothing is keyed"):
        fusion_job(given, passes={"a": ["house"]})
