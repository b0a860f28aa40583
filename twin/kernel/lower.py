"""Lowering: from the engine's objects to the kernel's structures, with all that is under way, to the last bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from twin.engine.calendar import Alarm
from twin.engine.draws import BLOCK, Draws
from twin.engine.keys.groups import KeyGroups
from twin.engine.logic import Logic
from twin.engine.logics.remember import RememberLogic
from twin.engine.station.task import Task
from twin.engine.streams.buffers import BufferedChannel
from twin.engine.streams.channel import Inbox
from twin.engine.streams.network import Jitter, Leg, Nic
from twin.engine.windows.content import Content
from twin.engine.windows.session import SessionLogic
from twin.kernel import arena
from twin.kernel import layout as k
from twin.kernel.handover.calendar import lower_calendar
from twin.kernel.handover.channels import lower_cards, lower_ports
from twin.kernel.handover.logics import lower_sinks
from twin.kernel.handover.stations import lower_brokers, lower_pools, lower_queues, lower_tasks
from twin.wiring.world import World


class Lowered:
    """One world as structures. here: address of the structure of an object, by its identity. object_at: the reverse.

    blocks: arrays that grow or are drawn anew, by owner and field. pending: slots, by the identity of the engine's
    alarm. wires: lanes, by receiver, card and latency. flying: lanes whose arrivals are events. gone_paths: paths that
    records have left behind, by inbox, channel and fetch cost. channels: buffered channels, with their structures.
    others: items under way on cards and links that are not the kernel's, such as state. stops: by path, its inbox or
    hop, its channel, and its fetch cost. filled: columns that are written back on every request. held: columns that are
    written back at the end. error: the error that Python raised while the kernel ran.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.arena = arena.Arena()
        self.state = self.arena.make(k.STATE, 1)
        self.here: dict[int, int] = {}
        self.object_at: dict[int, Any] = {}
        self.slots: list[tuple[int, int]] = []
        self.pending: dict[int, int] = {}
        self.blocks: dict[tuple[int, str], np.ndarray] = {}
        self.wires: dict[tuple[int, int, float], int] = {}
        self.flying: list[Any] = []
        self.gone_paths: dict[tuple[int, int, float], int] = {}
        self.channels: list[tuple[BufferedChannel, Any]] = []
        self.others = Counter[Nic]()
        self.stops: dict[int, tuple[Inbox | Leg, BufferedChannel | None, float]] = {}
        self.error: BaseException | None = None
        self.times: np.ndarray = np.zeros(0)
        self.orders = self.kinds = self.owners = np.zeros(0, np.int64)
        self.filled: list[tuple[np.ndarray, Sequence[Any], arena.Names]] = []
        self.held: list[tuple[np.ndarray, Sequence[Any], arena.Names]] = []
        self._components()
        for lower in (lower_cards, lower_ports, lower_sinks, lower_tasks, lower_pools, lower_brokers, lower_queues):
            lower(self)
        lower_calendar(self)

    def _components(self) -> None:
        world = self.world
        self.tasks = world.every_task()
        self.task_rows = self.make(k.TASK, self.tasks, arena.TASK)
        self.columns(self.task_rows, [task.output for task in self.tasks], arena.OUTPUT)
        self.pools = list(world.pools.values())
        self.pool_rows = self.make(k.POOL, self.pools, held="turn")
        self.ports = [port for task in self.tasks for port in task.ports]
        self.port_rows = self.make(k.PORT, self.ports, arena.PORT)
        inboxes = [inbox for made in world.streams.values() for inbox in made.inboxes]
        self.inboxes = [inbox for inbox in inboxes if id(inbox.task) in self.here]  # inboxes of present receivers
        self.inbox_rows = self.make(k.INBOX, self.inboxes, arena.INBOX)
        self.stream_counts = [made.counts for made in world.streams.values()]
        self.stream_count_rows = self.make(k.COUNTS, self.stream_counts, arena.COUNTS)
        self.cards = [*world.nics.values(), *world.links.values()]
        self.card_rows = self.make(k.CARD, self.cards, arena.CARD)
        self.processors = list(world.processors.values())
        self.processor_rows = self.make(k.PROCESSOR, self.processors, arena.PROCESSOR)
        self.sinks = [sink for task in self.tasks if (sink := task.logic.sink()) is not None]
        self.sink_rows = self.make(k.SINK, self.sinks, arena.SINK)
        self.brokers = [broker for brokers in world.brokers.values() for broker in brokers]
        self.broker_rows = self.make(k.BROKER, self.brokers, arena.BROKER)
        self.streams: list[Draws] = []
        self.leg_addresses: set[int] = set()
        self.jitters: list[Jitter] = []
        self.keyed: list[KeyGroups] = []
        self.logics: list[tuple[Logic, Any]] = []
        self.logic_at: dict[int, Logic] = {}
        self.stores: list[tuple[RememberLogic | SessionLogic, Any]] = []
        self.contents: list[tuple[np.ndarray, Sequence[Content]]] = []

    # structures and arrays -------------------------------------------------------------------------------------------

    def make(
        self, layout: np.dtype[Any], objects: Sequence[Any], names: arena.Names | None = None, held: str = ""
    ) -> np.ndarray:
        """Makes the structures of some objects. names: see `columns`. held: attributes to write back at the end."""
        made = self.arena.make(layout, len(objects))
        for each, here in zip(objects, arena.addresses(made), strict=False):
            self.here[id(each)] = here
            self.object_at[here] = each
        made["here"] = arena.addresses(made)
        made = made[: len(objects)]
        if names is not None:
            self.columns(made, objects, names)
        if held:
            arena.fill(made, objects, arena.same(held))
            self.held.append((made, objects, arena.same(held)))
        return made

    def columns(self, rows: np.ndarray, objects: Sequence[Any], names: arena.Names) -> None:
        """Fills columns of structures with attributes of objects, which are written back on every request."""
        arena.fill(rows, objects, names)
        self.filled.append((rows, objects, names))

    def row(self, task: Task) -> Any:
        """View of the structure of a task."""
        return arena.view(k.TASK, self.here[id(task)])

    def item(self, here: int) -> Any:
        """View of the item at an address."""
        return arena.view(k.ITEM, here)

    def slot(self, kind: int, owner: int) -> int:
        """Makes a new slot in the calendar; returns its number."""
        number = len(self.slots)
        self.slots.append((kind, owner))
        if len(self.kinds):
            self.kinds[number], self.owners[number] = kind, owner
        return number

    def lane(self, row: Any, here: int) -> None:
        """Adds a lane to the list of all lanes."""
        row["here"], row["after"] = here, self.state[0]["lanes"]
        self.state[0]["lanes"] = here

    def block(self, owner: int, field: str, values: Any, room: int, kind: type = np.float64) -> int:
        """Makes an array with some values and room for more, which may be replaced later; returns its address."""
        made: np.ndarray = np.zeros(room, kind)
        made[: len(values)] = values
        self.put(owner, field, made)
        return int(made.ctypes.data)

    def array(self, layout: np.dtype[Any], owner: int, field: str, room: int) -> np.ndarray:
        """Makes an array of structures, which may be replaced later."""
        made = np.zeros(room, layout)
        self.put(owner, field, made)
        return made

    def put(self, owner: int, field: str, made: np.ndarray) -> None:
        """Puts an array in the place of the one before, if there is one."""
        before = self.blocks.get((owner, field))
        self.arena.bytes += made.nbytes - (0 if before is None else before.nbytes)
        self.blocks[owner, field] = made

    def ring(self, owner: int, field: str, first: Any, count: Any) -> np.ndarray:
        """Content of a ring buffer, in order."""
        return np.roll(self.blocks[owner, field], -int(first))[: int(count)]

    def stream(self, draws: Draws) -> int:
        """Address of the structure of a component's random numbers."""
        if id(draws) not in self.here:
            row = self.make(k.STREAM, [draws])[0]
            self.streams.append(draws)
            here = int(row["here"])
            row["scv"] = draws._scv
            for field, values in (("uniforms", draws._uniforms), ("services", draws._services)):
                row[field] = self.block(here, field, values, BLOCK)
                row[f"{field}_left"] = len(values)
        return self.here[id(draws)]

    def resume(self, alarm: Alarm, slot: int) -> None:
        """Sets an alarm again if the kernel has its event, or shows it as not pending."""
        if self.times[slot] < np.inf:
            alarm.resume(float(self.times[slot]), int(self.orders[slot]))
        else:
            alarm.show(np.inf)
