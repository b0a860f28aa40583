"""What a window holds: a history for all that comes, or one an input side."""

from __future__ import annotations

from twin.engine.segment import Segment
from twin.engine.windows.history import History
from twin.engine.windows.state import Piece, State


class Store:
    """`left`: tuples that the last evaluation left, and that wait to be merged; `unseen_mix`: how far segments hide the
    order of the tuples of several sides, and `clumping`, which of them came at once; `shuffled`: the ages of what a
    count window took up last come in any order.
    """

    __slots__ = ("by_side", "clumping", "histories", "left", "shuffled", "unseen_mix")

    def __init__(self, sides: int) -> None:
        self.histories = tuple([History() for _ in range(sides)])
        self.by_side = sides > 1
        self.left = 0.0
        self.unseen_mix = 0.0
        self.clumping = 0.0
        self.shuffled = False

    def copy(self) -> Store:
        """Another one of the same content."""
        other = Store(0)
        other.histories = tuple([history.copy() for history in self.histories])
        other.by_side, other.left, other.unseen_mix = self.by_side, self.left, self.unseen_mix
        other.shuffled, other.clumping = self.shuffled, self.clumping
        return other

    def side(self, segment: Segment) -> History:
        """Where a segment's tuples belong."""
        return self.histories[segment.inbox.side] if self.by_side else self.histories[0]

    def remember(self, segment: Segment, low: float, high: float) -> None:
        """Adds the segment's tuples at the positions (low, high]."""
        stamps = (segment.born0_s, segment.born1_s, segment.taken0_s, segment.taken1_s)
        self.side(segment).add(low, high, segment.n, stamps)

    def remember_any(self, segment: Segment, low: float, high: float) -> None:
        """The same of tuples whose ages may come in any order: they are anywhere among those of all sent with them."""
        self.shuffled = segment.beyond is not None
        self.side(segment).add(low, high, segment.n, segment.ages())

    def correct(self, segment: Segment, low: float, high: float) -> None:
        """Moves the tuples just remembered to where they were really served."""
        self.side(segment).correct_last(low if segment.n > 1 else high, high)

    def forget(self, position: float) -> None:
        """Drops what no later window holds; notes how much is left."""
        for history in self.histories:
            history.forget_until(position)
        self.left = self.held()

    def held(self) -> float:
        """Tuples in it."""
        return sum([history.held() for history in self.histories])

    def held_bytes(self, sizes: list[float]) -> float:
        """Tuples of each history at their own size."""
        return sum([history.held() * size for history, size in zip(self.histories, sizes, strict=True)])

    # on its way to another replica -----------------------------------------------------------------------------------

    def take(self, share: float, origin: float, serving: bool) -> State:
        """Takes that share out; positions count from `origin`. serving: the last pieces are still in service."""
        state, left = State(), []
        for history in self.histories:
            pieces = history.pieces()
            in_service = [pieces.pop()] if serving and pieces else []
            taken, kept = divided(pieces, share)
            state.pieces.append([(low - origin, high - origin, n, stamps) for low, high, n, stamps in taken])
            left.append(history.replaced(kept + in_service))
            state.restarts, state.resumed_s = history.restarts, history.resumed_s
        self.histories = tuple(left)
        self._settle()
        return state

    def give(self, state: State, origin: float, serving: bool) -> None:
        """Merges what another replica held into this."""
        merged = []
        for history, pieces in zip(self.histories, state.pieces, strict=True):
            moved = [(low + origin, high + origin, n, stamps) for low, high, n, stamps in pieces]
            present = history.pieces()
            in_service = [present.pop()] if serving and present else []  # must stay the last
            history.restarts = sorted({*history.restarts, *state.restarts})
            history.resumed_s = max(history.resumed_s, state.resumed_s)
            merged.append(history.replaced(sorted([*present, *moved], key=_end) + in_service))
        self.histories = tuple(merged)
        self._settle()

    def _settle(self) -> None:
        self.left = float(round(self.held()))


def _end(piece: Piece) -> float:
    return piece[1]


def divided(pieces: list[Piece], share: float) -> tuple[list[Piece], list[Piece]]:
    """That share of each piece, and the rest. Tuples stay whole, where segments have not merged them with others."""
    taken: list[Piece] = []
    kept: list[Piece] = []
    seen = given = 0.0
    for low, high, n, stamps in pieces:
        seen += n
        out = min(n, max(0.0, round(share * seen) - given)) if n.is_integer() else n * share
        given += out
        if out:
            taken.append((low, high, out, stamps))
        if n > out:
            kept.append((low, high, n - out, stamps))
    return taken, kept
