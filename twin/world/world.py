"""World: one run in memory, built from its job, with all parts by name; compiled code and SimPy take turns in it."""

from __future__ import annotations

from functools import partial
from math import inf
from time import thread_time
from typing import Any

from twin.checkpoints import Checkpoints
from twin.engine.arrival.clock import clock as arrival_clock
from twin.engine.calendar import Watch
from twin.engine.host import HostMemory, pauses
from twin.engine.keys.groups import KeyGroups, drift, skewed
from twin.engine.measure.ledger import Ledger
from twin.engine.measure.meters import HostMeter, LinkMeter, OperatorMeter, StreamMeter
from twin.engine.sockets import BandwidthLimit
from twin.engine.windows.panes import History
from twin.job import Component, Job, Stage
from twin.kernel import layout as k
from twin.kernel.advance import advance, count_pooled, expire, refill, wake_up, work_on
from twin.kernel.bridge import NONE_LEFT, held
from twin.kernel.callbacks import IN_PYTHON, LOOK
from twin.kernel.native import CALLBACK, PLAIN, address_of
from twin.keys import contiguous, distinct_values
from twin.kin import kin
from twin.kinds import mechanism
from twin.partitions import read_shares
from twin.plan import Location
from twin.profiles import Noise
from twin.randomness import random_stream
from twin.scenario import RunSettings
from twin.wiring.sockets import limit_sockets
from twin.world.calls import Callbacks
from twin.world.clock import Clock
from twin.world.logics import Gate, Logics
from twin.world.mechanisms import make_logics
from twin.world.memory import Draws, RunMemory
from twin.world.network import Network
from twin.world.parts import Broker, Card, Item, Path, Pool, Port, Processor, Task
from twin.world.streams import StreamParts, connect, number, ports_know

NEVER: tuple[float, int, int, Any] = inf, 1, 0, None
"""Stands for the next event of SimPy's calendar where there is none."""


