"""What Java and its bridge say stays away from the user; that Java has ended does not."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import SparkContext

from spark.jvm import end_told, quiet_bridge
from spark.session import PREFIX, scratch_folder
from twin.errors import BadInput, Unfinished

pytestmark = pytest.mark.spark


def test_tracebacks_of_the_bridge_are_left_out(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """py4j logs to the root logger; only what comes from its files is dropped, and only inside."""
    monkeypatch.setattr(logging.getLogger(), "filters", [])  # a session of other tests may be open around this one
    bridge = logging.LogRecord("root", logging.ERROR, "/somewhere/py4j/java_gateway.py", 1, "sending", (), None)
    other = logging.LogRecord("root", logging.ERROR, "/somewhere/mine.py", 1, "mine", (), None)
    with quiet_bridge():
        for record in (bridge, other):
            logging.getLogger().handle(record)
    logging.getLogger().handle(bridge)
    assert [record.getMessage() for record in caplog.records] == ["mine", "sending"]


def test_an_error_is_told_as_the_end_of_java_only_if_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gateway:
        proc = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])

    monkeypatch.setattr(SparkContext, "_gateway", Gateway())
    monkeypatch.setattr("spark.jvm.ENDING_S", 0.1)
    with pytest.raises(ConnectionRefusedError), end_told():
        raise ConnectionRefusedError
    Gateway.proc.kill()
    monkeypatch.setattr("spark.jvm.ENDING_S", 10.0)
    with pytest.raises(Unfinished, match=r"ended by signal 9 .* it goes on where it was"), end_told():
        raise ConnectionRefusedError
    with pytest.raises(BadInput, match="mine"), end_told():
        raise BadInput("mine")


def test_folders_of_killed_sessions_are_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code = "import os; from spark.session import scratch_folder\nwith scratch_folder(): os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)}, check=False)
    (left,) = tmp_path.glob(f"{PREFIX}*")
    with scratch_folder() as first, scratch_folder() as second:
        assert not left.exists()
        assert first.exists() and second.exists() and first != second
    assert not list(tmp_path.iterdir())
