"""Costs that rates do not tell apart move together, and say that they know no more than each other."""

from __future__ import annotations

import numpy as np
import pytest

from scenarios.calibration.newton import NewtonFit, untied
from scenarios.calibration.unit_costs import TIED, of_kinds, ties
from twin.profiles import FLINK


@pytest.mark.parametrize("others", [0, 2])
def test_costs_of_a_tie_share_a_factor_and_its_uncertainty(others: int) -> None:
    costs = of_kinds(FLINK)
    names, ties_kf = [cost.name for cost in costs], ties(costs)
    assert (ties_kf.sum(axis=1) == 1.0).all()
    assert ties_kf.shape[1] == len(costs) - sum(len(tie) - 1 for tie in TIED)
    rng = np.random.default_rng(0)
    size = ties_kf.shape[1] + others
    root = rng.normal(size=(size, size))
    factors = NewtonFit(rng.normal(size=size), root @ root.T, 9)
    found = untied(factors, ties_kf)
    assert len(found.logs_k) == len(costs) + others and found.readings == 9
    for tie in TIED:
        first, *more = [names.index(name) for name in tie]
        for each in more:
            assert found.logs_k[each] == found.logs_k[first]
            assert found.covariance_kk[each] == pytest.approx(found.covariance_kk[first])
    assert found.logs_k[len(costs) :] == pytest.approx(factors.logs_k[size - others :])
    assert np.linalg.eigvalsh(found.covariance_kk).min() > -1e-9


def test_a_profile_without_most_of_a_tie_has_a_factor_for_what_is_left() -> None:
    costs = [cost for cost in of_kinds(FLINK) if cost.name in ("value_us.strings", "scan_us", "tuple_us.source")]
    assert (ties(costs) == np.eye(3)).all()
    assert ties([]).shape == (0, 0)
