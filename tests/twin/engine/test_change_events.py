"""What changes a running job, event by event: timeline, state on its way, controller, and the ways into an operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.twin.worlds import chain
from twin.change.controller import Controller
from twin.change.fan import Fan
from twin.change.rewiring import Rewiring
from twin.change.timeline import play
from twin.change.transfer import PIECE_BYTES, PIECES, carry
from twin.control import PeriodStatistics, Policy, Reconfiguration
from twin.engine.measure.ledger import Buffer
from twin.engine.measure.meters import Statistics
from twin.engine.record import Record
from twin.engine.streams.channel import Inbox
from twin.events import AnyEvent, Failure, Move, RateChange, SlowDown
from twin.plan import Location
from twin.scenario import RunSettings
from twin.wiring.build import build, meters

HOSTS = [{"name": f"h{k}", "cpu_percent": 400, "ram_mb": 1000, "bandwidth_mbps": 1, "latency_ms": 10} for k in range(3)]
"""125,000 bytes a second."""


class Tiny:
    """source -> m -> sink, a tuple a second, 0.1 s each in m; what arrives at the sink is noted."""

    def __init__(self, rate: float = 1.0, **placement: Any) -> None:
        middle = [{"kind": "map", "name": "m", "service_time_s": 0.1}]
        law = {"law": "constant", "rate_per_s": rate}
        job = chain(middle, law, hosts=HOSTS, placement=dict.fromkeys(("source", "m", "sink"), "h0") | placement)
        settings = RunSettings(horizon_s=100, warmup_s=0, period_s=1, noise=False, checkpoint_interval_s=1)
        self.wiring = Rewiring(job, settings, replayable=True)
        self.world = build(self.wiring)
        self.env = self.world.env
        self.statistics = Statistics(self.env, *meters(self.wiring), 1.0)
        self.arrived: list[float] = []
        sink = self.world.tasks["sink"][0]
        take = sink.deliver

        def deliver(record: Record) -> None:
            self.arrived.append(round(self.env.now, 9))
            take(record)

        for inbox in self.world.inboxes["m", "sink"]:
            inbox.task = _Noted(deliver)

    def play(self, *events: AnyEvent, policy: Policy | None = None, latency_s: float = 0.0) -> None:
        change = play(self.wiring, self.statistics, events)
        if policy is not None:
            Controller(change, policy, latency_s)

    def told(self) -> list[tuple[str, str, float, float | None]]:
        """The ledger's events."""
        return [(each.kind, each.component, each.at_s, _rounded(each.end_s)) for each in self.world.ledger.events]


class _Noted:
    """Stands for the sink."""

    def __init__(self, deliver: Any) -> None:
        self.deliver = deliver


def _rounded(at_s: float | None) -> float | None:
    return None if at_s is None else round(at_s, 9)


# timeline -------------------------------------------------------------------------------------------------------------


def test_a_host_is_slow_for_as_long_as_it_says() -> None:
    """A tuple begun at 3 and one begun at 4 take 0.3 s; the one under way at the beginning, or later, do not."""
    tiny = Tiny()
    tiny.play(SlowDown(at_s=2.05, host="h0", factor=3, duration_s=2))
    tiny.env.run(until=6.5)
    assert tiny.arrived == [1.1, 2.1, 3.3, 4.3, 5.1, 6.1]
    assert tiny.told() == [("slow-down", "h0", 2.05, 4.05)]


def test_rates_are_relative_to_the_law_and_not_to_each_other() -> None:
    """1 a second, from 2 on twice as many, from 4 on half as many: a gap under way goes on at the new rate."""
    tiny = Tiny()
    tiny.play(RateChange(at_s=2, source="source", factor=2), RateChange(at_s=4, source="source", rate_per_s=0.5))
    tiny.env.run(until=8.5)
    assert tiny.arrived == [1.1, 2.1, 2.6, 3.1, 3.6, 4.1, 6.1, 8.1]
    assert tiny.told() == [("rate-change", "source", 2, 2), ("rate-change", "source", 4, 4)]
    assert [each.detail["factor"] for each in tiny.world.ledger.events] == [2, 0.5]


