"""Unseen hardware is unseen, and within or beyond the training range as its name says."""

from __future__ import annotations

import pytest

from scenarios.spaces.parameter_space import COSTREAM, EXTRAPOLATIONS, FEATURES, INTERPOLATION, UNSEEN_HARDWARE


@pytest.mark.parametrize("feature", FEATURES)
def test_interpolation_lies_between_the_values_of_the_training_space(feature):
    known, asked = getattr(COSTREAM, feature), getattr(INTERPOLATION, feature)
    assert not set(known) & set(asked)
    assert min(known) < min(asked) <= max(asked) < max(known)


@pytest.mark.parametrize("each", EXTRAPOLATIONS, ids=lambda each: each.name)
def test_extrapolation_asks_for_the_rest_of_the_training_space(each):
    low, high = each.trained
    known = getattr(COSTREAM, each.feature)
    assert {value for value in known if not low <= value <= high} == set(each.asked)
    assert {low, high} < set(known)
    stronger_is_more = each.feature != "latency_ms"
    beyond = min(each.asked) > high if (each.towards == "stronger") == stronger_is_more else max(each.asked) < low
    assert beyond


def test_but_for_the_hardware_every_space_is_costreams():
    for space in UNSEEN_HARDWARE.values():
        names = [name for name in space.__dataclass_fields__ if name not in FEATURES]
        assert all(getattr(space, name) == getattr(COSTREAM, name) for name in names)
