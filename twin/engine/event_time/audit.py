"""What a run notes of each record with event time, so that windows can be checked against all that came."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twin.engine.event_time.content import Content
    from twin.event_windows.instances import Span


@dataclass(slots=True)
class History:
    """What was noted of all operators, and how far their replicas were. What a failure undoes was one, too."""

    audits: dict[str, Audit]
    far_us: dict[str, list[float]]

    def copy(self) -> History:
        """What is noted so far."""
        return History({name: audit.copy() for name, audit in self.audits.items()}, self.far_us)


@dataclass(slots=True)
class Audit:
    """Of one operator. came: event time, key and digest of each tuple that was sent to it, once however many copies.

    kept, late: digests of those that it took, and that it dropped; a tuple that was sent to two owners can be both.
    emitted: start and end of a window, key, tuples in it and their digests together. keys: by digest, of tuples that
    will be the same when they are read again.
    """

    came: list[tuple[int, int, int]] = field(default_factory=list)
    kept: set[int] = field(default_factory=set)
    late: set[int] = field(default_factory=set)
    emitted: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    keys: dict[int, int] = field(default_factory=dict)

    def emit(self, span: Span, content: Content) -> None:
        """A window is complete."""
        for key, found in content.held.items():
            self.emitted.append((span.start, span.end, key, found[0], found[1]))

    def copy(self) -> Audit:
        """What is noted so far."""
        return Audit(self.came.copy(), self.kept.copy(), self.late.copy(), self.emitted.copy(), self.keys)

    def become(self, kept: Audit) -> None:
        """Goes back to that."""
        again = kept.copy()
        self.came, self.kept, self.late, self.emitted = again.came, again.kept, again.late, again.emitted
