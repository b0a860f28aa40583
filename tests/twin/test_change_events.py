"""Events that change a job, its hosts and its network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.twin.changing import e2e_s, job, run
from tests.twin.worlds import chain, deployment, simulated, sink, source
from twin.change import checkpoint
from twin.control import PeriodStatistics, Policy, Reconfiguration
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import AnyEvent, Failure, LinkDegradation, Migration, Move, RateChange, Scale, SlowDown
from twin.profiles import STORM
from twin.run import Run
from twin.spec import parse

# events --------------------------------------------------------------------------------------------------------------
# Changes of a running job, event by event, in a world so small that everything follows by hand.


HOSTS = [{"name": f"h{k}", "cpu_percent": 400, "ram_mb": 1000, "bandwidth_mbps": 1, "latency_ms": 10} for k in range(3)]
"""Hosts with cards of 125,000 bytes a second."""


EVERY_S = {"law": "constant", "rate_per_s": 1.0}
WORK = {"kind": "map", "name": "m", "service_time_s": 0.1}


def on_h0(work: dict[str, Any], rate: Any, **engine: Any) -> Deployment:
    """Job source -> work -> sink on h0."""
    places = dict.fromkeys(("source", work["name"], "sink"), "h0")
    other = STORM.model_dump(mode="json") | {"name": "other"} | engine
    return chain([work], rate, hosts=HOSTS, placement=places, engine=other)


def tiny(*events: AnyEvent, job: Deployment | None = None, policy: Policy | None = None, **settings: Any) -> Run:
    """Run of a record a second, 0.1 s each in m, by default; half-second periods, checkpoints each second."""
    usual = {"horizon_s": 6.5, "warmup_s": 0, "period_s": 0.5, "noise": False, "checkpoint_interval_s": 1}
    return simulated(job or on_h0(WORK, EVERY_S), *events, policy=policy, **(usual | settings))


def results(run: Run) -> dict[float, tuple[int, float]]:
    """Number of results and the sum of their ages, by half second in which there are any."""
    rows = [row for row in run.operator_rows if row["operator"] == "sink" and row["latencyCount"]]
    return {row["start_s"]: (row["latencyCount"], round(row["e2eLatencySum_s"], 9)) for row in rows}


def told(run: Run) -> list[tuple[str, str, float, float | None]]:
    """Events of a run: kind, component, start and end."""
    return [(row["kind"], row["component"], row["at_s"], row["end_s"]) for row in run.event_rows]


IN_TIME = (1, 0.1)


def test_a_host_is_slow_for_as_long_as_it_says() -> None:
    """Records begun while a host is slow, at 3 and 4, take 0.3 s; one under way at the beginning, or later, does
    not."""
    run = tiny(SlowDown(at_s=2.05, host="h0", factor=3, duration_s=2))
    assert results(run) == {1: IN_TIME, 2: IN_TIME, 3: (1, 0.3), 4: (1, 0.3), 5: IN_TIME, 6: IN_TIME}
    assert told(run) == [("slow-down", "h0", 2.05, 4.05)]


def test_rates_are_relative_to_the_law_and_not_to_each_other() -> None:
    """Rates change relative to the law: doubled from 2 on, halved from 4 on; a gap goes on at the new rate."""
    changes = RateChange(at_s=2, source="source", factor=2), RateChange(at_s=4, source="source", rate_per_s=0.5)
    run = tiny(*changes, horizon_s=8.5)
    assert results(run) == dict.fromkeys([1, 2, 2.5, 3, 3.5, 4, 6, 8], IN_TIME)
    assert [row["detail"]["factor"] for row in run.event_rows] == [2, 0.5]


def test_events_of_one_time_happen_as_they_are_listed() -> None:
    run = tiny(*(SlowDown(at_s=1, host=host, factor=2) for host in ("h2", "h0", "h1")))
    assert told(run) == [("slow-down", host, 1, None) for host in ("h2", "h0", "h1")]


def test_a_failure_takes_the_job_back_to_its_checkpoint() -> None:
    """A failure from 2.5 to 4 goes back to the checkpoint of 2. The record of 2 was under way then: it is read again at
    4, and its result counts twice; those of 3 and 4 waited in the broker."""
    run = tiny(Failure(at_s=2.5, host="h0", recover_after_s=1.5))
    again = (2.1, 1.2, 0.3)
    assert results(run) == {1: IN_TIME, 2: IN_TIME, 4: (3, round(sum(again), 9)), 5: IN_TIME, 6: IN_TIME}
    assert told(run) == [("failure", "h0", 2.5, 4.0)]
    assert (run.event_rows[0]["detail"]["lost"], run.duplicates, run.event_rows[0]["detail"]["replayed"]) == (0, 1, 1)


COUNTED, CLOCKED = {"policy": "count", "size_records": 2}, {"policy": "time", "size_s": 0.9}


@pytest.mark.parametrize(
    ("every_s", "service_s", "window", "fails_s", "expected"),
    [
        pytest.param(0.95, 0.3, COUNTED, 2.5, {2: 1.25, 3: 2.1, 4: 1.25}, id="a result of the service under way"),
        pytest.param(0.95, None, CLOCKED, 2.5, {2: 1.25, 3: 2.1}, id="an evaluation under way, which takes 0.4 s"),
        pytest.param(0.85, 0.4, CLOCKED, 2.05, {3: 2.2}, id="an evaluation that waits for a service"),
    ],
)
def test_what_a_window_was_about_to_send_at_a_checkpoint_leaves_after_the_restart(
    every_s: float, service_s: float | None, window: dict[str, Any], fails_s: float, expected: dict[float, float]
) -> None:
    """Results under way at the checkpoint of 2 leave after the restart at 3.05, twice if they had left."""
    work = {"kind": "aggregate", "name": "w", "window": window, "service_time_s": service_s}
    job = on_h0(work, EVERY_S | {"rate_per_s": 1 / every_s}, result_us=4e5, scan_us=0)
    run = tiny(Failure(at_s=fails_s, host="h0", recover_after_s=3.05 - fails_s), job=job, horizon_s=4.3)
    assert {start_s: results(run)[start_s][1] for start_s in expected} == pytest.approx(expected, abs=1e-3)
    assert run.duplicates == (2 in expected)


def test_the_way_is_paid_to_where_records_go() -> None:
    """Serialising (20 us a byte) is paid by where records go: only from the time on when the sink is elsewhere."""
    job = on_h0(WORK, EVERY_S, serialise_ns_per_byte=20_000)
    run = tiny(Scale(at_s=2.5, operator="sink", placement=("h1",)), job=job, horizon_s=6.0, period_s=2.0)
    busy_s = [row["busyTimeMsPerSecond"] * 2e-3 for row in run.operator_rows if row["operator"] == "m"]
    sent_s = 2e-5 * job.engine.output_bytes(job.query, "m")
    assert busy_s == pytest.approx([0.1, 2 * 0.1 + sent_s, 2 * (0.1 + sent_s)])


def test_a_pause_stops_what_is_under_way() -> None:
    """A pause stops a service: a task that always has work is always busy, and serves in five sixths of the time."""
    job = on_h0(WORK | {"service_scv": 0}, 20.0, noise={"gc_interval_s": 5.0, "gc_pause_s": 1.0})
    run = simulated(job, horizon_s=1000.0, warmup_s=10.0, period_s=10.0)
    served = next(each for each in run.operators if each.operator == "m")
    assert served.busy == pytest.approx(1.0, abs=0.01)
    assert served.rate_in_per_s == pytest.approx(10 * 5 / 6, rel=0.05)


def test_records_get_their_turn_between_the_pieces_of_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records wait for one piece of state, here half a second, while a megabyte is on the card for 8 s."""
    monkeypatch.setattr(checkpoint, "PIECE_S", 0.5)
    state = {"kind": "map", "name": "state", "key_groups": 2, "state_bytes_per_group": 5e5}
    ends = [("source", "state"), ("state", "end"), ("source", "sink")]
    job = deployment(
        [source(), state, sink("end"), sink()],
        ends,
        {"source": {"law": "constant", "rate_per_s": 7.3}},
        hosts=HOSTS,
        placement={"source": "h0", "state": "h0", "end": "h0", "sink": "h1"},
    )
    move = Migration(at_s=1.0, operator="state", subtask=0, to="h2")
    run = tiny(move, job=job, horizon_s=12, period_s=4)
    (event,) = run.event_rows
    assert event["paused_s"] == pytest.approx(8.0, abs=0.3)
    means = [row["e2eLatencySum_s"] / row["latencyCount"] for row in run.operator_rows if row["operator"] == "sink"]
    assert means[1] == pytest.approx(0.5 / 2, rel=0.25)  # a piece has half of its time to go, on average
    assert means[2] < means[1]


