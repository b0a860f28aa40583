"""Written files appear whole, are found again as they were, or are said to be damaged."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from twin.errors import BadInput
from twin.files import SUMS, new_file, new_folder, write_text
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
    """On shared storage containers with equal process numbers fill folders of their own; the last one done stays."""
    with ExitStack() as stack:
        folders = []
        for host in ("one", "other", "with/slash", "x" * 300):
            monkeypatch.setattr("socket.gethostname", lambda host=host: host)
            folders.append(stack.enter_context(new_folder(tmp_path / "trace")))
        assert len(set(folders)) == 4
        assert all(folder.parent == tmp_path and folder.is_dir() for folder in folders)


def test_a_file_appears_at_the_end_and_replaces_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.txt"
    for text in ("one", "two"):
        with new_file(path) as aside:
            aside.write_text(text)
            assert not path.exists() or path.read_text() == "one"
        assert path.read_text() == text
    assert [each.name for each in path.parent.iterdir()] == ["file.txt"]


def interrupt(half: Path) -> None:
    """Interrupts as a person may while a file is written."""
    half.write_text("half")
    raise KeyboardInterrupt


def test_what_was_interrupted_leaves_what_there_was(tmp_path: Path) -> None:
    write_text(tmp_path / "kept", "old")
    with pytest.raises(KeyboardInterrupt), new_file(tmp_path / "kept") as aside:
        interrupt(aside)
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "folder", replacing=True) as aside:
        interrupt(aside / "half")
    assert (tmp_path / "kept").read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]


def test_a_folder_appears_at_the_end_and_replaces_another_only_if_told(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for name in ("one", "two"):
        with new_folder(folder, replacing=True) as aside:
            (aside / "inner").mkdir()
            (aside / "inner" / name).write_text(name)
        assert [each.name for each in folder.rglob("*") if each.is_file()] == [name]
    with pytest.raises(OSError, match="not empty"), new_folder(folder) as aside:
        (aside / "three").write_text("three")
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


def test_nothing_written_is_an_error_not_an_empty_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), new_file(tmp_path / "nothing"):
        pass
    assert not list(tmp_path.iterdir())


def test_what_a_killed_process_left_goes_with_the_next_try(tmp_path: Path) -> None:
    killing = (
        "import os, pathlib, signal, sys\nfrom twin.files import new_folder\n"
        "with new_folder(pathlib.Path(sys.argv[1])) as aside:\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    folder, other = tmp_path / "folder [1]", tmp_path / ".folder [1].elsewhere.1.partial"
    other.mkdir()
    for each in (folder, tmp_path / "another"):
        subprocess.run([sys.executable, "-c", killing, str(each)], check=False)
    assert len(list(tmp_path.iterdir())) == 2, "the second has removed what the first left"
    with new_folder(folder) as aside:
        assert sorted(tmp_path.iterdir()) == sorted([aside, other]), "one of another machine may still be written"
    assert sorted(tmp_path.iterdir()) == sorted([folder, other])


def test_bad_trace_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"runs\.parquet is missing"):
        read_table(tmp_path, "runs")
    (tmp_path / "runs.parquet").write_bytes(b"not parquet")
    with pytest.raises(BadInput, match="not a readable Parquet file"):
        read_table(tmp_path, "runs")
