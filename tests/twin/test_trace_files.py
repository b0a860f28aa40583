"""What is written is found again as it was, or said to be damaged; and nobody else's half-made file is touched."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from twin.atomic import new_folder
from twin.checksums import SUMS
from twin.trace import TABLES, damage, read_table, write_trace

ROWS = {
    "runs": [{"run": "r-1", "index": 1, "status": "ok"}],
    "subtasks": [{"run": "r-1", "operator": "f", "subtask": 0}],
}


def test_sha256sum_agrees_with_a_trace(tmp_path: Path) -> None:
    write_trace(ROWS, tmp_path / "trace")
    check = subprocess.run(["sha256sum", "-c", SUMS], cwd=tmp_path / "trace", capture_output=True, check=False)
    assert check.returncode == 0, check.stderr
    assert check.stdout.count(b": OK") == len(TABLES)


@pytest.mark.parametrize("file", [f"{table}.parquet" for table in TABLES])
def test_a_byte_less_or_more_is_damage(tmp_path: Path, file: str) -> None:
    write_trace(ROWS, tmp_path / "trace")
    assert damage(tmp_path / "trace") == ""
    path = tmp_path / "trace" / file
    content = path.read_bytes()
    for other in (content[:-1], content + b"\0", b""):
        path.write_bytes(other)
        assert damage(tmp_path / "trace") == f"{file} is not as it was written"
    path.unlink()
    assert damage(tmp_path / "trace") == f"{file} is missing"


def test_a_table_of_subtasks_may_be_left_out(tmp_path: Path) -> None:
    write_trace(ROWS | {"subtasks": []}, tmp_path / "trace")
    assert damage(tmp_path / "trace") == "" and not (tmp_path / "trace" / "subtasks.parquet").exists()
    assert read_table(tmp_path / "trace", "subtasks").num_rows == 0


def test_checksums_that_are_none_are_damage(tmp_path: Path) -> None:
    write_trace(ROWS, tmp_path / "trace")
    (tmp_path / "trace" / SUMS).write_bytes(b"\xff\x00nonsense")
    assert damage(tmp_path / "trace") == "runs.parquet is not as it was written"


def test_containers_with_equal_process_numbers_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On storage that they share, each fills a folder of its own; the last to be done is the one that stays."""
    with ExitStack() as stack:
        folders = []
        for host in ("one", "other", "with/slash", "x" * 300):
            monkeypatch.setattr("socket.gethostname", lambda host=host: host)
            folders.append(stack.enter_context(new_folder(tmp_path / "trace")))
        assert len(set(folders)) == 4
        assert all(folder.parent == tmp_path and folder.is_dir() for folder in folders)
