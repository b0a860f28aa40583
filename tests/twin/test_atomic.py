"""What is written appears whole or not at all, and leaves nothing beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from twin.atomic import new_file, new_folder, write_text


def test_a_file_appears_at_the_end_and_replaces_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.txt"
    for text in ("one", "two"):
        with new_file(path) as aside:
            aside.write_text(text)
            assert not path.exists() or path.read_text() == "one"
        assert path.read_text() == text
    assert [each.name for each in path.parent.iterdir()] == ["file.txt"]


def interrupt(half: Path) -> None:
    """What a person may do while a file is written."""
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
        "import os, pathlib, signal, sys\nfrom twin.atomic import new_folder\n"
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
