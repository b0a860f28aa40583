"""A benchmark goes on where it stopped, and begins anew where what it measures has changed."""

from __future__ import annotations

import pytest

from benchmarks.kept import Kept, OutOfTimeError


def test_rows_are_computed_once_until_their_source_changes(tmp_path) -> None:
    source, made = tmp_path / "source.py", []
    source.write_text("1")

    def row() -> list[int]:
        made.append(1)
        return [len(made)]

    path = tmp_path / "kept" / "rows.jsonl"
    assert [Kept(path, [source]).row(("cell", 3), row) for _ in range(3)] == [[1]] * 3
    assert Kept(path, [source]).row(("cell", 4), row) == [2]
    with path.open("a") as file:
        file.write('{"key": "cut o')
    assert Kept(path, [source]).row(("cell", 3), row) == [1]
    source.write_text("2")
    assert [Kept(path, [source]).row(("cell", 3), row) for _ in range(2)] == [[3]] * 2


def test_nothing_is_begun_when_time_is_up_but_what_is_there_is_told(tmp_path) -> None:
    path = tmp_path / "rows.jsonl"
    Kept(path, []).row("one", lambda: [1])
    late = Kept(path, [], minutes=-1.0)
    assert late.row("one", lambda: [2]) == [1]
    with pytest.raises(OutOfTimeError):
        late.row("two", lambda: [2])
