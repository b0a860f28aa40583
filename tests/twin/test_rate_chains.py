"""Rate model's laws of chains: a job says the same chained and apart where chaining costs nothing and saves nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.scenarios.test_permutations import FEW
from tests.twin.fused_jobs import filter_, fuse, map_
from tests.twin.worlds import HOST, chain, deployment, placed, simulated, sink, source
from twin.chaining import one_a_task
from twin.deployment import Deployment
from twin.profiles import FLINK, STORM
from twin.rates.model import RateAnswer, RateModel

FREE = {"name": "free", "serialise_ns_per_byte": 0.0, "deserialise_ns_per_byte": 0.0}
CREDITS = STORM.model_copy(update={**FREE, "flush_s": None, "channel_records": 10})
BUFFERS = FLINK.model_copy(update={**FREE, "flush_s": 1e-6})
TOLD = ("in_per_s", "out_per_s", "ingested", "cpu")
"""Figures of a job that chains do not change, overloaded or not."""


@dataclass(frozen=True)
class Line:
    """Random job: a row of operators of which some may be chained. group: these; work_s: service times; load: highest
    load of an operator."""

    names: tuple[str, ...]
    group: tuple[str, ...]
    places: dict[str, tuple[str, ...]]
    work_s: dict[str, float]
    selectivity: dict[str, float]
    law: dict[str, Any]
    engine: Any
    scv: float
    load: float
    within: str = "forward"

    @classmethod
    def drawn(cls, seed: int, engine: Any = None, thinner: float = 0.5) -> Line:
        """One operator of the chain has all of its work; operators outside of it may have some of their own. thinner:
        selectivity of some operators."""
        random = Random(seed)
        middle = [f"m{number}" for number in range(random.randint(2, 5))]
        names = ("source", *middle, "sink")
        first = random.randint(0, len(middle) - 1)
        group = names[first : random.randint(first + 1, len(middle)) + 1]
        parallelism = tuple(random.choice("hk") for _ in range(random.choice([1, 1, 2, 3])))
        places = {
            name: parallelism if name in group else (random.choice("hk"),) * random.choice([1, 2]) for name in names
        }
        load, per_s = random.choice([0.3, 0.8, 0.95, 1.5, 4.0]), 1000.0
        selectivity = {name: random.choice([1.0, 1.0, thinner]) for name in middle}
        engine = engine or random.choice([CREDITS, BUFFERS])
        poisson = engine is BUFFERS or random.random() < 0.5  # batches count as Poisson
        coming, rate = {}, per_s
        for name in names:
            coming[name] = rate
            rate *= selectivity.get(name, 1.0)
        others = [name for name in names if name not in group]
        heavy, light = random.choice(names), random.choice(others)
        work_s = {heavy: load * len(places[heavy]) / coming[heavy]}
        work_s.setdefault(light, random.choice([0.0, 0.5, 0.9]) * len(places[light]) / coming[light])
        law = {"law": "poisson" if poisson else "constant", "rate_per_s": per_s}
        scv = random.choice([0.0, 1.0])
        return cls(names, group, places, work_s, selectivity, law, engine, scv, load)

    @property
    def apart(self) -> Deployment:
        """Job with all operators apart."""
        operators = [
            {"kind": "filter", "name": name, "selectivity": self.selectivity[name]} for name in self.names[1:-1]
        ]
        operators = [source(), *operators, sink()]
        varied = {"service_scv": self.scv}
        operators = [each | {"service_time_s": self.work_s.get(each["name"], 0.0)} | varied for each in operators]
        return deployment(
            operators,
            list(pairwise(self.names)),
            {"source": self.law},
            hosts=[{**HOST, "name": name, "latency_ms": 0} for name in "hk"],
            placement={name: list(places) for name, places in self.places.items()},
            partitioning=dict.fromkeys(self.group[1:], self.within),
            engine=self.engine,
        )

    @property
    def chained(self) -> Deployment:
        """The same job, with the group chained."""
        return fuse(self.apart, self.group)


def said(job: Deployment, horizon_s: float = 86_400.0) -> RateAnswer:
    return RateModel(horizon_s).answer(job, [job.plan])


def same(one: RateAnswer, other: RateAnswer, figures: tuple[str, ...], rel: float = 1e-5, abs_: float = 1e-9) -> None:
    for name in figures:
        values = [each.costs[name] if name in each.costs.by_metric else getattr(each, name) for each in (one, other)]
        assert values[0] == pytest.approx(values[1], rel=rel, abs=abs_), name


@FEW
@given(seed=st.integers(0, 10**9))
@example(seed=45)
@example(seed=78)
def test_a_chain_with_one_operator_that_works_is_that_operator(seed: int) -> None:
    """Where one operator of a chain has all the work, the job bears, and takes, what it does apart."""
    line = Line.drawn(seed)
    apart, chained = said(line.apart), said(line.chained)
    same(apart, chained, ("throughput_per_s", *TOLD), rel=1e-4)
    assert (apart.costs["backpressured"] > 0.5) == (chained.costs["backpressured"] > 0.5)
    if line.load < 1.0:
        same(apart, chained, ("e2e_latency_s",), abs_=len(line.names) * 1e-6 / 2.0)  # apart, each waits for a flush


@FEW
@given(seed=st.integers(0, 10**9))
def test_only_the_sum_of_the_works_of_a_chain_counts(seed: int) -> None:
    """Constant works of a chain may be anywhere in it, and what is dealt within it, however, goes straight on."""
    line = replace(Line.drawn(seed, CREDITS, thinner=1.0), scv=0.0)
    random = Random(seed)
    parts = [random.random() for _ in line.group]
    whole_s = 0.7 * len(line.places[line.group[0]]) / 1000.0
    others_s = {name: each for name, each in line.work_s.items() if name not in line.group}
    spread_s = {name: whole_s * part / sum(parts) for name, part in zip(line.group, parts, strict=True)}
    first = said(replace(line, work_s=others_s | {line.group[0]: whole_s}).chained)
    spread = said(replace(line, work_s=others_s | spread_s, within="rebalance").chained)
    whole = ("throughput_per_s", "e2e_latency_s", "backpressured", "pressure", "used", "busiest_used")
    same(first, spread, (*whole, *TOLD))


def test_key_skew_is_as_uneven_behind_it_in_a_chain() -> None:
    """Behind an operator with a hot key, chained ones are as uneven as it is, however their stream is dealt."""
    rows = [{"kind": "map", "name": "keyed", "service_time_s": 1e-3, "key_groups": 6}, map_("behind", 1e-3)]
    keys = {"keyed": {"shares": [5, 1, 1, 1, 1, 1]}}
    places = {name: {"h": 3} for name in ("keyed", "behind")}
    found = []
    for how in ("forward", "rebalance"):
        dealt = {"keyed": "hash", "behind": how}
        job = fuse(chain(rows, 300, keys=keys, placement=places, partitioning=dealt), ("keyed", "behind"))
        found.append(said(job, 60.0))
    same(*found, ("e2e_latency_s", "pressure", "busiest", "busiest_used"))
    assert found[0].busiest[0, 1:3] == pytest.approx([1.8] * 2)


def test_a_chain_before_a_bottleneck_is_held_back_by_it() -> None:
    """Sources that are chained to an operator bear what the operators behind them do."""
    rows = [map_("parse", 1e-4), map_("work", 1e-3)]
    job = chain(rows, 1500, engine="flink", partitioning={"work": "rebalance"})
    for group in (("source", "parse"), ("parse", "work")):
        costs = said(fuse(job, group), 120.0).costs
        assert costs["backpressured"][0] > 0.5
        assert costs["throughput_per_s"][0] == pytest.approx(1000.0 if group[0] == "source" else 1 / 1.1e-3, rel=1e-3)


@pytest.mark.parametrize(
    "steps",
    [
        [map_("a", 1e-3), map_("many", 0.0, selectivity=3.0), map_("b", 3e-3)],
        [filter_("a", 1e-3, 0.3), map_("many", 0.0, selectivity=2.0), map_("b", 3e-3)],
        [map_("many", 1e-3, selectivity=2.0), filter_("a", 0.0, 0.3), map_("b", 3e-3)],
    ],
    ids=["many", "few and many", "many and few"],
)
def test_all_that_a_chain_makes_of_a_record_leaves_together(steps: list[dict[str, Any]]) -> None:
    """Results of a record leave a chain when the last of them is done: the mean age is that of runs."""
    names = [each["name"] for each in steps]
    job = fuse(chain([each | {"service_scv": 0.0} for each in steps], 20, engine=CREDITS), tuple(names))
    runs = [simulated(job, horizon_s=60.0, warmup_s=5.0, period_s=5.0, seed=seed) for seed in range(8)]
    ages_s = np.array([each.metrics.value("processing_latency_s") for each in runs])
    error_s = ages_s.std(ddof=1) / np.sqrt(len(ages_s))
    assert abs(ages_s.mean() - said(job, 60.0).costs["processing_latency_s"][0]) < 4.0 * error_s


def test_runs_of_a_chain_with_one_operator_that_works_are_those_of_that_operator() -> None:
    """Constant services on the same arrivals: the same results at the same ages, chained and apart."""
    lines = [replace(Line.drawn(seed, CREDITS, thinner=1.0), scv=0.0) for seed in range(24)]
    for line in (each for each in lines if each.load < 0.9):
        slow = {"law": line.law["law"], "rate_per_s": 50.0}
        line = replace(line, law=slow, work_s={name: 20.0 * each for name, each in line.work_s.items()})
        settings = {"horizon_s": 10.0, "warmup_s": 1.0, "period_s": 1.0}
        apart, chained = (simulated(job, **settings).metrics for job in (line.apart, line.chained))
        assert apart.records_out == chained.records_out
        assert apart.value("e2e_latency_s") == pytest.approx(chained.value("e2e_latency_s"), rel=1e-9)


# forward streams ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("before", "behind"), [("hk", "hk"), ("hk", "kh"), ("hhk", "hkk"), ("hkk", "hhk")])
@pytest.mark.parametrize("linked", [False, True])
def test_a_forward_stream_leaves_a_host_where_partners_are_apart(before: str, behind: str, linked: bool) -> None:
    """Network cards carry what partners on other hosts get, to the byte, and links too."""
    hosts = [{**HOST, "name": name} for name in "hk"]
    links = [{"between": ("h", "k"), "bandwidth_mbps": 100, "latency_ms": 1}] if linked else []
    job = chain([map_("a", 1e-4), map_("b", 1e-4)], 600, hosts=hosts, links=links, partitioning={"b": "forward"})
    job = placed(job, source=("h",), a=tuple(before), b=tuple(behind), sink=("k",))
    bytes_ = [job.engine.output_bytes(job.query, name) for name in ("source", "a", "b")]
    share = {
        "source": before.count("k") / len(before),
        "a": sum(pair == ("h", "k") for pair in zip(before, behind, strict=True)) / len(before),
        "b": behind.count("h") / len(behind),
    }
    sent = sum(600 * each * part for each, part in zip(bytes_, share.values(), strict=True))
    answer = said(job, 60.0)
    assert answer.card[0, 0] == pytest.approx(sent / (HOST["bandwidth_mbps"] * 1e6 / 8))
    if linked:
        assert answer.links[0, 0] == pytest.approx(sent / (100 * 1e6 / 8))


def test_forward_partners_on_sockets_fetch_nothing_from_another() -> None:
    """Partners on one socket have no remote memory between them; those on different sockets have the distance."""
    numa = {"latency_ns": [[0, 20_000], [20_000, 0]]}
    hosts = [{**HOST, "cpu_percent": 800, "sockets": [{"cores": 4}] * 2, "numa": numa}]
    used = []
    for behind in (("h/0", "h/1"), ("h/1", "h/0")):
        job = chain([map_("a", 1e-4), map_("b", 1e-4)], 600, hosts=hosts, partitioning={"b": "forward"})
        used.append(said(placed(job, source=("h/0",), a=("h/0", "h/1"), b=behind, sink=("h/0",)), 60.0))
    near, far = (each.service_s[0, 2] for each in used)
    lines = STORM.lines_of(STORM.output_bytes(job.query, "a"))
    assert far - near == pytest.approx(20e-6 * lines)


# readings -------------------------------------------------------------------------------------------------------------


def test_readings_of_chained_operators_count_once() -> None:
    readings = {"a": 0.5, "b": 0.5, "c": 0.2, "e": 0.1}
    assert one_a_task(readings, [("a", "b"), ("d", "e")]) == {"a": 0.5, "c": 0.2, "e": 0.1}


def test_the_rate_model_says_of_each_chained_operator_how_busy_its_task_is() -> None:
    """Used shares of chained operators are those of their task, as in runs; demands are each one's own."""
    job = fuse(chain([map_("a", 2e-3), map_("b", 3e-3)], 100), ("a", "b"))
    answer, run = said(job, 60.0), simulated(job, horizon_s=60.0, warmup_s=5.0, period_s=5.0)
    assert answer.used[0, 1] == answer.used[0, 2] == pytest.approx(0.5, rel=0.02)
    assert answer.busy_cores[0, 1:3] == pytest.approx([0.2, 0.3], rel=0.02)
    busy = {each.operator: each.busy for each in run.operators}
    assert busy["a"] == busy["b"] == pytest.approx(answer.used[0, 1], rel=0.1)
