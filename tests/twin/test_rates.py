"""Steady rates: the definitions of Costream (6-8), by hand and against brute force."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twin.deployment import flows, nominal_rates, steady_rates
from twin.kinds.join import pairs
from twin.query import (
    Aggregate,
    AnyOperator,
    CountWindow,
    Filter,
    Join,
    Map,
    Query,
    Sink,
    Source,
    Stream,
    TimeWindow,
    Window,
)
from twin.workload import Constant, Poisson

positive = st.floats(0.01, 1e4)


def query_of(operators: Sequence[AnyOperator], pairs: Iterable[tuple[str, str]]) -> Query:
    return Query(operators=operators, streams=tuple(Stream(producer=p, consumer=c) for p, c in pairs))


def chain(*middle: AnyOperator) -> Query:
    operators = (Source(name="source"), *middle, Sink(name="sink"))
    return query_of(operators, itertools.pairwise(each.name for each in operators))


def join_of(window: Window, **matching: float) -> Query:
    operators = (Source(name="a"), Source(name="b"), Join(name="join", window=window, **matching), Sink(name="sink"))
    return query_of(operators, [("a", "join"), ("b", "join"), ("join", "sink")])


@given(positive, st.lists(st.floats(0, 1), max_size=4), st.floats(0, 20))
def test_selectivities_multiply_along_a_chain(rate, selectivities, expansion):
    filters = [Filter(name=f"f{i}", selectivity=value) for i, value in enumerate(selectivities)]
    query = chain(*filters, Map(name="map", selectivity=expansion))
    rates = steady_rates(query, {"source": rate})
    assert rates["sink"].in_per_s == pytest.approx(rate * np.prod(selectivities) * expansion)
    assert rates["map"].in_per_s == pytest.approx(rate * np.prod(selectivities))


def test_a_union_takes_in_all_of_its_producers_and_each_consumer_gets_everything():
    operators = (Source(name="a"), Source(name="b"), Map(name="u"), Sink(name="s"), Sink(name="t"))
    pairs = (("a", "u"), ("b", "u"), ("u", "s"), ("u", "t"))
    query = query_of(operators, pairs)
    rates = nominal_rates(query, {"a": Poisson(rate_per_s=30), "b": Constant(rate_per_s=12)})
    assert [rates[name].in_per_s for name in ("u", "s", "t")] == [42, 42, 42]


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_groups_in_a_count_window_equal_the_average_over_all_possible_contents(groups, size):
    contents = itertools.product(range(groups), repeat=size)
    truth = np.mean([len(set(content)) for content in contents])
    group_by = None if groups == 1 else "int"
    aggregate = Aggregate(name="g", window=CountWindow(size_records=size), group_by=group_by, groups=groups)
    rates = steady_rates(chain(aggregate), {"source": 10.0})["g"]
    assert rates.groups_per_fire == pytest.approx(truth)
    assert rates.out_per_s == pytest.approx(10.0 / size * truth)


@pytest.mark.parametrize(("rate", "groups"), [(0.3, 1), (2.0, 5), (40.0, 8)])
def test_groups_in_a_time_window_equal_the_average_over_poisson_contents(rate, groups):
    group_by = None if groups == 1 else "int"
    aggregate = Aggregate(name="g", window=TimeWindow(size_s=2.0, slide_s=0.5), group_by=group_by, groups=groups)
    found = steady_rates(chain(aggregate), {"source": rate})["g"]
    rng = np.random.default_rng(7)
    counts = [len(set(rng.integers(groups, size=n).tolist())) for n in rng.poisson(rate * 2.0, size=20_000)]
    standard_error = np.std(counts) / np.sqrt(len(counts))
    assert abs(found.groups_per_fire - np.mean(counts)) < 4 * standard_error + 1e-12
    assert found.fires_per_s == 2.0
    assert found.window_records == found.state_records == pytest.approx(rate * 2.0)


@given(positive, positive, st.integers(1, 640), st.floats(0, 1))
def test_a_count_windowed_join_holds_its_size_of_both_inputs_together(left, right, size, selectivity):
    rates = steady_rates(join_of(CountWindow(size_records=size), selectivity=selectivity), {"a": left, "b": right})
    share = left / (left + right)
    assert rates["join"].window_records == size
    assert rates["join"].fires_per_s == pytest.approx((left + right) / size)
    matches = selectivity * size * share * size * (1 - share)
    assert rates["sink"].in_per_s == pytest.approx((left + right) / size * matches)


@given(positive, positive, st.floats(0.25, 16), st.floats(0.3, 1), st.floats(0, 1))
def test_a_time_windowed_join_pairs_what_each_side_sent(left, right, size_s, share, selectivity):
    window = TimeWindow(size_s=size_s, slide_s=share * size_s)
    rates = steady_rates(join_of(window, selectivity=selectivity), {"a": left, "b": right})
    matches = selectivity * left * size_s * right * size_s
    assert rates["sink"].in_per_s == pytest.approx(matches / (share * size_s))
    assert rates["join"].state_records == pytest.approx((left + right) * size_s)


@given(positive, positive, st.floats(0, 100))
def test_amplification_is_output_per_input_whatever_the_window(left, right, factor):
    rates = steady_rates(join_of(TimeWindow(size_s=3.0), amplification=factor), {"a": left, "b": right})
    assert rates["join"].out_per_s == pytest.approx(factor * (left + right))


def test_no_input_means_no_evaluation_and_no_output():
    for window in (TimeWindow(size_s=1.0), CountWindow(size_records=5)):
        query = chain(Filter(name="none", selectivity=0.0), Aggregate(name="g", window=window))
        rates = steady_rates(query, {"source": 100.0})["g"]
        assert (rates.fires_per_s, rates.out_per_s, rates.groups_per_fire) == (0.0, 0.0, 0.0)


@pytest.fixture
def busy_query() -> Query:
    """Query of two filtered sources, joined, grouped."""
    operators = (
        Source(name="a"),
        Source(name="b"),
        Filter(name="f", selectivity=0.4),
        Join(name="j", window=TimeWindow(size_s=2.0), selectivity=0.01),
        Aggregate(name="g", window=CountWindow(size_records=40, slide_records=20), group_by="int", groups=30),
        Sink(name="sink"),
    )
    pairs = (("a", "f"), ("f", "j"), ("b", "j"), ("j", "g"), ("g", "sink"))
    return query_of(operators, pairs)


def test_many_rates_at_once_equal_one_at_a_time(busy_query):
    left, right = np.array([0.0, 1.0, 50.0, 900.0]), np.array([7.0, 0.0, 3.0, 2000.0])
    together = flows(busy_query, {"a": left, "b": right})
    for index in range(len(left)):
        alone = steady_rates(busy_query, {"a": left[index], "b": right[index]})
        for name, rates in alone.items():
            assert together[name].out_per_s[index] == pytest.approx(rates.out_per_s)


def test_more_input_never_means_less_output(busy_query):
    grid = np.linspace(1.0, 500.0, 30)

    def out(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return flows(busy_query, {"a": left, "b": right})["sink"].in_per_s

    assert np.all(np.diff(out(grid, np.full(30, 100.0))) >= 0)
    assert np.all(np.diff(out(np.full(30, 100.0), grid)) >= 0)


def test_a_source_without_a_rate_is_an_error(busy_query):
    with pytest.raises(KeyError, match="b"):
        nominal_rates(busy_query, {"a": Poisson(rate_per_s=1)})


@pytest.mark.parametrize("runs", [(30, 7), (12, 40), (3, 3), (100, 90)])
def test_a_count_window_over_alternating_runs_pairs_what_sliding_over_them_finds(runs):
    """Pairs in a count window over runs of b and m records of two sides are those of every window on the sequence."""
    burst, other = runs
    size, per_s = 20, 0.5
    sides = np.tile([1] * burst + [0] * other, 2 + size // sum(runs))
    windows = [sides[start : start + size] for start in range(sum(runs))]
    truth = np.mean([window.sum() * (size - window.sum()) for window in windows])
    rates = (np.array([burst * per_s]), np.array([other * per_s]))
    often = (np.array([per_s]), np.array([np.inf]))
    found = pairs(CountWindow(size_records=size), rates, often, np.array([float(size)]))
    assert found[0] == pytest.approx(truth)


def test_short_windows_after_long_ones_are_mostly_empty_but_full_when_not():
    """Of windows of 0.5 s, bursts every 8 s fill one in 16, with the same mean content."""
    query = chain(
        Aggregate(name="long", window=TimeWindow(size_s=8.0), group_by="int", groups=50),
        Aggregate(name="short", window=TimeWindow(size_s=0.5)),
    )
    rates = {"source": np.array([100.0])}
    mixed, bursty = (flows(query, rates, bursts=each)["short"] for each in (False, True))
    assert bursty.fires_per_s == pytest.approx(mixed.fires_per_s / 16)
    assert bursty.window_records == pytest.approx(mixed.window_records * 16)
    assert bursty.out_per_s == pytest.approx(1 / 8)


def test_without_windows_bursts_change_nothing():
    query = chain(Filter(name="f", selectivity=0.5), Aggregate(name="g", window=TimeWindow(size_s=0.01)))
    rates = {"source": np.array([3.0, 3000.0])}
    for name, flow in flows(query, rates, bursts=True).items():
        np.testing.assert_array_equal(flow.out_per_s, flows(query, rates)[name].out_per_s)
