"""Buffer debloating, as in Flink: what is on the way to a subtask is no more than it takes in a given time, so that
aligned barriers get through soon.

Flink makes buffers smaller; here, the channels of a gate hold fewer records. Both have the same part of their full
size, by the same rule (BufferDebloater and BufferSizeEMA, `flink-runtime`).
"""

from __future__ import annotations

from collections.abc import Generator
from statistics import fmean
from typing import TYPE_CHECKING

import simpy

from twin.world.parts import Pool
from twin.world.ports import UNBOUNDED, Channel, Inbox

if TYPE_CHECKING:
    from twin.profiles import BufferDebloat
    from twin.world.world import World


class Debloater:
    """Debloater of one input of a subtask. least: smallest part of the room of its channels.

    per_s: records that the subtask takes a second while it is not idle. part: moving average of the part of the room
    that it needs; told: what the channels know of it. seen: records taken so far, by channel; active_s: seconds that
    the subtask was not idle.
    """

    def __init__(self, inbox: Inbox, law: BufferDebloat, least: float) -> None:
        self.inbox, self.law, self.least = inbox, law, least
        self.per_s = self.active_s = 0.0
        self.part = self.told = 1.0
        self.seen: dict[Channel, int] = {}

    def look(self, channels: list[Channel]) -> None:
        """Sets the limits of the channels that there are, by what was taken since the last look."""
        self._measure(channels)
        law, needed = self.law, self.per_s * self.law.target_s / self.inbox.room
        if self.per_s:
            self.part += 2.0 / (law.samples + 1.0) * (min(needed, 2.0 * self.part) - self.part)
            self.part = min(max(self.part, self.least), 1.0)
        differs = abs(self.part - self.told) >= law.threshold_percentages / 100.0 * self.told
        if differs or self.part in (self.least, 1.0):
            self.told = self.part
        filled = sum([channel.written > channel.taken for channel in channels])
        each = max(1, round(self.told * self.inbox.room / max(filled, 1)))
        self.inbox.limit = UNBOUNDED if self.told == 1.0 else each
        for channel in channels:
            channel.limit = self.inbox.limit
            channel.sender.go_on()

    def _measure(self, channels: list[Channel]) -> None:
        """Measures how fast the subtask is, if it took anything. A channel that was emptied counts from 0 again."""
        before, self.seen = self.seen, {channel: channel.taken for channel in channels}
        came = sum([now - (then if (then := before.get(each, 0)) <= now else 0) for each, now in self.seen.items()])
        receiver = self.inbox.task
        takers = receiver.members if isinstance(receiver, Pool) else [receiver]
        active_s = fmean([each.busy_until_now_s() + each.output.blocked_until_now_s() for each in takers])
        spent_s, self.active_s = min(active_s - self.active_s, self.law.period_s), active_s
        if came and spent_s > 0.0:
            self.per_s = came / spent_s


def debloating(world: World, law: BufferDebloat) -> Generator[simpy.Event, None, None]:
    """Looks at all channels of a run once a period."""
    engine, debloaters = world.engine, dict[Inbox, Debloater]()
    while True:
        yield world.env.timeout(law.period_s)
        channels = dict[Inbox, list[Channel]]()
        for port in [port for task in world.every_task() for port in task.ports]:
            for channel in port.channels.values():
                channels.setdefault(channel.receiver, []).append(channel)
        for inbox, each in channels.items():
            if inbox not in debloaters:
                least = law.least(engine.buffer_bytes, engine.batch_of(inbox.record_bytes))
                debloaters[inbox] = Debloater(inbox, law, float(least))
            debloaters[inbox].look(each)
