"""The unit of work: a record."""

from __future__ import annotations

from typing import Any, ClassVar


class Record:
    """One record. Stamps belong to the oldest input record involved in it: `born_s` at the broker, `taken_s` by the
    source.

    `at_s`: when it arrived where it is now, or left there. `fetch_s`: CPU seconds that the consumer pays for getting it
    from where it is (deserialisation, a remote socket's memory). `inbox`: where it goes, or the hop that stands for it
    on the way. `sender`: the task that sent it there. `left_s`: how old (since `taken_s`) it was when its producer was
    done with it. `key`: number of its key among the operator's, -1 where it has none. n: what it counts as; control
    items are none.
    """

    __slots__ = ("at_s", "born_s", "fetch_s", "inbox", "key", "left_s", "sender", "taken_s")

    n: ClassVar[int] = 1

    def __init__(self, born_s: float, taken_s: float, at_s: float) -> None:
        self.born_s = born_s
        self.taken_s = taken_s
        self.at_s = at_s
        self.fetch_s = 0.0
        self.left_s = 0.0
        self.key = -1
        self.inbox: Any = None
        self.sender: Any = None

    def copy(self) -> Record:
        """Another one that goes the same way."""
        again = Record(self.born_s, self.taken_s, self.at_s)
        again.fetch_s, again.left_s, again.key = self.fetch_s, self.left_s, self.key
        again.inbox, again.sender = self.inbox, self.sender
        return again
