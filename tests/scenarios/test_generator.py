"""Costream's spaces: draws follow Table II, the frequencies of Section VI, and unseen hardware."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

from optimizers.rules import bin_ranges, is_valid
from scenarios.spaces.generator import (
    COSTREAM,
    EXTRAPOLATIONS,
    FEATURES,
    INTERPOLATION,
    UNSEEN_HARDWARE,
    random_cluster,
    random_query,
    random_scenario,
)
from scenarios.spaces.registry import SPACES
from twin.cluster import Cluster
from twin.deployment import steady_rates
from twin.query import CountWindow, Query
from twin.randomness import random_stream
from twin.scenario import RunSettings, Scenario

DRAWS = 2_000
CONFIDENT = 1e-4
"""Chance that a right generator fails one of these tests; the seeds are fixed."""


class Draw(NamedTuple):
    query: Query
    rates: Mapping[str, float]
    cluster: Cluster


@pytest.fixture(scope="module")
def drawn() -> list[Draw]:
    rng = random_stream(0, "test")
    return [Draw(*random_query(COSTREAM, rng), random_cluster(COSTREAM, rng)) for _ in range(DRAWS)]


@pytest.fixture(scope="module")
def scenarios() -> list[Scenario]:
    return [random_scenario(COSTREAM, seed, RunSettings()) for seed in range(400)]


def operators(drawn: Iterable[Draw], *kinds: str) -> list[Any]:
    return [operator for each in drawn for operator in each.query.operators if operator.kind in kinds]


def longest_chain(query: Query) -> int:
    """Largest number of filters that follow one another."""
    length = dict.fromkeys((operator.name for operator in query.operators), 0)
    for operator in query.topological:
        if operator.kind == "filter":
            length[operator.name] = 1 + length[query.inputs(operator.name)[0].producer]
    return max(length.values())


def fits(values: Iterable[Any], weights: Mapping[Any, float]) -> bool:
    """Whether values have the relative frequencies, by chi-square; no other values may occur."""
    seen = Counter(values)
    assert set(seen) <= set(weights)
    total, number = sum(weights.values()), sum(seen.values())
    expected = [number * weight / total for weight in weights.values()]
    return stats.chisquare([seen[value] for value in weights], expected).pvalue > CONFIDENT


def equal(values: Iterable[Any]) -> dict[Any, float]:
    return dict.fromkeys(values, 1.0)


def test_query_shapes(drawn):
    assert fits((len(each.query.sources) for each in drawn), {1: 35, 2: 34, 3: 31})
    filters = (sum(operator.kind == "filter" for operator in each.query.operators) for each in drawn)
    assert fits(filters, {1: 35, 2: 34, 3: 24, 4: 6})
    aggregated = (any(operator.kind == "aggregate" for operator in each.query.operators) for each in drawn)
    assert fits(aggregated, {True: 1, False: 1})
    for each in drawn:
        joins = sum(operator.kind == "join" for operator in each.query.operators)
        assert joins == len(each.query.sources) - 1
        assert 3 <= len(each.query.operators) <= 11


@pytest.mark.parametrize("sources", [1, 2, 3])
def test_rates(drawn, sources):
    of_shape = [each for each in drawn if len(each.query.sources) == sources]
    assert fits((rate for each in of_shape for rate in each.rates.values()), equal(COSTREAM.rates_per_s[sources]))
    assert all(set(each.rates) == {source.name for source in each.query.sources} for each in of_shape)


def test_records_hold_three_to_ten_values_of_random_types(drawn):
    columns = [source.columns for source in operators(drawn, "source")]
    assert fits((each.width for each in columns), equal(range(3, 11)))
    seen = Counter({kind: sum(each.count(kind) for each in columns) for kind in COSTREAM.data_types})
    assert fits(seen.elements(), equal(COSTREAM.data_types))


def test_hardware(drawn):
    hosts = [host for each in drawn for host in each.cluster.hosts]
    assert fits((len(each.cluster.hosts) for each in drawn), equal(range(2, 7)))
    for feature in ("cpu_percent", "ram_mb", "bandwidth_mbps", "latency_ms"):
        assert fits((getattr(host, feature) for host in hosts), equal(getattr(COSTREAM, feature)))


@pytest.mark.parametrize("kind", ["join", "aggregate"])
def test_windows(drawn, kind):
    windows = [operator.window for operator in operators(drawn, kind)]
    assert fits((window.policy for window in windows), equal(("count", "time")))
    assert fits((window.tumbling for window in windows if window.size > 5), equal((True, False)))
    counting = [window for window in windows if isinstance(window, CountWindow)]
    timed = [window for window in windows if window.policy == "time"]
    assert fits((window.size for window in counting), equal(COSTREAM.window_sizes_records))
    assert fits((window.size for window in timed), equal(COSTREAM.window_sizes_s))
    shares = [window.slide / window.size for window in timed if not window.tumbling]
    assert stats.kstest(shares, stats.uniform(0.3, 0.4).cdf).pvalue > CONFIDENT
    for window in counting:
        assert window.tumbling or 0.3 * window.size - 0.5 <= window.slide <= 0.7 * window.size + 0.5


def test_filters(drawn):
    filters = operators(drawn, "filter")
    assert fits((operator.function for operator in filters), equal(COSTREAM.filter_functions))
    assert stats.kstest([each.selectivity for each in filters], stats.uniform(0.1, 0.9).cdf).pvalue > CONFIDENT
    for operator in filters:
        assert operator.literal_type == "string" or not operator.function.endswith("with")
    free = [operator for operator in filters if not operator.function.endswith("with")]
    assert fits((operator.literal_type for operator in free), equal(COSTREAM.data_types))


def test_aggregates_and_joins(drawn):
    aggregates, joins = operators(drawn, "aggregate"), operators(drawn, "join")
    assert fits((operator.function for operator in aggregates), equal(("min", "max", "mean", "avg")))
    assert fits((operator.value_type for operator in aggregates), equal(("int", "double")))
    assert fits((operator.group_by for operator in aggregates), equal(("int", "string", "double", None)))
    assert fits((operator.key_type for operator in joins), equal(COSTREAM.data_types))
    groups = np.log([operator.groups for operator in aggregates if operator.group_by])
    assert stats.kstest(groups, stats.uniform(np.log(2), np.log(500)).cdf).statistic < 0.08  # whole numbers have steps
    for operator in joins:
        assert 0 < operator.selectivity <= 0.2


def test_join_outputs_stay_bounded(drawn):
    for each in drawn[:400]:
        rates = steady_rates(each.query, each.rates)
        for operator in operators([each], "join"):
            bound = COSTREAM.join_amplification_max * rates[operator.name].in_per_s
            assert rates[operator.name].out_per_s <= bound * (1 + 1e-9)


def test_plans_obey_the_rules_and_are_often_spread(scenarios):
    used = []
    for each in scenarios:
        placement = {name: each.plan.locations(name)[0].host for name in each.plan.placement}
        assert is_valid(each.query, bin_ranges(each.cluster), placement)
        assert all(each.plan.parallelism(name) == 1 for name in placement)
        used.append(len(set(placement.values())))
    assert min(used) == 1
    assert max(used) >= 5


def test_filters_fall_on_every_branch_alike_so_that_some_follow_one_another(drawn):
    linear = [each for each in drawn if len(each.query.sources) == 1]
    assert all(longest_chain(each.query) == len(operators([each], "filter")) for each in linear)
    of_two = [each for each in drawn if len(each.query.sources) == 2 and len(operators([each], "filter")) == 2]
    assert fits((longest_chain(each.query) for each in of_two), {1: 2, 2: 1})  # three branches


@pytest.mark.parametrize("length", [2, 3, 4])
def test_chains_have_exactly_so_many_filters_in_a_row_and_no_window(length):
    chains = [random_scenario(SPACES[f"costream-chain{length}"], seed, RunSettings()) for seed in range(300)]
    for each in chains:
        assert [operator.kind for operator in each.query.topological] == ["source", *["filter"] * length, "sink"]
    filters = operators((Draw(each.query, {}, each.cluster) for each in chains), "filter")
    assert fits((operator.function for operator in filters), equal(COSTREAM.filter_functions))
    rates = (law.mean_rate_per_s for each in chains for law in each.workload.arrivals.values())
    assert fits(rates, equal(COSTREAM.rates_per_s[1]))
    assert fits((len(each.cluster.hosts) for each in chains), equal(range(2, 7)))


def test_the_space_of_all_chains_has_each_length_alike_often():
    rng = random_stream(0, "test")
    queries = [random_query(SPACES["costream-chains"], rng)[0] for _ in range(600)]
    assert fits((longest_chain(each) for each in queries), equal((2, 3, 4)))
    assert all(len(each.operators) == longest_chain(each) + 2 for each in queries)


def test_the_same_seed_gives_the_same_scenario_and_another_seed_another():
    settings = RunSettings(horizon_s=60, seed=99)
    first, again, other = (random_scenario(COSTREAM, seed, settings) for seed in (7, 7, 8))
    assert first == again
    assert first.query != other.query
    assert first.run == settings.model_copy(update={"seed": 7})


@pytest.mark.parametrize("feature", FEATURES)
def test_interpolation_lies_between_the_values_of_the_training_space(feature):
    known, asked = getattr(COSTREAM, feature), getattr(INTERPOLATION, feature)
    assert not set(known) & set(asked)
    assert min(known) < min(asked) <= max(asked) < max(known)


@pytest.mark.parametrize("each", EXTRAPOLATIONS, ids=lambda each: each.name)
def test_extrapolation_asks_for_the_rest_of_the_training_space(each):
    low, high = each.trained
    known = getattr(COSTREAM, each.feature)
    assert {value for value in known if not low <= value <= high} == set(each.asked)
    assert {low, high} < set(known)
    stronger_is_more = each.feature != "latency_ms"
    beyond = min(each.asked) > high if (each.towards == "stronger") == stronger_is_more else max(each.asked) < low
    assert beyond


def test_but_for_the_hardware_every_space_is_costreams():
    for space in UNSEEN_HARDWARE.values():
        names = [name for name in space.__dataclass_fields__ if name not in FEATURES]
        assert all(getattr(space, name) == getattr(COSTREAM, name) for name in names)
