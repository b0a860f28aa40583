"""What is wrong between parts of a file is told with the line that it is on."""

from __future__ import annotations

import pytest

from scenarios.files import scenario_file
from twin.error_location import error_location
from twin.errors import BadInput

FILE = """name: two
query:
  operators:
    - {name: s, kind: source}
    - {name: out, kind: sink}
  streams:
    - {producer: s, consumer: out}
cluster:
  hosts:
    - {name: h, cpu_percent: 100, ram_mb: 2000, bandwidth_mbps: 100, latency_ms: 1}
plan:
  placement:
    s: h
    out: h
workload:
  arrivals:
    s: {law: poisson, rate_per_s: 9}
events:
  - {kind: slow-down, at_s: 1, host: h, factor: 2}
  - {kind: scale, at_s: 2, operator: s, placement: [h, h]}
"""


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("", "", 20),  # a source cannot be scaled
        ("out: h\n", "out: far\n", 14),
        ("out: h\n", "out: h\n    ghost: h\n", 15),
        ("consumer: out", "consumer: outt", 7),
        ("    s: {law", "    t: {law", 17),
        ("host: h,", "host: g,", 19),
    ],
)
def test_a_mistake_between_parts_has_its_line(old: str, new: str, line: int) -> None:
    with pytest.raises(BadInput, match=rf"line {line}: "):
        scenario_file.parse_scenario(FILE.replace(old, new, 1) if old else FILE, "two.yaml")


def test_a_mistake_of_an_event_says_which_event():
    with pytest.raises(BadInput, match=r"events\.1 \(scale of s at 2 s\): 's' is a source"):
        scenario_file.parse_scenario(FILE, "two.yaml")


def test_what_points_nowhere_has_no_place() -> None:
    assert error_location("a sentence about 'h'", {"name": "h"}, ()) == ()
    assert error_location("plan.placements.x: no", {"plan": {"placement": {}}}, ()) == ("plan",)
    assert error_location("events.7 (scale of x at 5 s): 'x'", {"events": [1]}, ()) == ("events",)
    assert error_location("repeats 'b'", {"a": [{"name": "b"}]}, ("a",)) == ("a", 0, "name")
