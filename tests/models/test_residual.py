"""Tests of a network that corrects the rate model: it begins with no correction, and counts as far as it helps."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import pipeline
from models.checkpoint import Ensemble, coverage_of, outside, ranges_of
from models.dataset import of_deployments, split
from models.gnn import initial, silent
from models.job_columns import job_columns
from models.labels import KINDS, Scaling, in_units, kinds_of_plans, scaled, scaling_of, targets
from models.prediction import GATES, Judged, LearnedCostModel, forward, gated, half_width, intervals
from models.settings import NetworkConfig, TrainingSettings
from scenarios.spaces.generator import COSTREAM, random_scenario
from tests.models.deployments import random_deployment
from twin.metrics import METRICS, REGRESSION_METRICS
from twin.profiles import FLINK
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario

CONFIG = NetworkConfig(hidden=8, estimates=True, residual=True, outputs=len(METRICS))
TINY = TrainingSettings(members=1, epochs=20, batch=32, rate=0.01, weight_decay=0, scale="residual", network=CONFIG)


def rows(factor=1.0, count=120, flipped=0.0):
    """Runs with the rate model's labels, but for a factor on the latencies and some flipped flags."""
    deployments = [random_deployment(seed, size=3) for seed in range(count)]
    bare = of_deployments(deployments, np.ones((count, len(METRICS))))
    labels = bare.rates_GxA[:, : len(METRICS)].copy()
    labels[:, 1:3] *= factor
    rng = np.random.default_rng(0)
    labels[:, 3:] = (labels[:, 3:] > 0.5) ^ (rng.random((count, 2)) < flipped)
    labels[::4, 3], labels[::9, 4] = 1 - labels[::4, 3], 0  # both classes, whatever the draw
    labels[labels[:, 4] == 0, :3] = np.nan
    return replace(bare, labels_GxA=labels)


def test_a_silent_network_is_the_rate_model():
    table = rows(count=20)
    scaling = Scaling((0.0,) * 5, (2.0, 3.0, 0.5, 1.0, 1.0), "residual")
    outputs = forward(CONFIG, silent(initial(CONFIG, 3)), table.graphs)
    found = in_units(METRICS, outputs, table.rates_GxA, table.graphs.kind_G, scaling)
    np.testing.assert_allclose(np.exp(found[:, :3]), np.maximum(table.rates_GxA[:, :3], 1e-6), rtol=1e-5)
    np.testing.assert_allclose(found[:, 3:], np.clip(table.rates_GxA[:, 3:5], 0.00247, 0.99753), atol=1e-4)


@pytest.mark.slow
def test_what_is_learned_is_a_correction_and_never_worse_than_none():
    table = rows(factor=1.5)
    parts = split(table, 0, valid=0.3)
    (ensemble,) = pipeline.train(table, parts, TINY, 1)
    gates = np.array(ensemble.scaling.gate)
    assert set(gates.ravel()) <= set(GATES)
    assert gates[:, METRICS.index("processing_latency_s")].max() == 1.0
    assert gates[:, METRICS.index("throughput_per_s")].max() == 0.0  # there is nothing to correct
    model = LearnedCostModel("m", (ensemble,))
    test = table.take(parts.test)
    found = model.predict_graphs(test.graphs)
    for metric in REGRESSION_METRICS:
        truth = test.label_G(metric)
        known = ~np.isnan(truth)
        off = np.abs(np.log(found.cost(metric) / truth))[known].mean()
        base = np.abs(np.log(test.rates_G(metric) / truth))[known].mean()
        assert off <= (base + 1e-6 if metric == "throughput_per_s" else base / 1.5)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_correction_that_is_noise_is_not_believed(seed):
    rng = np.random.default_rng(seed)
    rates = np.abs(rng.lognormal(size=(200, 5)))
    rates[:, 3:] = rng.random((200, 2))
    labels = rates.copy()
    labels[:, 3:] = rng.random((200, 2)) < rates[:, 3:]
    scaling, kinds = (
        Scaling((0.0,) * 5, (1.0,) * 5, "residual"),
        kinds_of_plans(rates, rng.random(200) < 0.5, rng.random(200) < 0.5),
    )
    shut = gated(METRICS, scaling, Judged(labels, rates, kinds, rng.normal(size=(2, 200, 5)) * 3))
    assert {gate for gates in shut.gate for gate in gates[:3]} == {0.0}
    right = np.zeros((2, 200, 5))
    right[:, :, :3] = 0.4
    labels[:, :3] *= np.exp(0.4)
    assert gated(METRICS, scaling, Judged(labels, rates, kinds, right)).gate[2][:3] == (
        1.0,
        1.0,
        1.0,
    )  # most of these are congested


