"""Scenario files: strict YAML in, `Scenario` out, and back."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter

import optimizers.policies  # noqa: F401  # so that a file can name one
from scenarios.files import registry
from scenarios.files.yaml_text import line_of, parse_text, to_text
from twin.cluster import CLUSTERS, Cluster, cluster_name
from twin.errors import BadInput
from twin.errors import Path as InFile
from twin.files import parse_json
from twin.kinds.registry import BY_KIND
from twin.plan import Location, check_count
from twin.profiles import PROFILES, EngineProfile, changes_of
from twin.scenario import Scenario, put_all
from twin.scheduling import emptiest, resized
from twin.spec import parse, tags

# overrides -----------------------------------------------------------------------------------------------------------
# Replaces values of a scenario as `--set PATH=VALUE` does. Values are read as YAML.


def set_value(scenario: Scenario, assignment: str, flag: str = "--set") -> Scenario:
    """Scenario with one value replaced, given as `path.to.key=value`. Raises BadInput as `set_values` does."""
    return set_values(scenario, [assignment], flag)


def set_values(scenario: Scenario, assignments: Sequence[str], flag: str | Sequence[str] = "--set") -> Scenario:
    """Scenario with all assignments, applied in order. flag: the option that they came from, or that of each.

    Raises BadInput if an assignment cannot be read, if a path does not exist (with the nearest key), or if the result
    is not a valid scenario.
    """
    flags = [flag] * len(assignments) if isinstance(flag, str) else flag
    return put_all(scenario, [_read(*each) for each in zip(assignments, flags, strict=True)], flags)


def _read(assignment: str, flag: str) -> tuple[str, Any]:
    path, text = parted(assignment, flag, "PATH=VALUE, such as run.horizon_s=60")
    return path, parse_text(text, f"{flag} {path}")


def parted(text: str, flag: str, form: str, *, empty: bool = True) -> tuple[str, str]:
    """Parts of a text before and after `=`. empty: whether the second part may be empty.

    Raises BadInput, which shows `form` as the way to write it, if a part is missing.
    """
    left, equals, right = (part.strip() for part in text.partition("="))
    if not left or not equals or not (right or empty):
        raise BadInput(f"{flag} {text}: write {form}")
    return left, right


# parallelism without a plan ------------------------------------------------------------------------------------------
# Operators of a scenario file that say their parallelism instead of places: the engine's scheduler places them.


KEY = "parallelism"
SCHEMA = {
    "type": "integer",
    "minimum": 1,
    "description": "number of subtasks, which the engine places; instead of the operator's places in plan.placement",
}


def parse_placed(data: Mapping[str, Any], where: str, line: Callable[[InFile], int | None]) -> Scenario:
    """Scenario of a file's data. If an operator gives its parallelism, or the plan has no places at all, all operators
    without places are placed; of these, those that give none have one subtask, or as many as a forward stream or a
    chain wants. Raises BadInput as `twin.spec.parse`, and for a parallelism that cannot be.
    """
    query, plan = data.get("query"), data.get("plan", {})
    listed = query.get("operators") if isinstance(query, Mapping) else None
    operators = listed if isinstance(listed, list) and all(isinstance(each, Mapping) for each in listed) else []
    counts = {str(each.get("name")): each[KEY] for each in operators if KEY in each}
    placed = not isinstance(plan, Mapping) or "placement" in plan
    if not operators or not isinstance(query, Mapping) or (placed and not counts):
        return parse(Scenario, data, where, line)
    bare = [{key: value for key, value in each.items() if key != KEY} for each in operators]
    query = {**query, "operators": bare}
    given = plan.get("placement", {}) if isinstance(plan, Mapping) else None
    if not isinstance(given, Mapping):
        return parse(Scenario, {**data, "query": query}, where, line)
    for name, count in counts.items():
        key = f"{where}: query.operators.{name}.{KEY}"
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise BadInput(f"{key}: {count!r}; give a whole number from 1")
        if name in given:
            raise BadInput(f"{key}: plan.placement.{name} says how many and where; leave one of the two out")
    check_count(sum(counts.values()), f"{where}: query.operators")
    first = _first_host(data.get("cluster"))
    free = [name for each in bare if (name := str(each.get("name"))) not in given]
    placement = {**given, **{name: [first] * counts.get(name, 1) for name in free}}
    whole = {**data, "query": query, "plan": {**plan, "placement": placement}}
    return _scheduled(parse(Scenario, whole, where, line), {*free}, counts, where)


def _first_host(cluster: Any) -> str:
    if isinstance(cluster, str):
        return CLUSTERS[cluster].hosts[0].name if cluster in CLUSTERS else ""
    hosts = cluster.get("hosts") if isinstance(cluster, Mapping) else None
    first = hosts[0] if isinstance(hosts, list) and hosts else None
    return str(first.get("name")) if isinstance(first, Mapping) else ""


def _scheduled(job: Scenario, free: Set[str], counts: Mapping[str, int], where: str) -> Scenario:
    """Scenario with places for the operators in `free`, in data-flow order: first for a subtask of each, in one slot if
    the engine has slots, then for the others of those in `counts`."""
    slots, hosts = job.engine.slots, job.cluster.hosts
    cores = {
        Location(host.name, each): host.socket_capacity(each) for host in hosts for each in range(host.socket_count)
    }
    order = [each.name for each in job.query.topological if each.name in free]
    chains = {name: chain for chain in job.plan.fused for name in chain}
    placement = {name: places for name, places in job.plan.placement.items() if name not in free}
    used = Counter(place for name in placement for place in job.plan.locations(name))
    for name in order:
        beside = next((placement[each][0] for each in chains.get(name, ()) if each in placement), None)
        place = next(iter(cores)) if slots else emptiest(cores, used, 1)
        placement[name] = (beside or str(place),)
        used[place] += beside is None
    # the engine chains operators that have as many subtasks by chance, which need not stay so
    engine = job.engine.model_copy(update={"chaining": False})
    grown = job.model_copy(update={"engine": engine, "plan": job.plan.model_copy(update={"placement": placement})})
    for name in filter(counts.__contains__, order):
        placement |= resized(grown, name, counts[name], where)
        grown = grown.model_copy(update={"plan": grown.plan.model_copy(update={"placement": placement})})
    for name, places in placement.items():
        if (name in counts or name not in free) and len(places) != job.plan.parallelism(name):
            has = f"{where}: {name} has {job.plan.parallelism(name)} subtasks"
            raise BadInput(f"{has}, and by a forward stream or a chain {len(places)}; give both ends the same")
    return job.with_plan(grown.plan)


# scenario files ------------------------------------------------------------------------------------------------------
# Reads scenario files, strict YAML, to `Scenario`; writes them; and makes the JSON Schema that editors use.


MAX_BYTES, MAX_SCENARIO_BYTES = 20_000_000, 2_000_000
"""Largest files that are read: a larger one was named by mistake. A job of 10,000 operators has 1.2 MB."""


def load(name_or_path: str) -> Scenario:
    """Reads the scenario of a library name, or in a YAML file. Paths of files in it are relative to its own folder.

    Raises BadInput if there is no such name or file, if it is not YAML (with the line), or if it does
    not describe a scenario (with line and path of every mistake).
    """
    path = registry.find(name_or_path)
    text = read_text(path, MAX_SCENARIO_BYTES)
    data = _with_paths(_as_mapping(parse_text(text, str(path)), str(path)), path.parent)
    return parse_placed(data, name_or_path, partial(line_of, text))


def parse_scenario(text: str, where: str) -> Scenario:
    """Scenario in a YAML text; `where` names the text in errors. Raises BadInput as `load` does."""
    return parse_placed(_as_mapping(parse_text(text, where), where), where, partial(line_of, text))


def dump(scenario: Scenario) -> str:
    """YAML text of a scenario, which loads back equal. Defaults are left out; short mappings stand on one line."""
    return to_text(_without_defaults(scenario, scenario.model_dump(mode="json")))


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a scenario file. A union's tag, such as `kind`, is required, as in the file."""
    schema = Scenario.model_json_schema()
    for definition in schema.get("$defs", {}).values():
        tags = [name for name, field in definition.get("properties", {}).items() if "const" in field]
        if tags:
            definition["required"] = sorted({*definition.get("required", []), *tags})
    for kind in BY_KIND.values():
        schema["$defs"][kind.__name__]["properties"][KEY] = SCHEMA
    engine = schema["properties"]["engine"]
    engine["anyOf"].append({"$ref": _add_changes(schema["$defs"])})
    schema["required"].remove("plan")  # the scheduler places operators
    schema["$defs"]["ExecutionPlan"]["required"].remove("placement")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _add_changes(definitions: dict[str, Any]) -> str:
    """Adds a profile with changes, which are parts of a profile of which nothing is required; returns its reference."""
    parts, ahead = dict[str, str](), ["EngineProfile"]
    while ahead:
        name = ahead.pop()
        parts[name] = json.dumps({**definitions[name], "required": []})
        ahead += [each for each in re.findall(r"#/\$defs/(\w+)", parts[name]) if each not in parts]
    for name, text in parts.items():
        definitions[f"Changed{name}"] = parse_json(re.sub(r"#/\$defs/(\w+)", r"#/$defs/Changed\1", text))
    changed = definitions["ChangedEngineProfile"]
    changed["properties"]["profile"] = {"enum": sorted(PROFILES), "description": "which is changed"}
    changed["required"] = ["profile"]
    return "#/$defs/ChangedEngineProfile"


