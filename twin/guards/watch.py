"""Watch of a run: it looks at what the run does, says when it will end, and ends it where it would take too much."""

from __future__ import annotations

import math
import os
import resource
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from twin.arrivals.laws import Phase
from twin.errors import TooMuch
from twin.events import RateChange
from twin.job import Job
from twin.randomness import random_stream
from twin.scenario import Scenario
from twin.windows import US_PER_S, EventWindow
from twin.workload import ArrivalLaw, Replay
from twin.world.clock import Watch, nothing
from twin.world.meters import OperatorMeter, Statistics
from twin.world.windows import WindowLogic
from twin.world.world import World

# records that arrive -------------------------------------------------------------------------------------------------
# Number of records that arrive at a job until a time, by the laws of its sources.


PHASES_READ = 20_000
"""Most phases of an arrival law that are read; after these, its mean rate holds."""


class Offered:
    """Records that arrive at all sources, with changes of rates by events. Phases that come at random are the run's
    own. phases_per_s: phases a second, by source. unsure: whether rates are recorded times, of which only the mean is
    used."""

    def __init__(self, scenario: Scenario) -> None:
        self.phases_per_s: dict[str, float] = {}
        self.unsure = False
        self._curves = [self._curve(scenario, name, law) for name, law in scenario.workload.arrivals.items()]

    def until(self, at_s: float) -> float:
        """Number of records that arrive until a time."""
        return sum(float(np.interp(at_s, *curve)) for curve in self._curves)

    def _curve(self, scenario: Scenario, source: str, law: ArrivalLaw) -> tuple[np.ndarray, np.ndarray]:
        """Times until the horizon between which the rate is constant, and the number of records until then."""
        end_s, phases, rest_per_s = scenario.run.horizon_s, list[Phase](), law.mean_rate_per_s
        if isinstance(law, Replay) and law.recording.rates_per_s is None:  # times have no phases
            self.unsure = True
        else:
            own = law.phases(random_stream(scenario.run.seed, f"arrivals:{source}"))
            phases = list(islice(own, PHASES_READ))
            rest_per_s = rest_per_s if len(phases) == PHASES_READ else 0.0
        lengths_s, rates_per_s = np.array([*phases, (np.inf, rest_per_s)]).T
        ends_s = np.minimum(np.cumsum(lengths_s), end_s)
        over = int(np.searchsorted(ends_s, end_s))
        self.phases_per_s[source] = over / float(ends_s[over - 1]) if over else 0.0
        changes = [each for each in scenario.events if isinstance(each, RateChange) and each.source == source]
        edges_s = np.unique([0.0, *ends_s, *(min(each.at_s, end_s) for each in changes)])
        middles_s = (edges_s[1:] + edges_s[:-1]) / 2.0
        rates = rates_per_s[np.searchsorted(ends_s, middles_s)] * _factors(changes, law, middles_s)
        return edges_s, np.append(0.0, np.cumsum(np.diff(edges_s) * rates))


def _factors(changes: Sequence[RateChange], law: ArrivalLaw, at_s: np.ndarray) -> np.ndarray:
    """Factors on a law's rates at some times: of the last change before each."""
    found = np.ones(len(at_s))
    for each in sorted(changes, key=lambda event: event.at_s):
        found[at_s > each.at_s] = each.factor or (each.rate_per_s or 1.0) / law.mean_rate_per_s
    return found


# the watch -----------------------------------------------------------------------------------------------------------
# Watch of a run: it looks at what the run does, says when it will end, and ends what would take hours or no memory
# holds.
#
# Nothing is estimated beforehand. After a CPU second it is known how fast simulated time passes; what is to come is as
# much slower as more records arrive then. The memory is what the run's arrays take, and what its process has grown by.
# No look changes a run: it draws nothing, and takes no place in the calendar.


