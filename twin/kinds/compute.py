"""Computes and consolidates over event time, by which complete windows are made of partial results (Enorm, Sections
4.2, 4.3 and 6.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.kinds.flow import MIXED, Columns, Flow, HeldRecords, KeySpread, Mixing, event_ages_s
from twin.kinds.mechanism import Computing, Consolidating
from twin.kinds.windowed import EventTimed, LateTo
from twin.windows import US_PER_S, EventWindow, Seconds, panes_of

# computes ------------------------------------------------------------------------------------------------------------
# They keep state by key over event time, made at once, which consolidates merge (Enorm, Sections 4.2 and 4.3).


Sharing = Literal["auto", "panes", "windows"]


class Compute(LateTo, EventTimed):
    """Builds state by key from each record at once. Its configuration decides what it hands over (Enorm, Fig. 5).

    With `partial_s`, it hands over partial results of panes of that length, which consolidates merge (5.1): one state a
    pane, or one for each window (`sharing`; auto: the form that the cost model finds cheaper, compared again as the run
    goes on). With `windows`, it hands over a result for each key and complete window, at its end (5.2). With neither,
    it hands over every record at once (5.4). execute_time_s: the user's logic, which is executed once for each state
    that a record belongs to.
    """

    does: ClassVar[str] = "keeps state by key over event time"
    costs_like: ClassVar[str] = "aggregate"

    kind: Literal["compute"] = "compute"
    partial_s: Annotated[Seconds | None, Field(description="length of the partial windows that it hands over")] = None
    windows: Annotated[tuple[EventWindow, ...], Field(description="complete windows that it emits")] = ()
    sharing: Annotated[Sharing, Field(description="a state a pane or a window; auto: the cheaper")] = "auto"
    execute_time_s: Annotated[
        float,
        Field(ge=0, le=10**4, description="CPU seconds of the user's logic a record and state, beside its service"),
    ] = 0.0

    @model_validator(mode="after")
    def _check_form(self) -> Self:
        if self.partial_s is not None and self.windows:
            raise ValueError(
                f"{self.name!r} has partial_s and windows; give partial_s for consolidates to merge, or windows"
            )
        if self.late_to is not None and not self.windows:
            raise ValueError(f"{self.name!r} has late_to but no windows, so no record can be late; give it windows")
        if self.sharing != "auto" and self.partial_s is None:
            raise ValueError(f"{self.name!r} has sharing without partial_s; only partial windows can be shared")
        return self

    @property
    def event_windows(self) -> tuple[EventWindow, ...]:
        """Complete windows that it emits."""
        return self.windows

    @property
    def hands_over(self) -> str:
        """Kind of output: partial results, complete windows, or records."""
        if self.partial_s is not None:
            return "partials"
        return "windows" if self.windows else "records"

    @property
    def piece_s(self) -> float:
        """Length of the partial results that it hands over, in seconds; 0 if it hands over none."""
        return self.partial_s or 0.0

    @property
    def entry_bytes(self) -> float | None:
        """Size of the state of a key in a pane; None if it keeps none."""
        return None if self.hands_over == "records" else self.state_bytes_per_key

    @property
    def if_unlike(self) -> str:
        """Effect of unlike keys that the law misses, in words."""
        older = f"that results of frequent keys of {self.name} are older, and those of rare keys younger"
        return "" if self.hands_over == "records" else older

    @property
    def one_to_one(self) -> bool:
        """Whether each record leaves as one, at once: it keeps no window."""
        return self.hands_over == "records"

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """Columns of the output: those of the input records, or a key and its value."""
        eager = self.hands_over == "records"
        return super(EventTimed, self).columns_out(inputs) if eager else super().columns_out(inputs)

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the compute: a result for each key and pane, or window; in any form, as a rate a second."""
        if self.hands_over == "records":
            return super().through(inputs, bursts, mixing)
        total, together, burst_s = mixing.arriving(inputs, bursts)
        spans = self.windows or (EventWindow(length_s=self.partial_s or 1.0),)
        fires = sum(US_PER_S / each.every_us for each in spans)
        keys = self.spread(mixing)
        each = [
            keys.distinct(total * window.length_us / US_PER_S, 1.0) * US_PER_S / window.every_us for window in spans
        ]
        out = np.sum(each, axis=0)
        often = np.where(total > 0, fires, 0.0)
        pane_us = panes_of(spans).length_us
        held = max(window.length_us for window in spans) / pane_us * keys.distinct(total * pane_us / US_PER_S, 1.0)
        groups = np.divide(out, often, out=np.zeros_like(out), where=often > 0)
        return Flow(inputs, total, out, held, often, groups, np.minimum(often, together), burst_s)

    def ages_s(self, arriving: np.ndarray, mixed: np.ndarray, held: HeldRecords) -> np.ndarray:
        """Ages of the results: of complete windows, older by a key's oldest record; partial ones age at their merge.
        [3, N]"""
        if not self.windows:
            return mixed
        a_second = held.in_per_s / self.keys
        per_key = [a_second * each.length_us / US_PER_S for each in self.windows]
        return np.asarray(arriving.max(axis=1) + event_ages_s(self.windows, per_key, held.disorder))

    @property
    def mechanism(self) -> Computing:
        """Computing with the operator's windows, form, costs and size of state."""
        return Computing(
            self.partial_s, self.windows, self.sharing, self.execute_time_s, self.state_bytes_per_key, self.late_to
        )


# consolidates --------------------------------------------------------------------------------------------------------
# They make complete windows from partial results, or from shorter complete windows (Enorm, Sections 4.2, 6.1).


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
