"""Jobs that change where records cross links, travel in batches, and hosts pause."""

from __future__ import annotations

from typing import Any

import pytest

from tests.twin.changing import e2e_s, job, run
from tests.twin.worlds import chain
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import AnyEvent, Failure, LinkDegradation, Migration, Scale, SlowDown
from twin.profiles import STORM
from twin.spec import parse

LINKS = [
    {"between": [host, "switch-1" if host in ("h0", "h1") else "switch-2"], "bandwidth_mbps": 100, "latency_ms": 2}
    for host in ("h0", "h1", "h2", "h3")
]
LINKS.append({"between": ["switch-1", "switch-2"], "bandwidth_mbps": 100, "latency_ms": 30})
BATCHES = {"batch_records": 40, "flush_s": 0.2}
PAUSES = {"noise": {"gc_interval_s": 1, "gc_pause_s": 0.1}}
JITTER = {"noise": {"jitter_scv": 0.5}}


def changed(deployment: Deployment, links: list[dict[str, Any]] | None = None, **engine: Any) -> Deployment:
    """Job on two racks behind two switches, or on other links, with another engine."""
    document = deployment.model_dump(mode="json")
    if links is not None:
        nodes = {end for link in links for end in link["between"]}
        switches = sorted(node for node in nodes if node.startswith("switch"))
        document["cluster"] |= {"links": links, "switches": switches}
    document["engine"] = STORM.model_dump(mode="json") | {"name": "other"} | engine
    return parse(Deployment, document)


def test_what_is_on_its_way_over_several_links_is_lost_and_restored() -> None:
    """Records lost on several links are restored: every record reaches the sink once, but for the duplicates."""
    slow = [link | {"latency_ms": 400} for link in LINKS]
    deployment = job(rate={"law": "constant", "rate_per_s": 400}, window={"policy": "count", "size_records": 1})
    result = run(
        changed(deployment, slow), Failure(at_s=8.5, host="h1", recover_after_s=4), horizon_s=40,
        checkpoint_interval_s=3,
    )  # fmt: skip
    (event,) = result.event_rows
    assert event["detail"]["lost"] > 400 * 2.0 * 0.8  # 800 ms to a, 1,200 ms to the sink
    arrived = sum(row["arrived"] for row in result.operator_rows if row["operator"] == "source")
    assert result.metrics.records_out - result.duplicates == pytest.approx(arrived - 2 * 400, abs=100)


def test_a_run_may_end_while_lost_records_are_on_the_network() -> None:
    slow = [link | {"latency_ms": 400} for link in LINKS]
    run(changed(job(), slow), Failure(at_s=8.5, host="h1", recover_after_s=4), horizon_s=8.6)


def test_a_degraded_link_delays_both_directions_until_it_is_mended() -> None:
    """A degraded link delays both directions; events name the link either way round."""
    for ends in (("switch-1", "switch-2"), ("switch-2", "switch-1")):
        event = LinkDegradation(at_s=8, link=ends, latency_factor=50, duration_s=4)
        result = run(changed(job(), LINKS), event)
        latency = [value for value in e2e_s(result) if value is not None]
        assert max(latency) > min(latency[3:7]) + 1.3
        assert latency[-1] == pytest.approx(latency[6], abs=0.2)
        (row,) = result.event_rows
        assert row["component"] == " - ".join(ends) and row["end_s"] == 12


def test_links_that_a_moved_subtask_uses_have_rows_from_then_on() -> None:
    deployment = changed(job(), LINKS)
    result = run(deployment, Migration(at_s=9.5, operator="sink", subtask=0, to="h3"))
    carried = {
        name: [row["period"] for row in result.link_rows if row["link"] == name and row["recordsIn"]]
        for name in ("switch-2->h2", "switch-2->h3")
    }
    assert max(carried["switch-2->h2"]) < 12
    assert 9 <= min(carried["switch-2->h3"]) < 12 and max(carried["switch-2->h3"]) == 19


@pytest.mark.parametrize(
    "move", [Migration(at_s=10, operator="m", subtask=0, to="h3"), Scale(at_s=10, operator="m", placement=("h3",))]
)
def test_a_subtask_takes_part_in_the_pauses_of_its_new_host(move: AnyEvent) -> None:
    """A moved subtask pauses with its new host half of the time: at 70 % it keeps up neither before nor after."""
    engine = {"noise": {"gc_interval_s": 0.2, "gc_pause_s": 0.2}}
    deployment = changed(chain_on_four(rate=700, service_s=1e-3), **engine)
    result = run(deployment, move, horizon_s=60)
    rates = [row["numRecordsIn"] for row in result.operator_rows if row["operator"] == "m"]
    assert sum(rates[2:9]) / 7 == pytest.approx(500, rel=0.15)
    assert sum(rates[20:]) / 40 == pytest.approx(500, rel=0.1)


def test_clock_and_slow_down_multiply_on_a_processor_that_is_opened_later() -> None:
    """Clock and slow-down multiply: 1 ms of reference work takes 2 ms on h1, and 6 ms while it is slow."""
    document = chain_on_four(rate=2000, service_s=1e-3).model_dump(mode="json")
    document["cluster"]["hosts"][1] |= {"cpu_percent": 200, "sockets": [{"cores": 4, "clock_ghz": 2}]}
    deployment = parse(Deployment, document)
    slow = SlowDown(at_s=0, host="h1", factor=3, duration_s=20)
    result = run(deployment, slow, Migration(at_s=5, operator="m", subtask=0, to="h1"), horizon_s=30)
    rates = [row["numRecordsIn"] for row in result.operator_rows if row["operator"] == "m"]
    assert sum(rates[10:18]) / 8 == pytest.approx(1000 / 6, rel=0.06)
    assert sum(rates[22:]) / 8 == pytest.approx(1000 / 2, rel=0.06)


def chain_on_four(rate: float, service_s: float) -> Deployment:
    """Job with source and sink on h2, a map on h0."""
    hosts = job().model_dump(mode="json")["cluster"]["hosts"]
    middle = [{"kind": "map", "name": "m", "service_time_s": service_s}]
    return chain(middle, rate, hosts=hosts, placement={"source": "h2", "m": "h0", "sink": "h2"})


LIMITED = {"sockets": [{"cores": 2, "bandwidth_gbps": 10}]}


@pytest.mark.parametrize(
    "event", [Migration(at_s=1, operator="a", subtask=0, to="h3"), Scale(at_s=1, operator="a", placement=("h1", "h3"))]
)
def test_subtasks_cannot_move_where_traffic_is_limited(event: AnyEvent) -> None:
    document = job().model_dump(mode="json")
    document["cluster"]["hosts"][0] |= LIMITED
    for deployment in (parse(Deployment, document), changed(job(), context_switch=0.1)):
        with pytest.raises(BadInput, match="bandwidth_gbps of sockets or numa, or context_switch"):
            run(deployment, event)


@pytest.mark.parametrize(
    "event", [Migration(at_s=1, operator="a", subtask=1, to="h3"), Scale(at_s=1, operator="m", placement=("h0", "h3"))]
)
def test_subtasks_cannot_go_where_no_route_leads(event: AnyEvent) -> None:
    with pytest.raises(BadInput, match=r"no route from host 'h[01]' to 'h3'"):
        run(changed(job(), [link for link in LINKS if "h3" not in link["between"]]), event)


def test_a_host_among_links_has_no_latency_to_change() -> None:
    with pytest.raises(BadInput, match="no latency of its own"):
        run(changed(job(), LINKS), LinkDegradation(at_s=1, host="h0", latency_factor=2))
