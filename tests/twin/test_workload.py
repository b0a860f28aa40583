"""Arrival laws: counts follow the cumulative intensity, whatever the grain; files, splits, rate changes, backlogs."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from scenarios import files
from scenarios.overrides import set_value
from tests.twin.worlds import chain
from twin.arrivals.law import MIN_RATE_PER_S, ArrivalLaw
from twin.engine.broker import Broker
from twin.engine.clock import Clock, clock
from twin.engine.segment import Segment
from twin.errors import BadInput
from twin.randomness import stream
from twin.run import Run
from twin.scenario import RunSettings
from twin.simulation import simulate
from twin.spec import parse
from twin.workload import Workload

TWO_STATES = {"law": "bursty", "states": [{"rate_per_s": 400, "mean_s": 0.5}, {"rate_per_s": 0, "mean_s": 1.5}]}
DIURNAL = {"law": "diurnal", "rate_per_s": 300, "amplitude": 1, "period_s": 8, "phase": 0.25}
STEPS = {
    "law": "steps",
    "period_s": 8,
    "steps": [{"at_s": 1, "rate_per_s": 500}, {"at_s": 3, "rate_per_s": 0}, {"at_s": 6, "rate_per_s": 100}],
}
SPIKES = {"law": "spikes", "rate_per_s": 100, "factor": 8, "every_s": 4, "duration_s": 1}
RATES = "time_s,rate_per_s\n100,50\n102,700\n103,0\n104,100\n"  # lasts 4 + 4/3 s
LAWS = {
    "poisson": {"law": "poisson", "rate_per_s": 200},
    "constant": {"law": "constant", "rate_per_s": 200},
    "diurnal": DIURNAL,
    "steps": STEPS,
    "spikes": SPIKES,
}


def law_of(data: dict[str, Any]) -> ArrivalLaw:
    return parse(Workload, {"arrivals": {"source": data}}).arrivals["source"]


def clock_of(law: ArrivalLaw, size: int, seed: int = 1, replica: int = 0, replicas: int = 1) -> Clock:
    return clock(law, replica, replicas, size, stream(seed, f"own{replica}"), stream(seed, "shared"))


def groups(clock: Clock, until_s: float, at_once: int = 1) -> Iterator[tuple[int, float, float]]:
    """(tuples, since, last) of all groups handed over by a time."""
    while True:
        clock.plan(clock.due_s, at_once)
        if clock.due_s > until_s:
            return
        if clock.n:
            yield clock.n, clock.since_s, clock.last_s


def counts(clock: Clock, edges: np.ndarray, at_once: int = 1) -> np.ndarray:
    """Tuples between neighbouring edges; a group's tuples lie evenly between its ends."""
    found = np.zeros(len(edges))
    for n, since, last in groups(clock, edges[-1] + 0.5, at_once):
        share = (edges - since) / (last - since) if last > since else (edges >= last)
        found += n * np.clip(share, 0.0, 1.0)
    return np.diff(found)


def rate_at(name: str, t: np.ndarray) -> np.ndarray:
    """The rates that the laws above promise, written down once more."""
    match name:
        case "diurnal":
            return 300 * (1 + np.sin(2 * np.pi * (t / 8 + 0.25)))
        case "steps":
            return np.select([t % 8 < 1, t % 8 < 3, t % 8 < 6], [0, 500, 0], 100)
        case "spikes":
            return np.where(t % 4 < 3, 100, 800)
        case _:
            return np.full_like(t, 200.0)


def expected(name: str, edges: np.ndarray) -> np.ndarray:
    fine = np.linspace(edges[0], edges[-1], (len(edges) - 1) * 2000 + 1)
    middle = (fine[1:] + fine[:-1]) / 2
    return (rate_at(name, middle) * np.diff(fine)).reshape(len(edges) - 1, -1).sum(axis=1)


