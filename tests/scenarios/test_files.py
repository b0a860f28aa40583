"""Scenario files: what is written loads back equal, and every mistake is one line that names its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scenarios.files import registry, scenario_file
from scenarios.files.scenario_file import set_value, set_values
from scenarios.files.yaml_text import parse_text, to_text
from tests.commands import twin
from twin.cluster import Cluster, Host, Numa, Socket
from twin.errors import BadInput
from twin.plan import ExecutionPlan
from twin.profiles import FLINK, STORM
from twin.scenario import RunSettings, Scenario

EDGE_FILTER = (registry.LIBRARY / "edge-filter.yaml").read_text()


@pytest.mark.parametrize("name", registry.names())
def test_library_scenario_round_trips(name: str) -> None:
    scenario = scenario_file.load(name)
    assert scenario.name == name
    assert len(scenario.description) > 60
    assert scenario_file.parse_scenario(scenario_file.dump(scenario), name) == scenario


def test_library_has_an_entry_a_file() -> None:
    files = {registry.find(name) for name in registry.names()}
    assert files == set(registry.LIBRARY.iterdir())
    assert all(20 < len(registry.summary(file)) < 120 for file in files)


scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=30)
plain_data = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=12), plain_data, max_size=4))
def test_yaml_text_reads_back_as_written(data: dict[str, object]) -> None:
    assert parse_text(to_text(data), "text") == data


def test_hosts_that_are_alike_are_written_once() -> None:
    """A mapping's own keys precede the ones that it copies, also where those are copies."""
    text = """
        hosts:
        - &small {name: a, cpu_percent: 100, ram_mb: 1000}
        - &big {<<: *small, name: b, cpu_percent: 800}
        - {<<: *big, name: c}
        - {<<: [*small, *big], name: d}
        """
    hosts = parse_text(text, "it")["hosts"]
    assert [(each["name"], each["cpu_percent"], each["ram_mb"]) for each in hosts] == [
        ("a", 100, 1000), ("b", 800, 1000), ("c", 800, 1000), ("d", 100, 1000)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{<<: &a {x: 1}, <<: *a}", "key '<<' is given twice"),
        ("a: &a {x: 1}\nb: {<<: *a, y: 1, y: 2}", "line 2.*key 'y' is given twice"),
        ("<<: 3", "expected a mapping"),
    ],
)
def test_copies_that_cannot_be_are_named(text: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        parse_text(text, "it")


def test_copies_of_copies_do_not_fill_the_memory() -> None:
    lines = ["a0: &a0 {" + ", ".join(f"k{i}: 1" for i in range(10)) + "}"]
    lines += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 40)]
    with pytest.raises(BadInput, match="copy less"):
        parse_text("\n".join(lines), "it")


words = st.sampled_from(
    ["on", "yes", "1e6", "null", "0x10", "1_000", "-", "12:30:45", "2026-01-01", ".5", "a.b@c:#-", "true", "~x"]
)
positive = st.floats(min_value=1e-3, max_value=1e6)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    base = scenario_file.load("edge-filter")
    names = draw(st.lists(words.filter(lambda name: name not in ("~x",)), min_size=2, max_size=2, unique=True))
    sockets = draw(st.integers(1, 3))
    distances = tuple(tuple(0.0 if i == j else 120.5 for j in range(sockets)) for i in range(sockets))
    hosts = tuple(
        Host(
            name=name,
            cpu_percent=draw(positive),
            ram_mb=draw(positive),
            bandwidth_mbps=draw(positive),
            latency_ms=draw(positive),
            sockets=tuple(Socket(cores=draw(st.integers(1, 64))) for _ in range(sockets)),
            numa=draw(st.sampled_from([None, Numa(latency_ns=distances)])),
        )
        for name in names
    )
    places = st.sampled_from([f"{name}/{socket}" if socket else name for name in names for socket in range(sockets)])
    placement = {each.name: tuple(draw(st.lists(places, min_size=1, max_size=4))) for each in base.query.operators}
    engine = draw(st.sampled_from([STORM, FLINK, STORM.model_copy(update={"channel_records": 7})]))
    run = RunSettings(horizon_s=draw(positive), seed=draw(st.integers(0, 2**63 - 1)), warmup_s=0.0)
    changes = {
        "cluster": Cluster(hosts=hosts),
        "plan": ExecutionPlan(placement=placement),
        "engine": engine,
        "run": run,
    }
    return Scenario(**{**dict(base), **changes, "description": draw(st.text(max_size=200))})


@given(scenarios())
def test_dump_loads_back_equal(scenario: Scenario) -> None:
    assert scenario_file.parse_scenario(scenario_file.dump(scenario), "dumped") == scenario


def test_dump_leaves_defaults_out() -> None:
    text = scenario_file.dump(scenario_file.load("edge-filter"))
    assert "slide_s" not in text
    assert "null" not in text
    assert "engine" not in text
    assert yaml.safe_load(text)["query"]["operators"][1]["kind"] == "filter"


