"""Clusters without workers, or whose workers cannot run our code: one line each that names the remedy, and soon."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import ROOT
from tests.spark.standalone import Cluster, standalone

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = """
import sys
from spark import session
from twin.errors import BadInput
session.PATIENCE_S = float(sys.argv[2])
try:
    with session.session(sys.argv[1]) as spark:
        print(spark.sparkContext.parallelize([1, 2]).sum())
except BadInput as error:
    print(error)
"""
"""Program that begins a session, of which a process has one at a time, and prints a sum or the refusal."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Cluster of one worker."""
    with standalone(tmp_path_factory.mktemp("cluster"), workers=1) as found:
        yield found


def said(cluster: Cluster, patience_s: float = 60.0, **variables: str) -> str:
    """Line that PROGRAM prints about a cluster."""
    command = [sys.executable, "-c", PROGRAM, cluster.master, str(patience_s)]
    done = subprocess.run(command, cwd=ROOT, env=cluster.variables | variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    return line


def test_a_cluster_without_workers_is_not_waited_for(tmp_path: Path) -> None:
    with standalone(tmp_path, workers=0) as empty:
        assert "finished no task in 5 s; start workers for it" in said(empty, 5.0)


def test_workers_without_python_are_named(cluster: Cluster) -> None:
    line = said(cluster, PYSPARK_PYTHON="/nowhere/python")
    assert "/nowhere/python" in line
    assert "install Python" in line and line.endswith("name it: PYSPARK_PYTHON=/path/to/python")


def test_workers_without_our_packages_are_named(cluster: Cluster, tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    line = said(cluster, PYSPARK_PYTHON=str(bare))
    assert re.search(r"No module named '\w+'", line) and "PYSPARK_PYTHON=" in line


def test_workers_of_another_version_are_named(cluster: Cluster, tmp_path: Path) -> None:
    """A Python that says it is another one is refused by Spark before any code of ours."""
    other = tmp_path / "python"
    script = "import sys; sys.version_info = (3, 10, 0, 'final', 0); sys.argv = sys.argv[1:]"
    script += "; import runpy; runpy.run_module(sys.argv[1], run_name='__main__', alter_sys=True)"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{script}" "$@"\n')
    other.chmod(0o755)
    line = said(cluster, PYSPARK_PYTHON=str(other))
    assert "install Python" in line and "PYSPARK_PYTHON=" in line


def test_workers_that_can_work_get_work(cluster: Cluster) -> None:
    assert said(cluster) == "3"
