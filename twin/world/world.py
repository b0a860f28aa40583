"""World: one run in memory, built from its job, with all parts by name; compiled code and SimPy take turns in it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from time import thread_time
from typing import Any

from simpy.events import NORMAL

from twin.checkpoints import Checkpoints
from twin.job import Component, Job, Stage
from twin.kin import kin
from twin.kinds import mechanism
from twin.machine import layout as k
from twin.machine.advance import advance, count_pooled, expire, refill, wake_up, work_on
from twin.machine.checks import report
from twin.machine.native import CALLBACK, PLAIN, address_of
from twin.operators.key_groups import AlignedKeys, KeyGroups, drift, skewed
from twin.operators.panes import History, Missed, WindowAudit
from twin.operators.updates import BATCH
from twin.operators.watermark import RELEASE
from twin.plan import Location
from twin.profiles import Noise
from twin.query import in_time
from twin.scenario import RunSettings
from twin.workload import contiguous, distinct_values
from twin.world import event_time
from twin.world.brokers import ArrivalClock, Broker, arrival_clocks
from twin.world.clock import LOOK, Callbacks, Clock, Watch, held
from twin.world.event_time import EventTimes
from twin.world.logics import Gate, Logics, Tail
from twin.world.mechanisms import make_logics, service_scv, tail_of
from twin.world.memory import Draws, RunMemory, mark_of
from twin.world.meters import HostMeter, Ledger, LinkMeter, OperatorMeter, StreamMeter
from twin.world.network import Network, home
from twin.world.parts import Card, Item, Pool, Processor, Spent, Task
from twin.world.ports import Path, debloating
from twin.world.python_logics import DatedSource, timed_logic
from twin.world.sockets import BandwidthLimit, HostMemory, limit_sockets, pauses
from twin.world.streams import StreamParts, connect, number

IN_PYTHON = 1000
"""Events of compiled code that take as long as one of SimPy's, with what is read for it."""
NEVER: tuple[float, int, int, Any] = inf, 1, 0, None
"""Stands for the next event of SimPy's calendar where there is none."""


