"""Features that a cost model says it cannot see make no difference to it; others do."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
import pytest

import optimizers.policies  # noqa: F401  # so that scenarios can name them
from tests.twin.changing import job
from tests.twin.worlds import chain, deployment, joined, sink, source
from twin.cluster import Link, Numa, Socket
from twin.events import Failure
from twin.key_skew import KeySkew
from twin.metrics import METRICS
from twin.plan import ExecutionPlan
from twin.profiles import Noise
from twin.rates.model import SEEN, RateModel
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.unsupported import unsupported_features
from twin.workload import Diurnal, Poisson, Spikes

BASE = Scenario.of(job(rate=900, service_s=5e-4, key_groups=8, service_time_s=1.6e-3))
Change = Callable[[Scenario], Scenario]


def with_(**parts: Any) -> Change:
    """Function that replaces some parts of a scenario, given the old ones."""
    return lambda base: Scenario(**{**dict(base), **{name: change(base) for name, change in parts.items()}})


def dealt(consumer: str, **more: Any) -> Change:
    """Function that changes the partitioning of the stream into an operator."""

    def query(base: Scenario) -> Any:
        streams = (each.model_copy(update=more) if each.consumer == consumer else each for each in base.query.streams)
        return base.query.model_copy(update={"streams": tuple(streams)})

    return with_(query=query)


def engine(**more: Any) -> Change:
    return with_(engine=lambda base: base.engine.model_copy(update=more))


def hosts(**more: Any) -> Change:
    def cluster(base: Scenario) -> Any:
        return base.cluster.model_copy(
            update={"hosts": tuple(host.model_copy(update=more) for host in base.cluster.hosts)}
        )

    return with_(cluster=cluster)


def placed(**places: tuple[str, ...]) -> Change:
    return with_(plan=lambda base: base.plan.with_placement({**base.plan.placement, **places}))


def arriving(law: Diurnal | Poisson | Spikes) -> Change:
    return with_(workload=lambda base: base.workload.model_copy(update={"arrivals": {"source": law}}))


LINKS = tuple(Link(between=(f"h{k}", "switch"), bandwidth_mbps=100, latency_ms=300) for k in range(4))
NUMA = Numa(latency_ns=((0, 100_000), (100_000, 0)))

CHANGES: dict[str, tuple[Change, Change]] = {
    "events": (lambda base: base, lambda base: base.with_events(Failure(at_s=1, host="h2", recover_after_s=1))),
    "policy": (lambda base: base, lambda base: base.with_policy("ds2")),
    "arrivals": (
        lambda base: base,
        arriving(Spikes(rate_per_s=500, factor=4, every_s=0.5, duration_s=0.1)),
    ),
    "several": (
        arriving(Poisson(rate_per_s=90)),
        arriving(Diurnal(rate_per_s=90, amplitude=0.1, period_s=0.5)),
    ),
    "few": (
        arriving(Diurnal(rate_per_s=90, amplitude=0.1, period_s=0.5)),
        arriving(Diurnal(rate_per_s=90, amplitude=0.1, period_s=60)),
    ),
    "pauses": (lambda base: base, engine(noise=Noise(gc_interval_s=2, gc_pause_s=1.5))),
    "jitter": (lambda base: base, engine(noise=Noise(jitter_scv=1))),
    "batches": (lambda base: base, engine(batch_records=100, flush_s=5.0)),
    "forward": (placed(a=("h1", "h2"), sink=("h1", "h2")), dealt("sink", partitioning="forward")),
    "global": (placed(sink=("h2", "h3")), dealt("sink", partitioning="global")),
    "drift": (
        with_(workload=lambda base: base.workload.model_copy(update={"keys": {"a": KeySkew(zipf=1)}})),
        with_(workload=lambda base: base.workload.model_copy(update={"keys": {"a": KeySkew(zipf=1, drift_every_s=5)}})),
    ),
    "drops": (lambda base: base, dealt("m", overflow="drop")),
    "sockets": (
        lambda base: base,
        lambda base: placed(source=("h0/1",))(hosts(sockets=(Socket(cores=2), Socket(cores=2)), numa=NUMA)(base)),
    ),
    "links": (
        lambda base: base,
        with_(cluster=lambda base: base.cluster.model_copy(update={"links": LINKS, "switches": ("switch",)})),
    ),
    "skew": (
        lambda base: base,
        with_(workload=lambda base: base.workload.model_copy(update={"keys": {"a": KeySkew(zipf=2)}})),
    ),
    "assignment": (
        lambda base: base,
        with_(
            plan=lambda base: ExecutionPlan(placement=base.plan.placement, key_groups={"a": (0, 0, 0, 0, 0, 0, 0, 1)})
        ),
    ),
    "fusion": (
        placed(source=("h1",), m=("h1",)),
        with_(plan=lambda base: base.plan.model_copy(update={"fused": (("source", "m"),)})),
    ),
    "broadcast": (placed(sink=("h2", "h3")), dealt("sink", partitioning="broadcast")),
    "shared": (placed(m=("h0", "h0")), dealt("m", partitioning="shared")),
    "two-choice": (
        with_(workload=lambda base: base.workload.model_copy(update={"keys": {"a": KeySkew(zipf=1)}})),
        dealt("a", partitioning="two-choice"),
    ),
}
"""By name of a feature, functions that make a scenario without it and, of that, one with it."""


def pair(name: str) -> tuple[Scenario, Scenario]:
    before, after = CHANGES[name]
    return before(BASE), after(before(BASE))


def estimates(scenario: Scenario) -> np.ndarray:
    found = RateModel().predict(scenario, [scenario.plan])
    return np.array([found[metric][0] for metric in METRICS])


@pytest.mark.parametrize("name", CHANGES)
def test_the_rate_model_says_what_it_does_not_see(name: str) -> None:
    without, has = pair(name)
    words = set(RateModel().blind_to(has)) - set(RateModel().blind_to(without))
    assert bool(words) == (name not in SEEN)
    same = np.allclose(estimates(without), estimates(has), rtol=1e-9)
    assert same == bool(words), f"{name}: {estimates(without)} and {estimates(has)}"


@pytest.mark.parametrize("name", CHANGES)
def test_who_sees_nothing_names_everything_and_who_sees_all_nothing(name: str) -> None:
    without, has = pair(name)
    assert set(unsupported_features(has, ())) > set(unsupported_features(without, ()))
    assert not unsupported_features(has, CHANGES)


@pytest.mark.parametrize(("how", "said"), [("rebalance", True), ("hash", False), ("broadcast", False)])
@pytest.mark.parametrize("kind", [{"kind": "session", "gap_s": 1, "keys": 50}, {"kind": "join", "selectivity": 0.01}])
def test_keys_that_are_apart_are_named(kind: dict[str, Any], how: str, said: bool) -> None:
    """Keys spread over subtasks are named: a join finds fewer matches then, and a session has parts."""
    if kind["kind"] == "join":
        kind = kind | {"window": {"policy": "time", "size_s": 1}}
    rates, places = {"one": 100, "two": 100}, {"keyed": {"h": 3}}
    found = joined(kind | {"name": "keyed"}, rates, placement=places, partitioning={"keyed": how})
    words = unsupported_features(Scenario.of(found), SEEN)
    assert any("several subtasks of keyed" in each for each in words) == said


def test_a_forward_stream_within_a_chain_is_sent_nowhere_and_not_named() -> None:
    _, forward = pair("forward")
    assert unsupported_features(forward, ()) == ("forward partitioning",)
    plan = forward.plan.model_copy(update={"fused": (("a", "sink"),)})
    assert unsupported_features(forward.with_plan(plan), ()) == ("chained operators (a + sink)",)


def test_a_plain_job_hides_nothing() -> None:
    assert unsupported_features(BASE, ()) == RateModel().blind_to(BASE) == ()


def test_without_noise_there_are_no_pauses_to_see() -> None:
    paused = pair("pauses")[1]
    assert unsupported_features(paused, ()) and not unsupported_features(paused.with_run(noise=False), ())


def test_the_horizon_of_the_question_reaches_the_rate_model() -> None:
    short = BASE.with_run(horizon_s=5, warmup_s=0)
    assert RateModel().blind_to(short) == ()
    assert estimates(short)[0] < estimates(BASE)[0], "a run that begins empty lacks the first window"
    (words,) = RateModel(horizon_s=60).blind_to(BASE)
    assert "60 s" in words


def test_count_windows_of_several_subtasks_are_named() -> None:
    """Count windows of several subtasks emit fewer results, as each fills with its keys; a model of one names that."""
    window = {"policy": "count", "size_records": 100}

    def counting(parallelism: int) -> Scenario:
        count = {"kind": "aggregate", "name": "n", "group_by": "int", "groups": 64, "window": window}
        made = chain([count], {"law": "constant", "rate_per_s": 500}, placement={"n": {"h": parallelism}})
        return Scenario.of(made).with_run(horizon_s=20)

    one, four = counting(1), counting(4)
    said = ["count windows" in " ".join(unsupported_features(each, ())) for each in (one, four)]
    assert said == [False, True] and not any(RateModel().blind_to(each) for each in (one, four))
    simulated = [simulate(each).metrics.throughput_per_s for each in (one, four)]
    assert simulated[1] < 0.5 * simulated[0]
    assert estimates(four)[0] == pytest.approx(simulated[1], rel=0.05)


@pytest.mark.parametrize(("batch", "size", "said"), [(1, 40, False), (100, 40, True), (100, 2000, False)])
def test_batches_that_keep_the_sides_of_a_count_window_apart_are_named(batch: int, size: int, said: bool) -> None:
    """Batches larger than a count window are named: it has records mostly of one side, so fewer pairs meet."""
    join = {"name": "j", "kind": "join", "selectivity": 0.01, "window": {"policy": "count", "size_records": size}}
    job = Scenario.of(joined(join, {"one": 1000, "two": 1000})).with_run(horizon_s=20, warmup_s=5)
    job = engine(batch_records=batch, flush_s=1.0)(job)
    assert any("batches of one side" in each for each in RateModel().blind_to(job)) == said
    ratio = estimates(job)[0] / simulate(job).metrics.throughput_per_s
    assert (ratio > 2.0) == said and ratio > 0.8


@pytest.mark.parametrize("evaluations", [1, 3, 8])
def test_few_evaluations_of_a_window_are_no_matter_of_chance(evaluations: int) -> None:
    """A time window is evaluated for sure, however few times."""
    window = {
        "kind": "aggregate",
        "name": "n",
        "group_by": "int",
        "groups": 64,
        "window": {"policy": "time", "size_s": 2},
    }
    job = Scenario.of(chain([window], 500)).with_run(horizon_s=2 + 2 * evaluations, warmup_s=2)
    assert RateModel().blind_to(job) == ()
    assert estimates(job)[0] / simulate(job).metrics.throughput_per_s == pytest.approx(1.0, rel=0.03)


@pytest.mark.parametrize(
    ("split", "way", "meet"),
    [
        ({"kind": "map"}, {"kind": "map"}, True),
        ({"kind": "router", "shares": {"a": 0.5, "b": 0.5}}, {"kind": "map"}, False),
        ({"kind": "map"}, {"kind": "aggregate", "window": {"policy": "time", "size_s": 1.0}, "groups": 1}, False),
    ],
)
def test_copies_of_a_record_meet_where_its_ways_join(split: dict[str, Any], way: dict[str, Any], meet: bool) -> None:
    """Copies of a record meet where its ways join, but for a router's single ways and the results of windows."""
    operators = [source(), split | {"name": "split"}, way | {"name": "a"}, {"kind": "map", "name": "b"}, sink()]
    ways = [("source", "split"), ("split", "a"), ("split", "b"), ("a", "sink"), ("b", "sink")]
    words = RateModel().blind_to(Scenario.of(deployment(operators, ways, {"source": 100})))
    assert any("copies of a record meet again at sink" in each for each in words) == meet


def test_jobs_of_many_operators_are_looked_at_once() -> None:
    """What is not seen of a job of 400 operators is known in the time of a few, as the job is compiled once."""
    long = Scenario.of(chain([{"kind": "map", "name": f"m{number:03}"} for number in range(400)], 10.0))
    began_s = process_time()
    assert unsupported_features(long, frozenset()) == ()
    assert process_time() - began_s < 30.0
