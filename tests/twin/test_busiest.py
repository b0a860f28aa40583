"""Busiest subtask: it is full before the others, by arithmetic, by the rate model, and in overloaded runs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.twin.worlds import chain, deployment, joined, sink, source
from twin.deployment import Deployment
from twin.key_skew import KeySkew
from twin.metrics import METRICS
from twin.profiles import STORM
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

MS = 1e-3
RATE_PER_S = 100.0
RUN = RunSettings(horizon_s=60.0, warmup_s=15.0, period_s=5.0)
LONG = RUN.model_copy(update={"horizon_s": 200.0})
"""Settings of a run so long that what a channel holds is less than its overload."""


def work(name: str, ms: float, **more: Any) -> dict[str, Any]:
    return {"kind": "map", "name": name, "service_time_s": ms * MS, "service_scv": 0.5} | more


def job(operators: list[dict[str, Any]], *, hows: tuple[str | None, ...], **subtasks: int) -> Deployment:
    """Chain at RATE_PER_S; hows: partitioning of its streams."""
    names = [each["name"] for each in operators]
    return deployment(
        operators,
        list(pairwise(names)),
        {names[0]: RATE_PER_S},
        placement={name: {"h": count} for name, count in subtasks.items()},
        partitioning=dict(zip(names[1:], hows, strict=True)),
        engine=STORM.model_dump(mode="json") | {"channel_records": 20},
    )


def window(groups: int) -> dict[str, Any]:
    size = {"policy": "time", "size_s": 0.5}
    more = {"function": "count", "group_by": "int", "groups": groups, "window": size, "service_time_s": 2 * MS}
    return {"kind": "aggregate", "name": "count"} | more


def keyed(shares: list[float]) -> Deployment:
    """Job of four key groups on two subtasks, and a map behind each of them."""
    made = job(
        [source(), work("keyed", 1, key_groups=4), work("after", 6), sink()],
        hows=("hash", "forward", None),
        keyed=2,
        after=2,
    )
    return made.model_copy(
        update={"workload": made.workload.model_copy(update={"keys": {"keyed": KeySkew(shares=shares)}})}
    )


TOPIC = source("topic", kind="kafka-source", partitions=3)
JOBS = {
    "partitions": (
        job([TOPIC | {"service_time_s": 5 * MS}, sink()], hows=(None,), topic=2),
        1.0 / (2 / 3 * RATE_PER_S * 5 * MS),  # of three partitions one subtask reads two
        "topic",
    ),
    "behind partitions": (
        job([TOPIC, work("parse", 5), work("more", 3), sink()], hows=("forward", "rebalance", None), topic=2, parse=2),
        1.0 / (2 / 3 * RATE_PER_S * 5 * MS),
        "parse",
    ),
    "behind hot keys": (keyed([70, 10, 10, 10]), 1.0 / (0.8 * RATE_PER_S * 6 * MS), "after"),
    "few values of a key": (
        job([source(), window(5), sink()], hows=("hash", None), count=3),
        1.0 / (2 / 5 * RATE_PER_S * 2 * MS),  # of five values two are on the first of three subtasks
        "count",
    ),
    "the first alone": (
        job([source(), work("one", 4), sink()], hows=("global", None), one=3),
        1.0 / (RATE_PER_S * 4 * MS),
        "one",
    ),
}


def at(made: Deployment, factor: float, run: RunSettings = RUN) -> Scenario:
    laws = {name: law.scaled(factor) for name, law in made.workload.arrivals.items()}
    return Scenario.of(made.model_copy(update={"workload": made.workload.model_copy(update={"arrivals": laws})}), run)


@pytest.mark.parametrize("name", JOBS)
def test_a_job_bears_what_its_busiest_subtask_bears(name: str) -> None:
    """A job bears what its busiest subtask does: runs at a little less keep up, and at a little more do not."""
    made, factor, operator = JOBS[name]
    offered = RateModel().answer(made, [made.plan])
    assert offered.operators[offered.offered_pressure[0].argmax()] == operator
    assert 1.0 / offered.offered_pressure.max() == pytest.approx(factor, rel=0.01)
    for more, backpressured in ((0.9, False), (1.15, True)):
        now = at(made, more * factor)
        assert simulate(now).metrics.backpressured == backpressured
        answer = RateModel().lasting().answer(now, [now.plan])
        assert (answer.costs["backpressured"][0] > 0.5) == backpressured
        used = answer.busiest_used[0, answer.operators.index(operator)]
        assert used == pytest.approx(min(more, 1.0), rel=0.02)


@pytest.mark.parametrize("name", ["partitions", "behind partitions", "behind hot keys"])
def test_waits_are_those_of_busy_and_of_idle_subtasks(name: str) -> None:
    """Waits are a mean of busy and idle subtasks, beside twelve runs at 80 % of what the busiest bears."""
    made, factor, _ = JOBS[name]
    now = at(made, 0.8 * factor)
    runs = [simulate(now.with_run(seed=seed)).metrics.value("e2e_latency_s") for seed in range(12)]
    known = RateModel().predict(now, [now.plan])["e2e_latency_s"][0]
    assert known == pytest.approx(np.mean(runs), rel=0.1)


def test_loads_that_grow_faster_than_the_rates_are_followed() -> None:
    """A join's results grow with the square of the rate: a sink of 1 ms a result is full at the root of its room."""
    window = {"policy": "time", "size_s": 1.0}
    join = {"kind": "join", "name": "join", "selectivity": 0.01, "window": window, "service_time_s": 0}
    made = joined(join, {"a": 100, "b": 100}, sink(service_time_s=1 * MS))
    per_s = RateModel().answer(made, [made.plan]).offered_out_per_s[0, 2]
    full = at(made, (1000.0 / per_s) ** 0.5)
    assert RateModel().answer(full, [full.plan]).offered_pressure.max() == pytest.approx(1.0, rel=0.04)