def test_a_probability_has_the_same_gate_for_all_kinds_of_plans():
    """A correction right in 17 of 25 rows is believed: for one kind's 25 rows that may be chance, for all it is not."""
    count, m = 25 * len(KINDS), METRICS.index("backpressured")
    number, kinds = np.arange(count) // len(KINDS), np.arange(count) % len(KINDS)
    yes, right = number % 2 == 0, number % 25 < 17
    labels = np.full((count, len(METRICS)), np.nan)
    labels[:, m] = yes
    outputs = np.zeros((1, count, len(METRICS)))
    outputs[0, :, m] = np.where(right == yes, 0.5, -0.5)
    judged = Judged(labels, np.full(labels.shape, 0.4), kinds, outputs)
    scaling = Scaling((0.0,) * len(METRICS), (1.0,) * len(METRICS), "residual")
    assert {gates[m] for gates in gated(METRICS, scaling, judged).gate} == {1.0}
    alone = kinds == 0
    one = Judged(labels[alone], judged.rates_GxA[alone], kinds[alone], outputs[:, alone])
    assert gated(METRICS, scaling, one).gate[0][m] == 0.0


def test_a_probability_is_believed_that_is_never_above_one_half():
    """A correction that tells likely rows from unlikely ones is believed, even if all its probabilities are small."""
    count, m = 1000, METRICS.index("backpressured")
    row = np.arange(count)
    likely, sure = row < 400, row < 10
    labels, rates = np.full((count, len(METRICS)), np.nan), np.full((count, len(METRICS)), 0.05)
    labels[:, m] = likely & (row % 3 == 0)
    rates[sure, m] = 0.6
    outputs = np.zeros((1, count, len(METRICS)))
    asked = np.where(likely, 1 / 3, 0.005)
    outputs[0, :, m] = np.log(asked / (1 - asked)) - np.log(rates[:, m] / (1 - rates[:, m]))
    scaling = Scaling((0.0,) * len(METRICS), (1.0,) * len(METRICS), "residual")
    judged = Judged(labels, rates, np.zeros(count, int), outputs)
    assert gated(METRICS, scaling, judged).gate[0][m] == 1.0


def test_intervals_hold_nine_in_ten_of_rows_that_they_were_not_fitted_to():
    rng = np.random.default_rng(5)
    rates = np.ones((20_000, 5))
    rates[:, 3] = rng.choice([0.0, 0.5], 20_000)
    kinds = kinds_of_plans(rates, rng.random(20_000) < 0.5, rng.random(20_000) < 0.5)
    spread = np.array([0.1, 0.1, 0.5, 0.2, 0.3, 0.7])[kinds]
    labels = rates * np.exp(rng.normal(size=(20_000, 1)) * spread[:, None])
    scaling, outputs = Scaling((0.0,) * 5, (1.0,) * 5, "residual"), np.zeros((3, 10_000, 5))
    far = Judged(labels[:50] * 100, rates[:50], kinds[:50], outputs[:, :50])  # errors in training rows do not count
    found = intervals(METRICS, scaling, Judged(labels[:10_000], rates[:10_000], kinds[:10_000], outputs), far)
    half = half_width(found, "processing_latency_s", np.zeros(10_000), kinds[10_000:])
    inside = np.abs(np.log(labels[10_000:, 1])) <= half
    for kind in (0, 2, 3, 4, 5):
        assert inside[kinds[10_000:] == kind].mean() == pytest.approx(0.9, abs=0.03)
    assert half[kinds[10_000:] == 2].mean() > 3 * half[kinds[10_000:] == 0].mean()


