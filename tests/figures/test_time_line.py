"""Lines over time: quantiles as bands, and nothing of a legend beside the picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from figures.svg import width_px
from figures.time_line import FONT_PX, WIDTH_PX, Panel, time_line

SVG = "{http://www.w3.org/2000/svg}"
QUANTILES = ("p50", "p95", "p99")
GAPPED = st.lists(st.none() | st.tuples(*[st.floats(0.001, 100)] * 3).map(sorted), min_size=1, max_size=12)


def points(shape: ET.Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (each.split(",") for each in shape.get("points", "").split())]


@given(GAPPED)
def test_the_room_between_quantiles_is_shaded_and_nothing_else(values: list[list[float] | None]) -> None:
    """A band's outline is the line of one quantile and, back, that of the next one; a gap is a gap of both."""
    series = {name: [each and each[n] for each in values] for n, name in enumerate(QUANTILES)}
    panel = Panel("latency", range(len(values)), series, logarithmic=True, nested=True)
    root = ET.fromstring(time_line(panel))
    bands = [points(each) for each in root.iter(f"{SVG}polygon")]
    runs = sum(a is not None and (n == 0 or values[n - 1] is None) for n, a in enumerate(values))
    assert len(bands) == runs * (len(QUANTILES) - 1)
    for outline in bands:
        half = len(outline) // 2
        below, above = outline[:half], outline[: half - 1 : -1]
        assert [x for x, _ in below] == [x for x, _ in above]
        assert all(low >= high for (_, low), (_, high) in zip(below, above, strict=True))  # pixels count downwards
    assert "polygon" not in time_line(panel._replace(nested=False))


@given(st.lists(st.text(max_size=60), min_size=1, max_size=6, unique=True))
def test_no_name_of_the_legend_goes_beyond_the_edge(names: list[str]) -> None:
    root = ET.fromstring(time_line(Panel("", [0.0], {name: [1.0] for name in names})))
    (legend,) = [each for each in root if each.tag == f"{SVG}g" and each.find(f"{SVG}path") is not None]
    words = list(legend.iter(f"{SVG}text"))
    assert len(words) == len(names)
    for each in words:
        assert float(each.get("x", "")) + width_px(each.text or "", FONT_PX) <= WIDTH_PX
