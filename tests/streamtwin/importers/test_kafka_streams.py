"""`twin import kafka-streams`: topologies as scenarios, whose streams are those of the program, and damaged ones."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.files import scenario_file
from streamtwin.connect.importers.kafka_streams import PASSED, nodes_in, read_topology
from tests.commands import refused, twin
from twin.deployment import nominal_rates
from twin.errors import BadInput
from twin.scenario import Scenario
from twin.simulation import simulate

Described = dict[str, tuple[str, str, list[str]]]
"""By name: kind with what it is of, and names of what follows."""


def described(*parts: dict[str, tuple[str, list[str]]]) -> str:
    """Text of a topology, a part a sub-topology. A node is `NAME: (KIND [of], [followers])`."""
    lines = ["Topologies:"]
    before = {
        name: [each for part in parts for each in part if name in part[each][1]] for part in parts for name in part
    }
    for number, part in enumerate(parts):
        lines.append(f"   Sub-topology: {number}")
        for name, (about, after) in part.items():
            kind, _, of = about.partition(" ")
            what = {"Source": f"topics: [{of}]", "Sink": f"topic: {of}", "Processor": f"stores: [{of}]"}[kind]
            lines.append(f"    {kind}: {name} ({what})")
            if kind != "Sink":
                lines.append(f"      --> {', '.join(after) or 'none'}")
            if kind != "Source":
                lines.append(f"      <-- {', '.join(before[name]) or 'none'}")
        lines.append("")
    return "\n".join(lines)


def imported(*parts: dict[str, tuple[str, list[str]]]) -> Scenario:
    return read_topology(described(*parts), "job", "topology.txt").scenario


def kinds(job: Scenario) -> dict[str, str]:
    return {each.name: each.kind for each in job.query.operators}


def streams(job: Scenario) -> set[tuple[str, str, str | None]]:
    return {(each.producer, each.consumer, each.input) for each in job.query.streams}


WORDS = (
    {
        "KSTREAM-SOURCE-0000000000": ("Source lines", ["KSTREAM-FLATMAPVALUES-0000000001"]),
        "KSTREAM-FLATMAPVALUES-0000000001": ("Processor", ["KSTREAM-KEY-SELECT-0000000002"]),
        "KSTREAM-KEY-SELECT-0000000002": ("Processor", ["KSTREAM-FILTER-0000000005"]),
        "KSTREAM-FILTER-0000000005": ("Processor", ["KSTREAM-SINK-0000000004"]),
        "KSTREAM-SINK-0000000004": ("Sink counts-repartition", []),
    },
    {
        "KSTREAM-SOURCE-0000000006": ("Source counts-repartition", ["KSTREAM-AGGREGATE-0000000003"]),
        "KSTREAM-AGGREGATE-0000000003": ("Processor counts", ["KTABLE-TOSTREAM-0000000007"]),
        "KTABLE-TOSTREAM-0000000007": ("Processor", ["KSTREAM-SINK-0000000008"]),
        "KSTREAM-SINK-0000000008": ("Sink words", []),
    },
)


def test_topics_between_sub_topologies_are_streams() -> None:
    job = imported(*WORDS)
    assert kinds(job) == {
        "lines": "source", "flatmapvalues-1": "map", "key-select-2": "map", "filter-5": "map",
        "aggregate-3": "group-aggregate", "tostream-7": "map", "words": "sink",
    }  # fmt: skip
    assert ("filter-5", "aggregate-3", None) in streams(job)
    assert simulate(job.with_run(horizon_s=20.0, warmup_s=5.0)).metrics.throughput_per_s == pytest.approx(
        1000, rel=0.05
    )


def test_two_streams_that_meet_within_a_window_are_one_join() -> None:
    def side(number: int, way: str, topic: str, other: str) -> dict[str, tuple[str, list[str]]]:
        joins = f"KSTREAM-{way}-000000000{number}"
        return {
            f"KSTREAM-SOURCE-000000001{number}": (f"Source {topic}", [f"KSTREAM-WINDOWED-000000002{number}"]),
            f"KSTREAM-WINDOWED-000000002{number}": (f"Processor {joins}-store", [joins]),
            joins: (f"Processor {other}", ["KSTREAM-MERGE-0000000006"]),
        }

    job = imported(
        {
            **side(4, "JOINTHIS", "orders", "KSTREAM-OUTEROTHER-0000000005-store"),
            **side(5, "OUTEROTHER", "payments", "KSTREAM-JOINTHIS-0000000004-store"),
            "KSTREAM-MERGE-0000000006": ("Processor", ["KSTREAM-SINK-0000000007"]),
            "KSTREAM-SINK-0000000007": ("Sink paid", []),
        }
    )
    assert kinds(job) == {"orders": "source", "payments": "source", "merge-6": "interval-join", "paid": "sink"}
    assert streams(job) == {
        ("orders", "merge-6", "left"),
        ("payments", "merge-6", "right"),
        ("merge-6", "paid", None),
    }


def test_a_stream_that_meets_itself_has_two_inputs() -> None:
    part = {
        "KSTREAM-SOURCE-0000000000": ("Source all", ["KSTREAM-WINDOWED-0000000001", "KSTREAM-WINDOWED-0000000002"]),
        "KSTREAM-WINDOWED-0000000001": ("Processor a", ["KSTREAM-JOINTHIS-0000000003"]),
        "KSTREAM-WINDOWED-0000000002": ("Processor b", ["KSTREAM-JOINOTHER-0000000004"]),
        "KSTREAM-JOINTHIS-0000000003": ("Processor b", ["KSTREAM-MERGE-0000000005"]),
        "KSTREAM-JOINOTHER-0000000004": ("Processor a", ["KSTREAM-MERGE-0000000005"]),
        "KSTREAM-MERGE-0000000005": ("Processor", ["KSTREAM-PROCESSOR-0000000006"]),
        "KSTREAM-PROCESSOR-0000000006": ("Processor", []),
    }
    job = imported(part)
    assert {("all", "merge-5", "left"), ("all", "merge-5", "right")} < streams(job)
    assert kinds(job)["processor-6"] == "sink"


@pytest.mark.parametrize("also", [[], ["KTABLE-TOSTREAM-0000000009"]])
def test_a_table_that_a_stream_looks_up_is_the_side_of_a_join(also: list[str]) -> None:
    """A table that leads on is an operator of its own, whose changes come to the join."""
    more = {
        "KTABLE-TOSTREAM-0000000009": ("Processor", ["KSTREAM-SINK-0000000010"]),
        "KSTREAM-SINK-0000000010": ("Sink changes", []),
    }
    job = imported(
        {
            "KSTREAM-SOURCE-0000000000": ("Source clicks", ["KSTREAM-LEFTJOIN-0000000004"]),
            "KSTREAM-SOURCE-0000000001": ("Source users", ["KTABLE-SOURCE-0000000002"]),
            "KTABLE-SOURCE-0000000002": ("Processor users-store", also),
            "KSTREAM-LEFTJOIN-0000000004": ("Processor users-store", ["KSTREAM-SINK-0000000005"]),
            "KSTREAM-SINK-0000000005": ("Sink enriched", []),
            **(more if also else {}),
        }
    )
    table = "source-2" if also else "users"
    assert kinds(job)["leftjoin-4"] == "temporal-join"
    assert {("clicks", "leftjoin-4", "left"), (table, "leftjoin-4", "right")} < streams(job)
    assert simulate(job.with_run(horizon_s=10.0, warmup_s=2.0)).metrics.throughput_per_s > 0


def test_tables_that_meet_and_tables_that_are_only_kept() -> None:
    job = imported(
        {
            "KSTREAM-SOURCE-0000000000": ("Source a", ["KTABLE-SOURCE-0000000001"]),
            "KTABLE-SOURCE-0000000001": ("Processor a-store", ["KTABLE-JOINTHIS-0000000005"]),
            "KSTREAM-SOURCE-0000000002": ("Source b", ["KTABLE-SOURCE-0000000003"]),
            "KTABLE-SOURCE-0000000003": ("Processor b-store", ["KTABLE-JOINOTHER-0000000006"]),
            "KTABLE-JOINTHIS-0000000005": ("Processor b-store", ["KTABLE-MERGE-0000000004"]),
            "KTABLE-JOINOTHER-0000000006": ("Processor a-store", ["KTABLE-MERGE-0000000004"]),
            "KTABLE-MERGE-0000000004": ("Processor joined", []),
        }
    )
    assert kinds(job)["merge-4"] == "regular-join" and kinds(job)["merge-4-store"] == "sink"
    assert {("source-1", "merge-4", "left"), ("source-3", "merge-4", "right")} < streams(job)


def rates_in(job: Scenario) -> dict[str, float]:
    rates = nominal_rates(job.query, job.workload.arrivals)
    return {name: each.in_per_s for name, each in rates.items()}


@pytest.mark.parametrize("names", [["0", "1", "2"], ["-small", "-large"], ["0"]])
def test_branches_together_send_what_came(names: list[str]) -> None:
    """Children of a split are called after it; each record takes one of them."""
    split = "KSTREAM-BRANCH-0000000001"
    part = {
        "KSTREAM-SOURCE-0000000000": ("Source all", [split]),
        split: ("Processor", [f"{split}{each}" for each in names]),
        **{f"{split}{each}": ("Processor", [f"KSTREAM-SINK-00000000{20 + row}"]) for row, each in enumerate(names)},
        **{f"KSTREAM-SINK-00000000{20 + row}": (f"Sink out{row}", []) for row in range(len(names))},
    }
    job = imported(part)
    found = rates_in(job)
    assert sum(found[f"out{row}"] for row in range(len(names))) == pytest.approx(found["branch-1"])
    assert kinds(job)["out0"] == "sink" and found["out0"] == pytest.approx(1000 / len(names))


@pytest.mark.parametrize("topic", ["mid", "counts-repartition"])
def test_a_filter_lets_a_share_pass_unless_it_only_drops_what_has_no_key(topic: str) -> None:
    job = imported(
        {
            "KSTREAM-SOURCE-0000000000": ("Source all", ["KSTREAM-FILTER-0000000001"]),
            "KSTREAM-FILTER-0000000001": ("Processor", ["KSTREAM-SINK-0000000002"]),
            "KSTREAM-SINK-0000000002": (f"Sink {topic}", []),
        },
        {
            "KSTREAM-SOURCE-0000000003": (f"Source {topic}", ["KSTREAM-SINK-0000000004"]),
            "KSTREAM-SINK-0000000004": ("Sink out", []),
        },
    )
    share = 1.0 if topic.endswith("-repartition") else PASSED
    assert rates_in(job)["out"] == pytest.approx(share * rates_in(job)["filter-1"])


def test_a_filter_before_a_join_lets_a_share_pass_and_a_join_may_have_a_name() -> None:
    def side(way: str, topic: str, number: int) -> dict[str, tuple[str, list[str]]]:
        return {
            f"KSTREAM-SOURCE-000000001{number}": (f"Source {topic}", [f"KSTREAM-FILTER-000000002{number}"]),
            f"KSTREAM-FILTER-000000002{number}": ("Processor", [f"pay-{way}-windowed"]),
            f"pay-{way}-windowed": (f"Processor pay-{way}-store", [f"pay-{way}-join"]),
            f"pay-{way}-join": ("Processor other-store", ["pay-merge"]),
        }

    end = {"pay-merge": ("Processor", ["KSTREAM-SINK-0000000030"]), "KSTREAM-SINK-0000000030": ("Sink paid", [])}
    job = imported({**side("this", "orders", 1), **side("other", "payments", 2), **end})
    assert kinds(job)["pay-merge"] == "interval-join"
    assert {("filter-21", "pay-merge", "left"), ("filter-22", "pay-merge", "right")} < streams(job)
    assert rates_in(job)["pay-merge"] == pytest.approx(2 * PASSED * 1000)


def test_a_source_that_also_reads_what_the_program_writes_stays() -> None:
    job = imported(
        {
            "KSTREAM-SOURCE-0000000000": ("Source orders, retries", ["KSTREAM-PEEK-0000000001"]),
            "KSTREAM-PEEK-0000000001": ("Processor", ["KSTREAM-SINK-0000000002"]),
            "KSTREAM-SINK-0000000002": ("Sink done", []),
            "KSTREAM-SOURCE-0000000003": ("Source failed", ["KSTREAM-SINK-0000000004"]),
            "KSTREAM-SINK-0000000004": ("Sink retries", []),
        }
    )
    assert kinds(job)["orders-and-retries"] == kinds(job)["failed"] == "source"
    assert rates_in(job)["peek-1"] == pytest.approx(2000)


def test_what_a_program_does_by_itself_is_asked_about() -> None:
    """How many records a processor of the program's own sends, or a flat map, no description tells; state it does."""
    text = described(
        {
            "KSTREAM-SOURCE-0000000000": ("Source a", ["KSTREAM-FLATMAP-0000000001"]),
            "KSTREAM-FLATMAP-0000000001": ("Processor", ["enrich"]),
            "enrich": ("Processor rows", ["KSTREAM-MAPVALUES-0000000003"]),
            "KSTREAM-MAPVALUES-0000000003": ("Processor", ["KSTREAM-SINK-0000000004"]),
            "KSTREAM-SINK-0000000004": ("Sink out", []),
        }
    )
    found = read_topology(text, "job", "topology.txt")
    assert kinds(found.scenario)["enrich"] == "keyed-state"
    assert "flatmap-1.selectivity=1" in found.notes[0] and "enrich.keys=10,000" in found.notes[0]
    assert "mapvalues-3" not in found.notes[0]


