"""What an operator's replica does with its output: it sends it on every stream, and stands still while it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.engine.segment import Segment
from twin.engine.streams.outlet import Outlet

if TYPE_CHECKING:
    from twin.engine.draws import Draws
    from twin.engine.station.setup import Setup
    from twin.engine.streams.channel import Port


class Sender(Outlet):
    """The output side of a task: its ports, and whether one of them is full."""

    __slots__ = (
        "_blocked_since_s",
        "blocked",
        "blocked_s",
        "busy",
        "draws",
        "env",
        "exact",
        "free_s",
        "name",
        "ports",
        "processor",
        "share",
        "tuples_out",
    )

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        self.env = setup.env
        self.name = setup.name
        self.processor = setup.processor
        self.share = self.processor.attach()
        self.draws = setup.draws
        self.exact = setup.exact
        self.ports: list[Port] = []
        self.tuples_out = 0
        self.busy = False
        self.free_s = 0.0  # when, on the axis of the stamps, the last service ended
        self.blocked = 0  # ports that hold a segment back
        self.blocked_s = 0.0
        self._blocked_since_s = 0.0

    def know_ports(self) -> None:
        """What it costs to send a tuple, after any change of its ports."""
        self.send_s = sum([port.send_s for port in self.ports])

    def send(self, segment: Segment) -> None:
        """Sends one segment on every output stream; single tuples each where the run is exact."""
        self.tuples_out += segment.n
        segment.left_s = segment.age_s()
        if self.exact and segment.n > 1:
            for piece in singles(segment, self.draws):
                self._send_copies(piece)
                self.ports[0].send(piece)
            return
        ports = self.ports
        if len(ports) > 1:
            self._send_copies(segment)
        ports[0].send(segment)

    def _send_copies(self, segment: Segment) -> None:
        for port in self.ports[1:]:
            port.send(segment.part(segment.n, 0.0, 1.0))

    def held_back(self, segment: Segment, since_s: float) -> None:
        """A segment that a full channel held back leaves now. Room for its tuples came one by one since `since_s`."""
        now: float = self.env.now
        if segment.b_s < now:
            segment.b_s = now
        if segment.n == 1:
            segment.a_s = segment.b_s
        elif segment.a_s < since_s:
            segment.a_s = since_s

    def block(self) -> None:
        """A port has a segment that its channel cannot take."""
        self.blocked += 1
        if self.blocked == 1:
            self._blocked_since_s = self.env.now
            if self.processor.shared:
                self.processor.block(self.share, True)

    def unblock(self) -> None:
        """A port has sent all it held; with the last of them the task works again."""
        self.blocked -= 1
        if self.blocked:
            return
        now: float = self.env.now
        self.blocked_s += max(0.0, now - self._blocked_since_s)  # evaluating a window may come first
        if self.processor.shared:
            self.processor.block(self.share, False)
        if not self.busy:
            self.free_s = max(self.free_s, now)
            self.resume()

    def resume(self) -> None:
        """Goes on after having been blocked."""
        raise NotImplementedError

    @property
    def blocked_from_s(self) -> float:
        """When the last block began."""
        return self._blocked_since_s

    def blocked_until_now_s(self) -> float:
        """Time spent blocked so far."""
        return self.blocked_s + (max(0.0, self.env.now - self._blocked_since_s) if self.blocked else 0.0)


def singles(segment: Segment, draws: Draws) -> list[Segment]:
    """The segment's tuples one by one, their ages in random order."""
    span_s = segment.b_s - segment.a_s
    pieces = []
    for k in range(segment.n):
        at = draws.uniform()
        piece = segment.part(1, at, at)
        piece.a_s = piece.b_s = segment.a_s + span_s * (k + 0.5) / segment.n
        piece.left_s = piece.age_s()
        pieces.append(piece)
    return pieces
