"""Reads scenario files, strict YAML, to `Scenario`; writes them; and makes the JSON Schema that editors use."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import optimizers.policies  # noqa: F401  # so that a file can name one
from scenarios.files import registry
from scenarios.files.parallelism import KEY, SCHEMA, parse_placed
from scenarios.files.yaml_text import line_of, parse_text, to_text
from twin.cluster import Cluster
from twin.errors import BadInput
from twin.kinds.registry import BY_KIND
from twin.numa import cluster_name
from twin.scenario import Scenario
from twin.spec import tags

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
    schema["required"].remove("plan")  # which operators that say their parallelism need not have
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


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
