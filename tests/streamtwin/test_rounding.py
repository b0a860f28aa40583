"""Values are written with the digits that their errors leave."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtwin.tables import rounding


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (107.8, 8.6, "110 ± 10"),
        (950, 76, "950 ± 80"),
        (12.83, 0.26, "12.8 ± 0.3"),
        (13.04, 3.1, "13 ± 3"),
        (107_834, 1_078, "108,000 ± 1,000"),
        (107.8, 0.24, "107.8 ± 0.2"),
        (0.3, 0.5, "0.30 ± 0.50"),
        (12.8, None, ""),
        (0.0, 0.0, ""),
    ],
)
def test_examples(value: float, error: float | None, text: str) -> None:
    assert rounding.number(value, error) == text


def test_durations_choose_their_unit() -> None:
    assert rounding.seconds(1.0123, 0.033) == "1.01 ± 0.03 s"
    assert rounding.seconds(0.02087, 2e-5) == "20.87 ± 0.02 ms"
    assert rounding.seconds(1.0, None) == ""


@pytest.mark.parametrize(
    ("name", "mean", "half", "difference", "text"),
    [
        ("latency_s", 25.0, 28.0, False, "25.00 s (0 to 53.00 s)"),
        ("latency_s", -0.0561, 0.003, True, "-56 ± 3 ms"),
        ("latency_s", 0.02, 0.05, True, "20 ± 50 ms"),
        ("late", -0.0, 0.0, False, "0"),
    ],
)
def test_no_quantity_is_said_to_be_less_than_nothing(name, mean, half, difference, text) -> None:
    assert rounding.metric(name, mean, half, difference) == text


@given(st.floats(1e-9, 1e12), st.floats(1e-6, 1.0))
def test_rounding_moves_a_value_by_less_than_its_error(value: float, share: float) -> None:
    """... and leaves two digits, or no more than one beyond those that the error leaves."""
    error = value * share
    text = rounding.number(value, error)
    shown, beside = (float(each.replace(",", "")) for each in text.split(" ± "))
    unit = 10.0 ** rounding.place(value, error)
    assert abs(shown - value) <= unit * 0.5001 + 1e-12 * value
    assert 0.0 < beside <= error + unit * 0.5001
    leading = math.floor(-math.log10(share)) + 1
    assert rounding.digits(value, error) <= max(2, leading) + 1
    assert re.fullmatch(r"[\d,.]+ ± [\d,.]+", text)
    if rounding.digits(value, error) > 2:
        assert unit <= 2.0 * error
