"""A segment in parts, where a channel has no room for all of it."""

from __future__ import annotations

from collections.abc import Iterator

from twin.engine.segment import Segment


def in_pieces(segment: Segment, most: int) -> Iterator[Segment]:
    """The segment in equal parts of at most that many tuples."""
    n = segment.n
    if n <= most:
        yield segment
        return
    count = -(-n // most)
    taken = 0
    for k in range(count):
        upto = n * (k + 1) // count
        yield segment.part(upto - taken, taken / n, upto / n)
        taken = upto


def paced(segment: Segment, room: int) -> tuple[Segment, Segment]:
    """Its first tuples, for which there was room one by one until now, and the rest."""
    share = room / segment.n
    first, rest = segment.part(room, 0.0, share), segment.part(segment.n - room, share, 1.0)
    first.a_s, first.b_s = (segment.a_s, segment.b_s) if room > 1 else (segment.b_s, segment.b_s)
    return first, rest
