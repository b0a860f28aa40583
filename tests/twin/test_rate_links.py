"""Which part of a stream crosses which links: by hosts, by shares, and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from twin.job import compile
from twin.rates.arrays import JobArrays
from twin.rates.layout import Layout
from twin.rates.links import LinkLayout, _of_hosts, _of_shares
from twin.scenario import Scenario
from twin.spec import parse

LINKS = [("e1", "fog", 5.0, 10.0), ("e2", "fog", 8.0, 20.0), ("fog", "cloud", 20.0, 100.0)]
NUMBER = {ends: 2 * k + way for k, (a, b, *_) in enumerate(LINKS) for way, ends in enumerate([(a, b), (b, a)])}


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
    plans = layout(ONE_HOST_EACH)
    assert plans.single
    assert _of_hosts(plans, NUMBER) == pytest.approx(_of_shares(plans, NUMBER))


def test_replicas_on_several_hosts_cross_links_by_their_shares() -> None:
    plans = layout([[[1, 0, 0, 0, 0], [0, 1, 2, 0, 0], [0, 0, 1, 1, 0]]])
    assert not plans.single
    found = LinkLayout(plans)
    assert found.latency_sn[0, 0] == pytest.approx(5e-3 + 8e-3 / 3)  # all to the fog; a third on to e2
    assert found.latency_sn[1, 0] == pytest.approx((8e-3 / 3) + 20e-3 / 2)