class Orders:
    """Policy that takes given decisions, period by period, and notes when it was asked."""

    name = "orders"

    def __init__(self, orders: Sequence[Any]) -> None:
        self.orders = list(orders)
        self.asked: list[float] = []

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        self.asked.append(statistics.end_s)
        return self.orders.pop(0) if self.orders else None


def test_orders_are_carried_out_later_and_nobody_is_asked_meanwhile() -> None:
    """A decision at 0.5 is carried out at 1.75, at once as there is no state; the policy is asked again at 2."""
    move = Reconfiguration(moves=(Move(operator="m", subtask=0, to="h1"),), reason="why not")
    orders = Orders([move, None, move])
    run = tiny(policy=orders, decision_latency_s=1.25, horizon_s=4.7)
    assert orders.asked == [0.5, 2.0, 2.5, 4.0, 4.5]
    assert told(run) == [
        ("decision", "orders", 0.5, 1.75), ("migration", "m", 1.75, 1.75),
        ("decision", "orders", 2.5, 3.75), ("migration", "m", 3.75, 3.75),
    ]  # fmt: skip
    assert [row["detail"].get("refused") for row in run.event_rows[1::2]] == [None, "it is at h1 already"]


def test_why_nothing_changes_is_noted_once() -> None:
    reasons = ["busy", "busy", "idle", "", "idle"]
    run = tiny(policy=Orders([Reconfiguration(reason=reason) for reason in reasons]))
    assert [(row["at_s"], row["detail"]["reason"]) for row in run.event_rows] == [
        (0.5, "busy"),
        (1.5, "idle"),
        (2.5, "idle"),
    ]


# changing networks ---------------------------------------------------------------------------------------------------
# Jobs that change where records cross links, travel in batches, and hosts pause.


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
    for limited in (parse(Deployment, document), changed(job(), context_switch=0.1)):
        with pytest.raises(BadInput, match="bandwidth_gbps of sockets or numa, or context_switch"):
            run(limited, event)


@pytest.mark.parametrize(
    "event", [Migration(at_s=1, operator="a", subtask=1, to="h3"), Scale(at_s=1, operator="m", placement=("h0", "h3"))]
)
def test_subtasks_cannot_go_where_no_route_leads(event: AnyEvent) -> None:
    with pytest.raises(BadInput, match=r"no route from host 'h[01]' to 'h3'"):
        run(changed(job(), [link for link in LINKS if "h3" not in link["between"]]), event)


def test_a_host_among_links_has_no_latency_to_change() -> None:
    with pytest.raises(BadInput, match="no latency of its own"):
        run(changed(job(), LINKS), LinkDegradation(at_s=1, host="h0", latency_factor=2))