def test_where_gates_are_shut_all_rows_say_how_far_the_rate_model_is_off():
    rng = np.random.default_rng(6)
    rates = np.ones((1000, 5))
    rates[:, 3] = 0.0
    labels = rates * np.exp(rng.normal(size=(1000, 1)))
    shut = Scaling((0.0,) * 5, (1.0,) * 5, "residual", gate=((0.0,) * 5,) * len(KINDS))
    kinds = np.zeros(1000, int)
    held = Judged(labels[:40], rates[:40], kinds[:40], rng.normal(size=(3, 40, 5)))
    learned = Judged(labels[40:], rates[40:], kinds[40:], np.zeros((1, 960, 5)))
    usual, factor = intervals(METRICS, shut, held, learned)["throughput_per_s"][0]
    error = np.abs(np.log(labels[:, 0]))
    assert usual == pytest.approx(np.median(error))
    assert usual * factor == pytest.approx(np.quantile(error, 0.9), rel=0.01)
    open_ = Scaling((0.0,) * 5, (1.0,) * 5, "residual", gate=((1.0,) * 5,) * len(KINDS))
    nobody = Judged(labels[:0], rates[:0], kinds[:0], np.zeros((1, 0, 5)))
    assert intervals(METRICS, open_, held, learned) == intervals(METRICS, open_, held, nobody)


def test_probabilities_keep_the_frequencies_of_the_corpus():
    table = rows(count=60, flipped=0.3)
    values = scaled(METRICS, table.labels_GxA, table.rates_GxA, "residual")
    scaling = scaling_of(METRICS, values, "residual")
    assert scaling.mean == (0.0,) * 5
    found = targets(METRICS, values, table.rates_GxA, scaling, np.arange(60))
    assert set(found.weights_GxM[:, 3:].ravel()) == {1.0}
    assert (found.offsets_GxM[:, :3] == 0).all()
    logits = np.log(table.rates_GxA[:, 3] / (1 - table.rates_GxA[:, 3] + 1e-12) + 1e-12)
    np.testing.assert_allclose(found.offsets_GxM[:, 3], np.clip(logits, -6, 6), atol=1e-3)


def horizons(low_s, high_s):
    """Model without corrections, trained on runs of these lengths."""
    table = rows(count=10)
    seen = coverage_of(table.graphs)
    manifest = {"seen": seen, "horizon_s": high_s, "horizons_s": [low_s, high_s]}
    members = (jax.device_get(silent(initial(CONFIG, 1))),)
    ensemble = Ensemble(METRICS, CONFIG, Scaling((0.0,) * 5, (1.0,) * 5, "residual"), members, manifest)
    return LearnedCostModel("m", (ensemble,))


def test_it_answers_for_the_length_of_the_scenario_if_it_knows_such():
    base = random_deployment(3, size=3)
    job = Scenario.of(base, RunSettings(horizon_s=60.0, warmup_s=10.0))
    longer = RateModel(240.0, warmup_s=40.0)  # as large a part of it is measured
    for model, rates in ((horizons(10.0, 240.0), RateModel()), (horizons(240.0, 240.0), longer)):
        found = model.predict(job, [job.plan])
        wanted = rates.predict(job, [job.plan])
        for metric in REGRESSION_METRICS:
            assert found[metric][0] == pytest.approx(max(wanted[metric][0], 1e-6), rel=1e-4)
    assert not any("horizon" in words for words in horizons(10.0, 240.0).blind_to(job))
    assert any("horizon" in words for words in horizons(240.0, 240.0).blind_to(job))


def test_a_job_beyond_the_ranges_is_named():
    table = rows(count=60)
    ranges = ranges_of(table.graphs, np.arange(60))
    inside = random_deployment(5, size=3)
    assert outside(ranges, job_columns(inside)) == []
    hosts = tuple(host.model_copy(update={"ram_mb": 4e6}) for host in inside.cluster.hosts)
    larger = inside.model_copy(update={"cluster": inside.cluster.model_copy(update={"hosts": hosts})})
    assert outside(ranges, job_columns(larger)) == ["host ram"]
    assert any("service" in name for name in outside(ranges, job_columns(inside.model_copy(update={"engine": FLINK}))))


def test_engines_look_different_to_a_network():
    job = random_scenario(COSTREAM, 3, RunSettings())
    other = job.model_copy(update={"engine": job.engine.model_copy(update={"channel_records": 64, "service_scv": 2.0})})
    table = of_deployments([job.deployment, other.deployment], np.ones((2, 5))).graphs
    first, second = (table.nodes[0].take(np.array([row]))[0] for row in (0, 1))
    assert (first != second).any()