def _with_paths(data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """`data` with absolute paths of the files that arrival laws replay; relative ones are from `folder`."""

    def named(law: object) -> object:
        path = law.get("path") if isinstance(law, Mapping) and law.get("law") == "replay" else None
        if isinstance(law, Mapping) and isinstance(path, str) and "\0" not in path:  # else reading it says why
            return {**law, "path": str((folder / path).resolve())}
        return law

    workload = data.get("workload")
    arrivals = workload.get("arrivals") if isinstance(workload, Mapping) else None
    if not isinstance(workload, Mapping) or not isinstance(arrivals, Mapping):
        return dict(data)
    laws = {name: named(law) for name, law in arrivals.items()}
    return {**data, "workload": {**workload, "arrivals": laws}}


def read_text(path: Path, most_bytes: int = MAX_BYTES) -> str:
    """Reads the text of a file, without the byte order mark that Excel puts first.

    Raises BadInput if it is missing, a folder, too large, unreadable, or not UTF-8.
    """
    try:
        if path.stat().st_size > most_bytes:
            raise BadInput(f"{path} has {path.stat().st_size:,} bytes, more than {most_bytes:,}; is it the right one?")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not a text file in UTF-8; is it the right one?") from None
    except IsADirectoryError:
        raise BadInput(f"{path} is a folder; name a file in it") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}; check the path") from None


