"""Bad input is one clear line with the path and a remedy; good input round-trips; numbers may have units."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twin.worlds import chain
from twin.cluster import Host
from twin.deployment import Deployment
from twin.errors import BadInput, suggest
from twin.kinds.operator import Selective
from twin.profiles import FLINK, STORM
from twin.quantities import FACTORS, SECONDS, duration_s, number, unit_of_time
from twin.query import Columns
from twin.scenario import RunSettings, Scenario, config_hash
from twin.spec import parse
from twin.workload import Constant

GOOD: dict[str, Any] = {
    "name": "test",
    "query": {
        "operators": [
            {"kind": "source", "name": "s", "columns": {"ints": 2}},
            {"kind": "filter", "name": "f", "selectivity": 0.5},
            {"kind": "source", "name": "r"},
            {"kind": "join", "name": "j", "window": {"policy": "time", "size_s": 2}, "selectivity": 0.01},
            {
                "kind": "aggregate",
                "name": "a",
                "window": {"policy": "count", "size_records": 10, "slide_records": 5},
                "group_by": "int",
                "groups": 7,
            },
            {"kind": "sink", "name": "k"},
        ],
        "streams": [
            {"producer": "s", "consumer": "f"},
            {"producer": "f", "consumer": "j"},
            {"producer": "r", "consumer": "j"},
            {"producer": "j", "consumer": "a"},
            {"producer": "a", "consumer": "k"},
        ],
    },
    "cluster": {"hosts": [{"name": "h", "cpu_percent": 100, "ram_mb": 4000, "bandwidth_mbps": 100, "latency_ms": 5}]},
    "plan": {"placement": {"s": "h", "f": {"h": 2}, "r": "h", "j": ["h", "h"], "a": "h", "k": "h"}},
    "workload": {"arrivals": {"s": {"law": "poisson", "rate_per_s": 10}, "r": {"law": "constant", "rate_per_s": 5}}},
}


def changed(change: Callable[[Any], object]) -> Any:
    data = copy.deepcopy(GOOD)
    change(data)
    return data


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda d: d["query"]["operators"][1].update(selectvity=1),
            r"operators\.f.*'selectvity'; did you mean 'selectivity'",
        ),
        (lambda d: d["query"]["operators"][1].update(selectivity=1.5), r"selectivity.*less than or equal to 1.*1\.5"),
        (lambda d: d["query"]["operators"][1].update(selectivity=float("nan")), r"selectivity.*finite.*nan"),
        (lambda d: d["query"]["operators"][1].update(selectivity=True), r"operators\.f\.selectivity.*number.*'true'"),
        (lambda d: d["workload"]["arrivals"]["s"].update(rate_per_s=True), r"arrivals\.s\.rate_per_s.*number.*'true'"),
        (lambda d: d.update(run={"seed": False}), r"run\.seed.*whole number.*'false'"),
        (lambda d: d["plan"].update(key_groups={"a": [0, True]}), r"key_groups\.a\.1.*whole number.*'true'"),
        (
            lambda d: d["cluster"]["hosts"][0].update(name="höst 1"),
            r"hosts\.höst 1\.name.*letters, digits and _",
        ),
        (
            lambda d: d["query"]["operators"][1].update(kind="flter"),
            r"operators\.f: unknown kind 'flter'; did you mean 'filter'",
        ),
        (lambda d: d["query"]["operators"][3]["window"].update(size_s=0), r"window\.size_s.*greater than"),
        (lambda d: d["query"]["operators"][3]["window"].update(slide_s=3), r"slide_s must be <= size_s \(2"),
        (lambda d: d["query"]["operators"][3].update(amplification=2), r"either selectivity or amplification"),
        (lambda d: d["query"]["operators"][4].pop("group_by"), r"groups must be 1 without group_by, got 7"),
        (lambda d: d["query"]["operators"].pop(5), r"unknown operator 'k'"),
        (lambda d: d["query"]["streams"].append({"producer": "a", "consumer": "f"}), r"cycle: .*f.*acyclic"),
        (lambda d: d["query"]["streams"].pop(4), r"aggregate 'a' leads to no sink|sink 'k' has no input"),
        (
            lambda d: d["query"]["streams"][2].update(consumer="k"),
            r"join 'j' has 1 input streams; a join has at least 2",
        ),
        (lambda d: d["query"]["streams"].append(d["query"]["streams"][0]), r"given twice"),
        (lambda d: d["cluster"]["hosts"][0].pop("ram_mb"), r"hosts\.h.*'ram_mb' is missing"),
        (lambda d: d["cluster"]["hosts"][0].update(cpu_percent=0), r"cpu_percent.*greater than.*got 0"),
        (lambda d: d["cluster"]["hosts"].append(d["cluster"]["hosts"][0]), r"'h' is used 2 times"),
        (lambda d: d["plan"]["placement"].update(f="hh"), r"placement\.f: unknown host 'hh'"),
        (lambda d: d["plan"]["placement"].update(f="h/1"), r"no socket 1; it has 1"),
        (lambda d: d["plan"]["placement"].update(f={"h": 0}), r"whole number from 1"),
        (lambda d: d["plan"]["placement"].pop("a"), r"places nothing for operator 'a'; add"),
        (lambda d: d["plan"]["placement"].update(zz="h"), r"unknown operator 'zz'"),
        (lambda d: d["workload"]["arrivals"].pop("r"), r"no rate for source 'r'"),
        (lambda d: d["workload"]["arrivals"]["s"].update(rate_per_s=-1), r"rate_per_s.*greater than"),
        (lambda d: d.update(engine="strom"), r"unknown engine profile 'strom'; did you mean 'storm'"),
        (lambda d: d.update(wrkload=1), r"'wrkload'; did you mean 'workload'"),
        (lambda d: d.update(run={"horizon_s": 10, "warmup_s": 10}), r"warmup_s must be < horizon_s"),
        (
            lambda d: d.update(query=3),
            r"query: should be a mapping of keys to values, such as \{operators: ...\}, got 3",
        ),
        (lambda d: d["query"]["operators"][1].pop("kind"), r"operators\.f: 'kind' is missing"),
    ],
)
def test_bad_input_is_one_line(change: Callable[[Any], object], says: str) -> None:
    with pytest.raises(BadInput, match=says) as caught:
        parse(Scenario, changed(change), "x.yaml")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("x.yaml: ")


def test_json_round_trip_is_equality() -> None:
    scenario = parse(Scenario, GOOD)
    assert parse(Scenario, json.loads(scenario.model_dump_json())) == scenario
    assert parse(Scenario, json.loads(scenario.model_dump_json(exclude_defaults=True))) == scenario


def test_specs_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        parse(Scenario, GOOD).name = "other"  # type: ignore[misc]


@given(*[st.permutations(["a", "a", "b", "b", "c"])] * 2)
def test_config_hash_tells_plans_apart_in_which_other_subtasks_are_elsewhere(one: list[str], other: list[str]) -> None:
    """Subtasks own keys by their numbers, so their order counts."""
    base = parse(Scenario, GOOD)
    host = base.cluster.hosts[0]
    hosts = tuple(host.model_copy(update={"name": name}) for name in (host.name, "a", "b", "c"))
    base = base.model_copy(update={"cluster": base.cluster.model_copy(update={"hosts": hosts})})
    both = [
        base.with_plan(base.plan.with_placement({**base.plan.placement, "f": tuple(order)})) for order in (one, other)
    ]
    assert (config_hash(both[0]) == config_hash(both[1])) is (one == other)


def test_config_hash_ignores_name_and_seed_and_nothing_else() -> None:
    base = parse(Scenario, GOOD)

    def digest(data: Any) -> str:
        return config_hash(parse(Scenario, data))

    assert digest(changed(lambda d: d.update(name="x", run={"seed": 5}))) == config_hash(base)
    assert config_hash(Scenario.of(base.deployment, base.run)) == config_hash(base)
    assert digest(changed(lambda d: d["query"]["operators"][1].update(selectivity=0.4))) != config_hash(base)
    assert digest(changed(lambda d: d.update(run={"horizon_s": 5}))) != config_hash(base)
    assert digest(changed(lambda d: d.update(checkpoints={"interval_s": 5}))) != config_hash(base)


def test_columns_flow_through_the_query() -> None:
    query = parse(Scenario, GOOD).query
    assert query.columns_out["f"] == Columns(ints=2)
    assert query.columns_out["j"] == Columns(ints=2, strings=1, doubles=1)  # 2 + 1 ints, one copy of the key
    assert query.columns_out["a"] == Columns(ints=1, doubles=1)
    assert [each.name for each in query.topological] == ["r", "s", "f", "j", "a", "k"], "ties by name"


def test_a_new_plan_is_checked() -> None:
    job = chain([], 10)
    with pytest.raises(ValueError, match="unknown host"):
        job.with_plan(job.plan.model_copy(update={"placement": {**job.plan.placement, "source": ("x",)}}))
    assert isinstance(job.with_plan(job.plan), Deployment)


def test_sockets_share_the_hosts_cpu() -> None:
    host = Host(
        name="n", cpu_percent=400, ram_mb=1, bandwidth_mbps=1, latency_ms=0, sockets=({"cores": 3}, {"cores": 1})
    )
    assert [host.socket_capacity(k) for k in range(2)] == [3.0, 1.0]


def test_profiles_price_width_and_kind() -> None:
    query = parse(Scenario, GOOD).query
    for engine in (STORM, FLINK):
        narrow, wide = (engine.service_s(query, query.operator(name)) for name in ("f", "j"))
        assert 0 < narrow < wide
        assert engine.memory.slowdown(0.0) == 1.0
        assert engine.memory.slowdown(1.0) == pytest.approx(engine.memory.slowdown_at_crash)


def test_suggest_lists_what_there_is() -> None:
    assert suggest("zzz", ["b", "a"]) == "known: a, b"
    many = suggest("zzz", [f"name-{number:03}" for number in range(100)])
    assert many.endswith("name-039 and 60 more") and len(many) < 450
    assert suggest("fliter", ["filter", "map"]) == "did you mean 'filter'?"


def test_a_property_does_not_stand_for_a_field() -> None:
    """A property in place of a field is refused: Pydantic would take it for the default, and a run for a number."""
    with pytest.raises(TypeError, match="is a field of its base"):

        class Sampler(Selective):
            every: int

            @property
            def selectivity(self) -> float:  # type: ignore[override]
                return 1.0 / self.every


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
