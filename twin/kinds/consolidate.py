"""Consolidates: complete windows from partial results, or from shorter complete windows (Enorm, Sections 4.2, 6.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from twin.kinds.ages import HeldRecords, event_ages_s
from twin.kinds.flow import MIXED, Flow, KeySpread, Mixing
from twin.kinds.mechanism import Consolidating
from twin.kinds.windowed import EventTimed
from twin.windows import US_PER_S, EventWindow


class Consolidate(EventTimed):
    """Merges the partial results of a key, and emits `results_per_key` records for each key and complete window.

    Input records are partial results, one key each. merge_time_s: CPU seconds for each key of a piece that goes into a
    window, beside the service of each partial result.
    """

    merges: ClassVar[bool] = True
    does: ClassVar[str] = "merges partial results into complete windows"
    costs_like: ClassVar[str] = "map"

    kind: Literal["consolidate"] = "consolidate"
    windows: Annotated[tuple[EventWindow, ...], Field(min_length=1, description="complete windows that it forms")]
    merge_time_s: Annotated[float, Field(ge=0, le=10**4, description="CPU seconds a key of each piece of a window")] = (
        0.0
    )
    combined: Annotated[bool, Field(description="one component with its compute: key groups of both stay together")] = (
        False
    )
    results_per_key: Annotated[float, Field(ge=0, le=1000, description="records emitted a key of a window")] = 1.0

    @property
    def event_windows(self) -> tuple[EventWindow, ...]:
        """Complete windows that it forms."""
        return self.windows

    @property
    def hands_over(self) -> str:
        """Kind of output: complete windows."""
        return "windows"

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the consolidate: results for the keys in each window, whose partial results are of the given
        length, or else of the longest that its windows allow."""
        total, _, burst_s = mixing.arriving(inputs, bursts)
        keys = self.spread(mixing)
        each = [keys.distinct(came, 1.0) for came in self._records(total, max(mixing.pieces_s, default=0.0), keys)]
        a_second = [US_PER_S / window.every_us for window in self.windows]
        out = self.results_per_key * np.sum([seen * fires for seen, fires in zip(each, a_second, strict=True)], axis=0)
        fires = np.where(total > 0, sum(a_second), 0.0)
        held = total * max(window.length_us for window in self.windows) / US_PER_S
        groups = np.divide(out, fires, out=np.zeros_like(out), where=fires > 0)
        return Flow(inputs, total, out, held, fires, groups, fires, burst_s)

    @property
    def _pane_us(self) -> int:
        """Length of the longest pieces that make up all of its windows."""
        return math.gcd(*(us for window in self.windows for us in (window.length_us, window.every_us)))

    def _records(self, partials_per_s: np.ndarray, piece_s: float, keys: KeySpread) -> list[np.ndarray]:
        """Expected records in each window, from `partials_per_s` partial results of `piece_s` seconds. By window [N]"""
        piece_us = piece_s * US_PER_S or self._pane_us
        seen = np.minimum(partials_per_s * piece_us / US_PER_S, self.keys * (1.0 - 1e-9))  # keys in a piece
        of_piece = keys.content(seen)
        return [of_piece * (window.length_us / piece_us) for window in self.windows]

    def ages_s(self, arriving: np.ndarray, mixed: np.ndarray, held: HeldRecords) -> np.ndarray:
        """Ages of the results: older by a key's oldest record in its window, as partial results have not aged yet. [3,
        N]"""
        per_key = [each / self.keys for each in self._records(held.in_per_s, held.piece_s, self.spread(MIXED))]
        return np.asarray(arriving.max(axis=1) + event_ages_s(self.windows, per_key, held.disorder))

    @property
    def mechanism(self) -> Consolidating:
        """Consolidating with the operator's windows, costs and size of state."""
        return Consolidating(
            self.windows, self.merge_time_s, self.results_per_key, self.state_bytes_per_key, self.combined
        )
