"""Keyed state with a time to live: the state of a key expires when no record of the key has come for that long."""

from __future__ import annotations

from collections import OrderedDict

from twin.engine.logics.select import SelectLogic
from twin.engine.record import Record
from twin.engine.state import Every, Leaves, State, parted


class RememberLogic(SelectLogic):
    """Logic of an operator that keeps a state by key, with a time to live.

    seen_s: time of the last record of each key that has a state, the oldest first. elsewhere: number of states while
    something else holds them.
    """

    def __init__(self, selectivity: float, ttl_s: float, bytes_each: float) -> None:
        """ttl_s: time to live, may be infinite. bytes_each: size of the state of a key."""
        super().__init__(selectivity, selectivity <= 1.0)
        self.ttl_s = ttl_s
        self.bytes_each = bytes_each
        self.elsewhere = 0
        self.seen_s: OrderedDict[int, float] = OrderedDict()

    def emit(self, record: Record, at_s: float) -> None:
        """Creates or renews the state of the record's key."""
        self.seen_s[record.key] = at_s
        self.seen_s.move_to_end(record.key)
        self._expire()
        super().emit(record, at_s)

    def _expire(self) -> None:
        since_s = self.station.env.now - self.ttl_s
        while self.seen_s:
            key = next(iter(self.seen_s))
            if self.seen_s[key] > since_s:
                return
            del self.seen_s[key]

    def live(self) -> int:
        """Number of keys that have a state."""
        self._expire()
        return len(self.seen_s) + self.elsewhere

    # what it holds ---------------------------------------------------------------------------------------------------

    def held(self) -> float:
        """Number of states in memory, with those that have expired and were not removed yet."""
        return float(len(self.seen_s))

    def held_bytes(self) -> float:
        """Bytes of the states of keys that have not expired."""
        return self.live() * self.bytes_each

    def held_keys(self) -> list[tuple[list[int], float]]:
        self._expire()
        return [(list(self.seen_s), self.bytes_each)]

    def snapshot(self, again: bool) -> object:
        return self.seen_s.copy()

    def restore(self, kept: object, at_s: float) -> int:
        assert isinstance(kept, OrderedDict)
        self.seen_s = kept.copy()
        return 0

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        """Takes states; expired ones stay behind."""
        self._expire()
        gone, kept = parted([(at_s, key, 0.0, 0.0) for key, at_s in self.seen_s.items()], leaves or Every(share))
        self.seen_s = OrderedDict((key, at_s) for at_s, key, _, _ in kept)
        return State([gone], len(gone) * self.bytes_each)

    def give(self, state: State) -> None:
        seen = [*self.seen_s.items(), *[(key, at_s) for at_s, key, _, _ in state.stores[0]]]
        self.seen_s = OrderedDict(sorted(seen, key=lambda each: each[1]))

    def stores(self) -> int:
        return 1
