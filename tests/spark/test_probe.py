"""Clusters without workers, or whose workers cannot run our code: one line each that names the remedy, and soon."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark import probe
from spark.session import session
from tests.spark.standalone import Cluster, standalone
from twin.errors import BadInput

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Cluster of one worker."""
    with standalone(tmp_path_factory.mktemp("cluster"), workers=1) as found:
        yield found


def refusal(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, **variables: str) -> str:
    """Line with which a session on the cluster is refused."""
    for name, value in (cluster.variables | variables).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with pytest.raises(BadInput) as refused, session(cluster.master):
        pass
    return str(refused.value)


def test_a_cluster_without_workers_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "PATIENCE_S", 5.0)
    with standalone(tmp_path, workers=0) as empty:
        assert "offered no executor in 5 s; start workers for it" in refusal(empty, monkeypatch)


def test_workers_without_python_are_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    said = refusal(cluster, monkeypatch, PYSPARK_PYTHON="/nowhere/python")
    assert "/nowhere/python" in said
    assert said.endswith("on each of them, and name it: PYSPARK_PYTHON=/path/to/python")


def test_workers_without_our_packages_are_named(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    said = refusal(cluster, monkeypatch, PYSPARK_PYTHON=str(bare))
    assert re.search(r"No module named '\w+'", said) and "PYSPARK_PYTHON=" in said


def test_workers_of_another_version_are_named(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python that says it is another one is refused by Spark before any code of ours."""
    other = tmp_path / "python"
    script = "import sys; sys.version_info = (3, 10, 0, 'final', 0); sys.argv = sys.argv[1:]"
    script += "; import runpy; runpy.run_module(sys.argv[1], run_name='__main__', alter_sys=True)"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{script}" "$@"\n')
    other.chmod(0o755)
    said = refusal(cluster, monkeypatch, PYSPARK_PYTHON=str(other))
    assert "install Python" in said and "PYSPARK_PYTHON=" in said


def test_workers_that_can_work_get_work(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in cluster.variables.items():
        monkeypatch.setenv(name, value)
    with session(cluster.master) as spark:
        assert spark.sparkContext.parallelize([1, 2]).sum() == 3
