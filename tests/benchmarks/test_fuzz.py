"""Tests of fuzzing: it finds known faults, and a small sample of each kind of case shows none."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from benchmarks.fuzz.__main__ import run
from benchmarks.fuzz.kept_cases import COSTLY, KEPT, damage_case
from benchmarks.fuzz.trying import FAULTS, UNNOTICED
from scenarios import improving

NAMES = [pytest.param(each, marks=pytest.mark.slow if each in COSTLY else ()) for each in KEPT]


@pytest.mark.parametrize("name", NAMES)
def test_no_flipped_bit_goes_unnoticed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(improving, "STEPS", 40)  # however little an improved model has learned
    for number in range(1 if name in COSTLY else 5):
        (tmp_path / str(number)).mkdir()
        found = damage_case(Random(number), tmp_path / str(number), name)
        assert found.kind not in FAULTS, found


BOUNDARIES = ("depth", "caches", "pages", "states", "drips")


@pytest.mark.slow  # some seconds each
@pytest.mark.parametrize("kind", BOUNDARIES)
def test_nothing_that_comes_in_brings_a_process_down(kind: str, tmp_path: Path) -> None:
    found = [run(kind, number, seed=0, keep=None) for number in range(100)]
    assert [each for each in found if each.kind in FAULTS] == []


def test_a_flipped_bit_that_changes_an_answer_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(folder: Path) -> None:
        folder.mkdir()
        (folder / "a").write_bytes(b"text")

    monkeypatch.setitem(KEPT, "texts", (write, lambda folder: (folder / "a").read_bytes()))  # type: ignore[attr-defined]
    assert damage_case(Random(0), tmp_path, "texts").kind == UNNOTICED
