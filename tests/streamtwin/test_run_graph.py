"""Run graphs: the dialect, the use of each attribute, and one clear line for each file that is no run."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.files import scenario_file
from streamtwin.connect.importers.run_graph import REFERENCE_CLOCK_HZ, read_run_graph
from streamtwin.connect.importers.run_records import parse_graph, parse_records
from twin.errors import BadInput
from twin.query import Aggregate, Filter, Join, Source
from twin.rates.model import RateModel
from twin.workload import key_groups_of

HOSTS = """
    "aa" ["operatorType"="PhysicalNode","host"="aa","physicalCPUCores"="8","maxCPUFreq"="1000000000",
          "totalMemory"="64000000000","networkLinkSpeed"="10000"];
    "bb" ["operatorType"="PhysicalNode","host"="bb","physicalCPUCores"="4","maxCPUFreq"="3000000000",
          "totalMemory"="32000000000","networkLinkSpeed"="1000"];
    "aa" -- "bb" ;
"""


def node(number: int, kind: str, instances: str, parallelism: int = 2, **attributes: object) -> str:
    listed = "".join(f',"{key}"="{value}"' for key, value in attributes.items())
    return (
        f'"q-{number}" ["id"="q-{number}","instances"="[{instances}]","parallelism"={parallelism},'
        f'"operatorType"="{kind}"{listed}];\n'
    )


def source(number: int, *rates: float, parallelism: int = 2) -> str:
    instances = ", ".join(f"{{outputRate={rate}, avgCPULoad=5.5, host=aa}}" for rate in rates)
    return node(
        number, "SourceOperator", instances, parallelism, confEventRate=1000, numInteger=3, numDouble=2, numString=1
    )


def one(in_per_s: float, out_per_s: float, host: str = "bb") -> str:
    return f"{{outputRate={out_per_s}, inputRate={in_per_s}, host={host}, realSelectivity=0.5}}"


def filter_node(number: int, in_per_s: float, out_per_s: float) -> str:
    instances = f"{one(in_per_s, out_per_s)}, {one(in_per_s, out_per_s, 'aa')}"
    return node(number, "FilterOperator", instances, filterFunction="lessThan", filterClass="Double", literal=1)


def window(policy: str, length: int, slide: int) -> dict[str, object]:
    return {"windowPolicy": policy, "windowType": "slidingWindow", "windowLength": length, "slidingLength": slide}


def aggregate(number: int, in_per_s: float, out_per_s: float, policy: str = "count", key: str = "Integer") -> str:
    return node(
        number,
        "WindowedAggregateOperator",
        one(in_per_s, out_per_s),
        4,
        aggFunction="max",
        aggClass="Double",
        keyByClass=key,
        **window(policy, 100, 50),
    )


def join(number: int, in_per_s: float, out_per_s: float) -> str:
    return node(
        number,
        "WindowedJoinOperator",
        one(in_per_s, out_per_s),
        1,
        joinKeyClass="String",
        **window("duration", 500, 500),
    )


def edges(*pairs: tuple[int, int]) -> str:
    return "".join(f'"q-{start}" -- "q-{end}" ;\n' for start, end in pairs)


LINEAR = source(0, 400, 600) + filter_node(1, 500, 125) + aggregate(2, 260, 5) + edges((0, 1), (1, 2))
JOINED = (
    source(0, 500, 500)
    + source(1, 100, 100)
    + join(2, 600, 2400)
    + aggregate(3, 2400, 48)
    + edges((0, 2), (1, 2), (2, 3))
)


@pytest.fixture
def write(tmp_path):
    def graph(body: str, hosts: str = HOSTS, name: str = "run.graph") -> Path:
        path = tmp_path / name
        path.write_text("graph {\n" + body + hosts + "}\n")
        return path

    return graph


# the dialect ------------------------------------------------------------------------------------------------------

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=9)


def quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@given(st.dictionaries(NAMES, st.dictionaries(NAMES, NAMES, max_size=4), max_size=4), st.data())
def test_whatever_is_written_in_quotes_is_read_back(nodes, data):
    ends = st.sampled_from(sorted(nodes)) if nodes else st.nothing()
    pairs = data.draw(st.lists(st.tuples(ends, ends), max_size=4)) if nodes else []
    lines = [
        f"{quote(name)} [{','.join(f'{quote(key)}={quote(value)}' for key, value in attributes.items())}];"
        for name, attributes in nodes.items()
    ]
    lines += [f"{quote(start)} -- {quote(end)};" for start, end in pairs]
    graph = parse_graph("graph {" + "\n".join(lines) + "}", "here")
    assert graph.nodes == nodes
    assert [(edge.start, edge.end) for edge in graph.edges] == pairs


def test_quotes_commas_and_semicolons_are_optional_and_the_graph_may_have_a_name():
    graph = parse_graph('graph run-1 { a [x=1 "y" = 2.5e3]\n b\n a -- b [n=3] }', "here")
    assert graph.nodes == {"a": {"x": "1", "y": "2.5e3"}, "b": {}}
    assert graph.edges[0].attributes == {"n": "3"}


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("digraph { }", 1, "digraph"),
        ("graph {\n a -> b }", 2, "->"),
        ("graph {\n a -- ", 2, "end of the file"),
        ('graph {\n a [x="1', 2, "never closed"),
        ("graph {\n a [x 1] }", 2, "expected '='"),
        ("graph {\n a\n a }", 3, "twice"),
        ("graph { } graph { }", 1, "nothing may follow"),
        ("", 1, "graph {"),
    ],
)
def test_what_is_no_graph_is_refused_with_its_line(text, line, what):
    with pytest.raises(BadInput, match=rf"here: line {line}: ") as caught:
        parse_graph(text, "here")
    assert what in str(caught.value)
    assert "\n" not in str(caught.value)


def test_records_are_read_and_anything_else_is_refused():
    assert parse_records("[{a=1, b=x y}, {a=2}]", "here") == ({"a": "1", "b": "x y"}, {"a": "2"})
    assert parse_records(" [] ", "here") == ()
    for text in ("a=1", "[a=1]", "[{a}]", "[{a=1, {b=2}]", "[{=1}]"):
        with pytest.raises(BadInput, match="here"):
            parse_records(text, "here")


# what becomes of a run --------------------------------------------------------------------------------------------


def test_a_run_becomes_operators_streams_hosts_and_subtasks(write):
    run = read_run_graph(write(LINEAR))
    scenario = run.scenario
    assert [operator.name for operator in scenario.query.operators] == ["source-0", "filter-1", "aggregate-2", "sink"]
    assert [(s.producer, s.consumer) for s in scenario.query.streams] == [
        ("source-0", "filter-1"),
        ("filter-1", "aggregate-2"),
        ("aggregate-2", "sink"),
    ]
    assert (scenario.name, scenario.engine.name, run.notes) == ("run", "flink", ())
    first, second = scenario.cluster.hosts
    assert first.cpu_percent == pytest.approx(800 * 1e9 / REFERENCE_CLOCK_HZ)
    assert second.cpu_percent == pytest.approx(400 * 3e9 / REFERENCE_CLOCK_HZ)
    assert (first.name, first.ram_mb, second.bandwidth_mbps) == ("host-1", 64000, 1000)
    assert "host-2 was bb" in scenario.description
    assert scenario.plan.placement["filter-1"] == ("host-1", "host-2")


def test_given_are_the_source_rates_and_the_measured_ratios_only(write):
    scenario = read_run_graph(write(JOINED)).scenario
    assert {name: law.mean_rate_per_s for name, law in scenario.workload.arrivals.items()} == {
        "source-0": 1000,
        "source-1": 200,
    }
    joined = scenario.query.operator("join-2")
    assert isinstance(joined, Join)
    assert joined.amplification == pytest.approx(2400 / 1200)
    assert joined.window.size == 0.5
    received = read_run_graph(write(JOINED), join_input="received").scenario.query.operator("join-2")
    assert isinstance(received, Join)
    assert received.amplification == pytest.approx(2400 / 600)
    kept = read_run_graph(write(LINEAR)).scenario.query.operator("filter-1")
    assert isinstance(kept, Filter)
    assert (kept.selectivity, kept.function, kept.literal_type) == (0.25, "<", "double")


@pytest.mark.parametrize("out_per_s", [5.0, 500.0])
def test_a_windows_own_output_does_not_reach_the_scenario(write, out_per_s):
    body = source(0, 400, 600) + aggregate(1, 1000, out_per_s) + edges((0, 1))
    reference = source(0, 400, 600) + aggregate(1, 1000, 33.0) + edges((0, 1))
    assert read_run_graph(write(body)).scenario == read_run_graph(write(reference)).scenario


def test_count_windows_fire_per_slide_and_time_windows_per_key(write):
    counted = read_run_graph(write(LINEAR)).scenario.query.operator("aggregate-2")
    body = source(0, 400, 600) + aggregate(1, 1000, 5, "duration", "String") + edges((0, 1))
    timed = read_run_graph(write(body)).scenario.query.operator("aggregate-1")
    assert isinstance(counted, Aggregate)
    assert isinstance(timed, Aggregate)
    assert (counted.groups, counted.window.size, counted.window.slide) == (1, 100, 50)
    assert (timed.groups, timed.window.size, timed.window.slide) == (62 * 10, 0.1, 0.05)


@pytest.mark.parametrize(("key", "count", "hottest"), [("Integer", 195, 10 / 210), ("Double", 101, 10 / 110)])
def test_keys_of_the_generator_are_hashed_where_that_is_asked(write, key, count, hottest):
    """Keys are hashed on request: a product of 0 is as frequent as a value of 0; count windows are even."""
    body = source(0, 400, 600) + aggregate(1, 1000, 5, "duration", key) + edges((0, 1))
    scenario = read_run_graph(write(body), dealt="hashed").scenario
    skew, groups = scenario.workload.keys["aggregate-1"], key_groups_of(scenario.query.operator("aggregate-1"))
    assert (skew.key_count, groups) == (count, 128)
    assert max(skew.shares) / sum(skew.shares) == pytest.approx(hottest)
    assert skew.by_group(groups).sum() == pytest.approx(1.0)
    assert RateModel().predict(scenario, [scenario.plan])["throughput_per_s"][0] > 0
    joined = read_run_graph(write(JOINED), dealt="hashed").scenario
    assert list(joined.workload.keys) == ["join-2"]
    assert read_run_graph(write(JOINED)).scenario.workload.keys == {}


def test_the_time_stamp_counts_as_a_string_column(write):
    first = read_run_graph(write(LINEAR)).scenario.query.operator("source-0")
    assert isinstance(first, Source)
    assert (first.columns.ints, first.columns.doubles, first.columns.strings) == (3, 2, 2)


def test_measured_rates_are_sums_over_the_reports(write):
    measured = {each.operator: each for each in read_run_graph(write(LINEAR)).measured}
    assert set(measured) == {"source-0", "filter-1", "aggregate-2"}
    assert (measured["filter-1"].in_per_s, measured["filter-1"].out_per_s) == (1000, 250)
    assert (measured["source-0"].in_per_s, measured["source-0"].out_per_s) == (None, 1000)
    assert (measured["source-0"].offered_per_s, measured["filter-1"].offered_per_s) == (1000, None)
    assert (measured["aggregate-2"].reports, measured["aggregate-2"].parallelism) == (1, 4)


def test_sources_without_a_report_count_as_the_average_one(write):
    run = read_run_graph(write(source(0, 400, 600, parallelism=10) + aggregate(1, 999, 20) + edges((0, 1))))
    assert run.scenario.workload.arrivals["source-0"].mean_rate_per_s == pytest.approx(5000)
    assert "2 of 10 subtasks reported" in run.notes[0]
    assert run.measured[0].out_per_s == 1000


@given(reported=st.lists(st.sampled_from(["aa", "bb"]), min_size=1, max_size=9), silent=st.integers(0, 20))
def test_every_subtask_is_placed_and_reports_stay_where_they_were(tmp_path_factory, reported, silent):
    instances = ", ".join(one(1, 1, host) for host in reported)
    parallelism = len(reported) + silent
    last = node(
        1, "FilterOperator", instances, parallelism, filterFunction="contains", filterClass="String", literal="x"
    )
    path = tmp_path_factory.mktemp("graph") / "run.graph"
    path.write_text("graph {" + source(0, 1, 1) + last + edges((0, 1)) + HOSTS + "}")
    placed = read_run_graph(path).scenario.plan.placement
    for host, name in (("aa", "host-1"), ("bb", "host-2")):
        assert placed["filter-1"].count(name) >= reported.count(host)
    assert len(placed["filter-1"]) == parallelism
    assert set(placed["sink"]) == set(placed["filter-1"])
    assert len(placed["sink"]) == len(set(placed["sink"]))


def test_reports_win_over_the_counts_on_edges(write):
    agrees = LINEAR + '"q-1" -- "aa" ["occurences"=1]; "q-1" -- "bb" ["occurences"=1];'
    differs = LINEAR + '"q-1" -- "aa" ["occurences"=7]; "q-1" -- "bb" ["occurences"=1];'
    assert read_run_graph(write(agrees)).notes == ()
    run = read_run_graph(write(differs))
    assert "reports win" in run.notes[0]
    assert run.scenario.plan.placement["filter-1"] == ("host-1", "host-2")


def test_a_loop_that_only_one_edge_explains_is_mended(write):
    chain = source(0, 400, 600) + filter_node(1, 500, 125) + filter_node(2, 120, 60) + filter_node(3, 60, 30)
    run = read_run_graph(write(chain + edges((0, 1), (2, 2), (3, 3))))
    straight = read_run_graph(write(chain + edges((0, 1), (1, 2), (2, 3))))
    assert run.scenario.query == straight.scenario.query
    assert len(run.notes) == 2
    assert straight.notes == ()


def test_an_imported_run_survives_yaml(write):
    scenario = read_run_graph(write(JOINED)).scenario
    assert scenario_file.parse_scenario(scenario_file.dump(scenario), "run.yaml") == scenario


# what is no run ---------------------------------------------------------------------------------------------------

BAD = {
    "no edges": (LINEAR.replace(edges((0, 1), (1, 2)), ""), "no edge joins two operators"),
    "unknown type": (LINEAR.replace("FilterOperator", "FilterOperater"), "did you mean 'FilterOperator'"),
    "no instances": (node(0, "SourceOperator", "") + edges((0, 0)), "no instances"),
    "cycle": (source(0, 1, 1) + filter_node(1, 2, 1) + filter_node(2, 2, 1) + edges((0, 1), (1, 2), (2, 1)), "cycle"),
    "loop that stays": (source(0, 1, 1) + filter_node(1, 2, 1) + edges((0, 1), (1, 1)), "cycle"),
    "unfed": (LINEAR + filter_node(3, 2, 1), "no input stream"),
    "join of one": (source(0, 1, 1) + join(2, 1, 1) + edges((0, 2)), "at least 2"),
    "edge to nowhere": (LINEAR + edges((2, 9)), "there is no node 'q-9'"),
    "unknown host": (LINEAR.replace("host=bb", "host=cc"), "unknown host 'cc'"),
    "not a rate": (LINEAR.replace("inputRate=500", "inputRate=NaN"), "inputRate must be a number >= 0, got 'NaN'"),
    "negative rate": (LINEAR.replace("inputRate=500", "inputRate=-1"), "got '-1'"),
    "no input": (LINEAR.replace("inputRate=500", "inputRate=0"), "no input was measured"),
    "silent source": (source(0, 0, 0) + filter_node(1, 2, 1) + edges((0, 1)), "no output was measured"),
    "unknown key": (aggregate(1, 2, 1, "count", "Long") + source(0, 1, 1) + edges((0, 1)), "keyByClass 'Long'"),
    "slide too long": (LINEAR.replace('"slidingLength"="50"', '"slidingLength"="500"'), "longer than windowLength"),
    "no window length": (LINEAR.replace("windowLength", "length"), "has no 'windowLength'"),
    "same number": (LINEAR + LINEAR.split("\n")[1].replace("q-1", "z-1"), "two operators are called 'filter-1'"),
    "nameless": (LINEAR.replace("q-2", "last"), "ends in '-' and its number"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_run_is_refused_in_one_line_that_names_the_file(write, case):
    body, what = BAD[case]
    path = write(body)
    with pytest.raises(BadInput) as caught:
        read_run_graph(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert what in message
    assert "\n" not in message


def test_files_that_cannot_be_read_are_refused(tmp_path):
    (tmp_path / "binary.graph").write_bytes(b"\xff\xfe\x00")
    for name in ("missing.graph", "binary.graph", "."):
        with pytest.raises(BadInput, match="cannot be read"):
            read_run_graph(tmp_path / name)


@pytest.mark.skipif("STREAMTWIN_FLINK_RUNS" not in os.environ, reason="STREAMTWIN_FLINK_RUNS names no folder of runs")
def test_all_published_runs_import_and_count_windows_fire_once_a_slide():
    ratios = []
    for path in sorted(Path(os.environ["STREAMTWIN_FLINK_RUNS"]).rglob("*.graph")):
        run = read_run_graph(path)
        for each in run.measured:
            operator = run.scenario.query.operator(each.operator)
            if isinstance(operator, Aggregate) and operator.window.policy == "count" and each.in_per_s:
                ratios.append(each.out_per_s * operator.window.slide / each.in_per_s)
    assert abs(math.log(sorted(ratios)[len(ratios) // 2])) < 0.01