def test_events_of_one_time_happen_as_they_are_listed() -> None:
    tiny = Tiny()
    tiny.play(*(SlowDown(at_s=1, host=host, factor=2) for host in ("h2", "h0", "h1")))
    tiny.env.run(until=2)
    assert tiny.told() == [("slow-down", host, 1, None) for host in ("h2", "h0", "h1")]


def test_a_failure_is_played_beside_what_else_happens() -> None:
    """Down from 2.5 to 4. At the checkpoint of 2 the tuple of 2 was under way: it is read again at 4, and its result
    counts twice; those of 3 and 4 waited in the broker."""
    tiny = Tiny()
    tiny.play(Failure(at_s=2.5, host="h0", recover_after_s=1.5), SlowDown(at_s=1, host="h1", factor=2))
    tiny.env.run(until=5.5)
    assert tiny.told() == [("slow-down", "h1", 1, None), ("failure", "h0", 2.5, 4.0)]
    assert tiny.arrived == [1.1, 2.1, 4.1, 4.2, 4.3, 5.1]
    ledger = tiny.world.ledger
    assert (ledger.lost, ledger.duplicates, dict(ledger.replayed)["source#0"]) == (0, 1, 1)


# state on its way -----------------------------------------------------------------------------------------------------


def carried(tiny: Tiny, size: float, start: str, end: str) -> list[tuple[float, int]]:
    """When the number of pieces that are on the network changed, and to what; at last (-1, ...) when all was there."""
    seen: list[tuple[float, int]] = []

    def go() -> Any:
        yield from carry(tiny.wiring, Location(start), Location(end), size)
        seen.append((round(tiny.env.now, 9), -1))

    tiny.env.process(go())
    before = 0
    while tiny.env.peek() < 30.0 and not (seen and seen[-1][1] == -1):
        tiny.env.step()
        if tiny.world.ledger.transfers != before:
            before = tiny.world.ledger.transfers
            seen.append((round(tiny.env.now, 9), before))
    return seen


def test_state_travels_in_pieces_one_after_the_other() -> None:
    """4 pieces of 50,000 bytes: 0.4 s on the card each, and 10 ms further."""
    tiny = Tiny(rate=0.01, m="h1")
    assert carried(tiny, 200_000, "h0", "h1") == [
        (0.0, 1), (0.4, 2), (0.41, 1), (0.8, 2), (0.81, 1), (1.2, 2), (1.21, 1), (1.61, 0), (1.61, -1),
    ]  # fmt: skip
    assert tiny.world.nics["h0"].tuples_in == 4


def test_tuples_get_their_turn_between_the_pieces_of_state() -> None:
    """Tuples of 12,500 bytes that come at 0.5 are sent after the second piece, at 0.8; the third begins 0.1 s later."""
    tiny = Tiny(rate=0.01, m="h1")

    class Here:
        def deliver(self, record: Record) -> None:
            arrivals.append(round(tiny.env.now, 9))

    arrivals: list[float] = []
    path = tiny.wiring.network.path(Location("h0"), Location("h1"), Inbox(Here(), 0, 10), 12_500)

    def send() -> Any:
        yield tiny.env.timeout(0.5)
        record = Record(0.5, 0.5, 0.5)
        record.inbox = path.inbox
        path.nic.transmit(record, path)  # type: ignore[union-attr]

    tiny.env.process(send())
    seen = carried(tiny, 200_000, "h0", "h1")
    assert arrivals == [0.91]
    assert [at_s for at_s, _ in seen if at_s > 0.81] == [1.3, 1.31, 1.71, 1.71]


@pytest.mark.parametrize(
    ("size", "end", "expected"), [(0.0, "h1", []), (1e6, "h0", []), (1.0, "h1", [1]), (1e9, "h1", [])]
)
def test_nothing_travels_within_a_host_and_nothing_is_cut_finer_than_need_be(
    size: float, end: str, expected: list[int]
) -> None:
    tiny = Tiny(rate=0.01, m="h1")
    seen = carried(tiny, size, "h0", end)
    if size == 1e9:
        assert tiny.world.nics["h0"].bytes_out <= PIECES * size / PIECES and seen[0] == (0.0, 1)
        assert size / PIECES > PIECE_BYTES
    else:
        assert [count for _, count in seen if count > 0] == expected and seen[-1][1] == -1