class World:
    """All parts of one run. Equal job and settings give an equal world.

    commits: whether results count only when a checkpoint commits them. goes_back: whether the job may go back to a
    checkpoint. kin: operators where copies of a record meet. keys, aligned: what compiled code knows of key groups, and
    of those that are aligned. owners, notes, undone: of operators over event time. first: number of the record that
    was put first in a queue, counted downwards. error: what a call from compiled code raised.
    """

    def __init__(
        self,
        job: Job,
        settings: RunSettings,
        checkpoints: Checkpoints | None = None,
        replayable: bool = False,
        watch: Watch | None = None,
        restarting: bool = False,
    ) -> None:
        """checkpoints: those that cost something. replayable: whether sources may have to read records again. watch:
        looks at the run as it goes on. restarting: whether changes of the plan may stop the job."""
        self.job, self.settings, self.query = job, settings, job.query
        self.deployment, self.engine, self.checkpoints = job.deployment, job.engine, checkpoints
        self.commits: bool = checkpoints is not None and checkpoints.sinks == "exactly-once"
        self.replayable = replayable
        self.goes_back = replayable or restarting
        self.first = 0
        self.kin = kin(job.query, job.deployment.plan)
        self.event_times = EventTimes(job.query)
        self.noise = job.engine.noise if settings.noise else Noise()
        self.hosts = {host.name: host for host in job.deployment.cluster.hosts}
        self.memory = RunMemory(settings.seed)
        self.env = Clock(self.memory.state, watch or Watch())
        self.memory.state.left = LOOK
        self.processors: dict[Location, Processor] = {}
        self.cards: dict[str, Card] = {}
        self.links: dict[str, Card] = {}
        self.tasks: dict[str, list[Task]] = {}
        self.streams: dict[tuple[str, ...], StreamParts] = {}
        self.brokers: dict[str, list[Broker]] = {}
        self.memories: dict[str, HostMemory] = {}
        self.key_groups: dict[str, KeyGroups] = {}
        self.keys: dict[KeyGroups, Any] = {}
        self.aligned: dict[AlignedKeys, Any] = {}
        self.announced: Callable[[], None] = lambda: None  # called when windows change their form
        self.pools: dict[str, Pool] = {}
        self.gates: dict[str, Gate] = {}
        self.failed = self.env.event()  # by a call that is lost; its value says how
        self.owners: dict[str, Any] = {}
        self.notes: dict[str, Any] = {}
        self.undone: list[History] = []
        self.limits: list[BandwidthLimit] = []
        self.spent: dict[str, Spent] = {}
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
            self.processor(place)
        for component in job.components:
            self._tasks(component)
        event_time.prepare(self)
        for edge in job.edges:
            connect(self, edge)
        event_time.finish(self)
        number(self)
        for task in self.every_task():
            task.know_ports()
        for host in self.cards:
            self.pause(host)
        for source in job.sources:
            self._brokers(source)
        limit_sockets(self)
        for host in self.cards:
            self.memories[host] = self.heap(host)
        network = self.engine.network_memory
        if network is not None and network.buffer_debloat is not None:
            self.env.process(debloating(self, network.buffer_debloat))

    def heap(self, host: str) -> HostMemory:
        """Makes a host's heap, with the subtasks that sit there; a source's queue is the broker's."""
        here: Any = self.processors_of(host), [task for task in self.tasks_on(host) if not task.polls]
        return HostMemory(self.hosts[host].ram_mb, self.engine, *here)

    def processor(self, place: Location) -> Processor:
        """Socket, made when it is first used, with its host's network card."""
        if place not in self.processors:
            host = self.hosts[place.host]
            speed = host.core_speed(place.socket)
            made = self.processors[place] = Processor(self.memory, self.env, host.socket_capacity(place.socket) / speed)
            if speed != 1.0:
                made.slow("clock", 1.0 / speed)
            self.network.card(place.host)
        return self.processors[place]

    def _tasks(self, component: Component) -> None:
        """Makes the subtasks of a component, its key groups, and its shared queue."""
        name = component.name
        made = self.tasks[name] = []
        for subtask, place in enumerate(component.places):
            made.append(self._task(component, subtask, place))
        drifting = self._key_groups(component)
        for subtask, task in enumerate(made):
            task.logic.become(make_logics(self, component, subtask, task), self.kin.makers)
            if name in self.key_groups:
                task.logic.know_keys(self.key_groups[name], subtask)
        if drifting is not None:
            self.env.process(drifting)
        if component.parallelism > 1 and self.job.one_queue(name):
            self.pools[name] = Pool(self.memory, made)
            for task in made:
                self.network.lanes.lane(task)

    def _task(self, component: Component, subtask: int, place: Location) -> Task:
        tail, polls = tail_of(self, component), component.operator.is_source
        service_s, draws = self._service(component, subtask, tail)
        processor, called = self.processor(place), f"{component.name}#{subtask}"
        self.env.watch.built()
        if component.name not in self.spent:
            self.spent[component.name] = Spent(self.memory)
        spent = self.spent[component.name]
        task = Task(self.memory, self.env, called, place, processor, draws, service_s, polls, self.count, spent)
        if polls:
            task.most_pending = self.engine.max_spout_pending or 0
        task.logic = Logics(task, component)
        task.logic.tail = tail
        task.own_lane = partial(self._own_lane, task)
        if not self.kin.makers.isdisjoint(each.name for each in component.operators):
            task.lots = self.memory.draws(f"lots:{called}").here
        return task

    def make_task(self, component: Component, subtask: int, place: Location) -> Task:
        """Makes a subtask of a component at a place. subtask: its number, which names its random numbers."""
        task = self._task(component, subtask, place)
        task.logic.become(make_logics(self, component, subtask, task), self.kin.makers)
        return task

    def _service(self, component: Component, subtask: int, tail: Tail | None) -> tuple[float, Draws]:
        """Mean CPU seconds of a record at a subtask, and its random numbers."""
        first = component.stages[0]
        if tail is None:
            return component.service_s, self.draws_of(first, subtask)
        if component.operator.needs_event_time:  # the followers' work is part of sending
            return first.service_s, self.draws_of(first, subtask)
        scv = service_scv(self, component)
        return self.job.service_s(component), self.memory.draws(f"task:{component.name}#{subtask}", scv)

    def _own_lane(self, task: Task) -> int:
        """Address of the lane of what a subtask gets without a way."""
        return self.network.lanes.lane(task).here

    def draws_of(self, stage: Stage, subtask: int) -> Draws:
        """Random numbers of one operator of a subtask."""
        return self.memory.draws(
            f"task:{stage.operator.name}#{subtask}", stage.service_scv if self.settings.noise else 0.0
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

    def pause(self, host: str) -> None:
        """Starts the pauses of a host, if the engine has any."""
        interval_s, pause_s = self.noise.gc_interval_s, self.noise.gc_pause_s
        if interval_s is not None:
            rng = self.memory.random(f"pauses:{host}")
            stopped: Any = partial(self.tasks_on, host), partial(self.processors_of, host)
            self.env.process(pauses(self.env, stopped[0], stopped[1], interval_s, pause_s, rng))

    def _brokers(self, source: Component) -> None:
        """Makes the brokers of a source, of as many subtasks as read something, and lets these begin."""
        tasks, made = self.tasks[source.name], self.brokers.setdefault(source.name, [])
        for place, arrivals in arrival_clocks(self, source.operator, tasks).items():
            broker = self.broker(tasks[place], arrivals)
            broker.number, broker.among = place, len(tasks)
            made.append(broker)

    def broker(self, task: Task, arrivals: ArrivalClock) -> Broker:
        """Makes the broker of a source's subtask, which begins to read."""
        made = Broker(self.env, self.memory, task, arrivals, self.replayable)
        if self.replayable and isinstance(task.logic.steps[0], DatedSource):
            made.take_notes()
        task.work()
        return made

    def processors_of(self, host: str) -> list[Processor]:
        """Processors of a host's sockets that were ever used."""
        return [each for place, each in self.processors.items() if place.host == host]

    def tasks_of(self, operator: str) -> list[Task]:
        """Subtasks that an operator runs in, alone or chained with others."""
        return self.tasks[self.job.component(operator).name]

    def tasks_on(self, host: str) -> list[Task]:
        """Subtasks that sit on a host now."""
        return [task for task in self.every_task() if task.place.host == host]

    def every_card(self) -> list[Card]:
        """Cards of all used hosts, and all links."""
        return [*self.cards.values(), *self.links.values()]

    def update(self) -> None:
        """Brings what is counted on request up to date."""
        self._counted = False

    def every_task(self) -> list[Task]:
        """Subtasks of all operators."""
        return [task for tasks in self.tasks.values() for task in tasks]

    @property
    def audits(self) -> dict[str, WindowAudit]:
        """What is noted so far on the windows of operators over event time."""
        return {name: notes.audit() for name, notes in self.notes.items()}

    def history(self) -> History:
        """History of operators over event time so far."""
        logics = {name: [timed_logic(task) for task in self.tasks[name]] for name in self.owners}
        far_us = {name: [each.watermark_us for each in made if each is not None] for name, made in logics.items()}
        held = {
            name: [piece for each in made if each is not None for piece in each.not_handed_over()]
            for name, made in logics.items()
        }
        return History(self.audits, far_us, held, self._under_way())

    def _under_way(self) -> list[Missed]:
        """Partial results that those which merge them have not taken; where all come in time, none are looked for."""
        query = self.query
        merging = {each.name for each in query.operators if each.merges and not in_time(query, each.name)}
        if not merging:
            return []
        to = {
            each.here
            for edge in self.job.edges
            if edge.stream.consumer in merging
            for each in self.streams[edge.key].inboxes
        }
        items = [item for item, inbox in self.network.lanes.under_way() if inbox in to]
        items += [Item(task.current) for name in merging for task in self.tasks[name] if task.in_service]
        return [(int(item.at_us), int(item.end_us), int(item.key)) for item in items]

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
        """Shows a mark to its subtask, or, while barriers are awaited (`held`), a record or mark to its barriers."""
        item = Item(here)
        if item.mark not in (0, k.BARRIER) and not held:
            self._heed(item)
            return
        if not item.path:  # a mark that a subtask gave itself
            return
        inbox = self.memory.at[Path(item.path).inbox]
        task, way = home(inbox), (inbox.side, self.memory.at.get(item.sender))
        if held:
            task.aside = task.barriers.meet(item, inbox, way)
        else:
            task.barriers.heed(item, way)
            self.look_ahead()

    def _heed(self, item: Item) -> None:
        """Shows a mark of event time to its subtask. One whose inputs have all made that progress announces it, too."""
        sender: Task = self.memory.at[item.sender]
        inbox = self.network.inboxes[item.path] if item.path else None
        task: Any = sender if inbox is None else home(inbox)
        mark, timed, alignment = mark_of(item, sender.name, inbox), timed_logic(task), task.alignment
        task.listing = True
        if timed is not None:
            timed.heed(mark)
        elif mark.kind in (RELEASE, BATCH):
            task.logic.steps[0].heed(mark)
        elif inbox is not None and alignment is not None:
            for kind, value in alignment.take(inbox.side, mark):
                if not task.logic.steps[0].follow(kind, value):
                    task.mark(kind, value)
        task.listing = False

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

    def step(self) -> None:
        """Processes the next event, of compiled code or of SimPy."""
        env, (at_s, order) = self.env, self.memory.slots.first()
        if env._queue and env._queue[0][:3] < (at_s, NORMAL, order):
            self.memory.state.event_sequence = env._queue[0][2]
            env.step()
            self._counted = False
        else:
            self._advance(at_s, order + 1)

    def _advance(self, until_s: float, until_order: int) -> bool:
        """Lets compiled code process the events before a time and a number. Returns whether it has; after a certain
        amount of work it stops before, so that the guards can look."""
        env, state = self.env, self.memory.state
        state.until = until_s
        self._counted = False
        began_s = thread_time()
        advance(state.here, until_order)
        env.compiled_s += thread_time() - began_s
        report()
        if self.error is not None:
            raise self.error
        done = bool(state.left > 0)
        if not done:
            self._calls.look()
        return done

    def _to_next(self, until_s: float) -> None:
        env, state = self.env, self.memory.state
        at_s, priority, order, _ = env._queue[0] if env._queue else NEVER
        last = at_s >= until_s
        until = (until_s if last else at_s), (order if priority and not last else -1)
        if env.awaited and (first := self.memory.slots.first()) < until:  # a condition may hold after one event
            self._advance(first[0], first[1] + 1)
            env.look_at_conditions()
            return
        if not self._advance(*until):
            return
        at_s, priority, order, _ = env._queue[0] if env._queue else NEVER  # there may be an earlier one by now
        last = at_s >= until_s
        before_s, env.now = env.now, until_s if last else at_s
        if last or (not priority and at_s > before_s):  # before all that happens at this time
            state.event_sequence = -1
        elif priority:  # an urgent event comes right after the one before
            state.event_sequence = order
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
        results = not each.is_sink or each in world.query.result_sinks
        operators.append(OperatorMeter(each.name, each.kind, tasks, component.operators.index(each), results))
    cards: Any = {**world.cards, **world.links}
    counts: Any = {key: made.counts for key, made in world.streams.items()}
    hosts = [HostMeter(name, memory.processors, cards[name], memory) for name, memory in world.memories.items()]
    links = [LinkMeter(name, card) for name, card in cards.items()]
    return operators, hosts, links, [StreamMeter((key[0], key[1]), each) for key, each in counts.items()]
