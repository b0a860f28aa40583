"""The product stays small: lines of Python by package may only fall. Whoever adds a capability raises a limit."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SLACK = 0.02
"""Share by which a package may be smaller than its limit before that is lowered."""

MOST_LINES = {
    "benchmarks": 6_280,
    "figures": 1_440,
    "models": 5_100,
    "optimizers": 12_480,
    "papers": 7_730,
    "scenarios": 11_680,
    "spark": 1_280,
    "streamtwin": 14_280,
    "tests": 44_570,
    "twin": 37_790,
}


def lines(package: str) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("package", MOST_LINES)
def test_lines_only_fall(package: str) -> None:
    most = MOST_LINES[package]
    counted = lines(package)
    assert counted <= most, f"{package} grew to {counted} lines; make something simpler, or raise the limit and say why"
    assert counted >= (1 - SLACK) * most, f"{package} has only {counted} lines now; lower the limit to that"
