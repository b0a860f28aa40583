"""One tiny workspace for all experiments: simulations without Spark, networks that hardly learn."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from papers.interface import Experiment, ExperimentResult, Rows
from papers.registry import EXPERIMENTS
from papers.running import manifest_of, run, write
from papers.workspace import Sizes, Workspace, in_process
from scenarios.executing import Audience, Lines

HERE = Path(__file__).parent
SEED = 1
TINY = Sizes(
    runs=120,
    replicates=12,
    members=1,
    restricted_members=1,
    epochs=1,
    n=6,
    queries=2,
    candidates=8,
    fine_tuning_runs=12,
    judged=1,
    random_plans=3,
    horizon_s=20.0,
)


def silent() -> Audience:
    return Lines(lambda _: None)


def narrowed(name: str, without: Collection[str] = (), **cases: Rows) -> Experiment:
    """Experiment with other cases in some of its tables, without the figures that these leave empty."""
    experiment = EXPERIMENTS[name]
    changed = {table: replace(experiment.tables[table], cases=chosen) for table, chosen in cases.items()}
    figures = {figure: draw for figure, draw in experiment.figures.items() if figure not in without}
    return replace(experiment, tables={**experiment.tables, **changed}, figures=figures)


def reproduced(
    name: str, workspace: Workspace, out: Path, without: Collection[str] = (), **cases: Rows
) -> ExperimentResult:
    """Result of an experiment, written as the command writes it, so that every figure is drawn. Checks that each row
    has a cell for each column."""
    experiment = narrowed(name, without, **cases)
    result = run(experiment, workspace)
    folder = out / name
    write(experiment, result, folder, manifest_of(experiment, workspace, "tiny"))
    tables, pictures = (f"{table}.json" for table in result.tables), (f"{figure}.png" for figure in result.figures)
    assert {path.name for path in folder.iterdir()} == {"README.md", "manifest.json", *tables, *pictures}
    page = (folder / "README.md").read_text()
    for table in result.tables.values():
        assert table.title in page and table.rows
        assert all(set(table.columns) <= set(row) for row in table.rows)
    return result


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Workspace of all tests, in which an experiment finds what another one made."""
    return Workspace(tmp_path_factory.mktemp("workspace"), TINY, SEED, silent(), in_process)


@pytest.fixture
def fresh(tmp_path: Path) -> Workspace:
    """Empty workspace."""
    return Workspace(tmp_path / "work", TINY, SEED, silent(), in_process)


@pytest.fixture(scope="module")
def tiny_contestants() -> Iterator[None]:
    """Replaces contestants' networks by ones that stay as they begin, and their trees by the smallest."""
    from models import pipeline
    from models.predictors import PREDICTORS, BoostedTrees, Networks, Predictor
    from papers.costream import planners
    from tests.models.untrained import begun

    def tiny(contestant: Predictor) -> Predictor:
        match contestant:
            case Networks(settings=settings):
                network = settings.network.model_copy(update={"hidden": 4, "layers": 1})
                return replace(contestant, settings=settings.model_copy(update={"network": network}))
            case BoostedTrees(settings=settings):
                return replace(contestant, settings=settings.model_copy(update={"rounds": 20, "members": 1}))
        return contestant

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planners, "PREDICTORS", {name: tiny(contestant) for name, contestant in PREDICTORS.items()})
        patch.setattr(pipeline, "train_member", begun)
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests of experiments as slow, except those of their words: each trains, or simulates hundreds of runs."""
    for item in items:
        if HERE in item.path.parents and item.path.name not in ("test_vocabulary.py", "test_shapes.py"):
            item.add_marker(pytest.mark.slow)