@pytest.mark.parametrize("size", [1, 50])
@pytest.mark.parametrize("name", LAWS)
def test_counts_follow_the_cumulative_intensity(name: str, size: int) -> None:
    """Pearson's statistic over bins of half a second; a silent bin is empty."""
    edges = np.arange(0.0, 40.5, 0.5)
    want = expected(name, edges)
    got = counts(clock_of(law_of(LAWS[name]), size), edges)
    assert got[want < 1e-9].sum() < 1e-6
    some = want > 1e-9
    freedom = some.sum()
    assert ((got - want)[some] ** 2 / want[some]).sum() < freedom + 4 * math.sqrt(2 * freedom)
    assert abs(got.sum() - want.sum()) < 4 * math.sqrt(want.sum())


@pytest.mark.parametrize("name", ["diurnal", "steps", "spikes"])
def test_even_spacing_has_no_noise(name: str) -> None:
    law = law_of(LAWS[name] | {"poisson": False})
    assert law.gap_scv == 0.0
    for size in (1, 50):
        edges = np.arange(0.0, 40.5, 0.5)
        assert np.abs(np.cumsum(counts(clock_of(law, size), edges)) - np.cumsum(expected(name, edges))).max() < 2.0


@pytest.mark.parametrize("name", ["poisson", "constant"])
@pytest.mark.parametrize("size", [1, 10])
def test_gaps_have_the_moments_that_a_steady_law_states(name: str, size: int) -> None:
    law = law_of(LAWS[name])
    gaps = np.array([last - since for _, since, last in groups(clock_of(law, size), 50.0 * size)])
    assert gaps.mean() == pytest.approx(size / law.mean_rate_per_s, rel=0.04)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(law.gap_scv / size, rel=0.1, abs=1e-9)


@pytest.mark.parametrize("size", [1, 40])
def test_bursty_counts_have_mean_and_variance_of_the_process(size: int) -> None:
    """Var N(t) = m t + 2 p q d^2 (t/k - (1 - e^(-k t))/k^2), d: difference of rates, k: sum of switching rates."""
    law, t = law_of(TWO_STATES), 6.0
    got = np.array([counts(clock_of(law, size, seed), np.array([0.0, t]))[0] for seed in range(150)])
    k = 1 / 0.5 + 1 / 1.5
    variance = 100 * t + 2 * 0.25 * 0.75 * 400**2 * (t / k - (1 - math.exp(-k * t)) / k**2)
    assert abs(got.mean() - 100 * t) < 4 * math.sqrt(variance / 150)
    assert abs(got.var() / variance - 1) < 4 * math.sqrt(2 / 150) + 0.05


def test_random_spikes_come_as_often_as_regular_ones() -> None:
    law = law_of(SPIKES | {"random": True, "every_s": 2})
    got = counts(clock_of(law, 20), np.array([0.0, 2000.0]))[0]
    cycles = 1000  # one cycle in tuples: 1 s at 800/s and a quiet time whose length varies like its mean, 1 s
    assert abs(got - law.mean_rate_per_s * 2000) < 4 * math.sqrt(cycles) * 1.1 * 350


@pytest.mark.parametrize(
    "data",
    [
        DIURNAL,
        STEPS,
        SPIKES,
        {"law": "steps", "steps": [{"at_s": 0, "rate_per_s": 7}]},
        {"law": "steps", "steps": [{"at_s": 0, "rate_per_s": 1}, {"at_s": 2, "rate_per_s": 4}]},
        {"law": "poisson", "rate_per_s": 3},
    ],
)
def test_mean_and_peak_are_those_of_the_phases(data: dict[str, Any]) -> None:
    law, left_s, tuples, peak = law_of(data), 8.0, 0.0, 0.0
    if data.get("steps", [{}])[-1].get("at_s") == 2:
        left_s = 4.0  # the last step counts as long as the first
    whole_s = left_s
    for length_s, rate in law.phases(stream(0, "")):
        tuples += rate * min(length_s, left_s)
        peak = max(peak, rate)
        left_s -= length_s
        if left_s <= 1e-9:
            break
    assert law.mean_rate_per_s == pytest.approx(tuples / whole_s)
    assert law.peak_rate_per_s == pytest.approx(peak, rel=2e-3)
    assert law.scaled(0.3).mean_rate_per_s == pytest.approx(0.3 * law.mean_rate_per_s)
    assert law.scaled(0.3).peak_rate_per_s == pytest.approx(0.3 * law.peak_rate_per_s)


