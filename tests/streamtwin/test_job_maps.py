"""Picture of a job: every subtask in its lane, streams as thick as their records, many operators in groups."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

from figures.job_map import BOX_PX, WAITING, Box, JobMap, Lane, job_map
from scenarios.files import registry, scenario_file
from streamtwin.tables.job_maps import FREE, MOST_BOXES, MOST_COLUMNS, MOST_LANES, OperatorLoad, depths, drawn, held_up
from tests.scenarios.questions.jobs import host, queue, shop
from tests.streamtwin.browsing import Browser
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse


def chain(operators: int, hosts: int) -> Scenario:
    """Job of a source, maps one after the other, a sink; dealt to the hosts in turn."""
    names = [f"m{index}" for index in range(operators)]
    kinds = ["source", *["map"] * (operators - 2), "sink"]
    data = {
        "query": {
            "operators": [{"name": name, "kind": kind} for name, kind in zip(names, kinds, strict=True)],
            "streams": [{"producer": a, "consumer": b} for a, b in itertools.pairwise(names)],
        },
        "cluster": {"hosts": [host(f"h{index}") for index in range(hosts)]},
        "plan": {"placement": {name: f"h{index % hosts}" for index, name in enumerate(names)}},
        "workload": {"arrivals": {"m0": {"law": "constant", "rate_per_s": 10}}},
    }
    return parse(Scenario, data)


def run_of(**loads: tuple[float, float, float]) -> SimpleNamespace:
    """Fake run with the parts that the picture needs."""
    fields = ("busy", "backpressured", "rate_out_per_s")
    rows = [
        SimpleNamespace(operator=name, subtasks=(), **dict(zip(fields, load, strict=True)))
        for name, load in loads.items()
    ]
    return SimpleNamespace(operators=rows, hosts=[], event_rows=[])


def test_every_place_of_every_operator_is_a_box():
    found = drawn(shop()).picture
    boxes = Counter((found.lanes[box.lane].name, box.name) for box in found.boxes)
    assert boxes == {
        ("edge-1", "orders"): 1,
        ("edge-1", "clicks"): 1,
        ("w-1", "human"): 1,
        ("w-1", "per-page"): 1,
        ("w-2", "per-page"): 1,
        ("w-2", "match"): 1,
        ("edge-1", "board"): 1,
    }
    assert [lane.name for lane in found.lanes] == ["edge-1", "w-1", "w-2", FREE]
    assert found.lanes[-1].note == "w-3"
    assert [(box.note, box.figures) for box in found.boxes if box.name == "per-page"] == [("aggregate", "x 2")] * 2
    assert [lane.note for lane in drawn(queue()).picture.lanes] == ["16 cores", "small"]
    small = queue().with_set("plan.placement.work", "small")
    assert [lane.note for lane in drawn(small).picture.lanes] == ["16 cores", "1 core"]


def test_a_chain_is_one_box_and_its_tasks_are_counted_once():
    job = chain(4, 1)
    plan = {name: ["h0"] * 2 for name in ("m1", "m2")} | {"m0": "h0", "m3": "h0"}
    job = parse(Scenario, job.model_dump(mode="json") | {"plan": {"placement": plan, "fused": [["m1", "m2"]]}})
    found = drawn(job, simulate(job)).picture
    assert [(box.name, box.note, box.column) for box in found.boxes] == [
        ("m0", "source", 0), ("m1 -> m2", "chain", 1), ("m3", "sink", 2)]  # fmt: skip
    assert found.boxes[1].figures.startswith("x 2 ") and "2 of 2 subtasks" in found.boxes[1].told
    assert len(found.wires) == 2


def test_a_box_has_the_colour_of_its_busiest_subtask_and_says_which_it_is():
    job = queue(rate_per_s=900).with_set("plan.placement.work", ["big"] * 3)
    made = simulate(job)
    hot = next(each for each in made.operators if each.operator == "work").busiest
    totals = [replace(each, busy=each.busy / 2) if each.operator == "work" else each for each in made.operators]
    box = drawn(job, replace(made, operators=tuple(totals))).picture.boxes[1]
    assert box.busy == hot.busy
    assert box.figures == f"x 3 max {hot.busy:.0%}"
    assert f"subtask {hot.subtask}, {hot.busy:.1%}" in box.told


@pytest.mark.parametrize("name", registry.names())
def test_streams_go_to_the_right_in_every_scenario_of_the_library(name):
    found = drawn(scenario_file.load(name)).picture
    assert found.wires or len(found.boxes) == 1, "a job of one task has no streams"
    for wire in found.wires:
        assert found.boxes[wire.start].column < found.boxes[wire.end].column


def test_a_stream_is_parted_as_its_subtasks_are_spread():
    loads = {"orders": (0, 0, 50), "clicks": (0, 0, 400), "human": (0, 0, 200), "per-page": (0, 0, 40)}
    found = drawn(shop(), run_of(**loads)).picture
    shares = {
        (found.boxes[w.start].name, found.boxes[w.end].name, found.boxes[w.end].lane): w.share for w in found.wires
    }
    assert shares["clicks", "human", 1] == 1.0
    assert shares["human", "per-page", 1] == shares["human", "per-page", 2] == 0.25


def test_paired_subtasks_are_joined_as_they_are_paired():
    job = shop()
    data = job.model_dump(mode="json")
    data["plan"]["placement"] |= {"human": ["w-1", "w-3"], "clicks": ["w-3", "edge-1"]}
    for stream in data["query"]["streams"]:
        if stream["consumer"] == "human":
            stream["partitioning"] = "forward"
    found = drawn(parse(Scenario, data)).picture
    lanes = {
        (found.lanes[found.boxes[w.start].lane].name, found.lanes[found.boxes[w.end].lane].name)
        for w in found.wires
        if found.boxes[w.start].name == "clicks"
    }
    assert lanes == {("w-3", "w-1"), ("edge-1", "w-3")}


def test_backpressure_goes_along_the_streams_into_what_is_full():
    query = shop().query
    quiet = dict.fromkeys(("orders", "human", "per-page", "board"), OperatorLoad(0.1, 0.0, 1.0))
    full = quiet | {"match": OperatorLoad(0.99, 0.0, 1.0), "per-page": OperatorLoad(0.2, 0.5, 1.0)}
    assert held_up(query, full) == {("per-page", "match")}
    assert held_up(query, full | {"human": OperatorLoad(0.1, 0.3, 1.0)}) == {
        ("per-page", "match"),
        ("human", "per-page"),
    }
    assert held_up(query, quiet | {"human": OperatorLoad(0.1, 0.3, 1.0)}) == {("human", "per-page")}  # by the network
    assert held_up(query, quiet) == set()


def test_an_overloaded_queue_holds_its_source_up_in_a_run():
    job = queue(rate_per_s=2000)
    found = drawn(job, simulate(job)).picture
    assert [wire.held_up for wire in found.wires] == [True, False]
    assert found.boxes[1].busy == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(("operators", "hosts"), [(300, 40), (20, 3), (61, 13)])
def test_many_operators_are_drawn_in_groups_and_that_is_said(operators, hosts):
    job = chain(operators, hosts)
    found, told = drawn(job)
    assert len(found.boxes) <= MOST_BOXES
    assert len(found.lanes) <= MOST_LANES + 1
    if operators > 60:
        assert f"{operators} operators are drawn together" in told
        assert 1 + max(box.column for box in found.boxes) <= MOST_COLUMNS
        assert all(found.boxes[w.start].column <= found.boxes[w.end].column for w in found.wires)
    else:
        assert told == ""
    assert depths(job, {})[f"m{operators - 1}"] == operators - 1


def test_what_waits_is_a_bar_as_long_as_its_share_and_free_hosts_are_places_to_drop() -> None:
    """Bars before operators are their shares of the longest queue, here a half; free hosts have lanes, too."""
    job = chain(3, 3)
    hosts = [*(each.model_dump() for each in job.cluster.hosts), host("spare")]
    job = job.with_set("cluster.hosts", hosts)
    picture = drawn(job, None, {("m1", "h1"): 0.5}, free_apart=True).picture
    assert [box.waiting for box in picture.boxes] == [0.0, 0.5, 0.0]
    assert [lane.name for lane in picture.lanes] == ["h0", "h1", "h2", "spare"]
    svg = ET.fromstring(job_map(picture))
    bars = [each for each in svg.iter() if each.get("fill") == WAITING]
    assert [float(bar.get("width", 0)) for bar in bars] == [BOX_PX[0] / 2]
    assert {each.get("data-lane") for each in svg.iter()} - {None} == {"h0", "h1", "h2", "spare"}
    assert [each.get("data-box") for each in svg.iter() if each.get("data-box")] == ["m0", "m1", "m2"]


NAMES = (
    "W" * 40,
    "m" * 40,
    "i" * 90,
    "数据流" * 12,
    "É" * 40,
    "🙂" * 20,
    "an-operator-with-a-rather-long-name",
    "short",
)
OUTSIDE = """[...document.querySelectorAll('g[data-in]')].flatMap(box => {
  const frame = box.querySelector('rect').getBoundingClientRect();
  const beside = each => each.right > frame.right || each.left < frame.left;
  const words = [...box.querySelectorAll('text')];
  return words.filter(each => beside(each.getBoundingClientRect())).map(each => each.textContent);
})"""
OVER_METERS = """[...document.querySelectorAll('svg > g:not([data-in])')].flatMap(head => {
  const line = head.querySelector('text'), meter = head.querySelector('rect');
  if (!line || meter?.getAttribute('height') !== '7') return [];
  return line.getBoundingClientRect().right > meter.getBoundingClientRect().left ? [line.textContent] : [];
})"""


def test_no_name_is_drawn_beside_its_box_in_a_real_browser(tmp_path):
    boxes = [Box(lane, 0, name, name, 0.95, 0.0, "", "x 12 max 95%") for lane, name in enumerate(NAMES)]
    lanes = [Lane(name, name, 0.5) for name in NAMES]
    file = tmp_path / "map.html"
    file.write_text(f"<!DOCTYPE html><meta charset='utf-8'>{job_map(JobMap('names', lanes, boxes, []))}")
    with Browser(tmp_path / "browser") as browser:
        tab = browser.tab(file.as_uri())
        assert tab.get("document.querySelectorAll('g[data-in] text').length") >= 3 * len(NAMES) - 1
        assert tab.get(OUTSIDE) == []
        assert tab.get(OVER_METERS) == []
        right = (
            "Math.max(...[...document.querySelectorAll('svg text')].map(each => each.getBoundingClientRect().right))"
        )
        assert tab.get(f"{right} <= document.querySelector('svg').getBoundingClientRect().right")
