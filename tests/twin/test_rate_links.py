"""Which part of a stream crosses which links, by hosts, by shares, and by hand; and how long it waits there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twin.job import compile
from twin.randomness import stream
from twin.rates.arrays import JobArrays
from twin.rates.layout import Layout
from twin.rates.network import LinkLayout
from twin.scenario import Scenario
from twin.spec import parse

LINKS = [("e1", "fog", 5.0, 10.0), ("e2", "fog", 8.0, 20.0), ("fog", "cloud", 20.0, 100.0)]


def layout(counts_pol: list[list[list[int]]]) -> Layout:
    names = ("e1", "e2", "fog", "cloud", "alone")
    job = {
        "name": "linked",
        "query": {
            "operators": [
                {"name": "a", "kind": "source", "columns": {"ints": 3}},
                {"name": "m", "kind": "map"},
                {"name": "z", "kind": "sink"},
            ],
            "streams": [{"producer": "a", "consumer": "m"}, {"producer": "m", "consumer": "z"}],
        },
        "cluster": {
            "hosts": [
                {"name": n, "cpu_percent": 100, "ram_mb": 4000, "bandwidth_mbps": 100, "latency_ms": 1} for n in names
            ],
            "links": [
                {"between": [a, b], "latency_ms": latency, "bandwidth_mbps": mbps} for a, b, latency, mbps in LINKS
            ],
        },
        "plan": {"placement": {"a": "e1", "m": "fog", "z": "cloud"}},
        "workload": {"arrivals": {"a": {"law": "constant", "rate_per_s": 100.0}}},
    }
    return Layout.of_counts(JobArrays(compile(parse(Scenario, job).deployment)), np.array(counts_pol))


ONE_HOST_EACH = [
    [[1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0]],
    [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 1, 0, 0, 0]],
    [[0, 0, 0, 1, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]],
]


def test_streams_cross_the_links_on_their_way() -> None:
    found = LinkLayout(layout(ONE_HOST_EACH))
    assert found.latency_sn[0] == pytest.approx([5e-3, 13e-3, 0.0])  # e1-fog; e1-fog-e2; within the cloud
    assert found.latency_sn[1] == pytest.approx([20e-3, 0.0, 0.0])  # no route leads to the last host
    used_sn = found.utilisation_sn(np.full((2, 3), 1.25e5))  # a megabit
    assert used_sn[:, 0] == pytest.approx([0.1, 0.01])
    assert used_sn[0, 1] == pytest.approx(0.1)


def test_shares_and_hosts_say_the_same_of_one_host_each() -> None:
    plans, sent_sn = layout(ONE_HOST_EACH), np.full((2, 3), 2e4)
    assert plans.single
    by_hosts = LinkLayout(plans)
    plans.single = False
    by_shares = LinkLayout(plans)
    assert by_hosts.send_sn == pytest.approx(by_shares.send_sn)
    assert by_hosts.waits_sn(sent_sn) == pytest.approx(by_shares.waits_sn(sent_sn))
    assert (by_hosts.waits_sn(sent_sn) > 0.0).sum() == 3


def test_replicas_on_several_hosts_cross_links_by_their_shares() -> None:
    plans = layout([[[1, 0, 0, 0, 0], [0, 1, 2, 0, 0], [0, 0, 1, 1, 0]]])
    assert not plans.single
    found = LinkLayout(plans)
    assert found.latency_sn[0, 0] == pytest.approx(5e-3 + 8e-3 / 3)  # all to the fog; a third on to e2
    assert found.latency_sn[1, 0] == pytest.approx((8e-3 / 3) + 20e-3 / 2)


def row(mbps: Sequence[float], starts: Sequence[int] = (0,), ints: Sequence[int] = (10,)) -> LinkLayout:
    """Links in a row between n0, n1, ..., behind cards that take no time; from each start a source sends to the end."""
    nodes, sources = [f"n{k}" for k in range(len(mbps) + 1)], [f"s{k}" for k in range(len(starts))]
    job = {
        "name": "row",
        "query": {
            "operators": [
                *(
                    {"name": name, "kind": "source", "columns": {"ints": width}}
                    for name, width in zip(sources, ints, strict=True)
                ),
                {"name": "z", "kind": "sink"},
            ],
            "streams": [{"producer": name, "consumer": "z"} for name in sources],
        },
        "cluster": {
            "hosts": [
                {"name": n, "cpu_percent": 100, "ram_mb": 4000, "bandwidth_mbps": 1e9, "latency_ms": 0} for n in nodes
            ],
            "links": [
                {"between": list(ends), "latency_ms": 0, "bandwidth_mbps": each}
                for ends, each in zip(pairwise(nodes), mbps, strict=True)
            ],
        },
        "plan": {"placement": {**{name: nodes[k] for name, k in zip(sources, starts, strict=True)}, "z": nodes[-1]}},
        "workload": {"arrivals": {name: {"law": "poisson", "rate_per_s": 1.0} for name in sources}},
    }
    deployment = parse(Scenario, job).deployment
    return LinkLayout(Layout.of_plans(JobArrays(compile(deployment)), [deployment.plan]))


def wait_s(load: float, service_s: float) -> float:
    """In M/D/1."""
    return load / (1.0 - load) / 2.0 * service_s


@given(st.lists(st.floats(1.0, 50.0), min_size=1, max_size=5), st.floats(0.05, 0.95))
def test_links_in_a_row_make_one_wait_that_of_the_slowest_in_any_order(mbps: list[float], load: float) -> None:
    found = row(mbps)
    service_s = float(found.bytes_s[0]) * 8e-6 / min(mbps)
    waited = found.waits_sn(np.array([[load / service_s]]))[0, 0]
    assert waited == pytest.approx(wait_s(load, service_s), rel=1e-3)


@given(st.lists(st.floats(0.05, 0.3), min_size=3, max_size=3))
def test_where_equal_links_join_all_wait_as_long_as_at_the_last_alone(loads: list[float]) -> None:
    """Friedman: the last is busy whenever there is anything left anywhere that it has to send."""
    found = row([10.0] * 3, starts=range(3), ints=[10] * 3)
    service_s = float(found.bytes_s[0]) * 8e-7
    waits_s = found.waits_sn(np.array(loads)[:, None] / service_s)[:, 0]
    assert np.average(waits_s, weights=loads) == pytest.approx(wait_s(sum(loads), service_s), rel=1e-3)


def test_what_is_spaced_already_is_spared_more_the_slower_it_came() -> None:
    """Another stream joins; of what came over a nearly full link only the other one's tuples are in the way."""
    first_s = [row([each, 20.0], starts=(0, 1), ints=[10, 10]) for each in (20.0, 15.0, 11.0)]
    service_s = float(first_s[0].bytes_s[0]) * 4e-7
    sent_sn = np.array([[0.5], [0.4]]) / service_s
    joining_s = [found.waits_sn(sent_sn)[1, 0] for found in first_s]
    assert joining_s[0] > joining_s[1] > joining_s[2] > wait_s(0.4, service_s)
    assert joining_s[0] < wait_s(0.9, service_s)