amounts = st.floats(min_value=0, max_value=1e4)
lengths = st.floats(min_value=1e-3, max_value=50)
states = st.lists(st.fixed_dictionaries({"rate_per_s": amounts, "mean_s": lengths}), min_size=2, max_size=4)
random_laws = st.one_of(
    st.builds(
        lambda rate, amplitude, period: {
            "law": "diurnal",
            "rate_per_s": rate,
            "amplitude": amplitude,
            "period_s": period,
        },
        st.floats(min_value=1e-3, max_value=1e6),
        st.floats(min_value=0, max_value=1),
        lengths,
    ),
    states.filter(lambda each: any(state["rate_per_s"] >= MIN_RATE_PER_S for state in each)).map(
        lambda each: {"law": "bursty", "states": each}
    ),
    st.builds(
        lambda rate, factor, quiet, spike, random: {
            "law": "spikes",
            "rate_per_s": rate,
            "factor": factor,
            "every_s": quiet + spike,
            "duration_s": spike,
            "random": random,
        },
        st.floats(min_value=1e-3, max_value=1e5),
        st.floats(min_value=0, max_value=100),
        lengths,
        lengths,
        st.booleans(),
    ),
)
doings = st.lists(st.tuples(st.sampled_from(["plan", "cut", "scale"]), st.integers(1, 50)), max_size=40)


@settings(deadline=None, max_examples=80)
@given(random_laws, st.booleans(), st.sampled_from([1, 7, 500]), doings)
def test_whatever_is_done_to_a_clock_time_goes_forward(
    data: dict[str, Any], poisson: bool, size: int, doings: list[tuple[str, int]]
) -> None:
    clock, now_s = clock_of(law_of(data | {"poisson": poisson}), size), 0.0
    clock.plan(0.0, 1)
    for doing, number in doings:
        slack = 1e-9 * (1 + now_s)
        assert clock.n >= 0
        assert clock.due_s >= now_s - slack
        if clock.n:
            assert clock.since_s <= clock.last_s + slack and clock.last_s <= clock.due_s
            assert clock.last_s >= now_s - slack
            piece = clock.piece()
            taken = piece.take(size, 10**6)
            assert sum(n for n, _, _ in taken) == clock.n and piece.n == 0
            bounds = [time for _, first, last in taken for time in (first, last)]
            assert all(a <= b + slack for a, b in pairwise([clock.since_s, *bounds, clock.last_s]))
        if doing == "plan" or math.isinf(clock.due_s):
            now_s = clock.due_s
        else:
            now_s += (clock.due_s - now_s) * number / 51
            told = clock.came(now_s)
            assert 0 <= told <= clock.n
            clock.cut(now_s)
            assert clock.n >= told and (not clock.n or clock.last_s <= now_s + slack)
            if doing == "scale":
                clock.scale(number / 10)
        if math.isinf(now_s):
            return
        clock.plan(now_s, number)


class Collector:
    """Stands in for a source that takes nothing until told."""

    def __init__(self) -> None:
        self.queue: deque[Segment] = deque()
        self.queued = 0
        self.tuples_in = 10**9  # a source that keeps up takes segments as they come
        self.behind = False
        self.refill = lambda: None

    def deliver(self, segment: Segment) -> None:
        self.queue.append(segment)
        self.queued += segment.n

    def take_all(self) -> list[Segment]:
        taken: list[Segment] = []
        while self.queue or self.behind:
            if not self.queue:
                self.refill()
            taken += self.queue
            self.queued -= sum(segment.n for segment in self.queue)
            self.queue.clear()
        return taken


def broker_of(data: dict[str, Any], size: int, seed: int = 1) -> tuple[simpy.Environment, Collector, Broker]:
    env, source, law = simpy.Environment(), Collector(), law_of(data)
    return env, source, Broker(env, source, clock_of(law, size, seed), law.gap_scv, size)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [1, 10])
