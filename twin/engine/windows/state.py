"""What windows hold, on its way from one replica to another."""

from __future__ import annotations

from dataclasses import dataclass, field

Stamps = tuple[float, float, float, float]
"""Of the first and last tuple of a piece: born0, born1, taken0, taken1."""
Piece = tuple[float, float, float, Stamps]
"""Low and high position, tuples, stamps."""


@dataclass(slots=True)
class State:
    """Window contents; one list a history. Positions that count a replica's tuples are relative to what it has seen."""

    pieces: list[list[Piece]] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)  # of the job, of which a replica that came later knows nothing
    resumed_s: float = 0.0

    @property
    def tuples(self) -> float:
        """Tuples in it."""
        return sum([piece[2] for pieces in self.pieces for piece in pieces])
