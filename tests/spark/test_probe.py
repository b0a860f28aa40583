"""Clusters without workers, or whose workers cannot run our code: one line each that names the remedy, and soon."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import ROOT
from tests.spark.standalone import standalone

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = """
import json, os, sys
from spark import session
from twin.errors import BadInput
for master, os.environ["PYSPARK_PYTHON"], session.PATIENCE_S in json.loads(sys.argv[1]):
    try:
        with session.session(master) as spark:
            print(spark.sparkContext.parallelize([1, 2]).sum())
    except BadInput as error:
        print(error)
"""
"""Program that begins one session after the other, and prints a sum or the refusal of each."""
OTHER_VERSION = (
    "import sys; sys.version_info = (3, 10, 0, 'final', 0); sys.argv = sys.argv[1:]"
    "; import runpy; runpy.run_module(sys.argv[1], run_name='__main__', alter_sys=True)"
)


def program(path: Path, line: str) -> str:
    """Path of a new program of one line of shell."""
    path.write_text(f'#!/bin/sh\nexec {line} "$@"\n')
    path.chmod(0o755)
    return str(path)


def test_clusters_that_cannot_work_are_refused_in_a_line_each_and_the_next_session_works(tmp_path: Path) -> None:
    """Refused are a cluster of no workers; workers without this Python; without our packages; and with a Python that
    says it is another one, which Spark refuses before any code of ours. The last cluster can work."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "one").mkdir()
    bare = program(tmp_path / "bare", f"{sys.executable} -S")
    other = program(tmp_path / "other", f'{sys.executable} -c "{OTHER_VERSION}"')
    with standalone(tmp_path / "empty", workers=0) as empty, standalone(tmp_path / "one", workers=1) as cluster:
        tried = [(empty.master, sys.executable, 5.0)]
        tried += [(cluster.master, python, 60.0) for python in ("/nowhere/python", bare, other, sys.executable)]
        command = [sys.executable, "-c", PROGRAM, json.dumps(tried)]
        done = subprocess.run(command, cwd=ROOT, env=cluster.variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    no_worker, no_python, no_packages, another_version, works = done.stdout.splitlines()
    assert "finished no task in 5 s; start workers for it" in no_worker
    assert "/nowhere/python" in no_python
    assert re.search(r"No module named '\w+'", no_packages)
    for line in (no_python, no_packages, another_version):
        assert "install Python" in line and line.endswith("name it: PYSPARK_PYTHON=/path/to/python")
    assert works == "3"