def test_keys_of_few_values_feed_as_many_subtasks():
    """Three key values feed the first three of eight subtasks, here on a host of 1.2 cores that needs 1.8."""
    count = window(3) | {"service_time_s": 18 * MS}
    places = {"count": ["slow"] * 3 + ["h"] * 5}
    hosts = [
        {"name": name, "cpu_percent": cpu, "ram_mb": 64_000, "bandwidth_mbps": 10_000, "latency_ms": 0.01}
        for name, cpu in (("h", 800), ("slow", 120))
    ]
    made = chain([count], RATE_PER_S, hosts=hosts, placement=places)
    assert RateModel().answer(made, [made.plan]).offered_pressure[0, 1] == pytest.approx(1.5, rel=0.01)


UNLIKE = [
    {"name": name, "cpu_percent": cpu, "ram_mb": 64_000, "bandwidth_mbps": 10_000, "latency_ms": 0.01}
    for name, cpu in (("h", 800), ("weak", 50), ("strong", 200))
]


def on_unlike_hosts(places: list[str], keys: dict[str, Any]) -> Deployment:
    """Job of 160 records a second of 5 ms each, by key to subtasks on hosts of half a core and of two."""
    operators = [source(), work("keyed", 5, key_groups=len(keys.get("shares", range(32)))), sink()]
    return deployment(
        operators,
        [("source", "keyed"), ("keyed", "sink")],
        {"source": 160.0},
        hosts=UNLIKE,
        placement={"keyed": places},
        keys={"keyed": keys},
    )


@pytest.mark.parametrize(
    ("places", "shares", "pressure"),
    [
        (["weak", "strong"], [3, 1], 0.6 / 0.5),
        (["strong", "weak"], [3, 1], 0.6),
        (["strong", "weak"], [1, 3], 0.6 / 0.5),
        (["weak", "strong"], [1, 3], 0.6),
    ],
)
def test_a_host_gets_what_its_own_subtasks_do(places: list[str], shares: list[float], pressure: float) -> None:
    """A host's load is that of its own subtasks; runs agree on whether the job keeps up, and on its latency."""
    made = on_unlike_hosts(places, {"shares": shares})
    assert RateModel().answer(made, [made.plan]).offered_pressure.max() == pytest.approx(pressure, rel=0.01)
    runs = [simulate(Scenario.of(made, LONG.model_copy(update={"seed": seed}))).metrics for seed in range(4)]
    assert all(run.backpressured == (pressure > 1.0) for run in runs)
    if pressure < 1.0:
        answer = RateModel().answer(Scenario.of(made, LONG), [made.plan])
        assert answer.busiest_used[0, 1] == pytest.approx(pressure, rel=0.01)
        known = answer.costs["e2e_latency_s"][0]
        assert known == pytest.approx(np.mean([run.value("e2e_latency_s") for run in runs]), rel=0.1)


def test_subtasks_counted_by_socket_are_in_the_order_of_sockets() -> None:
    """Plans as counts by socket get the answer of the plan that is made of them."""
    made = on_unlike_hosts(["weak", "strong", "strong"], {"shares": [5, 2, 1]})
    counts = np.array([[[1, 0, 0], [0, 1, 2], [1, 0, 0]]])
    by_plan, by_count = RateModel().answer(made, [made.plan]), RateModel().answer_counts(made, counts)
    for metric in ("throughput_per_s", "processing_latency_s", "backpressured"):
        assert by_count.costs[metric] == pytest.approx(by_plan.costs[metric], rel=1e-9)


def test_a_busiest_subtask_that_nobody_knows_is_anywhere_with_a_chance() -> None:
    """An unknown busiest subtask may be anywhere: sums over all are those of even subtasks, the order of places makes
    no difference, and the worst host decides what the job bears."""
    several = [on_unlike_hosts(places, {"zipf": 1.0}) for places in (["weak", "strong"], ["strong", "weak"])]
    one, other = (RateModel().answer(each, [each.plan]) for each in several)
    even = on_unlike_hosts(["weak", "strong"], {})
    assert one.offered_cpu == pytest.approx(RateModel().answer(even, [even.plan]).offered_cpu)
    assert one.offered_pressure == pytest.approx(other.offered_pressure)
    assert one.costs["processing_latency_s"] == pytest.approx(other.costs["processing_latency_s"])
    assert one.offered_pressure.max() == pytest.approx(one.busiest.max() * 0.4 / 0.5, rel=0.01)


