"""Tests of training and fine-tuning: what can be learned is, by the seed alone, and rehearsal keeps what was known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import jax
import numpy as np
import pytest

from models import pipeline
from models.checkpoint import Ensemble
from models.dataset import Dataset, RowSplit, of_deployments, split
from models.evaluation import evaluate, q_error
from models.job_columns import job_columns
from models.pipeline import FineTuning, fine_tune, rehearsing
from models.prediction import LearnedCostModel
from models.predictors import FittedNetworks
from models.settings import NetworkConfig, TrainingSettings
from models.training import MemberCheckpoints, TrainedNetwork, learning_rates, validation_errors
from scenarios import learning
from scenarios.learning import under_way
from tests.models.deployments import random_deployment
from tests.models.untrained import begun
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.metrics import METRICS

TINY = TrainingSettings(
    members=1, epochs=40, batch=32, rate=0.01, weight_decay=0, heads="one", network=NetworkConfig(hidden=8)
)
SHORT = TINY.model_copy(update={"epochs": 6})
WANTED = METRICS[:1]


def labels_of(deployment: Deployment) -> list[float]:
    """Artificial costs that follow from features: rate, load of the worst host, service."""
    job = job_columns(deployment)
    load = job.hosts()["cpu_load"].max()
    rate = job.operators["rate_in"][np.array(job.kinds) == "source"].sum()
    latency = job.operators["service"].sum() * (1 + load)
    return [rate / max(load, 1), latency, latency * 3, float(load > 0.2), float(rate > 100)]


@cache
def dataset(first: int = 0, stop: int = 160) -> Dataset:
    deployments = [random_deployment(seed, size=3) for seed in range(first, stop)]
    labels_GxA = np.array([labels_of(each) for each in deployments])
    labels_GxA[labels_GxA[:, 4] == 0, :3] = np.nan
    return of_deployments(deployments, labels_GxA)


@cache
def trained(seed: int = 1, epochs: int = SHORT.epochs) -> tuple[Ensemble, ...]:
    settings = TINY.model_copy(update={"epochs": epochs})
    return pipeline.train(dataset(), split(dataset(), 0), settings, seed, WANTED)


@cache
def untrained() -> tuple[Ensemble, ...]:
    """Ensembles whose networks are as they begin."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "train_member", begun)
        return pipeline.train(dataset(), split(dataset(), 0), TINY, 1, WANTED)


def curve(ensemble: Ensemble) -> np.ndarray:
    """Learning curve of the first member. [points, (step, training loss, validation loss)]"""
    return np.array(ensemble.manifest["members"][0]["curve"])


@pytest.mark.slow
def test_loss_falls_and_beats_a_constant() -> None:
    points = curve(learned()[0])
    assert points[-1, 1] < points[0, 1] / 3
    assert points[:, 2].min() < 0.25  # a constant scores about 1
    unseen = dataset(160, 220)
    (row,) = evaluate(FittedNetworks("m", LearnedCostModel("m", learned())), unseen)
    logs = np.log(unseen.labels_GxA[:, 0])
    constant = np.exp(np.nanmedian(np.abs(logs - np.nanmean(np.log(dataset().labels_GxA[:, 0])))))
    assert row.metric == WANTED[0] and row.q50 is not None and row.q50 < 0.9 * constant


def test_same_seed_same_parameters_other_seed_others() -> None:
    first, again = trained(1), pipeline.train(dataset(), split(dataset(), 0), SHORT, 1, WANTED)
    jax.tree.map(np.testing.assert_array_equal, first[0].members, again[0].members)
    kernels = [each[0].members[0]["head"]["layer_0"]["kernel"] for each in (first, trained(2))]
    assert np.any(kernels[0] != kernels[1])


def test_members_differ_and_progress_is_told() -> None:
    told: list[tuple[str, int, int, int, float]] = []
    (ensemble,) = pipeline.train(
        dataset(),
        split(dataset(), 0),
        TINY.model_copy(update={"members": 2, "epochs": 5}),
        1,
        WANTED,
        progress=lambda *point: told.append(point),
    )
    one, other = (member["head"]["layer_0"]["kernel"] for member in ensemble.members)
    assert np.any(one != other)
    assert {(name, member) for name, member, *_ in told} == {(WANTED[0], 0), (WANTED[0], 1)}
    assert all(step <= steps for _, _, step, steps, _ in told)
    assert told[-1][2] == told[-1][3]


def test_one_network_a_metric_is_named_after_it() -> None:
    (ensemble,) = untrained()
    assert (ensemble.metrics, ensemble.name, ensemble.config.outputs) == (METRICS[:1], METRICS[0], 1)