def _as_mapping(data: object, where: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        found = "nothing" if data is None else f"a {type(data).__name__}"
        raise BadInput(f"{where}: a scenario file is a mapping of keys such as query and cluster, this holds {found}")
    if "estimates" in data and "query" not in data:
        raise BadInput(f"{where} is a calibrated profile; put it into a scenario: twin use-profile SCENARIO {where}")
    return data


def _without_defaults(spec: BaseModel, dumped: Mapping[str, Any]) -> dict[str, Any]:
    """`dumped` (the JSON form of `spec`) without fields at their default; a union's tag stays, whatever its value."""
    kept: dict[str, Any] = {}
    for name, field in type(spec).model_fields.items():
        value = getattr(spec, name)
        if name in tags(type(spec)) or field.is_required() or value != field.get_default(call_default_factory=True):
            kept[name] = _compact(value, dumped[name])
    return _in_reading_order(kept)


def _compact(value: Any, dumped: Any) -> Any:
    if isinstance(value, Cluster) and (name := cluster_name(value)):
        return name
    if isinstance(value, EngineProfile) and isinstance(dumped, Mapping) and (changes := changes_of(value)) is not None:
        return {"profile": value.name, **_compact(changes, TypeAdapter(Any).dump_python(changes, mode="json"))}
    if isinstance(value, BaseModel) and isinstance(dumped, Mapping):
        return _without_defaults(value, dumped)
    if isinstance(value, tuple | list) and isinstance(dumped, list):
        return [_compact(each, plain) for each, plain in zip(value, dumped, strict=True)]
    if isinstance(value, Mapping) and isinstance(dumped, Mapping):
        return {key: _compact(value[key], plain) for key, plain in dumped.items()}
    if isinstance(dumped, float) and dumped.is_integer() and abs(dumped) < 1e15:
        return int(dumped)
    return dumped


def _in_reading_order(kept: dict[str, Any]) -> dict[str, Any]:
    first = [key for key in ("name", "kind", "policy", "law", "description") if key in kept]
    return {key: kept[key] for key in [*first, *(key for key in kept if key not in first)]}
