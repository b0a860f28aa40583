"""The unit of work: a group of tuples as a linear piece of the cumulative arrival curve.

A segment of one tuple *is* a tuple: `--fidelity exact` runs the same code with n = 1.
"""

from __future__ import annotations

from typing import Any


class Segment:
    """n tuples that arrive evenly over [a_s, b_s] and are handed over at or after b_s.

    Stamps belong to the oldest input tuple involved in each tuple: `born` at the broker, `taken` by the source. They
    run linearly from the first tuple (0) to the last (1). `gap_scv` is the variability of the gaps between tuples,
    which the analytic residual wait needs; a burst (a_s = b_s) has none. `unseen_scv`: how much of it neither sizes nor
    ends of segments show, as of chance where segments go to one replica each. `fetch_s` is what the consumer pays per
    tuple for getting it from where it is (deserialisation, a remote socket's memory). `came_s` is the time
    on the clock when a task that asks for it got the segment. `inbox`: where it goes, or the hop that stands for it
    on the way. `sender`: the task that sent it there. `left_s`: how old (since `taken`) the tuples were on average when
    their producer was done with them. `beyond`: of tuples that a window sent all at once, their ages in any order: how
    far the ages of all of them reach beyond the stamps, of which a part has its share, though it has tuples of any age.
    `clump`: where results of many evaluations of a window became one segment, how many each has brought at once.
    """

    __slots__ = (
        "a_s",
        "b_s",
        "beyond",
        "born0_s",
        "born1_s",
        "came_s",
        "clump",
        "fetch_s",
        "gap_scv",
        "inbox",
        "left_s",
        "n",
        "sender",
        "taken0_s",
        "taken1_s",
        "unseen_scv",
        "waited",
    )

    def __init__(
        self,
        n: int,
        a_s: float,
        b_s: float,
        born0_s: float,
        born1_s: float,
        taken0_s: float,
        taken1_s: float,
        gap_scv: float = 1.0,
        fetch_s: float = 0.0,
        waited: bool = False,
    ) -> None:
        self.n = n
        self.a_s = a_s
        self.b_s = b_s
        self.born0_s = born0_s
        self.born1_s = born1_s
        self.taken0_s = taken0_s
        self.taken1_s = taken1_s
        self.gap_scv = gap_scv
        self.fetch_s = fetch_s
        self.waited = waited
        self.came_s = 0.0
        self.left_s = 0.0
        self.unseen_scv = 0.0
        self.clump = 0.0
        self.beyond: tuple[float, float, float, float] | None = None
        self.inbox: Any = None
        self.sender: Any = None

    def copy(self) -> Segment:
        """Another one that goes the same way."""
        again = Segment(
            self.n,
            self.a_s,
            self.b_s,
            self.born0_s,
            self.born1_s,
            self.taken0_s,
            self.taken1_s,
            self.gap_scv,
            self.fetch_s,
            self.waited,
        )
        again.came_s, again.inbox, again.sender, again.left_s = self.came_s, self.inbox, self.sender, self.left_s
        again.unseen_scv, again.beyond, again.clump = self.unseen_scv, self.beyond, self.clump
        return again

    def collapse(self, at: float) -> None:
        """Puts all tuples at one point of the line, 0 to 1."""
        self.a_s = self.b_s = self.a_s + at * (self.b_s - self.a_s)
        self.born0_s = self.born1_s = self.born0_s + at * (self.born1_s - self.born0_s)
        self.taken0_s = self.taken1_s = self.taken0_s + at * (self.taken1_s - self.taken0_s)

    def narrow(self, share: float) -> None:
        """Draws both ends in by `share` of the line."""
        d = share * (self.b_s - self.a_s)
        self.a_s += d
        self.b_s -= d
        d = share * (self.born1_s - self.born0_s)
        self.born0_s += d
        self.born1_s -= d
        born_s, d = d, share * (self.taken1_s - self.taken0_s)
        self.taken0_s += d
        self.taken1_s -= d
        if self.beyond is not None:
            self.beyond = further(self.beyond, born_s, born_s, d, d)

    def part(self, n: int, low: float, high: float) -> Segment:
        """n tuples of the share [low, high] of this segment; one tuple sits at the middle of its share."""
        if n == 1:
            low = high = (low + high) / 2
        span, born, taken = self.b_s - self.a_s, self.born1_s - self.born0_s, self.taken1_s - self.taken0_s
        piece = Segment(
            n,
            self.a_s + low * span,
            self.a_s + high * span,
            self.born0_s + low * born,
            self.born0_s + high * born,
            self.taken0_s + low * taken,
            self.taken0_s + high * taken,
            self.gap_scv,
        )
        piece.unseen_scv, piece.clump = self.unseen_scv, self.clump
        if self.beyond is not None:
            piece.beyond = further(self.beyond, low * born, (1.0 - high) * born, low * taken, (1.0 - high) * taken)
        piece.left_s = self.left_s + ((low + high) / 2 - 0.5) * (span - taken)
        return piece

    def ages(self) -> tuple[float, float, float, float]:
        """Stamps between which those of its tuples lie: its own, or of all that were sent with them."""
        if self.beyond is None:
            return self.born0_s, self.born1_s, self.taken0_s, self.taken1_s
        born0_s, born1_s, taken0_s, taken1_s = self.beyond
        return self.born0_s - born0_s, self.born1_s + born1_s, self.taken0_s - taken0_s, self.taken1_s + taken1_s

    def age_s(self) -> float:
        """Of its tuples where they are on the line, since they were taken; their mean."""
        return (self.a_s + self.b_s - self.taken0_s - self.taken1_s) / 2


def further(
    beyond: tuple[float, float, float, float], born0_s: float, born1_s: float, taken0_s: float, taken1_s: float
) -> tuple[float, float, float, float]:
    """By how much ages reach beyond stamps that were drawn in by so much."""
    return beyond[0] + born0_s, beyond[1] + born1_s, beyond[2] + taken0_s, beyond[3] + taken1_s
