"""Mechanisms: which logic does what an operator says of itself. Kinds that do the same share one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from twin.engine.logic import Logic
from twin.engine.logics.select import SelectLogic
from twin.engine.logics.sink import SinkLogic
from twin.engine.logics.source import ReplayableSource, SourceLogic
from twin.engine.windows.aggregate import GroupCombiner
from twin.engine.windows.boundaries import TimeTrigger
from twin.engine.windows.extent import extent_of
from twin.engine.windows.join import MatchCombiner
from twin.engine.windows.merged import MergedTrigger
from twin.engine.windows.store import Store
from twin.engine.windows.trigger import CountTrigger
from twin.engine.windows.window import WindowLogic
from twin.job import Component
from twin.keys import groups_of
from twin.kinds.mechanism import Collecting, Grouping, Matching, Reading, Selecting

if TYPE_CHECKING:
    from twin.wiring.wiring import Wiring


class Making(NamedTuple):
    """A replica of a component that is to be made."""

    wiring: Wiring
    component: Component
    replica: int


def _reading(making: Making, _: Reading) -> Logic:
    return ReplayableSource() if making.wiring.replayable else SourceLogic()


def _selecting(_: Making, does: Selecting) -> Logic:
    return SelectLogic(does.selectivity, does.thins)


def _grouping(making: Making, does: Grouping) -> Logic:
    each = making.component
    extent, store = extent_of(does.window), Store(1)
    groups = max(1, groups_of(does.groups, making.replica, each.replicas))
    trigger = TimeTrigger(extent, store) if extent.by_time else CountTrigger(extent, store)
    return WindowLogic(trigger, GroupCombiner(extent, store, each.scan_s, each.result_s, groups))


def _matching(making: Making, does: Matching) -> Logic:
    each = making.component
    ways = [edge.how for edge in making.wiring.job.inputs(each.name)]
    extent, store = extent_of(does.window), Store(len(ways))
    combiner = MatchCombiner(
        extent,
        store,
        each.scan_s,
        each.result_s,
        keyed=sum(not way.whole for way in ways),
        selectivity=does.selectivity,
        amplification=does.amplification,
        share=1.0 / each.replicas,  # key groups, if there are any, will know better
    )
    if extent.by_time:
        return WindowLogic(TimeTrigger(extent, store), combiner)
    counting = CountTrigger if making.wiring.exact else MergedTrigger
    return WindowLogic(counting(extent, store), combiner)


def _collecting(_: Making, __: Collecting) -> Logic:
    return SinkLogic()


MECHANISMS: Mapping[type, Callable[[Making, Any], Logic]] = {
    Reading: _reading,
    Selecting: _selecting,
    Grouping: _grouping,
    Matching: _matching,
    Collecting: _collecting,
}


def made(making: Making) -> Logic:
    """The logic that does it."""
    does = making.component.operator.mechanism
    return MECHANISMS[type(does)](making, does)
