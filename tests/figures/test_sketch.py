"""The small picture of a query has a dot an operator and a line a stream, inside its frame, whatever the query."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

from figures.sketch import SIZE_PX, Dot, Sketch, sketch
from figures.svg import heat

SVG = "{http://www.w3.org/2000/svg}"


@st.composite
def queries(draw: st.DrawFn) -> Sketch:
    columns = sorted(draw(st.lists(st.integers(0, 9), min_size=1, max_size=40)))
    dots = [Dot(column, draw(st.none() | st.floats(0, 1))) for column in columns]
    pairs = [(a, b) for a, one in enumerate(dots) for b, other in enumerate(dots) if one.column < other.column]
    return Sketch(draw(st.text(max_size=9)), dots, draw(st.lists(st.sampled_from(pairs))) if pairs else [])


@settings(max_examples=60)
@given(queries())
def test_each_operator_is_a_dot_apart_from_the_others_and_each_stream_a_line_to_the_right(drawn: Sketch) -> None:
    root = ET.fromstring(sketch(drawn))
    dots = [tuple(float(each.get(key, "")) for key in ("cx", "cy", "r")) for each in root.iter(f"{SVG}circle")]
    assert [each.get("fill") for each in root.iter(f"{SVG}circle")] == [heat(dot.busy).fill for dot in drawn.dots]
    assert len({(x, y) for x, y, _ in dots}) == len(drawn.dots)
    assert all(r <= x <= SIZE_PX[0] - r and r <= y <= SIZE_PX[1] - r for x, y, r in dots)
    lines = [each.get("d", "")[1:].replace("C", " ").split() for each in root.iter(f"{SVG}path")]
    assert len(lines) == len(drawn.streams)
    for (start, end), (x1, y1, *_, x2, y2) in zip(drawn.streams, lines, strict=True):
        ends = [*dots[start][:2], *dots[end][:2]]
        assert all(abs(float(a) - b) < 0.06 for a, b in zip((x1, y1, x2, y2), ends, strict=True))
        assert float(x1) < float(x2)


def test_two_lines_beside_each_other_do_not_cross() -> None:
    """Dots stand where their producers do, in whatever order they are given."""
    crossed = Sketch("two", [Dot(0), Dot(0), Dot(1), Dot(1)], [(0, 3), (1, 2)])
    a, b, c, d = (float(each.get("cy", "")) for each in ET.fromstring(sketch(crossed)).iter(f"{SVG}circle"))
    assert (a < b) == (d < c)
