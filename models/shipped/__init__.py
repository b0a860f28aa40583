"""The models that come with the package: corrections of the rate model, for whatever engine and hosts a job has.

`all.msgpack` learned from very many bursty jobs of ordinary kinds, and predicts METRICS. `composed/all.msgpack` learned
from fewer jobs in which much works together, of up to 12 sources and all kinds, and predicts quantiles, too. `learned`
asks the first that knows a job. `card.md` beside each describes its training data and its errors; they are made by
`python -m benchmarks.shipped_model`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from models.prediction import FirstThatKnows, LearnedCostModel, load

FOLDER = Path(__file__).parent
COMPOSED = FOLDER / "composed"
NAME = "learned"


@cache
def model() -> LearnedCostModel:
    """The first shipped model, which is fine-tuned and evaluated by its name; the same object every time. Raises
    BadInput if its file is for features of another version."""
    return replace(load(FOLDER), name=NAME)


@cache
def planner() -> FirstThatKnows:
    """Both shipped models, as plans are judged by `learned`. Raises BadInput as `model`."""
    return FirstThatKnows(NAME, (model(), replace(load(COMPOSED), name=NAME)))