def test_small_tuples_wait_again_behind_large_ones_at_each_hop() -> None:
    """By hand, beside an exact queue of each hop, tuple by tuple."""
    generator, sent = stream(0, "rows"), np.array([0.3, 0.04])
    found = row([8.0] * 3, starts=(0, 0), ints=[10, 100])
    service_s = found.bytes_s * 1e-6
    n = 200_000
    large = generator.random(n) < sent[1] / sent.sum()
    each_s = np.where(large, service_s[1], service_s[0])
    came_s = np.cumsum(generator.exponential(service_s[0] / sent.sum(), n))
    waits_s = np.zeros(n)
    for _ in range(3):
        begun_s = waits_in_line(came_s, each_s)
        waits_s += begun_s - came_s
        came_s = begun_s + each_s
    predicted = found.waits_sn(sent[:, None] / service_s[0])[:, 0]
    assert predicted[0] > 1.5 * predicted[1]
    assert predicted[0] == pytest.approx(waits_s[~large].mean(), rel=0.1)


@pytest.mark.parametrize(("slower", "loads"), [(1.5, (0.6, 0.3)), (2.0, (0.4, 0.5)), (1.2, (0.3, 0.1))])
def test_what_joins_and_what_is_spaced_wait_for_each_other(slower: float, loads: tuple[float, float]) -> None:
    """The same, of streams of which one has come over a slower link; loads: of the link where they meet."""
    generator, n = stream(1, "rows"), 400_000
    found = row([10.0 / slower, 10.0], starts=(0, 1), ints=(10, 10))
    service_s = float(found.bytes_s[0]) * 8e-7
    rates = np.array(loads) / service_s
    first_s, joining_s = (np.cumsum(generator.exponential(1.0 / rate, int(n * rate / rates.sum()))) for rate in rates)
    spaced_s = waits_in_line(first_s, np.full(len(first_s), slower * service_s))
    met_s = np.sort(np.concatenate([spaced_s + slower * service_s, joining_s]))
    total_s = (spaced_s - first_s).sum() + (waits_in_line(met_s, np.full(len(met_s), service_s)) - met_s).sum()
    predicted = found.waits_sn(rates[:, None])[:, 0]
    assert np.average(predicted, weights=rates) == pytest.approx(total_s / n, rel=0.1)


def waits_in_line(came_s: np.ndarray, each_s: np.ndarray) -> np.ndarray:
    """When services begin, first come first served."""
    done_s = np.cumsum(each_s)
    return done_s - each_s + np.maximum.accumulate(came_s - done_s + each_s)
