"""One tiny workspace for all experiments: simulations without Spark, networks that hardly learn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from papers.simulating import Job, in_process
from papers.sizes import Sizes
from papers.workspace import Workspace
from scenarios.executing.progress import Audience, Lines

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


def coarsely(jobs: Sequence[Job], audience: Audience) -> None:
    """A fan-out for tests."""
    in_process(jobs, audience)


def silent() -> Audience:
    return Lines(lambda _: None)


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """What one experiment has made, the next one finds."""
    return Workspace(tmp_path_factory.mktemp("workspace"), TINY, SEED, silent(), coarsely)


@pytest.fixture
def fresh(tmp_path: Path) -> Workspace:
    """An empty one."""
    return Workspace(tmp_path / "work", TINY, SEED, silent(), coarsely)


@pytest.fixture(scope="session")
def tiny_contestants() -> Iterator[None]:
    """All contestants as they are, but with networks and trees that are as small as can be."""
    import jax

    from models.predictors import PREDICTORS, BoostedTrees, Networks, Predictor
    from papers.costream import rivals

    def tiny(contestant: Predictor) -> Predictor:
        match contestant:
            case Networks(settings=settings):
                network = settings.network.model_copy(update={"hidden": 4, "layers": 1})
                return replace(contestant, settings=settings.model_copy(update={"network": network}))
            case BoostedTrees(settings=settings):
                return replace(contestant, settings=settings.model_copy(update={"rounds": 20, "members": 1}))
        return contestant

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rivals, "PREDICTORS", {name: tiny(each) for name, each in PREDICTORS.items()})
        jax.config.update("jax_disable_most_optimizations", True)  # XLA would optimise networks that run once
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Experiments, however small, are trainings and hundreds of runs: all of them are slow."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)