@pytest.mark.parametrize("law", ["poisson", "constant"])
def test_a_backlog_of_many_is_few_objects_and_loses_no_time(law: str, size: int) -> None:
    env, source, broker = broker_of({"law": law, "rate_per_s": 2e4}, size)
    env.run(until=10.0)
    assert len(source.queue) + len(broker._pieces) < 200
    assert broker.arrived == broker.backlog == pytest.approx(2e5, abs=2e3)
    before = broker.arrived
    first = source.take_all()
    assert sum(segment.n for segment in first) == broker.arrived == pytest.approx(before, abs=2e3)
    assert broker.arrived >= before and broker.backlog == 0
    ends = np.array([segment.b_s for segment in first])
    assert (np.diff(ends) >= 0).all() and ends[-1] <= 10.0
    gaps = np.diff(ends) * 2e4 / size  # Gamma of that many tuples, of mean 1
    whole = np.array([segment.n == size for segment in first])[1:]
    assert gaps[whole].mean() == pytest.approx(1, abs=0.01)
    assert gaps[whole].var() == pytest.approx(broker.gap_scv / size, rel=0.05, abs=1e-9)
    counts = np.histogram(ends, bins=500, range=(0, 10))[0] * size
    if law == "poisson":
        assert counts.var() / counts.mean() == pytest.approx(1, abs=4 * math.sqrt(2 / 500))


def test_a_rate_change_takes_effect_at_once() -> None:
    """10 tuples a second; at 10.05 s half a gap is over, the rest and all that follow are three times as short."""
    env, source, broker = broker_of({"law": "constant", "rate_per_s": 10}, 64)
    env.run(until=10.05)
    broker.scale(3.0)
    assert broker.arrived == source.queued == 100
    env.run(until=20.0)
    broker.scale(1.0)
    assert broker.arrived == 100 + math.floor(0.5 + 30 * 9.95)
    ends = [segment.b_s for segment in source.take_all()]
    assert ends == sorted(ends)
    with pytest.raises(ValueError, match="factor"):
        broker.scale(0.0)


@pytest.mark.parametrize("data", [LAWS["poisson"], DIURNAL, TWO_STATES])
@pytest.mark.parametrize("size", [1, 30])
def test_rate_changes_scale_the_expected_counts(data: dict[str, Any], size: int) -> None:
    before, after = [], []
    for seed in range(60):
        env, _, broker = broker_of(data, size, seed)
        env.run(until=8.0)
        broker.scale(4.0)
        before.append(broker.arrived)
        env.run(until=16.0)
        broker.scale(1.0)
        after.append(broker.arrived - before[-1])
    mean = law_of(data).mean_rate_per_s * 8
    for found, want in ((before, mean), (after, 4 * mean)):
        assert abs(np.mean(found) - want) < 4 * np.std(found, ddof=1) / math.sqrt(60)


# in a simulation ---------------------------------------------------------------------------------------------------


def arrived(run: Run) -> np.ndarray:
    return np.array([row["arrived"] for row in run.operator_rows if row["operator"] == "source"])


@pytest.mark.parametrize("data", [DIURNAL, STEPS, SPIKES, TWO_STATES])
@pytest.mark.parametrize("service_s", [1e-4, 5e-3])
def test_exact_and_fast_agree_on_arrivals(data: dict[str, Any], service_s: float) -> None:
    """Keeping up, and far behind (so that tuples are gathered)."""
    middle = [{"kind": "filter", "name": "f", "selectivity": 1, "service_time_s": service_s, "service_scv": 0}]
    runs = [
        simulate(chain(middle, data), RunSettings(horizon_s=24, period_s=1, fidelity=fidelity, seed=4, segments=400))
        for fidelity in ("exact", "fast")
    ]
    exact, fast = map(arrived, runs)
    n = 20  # a segment may hold that many tuples of the period before
    assert (np.abs(exact - fast) < 4.5 * np.sqrt(exact + fast + 1) + n).all()
    assert exact.sum() > 1000
    throughput = [run.metrics.throughput_per_s for run in runs]
    assert throughput[0] == pytest.approx(throughput[1], rel=0.12)


