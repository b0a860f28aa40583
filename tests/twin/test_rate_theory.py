"""What the rate model says of single resources is what theory says of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twin.checkpointed import hosts
from tests.twin.worlds import chain, deployment, sink, source
from twin.profiles import STORM
from twin.rates.model import RateModel

MAP = {"kind": "map", "name": "m"}


@given(st.integers(1, 500), st.floats(20.0, 500.0), st.floats(0.2, 5.0))
def test_a_channel_passes_its_room_in_the_time_on_the_way(room: int, latency_ms: float, load: float) -> None:
    """The bandwidth-delay product: so many tuples are on their way at most, and none is there sooner."""
    most_per_s = room / (latency_ms * 1e-3)
    far = chain(
        [],
        load * most_per_s,
        hosts=hosts("a", "b", latency_ms=latency_ms, bandwidth_mbps=10**6),
        placement={"source": "a", "sink": "b"},
        engine=STORM.model_copy(update={"channel_tuples": room}).model_dump(mode="json"),
    )
    found = RateModel(1e6).answer(far, [far.plan])
    assert found.offered_pressure[0].max() == pytest.approx(load, rel=0.01)
    assert found.in_per_s[0, 1] == pytest.approx(min(load, 1.0) * most_per_s, rel=0.01)


def test_tuples_of_unlike_sizes_wait_for_one_card_as_pollaczek_and_khinchine_say() -> None:
    """Whatever leaves a host is in one line: lambda E[S^2] / (2 (1 - rho)), the same for small and large tuples."""
    rates_per_s, sizes = np.array([200.0, 100.0]), np.array([1500, 6000])
    sources = [source(name, tuple_bytes=int(size)) for name, size in zip(("one", "other"), sizes, strict=True)]
    far = deployment(
        [*sources, MAP, {**MAP, "name": "n"}, sink()],
        [("one", "m"), ("other", "n"), ("m", "sink"), ("n", "sink")],
        dict(zip(("one", "other"), rates_per_s, strict=True)),
        hosts=hosts("a", "b", latency_ms=3.0, bandwidth_mbps=10),
        placement={"one": "a", "other": "a", "m": "b", "n": "b", "sink": "b"},
    )
    found = RateModel(1e6).answer(far, [far.plan])
    send_s = sizes * 8e-7
    waited_s = rates_per_s @ send_s**2 / 2.0 / (1.0 - rates_per_s @ send_s)
    for name, each_s in zip("mn", send_s, strict=True):
        assert found.channel_s[0, found.operators.index(name)] == pytest.approx(3e-3 + each_s + waited_s, rel=1e-3)