def test_schema_knows_every_key_of_the_library() -> None:
    schema = scenario_file.json_schema()
    json.dumps(schema)
    assert {"query", "cluster", "plan", "workload", "engine", "run"} <= set(schema["properties"])
    assert "kind" in schema["$defs"]["Filter"]["required"]
    assert not schema["additionalProperties"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "selectivity: 0.1",
            "selectivty: 0.1",
            ["line 9: query.operators.hot", "selectivty", "did you mean 'selectivity'?"],
        ),
        ("selectivity: 0.1", "selectivity: 1.5", ["query.operators.hot.selectivity", "1.5"]),
        ("selectivity: 0.1", "selectivity: a lot", ["query.operators.hot.selectivity", "'a lot'"]),
        ("selectivity: 0.1", "selectivity: .nan", ["query.operators.hot.selectivity", "nan"]),
        ("kind: sink", "kind: snk", ["query.operators.dashboard", "snk"]),
        ("hot: edge-1", "hot: edge-9", ["plan.placement.hot", "'edge-9'", "edge-1"]),
        ("producer: hot", "producer: hott", ["'hott'", "did you mean 'hot'?"]),
        ("rate_per_s: 800", "rate_per_s: -1", ["rate_per_s", "-1"]),
        ("name: cloud-1", "name: edge-1", ["'edge-1'", "unique"]),
        ("run:", "rum:", ["'rum'", "did you mean 'run'?"]),
        ("run: {horizon_s: 120", "run: {horizon_s: 5", ["warmup_s must be < horizon_s"]),
        ("query:\n", "query:\n  query: [\n", ["line"]),
        ("name: edge-filter", "name: edge-filter\nname: again", ["line 2", "'name' is given twice"]),
        ("  streams:", "\tstreams:", ["line 11", "tabs"]),
        ("name: edge-filter", "name: edge-filter\n---\nname: again", ["line 2", "a file holds one"]),
        ("name: edge-filter", "name: !!python/object:os.system ls", ["line 1", "leave the tag out"]),
        ("name: edge-filter", "name: *ls", ["line 1", "put the text in quotes"]),
        ("run:", "x: [" + "1, " * 700_000 + "1]\nrun:", ["2,10", "more than 2,000,000; is it the right one?"]),
        ("hot: edge-1", "hot: {edge-1: 100000, cloud-1: 100000, a: 100000, b: 100000}", ["400,002 subtasks"]),
    ],
)
def test_mistake_is_one_line_with_its_place(tmp_path: Path, old: str, new: str, expected: list[str]) -> None:
    assert old in EDGE_FILTER
    path = tmp_path / "broken.yaml"
    path.write_text(EDGE_FILTER.replace(old, new, 1))
    with pytest.raises(BadInput) as caught:
        scenario_file.load(str(path))
    message = str(caught.value)
    assert "\n" not in message
    for part in [str(path), *expected]:
        assert part in message


@pytest.mark.parametrize(
    "text", ["", "- a\n- b\n", "just words", "42", "? [1, 2]\n: 3", "{1: 2, 1: 3}", "a: &a [*a]", "\x00"]
)
def test_what_is_no_scenario_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    with pytest.raises(BadInput, match=r"odd\.yaml"):
        scenario_file.load(str(path))


def test_deep_nesting_and_binary_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "deep.yaml").write_text("[" * 5000 + "]" * 5000)
    (tmp_path / "binary.yaml").write_bytes(bytes(range(256)))
    for name in ("deep.yaml", "binary.yaml"):
        with pytest.raises(BadInput, match=name):
            scenario_file.load(str(tmp_path / name))


def test_unknown_names_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="did you mean 'smart-grid'"):
        scenario_file.load("smart-grit")
    with pytest.raises(BadInput, match="does not exist"):
        scenario_file.load(str(tmp_path / "none.yaml"))
    with pytest.raises(BadInput, match="folder"):
        scenario_file.load(str(tmp_path))


@pytest.mark.parametrize(
    ("assignment", "path", "value"),
    [
        ("run.horizon_s=60", ("run", "horizon_s"), 60.0),
        ("run.seed=7", ("run", "seed"), 7),
        ("name=mine", ("name",), "mine"),
        ("workload.arrivals.sensors.rate_per_s=1e3", ("workload", "arrivals", "sensors", "rate_per_s"), 1000.0),
        ("plan.placement.hot=[cloud-1, cloud-1]", ("plan", "placement", "hot"), ("cloud-1", "cloud-1")),
        ("engine.channel_records=9", ("engine", "channel_records"), 9),
        ("query.operators.hot.selectivity=0.5", ("query", "operators", 1, "selectivity"), 0.5),
        ("cluster.hosts.edge-1.cpu_percent=50", ("cluster", "hosts", 0, "cpu_percent"), 50.0),
        ("query.streams.hot->dashboard.partitioning=global", ("query", "streams", 1, "partitioning"), "global"),
    ],
)
def test_set_changes_one_value(assignment: str, path: tuple[str | int, ...], value: object) -> None:
    before = scenario_file.load("edge-filter")
    found: object = set_value(before, assignment)
    for part in path:
        found = found[part] if isinstance(part, int) or isinstance(found, dict) else getattr(found, part)  # type: ignore[index]
    assert found == value
    changed = set_value(before, assignment).model_dump()
    assert sum(changed[key] != part for key, part in before.model_dump().items()) == 1


