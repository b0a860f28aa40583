"""Models that were trained on other values of the same columns must not be taken: they carry a revision, which this
test holds to the values.

Of some jobs, kept in feature_jobs.json, the mean of every column is kept in feature_values.json. Where it changes,
what is seen of a job is not what trained models learned from. Then raise REVISION in models/features.py, train the
shipped model again (benchmarks/shipped_model.py), and write the file anew:
`python -m tests.models.test_feature_revision`.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from models.dataset import of_deployments
from models.feature import Feature
from models.features import CONTEXT, FEATURES, NODE_TYPES, REVISION
from twin.deployment import Deployment
from twin.metrics import METRICS

FILE = Path(__file__).with_name("feature_values.json")
JOBS = Path(__file__).with_name("feature_jobs.json")
HORIZON_S = 60.0


def names_of(columns: tuple[Feature, ...]) -> list[str]:
    """One an input."""
    return [f"{each.name}.{number}" for each in columns for number in range(each.width)]


def means() -> dict[str, float]:
    """By node type and input, over all nodes of the type."""
    jobs = [Deployment.model_validate(each) for each in json.loads(JOBS.read_text(encoding="utf-8"))]
    graphs = of_deployments(jobs, np.zeros((len(jobs), len(METRICS))), horizon_s=HORIZON_S).graphs
    tables = {
        kind: (names_of(FEATURES[kind]), ragged.rows) for kind, ragged in zip(NODE_TYPES, graphs.nodes, strict=True)
    }
    tables["plan"] = (names_of(CONTEXT), graphs.context_GxC)
    return {
        f"{kind}.{name}": float(column.mean())
        for kind, (names, rows) in tables.items()
        for name, column in zip(names, np.asarray(rows, float).T, strict=True)
    }


@pytest.fixture(scope="module")
def kept():
    return json.loads(FILE.read_text(encoding="utf-8"))


def test_values_change_only_with_the_revision(kept):
    found = means()
    assert kept["revision"] == REVISION, "the file is of another revision; see above"
    assert found.keys() == kept["means"].keys()
    changed = [name for name, value in found.items() if value != pytest.approx(kept["means"][name], rel=1e-4, abs=1e-5)]
    assert not changed, "these columns have other values; raise REVISION, and do what stands above"


if __name__ == "__main__":
    FILE.write_text(json.dumps({"revision": REVISION, "means": means()}, indent=1) + "\n", encoding="utf-8")