class World:
    """All parts of one run. Equal job and settings give an equal world.

    commits: whether results count only when a checkpoint commits them. kin: operators where copies of a record meet.
    keys: structures of key groups and of their alignments, by identity. owners, audits, undone: of operators over event
    time, which are not built in memory. first: number of the record that was put first in a queue, counted downwards.
    error: what a call from compiled code raised.
    """

    def __init__(
        self,
        job: Job,
        settings: RunSettings,
        checkpoints: Checkpoints | None = None,
        replayable: bool = False,
        watch: Watch | None = None,
    ) -> None:
        """checkpoints: those that cost something. replayable: whether sources may have to read records again. watch:
        looks at the run as it goes on."""
        self.job, self.settings, self.query = job, settings, job.query
        self.deployment, self.engine, self.world, self.checkpoints = job.deployment, job.engine, self, checkpoints
        self.commits: bool = checkpoints is not None and checkpoints.sinks == "exactly-once"
        self.replayable = replayable
        self.first = 0
        self.kin = kin(job.query, job.deployment.plan)
        self.noise = job.engine.noise if settings.noise else Noise()
        self.hosts = {host.name: host for host in job.deployment.cluster.hosts}
        self.memory = RunMemory(settings.seed)
        self.env = Clock(self.memory.state)
        self.env.watch, self.env.left = watch or Watch(), NONE_LEFT  # compiled code counts
        self.memory.state.left = LOOK
        self.processors: dict[Location, Processor] = {}
        self.nics: dict[str, Card] = {}
        self.links: dict[str, Card] = {}
        self.tasks: dict[str, list[Task]] = {}
        self.streams: dict[tuple[str, str], StreamParts] = {}
        self.brokers: dict[str, list[Broker]] = {}
        self.memories: dict[str, HostMemory] = {}
        self.key_groups: dict[str, KeyGroups] = {}
        self.keys: dict[int, Any] = {}
        self.pools: dict[str, Pool] = {}
        self.gates: dict[str, Gate] = {}
        self.owners: dict[str, Any] = {}
        self.audits: dict[str, Any] = {}
        self.undone: list[History] = []
        self.limits: list[BandwidthLimit] = []
        self.ledger = Ledger()
        self.error: BaseException | None = None
        self.network = Network(self)
        self._counted = False
        self._calls = Callbacks(self)
        self._call = self._calls if PLAIN else CALLBACK(self._calls)
        state = self.memory.state
        state.raw_here = state.here
        state.call_python, state.work_on, state.wake_up, state.refill = (
            address_of(each) for each in (self._call, work_on, wake_up, refill)
        )
        self._build()

    # parts -----------------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        """Makes all parts. Their order depends on names alone, not on hashing or on the order of the lists."""
        job = self.job
        job.require_pairs()
        for place in dict.fromkeys(place for component in job.components for place in component.places):
            self._processor(place)
        for component in job.components:
            self._tasks(component)
        for edge in job.edges:
            connect(self, edge)
        number(self)
        for task in self.every_task():
            ports_know(task)
        for host in self.nics:
            self._pauses(host)
        for source in job.sources:
            self._brokers(source)
        limit_sockets(self)
        for host in self.nics:
            here: Any = self.processors_of(host), [task for task in self.tasks_on(host) if not task.polls]
            self.memories[host] = HostMemory(self.hosts[host].ram_mb, job.engine.memory, *here)

    def _processor(self, place: Location) -> Processor:
        """Socket, made when it is first used, with its host's network card; see `twin.wiring`."""
        if place not in self.processors:
            host = self.hosts[place.host]
            speed = host.core_speed(place.socket)
            made = self.processors[place] = Processor(self.memory, self.env, host.socket_capacity(place.socket) / speed)
            if speed != 1.0:
                made.slow("clock", 1.0 / speed)
            self.network.nic(place.host)
        return self.processors[place]

    def _tasks(self, component: Component) -> None:
        """Makes the subtasks of a component, its key groups, and its shared queue."""
        name, polls = component.name, component.operator.is_source
        made = self.tasks[name] = []
        for replica, place in enumerate(component.places):
            draws = self.draws_of(component.stages[0], replica)
            processor, called = self._processor(place), f"{name}#{replica}"
            self.env.watch.built()
            task = Task(self.memory, self.env, called, place, processor, draws, component.service_s, polls, self.count)
            task.logic = Logics(task)
            if not self.kin.makers.isdisjoint(each.name for each in component.operators):
                task.lots = self.memory.draws(f"lots:{called}").here
            made.append(task)
        drifting = self._key_groups(component)
        for replica, task in enumerate(made):
            task.logic.become(make_logics(self, component, replica, task))
        if drifting is not None:
            self.env.process(drifting)
        if component.replicas > 1 and self.job.one_queue(name):
            self.pools[name] = Pool(self.memory, made)
            for task in made:
                self.network.lanes.lane(task)

    def draws_of(self, stage: Stage, replica: int) -> Draws:
        """Random numbers of one operator of a subtask."""
        return self.memory.draws(
            f"task:{stage.operator.name}#{replica}", stage.service_scv if self.settings.noise else 0.0
        )

    def _key_groups(self, component: Component) -> Any:
        """Makes the key groups of an operator, if it has any. Returns the process of their drift, if they drift."""
        name, operator, tasks = component.name, component.operator, self.tasks[component.name]
        if component.key_groups is None:
            return None
        skew, does = self.job.deployment.workload.keys.get(name), operator.mechanism
        selectivity = does.selectivity if isinstance(does, mechanism.Matching) else None
        groups = self.key_groups[name] = KeyGroups(
            tasks,
            self.job.deployment.plan.key_groups.get(name) or contiguous(component.key_groups, len(tasks)),
            distinct_values(operator, skew, component.key_groups),
            state_bytes_each=getattr(operator, "state_bytes_per_group", 0.0),
            two_choice=any(each.how.two_choices for each in self.job.inputs(name)),
            key_weights=None if skew is None else skew.key_weights(component.key_groups),
            selective=(selectivity, len(self.job.inputs(name))) if selectivity else None,
        )
        if skew is None:
            return None
        rng = self.memory.random(f"keys:{name}")
        order = skewed(groups, skew, rng)
        return None if skew.drift_every_s is None else drift(self.env, groups, order, skew, rng)

    def _pauses(self, host: str) -> None:
        interval_s, pause_s = self.noise.gc_interval_s, self.noise.gc_pause_s
        if interval_s is not None:
            rng = self.memory.random(f"pauses:{host}")
            stopped: Any = partial(self.tasks_on, host), partial(self.processors_of, host)
            self.env.process(pauses(self.env, stopped[0], stopped[1], interval_s, pause_s, rng))

    def _brokers(self, source: Component) -> None:
        """Makes the brokers of a source, of as many subtasks as read something, and lets these begin."""
        law, tasks = self.job.deployment.workload.arrivals[source.name], self.tasks[source.name]
        shares, made = read_shares(source.operator, len(tasks), law), self.brokers.setdefault(source.name, [])
        state = self.memory.state
        for replica, (task, share) in enumerate(zip(tasks, shares, strict=False)):
            own, common = (
                random_stream(self.settings.seed, each) for each in (f"broker:{task.name}", f"arrivals:{source.name}")
            )
            arrivals = arrival_clock(law, replica, len(shares), own, common, share)
            broker = Broker(self.env, self.memory, task, arrivals, self.replayable)
            made.append(broker)
            assert task.polling is not None
            task.polling.broker = broker
            work_on(state.here, task.here)

    def processors_of(self, host: str) -> list[Processor]:
        """Processors of a host's sockets that were ever used."""
        return [each for place, each in self.processors.items() if place.host == host]

    def tasks_on(self, host: str) -> list[Task]:
        """Subtasks that sit on a host now."""
        return [task for task in self.every_task() if task.place.host == host]

    def every_nic(self) -> list[Card]:
        """Cards of all used hosts, and all links."""
        return [*self.nics.values(), *self.links.values()]

    def update(self) -> None:
        """Brings what is counted on request up to date."""
        self._counted = False

    def every_task(self) -> list[Task]:
        """Subtasks of all operators."""
        return [task for tasks in self.tasks.values() for task in tasks]

    def history(self) -> History:
        """History of operators over event time, which the run goes on writing."""
        return History(self.audits, {})

    def path(self, port: Port, replica: int) -> int:
        """Way from a port to a subtask, made when it is first used; returns its address."""
        paths = self.memory.blocks[port.here, "paths"]
        if not paths[replica]:
            paths[replica] = self.network.way(port, replica)
        return int(paths[replica])

    def item(self) -> Item:
        """Makes an item."""
        state = self.memory.state
        if not state.free:
            state.free = self.memory.arena.chunk(0)
        item = Item(state.free)
        state.free, item.mark = item.next, 0
        return item

    def look_ahead(self) -> None:
        """Notes the next event of SimPy's calendar, which may have changed while compiled code runs."""
        state, env = self.memory.state, self.env
        if env._queue and env._queue[0][:3] < (state.until, state.until_order >= 0, state.until_order):
            at_s, priority, order, _ = env._queue[0]
            state.until, state.until_order = at_s, order if priority else -1

    def meet(self, here: int, held: bool) -> None:
        """Shows a mark, or a record while barriers are awaited (`held`), to the barriers of its subtask."""
        item = Item(here)
        inbox = self.memory.at[Path(item.path).inbox]
        task, way = inbox.task, (inbox.side, self.memory.at[item.sender])
        if held:
            task.aside = task.barriers.put(item, inbox, way)
        else:
            task.barriers.heed(item, way)
            self.look_ahead()

    def expire(self, store: int) -> None:
        """Drops expired states of a store."""
        expire(self.memory.state.here, store)

    def count(self) -> None:
        """Counts what is nowhere counted: the records that wait at subtasks, and those under way."""
        if not self._counted:
            self.memory.do(k.RECOUNT, self.memory.state.lanes)
            for pool in self.pools.values():
                count_pooled(self.memory.state.here, pool.here)
            self._counted = True

    # a run -----------------------------------------------------------------------------------------------------------

    def advance(self, until_s: float) -> None:
        """Runs up to a time: compiled code to the next event of SimPy's calendar, which SimPy handles, and so on.

        Python runs signal handlers whenever it runs, also when compiled code calls it, where an exception would be
        lost. So handlers wait until the compiled code returns.
        """
        while self.env.now < until_s:
            with held() as signals:
                while self.env.now < until_s and not signals:
                    self._to_next(until_s)

    def _to_next(self, until_s: float) -> None:
        env, state = self.env, self.memory.state
        at_s, priority, order, _ = env._queue[0] if env._queue else NEVER
        last = at_s >= until_s
        state.until = until_s if last else at_s
        self._counted = False
        began_s = thread_time()
        advance(state.here, order if priority and not last else -1)
        env.compiled_s += thread_time() - began_s
        if self.error is not None:
            raise self.error
        if state.left <= 0:
            self._calls.look()
            return
        at_s, _, order, _ = env._queue[0] if env._queue else NEVER  # there may be an earlier one by now
        last = at_s >= until_s
        env.now = until_s if last else at_s
        state.event_sequence = -1 if last else order
        state.left -= IN_PYTHON
        if not last:
            env.step()
            self._counted = False


def meters(world: World) -> tuple[list[OperatorMeter], list[HostMeter], list[LinkMeter], list[StreamMeter]]:
    """Meters of all operators, used hosts, their cards and all links, and streams."""
    operators = []
    for each in world.query.operators:
        component = world.job.component(each.name)
        tasks: Any = world.tasks[component.name]
        brokers = world.brokers.get(each.name, [])
        operators.append(OperatorMeter(each.name, each.kind, tasks, brokers, component.operators.index(each)))
    cards: Any = {**world.nics, **world.links}
    counts: Any = {ends: made.counts for ends, made in world.streams.items()}
    hosts = [HostMeter(name, memory.processors, cards[name], memory) for name, memory in world.memories.items()]
    links = [LinkMeter(name, card) for name, card in cards.items()]
    return operators, hosts, links, [StreamMeter(ends, each) for ends, each in counts.items()]
