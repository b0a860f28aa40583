"""Numbers with units: the same text means the same wherever it is read, in the unit that a name asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twin.errors import BadInput
from twin.quantities import FACTORS, SECONDS, duration_s, number, unit_of_time


@given(st.floats(1e-6, 1e6), st.sampled_from(sorted(SECONDS)), st.sampled_from(["horizon_s", "latency_ms", "age_us"]))
def test_a_duration_is_as_long_in_any_unit(value, unit, name):
    in_s = number(f"{value!r}{unit}", name) * SECONDS[unit_of_time(name)]
    assert in_s == pytest.approx(value * SECONDS[unit], rel=1e-12)
    assert number(f"{value!r}", name) == value


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("20k", "rate_per_s", 20_000),
        ("1.5M", "", 1.5e6),
        ("1%", "precision", 0.01),
        ("80%", "cpu_percent", 80),
        ("1e3", "rate_per_s", 1000),
        ("5 ms", "e2e_latency_s.p99", 0.005),
    ],
)
def test_numbers(text, name, value):
    assert number(text, name) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "fast", "1x", "k", "1..2", "nan", "inf", "1kk", "5ms"])
def test_what_is_no_number_of_a_rate_is_refused(text):
    with pytest.raises(ValueError, match=r"is no number|is a duration"):
        number(text, "rate_per_s")


def test_durations_need_a_unit():
    texts = {"500ms": 0.5, "2s": 2.0, "2 min": 120.0, ".5s": 0.5, "1h": 3600.0}
    assert {text: duration_s(text, "--slo") for text in texts} == texts
    with pytest.raises(BadInput, match=r"^--slo 500: a duration needs a unit; write 500ms or 500s$"):
        duration_s("500", "--slo")
    for text in ("", "fast", "-1s", "0s", "inf", "5k", *FACTORS):
        with pytest.raises(BadInput, match="--slo"):
            duration_s(text, "--slo")