def test_set_reaches_names_with_dots() -> None:
    data = scenario_file.load("edge-filter").model_dump(mode="json")
    data = json.loads(json.dumps(data).replace('"hot"', '"hot.v1.2"'))
    scenario = scenario_file.parse_scenario(json.dumps(data), "json")
    assert set_value(scenario, "query.operators.hot.v1.2.selectivity=0.7").query.operators[1].selectivity == 0.7  # type: ignore[union-attr]


def test_set_values_apply_in_order() -> None:
    scenario = set_values(scenario_file.load("edge-filter"), ["run.horizon_s=60", "run.horizon_s=90"])
    assert scenario.run.horizon_s == 90.0
    assert set_values(scenario, []) == scenario


def test_what_stands_between_two_values_need_not_be_valid() -> None:
    """Assignments need to be valid only together: other hosts and a plan for them, in either order."""
    cluster = "cluster={hosts: [{name: big, cpu_percent: 800, ram_mb: 9000, bandwidth_mbps: 100, latency_ms: 1}]}"
    loaded = scenario_file.load("edge-filter")
    plan = f"plan.placement={{{', '.join(f'{each.name}: big' for each in loaded.query.operators)}}}"
    there = set_values(loaded, [cluster, plan])
    assert there == set_values(loaded, [plan, cluster]) and set(there.plan.placement.values()) == {("big",)}
    with pytest.raises(BadInput, match="unknown host 'bog'; did you mean 'big'"):
        set_values(loaded, [cluster, plan.replace("big", "bog", 1)])
    with pytest.raises(BadInput, match="did you mean 'horizon_s'"):
        set_values(loaded, [cluster, plan, "run.horizon=60"])


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("run.horizon=60", "did you mean 'horizon_s'?"),
        ("query.operators.hott.selectivity=1", "did you mean 'hot'?"),
        ("run.horizon_s=soon", "'soon'"),
        ("run.horizon_s=-1", "-1"),
        ("run.horizon_s.x=1", "has no parts"),
        ("cluster.hosts.edge-1.numa.latency_ns=1", "not given"),
        ("plan.placement.hot=nowhere", "'nowhere'"),
        ("nothing", "PATH=VALUE"),
        ("=3", "PATH=VALUE"),
        ("run.seed=[", "line 1"),
        ("query.operators=3", "query.operators"),
        ("engine=flnk", "did you mean 'flink'?"),
    ],
)
def test_bad_set_is_one_line(assignment: str, expected: str) -> None:
    with pytest.raises(BadInput) as caught:
        set_value(scenario_file.load("edge-filter"), assignment)
    assert "--set" in str(caught.value)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


MISTAKEN = """name: x
query:
  operators:
    - {name: sensors, kind: source, columns: {ints: 2, strings: 0, doubles: 2}}
    - {name: hot, kind: filter, selectivty: 0.1}
    - name: dashboard
      kind: snk
  streams: [{producer: sensors, consumer: hot}, {producer: hot, consumer: dashboard}]
cluster:
  hosts:
    - &box {name: edge-1, cpu_percent: -100, ram_mb: 2000, bandwidth_mbps: 50, latency_ms: 20}
    - {<<: *box, name: cloud-1, cpu_percent: 400, ram_mb: lots}
    - {name: far, cpu_percent: 100, ram_mb: 2000, bandwidth_mbps: 50}
plan:
  placement: {sensors: edge-1, hot: {edge-1: x}, dashboard: cloud-1}
workload:
  arrivals:
    sensors: {law: poissn, rate_per_s: 800}
"""


def test_all_mistakes_are_told_at_once_by_line_and_name() -> None:
    with pytest.raises(BadInput) as refused:
        scenario_file.parse_scenario(MISTAKEN, "mine.yaml")
    head, *mistakes = refused.value.mistakes
    assert head == f"mine.yaml: {len(mistakes)} mistakes"
    assert [": ".join(each.split(": ")[:2]) for each in mistakes] == [
        "line 5: query.operators.hot.selectivty",
        "line 6: query.operators.dashboard",
        "line 11: cluster.hosts.edge-1.cpu_percent",
        "line 12: cluster.hosts.cloud-1.ram_mb",
        "line 13: cluster.hosts.far.latency_ms",
        "line 15: plan.placement.hot",
        "line 18: workload.arrivals.sensors",
    ]
    assert "\n" not in str(refused.value) and "did you mean 'poisson'?" in mistakes[-1]


def test_the_command_lists_them_and_one_mistake_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    for text, lines in ((MISTAKEN, 8), (MISTAKEN.replace("name: x", "name: [x"), 1)):
        path.write_text(text, encoding="utf-8")
        ended = twin("run", path)
        found = ended.stderr.splitlines()
        assert ended.returncode == 2 and len(found) == lines and found[0].startswith("twin: ")
        assert all(line.startswith("  line ") for line in found[1:])
