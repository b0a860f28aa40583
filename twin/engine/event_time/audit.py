"""What an exact run notes of every tuple with event time, so that each window can be checked against all that came."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Audit:
    """Of one operator. came: event time, key and digest of each tuple that was sent to it, once however many copies.

    taken: digests of those that it took; kept, late: of those that went into its state, and that it dropped; a tuple
    that was sent to two owners can be both. emitted: start and end of a window, key, tuples in it and their digests
    together.
    """

    came: list[tuple[int, int, int]] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)
    kept: set[int] = field(default_factory=set)
    late: set[int] = field(default_factory=set)
    emitted: list[tuple[int, int, int, int, int]] = field(default_factory=list)
