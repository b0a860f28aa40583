"""Data for tests of models."""

from __future__ import annotations

import pytest

from models.graph import GraphTable, JointGraph, joint_graph, stack
from tests.models.deployments import random_deployment


@pytest.fixture(scope="session")
def graphs() -> list[JointGraph]:
    """Graphs of forty jobs, with one to three subtasks."""
    return [joint_graph(random_deployment(seed, parallelism=1 + seed % 3, size=3)) for seed in range(40)]


@pytest.fixture(scope="session")
def table(graphs: list[JointGraph]) -> GraphTable:
    """All graphs, stacked."""
    return stack(graphs)
