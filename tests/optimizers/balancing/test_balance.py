"""A balancing problem is checked once, where it is made."""

from __future__ import annotations

import numpy as np
import pytest

from optimizers.balancing.problem import KeyGroupTraffic, filled
from tests.optimizers.balancing.small import balance
from twin.errors import BadInput


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"loads": ()}, "loads of one resource"),
        ({"loads": ((1, np.nan, 1, 1),)}, r"loads\['cpu'\]\[1\] must be a number >= 0, got nan; fill gaps"),
        ({"loads": ((1, -2, 1, 1),)}, "got -2"),
        ({"loads": ((1, 2),)}, "must have 4 entries, got 2"),
        ({"homes": (0, 0, 0, 2)}, "home_g names node 2, but there are 2"),
        ({"homes": ()}, "needs key groups and nodes, got 0 and 2"),
        ({"capacity_h": (1, 0)}, "capacity_h of node 1 must be > 0"),
        ({"kill_h": (True, True)}, "all nodes are marked"),
        ({"budget": -1}, "budget must be a number >= 0, got -1"),
        ({"budget": np.nan}, "budget must be a number >= 0, got nan"),
        ({"cost_g": (1, 1, np.inf, 1)}, r"cost_g\[2\]"),
        ({"limits": {"gpu": 3}}, "limits names 'gpu'"),
        ({"limits": {"cpu": -3}}, r"limits\['cpu'\] must be"),
        ({"serialising": -1}, "serialising"),
        ({"traffic": KeyGroupTraffic([0, 0], [0], [1], [1.0])}, "traffic is of 2 key groups, the balance of 4"),
    ],
)
def test_bad_statistics_are_refused_with_a_remedy(change, says):
    with pytest.raises(BadInput, match=says):
        balance(**change)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (([0, 0], [0], [1, 1], [1.0]), "of one length"),
        (([0, 0], [0], [2], [1.0]), "names key group 2"),
        (([0, 0], [0], [1], [np.nan]), "every rate must be a number"),
        (([0, 0], [1], [1], [1.0]), "sends to itself"),
    ],
)
def test_bad_traffic_is_refused(columns, says):
    with pytest.raises(BadInput, match=says):
        KeyGroupTraffic(*columns)


def test_gaps_are_what_was_known_before_or_nothing():
    assert filled(np.array([1.0, np.nan, np.nan]), np.array([5.0, 2.0, np.nan])).tolist() == [1.0, 2.0, 0.0]
    assert filled(np.array([np.nan])).tolist() == [0.0]


def test_nothing_of_it_can_be_changed():
    problem = balance()
    with pytest.raises(ValueError, match="read-only"):
        problem.home_g[0] = 1
    with pytest.raises(TypeError):
        problem.loads["cpu"] = None


def test_a_group_is_a_smaller_share_of_a_stronger_node():
    problem = balance(capacity_h=(1, 3))
    assert problem.load_h(np.array([0, 0, 1, 1])).tolist() == [40.0, 20.0 / 3.0]
    assert problem.mean == 15.0


def test_the_mean_is_of_unmarked_nodes_and_not_rounded_up():
    assert balance(((10, 10, 10, 11),), (0, 1, 2, 2), 3, kill_h=(0, 0, 1)).mean == 20.5


def test_the_resource_with_the_greatest_total_usage_is_balanced():
    assert balance(((1, 1, 1, 1), (0, 0, 0, 9))).bottleneck == "mem"


def test_pairs_are_outstanding_by_what_their_sender_sends_on_average():
    """Outstanding pairs are judged by the sender's mean: 9 + 1 + 2 to two and one groups of two operators is 4."""
    traffic = KeyGroupTraffic([0, 1, 1, 2], [0, 0, 0, 1], [1, 2, 3, 3], [9.0, 1.0, 2.0, 1.0])
    assert traffic.outstanding(1.5).tolist() == [True, False, False, False]
    assert traffic.outstanding(0.9).tolist() == [True, False, False, True]
    assert traffic.factor(np.array([0, 0, 1, 1])) == pytest.approx(100 * 9 / 13)
    assert KeyGroupTraffic([0, 0], [], [], []).factor(np.array([0, 1])) == 100.0
