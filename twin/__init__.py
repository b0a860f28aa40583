"""Simulator of stream jobs, and the vocabulary of all other packages. Its version is what every manifest names."""

from __future__ import annotations

VERSION = "0.2.0"


def same_runs(one: str, other: str) -> bool:
    """Whether two versions simulate the same runs: patch releases change none."""
    return one.split(".")[:2] == other.split(".")[:2]
