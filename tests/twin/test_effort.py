"""What a run is said to cost beforehand, against what it was found to do: counted, not timed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from scenarios.files.scenario_file import load
from tests.twin.worlds import HOST, chain, deployment, sink, source
from twin.deployment import Deployment
from twin.engine import ENGINE
from twin.engine.compute.processor import Processor
from twin.engine.station.task import Task
from twin.engine.streams.channel import Port
from twin.engine.windows.boundaries import TimeTrigger
from twin.engine.windows.window import WindowLogic
from twin.guards.effort import LONG_STEPS, TASK_STEPS, estimate
from twin.guards.effort_traffic import ACROSS, EVALUATED, SENT, WINDOWED, traffic
from twin.job import compile as compiled
from twin.profiles import STORM
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

FACTOR = 3.0


class Counted(Counter[str]):
    """Segments handled and sent, evaluations and jobs of everything that is simulated from now on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self._watch(patch, Task, "begin", lambda task, *_: "windowed" if task.logic.windowed else "handled")
        self._watch(patch, Task, "begin", lambda task, *_: "shared" if task.processor.shared else "alone")
        self._watch(patch, Port, "_transfer", lambda _, path, *__: "near" if path.nic is None else "far")
        self._watch(patch, Processor, "start", lambda *_: "jobs")
        self._watch(patch, WindowLogic, "fire", lambda *_: "evaluated")
        self._watch(patch, TimeTrigger, "due", lambda *_: "evaluated")

    def _watch(self, patch: pytest.MonkeyPatch, kind: type, name: str, what: Any) -> None:
        watched = getattr(kind, name)

        def count(*args: Any) -> Any:
            self[what(*args)] += 1
            return watched(*args)

        patch.setattr(kind, name, count)

    def steps(self, tasks: int) -> float:
        """In the weights of the estimate."""
        handled = self["handled"] + WINDOWED * self["windowed"] + self["shared"] + self["jobs"]
        sent = SENT * self["near"] + (SENT + ACROSS) * self["far"]
        return handled + sent + EVALUATED * self["evaluated"] + TASK_STEPS * tasks


def maps(count: int, rate_per_s: float, cores: float, load: float) -> Deployment:
    """A chain on one host, whose maps together ask for `load` cores."""
    middle = [
        {"kind": "map", "name": f"m{number}", "service_time_s": load / count / rate_per_s} for number in range(count)
    ]
    return chain(middle, rate_per_s, hosts=[{**HOST, "cpu_percent": 100 * cores}])


def clicks(rate_per_s: float) -> Deployment:
    """Parsed, counted by key in windows, and joined with slow reference data, in replicas on three hosts."""
    operators = [
        {"kind": "source", "name": "clicks"},
        {"kind": "source", "name": "reference"},
        {"kind": "map", "name": "parse"},
        {
            "kind": "aggregate",
            "name": "count",
            "window": {"policy": "time", "size_s": 5},
            "group_by": "int",
            "groups": 1000,
        },
        {"kind": "join", "name": "enrich", "window": {"policy": "time", "size_s": 10}, "selectivity": 0.001},
        {"kind": "sink", "name": "out"},
    ]
    ends = [("clicks", "parse"), ("parse", "count"), ("count", "enrich"), ("reference", "enrich"), ("enrich", "out")]
    hosts = [{**HOST, "name": f"h{number}", "cpu_percent": 400} for number in range(3)]
    four = {"h0": 2, "h1": 1, "h2": 1}
    placement = dict.fromkeys(("clicks", "parse", "count", "enrich", "out"), four) | {"reference": "h0"}
    return deployment(operators, ends, {"clicks": rate_per_s, "reference": 10}, hosts, placement, "flink")


def counts(rate_per_s: float, slide: int) -> Deployment:
    """A count window on another host than its source."""
    window = {"policy": "count", "size_tuples": 10 * slide, "slide_tuples": slide}
    operators = [source(), {"kind": "aggregate", "name": "mean", "window": window}, sink()]
    hosts = [HOST, {**HOST, "name": "other"}]
    return deployment(
        operators, [("source", "mean"), ("mean", "sink")], {"source": rate_per_s}, hosts, {"mean": "other"}
    )