def test_subtasks_that_get_nothing_are_no_trouble() -> None:
    """Subtasks may get nothing, on sockets with a clock, where demands are divided by each one's input."""
    sockets = [{"cores": 1, "clock_ghz": 2.0}] * 2
    host = {"name": "h", "cpu_percent": 200, "ram_mb": 64_000, "bandwidth_mbps": 10_000, "latency_ms": 0.01}
    made = deployment(
        [source(), work("keyed", 5, key_groups=2), sink()],
        [("source", "keyed"), ("keyed", "sink")],
        {"source": 100.0},
        hosts=[host | {"sockets": sockets}],
        placement={"source": "h/0", "sink": "h/0", "keyed": ["h/0", "h/1"]},
        keys={"keyed": {"shares": [1, 0]}},
    )
    answer = RateModel().predict(made, [made.plan])
    assert np.isfinite([answer[metric][0] for metric in METRICS]).all()
    assert answer["throughput_per_s"][0] == pytest.approx(100.0, rel=0.01)


def test_state_of_key_groups_is_where_the_groups_are() -> None:
    """State is where key groups are: two of four on each host, though one gets nine records of ten."""
    made = on_unlike_hosts(["weak", "strong"], {"shares": [9, 9, 1, 1]})
    keyed = made.query.operator("keyed").model_copy(update={"state_bytes_per_group": 1e9})
    operators = tuple(keyed if each.name == "keyed" else each for each in made.query.operators)
    made = made.model_copy(update={"query": made.query.model_copy(update={"operators": operators})})
    _, weak, strong = RateModel().answer(made, [made.plan]).memory[0]
    assert weak == pytest.approx(strong)


def test_a_socket_with_the_busiest_on_it_may_be_full_that_is_not_on_average() -> None:
    """A core with the busiest subtask is full at 390 a second, as in runs, though it is not on average."""
    hosts = [each | {"cpu_percent": 100} for each in UNLIKE]
    made = deployment(
        [source(), work("keyed", 5, key_groups=32), sink()],
        [("source", "keyed"), ("keyed", "sink")],
        {"source": 390.0},
        hosts=[UNLIKE[0], *hosts[1:]],
        placement={"keyed": ["weak", "weak", "strong", "strong"]},
        keys={"keyed": {"zipf": 1.0}},
    )
    answer = RateModel().lasting().answer(made, [made.plan])
    assert answer.offered_pressure.max() > 1.0
    runs = [simulate(Scenario.of(made, LONG.model_copy(update={"seed": seed}))).metrics for seed in range(5)]
    assert np.mean([run.backpressured for run in runs]) > 0.5


def test_a_full_channel_holds_up_what_goes_through_it() -> None:
    """Only records of a full subtask, which gets three of four, wait in its channel; those of the other do not."""
    made = on_unlike_hosts(["strong", "strong"], {"shares": [3, 1]})
    now = at(made, 4.0, RunSettings(horizon_s=200.0, warmup_s=100.0))
    runs = [simulate(now.with_run(seed=seed)).metrics.value("processing_latency_s") for seed in range(2)]
    known = RateModel().predict(now, [now.plan])["processing_latency_s"][0]
    assert known == pytest.approx(np.mean(runs), rel=0.1)


def test_a_local_stream_behind_keys_that_nobody_knows_is_the_same_in_any_order() -> None:
    answers = []
    for places in (["weak", "strong"], ["strong", "weak"]):
        made = deployment(
            [source(), work("keyed", 1, key_groups=32), work("near", 1), sink()],
            [("source", "keyed"), ("keyed", "near"), ("near", "sink")],
            {"source": 100.0},
            hosts=UNLIKE,
            placement={"keyed": places, "near": ["weak", "strong", "strong", "strong"]},
            partitioning={"near": "local"},
            keys={"keyed": {"zipf": 1.0}},
        )
        answers.append(RateModel().answer(made, [made.plan]))
    assert answers[0].busiest == pytest.approx(answers[1].busiest)


def test_the_subtask_that_works_most_is_the_one_that_is_far() -> None:
    """The far subtask works most, as it fetches; both keep up, so that they work as much as they are offered."""
    numa = {"latency_ns": [[0, 500_000], [500_000, 0]]}
    made = deployment(
        [source(), work("both", 5), sink()],
        [("source", "both"), ("both", "sink")],
        {"source": 200.0},
        hosts=[UNLIKE[0] | {"cpu_percent": 400, "sockets": [{"cores": 2}] * 2, "numa": numa}],
        placement={"source": "h/0", "sink": "h/0", "both": ["h/0", "h/1"]},
    )
    answer = RateModel().answer(made, [made.plan])
    assert answer.busiest_used[0, 1] == pytest.approx(answer.offered_pressure[0, 1])
    assert answer.busiest_used[0, 1] > 1.05 * answer.busy_cores[0, 1]
