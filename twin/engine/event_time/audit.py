"""What a run notes of tuples with event time, so that each window can be checked against all that came: an exact run
notes every tuple, a fast one how many there are."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class History:
    """What was noted of all operators, and how far their replicas were. What a failure undoes was one, too."""

    audits: dict[str, Audit]
    tallies: dict[str, Tally]
    far_us: dict[str, list[float]]


@dataclass(slots=True)
class Audit:
    """Of one operator. came: event time, key and digest of each tuple that was sent to it, once however many copies.

    taken: digests of those that it took; kept, late: of those that went into its state, and that it dropped; a tuple
    that was sent to two owners can be both. emitted: start and end of a window, key, tuples in it and their digests
    together. keys: by digest, of tuples that will be the same when they are read again.
    """

    came: list[tuple[int, int, int]] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)
    kept: set[int] = field(default_factory=set)
    late: set[int] = field(default_factory=set)
    emitted: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    keys: dict[int, int] = field(default_factory=dict)

    def copy(self) -> Audit:
        """What is noted so far."""
        taken, kept, late = self.taken.copy(), self.kept.copy(), self.late.copy()
        return Audit(self.came.copy(), taken, kept, late, self.emitted.copy(), self.keys)

    def become(self, kept: Audit) -> None:
        """Goes back to that."""
        again = kept.copy()
        self.came, self.taken, self.kept, self.late = again.came, again.taken, again.kept, again.late
        self.emitted = again.emitted


@dataclass(slots=True)
class Tally:
    """Of one operator in a fast run. came: by event time in microseconds, the tuples that were sent to it, once however
    many copies; late: of these, those that it dropped. emitted: by start and end of a window, tuples in it, over all
    replicas."""

    came: dict[int, int] = field(default_factory=dict)
    late: dict[int, int] = field(default_factory=dict)
    emitted: dict[tuple[int, int], float] = field(default_factory=dict)

    def copy(self) -> Tally:
        """What is noted so far."""
        return Tally(self.came.copy(), self.late.copy(), self.emitted.copy())

    def become(self, kept: Tally) -> None:
        """Goes back to that."""
        again = kept.copy()
        self.came, self.late, self.emitted = again.came, again.late, again.emitted

    def arrive(self, at_us: int, n: int) -> None:
        """So many are sent to it."""
        self.came[at_us] = self.came.get(at_us, 0) + n

    def drop(self, at_us: int, n: int) -> None:
        """So many are too late."""
        self.late[at_us] = self.late.get(at_us, 0) + n

    def emit(self, start_us: int, end_us: int, tuples: float) -> None:
        """A replica emits a window."""
        window = start_us, end_us
        self.emitted[window] = self.emitted.get(window, 0.0) + tuples
