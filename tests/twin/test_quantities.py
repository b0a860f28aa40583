"""Numbers with units: the same text means the same wherever it is read, in the unit that a name asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twin.cluster import Host
from twin.errors import BadInput
from twin.quantities import FACTORS, SECONDS, duration_s, number, unit_of_time
from twin.scenario import RunSettings
from twin.spec import parse
from twin.workload import Constant


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


def test_specs_take_numbers_with_units_wherever_a_number_stands():
    settings = parse(RunSettings, {"horizon_s": "2min", "warmup_s": "500ms", "precision": "1%", "seed": "2k"})
    assert (settings.horizon_s, settings.warmup_s, settings.precision, settings.seed) == (120, 0.5, 0.01, 2000)
    assert parse(Constant, {"law": "constant", "rate_per_s": "20k"}).rate_per_s == 20_000
    host = {"name": "1k", "cpu_percent": "200%", "ram_mb": 8000, "bandwidth_mbps": 100, "latency_ms": "1s"}
    assert parse(Host, host).model_dump(include={"name", "cpu_percent", "latency_ms"}) == {
        "name": "1k", "cpu_percent": 200, "latency_ms": 1000}  # fmt: skip
    for name, text in {"ram_mb": "8G", "cpu_percent": "5ms", "latency_ms": "fast"}.items():
        with pytest.raises(BadInput, match=f"{name}: should be a (whole )?number.*{text}"):
            parse(Host, host | {name: text})
