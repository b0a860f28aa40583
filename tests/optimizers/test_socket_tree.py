"""Placement tree against every placement; its symmetries; the cost of its heuristics."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from optimizers.numa.space import Symmetry
from optimizers.numa.tree import Heuristics, Order, SocketTree, search
from tests.optimizers.numa_jobs import deployment, every_placement, small_jobs
from twin.cluster import server_a, server_b
from twin.deployment import Deployment
from twin.rates.numa_rates import NumaJob, sustained

Job = tuple[Deployment, np.ndarray]


def best_of_all(job: NumaJob, subtasks_o: np.ndarray) -> float:
    """Largest load of all placements, by brute force."""
    return float(sustained(job, np.array(list(every_placement(job, subtasks_o)))).load_n.max())


@pytest.mark.parametrize("order", ["depth", "best"])
@pytest.mark.parametrize("symmetry", [False, True])
@settings(max_examples=40, deadline=None)
@given(small=small_jobs())
def test_without_heuristics_it_equals_brute_force(order: Order, symmetry: bool, small: Job) -> None:
    """Without heuristics the tree finds what brute force does, also with redundancy elimination."""
    job, subtasks_o = NumaJob(small[0]), small[1]
    off = Heuristics(ratio=1, symmetry=symmetry, collocation=False, best_fit=False)
    tree = SocketTree(job, subtasks_o, off, Symmetry(job))
    found = search(tree.root, tree.branch, order=order)
    assert found.best is not None and found.bound == pytest.approx(found.best.bound)
    assert (found.best.counts_ol.sum(axis=1) == subtasks_o).all()
    assert found.best.bound == pytest.approx(best_of_all(job, subtasks_o))
    assert found.best.bound == pytest.approx(float(sustained(job, found.best.counts_ol[None]).load_n[0]))


@settings(max_examples=60, deadline=None)
@given(small=small_jobs(), ratio=st.integers(1, 3))
def test_with_heuristics_it_is_valid_and_never_better(small: Job, ratio: int) -> None:
    """Heuristic placements are valid and never above the best. ratio: of compression, which keeps subtasks."""
    job, subtasks_o = NumaJob(small[0]), small[1]
    assume(ratio == 1 or job.cores_l.max() >= ratio)
    tree = SocketTree(job, subtasks_o, Heuristics(ratio=ratio), Symmetry(job))
    found = search(tree.root, tree.branch)
    assert found.best is not None
    assert (found.best.counts_ol.sum(axis=1) == subtasks_o).all()
    assert found.best.bound <= best_of_all(job, subtasks_o) * (1 + 1e-9)


@settings(max_examples=30, deadline=None)
@given(small=small_jobs())
def test_interchangeable_sockets_bear_the_same(small: Job) -> None:
    """Sockets of one class bear the same load alone."""
    job, subtasks_o = NumaJob(small[0]), small[1]
    distinct = Symmetry(job).distinct(frozenset())
    alone = np.zeros((len(job.locations), len(subtasks_o), len(job.locations)))
    for socket in range(len(job.locations)):
        alone[socket, :, socket] = subtasks_o
    loads = sustained(job, alone).load_n
    assert {round(float(load), 9) for load in loads} == {round(float(loads[socket]), 9) for socket in distinct}


@pytest.mark.parametrize(("cluster", "after_one"), [(server_a(), 6), (server_b(), 4)])
def test_the_sockets_of_both_servers_are_alike_until_one_is_used(cluster: object, after_one: int) -> None:
    """All sockets are alike until one is used. Server A: from socket 0 there are one and two hops within the tray,
    three and four across, each twice or once; of Server B the other of a pair, the other pair, and the other tray."""
    document = deployment([1, 1, 1], [(0, 1), (1, 2)], [1], [[0]]).model_dump(mode="json")
    document["cluster"] = cluster.model_dump(mode="json")  # type: ignore[attr-defined]
    document["plan"]["placement"] = dict.fromkeys(("op0", "op1", "op2"), cluster.hosts[0].name)  # type: ignore[attr-defined]
    symmetry = Symmetry(NumaJob(Deployment.model_validate(document)))
    assert symmetry.distinct(frozenset()) == (0,)
    assert len(symmetry.distinct(frozenset({0}))) == after_one
