"""Handover of records, which are items in the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ctypes import c_int64, string_at
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from twin.engine.record import Record
from twin.engine.streams.buffers import BufferedChannel
from twin.engine.streams.channel import Inbox
from twin.engine.streams.network import Leg
from twin.kernel import layout as k
from twin.kernel.arena import CHANNEL, addresses, packing, view

if TYPE_CHECKING:
    from twin.kernel.lower import Lowered


FIELDS = packing(k.ITEM)


def lower_items(low: Lowered, records: Sequence[Record], paths: Sequence[int]) -> list[int]:
    """Makes a list of items of records that have come by these paths, or will go by them. Returns their addresses."""
    if not records:
        return []
    rows = low.arena.make(k.ITEM, len(records))
    for field in ("key", "born_s", "taken_s", "left_s", "at_s"):
        rows[field] = [getattr(each, field) for each in records]
    rows["path"] = paths
    rows["sender"] = [low.here.get(id(each.sender), 0) for each in records]
    found = addresses(rows)
    rows["next"][:-1] = found[1:]
    return found


def arrived(low: Lowered, records: Sequence[Record]) -> list[int]:
    """Makes items of records that are in inboxes, or were, or never were in any. Returns their addresses."""
    inboxes = [each.inbox for each in records]
    paths = [
        gone(low, inbox, each) if isinstance(inbox, Inbox) else 0 for inbox, each in zip(inboxes, records, strict=True)
    ]
    return lower_items(low, records, paths)


def gone(low: Lowered, inbox: Inbox, record: Record) -> int:
    """Address of a path that a record has left behind it."""
    key = id(inbox), id(record.channel), record.fetch_s
    if key not in low.gone_paths:
        low.gone_paths[key] = low.arena.add(k.PATH, **arrive_at(low, inbox, record.channel, record.fetch_s))
    return low.gone_paths[key]


def arrive_at(low: Lowered, inbox: Inbox, by: BufferedChannel | None, fetch_s: float) -> dict[str, float]:
    """Fields of a path's end."""
    there = 0 if by is None else channel(low, by)
    return {"inbox": low.here[id(inbox)], "counts": low.here[id(inbox.counts)], "channel": there, "fetch_s": fetch_s}


def channel(low: Lowered, channel: BufferedChannel) -> int:
    """Address of the structure of a channel, without the records that wait for its gate."""
    if id(channel) not in low.here:
        row = low.make(k.CHANNEL, [channel], held=CHANNEL)[0]
        row["port"], row["remote"], row["waits"] = low.here[id(channel.port)], channel.remote, channel.waits
        row["inbox"] = low.here.get(id(channel.inbox), 0)
        low.channels.append((channel, row))
    return low.here[id(channel)]


def ends(items: Sequence[int]) -> tuple[int, int]:
    """First and last address of a list; (0, 0) if it is empty."""
    return (items[0], items[-1]) if items else (0, 0)


def link(layout: np.dtype[Any], structures: Sequence[int], field: str) -> tuple[int, int]:
    """Links structures into a list, in which each holds the next in `field`. Returns the list's ends."""
    for one, following in pairwise(structures):
        view(layout, one)[field] = following
    return ends(structures)


def record(low: Lowered, here: int) -> Record:
    """Makes the record of an item, with the inbox, or the hop that stands for it, that it has come to or goes to."""
    _, key, path, sender, _, _, _, born_s, taken_s, left_s, at_s, *_ = FIELDS.unpack(string_at(here, FIELDS.size))
    made = Record(born_s, taken_s, at_s)
    made.left_s, made.key, made.sender = left_s, key, low.object_at.get(sender)
    if path:
        if path not in low.stops:
            low.stops[path] = _stop(low, path)
        made.inbox, made.channel, made.fetch_s = low.stops[path]
    return made


def _stop(low: Lowered, path: int) -> tuple[Inbox | Leg, BufferedChannel | None, float]:
    """Inbox or hop at the end of a path or of a hop, with the path's channel and fetch cost."""
    inbox = None
    if path in low.leg_addresses:
        inbox, path = low.object_at[path].inbox, int(view(k.LEG, path)["path"])
    row = view(k.PATH, path)
    return inbox or low.object_at[int(row["inbox"])], low.object_at.get(int(row["channel"])), float(row["fetch_s"])


def chain(here: Any, link: int = k.NEXT) -> Iterator[int]:
    """Addresses in a list. link: offset at which its structures hold the next address; by default that of items."""
    here = int(here)
    while here:
        yield here
        here = c_int64.from_address(here + link).value
