"""`--set PATH=VALUE`: one value of a scenario replaced, the result checked as a whole.

Operators and hosts are addressed by name: `query.operators.parse.selectivity=0.5`, `cluster.hosts.edge-1.ram_mb=500`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from scenarios.files.yaml_text import parse_text
from twin.errors import BadInput, suggest
from twin.retired import told_retired
from twin.scenario import Scenario
from twin.spec import Spec, parse

Node = dict[str, Any] | list[Any]


def set_value(scenario: Scenario, assignment: str, flag: str = "--set") -> Scenario:
    """The scenario with one value replaced, as `path.to.key=value` says; the value is read as YAML.

    flag: the option that this came from, for errors.

    Raises BadInput if the path leads nowhere (with the nearest key), or if the result is not a valid scenario.
    """
    path, equals, text = assignment.partition("=")
    path = path.strip()
    if not equals or not path:
        raise BadInput(f"{flag} {assignment}: write PATH=VALUE, such as run.horizon_s=60")
    if _retired(path):
        return scenario
    where = f"{flag} {path}"
    return put(scenario, path, parse_text(text, where), flag)


def put(scenario: Scenario, path: str, value: Any, flag: str = "--set") -> Scenario:
    """The scenario with `value`, as JSON would hold it, at `path`. Raises BadInput as `set_value` does."""
    data = _opened(scenario, path)
    parent, key = _resolve(data, path, f"{flag} {path}")
    parent[key] = value  # type: ignore[index]
    return parse(Scenario, data, where=flag)


def _retired(path: str) -> bool:
    """Whether a path leads to a setting that no longer means anything, which is told."""
    return path.startswith("run.") and told_retired([path.removeprefix("run.")])


def value_at(scenario: Scenario, path: str, flag: str = "--set") -> Any:
    """What stands at `path` now, as JSON would hold it; None if nothing does. Raises BadInput if it leads nowhere."""
    parent, key = _resolve(_opened(scenario, path), path, f"{flag} {path}")
    return parent[key]  # type: ignore[index]


def _opened(scenario: Scenario, *paths: str) -> dict[str, Any]:
    """As plain data; a profile known by name is written as its name, so it is opened if a path leads into it."""
    data = scenario.model_dump(mode="json")
    if any(path.startswith("engine.") for path in paths):
        data["engine"] = scenario.engine.model_dump(mode="json")
    _show(scenario, data)
    return data


def _show(spec: Any, data: Any) -> None:
    """Puts in what is left out where it is as usual: it can be set as well."""
    if isinstance(spec, Spec) and isinstance(data, dict):
        for name in type(spec).model_fields:
            value = getattr(spec, name)
            if name in data:
                _show(value, data[name])
            else:
                data[name] = list(value) if isinstance(value, tuple) else value
    elif isinstance(spec, tuple) and isinstance(data, list):
        for each, part in zip(spec, data, strict=True):
            _show(each, part)


def set_values(scenario: Scenario, assignments: Iterable[str]) -> Scenario:
    """All assignments, applied in order. Raises BadInput as `set_value` does.

    What stands between two of them need not be valid: a cluster with other hosts takes a plan for these.
    """
    given = [each for each in assignments if not _retired(each.partition("=")[0].strip())]
    found = scenario
    for index, assignment in enumerate(given):
        try:
            found = set_value(found, assignment)
        except BadInput as alone:
            if len(given) < 2:
                raise
            return _together(scenario, given, index, alone)
    return found


def _together(scenario: Scenario, assignments: Sequence[str], stopped: int, alone: BadInput) -> Scenario:
    """All put in before any is judged. alone: what is wrong with assignment number `stopped` after those before it."""
    data = _opened(scenario, *(each.partition("=")[0].strip() for each in assignments))
    for index, assignment in enumerate(assignments):
        path, _, text = assignment.partition("=")
        where = f"--set {path.strip()}"
        try:
            parent, key = _resolve(data, path.strip(), where)
            parent[key] = parse_text(text, where)  # type: ignore[index]
        except BadInput:
            if index == stopped:  # there was more to go by
                raise alone from None
            raise
    return parse(Scenario, data, where="--set")


def _resolve(data: Node, path: str, where: str) -> tuple[Node, str | int]:
    """The container and the key in it that `path` names."""
    node: Any = data
    rest, walked = path, ""
    while True:
        if not isinstance(node, dict | list):
            inside = f"{walked} is {node!r}" if node is not None else f"{walked} is not given"
            raise BadInput(f"{where}: {inside} and has no parts; set {walked} as a whole")
        key, label, rest = _step(node, rest, where, walked)
        if not rest:
            return node, key
        walked = f"{walked}.{label}" if walked else label
        node = node[key]


def _step(node: Node, rest: str, where: str, walked: str) -> tuple[Any, str, str]:
    """The longest key of `node` that begins `rest` (names may hold dots): its index, its label, what remains."""
    keys = _keys(node)
    for label in sorted(keys, key=len, reverse=True):
        if rest == label or rest.startswith(f"{label}."):
            return keys[label], label, rest[len(label) + 1 :]
    word = rest.partition(".")[0]
    known = list(keys)
    raise BadInput(f"{where}: no {word!r} in {walked or 'the scenario'}; {suggest(word, known)}")


def _keys(node: Node) -> dict[str, Any]:
    if isinstance(node, dict):
        return {str(key): key for key in node}
    return {_label(each, index): index for index, each in enumerate(node)}


def _label(item: Any, index: int) -> str:
    """An item's name; streams have none and are addressed as producer->consumer; anything else by its number."""
    if isinstance(item, dict) and "name" in item:
        return str(item["name"])
    if isinstance(item, dict) and "producer" in item:
        return f"{item['producer']}->{item['consumer']}"
    return str(index)
