"""The model that comes with the package: a correction of the rate model, for whatever job, engine and hosts.

`card.md` describes its training data and its errors; both are made by `python -m benchmarks.shipped_model`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from models.prediction import LearnedCostModel, load

FOLDER = Path(__file__).parent
NAME = "learned"


@cache
def model() -> LearnedCostModel:
    """The shipped model, by its name; the same object every time. Raises BadInput if its file is for features of
    another version."""
    return replace(load(FOLDER), name=NAME)
