"""Settings and data for tests of models. Most of their time would be XLA optimising networks that run once."""

from __future__ import annotations

import jax
import pytest

from models.graph import GraphTable, JointGraph, joint_graph, stack
from tests.models.deployments import random_deployment

jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture(scope="session")
def graphs() -> list[JointGraph]:
    """Graphs of forty jobs, with one to three replicas."""
    return [joint_graph(random_deployment(seed, replicas=1 + seed % 3, size=3)) for seed in range(40)]


@pytest.fixture(scope="session")
def table(graphs: list[JointGraph]) -> GraphTable:
    """All graphs, stacked."""
    return stack(graphs)
