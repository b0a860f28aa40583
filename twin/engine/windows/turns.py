"""Sides of a join that always wait: how those are mixed which segments bring in turn.

Where the channels of all sides are full, a tuple that is served lets in another of its own side: the order in the queue
comes again and again, mixed as it was while the channels filled. Segments let in whole segments, so the turns that
sides took once are taken for ever, and of small windows many would hold one side alone. What the order was within turns
is not known: the sides are taken to be mixed evenly over as many tuples as each of them has in its turn.
"""

from __future__ import annotations

from twin.engine.windows.merging import Piece
from twin.engine.windows.state import Stamps

SLOW = 0.1
"""Weight of a turn in the mean length of turns."""


class Turns:
    """Tuples of each side that were served lately: as many as one round of turns has."""

    __slots__ = ("_known", "_lately", "_run", "_side", "_stamps", "_turn")

    def __init__(self, sides: int) -> None:
        self._lately = [0.0] * sides
        self._known = False
        self._stamps: list[Stamps] = [(0.0, 0.0, 0.0, 0.0)] * sides
        self._side = 0
        self._run = 0
        self._turn = 0.0  # tuples, on average

    def take(self, side: int, n: int) -> None:
        """So many tuples of a side are taken up together."""
        if side == self._side:
            self._run += n
            return
        self._turn += SLOW * (self._run - self._turn)
        self._side, self._run = side, n

    def forget(self) -> None:
        """Not all sides wait: their order is known."""
        if self._known:
            self._known = False
            self._lately = [0.0] * len(self._lately)

    def mixed(self, parts: list[tuple[int, Piece]]) -> list[tuple[int, float, Stamps]]:
        """As many tuples as these, of (side, how many, stamps), in the proportions of a whole round."""
        came, before, after = 0.0, 0.0, 0.0
        for _, piece in parts:
            came += piece.n
        for each in self._lately:
            before += each
        round_n = len(self._lately) * self._turn
        keep = max(0.0, round_n - came) / before if before > max(0.0, round_n - came) else 1.0
        lately = [each * keep for each in self._lately]
        for side, piece in parts:
            lately[side] += piece.n
            self._stamps[side] = piece.stamps
        self._known = True
        for each in lately:
            after += each
        self._lately = lately
        return [(side, n * came / after, self._stamps[side]) for side, n in enumerate(lately) if n > 0.0]
