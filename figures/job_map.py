"""Pictures of a query on its hosts, and small: data flow from left to right. Data in, SVG text out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from figures.svg import HEATS, Heat, element, heat, label, picture, rectangle, shortened, text, width_px

# on hosts ------------------------------------------------------------------------------------------------------------
# A lane a host or socket. Boxes and the headings of hosts are coloured by utilisation, and a bar in a box shows the
# shares of time busy and backpressured; streams along which backpressure goes are red and dashed.


BOX_PX = (152.0, 48.0)
GAP_PX = (44.0, 12.0)
HEAD_PX, PAD_PX = 24.0, 12.0
"""Heights in a lane: of the line with its name, and of the space around its boxes."""
LEGEND_PX, STEP_PX = 34.0, 66.0
"""Height of the legend, and width of each of its steps."""
ROOMY_PX, MOST_GAP_PX = 860.0, 120.0
"""Width and gap up to which few columns are spread out."""
FITTED = (0.85, 1.75)
"""Smallest and largest scale of a picture: a smaller one cannot be read, a larger one looks coarse."""
NAME_PX, NOTE_PX, BOLD = 13.0, 11.0, 1.1
THIN_PX, THICK_PX = 1.2, 5.0
METER_PX, SEEN_PX = 60.0, 0.5
QUIET, ALARM, EDGE, GREY, INK, BAND = "#6b7c93", "#b8322a", "#51606f", "#555555", "#222222", "#f8f9fb"
DOWN, WAITING, BUSY = "#fbeeed", "#a05ab4", "#333f4d"
QUEUE_PX = 4.0
DASH = "7 4"
IN_USE, HEAT_WORDS, HELD_UP = "in use:", ("under 25 %", "50 %", "75 %", "90 %", "full"), "backpressured"
STEPS_PX = PAD_PX + width_px(IN_USE, NOTE_PX) + 6
HELD_PX = STEPS_PX + len(HEATS) * STEP_PX + 8
"""Where the steps of the legend begin, and its dashed line."""
LEGEND_WIDE_PX = HELD_PX + 27 + width_px(HELD_UP, NOTE_PX) + PAD_PX


class Lane(NamedTuple):
    """Lane of a host or socket. note: more words. used: share of its capacity, None if not known. down: failed."""

    name: str
    note: str = ""
    used: float | None = None
    down: bool = False


class Box(NamedTuple):
    """Box of an operator in one lane. lane: by number. column: from the left. note: the second line, which ends with
    the figures; these are never cut.

    busy, blocked: shares of time, None if not known. told: details, shown at the pointer. waiting: records queued
    before it, as a share of the largest queue drawn; None if not known. operators: those that the box stands for.
    """

    lane: int
    column: int
    name: str
    note: str = ""
    busy: float | None = None
    blocked: float | None = None
    told: str = ""
    figures: str = ""
    waiting: float | None = None
    operators: Sequence[str] = ()


class Wire(NamedTuple):
    """Stream from one box, by number, to another. share: of the thickest. held_up: backpressure goes along it."""

    start: int
    end: int
    share: float = 0.0
    held_up: bool = False
    told: str = ""


class JobMap(NamedTuple):
    """Content of the picture of a job. title: what it shows, in words."""

    title: str
    lanes: Sequence[Lane]
    boxes: Sequence[Box]
    wires: Sequence[Wire]


class Place(NamedTuple):
    """Upper left corner of a box, in pixels."""

    x: float
    y: float


def job_map(drawn: JobMap) -> str:
    """SVG picture. Lanes without boxes are drawn as well, as free hosts. A page may fit it to its width."""
    tops, height = _tops(drawn)
    places = _places(drawn, tops)
    width = max([place.x for place in places], default=0.0) + BOX_PX[0] + PAD_PX
    known = any(box.busy is not None for box in drawn.boxes)
    width = max(width, 2 * PAD_PX + 3 * BOX_PX[0], LEGEND_WIDE_PX * known)
    smallest, largest = (round(width * share) for share in FITTED)
    return picture(
        width,
        height + LEGEND_PX * known,
        drawn.title,
        *(_lane(lane, top, end, width) for lane, top, end in zip(drawn.lanes, tops, [*tops[1:], height], strict=True)),
        *(_wire(wire, places) for wire in sorted(drawn.wires, key=lambda wire: wire.held_up)),
        *(_head(lane, top, width) for lane, top in zip(drawn.lanes, tops, strict=True)),
        *(_box(box, place, drawn.lanes[box.lane]) for box, place in zip(drawn.boxes, places, strict=True)),
        *([_legend(height)] if known else []),
        style=f"min-width: {smallest}px; max-width: {largest}px",
    )


def _tops(drawn: JobMap) -> tuple[list[float], float]:
    """Top of each lane, and bottom of the last one, in pixels."""
    tops, at = [], 0.0
    for number in range(len(drawn.lanes)):
        columns = [box.column for box in drawn.boxes if box.lane == number]
        rows = max([columns.count(column) for column in set(columns)], default=0)
        tops.append(at)
        at += HEAD_PX + (PAD_PX + rows * (BOX_PX[1] + GAP_PX[1]) if rows else PAD_PX / 2)
    return tops, at


def _places(drawn: JobMap, tops: Sequence[float]) -> list[Place]:
    """Place of each box; boxes of one lane and column are below each other, in order."""
    used: dict[tuple[int, int], int] = {}
    places = []
    columns = max([box.column for box in drawn.boxes], default=0)
    spread = (ROOMY_PX - 2 * PAD_PX - BOX_PX[0]) / columns - BOX_PX[0] if columns else 0.0
    gap = min(max(GAP_PX[0], spread), MOST_GAP_PX)
    for box in drawn.boxes:
        row = used.setdefault((box.lane, box.column), 0)
        used[box.lane, box.column] += 1
        x = PAD_PX + box.column * (BOX_PX[0] + gap)
        places.append(Place(x, tops[box.lane] + HEAD_PX + PAD_PX / 2 + row * (BOX_PX[1] + GAP_PX[1])))
    return places


def _lane(lane: Lane, top: float, end: float, width: float) -> str:
    fill, stroke = (DOWN, ALARM) if lane.down else (BAND, "#d5dbe3")
    band = rectangle(0.5, top + 0.5, width - 1, end - top - 5, rx=6, fill=fill, stroke=stroke)
    heading = rectangle(1, top + 1, width - 2, HEAD_PX - 1, rx=6, fill=_ground(lane).fill)
    return element("g", element("title", text(f"{lane.name} {lane.note}")), band, heading, data_lane=lane.name)


def _ground(lane: Lane) -> Heat:
    """Colours below and of the line with a lane's name, which say how full its host is, as those of boxes do."""
    if lane.down or lane.used is None:
        return Heat(0.0, DOWN if lane.down else BAND, INK)
    return heat(lane.used)


