"""Tests of pictures of a query: its map on hosts, and its sketch."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from figures.job_map import (
    BAND,
    BOX_PX,
    DOWN,
    GREY,
    INK,
    SIZE_PX,
    Box,
    Dot,
    JobMap,
    Lane,
    Sketch,
    Wire,
    job_map,
    sketch,
)
from figures.svg import HEATS, element, heat, shortened, text, width_px

# the map -------------------------------------------------------------------------------------------------------------
# The picture of a query on its hosts is well-formed whatever its words, boxes apart, streams from left to right.


SVG = "{http://www.w3.org/2000/svg}"
WORDS = st.text(max_size=30)


@st.composite
def maps(draw: st.DrawFn) -> JobMap:
    lanes = [Lane(draw(WORDS), draw(WORDS), draw(st.none() | st.floats(0, 1))) for _ in range(draw(st.integers(1, 4)))]
    share = st.none() | st.floats(0, 1)
    boxes = [
        Box(
            draw(st.integers(0, len(lanes) - 1)),
            draw(st.integers(0, 5)),
            draw(WORDS),
            draw(WORDS),
            draw(share),
            draw(share),
        )
        for _ in range(draw(st.integers(1, 12)))
    ]
    pairs = [(a, b) for a in range(len(boxes)) for b in range(len(boxes)) if boxes[a].column < boxes[b].column]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return JobMap(
        draw(WORDS), lanes, boxes, [Wire(a, b, draw(st.floats(0, 1)), draw(st.booleans())) for a, b in chosen]
    )


def corners(picture: str) -> list[tuple[float, float]]:
    """Corners of all boxes, which are the rectangles of a box's size."""
    rects = ET.fromstring(picture).iter(f"{SVG}rect")
    size = tuple(map(str, map(int, BOX_PX)))
    return [
        (float(each.get("x")), float(each.get("y")))
        for each in rects
        if (each.get("width"), each.get("height")) == size
    ]


@settings(max_examples=40)
@given(maps())
def test_every_box_is_drawn_inside_and_none_over_another(drawn):
    picture = job_map(drawn)
    root = ET.fromstring(picture)
    found = corners(picture)
    assert len(found) == len(drawn.boxes)
    for index, (x, y) in enumerate(found):
        assert 0 <= x <= float(root.get("width")) - BOX_PX[0]
        assert 0 <= y <= float(root.get("height")) - BOX_PX[1]
        assert not any(abs(x - a) < BOX_PX[0] and abs(y - b) < BOX_PX[1] for a, b in found[:index])


def test_a_stream_leads_from_box_to_box_and_backpressure_is_seen():
    boxes = [Box(0, 0, "reads", busy=0.2, blocked=0.7), Box(1, 2, "works", busy=1.0, blocked=0.0)]
    picture = job_map(
        JobMap("two", [Lane("a"), Lane("b")], boxes, [Wire(0, 1, 1.0, held_up=True, told="reads to works")])
    )
    (start, end) = corners(picture)
    (line,) = [each for each in ET.fromstring(picture).iter(f"{SVG}path") if each.get("stroke-width") == "5"]
    assert line.get("stroke-dasharray")
    numbers = line.get("d").replace("M", "").replace("C", " ").split()
    assert abs(float(numbers[0]) - start[0] - BOX_PX[0]) < 0.1
    assert 0 < end[0] - float(numbers[-2]) < 10


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_host_has_the_colour_that_the_legend_gives_a_box_as_full(host, box):
    """Its heading: the bottleneck is seen where the CPU of a host binds and no operator is busy all the time."""
    picture = job_map(JobMap("one", [Lane("a", used=host)], [Box(0, 0, "reads", busy=box)], []))
    group = next(each for each in ET.fromstring(picture).iter(f"{SVG}g") if each.get("data-lane") == "a")
    heading = [each.get("fill") for each in group.iter(f"{SVG}rect")][-1]
    assert heading == heat(host).fill
    (name,) = [each for each in ET.fromstring(picture).iter(f"{SVG}text") if "".join(each.itertext()).strip() == "a"]
    assert name.get("fill") == heat(host).ink


def test_what_is_not_known_has_no_colour_and_no_legend():
    plain = job_map(JobMap("plan", [Lane("a")], [Box(0, 0, "reads")], []))
    assert "in use:" not in plain
    assert not any(each.fill in plain for each in HEATS)


@given(st.floats(0, 1.2), st.floats(0, 1.2))
def test_fuller_is_never_drawn_as_less_full(a, b):
    fills = [each.fill for each in HEATS]
    assert (a <= b) <= (fills.index(heat(a).fill) <= fills.index(heat(b).fill))


@given(WORDS)
def test_words_survive_as_they_are(words):
    read = ET.fromstring(element("text", text(words), class_="x")).text or ""
    legal = "".join(each for each in words if each in "\t\n" or each >= " ")
    assert read == legal


def test_figures_are_never_cut():
    (box,) = [Box(0, 0, "kafka", "a-kind-with-a-very-long-name", 0.61, 0.0, figures="x 300 max 61%")]
    words = [each.text for each in ET.fromstring(job_map(JobMap("one", [Lane("a")], [box], []))).iter(f"{SVG}text")]
    assert "x 300 max 61%" in words
    assert any(word and word.startswith("a-k") and word.endswith("…") for word in words)


def test_long_names_are_cut_and_say_so():
    assert shortened("short", 130, 13) == "short"
    assert shortened("a-name-that-is-much-too-long-for-its-box", 130, 13).endswith("…")


@given(WORDS)
def test_shortened_words_fit_and_are_whole_where_they_can_be(words):
    for width in (20.0, 60.0, 140.0):
        found = shortened(words, width, 13)
        assert width_px(found, 13) <= width or len(found) == 2
        assert found == words or (found.endswith("…") and width_px(words, 13) > width)


@given(st.integers(0, 5))
def test_the_legend_is_within_the_picture_however_few_columns_there_are(column):
    root = ET.fromstring(job_map(JobMap("one", [Lane("a")], [Box(0, column, "reads", busy=0.5)], [])))
    ends = [
        float(each.get("x")) + width_px(each.text, float(each.get("font-size")))
        for each in root.iter(f"{SVG}text")
        if each.text and each.get("text-anchor") is None
    ]
    assert max(ends) <= float(root.get("width"))


def rgb(colour):
    """Red, green and blue of a colour such as #aabbcc, 0 to 1."""
    return [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]


def in_the_dark(light):
    """What the style sheet makes of a colour of a drawing on a dark page: invert(.9) hue-rotate(180deg)."""
    inverted = [0.9 - 0.8 * each for each in light]
    rows = ((-0.574, 1.43, 0.144), (0.426, 0.43, 0.144), (0.426, 1.43, -0.856))
    return [min(1.0, max(0.0, sum(a * b for a, b in zip(row, inverted, strict=True)))) for row in rows]


def contrast(one, other):
    def light(colour):
        r, g, b = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in colour)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    ("ink", "ground"), [*((each.ink, each.fill) for each in HEATS), (GREY, BAND), (GREY, DOWN), (INK, BAND)]
)
def test_words_of_a_map_stand_out_on_light_and_dark_pages(ink, ground):
    assert contrast(rgb(ink), rgb(ground)) >= 4.5
    assert contrast(in_the_dark(rgb(ink)), in_the_dark(rgb(ground))) >= 4.5


# the sketch ----------------------------------------------------------------------------------------------------------
# The small picture of a query has a dot an operator and a line a stream, inside its frame, whatever the query.


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