# controller -----------------------------------------------------------------------------------------------------------


class Orders:
    """Decides what it was given, period by period, and notes when it was asked."""

    name = "orders"

    def __init__(self, orders: Sequence[Reconfiguration | None]) -> None:
        self.orders = list(orders)
        self.asked: list[float] = []

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        self.asked.append(statistics.end_s)
        return self.orders.pop(0) if self.orders else None


def test_orders_are_carried_out_later_and_nobody_is_asked_meanwhile() -> None:
    """Asked at 1; what is ordered then begins at 2.5 and is done at once, as there is no state. Asked again at 3."""
    tiny = Tiny()
    move = Reconfiguration(moves=(Move(operator="m", replica=0, to="h1"),), reason="why not")
    orders = Orders([move, None, move])
    tiny.play(policy=orders, latency_s=1.5)
    tiny.env.run(until=6.2)
    assert orders.asked == [1.0, 3.0, 4.0, 6.0]
    assert tiny.told() == [
        ("decision", "orders", 1.0, 2.5), ("migration", "m", 2.5, 2.5),
        ("decision", "orders", 4.0, 5.5), ("migration", "m", 5.5, 5.5),
    ]  # fmt: skip
    assert [each.detail.get("refused") for each in tiny.world.ledger.events[1::2]] == [None, "it is at h1 already"]


def test_why_nothing_changes_is_noted_once() -> None:
    tiny = Tiny()
    reasons = ["busy", "busy", "idle", "", "idle"]
    tiny.play(policy=Orders([Reconfiguration(reason=reason) for reason in reasons]))
    tiny.env.run(until=5.5)
    noted = [(each.at_s, each.detail["reason"]) for each in tiny.world.ledger.events]
    assert noted == [(1.0, "busy"), (3.0, "idle"), (5.0, "idle")]


# the ways into an operator --------------------------------------------------------------------------------------------


def dealt(fan: Fan) -> list[float]:
    (partitioner,) = {port.partitioner for _, _, port in fan.ports()}
    return list(partitioner.weights)


def test_who_sits_where_and_gets_what() -> None:
    """A buffer takes over the share of the first of two, hands it to the second, and leaves its seat to another."""
    tiny = Tiny(m=["h0", "h1"])
    fan = tiny.wiring.fan("m")
    first, second = tiny.world.tasks["m"]
    assert (fan.slots, fan.shares, dealt(fan)) == ([first, second], [0.5, 0.5], [0.5, 0.5])
    buffer = Buffer()
    assert fan.add(buffer, Location("h1")) == 2
    assert (fan.shares, dealt(fan)) == ([0.5, 0.5, 0.0], [0.5, 0.5, 0.0])
    fan.shift(0, 2, 0.5)
    assert (fan.shares, dealt(fan)) == ([0.0, 0.5, 0.5], [0.0, 0.5, 0.5])
    tiny.env.run(until=4.5)  # a tuple a second, in turn
    assert (first.tuples_in, second.tuples_in, buffer.queued) == (0, 2, 2)
    fan.shift(2, 1, 0.5)
    fan.leave(buffer)
    buffer.open(second, tiny.env.now)
    assert (fan.shares, second.queued + second.tuples_in, buffer.queued) == ([0.0, 1.0, 0.0], 4, 0)
    tiny.env.run(until=7.5)
    assert (first.tuples_in, second.tuples_in) == (0, 7)
    assert fan.add(other := Buffer(), Location("h0")) == 2 and fan.slots == [first, second, other]
    assert fan.places == [Location("h0"), Location("h1"), Location("h0")]


def test_the_way_is_paid_to_where_shares_go() -> None:
    """Only tuples to h1 are serialised: what a source pays a tuple is h1's share of it."""
    tiny = Tiny(m=["h0", "h1"])
    fan, (source,) = tiny.wiring.fan("m"), tiny.world.tasks["source"]
    whole_s = 2 * source.output.send_s
    assert whole_s > 0.0
    for amount, expected_s in ((0.25, 0.75), (0.25, 1.0), (-1.0, 0.0)):
        fan.shift(0, 1, amount)
        assert source.output.send_s == pytest.approx(expected_s * whole_s)
    with pytest.raises(ValueError, match="is not in list"):
        fan.index(Buffer())