def test_fine_tuning_goes_on_where_training_stopped() -> None:
    before = trained()
    (after,) = pipeline.fine_tune(before, dataset(), split(dataset(), 0), pipeline.FineTuning(epochs=10, rate=1e-3), 7)
    assert curve(after)[0, 1] < curve(before[0])[0, 1]
    assert curve(after)[:, 2].max() < 10 * curve(after)[:, 1].max(), "both are means of rows"
    assert after.scaling == before[0].scaling
    assert after.manifest["fine_tuned_from"] == before[0].manifest


def test_diverging_loss_is_an_error() -> None:
    broken = dataset()
    graphs = broken.graphs
    hosts = graphs.nodes[-1]._replace(rows=graphs.nodes[-1].rows * np.float32(1e30))
    table = replace(graphs, nodes=(*graphs.nodes[:-1], hosts))
    overflowing = replace(broken, encoded=replace(broken.encoded, graphs=table))
    with pytest.raises(FloatingPointError, match=r"loss is (nan|inf)"):
        pipeline.train(overflowing, split(broken, 0), TINY, 1, WANTED)


def test_unknown_metric_and_single_class_are_bad_input() -> None:
    parts = split(dataset(), 0)
    with pytest.raises(BadInput, match="unknown metric 'throughput'; did you mean 'throughput_per_s'"):
        pipeline.train(dataset(), parts, TINY, 1, metrics=("throughput",))
    labels_GxA = dataset().labels_GxA.copy()
    labels_GxA[:, 3] = 0
    one_class = replace(dataset(), labels_GxA=labels_GxA)
    with pytest.raises(BadInput, match="backpressured is False in all"):
        pipeline.train(one_class, parts, TINY, 1)


@pytest.mark.parametrize("huber", [None, 0.2])
def test_probabilities_are_judged_best_where_they_are_as_frequent_as_they_say(huber: float | None) -> None:
    yes_Gx1 = (np.arange(100) < 15)[:, None].astype(float)
    said = np.linspace(0.01, 0.99, 99)
    errors = [
        validation_errors(np.full((100, 1), np.log(p / (1 - p))), yes_Gx1, np.array([True]), huber).mean() for p in said
    ]
    assert said[int(np.argmin(errors))] == pytest.approx(0.15)


def test_learning_rate_rises_then_falls_to_nothing() -> None:
    rates = learning_rates(TINY, 200)
    peak = int(np.argmax(rates))
    assert rates[peak] == pytest.approx(TINY.rate)
    assert np.all(np.diff(rates[: peak + 1]) > 0)
    assert np.all(np.diff(rates[peak + 1 :]) < 0)
    assert rates[-1] < TINY.rate / 1000


QUICK = FineTuning(epochs=15, rate=3e-3)


@cache
def old() -> tuple[Dataset, RowSplit]:
    """Rows and split that `learned` was trained on."""
    return dataset(), split(dataset(), 0)


def learned() -> tuple[Ensemble, ...]:
    return trained(epochs=40)


@cache
def new() -> tuple[Dataset, RowSplit]:
    """Rows that the network knows nothing of: another number of operators, and ten times the throughput."""
    deployments = [random_deployment(seed, size=4) for seed in range(1000, 1080)]
    labels_GxA = np.array([labels_of(each) for each in deployments])
    labels_GxA[:, METRICS.index("throughput_per_s")] *= 10
    labels_GxA[labels_GxA[:, METRICS.index("success")] == 0, :3] = np.nan
    dataset = of_deployments(deployments, labels_GxA)
    return dataset, split(dataset, 0)


def median(ensembles: tuple[Ensemble, ...], dataset: Dataset, part: np.ndarray) -> float:
    """Median q-error of the throughput, however far below every label an estimate is."""
    rows = dataset.take(part)
    truth = rows.label_G("throughput_per_s")
    found = LearnedCostModel("m", ensembles).predict_graphs(rows.graphs).cost("throughput_per_s")
    return float(np.nanmedian(q_error(truth, found)))


@pytest.mark.slow
def test_the_result_is_never_worse_on_validation_rows_than_the_start() -> None:
    harmful = FineTuning(epochs=1, rate=1.0)
    dataset, parts = old()
    (after,) = fine_tune(learned(), dataset, parts, harmful, 0)
    curve = after.manifest["members"][0]["curve"]
    started = min(point[2] for point in learned()[0].manifest["members"][0]["curve"])
    assert min(point[2] for point in curve) > started  # it did harm
    jax.tree.map(np.testing.assert_array_equal, after.members, learned()[0].members)


def tuned(ensembles: tuple[Ensemble, ...], how: FineTuning, rehearse: bool) -> learning.Tuned:
    """Ensembles after fine-tuning, as the command line does it."""
    (fresh, _), (known, _) = new(), old()
    model = LearnedCostModel("m", ensembles)
    return learning.tune(model, fresh, known if rehearse else None, how, 0, lambda *_: None)


