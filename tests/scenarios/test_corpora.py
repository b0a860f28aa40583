"""Scenarios of a corpus: reproducible, valid, varied within bounds, and picklable for the workers."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from optimizers.rules import bin_ranges, is_valid
from scenarios import learning
from scenarios.files import scenario_file
from scenarios.learning import CorpusRecipe
from scenarios.spaces.generator import COSTREAM
from scenarios.spaces.registry import HARDWARE_FACTOR, OTHERS_EVERY, RATE_FACTOR, OneQuery, ScenarioFamily
from twin.corpus.manifest import check_corpus, open_corpus, read_manifest
from twin.errors import BadInput
from twin.query import Query


@pytest.fixture(scope="module")
def base():
    return scenario_file.load("smart-grid")


def free(scenario):
    """Scenario with no operator pinned."""
    operators = tuple(each.model_copy(update={"pinned": False}) for each in scenario.query.operators)
    return scenario.model_copy(update={"query": Query(operators=operators, streams=scenario.query.streams)})


def test_a_family_keeps_the_query_and_varies_the_rest_within_its_bounds(base):
    base = free(base)
    family = ScenarioFamily(base, seed=1)
    members = [family(index) for index in range(20)]
    for member in members:
        assert member.query == base.query
        assert member.run == base.run
        placement = {name: plan[0] for name, plan in member.plan.placement.items()}
        assert is_valid(member.query, bin_ranges(member.cluster), placement)
        pairs = [
            (member.workload.arrivals["meters"].rate_per_s, base.workload.arrivals["meters"].rate_per_s, RATE_FACTOR)
        ]
        for host, original in zip(member.cluster.hosts, base.cluster.hosts, strict=True):
            assert host.name == original.name
            pairs += [
                (host.cpu_percent, original.cpu_percent, HARDWARE_FACTOR),
                (host.ram_mb, original.ram_mb, HARDWARE_FACTOR),
            ]
        assert all(1 / bound <= value / before <= bound for value, before, bound in pairs)
    assert len({member.plan.model_dump_json() for member in members}) > 10


@pytest.mark.parametrize("name", ["smart-grid", "gateways", "lte"])
def test_pinned_operators_stay_in_all_runs_of_a_family(name):
    base = scenario_file.load(name)
    members = [ScenarioFamily(base, seed=1)(index) for index in range(20)]
    for operator in base.query.operators:
        places = {member.plan.placement[operator.name] for member in members}
        assert (places == {base.plan.placement[operator.name]}) if operator.pinned else len(places) > 1
    if not base.cluster.links:
        with pytest.raises(BadInput, match=r"pins meters, operator-room .*pinned=false, or leave --space out"):
            OneQuery(base, "costream", seed=0)
        assert OneQuery(free(base), "costream", seed=0)(0)


BENCHMARKS = ("advertisement", "spike-detection", "smart-grid-global", "smart-grid-local")


@pytest.mark.parametrize("name", BENCHMARKS)
def test_one_query_is_kept_and_all_else_comes_from_the_space(name):
    base = scenario_file.load(name)
    assert {operator.kind for operator in base.query.operators} <= {"source", "filter", "aggregate", "join", "sink"}
    make = OneQuery(base, "costream", seed=2)
    drawn = [make(index) for index in range(60)]
    for each in drawn:
        assert each.query == base.query
        assert (each.engine, each.run) == (base.engine, base.run)
        placement = {operator: plan[0] for operator, plan in each.plan.placement.items()}
        assert is_valid(each.query, bin_ranges(each.cluster), placement)
        assert 2 <= len(each.cluster.hosts) <= 6
        for feature in ("cpu_percent", "ram_mb", "bandwidth_mbps", "latency_ms"):
            assert {getattr(host, feature) for host in each.cluster.hosts} <= set(getattr(COSTREAM, feature))
    rates = {law.rate_per_s for each in drawn for law in each.workload.arrivals.values()}
    assert rates == set(COSTREAM.rates_per_s[len(base.query.sources)])  # all of them in 60 draws, and no other
    assert len({each.plan.model_dump_json() for each in drawn}) > 30


def test_one_query_needs_a_space_that_has_rates_for_its_sources():
    base = scenario_file.load("word-count")
    names = [f"source-{index}" for index in range(4)]
    operators = [{"name": name, "kind": "source"} for name in names] + [
        {"name": "join", "kind": "join", "selectivity": 0.1, "window": {"policy": "time", "size_s": 1}},
        {"name": "sink", "kind": "sink"},
    ]
    streams = [{"producer": name, "consumer": "join"} for name in names] + [{"producer": "join", "consumer": "sink"}]
    query = Query.model_validate({"operators": operators, "streams": streams})
    with pytest.raises(BadInput, match="4 sources"):
        OneQuery(base.model_copy(update={"query": query}), "costream", seed=0)


def test_makers_give_the_same_scenario_again_also_in_another_process(base):
    for make in (
        learning.around(base, runs=20, seed=4)[0],
        CorpusRecipe(20, seed=4, horizon_s=60).plan()[0],
        CorpusRecipe(20, seed=4, space="costream", scenario="spike-detection", horizon_s=60).plan()[0],
    ):
        copy = pickle.loads(pickle.dumps(make))
        for index in (0, 9, 10):
            assert copy(index) == make(index)
        assert make(0) != make(1)


def test_every_tenth_run_is_of_another_query(base):
    make, _ = learning.around(base, runs=40, seed=0)
    others = [index for index in range(40) if make(index).query != base.query]
    assert others == list(range(OTHERS_EVERY - 1, 40, OTHERS_EVERY))


def test_equal_requests_have_equal_specifications_and_others_do_not():
    def hash_of(**changes):
        asked = {"runs": 10, "seed": 0, "scenario": "smart-grid"}
        return CorpusRecipe(**{**asked, **changes}).plan()[1].manifest()["config_hash"]

    assert hash_of() == hash_of()
    different = [
        hash_of(),
        hash_of(seed=1),
        hash_of(horizon_s=60),
        hash_of(scenario="advertisement"),
        hash_of(scenario=None),
    ]
    assert len(set(different)) == len(different)


def test_replicates_are_the_first_scenarios_once_more():
    recipe = CorpusRecipe(5, seed=4, horizon_s=60, replicates=3)
    make, spec = recipe.plan()
    assert spec.runs == 8
    scenarios = [pickle.loads(pickle.dumps(make))(index) for index in range(spec.runs)]
    assert scenarios[5:] == scenarios[:3]
    assert len({each.deployment.model_dump_json() for each in scenarios}) == 5
    without, _ = replace(recipe, replicates=0).plan()
    assert [without(index) for index in range(5)] == scenarios[:5]
    assert spec.manifest() != replace(recipe, runs=8, replicates=0).plan()[1].manifest()
    with pytest.raises(BadInput, match="--replicates 6 is above --runs 5"):
        replace(recipe, replicates=6).plan()


def test_a_corpus_with_replicates_grows_by_these_only(tmp_path):
    """A corpus with replicates grows by these only, as they are numbered after the runs that they repeat."""
    asked = CorpusRecipe(5, seed=0, replicates=2)
    open_corpus(tmp_path, asked.plan()[1], 2)
    for other in (replace(asked, runs=8), replace(asked, runs=4, replicates=0), replace(asked, runs=7, replicates=0)):
        with pytest.raises(BadInput, match="more --replicates only; repeat its --runs 5 and as many --replicates or"):
            check_corpus(tmp_path, other.plan()[1])
    open_corpus(tmp_path, replace(asked, replicates=4).plan()[1], 2)
    assert read_manifest(tmp_path)["runs"] == 9


def test_a_command_says_what_was_asked_for_and_no_more():
    recipe = CorpusRecipe(5, seed=4, scenario="smart-grid", horizon_s=60.5)
    assert recipe.command == "twin corpus OUT --runs 5 --scenario smart-grid --horizon 60.5 --seed 4"


def test_horizon_and_sources_of_scenarios_are_checked():
    with pytest.raises(BadInput, match="unknown space 'costreem'"):
        CorpusRecipe(1, seed=0, space="costreem", scenario="smart-grid").plan()
    with pytest.raises(BadInput, match="unknown space 'costreem'"):
        CorpusRecipe(1, seed=0, space="costreem").plan()
    with pytest.raises(BadInput, match="above the warm-up"):
        CorpusRecipe(1, seed=0, scenario="smart-grid", horizon_s=1).plan()
    make, _ = CorpusRecipe(1, seed=0, horizon_s=77).plan()
    assert make(0).run.horizon_s == 77