FAST = RunSettings(horizon_s=20, warmup_s=5, period_s=5)
EXACT = RunSettings(horizon_s=8, warmup_s=2, period_s=2, fidelity="exact")
BRIEF = RunSettings(horizon_s=5, warmup_s=1, period_s=1)
SHORT = RunSettings(horizon_s=30, warmup_s=5, period_s=5, fidelity="fast", segments=100)


@pytest.mark.slow
@pytest.mark.skipif(ENGINE == "compiled", reason="compiled code does not look up what is to be counted")
@pytest.mark.parametrize(
    ("job", "settings"),
    [
        pytest.param(maps(4, 500, 8, 2), EXACT, id="exact"),
        pytest.param(maps(4, 500, 1, 0.7), EXACT, id="exact on one core"),
        pytest.param(maps(6, 3000, 16, 3), FAST, id="fast"),
        pytest.param(maps(6, 3000, 1, 0.7), FAST, id="fast on one core"),
        pytest.param(maps(6, 3000, 2, 3), FAST, id="a crowded host overloaded"),
        pytest.param(maps(30, 3000, 16, 22), BRIEF, id="many on a host overloaded"),
        pytest.param(clicks(2e4), FAST, id="replicas"),
        pytest.param(clicks(1e6), FAST, id="replicas of many tuples"),
        pytest.param(clicks(2.5e6), BRIEF, id="replicas overloaded"),
        pytest.param(load("airline-delays").deployment, SHORT, id="key groups that are aligned"),
        pytest.param(counts(1000, 100), FAST, id="a count window"),
        pytest.param(counts(1000, 1), FAST, id="a count window at each tuple"),
        pytest.param(counts(100, 1), EXACT, id="a count window at each tuple, exact"),
    ],
)
def test_the_estimate_is_within_a_factor_of_what_was_done(job, settings, monkeypatch):
    counted = Counted(monkeypatch)
    simulate(Scenario.of(job, settings))
    tasks = sum(len(places) for places in job.plan.placement.values())
    done, said = counted.steps(tasks), estimate(job, settings).steps
    assert done / FACTOR < said < done * FACTOR


def test_many_maps_on_an_overloaded_host_are_long_and_few_are_not():
    assert estimate(maps(198, 3200, 16, 22), RunSettings()).long
    assert not estimate(maps(4, 3200, 16, 22), RunSettings()).long
    assert not estimate(maps(198, 3200, 256, 22), RunSettings(horizon_s=20, warmup_s=5)).long


def test_a_rate_is_long_only_where_it_is_more_than_what_is_taken_in():
    """Segments of a fast run are coarse where all keep up, however many tuples they hold."""
    steps = [estimate(clicks(rate), RunSettings()).steps for rate in (1e4, 1e5, 1e6, 1e7)]
    assert steps[2] < 1.5 * steps[0]
    assert steps[2] < LONG_STEPS < steps[3]


def test_no_more_is_handled_than_can_be():
    """The map can serve 1,000 tuples a second of the 100,000 that are offered; half a channel's results more leave."""
    job = chain([{"kind": "map", "name": "m", "service_time_s": 1e-3}], 1e5)
    loads = {load.cause.split(" that ")[-1]: load for load in traffic(compiled(job), EXACT, ())}
    assert loads["'m' takes in"].steps == pytest.approx(1000 * EXACT.horizon_s, rel=0.1)
    assert loads["'sink' takes in"].steps == pytest.approx(1000 * EXACT.horizon_s, rel=0.1)


def test_results_of_one_evaluation_wait_in_segments_of_what_may_travel():
    """They are cut to half a channel at most: ten times the channel, a tenth of the segments."""
    window = {"policy": "time", "size_s": 10, "slide_s": 10}
    each = {"kind": "aggregate", "name": "a", "window": window, "group_by": "int", "groups": 20_000}
    found = []
    for channel in (100, 1000):
        engine = STORM.model_copy(update={"channel_tuples": channel}).model_dump(mode="json")
        (held,) = (load.held for load in traffic(compiled(chain([each], 1e5, engine=engine)), FAST, ()) if load.held)
        found.append(held)
    assert found[0] == pytest.approx(10 * found[1]) and found[0] > 100
