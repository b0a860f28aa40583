"""Puts what a configuration of Flink sets into a scenario, and lists what is not the same here.

A configuration is YAML, flat or nested (`config.yaml`), or lines `key: value` (`flink-conf.yaml`), or the resource of a
Kubernetes operator that holds one (`spec.flinkConfiguration`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scenarios.files.documents import CLOSED
from scenarios.files.yaml_text import parse_text
from twin.errors import BadInput
from twin.flink_settings import FREE, as_text, configured, joined, setting_of
from twin.scenario import Scenario, put_all

_FLAT = re.compile(r"([A-Za-z$][\w.$-]*):(?:[ \t]+(.*))?")
"""Line of a configuration as Flink reads flink-conf.yaml: whatever follows the colon is text."""
_QUOTED = re.compile(r"""(['"])(.*)\1""")


@CLOSED
@dataclass(frozen=True, slots=True)
class ImportedConfiguration:
    """The answer of `twin import flink-config`. values: what was set, by path in the scenario. notes: a line for
    each key, on what it set or on what to do about it; those of which nothing is simulated are in one line."""

    scenario: Scenario
    values: Mapping[str, Any]
    notes: tuple[str, ...]


def with_settings(scenario: Scenario, settings: Mapping[str, str], where: str) -> ImportedConfiguration:
    """Scenario with what means the same here as in these settings of Flink, by key.

    Raises BadInput, naming the key, for a value that cannot be read, if the scenario's engine has no network buffers,
    or if the scenario cannot be so.
    """
    found = configured(settings)
    values, others = dict(found.values), dict(found.others)
    if scenario.checkpoints is None and "checkpoints.interval_s" not in values:
        for path in [each for each in values if each.startswith("checkpoints.")]:
            del values[path]
            others[found.keys[path]] = "without execution.checkpointing.interval there are no checkpoints"
    of_engine = next((found.keys[path] for path in values if path.startswith("engine.")), None)
    if of_engine is not None and scenario.engine.network_memory is None:
        raise BadInput(
            f"{where}: {of_engine} is of Flink, and the engine of {scenario.name} is {scenario.engine.name}, without "
            "network buffers; add --set engine=flink"
        )
    changed = put_all(scenario, [*joined(values).items()], where) if values else scenario
    free = [key for key, said in others.items() if said == FREE]
    notes = (
        *(f"{key}: {settings[key]} is {path}={values[path]}" for path, key in found.keys.items() if path in values),
        *(f"not set: {key}: {said}" for key, said in others.items() if said != FREE),
        *([f"not simulated: {', '.join(free)}"] if free else []),
    )
    return ImportedConfiguration(changed, joined(values), notes)


def settings_in(text: str, where: str) -> dict[str, str]:
    """Settings in the text of a configuration, by key, as text. Raises BadInput if it is neither lines of keys and
    values nor YAML, or holds none."""
    lines = [line for line in (_uncommented(each) for each in text.splitlines()) if line]
    flat = [_FLAT.fullmatch(line) for line in lines]
    if lines and all(flat) and not any(_opens(line) for line in lines):
        found = {each[1]: _unquoted(each[2] or "") for each in flat if each is not None}
    else:
        data = parse_text(text, where)
        data = data if isinstance(data, Mapping) else {}
        spec = data.get("spec")
        inner = spec.get("flinkConfiguration") if isinstance(spec, Mapping) else None
        found = dict(_leaves(inner if isinstance(inner, Mapping) else data, ""))
    if not found:
        raise BadInput(
            f"{where} holds no settings of Flink; give its config.yaml or flink-conf.yaml, with lines such as "
            "'execution.checkpointing.interval: 10 s'"
        )
    others = [key for key in found if setting_of(key) is None]
    if 2 * len(others) > len(found):
        raise BadInput(f"{where}: {others[0]} is no key of Flink's configuration; is it the right file?")
    return found


def _uncommented(line: str) -> str:
    """Line without a comment at its end; its indentation stays."""
    return re.sub(r"(^|\s)#.*", "", line).rstrip()


def _opens(line: str) -> bool:
    """Whether a line opens a mapping or a list of YAML."""
    return line.endswith(":") or line.rpartition(": ")[2].startswith(("[", "{", "&", "*", "|", ">"))


def _unquoted(text: str) -> str:
    found = _QUOTED.fullmatch(text.strip())
    return found[2] if found else text.strip()


def _leaves(node: Any, path: str) -> Iterator[tuple[str, str]]:
    """Values by their keys, which are joined by dots where they are nested."""
    if isinstance(node, Mapping):
        for key, each in node.items():
            yield from _leaves(each, f"{path}.{key}" if path else str(key))
    elif isinstance(node, list | tuple):
        yield path, ";".join(map(as_text, node))
    elif node is not None:
        yield path, as_text(node)