def _head(lane: Lane, top: float, width: float) -> str:
    """Line with a lane's name, over the streams that go through it."""
    meter = [] if lane.used is None else [_meter(lane.used, width - PAD_PX - METER_PX, top + 9)]
    ground = _ground(lane)
    size, room = NOTE_PX + 1, width - METER_PX - 3 * PAD_PX
    called = shortened(lane.name, room, size * BOLD)
    left = room - width_px(f"{called}   ", size * BOLD)
    name = element("tspan", text(called), font_weight="bold")
    words = shortened(lane.note, left, size) if left > size else ""
    note = element("tspan", text(f"  {words}"), fill=GREY if ground.ink == INK else ground.ink) if words else ""
    around = {"stroke": ground.fill, "stroke_width": 4, "paint_order": "stroke"}
    line = element("text", name, note, x=PAD_PX, y=top + 17, font_size=size, fill=ground.ink, **around)
    return element("g", line, *meter)


def _meter(used: float, x: float, y: float) -> str:
    """Meter of the utilisation of a lane's host."""
    full = METER_PX * min(1.0, max(0.0, used))
    frame = rectangle(x, y, METER_PX, 7, fill="#ffffff", stroke="#aab4c2", stroke_width=0.8)
    return frame + rectangle(x, y, full, 7, fill=BUSY)


