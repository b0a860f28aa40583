"""Parts of a stream on each link, by hosts, by shares, and by hand; and their waits there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twin.checkpointed import hosts
from tests.twin.worlds import deployment, sink, source
from twin.job import compile
from twin.rates.arrays import JobArrays
from twin.rates.channels import LinkLayout
from twin.rates.layout import Layout

LINKS = [("e1", "fog", 5.0, 10.0), ("e2", "fog", 8.0, 20.0), ("fog", "cloud", 20.0, 100.0)]


def link(one: str, other: str, latency_ms: float, mbps: float) -> dict[str, Any]:
    return {"between": [one, other], "latency_ms": latency_ms, "bandwidth_mbps": mbps}


def layout(counts_pol: list[list[list[int]]]) -> Layout:
    job = deployment(
        [source("a", columns={"ints": 3}), {"name": "m", "kind": "map"}, sink("z")],
        [("a", "m"), ("m", "z")],
        {"a": 100.0},
        hosts=hosts("e1", "e2", "fog", "cloud", "alone", latency_ms=1, bandwidth_mbps=100),
        placement={"a": "e1", "m": "fog", "z": "cloud"},
        links=[link(*each) for each in LINKS],
    )
    return Layout.of_counts(JobArrays(compile(job)), np.array(counts_pol))


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


def test_subtasks_on_several_hosts_cross_links_by_their_shares() -> None:
    plans = layout([[[1, 0, 0, 0, 0], [0, 1, 2, 0, 0], [0, 0, 1, 1, 0]]])
    assert not plans.single
    found = LinkLayout(plans)
    assert found.latency_sn[0, 0] == pytest.approx(5e-3 + 8e-3 / 3)  # all to the fog; a third on to e2
    assert found.latency_sn[1, 0] == pytest.approx((8e-3 / 3) + 20e-3 / 2)


def row(mbps: Sequence[float], starts: Sequence[int] = (0,), ints: Sequence[int] = (10,)) -> LinkLayout:
    """Job over links in a row between n0, n1, ..., behind instant cards; from each start a source sends to the end."""
    nodes, names = [f"n{k}" for k in range(len(mbps) + 1)], [f"s{k}" for k in range(len(starts))]
    job = deployment(
        [*(source(name, columns={"ints": width}) for name, width in zip(names, ints, strict=True)), sink("z")],
        [(name, "z") for name in names],
        dict.fromkeys(names, 1.0),
        hosts=hosts(*nodes, bandwidth_mbps=1e9),
        placement={**{name: nodes[k] for name, k in zip(names, starts, strict=True)}, "z": nodes[-1]},
        links=[link(*ends, 0.0, each) for ends, each in zip(pairwise(nodes), mbps, strict=True)],
    )
    return LinkLayout(Layout.of_plans(JobArrays(compile(job)), [job.plan]))


def wait_s(load: float, service_s: float) -> float:
    """Mean wait in M/D/1."""
    return load / (1.0 - load) / 2.0 * service_s


@given(st.lists(st.floats(1.0, 50.0), min_size=1, max_size=5), st.floats(0.05, 0.95))
def test_what_goes_over_links_in_a_row_waits_at_each(mbps: list[float], load: float) -> None:
    found = row(mbps)
    services_s = float(found.bytes_s[0]) * 8e-6 / np.array(mbps)
    rate_per_s = load / services_s.max()
    waited = found.waits_sn(np.array([[rate_per_s]]))[0, 0]
    assert waited == pytest.approx(sum(wait_s(rate_per_s * each, each) for each in services_s), rel=1e-3)


def test_small_records_wait_for_large_ones_as_pollaczek_and_khinchine_say() -> None:
    found = row([8.0], starts=(0, 0), ints=(10, 100))
    services_s, rates_per_s = found.bytes_s * 1e-6, np.array([300.0, 40.0])
    expected_s = rates_per_s @ services_s**2 / 2.0 / (1.0 - rates_per_s @ services_s)
    assert found.waits_sn(rates_per_s[:, None])[:, 0] == pytest.approx(expected_s, rel=1e-3)