@pytest.mark.parametrize("data", [TWO_STATES, DIURNAL, SPIKES | {"random": True}])
def test_same_seed_same_run(data: dict[str, Any]) -> None:
    first, again, other = (
        simulate(chain([], data), RunSettings(horizon_s=10, period_s=1, seed=seed)).operator_rows for seed in (1, 1, 2)
    )
    assert first == again != other


@pytest.mark.parametrize("data", [DIURNAL, STEPS, SPIKES, TWO_STATES, LAWS["constant"]])
@pytest.mark.parametrize("fidelity", ["exact", "fast"])
def test_replicas_share_the_rate(data: dict[str, Any], fidelity: str) -> None:
    one, many = (
        simulate(
            chain([], data, placement={"source": ["h"] * replicas}),
            RunSettings(horizon_s=16, period_s=0.5, fidelity=fidelity, seed=2, segments=1000),
        )
        for replicas in (1, 4)
    )
    a, b = arrived(one), arrived(many)
    assert abs(int(a.sum()) - int(b.sum())) < 4 * math.sqrt(a.sum() + b.sum()) + 16
    if data is TWO_STATES:  # the same bursts come to all at the same time, so the total is as bursty as one source's
        assert np.corrcoef(a, b)[0, 1] > 0.9


@pytest.mark.parametrize(
    "data",
    [
        {
            "law": "steps",
            "steps": [
                {"at_s": 1, "rate_per_s": 0},
                {"at_s": 2, "rate_per_s": 1e9},
                {"at_s": 2.001, "rate_per_s": 1e-9},
                {"at_s": 3, "rate_per_s": 0},
            ],
        },
        {"law": "bursty", "states": [{"rate_per_s": 1e9, "mean_s": 0.01}, {"rate_per_s": 0, "mean_s": 9}]},
        {"law": "diurnal", "rate_per_s": 1e8, "amplitude": 1, "period_s": 1},
        {"law": "spikes", "rate_per_s": 1e-3, "factor": 1e6, "every_s": 2, "duration_s": 1},
        {"law": "constant", "rate_per_s": 1e9},
        {"law": "steps", "steps": [{"at_s": 1e6, "rate_per_s": 1}]},
    ],
)
@pytest.mark.parametrize("fidelity", ["exact", "fast"])
def test_extreme_rates_neither_hang_nor_lose_tuples(data: dict[str, Any], fidelity: str) -> None:
    middle = [{"kind": "filter", "name": "f", "selectivity": 1, "service_time_s": 1e-3}]
    run = simulate(chain(middle, data), RunSettings(horizon_s=5, period_s=1, fidelity=fidelity))
    assert (arrived(run) >= 0).all()
    assert run.cpu_s < 3


# recordings --------------------------------------------------------------------------------------------------------


def recorded(path: Path, text: str) -> dict[str, Any]:
    path.write_text(text)
    return {"law": "replay", "path": str(path)}


def times_file(path: Path, times: np.ndarray) -> dict[str, Any]:
    return recorded(path, "time_s\n" + "\n".join(map(repr, times.tolist())) + "\n")


TIMES = np.cumsum(stream(3, "times").exponential(0.01, 500)) + 1e6


@pytest.mark.parametrize("replicas", [1, 3])
def test_replayed_tuples_come_exactly_when_recorded(tmp_path: Path, replicas: int) -> None:
    law = law_of(times_file(tmp_path / "times.csv", TIMES) | {"loop": False})
    clocks = [clock_of(law, 1, replica=k, replicas=replicas) for k in range(replicas)]
    got = sorted(last for each in clocks for n, _, last in groups(each, 100.0) if n == 1)
    assert got == pytest.approx(TIMES - TIMES[0], abs=1e-9)
    assert law.mean_rate_per_s == pytest.approx(499 / (TIMES[-1] - TIMES[0]))
    assert law.gap_scv == pytest.approx(1, abs=0.2)