def _box(box: Box, place: Place, lane: Lane) -> str:
    colours, (width, height) = heat(box.busy), BOX_PX
    frame = rectangle(place.x, place.y, width, height, rx=5, fill=colours.fill, stroke=EDGE)
    room = width - 16 - width_px(f"{box.figures} ", NOTE_PX)
    name = shortened(box.name, width - 16, NAME_PX * BOLD)
    note = shortened(box.note, room, NOTE_PX) if room > 2 * NOTE_PX else ""
    end = {"fill": colours.ink, "text_anchor": "end"}
    lines = (
        label(name, place.x + 8, place.y + 18, NAME_PX, font_weight="bold", fill=colours.ink),
        label(note, place.x + 8, place.y + 33, NOTE_PX, fill=colours.ink),
        label(box.figures, place.x + width - 8, place.y + 33, NOTE_PX, **end) if box.figures else "",
    )
    parts = (element("title", text(box.told or box.name)), frame, *lines, *_shares(box, place), *_queue(box, place))
    return element("g", *parts, data_box=" ".join(box.operators) or None, data_in=lane.name)


def _queue(box: Box, place: Place) -> list[str]:
    """Bar above a box: number of records that wait for it."""
    if box.waiting is None:
        return []
    (width, _), y = BOX_PX, place.y - QUEUE_PX - 1.5
    full = width * min(1.0, box.waiting)
    frame = rectangle(place.x, y, width, QUEUE_PX, fill="#ffffff", stroke="#aab4c2", stroke_width=0.8)
    return [frame] + ([rectangle(place.x, y, full, QUEUE_PX, fill=WAITING)] if full >= SEEN_PX else [])


def _shares(box: Box, place: Place) -> list[str]:
    """Bar at the bottom of a box: shares of time busy, backpressured, idle."""
    if box.busy is None:
        return []
    x, y, width = place.x + 8, place.y + BOX_PX[1] - 9, BOX_PX[0] - 16
    busy, blocked = width * min(1.0, box.busy), width * min(1.0, box.blocked or 0.0)
    parts = [rectangle(x, y, width, 4, fill="#ffffff", stroke=EDGE, stroke_width=0.5)]
    parts += [rectangle(x, y, busy, 4, fill=BUSY)] if busy >= SEEN_PX else []
    return parts + ([rectangle(x + busy, y, blocked, 4, fill="#e8665c")] if blocked >= SEEN_PX else [])


def _wire(wire: Wire, places: Sequence[Place]) -> str:
    """Line from the right of one box to the left of another; it passes above boxes in between."""
    start, end = places[wire.start], places[wire.end]
    if start.x >= end.x:
        return _upright(wire, start, end)
    x1, y1 = start.x + BOX_PX[0], start.y + BOX_PX[1] / 2
    x2, y2 = end.x - 7, end.y + BOX_PX[1] / 2
    leaps = x2 - x1 > BOX_PX[0] and abs(y2 - y1) < 1
    bend, lift = max(26.0, (x2 - x1) * 0.45), -0.9 * BOX_PX[1] if leaps else 0.0
    path = f"M{x1:.1f} {y1:.1f}C{x1 + bend:.1f} {y1 + lift:.1f} {x2 - bend:.1f} {y2 + lift:.1f} {x2:.1f} {y2:.1f}"
    return _drawn(wire, path, f"M{x2 - 2:.1f} {y2 - 5:.1f}l9 5l-9 5z")


def _upright(wire: Wire, start: Place, end: Place) -> str:
    """Line between boxes of one column, down or up, beside each other."""
    down = end.y > start.y
    x, way = start.x + BOX_PX[0] * (0.6 if down else 0.4), 1 if down else -1
    y1, y2 = (start.y + BOX_PX[1], end.y - 7) if down else (start.y, end.y + BOX_PX[1] + 7)
    return _drawn(wire, f"M{x:.1f} {y1:.1f}L{x:.1f} {y2:.1f}", f"M{x - 5:.1f} {y2 - 2 * way:.1f}h10l-5 {9 * way}z")


