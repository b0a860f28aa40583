"""Counting, listing and drawing valid placements, against brute force."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from optimizers.rules import PlacementSpace, bin_ranges, is_valid, valid_rows
from scenarios.spaces.generator import COSTREAM, random_scenario
from twin.cluster import Cluster, Host
from twin.errors import BadInput
from twin.query import Filter, Query, Sink, Source, Stream
from twin.randomness import random_stream
from twin.scenario import RunSettings


def brute_force(query, cluster):
    bins = bin_ranges(cluster)
    names = [operator.name for operator in query.operators]
    every = (dict(zip(names, each, strict=True)) for each in itertools.product(bins, repeat=len(names)))
    return [placement for placement in every if is_valid(query, bins, placement)]


def text(placement):
    return tuple(placement.values())


def texts(query, cluster, rows):
    """Rows of host indices in the form of `text`."""
    names = [host.name for host in cluster.hosts]
    return [tuple(names[host] for host in row) for row in rows]


@pytest.mark.parametrize("hosts", [1, 2, 4])
def test_listing_is_brute_force(query, make_cluster, hosts):
    cluster = make_cluster(hosts)
    space = PlacementSpace(query, cluster)
    listed = texts(query, cluster, space.all())
    assert sorted(listed) == sorted(map(text, brute_force(query, cluster)))
    assert space.exact and space.count == len(listed)


@given(
    st.lists(st.tuples(st.floats(50, 800), st.floats(1000, 32000)), min_size=1, max_size=4),
    st.integers(1, 3),
)
@settings(max_examples=40, deadline=None)
def test_counting_a_tree_is_exact_on_any_cluster(machines, filters):
    hosts = tuple(
        Host(name=f"h{i}", cpu_percent=cpu, ram_mb=ram, bandwidth_mbps=1, latency_ms=0)
        for i, (cpu, ram) in enumerate(machines)
    )
    names = ["a", *(f"f{i}" for i in range(filters)), "s"]
    query = Query(
        operators=(Source(name="a"), *(Filter(name=n, selectivity=1) for n in names[1:-1]), Sink(name="s")),
        streams=tuple(Stream(producer=p, consumer=c) for p, c in itertools.pairwise(names)),
    )
    cluster = Cluster(hosts=hosts)
    assert PlacementSpace(query, cluster).count == len(brute_force(query, cluster))


@pytest.mark.parametrize("at_once", [False, True])
def test_draws_are_uniform_over_the_valid_placements(query, make_cluster, at_once):
    """Draws are uniform by chi-square; a right sampler fails one seed in 10,000, and the seed is fixed."""
    cluster = make_cluster(4)
    space, rng, truth = PlacementSpace(query, cluster), random_stream(1, "uniform"), brute_force(query, cluster)
    if at_once:
        drawn = texts(query, cluster, space.draws(rng, 40 * len(truth)))
        assert len(drawn) > 10 * len(truth)
    else:
        drawn = [text(space.draw(rng)) for _ in range(12 * len(truth))]
    seen = Counter(drawn)
    assert set(seen) <= set(map(text, truth))
    assert stats.chisquare([seen[text(placement)] for placement in truth]).pvalue > 1e-4


def test_samples_without_replacement_cover_every_placement_equally(query, make_cluster):
    cluster = make_cluster(3)
    space = PlacementSpace(query, cluster)
    truth = brute_force(query, cluster)
    size = len(truth) // 3
    seen: Counter = Counter()
    for seed in range(120):
        sample = texts(query, cluster, space.sample(random_stream(seed, "sample"), size))
        assert len(set(sample)) == size
        seen.update(sample)
    # sampling without replacement varies less than the multinomial law, so this cannot reject a right sampler
    assert stats.chisquare([seen[text(placement)] for placement in truth]).pvalue > 1e-4


def test_a_large_sample_is_everything(query, make_cluster):
    space = PlacementSpace(query, make_cluster(3))
    sample = space.sample(random_stream(0, "all"), 10**5)
    assert sorted(map(tuple, sample)) == sorted(map(tuple, space.all()))


def test_a_sample_is_reproducible_and_another_seed_gives_another():
    scenario = random_scenario(COSTREAM, 0, RunSettings())
    space = PlacementSpace(scenario.query, scenario.cluster)
    first, again, other = (space.sample(random_stream(seed, "candidates"), 20) for seed in (5, 5, 6))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_every_draw_on_random_scenarios_obeys_the_rules():
    for seed in range(60):
        scenario = random_scenario(COSTREAM, seed, RunSettings())
        bins = bin_ranges(scenario.cluster)
        space = PlacementSpace(scenario.query, scenario.cluster)
        assert valid_rows(scenario.query, bins, space.sample(random_stream(seed, "draws"), 10)).all()


def test_a_hundred_hosts_are_counted_and_drawn_from_as_well(query, make_cluster):
    cluster = make_cluster(100)
    space = PlacementSpace(query, cluster)
    assert space.count > 10**8
    placement = space.draw(np.random.default_rng(0))
    assert is_valid(query, bin_ranges(cluster), placement)


def test_too_many_to_list_and_empty_samples_are_refused(query, make_cluster):
    with pytest.raises(BadInput, match="too many to list"):
        PlacementSpace(query, make_cluster(100)).all()
    with pytest.raises(BadInput, match="must be >= 1, got 0"):
        PlacementSpace(query, make_cluster(2)).sample(np.random.default_rng(0), 0)