def test_a_replay_that_is_far_behind_keeps_every_time(tmp_path: Path) -> None:
    env, source, broker = broker_of(times_file(tmp_path / "times.csv", TIMES) | {"loop": False}, 1)
    env.run(until=3.0)
    relative = TIMES - TIMES[0]
    assert broker.arrived == (relative <= 3.0).sum()
    early = source.take_all()
    env.run(until=20.0)
    got = [segment.b_s for segment in early + source.take_all()]
    assert got == pytest.approx(relative, abs=1e-9)


def test_replay_in_a_simulation_counts_as_recorded(tmp_path: Path) -> None:
    data = times_file(tmp_path / "times.csv", TIMES)
    relative = TIMES - TIMES[0]
    want = np.histogram(relative, bins=np.arange(0, 5))[0]
    exact, fast = (
        arrived(simulate(chain([], data), RunSettings(horizon_s=4, period_s=1, fidelity=fidelity)))
        for fidelity in ("exact", "fast")
    )
    assert (exact == want).all()
    assert np.abs(fast - want).max() <= 1


def test_speed_factor_start_and_loop(tmp_path: Path) -> None:
    base = recorded(tmp_path / "times.csv", "time_s\n10\n11\n13\n") | {"loop": True}  # one cycle: 4.5 s

    def times(**more: Any) -> list[float]:
        clock = clock_of(law_of(base | more), 1)
        return [last for _, _, last in groups(clock, 9.0)]

    assert times() == [0, 1, 3, 4.5, 5.5, 7.5, 9.0]
    assert times(speed=2, loop=False) == [0, 0.5, 1.5]
    assert times(rate_factor=2, loop=False) == [0, 0, 1, 1, 3, 3]
    assert times(start_s=10.5, loop=False) == [0.5, 2.5]
    assert times(start_s=10.5, loop=True)[:3] == [0.5, 2.5, 4.5]


@pytest.mark.parametrize("size", [1, 50])
def test_recorded_rates_are_a_staircase(tmp_path: Path, size: int) -> None:
    law = law_of(recorded(tmp_path / "rates.csv", RATES))
    cycle_s = 4 + 4 / 3
    assert law.mean_rate_per_s == pytest.approx((100 + 700 + 0 + 100 * 4 / 3) / cycle_s)
    edges = np.array([cycle * cycle_s + at for cycle in range(8) for at in (0, 2, 3, 4)])
    want = np.tile([100, 700, 0, 400 / 3], 8)[: len(edges) - 1]
    got = counts(clock_of(law, size), edges)
    assert got[want == 0].sum() < 1e-6
    some = want > 0
    assert ((got - want)[some] ** 2 / want[some]).sum() < some.sum() + 4 * math.sqrt(2 * some.sum())
    once = law_of(recorded(tmp_path / "once.csv", RATES) | {"loop": False})
    assert counts(clock_of(once, size), np.array([0.0, cycle_s + 0.1, 1e9]))[1] < 1e-6


def test_parquet_and_csv_are_the_same(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"time_s": TIMES}), tmp_path / "times.parquet")
    one = law_of({"law": "replay", "path": str(tmp_path / "times.parquet")})
    other = law_of(times_file(tmp_path / "times.csv", TIMES))
    assert list(groups(clock_of(one, 8), 9.0)) == list(groups(clock_of(other, 8), 9.0))