FIRST_S = 1.0
"""CPU seconds after which a run is judged for the first time."""
LOOK_S = 0.1
"""CPU seconds between two looks at the clock and at the memory of the process."""
LONG_S = 20.0
"""CPU seconds to go beyond which a waiting user is told."""
TOLD_S = 10.0
"""Seconds after which a waiting user is told again."""
MOST_S = 5000.0
"""CPU seconds to go beyond which a run is refused."""
MOST_BYTES = 4e9
"""Memory beyond which a run is refused."""
ARRIVAL_BYTES = 8
"""Size of a record that waits at a broker."""
BY_CHANCE = 5.0
"""Standard errors of the number of arrivals by which sources may be behind them by chance."""
SOONER = ", or let it end as soon as its means are known (--precision 1%)"
"""Further remedy for a run that takes long."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause of a run's length or size: how often it has come, its name, and what makes it rarer."""

    count: float
    what: str
    remedy: str


class RunWatch(Watch):
    """Watch of one run. It raises TooMuch.

    most_s: CPU seconds to go beyond which the run is refused; a run that ends when it is precise enough may take hours.
    tell: told in a line, every few seconds, how far a long run is, and why it is long.
    """

    def __init__(self, job: Job, scenario: Scenario, most_s: float, tell: Callable[[str], None] | None) -> None:
        self._job = job
        self._scenario = scenario
        self._most_s = most_s
        self._tell = tell
        self._offered: Offered | None = None
        self._update: Callable[[], None] = nothing
        self._world: World | None = None
        self._statistics: Statistics | None = None
        self._began_s = time.thread_time()
        self._due_s = self._memory_s = self._began_s + LOOK_S
        self._told_s = -math.inf
        self._before_bytes = _process_bytes()
        self._marks: list[tuple[float, float]] = []
        self._forecast_s = -math.inf
        self._behind: tuple[float, int] | None = None  # time, and records taken, when sources were behind last
        parallelism = job.deployment.plan.parallelism
        self._parts = sum(each.parallelism for each in job.components) + sum(
            parallelism(edge.ends[0]) for edge in job.edges
        )
        self._built = 0

    def begin(self, world: World, statistics: Statistics) -> None:
        """Notes the parts of the run, which are all there now."""
        self._world, self._statistics = world, statistics

    def built(self) -> None:
        self._built += 1
        spent_s = time.thread_time() - self._began_s
        if spent_s < FIRST_S or time.thread_time() < self._due_s:
            return
        self._due_s = time.thread_time() + LOOK_S
        times = max(1.0, self._parts / self._built)
        if times * spent_s > self._most_s:
            self._refuse_time(times * spent_s, self._subtasks())
        self._limit(times * self._grown(), [self._subtasks()])

    def hold(self, array_bytes: int = 0, update: Callable[[], None] = nothing) -> None:
        self._update = update
        if array_bytes > MOST_BYTES:
            self._limit(array_bytes, ())
        if time.thread_time() >= self._memory_s:
            self._memory_s = time.thread_time() + LOOK_S
            self._limit(self._grown(), ())

    def look(self, now_s: float, array_bytes: int = 0, update: Callable[[], None] = nothing) -> None:
        self.hold(array_bytes, update)
        cpu_s = time.thread_time()
        if cpu_s < self._due_s or self._world is None:
            return
        self._due_s = cpu_s + LOOK_S
        self._marks.append((cpu_s, now_s))
        if cpu_s - self._marks[0][0] < FIRST_S or now_s <= 0.0:
            return
        to_go_s, ends_early = self._to_go_s(), self._scenario.run.precision is not None
        if not ends_early and cpu_s >= self._forecast_s + FIRST_S:
            self._forecast_s = cpu_s
            self._limit_at_the_end(now_s)
        if not ends_early and to_go_s > self._most_s:
            self._refuse_time(to_go_s, self._slowest())
        long = to_go_s > LONG_S or self._told_s > 0.0
        if self._tell is not None and long and time.monotonic() >= self._told_s + TOLD_S:
            self._tell(self._words(now_s, to_go_s, ends_early))
            self._told_s = time.monotonic()

    def _words(self, now_s: float, to_go_s: float, ends_early: bool) -> str:
        """How far the run is; the first time also why it is long, and what helps."""
        most, share = "at most " if ends_early else "", now_s / self._scenario.run.horizon_s
        words = f"{share:.0%} done, {most}about {duration(to_go_s)} of CPU time to go"
        if self._told_s > 0.0:
            return words
        worst = self._slowest()
        return f"a long run: {words}, mostly for {worst.what}; {worst.remedy}{'' if ends_early else SOONER}"

    # how long --------------------------------------------------------------------------------------------------------

    def _to_go_s(self) -> float:
        """CPU seconds until the horizon, by the pace in the second half of the CPU time so far: that of simulated time,
        or that of the records that arrive, whichever is better. Known bursts so count for what they are, and work that
        goes on without records too."""
        if self._offered is None:
            self._offered = Offered(self._scenario)
        cpu_s, now_s = self._marks[-1]
        middle = bisect_right(self._marks, ((self._marks[0][0] + cpu_s) / 2.0, math.inf)) - 1
        since_s, from_s = self._marks[middle]
        if from_s == now_s:
            since_s, from_s = self._marks[0][0], 0.0
        end_s, until = self._scenario.run.horizon_s, self._offered.until
        came, to_come = until(now_s) - until(from_s), until(end_s) - until(now_s)
        times = (end_s - now_s) / (now_s - from_s)
        return (cpu_s - since_s) * (min(times, to_come / came) if came > 0.0 else times)

    def _refuse_time(self, to_go_s: float, worst: Cause) -> None:
        raise TooMuch(
            f"the run would take about {duration(to_go_s)} of CPU time, mostly for {worst.what}; {worst.remedy}"
            f"{SOONER} (the limit is {duration(self._most_s)})"
        )

    def _slowest(self) -> Cause:
        """What has come most often so far. Where compiled code moves records, what is done beside it counts only if
        that takes most of the time."""
        assert self._world is not None
        env = self._world.env
        self._update()
        mostly = 2.0 * env.compiled_s > time.thread_time() - self._marks[0][0]  # spent by compiled code
        causes = list(self._of_records()) if mostly or not env.compiled_s else []
        if not mostly:
            causes += self._beside_records()
        return max(causes, key=lambda cause: cause.count)

    def _of_records(self) -> Iterator[Cause]:
        """Work for records: those taken and sent by each operator, those that evaluations of windows look at, and
        changes of the rates at which they arrive."""
        for meter in self._meters():
            taken = sum(task.logic.taken(meter.number) for task in meter.tasks)
            sent = sum(task.logic.sent(meter.number) for task in meter.tasks)
            yield Cause(taken, f"records: {taken:,} at {meter.name!r} so far", "lower rates or run.horizon_s")
            if sent > taken:
                what = f"records: {sent:,} from {meter.name!r} so far"
                yield Cause(sent, what, "lower rates, selectivities or run.horizon_s")
            fires, each = self._evaluations(meter)
            if fires:
                what = f"windows of {meter.name!r}: {fires:,.0f} evaluations so far, the last of {each:,.0f} each"
                yield Cause(fires * max(1.0, each), what, "make it shorter or its slide longer")
        assert self._offered is not None
        for source in self._job.sources:
            count = self._offered.phases_per_s[source.name] * self._marks[-1][1] * source.parallelism
            what = f"{count:.1e} changes of rate in workload.arrivals.{source.name} so far"
            yield Cause(count, what, "make its phases longer or run.horizon_s shorter")

    def _evaluations(self, meter: OperatorMeter) -> tuple[float, float]:
        """Number of evaluations of an operator's windows, and of records in the last; over event time, of panes."""
        operator, logics = self._job.query.operator(meter.name), [task.logic.part(meter.number) for task in meter.tasks]
        if not operator.needs_event_time:
            return sum(each.fires for each in logics), sum(each.held() for each in logics) / len(logics)
        windows: Sequence[EventWindow] = operator.event_windows
        ends = sum(len(logics) * self._marks[-1][1] * US_PER_S / each.every_us for each in windows)
        return ends, max((each.length_us / each.every_us for each in windows), default=0.0)

    def _beside_records(self) -> Iterator[Cause]:
        """Work that does not depend on records: statistics, changes of rates, drifts, pauses and checkpoints."""
        assert self._statistics is not None
        scenario, now_s = self._scenario, self._marks[-1][1]
        rows = len(self._statistics.operator_rows) + len(self._statistics.subtask_rows)
        yield Cause(
            rows, f"{rows:,} rows of statistics so far", f"make run.period_s ({scenario.run.period_s:g}) longer"
        )
        tasks, noise = sum(each.parallelism for each in self._job.components), self._job.engine.noise
        for name, skew in scenario.workload.keys.items():
            if skew.drift_every_s is not None:
                count, groups = now_s / skew.drift_every_s, self._job.component(name).key_groups or 1
                what = f"{count:.1e} drifts of {groups:,} key groups in workload.keys.{name} so far"
                yield Cause(count * groups, what, "make drift_every_s longer")
        if scenario.run.noise and noise.gc_interval_s is not None:
            count = now_s / (noise.gc_interval_s + noise.gc_pause_s)
            yield Cause(count * tasks, f"{count:.1e} pauses a host so far", "make engine.noise.gc_interval_s longer")
        if scenario.checkpoints is not None:
            count, held = now_s / scenario.checkpoints.interval_s, sum(cause.count for cause in self._kept())
            what = f"{count:.1e} checkpoints of {tasks:,} subtasks so far"
            yield Cause(count * (tasks + held), what, "make checkpoints.interval_s longer")

    # how large -------------------------------------------------------------------------------------------------------

    def _grown(self) -> float:
        """Bytes by which the process has grown since the run began."""
        return float(_process_bytes() - self._before_bytes)

    def _limit(self, size: float, causes: Sequence[Cause]) -> None:
        """Raises TooMuch if these bytes are too many, with the most frequent of the causes; absent: those of now."""
        if size <= MOST_BYTES:
            return
        worst = max(causes or self._held(), key=lambda cause: cause.count)
        raise TooMuch(
            f"the run would hold {worst.what}: {size / 1e9:,.1f} GB in all, and the limit is {MOST_BYTES / 1e9:g} GB; "
            f"{worst.remedy}"
        )

    def _limit_at_the_end(self, now_s: float) -> None:
        """Raises TooMuch if the rows of statistics, or records that sources do not read, will be too many."""
        assert self._world is not None and self._statistics is not None and self._offered is not None
        horizon_s, statistics, until = self._scenario.run.horizon_s, self._statistics, self._offered.until
        if statistics.operator_rows:
            tables = (statistics.operator_rows, statistics.subtask_rows, statistics.host_rows, statistics.link_rows)
            each = sum(len(rows) / len(statistics.operator_rows) * _size(rows[-1]) for rows in tables if rows)
            rows = statistics.count(horizon_s) * len(statistics.operators)
            remedy = f"make run.period_s ({self._scenario.run.period_s:g}) longer"
            self._limit(each * rows, [Cause(rows, f"{rows:.1e} rows of statistics", remedy)])
        self._update()
        brokers = [broker for each in self._world.brokers.values() for broker in each]
        taken, before, self._behind = sum(broker.taken for broker in brokers), self._behind, None
        if until(now_s) - taken > BY_CHANCE * math.sqrt(until(now_s)) and not self._offered.unsure:
            self._behind = now_s, taken
            if before is not None and now_s > before[0]:
                read_per_s = (taken - before[1]) / (now_s - before[0])
                unread = until(horizon_s) - taken - read_per_s * (horizon_s - now_s)
                names = ", ".join(repr(source.name) for source in self._job.sources)
                what = f"{unread:.1e} records that {names} has not read"
                self._limit(ARRIVAL_BYTES * unread, [Cause(unread, what, "lower its rate or run.horizon_s")])

    def _held(self) -> list[Cause]:
        """What there is now: records that wait, are kept or are made, rows, and notes on windows over event time."""
        if self._world is None or self._statistics is None:
            return [self._subtasks()]
        self._update()
        rows = len(self._statistics.operator_rows) + len(self._statistics.subtask_rows)
        notes = {name: sum(len(each.came) for each in made.each) for name, made in self._world.notes.items()}
        return [
            self._subtasks(),
            *self._waiting(),
            *self._kept(),
            Cause(rows, f"{rows:,} rows of statistics", f"make run.period_s ({self._scenario.run.period_s:g}) longer"),
            *(
                Cause(n, f"{n:,} records that came to {name!r}", "lower rates or run.horizon_s")
                for name, n in notes.items()
            ),
        ]

    def _waiting(self) -> Iterator[Cause]:
        """Records that wait at each operator, or to be sent from there."""
        assert self._world is not None
        lifted = self._update is nothing
        for name, tasks in self._world.tasks.items():
            queued = sum(task.queued for task in tasks)
            room = "channel_records" if self._job.engine.network_memory is None else "network_memory"
            yield Cause(queued, f"{queued:,} records that wait at {name!r}", f"make engine.{room} or the rates smaller")
            ports = [port for task in tasks for port in task.ports]
            unsent = sum(port.waiting() if lifted else port.elsewhere for port in ports)
            what = f"{unsent:,} records that {name!r} has made and cannot send yet"
            yield Cause(unsent, what, "make its selectivity, its subtasks or the rates smaller")
        for name, brokers in self._world.brokers.items():
            unread = sum(sum(map(len, broker.blocks)) - broker.place for broker in brokers)
            yield Cause(unread, f"{unread:,} records that {name!r} has not read", "lower its rate or run.horizon_s")

    def _kept(self) -> Iterator[Cause]:
        """Records and states that each operator keeps, and results that its windows have found."""
        for meter in self._meters():
            logics = [task.logic.part(meter.number) for task in meter.tasks]
            kept = sum(int(logic.held()) + getattr(logic, "elsewhere", 0) for logic in logics)
            what = "records in the windows" if any(isinstance(each, WindowLogic) for each in logics) else "states"
            yield Cause(kept, f"{kept:,} {what} of {meter.name!r}", "make them shorter, or its keys fewer")
            found = max(
                (max(each.found, len(each.planned)) for each in logics if isinstance(each, WindowLogic)),
                default=0,
            )
            what = f"{found:,} results of one evaluation of the window of {meter.name!r}"
            yield Cause(found, what, "make the window shorter or its results fewer")

    def _meters(self) -> Sequence[OperatorMeter]:
        assert self._statistics is not None
        return self._statistics.operators

    def _subtasks(self) -> Cause:
        counts = {each.name: each.parallelism for each in self._job.components}
        most = max(counts, key=counts.__getitem__)
        return Cause(counts[most], f"the {counts[most]:,} subtasks of {most!r}", "use fewer subtasks")


def duration(cpu_s: float) -> str:
    """CPU time in words."""
    if cpu_s < 120.0:
        return f"{cpu_s:.0f} s"
    return f"{cpu_s / 60:.0f} min" if cpu_s < 7200.0 else f"{cpu_s / 3600:.3g} h"


def _size(row: Mapping[str, Any]) -> int:
    """Bytes of a row of statistics."""
    return sys.getsizeof(row) + sum(map(sys.getsizeof, row.values()))


def _process_bytes() -> int:
    """Memory of this process; where the system does not say it, the most that it has had."""
    try:
        with open("/proc/self/statm", "rb") as said:
            return int(said.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else 1024 * most
