"""Computes: eager state by key over event time, which consolidates merge (Enorm, Sections 4.2 and 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.columns import Columns
from twin.kinds.ages import HeldRecords, event_ages_s
from twin.kinds.flow import Flow, Mixing
from twin.kinds.mechanism import Computing
from twin.kinds.windowed import EventTimed, LateTo
from twin.windows import EventWindow, Seconds, panes_of

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
        fires = sum(1e6 / each.every_us for each in spans)
        keys = self.spread(mixing)
        each = [keys.distinct(total * window.length_us / 1e6, 1.0) * 1e6 / window.every_us for window in spans]
        out = np.sum(each, axis=0)
        often = np.where(total > 0, fires, 0.0)
        pane_us = panes_of(spans).length_us
        held = max(window.length_us for window in spans) / pane_us * keys.distinct(total * pane_us / 1e6, 1.0)
        groups = np.divide(out, often, out=np.zeros_like(out), where=often > 0)
        return Flow(inputs, total, out, held, often, groups, np.minimum(often, together), burst_s)

    def ages_s(self, arriving: np.ndarray, mixed: np.ndarray, held: HeldRecords) -> np.ndarray:
        """Ages of the results: of complete windows, older by a key's oldest record; partial ones age at their merge.
        [3, N]"""
        if not self.windows:
            return mixed
        a_second = held.in_per_s / self.keys
        per_key = [a_second * each.length_us / 1e6 for each in self.windows]
        return np.asarray(arriving.max(axis=1) + event_ages_s(self.windows, per_key, held.disorder))

    @property
    def mechanism(self) -> Computing:
        """Computing with the operator's windows, form, costs and size of state."""
        return Computing(
            self.partial_s, self.windows, self.sharing, self.execute_time_s, self.state_bytes_per_key, self.late_to
        )