@pytest.mark.slow
def test_new_rows_are_learned_and_rehearsal_keeps_the_old() -> None:
    (dataset, parts), (known, known_parts) = new(), old()
    alone = fine_tune(learned(), dataset, parts, QUICK, 0)
    found = tuned(learned(), QUICK, rehearse=True)
    before = median(learned(), dataset, parts.test)
    assert median(alone, dataset, parts.test) < before / 2
    assert median(found.ensembles, known, known_parts.test) < median(alone, known, known_parts.test)
    assert found.ensembles[0].scaling == learned()[0].scaling
    assert found.ensembles[0].manifest["fine_tuned_from"] == learned()[0].manifest
    rows = {row.queries: row for row in found.rows}
    assert set(rows) == {"new", "old"}
    assert rows["new"].q50 < rows["new"].q50_before / 2
    assert rows["old"].q50_before < rows["new"].q50_before
    assert rows["new"].rows <= len(parts.test) and rows["old"].rows <= len(known_parts.test)
    assert found.sizes["train"] == len(parts.train) + min(len(parts.train), len(known_parts.train))
    assert set(learning.COLUMNS) <= {name for row in found.rows for name in asdict(row)}


def test_without_epochs_nothing_is_better_or_worse() -> None:
    (row,) = tuned(untrained(), FineTuning(epochs=0), rehearse=False).rows
    assert (row.q50, row.q95) == (row.q50_before, row.q95_before)


def test_only_the_dataset_that_it_was_trained_on_can_be_rehearsed() -> None:
    model = LearnedCostModel("m", untrained())
    with pytest.raises(BadInput, match="was trained on a dataset of"):
        learning.tune(model, new()[0], new()[0], QUICK, 0, lambda *_: None)


def test_rehearsal_takes_as_many_old_rows_and_no_test_row() -> None:
    (dataset, parts), (known, known_parts) = new(), old()
    both, mixed = rehearsing(dataset, parts, known, known_parts, 0)
    assert len(both) == len(dataset) + len(known)
    for part, fresh, from_old in zip(mixed[:2], parts[:2], known_parts[:2], strict=True):
        np.testing.assert_array_equal(part[: len(fresh)], fresh)
        rehearsed = part[len(fresh) :] - len(dataset)
        assert len(rehearsed) == min(len(fresh), len(from_old))
        assert set(rehearsed) <= set(from_old)
    np.testing.assert_array_equal(mixed.test, parts.test)
    np.testing.assert_array_equal(both.labels_GxA[len(dataset) :], known.labels_GxA)
    assert set(both.about) == set(known.about)


@pytest.mark.slow
def test_labels_of_one_class_teach_nothing() -> None:
    dataset, parts = new()
    constant = dataset.labels_GxA.copy()
    constant[:, METRICS.index("success")] = 1
    constant[np.isnan(constant)] = 1
    same = replace(dataset, labels_GxA=constant)
    success = replace(learned()[0], metrics=("success",))
    kept, changed = fine_tune((success, learned()[0]), same, parts, FineTuning(epochs=1), 0)
    assert kept is success
    assert changed is not learned()[0]
    with pytest.raises(BadInput, match="cannot teach success"):
        fine_tune((success,), same, parts, QUICK, 0)


@pytest.mark.slow
def test_an_interrupted_training_goes_on_to_the_same_networks(tmp_path: Path) -> None:
    settings = TINY.model_copy(update={"members": 2, "epochs": 2})
    trained_anew = list[int]()

    def kept() -> MemberCheckpoints:
        return under_way(tmp_path / "model", dataset(), settings, WANTED, 1)

    def train(members: MemberCheckpoints | None, most: int = 2) -> tuple[Ensemble, ...]:
        def keep(name: str, index: int, train: Callable[[], TrainedNetwork]) -> TrainedNetwork:
            def counted() -> TrainedNetwork:
                if index == most:
                    raise KeyboardInterrupt
                trained_anew.append(index)
                return train()

            return counted() if members is None else members(name, index, counted)

        return pipeline.train(dataset(), split(dataset(), 0), settings, 1, WANTED, keep=keep)

    with pytest.raises(KeyboardInterrupt):
        train(kept(), most=1)
    again = kept()
    assert len(again) == 1
    resumed = train(again)
    assert trained_anew == [0, 1]
    for ours, theirs in zip(resumed, train(None), strict=True):
        jax.tree.map(np.testing.assert_array_equal, ours.members, theirs.members)
        assert ours.manifest == theirs.manifest
    again.discard()
    assert list(tmp_path.iterdir()) == []