@given(
    st.integers(1, 12).flatmap(
        lambda count: st.tuples(*(st.sets(st.integers(0, row), min_size=1, max_size=3) for row in range(count)))
    ),
    st.lists(
        st.sampled_from(["FILTER", "MAPVALUES", "MERGE", "AGGREGATE", "PEEK", "my-own"]), min_size=12, max_size=12
    ),
)
def test_any_topology_of_such_nodes_runs_and_has_its_ways(before: tuple[set[int], ...], words: list[str]) -> None:
    """Node 0 is the source, and node k + 1 gets records from those in before[k]; who leads nowhere leads to a sink."""
    names = ["KSTREAM-SOURCE-0000000000"]
    names += [f"KSTREAM-{word}-{number:010}" for number, word in enumerate(words[: len(before)], 1)]
    after: dict[str, list[str]] = {name: [] for name in names}
    for number, several in enumerate(before, 1):
        for each in several:
            after[names[each]].append(names[number])
    part = {name: ("Source t" if name == names[0] else "Processor", after[name]) for name in names}
    part |= {name: ("Processor s", ways) for name, (_, ways) in part.items() if "AGGREGATE" in name}
    job = imported(part)
    simulate(job.with_run(horizon_s=2.0, warmup_s=0.5))
    told = nx.DiGraph([(each.producer, each.consumer) for each in job.query.streams])
    own = [each.name for each in job.query.operators if not each.name.endswith("-store")]  # where rows are asked for
    short = dict(zip(names, own, strict=True))
    assert {(short[name], short[each]) for name in names for each in after[name]} <= set(told.edges)
    assert nx.is_weakly_connected(told)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "describes no topology"),
        ("hello", "line 1: 'hello' is no part of a topology"),
        (described(WORDS[0]).replace("[lines]", "[]"), "line 3: KSTREAM-SOURCE-0000000000 reads no topic"),
        (described(WORDS[0]).replace("Source:", "Source"), "line 3"),
        (
            described(*WORDS).replace("KSTREAM-FILTER-0000000005 (", "KSTREAM-OTHER-0000000005 ("),
            "which is not described",
        ),
        (
            described({**WORDS[1], **WORDS[0], "again": ("Sink lines", [])}),
            "no topic is read that the topology does not write",
        ),
    ],
)
def test_what_is_no_whole_topology_is_one_line(text: str, says: str) -> None:
    with pytest.raises(BadInput, match=says) as error:
        read_topology(text, "job", "topology.txt")
    assert "\n" not in str(error.value)


def test_the_command_writes_a_scenario_that_runs_and_lists_what_is_assumed(tmp_path: Path) -> None:
    topology, out = tmp_path / "words.txt", tmp_path / "job.yaml"
    topology.write_text(described(*WORDS))
    found = twin("import", "kafka-streams", topology, "--out", out)
    assert found.returncode == 0 and "query.operators.aggregate-3.keys=10,000" in found.stderr
    assert scenario_file.load(str(out)).name == "words"
    notes = read_topology(described(*WORDS), "words", "words.txt").notes
    for path in ("workload.arrivals.lines.rate_per_s=1000", "query.operators.aggregate-3.keys=10,000"):
        assert path in notes[0]
    assert "cannot be read" in refused("import", "kafka-streams", tmp_path / "none.txt")
    assert len(nodes_in(topology.read_text(), "words.txt")) == 9