@pytest.mark.parametrize(
    ("text", "more", "expected"),
    [
        ("", {}, ["header"]),
        ("time_s\n", {}, ["no rows", "record"]),
        ("1.0\n2.0\n", {}, ["columns", "time_s"]),
        ("time_s,speed\n1,2\n", {}, ["columns", "rate_per_s"]),
        ("time_s\n2\n1\n", {}, ["row 2", "sort"]),
        ("time_s,rate_per_s\n1,5\n1,6\n", {}, ["row 2", "sort"]),
        ("time_s\n1\nnan\n", {}, ["row 2", "finite"]),
        ("time_s\n1\ninf\n", {}, ["row 2", "finite"]),
        ("time_s\n1\nsoon\n", {}, ["numbers"]),
        ("time_s,rate_per_s\n1,-5\n", {}, ["row 1", ">= 0"]),
        ("time_s,rate_per_s\n1,0\n2,0\n", {}, ["0 throughout"]),
        ("time_s\n1\n", {}, ["two or more"]),
        ("time_s\n1\n1\n", {}, ["over in 0 s"]),
        ("time_s\n1\n5\n", {"start_s": 6}, ["after the last row", "earlier"]),
        ("time_s\n1\n5\n", {"start_s": 3}, ["two or more"]),
    ],
)
def test_bad_recordings_are_explained(tmp_path: Path, text: str, more: dict[str, Any], expected: list[str]) -> None:
    with pytest.raises(BadInput) as error:
        law_of(recorded(tmp_path / "r.csv", text) | more)
    assert all(part in str(error.value) for part in ["arrivals.source", str(tmp_path / "r.csv"), *expected])
    assert "\n" not in str(error.value)


def test_a_recording_lies_beside_its_scenario_file(tmp_path: Path) -> None:
    text = files.dump(files.load("edge-filter")).replace("law: poisson, rate_per_s: 800", "law: replay, path: in.csv")
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(BadInput, match=r"in\.csv cannot be read: .*; check the path"):
        files.load(str(tmp_path / "mine.yaml"))
    (tmp_path / "in.csv").write_text(RATES)
    loaded = files.load(str(tmp_path / "mine.yaml"))
    assert files.parse_scenario(files.dump(loaded), "dumped") == loaded
    assert set_value(loaded, "workload.arrivals.sensors.speed=2").workload.arrivals["sensors"].speed == 2


# specs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (DIURNAL | {"amplitude": 1.5}, ["amplitude", "1.5"]),
        (DIURNAL | {"period_s": 0}, ["period_s", "0"]),
        (STEPS | {"period_s": 5}, ["period_s = 5", "longer"]),
        ({"law": "steps", "steps": [{"at_s": 2, "rate_per_s": 1}, {"at_s": 1, "rate_per_s": 1}]}, ["steps.1", "sort"]),
        ({"law": "steps", "steps": [{"at_s": 0, "rate_per_s": 0}]}, ["0 throughout", "rate > 0"]),
        ({"law": "steps", "steps": []}, ["steps"]),
        ({"law": "bursty", "states": [{"rate_per_s": 1, "mean_s": 1}]}, ["states"]),
        ({"law": "bursty", "states": [{"rate_per_s": 1e-310, "mean_s": 1}] * 2}, ["0 throughout"]),
        ({"law": "constant", "rate_per_s": 1e-310}, ["rate_per_s", "greater"]),
        ({"law": "bursty", "states": [{"rate_per_s": 0, "mean_s": 1}] * 2}, ["0 throughout"]),
        ({"law": "bursty", "states": [{"rate_per_s": math.inf, "mean_s": 1}] * 2}, ["rate_per_s", "inf"]),
        (SPIKES | {"duration_s": 4}, ["duration_s", "every_s"]),
        ({"law": "brusty"}, ["did you mean 'bursty'?"]),
    ],
)
def test_impossible_laws_are_explained(data: dict[str, Any], expected: list[str]) -> None:
    with pytest.raises(BadInput) as error:
        law_of(data)
    assert all(part in str(error.value) for part in expected)


def test_errors_name_keys_that_are_called_like_a_law_too() -> None:
    with pytest.raises(BadInput, match=r"arrivals\.steps\.steps\.0\.at_s: .*-1"):
        parse(Workload, {"arrivals": {"steps": {"law": "steps", "steps": [{"at_s": -1, "rate_per_s": 1}]}}})


@pytest.mark.parametrize("data", [TWO_STATES, DIURNAL, STEPS, SPIKES])
def test_laws_are_written_as_they_are_read(data: dict[str, Any]) -> None:
    base = files.load("edge-filter")
    scenario = base.model_copy(update={"workload": Workload(arrivals={"sensors": law_of(data)})})
    assert files.parse_scenario(files.dump(scenario), "dumped") == scenario
