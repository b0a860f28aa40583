"""Costs of compute and consolidate as one component or as two, with panes or with a state for each window.

Enorm, Section 5.1.1, compares two forms: split with panes, and combined with a state for each window. But its own job
of Section 7 is combined with panes. Split or combined, and panes or states, are two questions, so there are four forms.
Receiving a record costs the same in all of them and is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, NamedTuple, Self

from pydantic import Field, model_validator

from twin.job import Job
from twin.query import AnyOperator, merged_windows, partial_panes
from twin.spec import Spec
from twin.windows import US_PER_S, EventWindow, Panes, Span, ending, expected_keys, formations

Positive = Annotated[float, Field(gt=0, le=10**18)]
Amount = Annotated[float, Field(ge=0, le=10**18)]


class WindowForm(StrEnum):
    """Form of a compute and its consolidate. combined: one component. split: the consolidate is another. panes: one
    state a pane. windows: one a window."""

    COMBINED_PANES = "combined, panes"
    SPLIT_PANES = "split, panes"
    COMBINED_WINDOWS = "combined, windows"
    SPLIT_WINDOWS = "split, windows"

    @property
    def is_split(self) -> bool:
        """Whether partial results are sent; only then can key groups move without their state."""
        return self in (WindowForm.SPLIT_PANES, WindowForm.SPLIT_WINDOWS)


class Period(Spec):
    """Work of a compute and its consolidate in a period, such as the longest window, all instances together.

    records: n. overlap: windows that a record is in, W. panes: P. pane_keys: keys in a pane, k. window_keys: keys in
    the state of one window. merged_keys: M, merged to complete windows from panes. result_keys: R, in all complete
    windows.
    groups: key groups, g. migrations: of key groups, MK.
    """

    records: Amount
    overlap: Annotated[float, Field(ge=1)]
    panes: Positive
    pane_keys: Amount
    window_keys: Amount
    merged_keys: Amount
    result_keys: Amount
    groups: Annotated[int, Field(ge=1)]
    migrations: Amount = 0.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.window_keys < self.pane_keys:
            raise ValueError(f"window_keys must be >= pane_keys ({self.pane_keys:g}), got {self.window_keys:g}")
        return self


class UnitCosts(Spec):
    """Unit costs in CPU seconds. execute_s: of the user's logic for a record, E. ship_s: to serialise, send and
    deserialise a key of a result. merge_s: to merge one. pause_s: L, for which the records of a key group wait while
    its state moves."""

    execute_s: Amount
    ship_s: Amount
    merge_s: Amount
    pause_s: Amount


class Cost(NamedTuple):
    """Cost of a form: CPU seconds in a period, and seconds for which migrations make records wait."""

    cpu_s: float
    paused_s: float


def cost(form: WindowForm, period: Period, costs: UnitCosts) -> Cost:
    """Cost of a form. Combined, the state of a key group moves with it, while its records wait. Split, it stays, and
    there is one more partial result to send and merge."""
    match form:
        case WindowForm.COMBINED_PANES | WindowForm.SPLIT_PANES:
            once_s = period.records * costs.execute_s + period.merged_keys * costs.merge_s
            sent_keys, state_keys, extra_keys = (
                period.panes * period.pane_keys,
                (period.panes + 1) * period.pane_keys,
                period.pane_keys,
            )
        case _:
            once_s = period.records * period.overlap * costs.execute_s
            sent_keys, state_keys = period.result_keys, period.overlap * period.window_keys
            extra_keys = state_keys
    moved = period.migrations / period.groups
    if form.is_split:
        return Cost(once_s + sent_keys * costs.ship_s + moved * extra_keys * (costs.ship_s + costs.merge_s), 0.0)
    return Cost(once_s + moved * state_keys * costs.ship_s, period.migrations * costs.pause_s)


def period_of(
    windows: Sequence[EventWindow],
    panes: Panes,
    records_per_s: float,
    keys: float,
    groups: int,
    migrations: float = 0.0,
) -> Period:
    """Period as long as the longest window, if keys come at random. windows: at least one.

    migrations: of key groups, in that time. Merged keys are those of the cheapest formations (Section 6.1).
    """
    longest_us = max(window.length_us for window in windows)
    count, a_pane = longest_us // panes.length_us, records_per_s * panes.length_us / US_PER_S
    in_span = expected_keys(keys, a_pane)
    formed = formations(lambda pane: ending(windows, panes, pane), 0, 2 * count, count, in_span)
    merged = sum(each.keys for each in formed if each.window.end > count and len(each.pieces) > 1)
    results = [longest_us / each.every_us * in_span(panes_long(each, panes)) for each in windows]
    a_window = max(in_span(panes_long(each, panes)) for each in windows)
    return Period(
        records=records_per_s * longest_us / US_PER_S,
        overlap=overlap(windows),
        panes=count,
        pane_keys=in_span(Span(0, 1)),
        window_keys=a_window,
        merged_keys=merged,
        result_keys=sum(results),
        groups=groups,
        migrations=migrations,
    )


def panes_long(window: EventWindow, panes: Panes) -> Span:
    """Span of an instance of a window in panes."""
    return Span(0, window.length_us // panes.length_us)


def period_of_job(job: Job, name: str, records_per_s: float, migrations: float = 0.0) -> Period:
    """Period of a compute as long as its longest window, at that rate. migrations: of key groups in it."""
    operator = job.query.operator(name)
    windows, panes = merged_windows(job.query, name), partial_panes(job.query, name)
    keys, groups = getattr(operator, "keys", 1), getattr(operator, "key_groups", 1)
    return period_of(windows, panes, records_per_s, keys, groups, migrations)


def executed_s(job: Job, operator: AnyOperator) -> float:
    """CPU seconds of the user's logic for a record, in all states that it belongs to. `auto` begins by panes."""
    execute_s: float = getattr(operator, "execute_time_s", 0.0)
    if execute_s and getattr(operator, "sharing", "") == "windows":
        return execute_s * overlap(merged_windows(job.query, operator.name))
    return execute_s


def overlap(windows: Sequence[EventWindow]) -> float:
    """Mean number of instances of the windows that a record belongs to."""
    return sum(window.length_us / window.every_us for window in windows)


def unit_costs(job: Job, name: str, period: Period) -> UnitCosts:
    """Unit costs of a compute's logic; of sending a result to another host and merging it there; and of the pause of a
    key group of one component, in which its state crosses the slowest network card."""
    engine, operator = job.engine, job.query.operator(name)
    byte_s = (engine.serialise_ns_per_byte + engine.deserialise_ns_per_byte) * 1e-9
    behind = [job.component(stream.consumer) for stream in job.query.outputs(name)]
    received_s = sum(each.service_s for each in behind) / len(behind)
    made_s = engine.result_us * 1e-6 if operator.service_time_s is None else 0.0
    wire_s = 8e-6 / min(host.bandwidth_mbps for host in job.deployment.cluster.hosts)
    state_bytes = (period.panes + 1) * period.pane_keys / period.groups * getattr(operator, "state_bytes_per_key", 0.0)
    return UnitCosts(
        execute_s=getattr(operator, "execute_time_s", 0.0),
        ship_s=engine.output_bytes(job.query, name) * byte_s + received_s + made_s,
        merge_s=max(getattr(each.operator, "merge_time_s", 0.0) for each in behind),
        pause_s=state_bytes * (byte_s + wire_s),
    )