def _drawn(wire: Wire, path: str, head: str) -> str:
    colour, dash = (ALARM, DASH) if wire.held_up else (QUIET, None)
    thick = THIN_PX + (THICK_PX - THIN_PX) * min(1.0, wire.share) ** 0.5
    line = element("path", d=path, fill="none", stroke=colour, stroke_width=thick, stroke_dasharray=dash, opacity=0.85)
    return element("g", element("title", text(wire.told)), line, element("path", d=head, fill=colour))


def _legend(top: float) -> str:
    """Legend of the colours."""
    parts = [label(IN_USE, PAD_PX, top + 19, NOTE_PX, fill=GREY)]
    for number, (colours, words) in enumerate(zip(HEATS, HEAT_WORDS, strict=True)):
        x = STEPS_PX + number * STEP_PX
        parts.append(rectangle(x, top + 6, STEP_PX - 2, 18, rx=3, fill=colours.fill, stroke=EDGE, stroke_width=0.6))
        middle = x + STEP_PX / 2 - 1
        parts.append(label(words, middle, top + 19, NOTE_PX - 1, fill=colours.ink, text_anchor="middle"))
    line = {"stroke": ALARM, "stroke_width": 2.5, "stroke_dasharray": DASH}
    parts.append(element("path", d=f"M{HELD_PX:.0f} {top + 15:.0f}h22", **line))
    return element("g", *parts, label(HELD_UP, HELD_PX + 27, top + 19, NOTE_PX, fill=GREY))


# small ---------------------------------------------------------------------------------------------------------------
# A dot an operator. It has no words, as it stands beside a name: the shape tells a line of operators from a join or a
# fan.


SIZE_PX = (160.0, 64.0)
SKETCH_PAD_PX, LEAST_PX, MOST_PX = 9.0, 1.5, 6.5
"""Space around the dots, and radius of the smallest and of the largest dots."""
LINE, SKETCH_EDGE = "#8795a8", "#51606f"


class Dot(NamedTuple):
    """Operator. column: from the left. busy: share of time, which gives its colour; None if not known."""

    column: int
    busy: float | None = None


class Sketch(NamedTuple):
    """Content of the picture. title: in words. dots: those of earlier columns first. streams: pairs of dots, by number,
    from producer to consumer."""

    title: str
    dots: Sequence[Dot]
    streams: Sequence[tuple[int, int]]


def sketch(drawn: Sketch) -> str:
    """SVG picture of SIZE_PX, however many operators there are."""
    places, radius = _dots(drawn)
    lines = (_line(places[start], places[end]) for start, end in drawn.streams)
    dots = (
        element("circle", cx=x, cy=y, r=radius, fill=heat(dot.busy).fill, stroke=SKETCH_EDGE, stroke_width=1.2)
        for (x, y), dot in zip(places, drawn.dots, strict=True)
    )
    return picture(*SIZE_PX, drawn.title, *lines, *dots)


def _dots(drawn: Sketch) -> tuple[list[tuple[float, float]], float]:
    """Middle of each dot, and the radius of all. Dots of a column are ordered by where their producers are, so that
    fewer lines cross."""
    count = 1 + max((dot.column for dot in drawn.dots), default=0)
    columns = [[number for number, dot in enumerate(drawn.dots) if dot.column == at] for at in range(count)]
    width, height = (each - 2 * SKETCH_PAD_PX for each in SIZE_PX)
    y = [SIZE_PX[1] / 2] * len(drawn.dots)
    for members in columns:
        above = {one: [y[start] for start, end in drawn.streams if end == one] for one in members}
        members.sort(key=lambda one, above=above: sum(above[one]) / len(above[one]) if above[one] else 0.0)  # type: ignore[misc]
        for row, one in enumerate(members):
            y[one] = SKETCH_PAD_PX + height * (row + 0.5) / len(members)
    x = [SKETCH_PAD_PX + width * (dot.column / (count - 1) if count > 1 else 0.5) for dot in drawn.dots]
    room = min(height / max(1, *map(len, columns)), width / count)
    return list(zip(x, y, strict=True)), min(MOST_PX, max(LEAST_PX, 0.36 * room))


def _line(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x1, y1), (x2, y2) = start, end
    bend = (x2 - x1) / 2
    path = f"M{x1:.1f} {y1:.1f}C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
    return element("path", d=path, fill="none", stroke=LINE, stroke_width=1.4)
