"""Replaces or reads one value of a spec by its path, as `--set` and `Scenario.with_set` do.

Items of lists are addressed by name: `query.operators.parse.selectivity`, `cluster.hosts.edge-1.ram_mb`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from twin.errors import BadInput, suggest
from twin.retired import told_retired
from twin.spec import Spec, parse

S = TypeVar("S", bound=Spec)
Node = dict[str, Any] | list[Any]


def put(spec: S, path: str, value: Any, flag: str) -> S:
    """Returns the spec with `value`, as JSON would hold it, at `path`; the result is checked as a whole.

    flag: the option that this came from, for errors. Raises BadInput if the path leads nowhere (with the nearest key),
    or if the result is not valid.
    """
    return _all_put(spec, [(path, value)], flag)


def put_all(spec: S, values: Sequence[tuple[str, Any]], flag: str) -> S:
    """Returns the spec with all values at their paths, put there one after the other. Raises BadInput as `put` does.

    Only the last result needs to be valid: a cluster with other hosts also needs a plan for them.
    """
    changed = spec
    for index, (path, value) in enumerate(values):
        try:
            changed = put(changed, path, value, flag)
        except BadInput as alone:
            if len(values) < 2:
                raise
            try:
                return _all_put(spec, values, flag)
            except BadPath as error:  # if this value's path is at fault, the first error names the spec's own keys
                raise (alone if error.path == values[index][0] else error) from None
    return changed


def value_at(spec: Spec, path: str, flag: str) -> Any:
    """Value at `path`, as JSON would hold it; None if not given. Raises BadInput if the path leads nowhere."""
    parent, key = _resolve(_opened(spec, [path]), path, flag)
    return parent[key]  # type: ignore[index]


class BadPath(BadInput):
    """Mistake: a path that leads nowhere."""

    def __init__(self, words: str, path: str) -> None:
        super().__init__(words)
        self.path = path


def _all_put(spec: S, values: Sequence[tuple[str, Any]], flag: str) -> S:
    """Puts all values in before the result is checked. Retired settings are left out with a warning."""
    meant = [(path, value) for path, value in values if not _retired(path)]
    data = _opened(spec, [path for path, _ in meant])
    for path, value in meant:
        parent, key = _resolve(data, path, flag)
        parent[key] = value  # type: ignore[index]
    return parse(type(spec), data, where=flag) if meant else spec


def _retired(path: str) -> bool:
    return path.startswith("run.") and told_retired([path.removeprefix("run.")])


def _opened(spec: Spec, paths: Iterable[str]) -> dict[str, Any]:
    """Spec as plain data. A part that is given by a name, such as a profile, is written out if a path needs it."""
    data = spec.model_dump(mode="json")
    for name in {path.partition(".")[0] for path in paths if "." in path}:
        value = getattr(spec, name, None)
        if isinstance(value, Spec) and isinstance(data.get(name), str):
            data[name] = value.model_dump(mode="json")
    _show(spec, data)
    return data


def _show(spec: Any, data: Any) -> None:
    """Adds the fields that are left out while they have their default, as they can be set as well."""
    if isinstance(spec, Spec) and isinstance(data, dict):
        for name in type(spec).model_fields:
            value = getattr(spec, name)
            if name in data:
                _show(value, data[name])
            else:
                data[name] = list(value) if isinstance(value, tuple) else value
    elif isinstance(spec, tuple) and isinstance(data, list):
        for item, part in zip(spec, data, strict=True):
            _show(item, part)


def _resolve(data: Node, path: str, flag: str) -> tuple[Node, str | int]:
    """Container, and the key in it, to which `path` leads."""
    node: Any = data
    rest, walked, where = path, "", f"{flag} {path}"
    while True:
        if not isinstance(node, dict | list):
            inside = f"{walked} is {node!r}" if node is not None else f"{walked} is not given"
            raise BadPath(f"{where}: {inside} and has no parts; set {walked} as a whole", path)
        step = _step(node, rest)
        if step is None:
            word, known = rest.partition(".")[0], list(_keys(node))
            hint = _placed(word, walked) or suggest(word, known)
            raise BadPath(f"{where}: no {word!r} in {walked or 'the scenario'}; {hint}", path)
        key, label, rest = step
        if not rest:
            return node, key
        walked = f"{walked}.{label}" if walked else label
        node = node[key]


def _placed(word: str, walked: str) -> str:
    """Where the number of subtasks stands that somebody looks for in an operator, as files have it there; else ''."""
    _, operators, name = walked.partition("query.operators.")
    return f"it follows from plan.placement.{name}: a list of hosts, or HOST: NUMBER" * (
        bool(operators) and word in ("parallelism", "replicas", "subtasks")
    )


def _step(node: Node, rest: str) -> tuple[Any, str, str] | None:
    """Longest key of `node` with which `rest` begins (names may hold dots): the key, its label, and the rest of the
    path."""
    keys = _keys(node)
    for label in sorted(keys, key=len, reverse=True):
        if rest == label or rest.startswith(f"{label}."):
            return keys[label], label, rest[len(label) + 1 :]
    return None


def _keys(node: Node) -> dict[str, Any]:
    if isinstance(node, dict):
        return {str(key): key for key in node}
    return {_label(item, index): index for index, item in enumerate(node)}


def _label(item: Any, index: int) -> str:
    """Label of a list's item in paths: its name, producer->consumer for a stream, and its number for anything else."""
    if isinstance(item, dict) and "name" in item:
        return str(item["name"])
    if isinstance(item, dict) and "producer" in item:
        return f"{item['producer']}->{item['consumer']}"
    return str(index)
