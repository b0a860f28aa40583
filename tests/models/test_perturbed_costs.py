"""Tests of a profile with errors: every constant within its share, nothing else changed, the same for the same run."""

from __future__ import annotations

import numpy as np
import pytest

from models.encoding import PerturbedCosts, Text, encode, encode_texts
from tests.models.deployments import random_deployment
from tests.twin.worlds import chain
from twin.checkpoints import Checkpoints
from twin.errors import BadInput
from twin.rates.channels import MeasuredSpan
from twin.scenario import Scenario


def constants(engine: object) -> np.ndarray:
    data = engine.model_dump()  # type: ignore[attr-defined]
    single = [data[name] for name in ("result_us", "scan_us", "serialise_ns_per_byte", "deserialise_ns_per_byte")]
    return np.array([*data["record_us"].values(), *data["value_us"].values(), *single])


def test_every_cost_is_off_by_up_to_its_share_and_nothing_else() -> None:
    job = random_deployment(3)
    for share in (0.0, 0.2, 0.9):
        factors = np.array(
            [
                constants(PerturbedCosts(share)(job, f"run{index}").engine) / constants(job.engine)
                for index in range(200)
            ]
        )
        assert np.all(np.abs(factors - 1) <= share + 1e-12)
        assert np.all(np.abs(factors.mean(axis=0) - 1) <= 5 * share / np.sqrt(3 * 200) + 1e-12)
        assert share == 0 or np.all(factors.std(axis=0) > share / 3)
    believed = PerturbedCosts(0.2)(job, "run")
    same = believed.model_copy(update={"engine": job.engine})
    assert same == job
    assert believed.engine.memory == job.engine.memory


def test_the_same_run_is_misjudged_the_same_way_whatever_beside_it() -> None:
    jobs, span = [random_deployment(seed) for seed in range(3)], MeasuredSpan(0.0, 240.0)
    texts = [Text(f"run{index}", job.model_dump_json(), span) for index, job in enumerate(jobs)]
    wrong = PerturbedCosts(0.2, seed=1)
    together = encode_texts(texts, reprofiled=wrong)
    alone = encode([wrong(jobs[2], "run2")], [span])
    np.testing.assert_array_equal(together.graphs.context_GxC[2], alone.graphs.context_GxC[0])
    assert not np.array_equal(together.graphs.rates_GxA, encode(jobs, [span] * 3).graphs.rates_GxA)
    assert PerturbedCosts(0.2, seed=2)(jobs[0], "run0") != wrong(jobs[0], "run0")


def test_misjudged_runs_keep_their_checkpoints() -> None:
    job, spec = random_deployment(0), Checkpoints(interval_s=30.0, sinks="exactly-once")
    span, wrong = MeasuredSpan(0.0, 240.0), PerturbedCosts(0.2, seed=1)
    found = encode_texts([Text("a", job.model_dump_json(), span, spec.model_dump_json())], reprofiled=wrong)
    asked = encode([Scenario(**dict(wrong(job, "a")), checkpoints=spec)], [span])
    np.testing.assert_array_equal(found.graphs.rates_GxA, asked.graphs.rates_GxA)
    assert not np.array_equal(asked.graphs.rates_GxA, encode([wrong(job, "a")], [span]).graphs.rates_GxA)


def test_a_fixed_error_is_that_of_the_engine_in_all_runs() -> None:
    """A fixed error is the same in all runs, as of a profile measured once, so that a model can learn it."""
    fixed = PerturbedCosts(0.2, seed=1, fixed=True)
    jobs = [random_deployment(seed) for seed in range(6)]
    factors = [constants(fixed(job, run).engine) / constants(job.engine) for job in jobs for run in ("a", "b")]
    assert np.allclose(factors, factors[0], rtol=1e-9) and np.ptp(factors[0]) > 0.05
    assert np.all(np.abs(factors[0] - 1) <= 0.2 + 1e-12)
    other = PerturbedCosts(0.2, seed=2, fixed=True)(random_deployment(0), "a").engine
    assert not np.allclose(constants(other) / constants(random_deployment(0).engine), factors[0])
    assert fixed.name != PerturbedCosts(0.2, seed=1).name


def test_a_fixed_error_of_operators_own_costs_is_by_kind() -> None:
    job = chain(
        [{"kind": "map", "name": name, "service_time_s": each} for name, each in (("m", 1e-3), ("n", 3e-3))], 10
    )
    believed = PerturbedCosts(0.5, seed=3, fixed=True)(job, "run").query.operators
    pairs = zip(believed, job.query.operators, strict=True)
    shares = {own.name: (each.service_time_s or 0.0) / own.service_time_s for each, own in pairs if own.service_time_s}
    assert shares["m"] == pytest.approx(shares["n"]) and shares["m"] != 1.0


def test_a_share_that_is_none() -> None:
    with pytest.raises(BadInput, match=r"share must be in \[0, 1\), got 1"):
        PerturbedCosts(1.0)
