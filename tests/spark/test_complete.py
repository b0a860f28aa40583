"""Tests that a complete corpus is answered without Spark, and one that lacks anything is not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from scenarios import learning
from spark.corpus import write_corpus
from spark.pipeline import write_card
from streamtwin.cli import app as cli
from twin.simulation import simulate

pytestmark = pytest.mark.spark

REQUEST = learning.CorpusRecipe(runs=3, seed=7, space="costream", horizon_s=12.0)
WORDS = ("--seed", "7", "--space", "costream", "--horizon", "12", "--json", "--quiet")


class SparkStartedError(Exception):
    pass


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "corpus"
    make, spec = REQUEST.plan()
    write_corpus(spark, folder, spec, make, simulate, chunk_runs=1)
    write_card(spark, folder, REQUEST.command)
    return folder


@pytest.fixture
def corpus(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def started(*_: object) -> None:
        raise SparkStartedError

    monkeypatch.setattr("spark.session.session", started)
    monkeypatch.setattr("streamtwin.cli.terminal._claim_stdout", lambda: (tmp_path / "out").open("w"))
    return Path(shutil.copytree(made, tmp_path / "corpus"))


def status(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[object, str]:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["corpus", *map(str, words), *WORDS])
    return stopped.value.code, capsys.readouterr().err


def test_the_same_command_again_starts_no_spark(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card = (corpus / "card.md").stat().st_mtime_ns
    assert status(capsys, corpus, "--runs", 3) == (0, "")
    assert '"resumed": 3' in (corpus.parent / "out").read_text()
    assert (corpus / "card.md").stat().st_mtime_ns == card


@pytest.mark.parametrize("lacking", ["card.json", "chunks/chunk-000001", "chunks/chunk-000002/links.parquet", None])
def test_what_lacks_anything_starts_one(corpus: Path, capsys: pytest.CaptureFixture[str], lacking: str | None) -> None:
    """A corpus that lacks anything starts Spark. None: more runs are asked for than there are."""
    if lacking is not None:
        path = corpus / lacking
        (shutil.rmtree if path.is_dir() else Path.unlink)(path)
    code, said = status(capsys, corpus, "--runs", 3 if lacking else 4)
    assert code == 1 and "SparkStartedError" in said


def test_fewer_runs_are_refused(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(capsys, corpus, "--runs", 2) == (
        2,
        f"twin: {corpus} has 3 runs, not 2; ask for as many or more\n",
    )
