"""Placement coefficients are the rate model's own loads, taken apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scenarios.files.scenario_file import load
from scenarios.spaces.generator import COSTREAM, random_scenario
from twin.deployment import Deployment
from twin.job import compile
from twin.rates.arrays import JobArrays
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.model import RateModel
from twin.rates.seats import CountedPlans
from twin.scenario import RunSettings

PLANS = 30


def spread_counts(job: Deployment, rng: np.random.Generator, subtasks_o: np.ndarray) -> np.ndarray:
    """Random plans with given numbers of subtasks, each anywhere. [N, O, L]"""
    sockets = sum(host.socket_count for host in job.cluster.hosts)
    counts = [[np.bincount(rng.integers(sockets, size=r), minlength=sockets) for r in subtasks_o] for _ in range(PLANS)]
    return np.array(counts)


def with_subtasks(job: Deployment, subtasks_o: np.ndarray) -> Deployment:
    counts_ol = np.zeros((len(subtasks_o), sum(host.socket_count for host in job.cluster.hosts)), int)
    counts_ol[:, 0] = subtasks_o
    return job.with_plan(CountedPlans(job, counts_ol[None])[0])


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), most=st.sampled_from([1, 3]), factor=st.sampled_from([0.1, 1.0, 2.0]))
def test_loads_are_those_of_the_rate_model(seed, most, factor):
    scenario = random_scenario(COSTREAM, seed, RunSettings())
    rng = np.random.default_rng(seed)
    subtasks_o = rng.integers(1, most + 1, size=len(scenario.query.operators))
    job = with_subtasks(scenario.deployment, subtasks_o)
    arrivals = {name: law.scaled(factor) for name, law in job.workload.arrivals.items()}
    job = job.model_copy(update={"workload": job.workload.model_copy(update={"arrivals": arrivals})})
    counts = spread_counts(job, rng, subtasks_o)
    arrays = JobArrays(compile(job))
    says = RateModel().answer_counts(job, counts)
    assume((says.busiest <= 1.0 + 1e-9).all() and (arrays.dealing.fed_o >= subtasks_o).all())
    found = PlacementCoefficients.of(job)
    loads = found.loads(counts / subtasks_o[None, :, None])
    calm = says.memory.max(axis=1) < job.engine.memory.onset  # garbage collection is not linear
    assert loads.memory_nh == pytest.approx(says.memory, rel=1e-9)
    if found.bursty:  # a join that its own bursts block has another flow
        return
    assert loads.card_nh == pytest.approx(says.offered_card, rel=1e-9, abs=1e-12)
    assert loads.cpu_nl[calm] == pytest.approx(says.offered_cpu[calm], rel=1e-9, abs=1e-12)


def test_the_highest_utilisation_tells_overloaded_plans():
    """Without bursts and with little memory, the highest utilisation is above 1 where the rate model's pressure is.
    That may be higher only where several cores idle while few tasks are busy, which is not linear."""
    compared = linear = 0
    for seed in range(40):
        job = random_scenario(COSTREAM, seed, RunSettings()).deployment
        found = PlacementCoefficients.of(job)
        if found.bursty:
            continue
        counts = spread_counts(job, np.random.default_rng(seed), np.ones(len(job.query.operators), int))
        says = RateModel().answer_counts(job, counts)
        calm = says.memory.max(axis=1) < job.engine.memory.onset
        highest_n, pressure_n = found.loads(counts).highest_n[calm], says.offered_pressure[calm].max(axis=1)
        assert ((highest_n > 1.0 + 1e-9) == (pressure_n > 1.0 + 1e-9)).all()
        several_nl = (counts[calm] > 0).any(axis=1) & (found.places.capacity_l > 1.0)
        linear_n = ~several_nl.any(axis=1)
        assert (pressure_n <= highest_n * (1.0 + 1e-9))[linear_n].all()
        linear += linear_n.sum()
        compared += len(highest_n)
    assert compared > 300 and linear > 30


def test_sockets_of_a_large_machine():
    """Coefficients, which have no distances between sockets, agree with the rate model where all is on one socket."""
    scenario = load("numa-cluster")
    law = scenario.workload.arrivals["spout"].scaled(1e-3)
    workload = scenario.workload.model_copy(update={"arrivals": {"spout": law}})
    job = scenario.deployment.model_copy(update={"workload": workload})
    found = PlacementCoefficients.of(job)
    counts = np.zeros((2, 4, 12), int)
    counts[0, :, 3], counts[1, :, 11] = 1, 1
    says, loads = RateModel().answer_counts(job, counts), found.loads(counts.astype(float))
    by_host = (loads.cpu_nl * found.places.capacity_l).reshape(2, 3, 4).sum(axis=2) / 72.0
    assert by_host == pytest.approx(says.offered_cpu, rel=1e-9)
    assert loads.core_no == pytest.approx(says.busy_cores, rel=1e-9)
