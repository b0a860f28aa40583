"""`twin train --from`: what it reports, and what it refuses."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from models.checkpoint import Ensemble
from models.pipeline import FineTuning
from models.prediction import LearnedCostModel
from scenarios.learning import fine_tuning
from tests.commands import refused
from tests.models import test_training
from tests.models.test_fine_tuning import QUICK, new, old, trained
from twin.errors import BadInput


def tuned(ensembles: tuple[Ensemble, ...], how: FineTuning, rehearse: bool) -> fine_tuning.Tuned:
    (fresh, _), (known, _) = new(), old()
    model = LearnedCostModel("m", ensembles)
    return fine_tuning.tune(model, fresh, known if rehearse else None, how, 0, lambda _done, _total: None)


@pytest.mark.slow
def test_both_kinds_of_queries_are_reported_before_and_after() -> None:
    found = tuned(trained(), QUICK, rehearse=True)
    rows = {row.queries: row for row in found.rows}
    assert set(rows) == {"new", "old"}
    assert rows["new"].q50 < rows["new"].q50_before / 2
    assert rows["old"].q50_before < rows["new"].q50_before
    (_, fresh), (_, known) = new(), old()
    assert rows["new"].rows <= len(fresh.test)
    assert rows["old"].rows <= len(known.test)
    assert found.sizes["train"] == len(fresh.train) + min(len(fresh.train), len(known.train))
    assert set(fine_tuning.COLUMNS) <= {name for row in found.rows for name in asdict(row)}


def test_without_epochs_nothing_is_better_or_worse() -> None:
    (row,) = tuned(test_training.untrained(), FineTuning(epochs=0), rehearse=False).rows
    assert (row.q50, row.q95) == (row.q50_before, row.q95_before)


def test_only_the_dataset_that_it_was_trained_on_can_be_rehearsed() -> None:
    model = LearnedCostModel("m", test_training.untrained())
    with pytest.raises(BadInput, match="was trained on a dataset of"):
        fine_tuning.tune(model, new()[0], new()[0], QUICK, 0, lambda _done, _total: None)


def test_contradicting_options_are_refused(tmp_path) -> None:
    train = ("train", tmp_path / "rows", tmp_path / "out")
    assert "keeps the kind of its model" in refused(*train, "--from", tmp_path / "m", "--members", 2)
    assert "keeps the kind of its model" in refused(*train, "--from", tmp_path / "m", "--metrics", "success")
    assert "name the model with --from" in refused(*train, "--rehearse", tmp_path / "rows")
    assert "holds no cost model" in refused(*train, "--from", tmp_path / "m")
    (tmp_path / "job.yaml").write_text("name: job\n")
    for start in ((), ("--from", "learned")):
        assert "is no calibrated profile" in refused(*train, *start, "--profile", tmp_path / "job.yaml")
