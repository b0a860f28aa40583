"""YAML in the form of scenario files: strict to read, compact to write.

Differences from YAML 1.1 as PyYAML reads it: a key given twice is an error; `on`, `yes` and dates are plain text (so
an operator may be called `on`); `1e6` is a number. What `to_text` writes, `parse_text` reads back as the same data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from twin.errors import BadInput
from twin.files import DEEPEST, TOO_DEEP
from twin.work import collector_paused

FLOW_WIDTH = 110
"""Number of characters of a line, into which a mapping of scalars must fit to be written on one."""

MOST_COPIED = 100_000
"""Most keys that `<<` may copy: copies of copies of copies could fill the memory from a few lines."""

RETOLD = 200_000
"""Most characters of a text that is no YAML for it to be read again, more slowly, for a better message."""

_MERGE = "tag:yaml.org,2002:merge"
_FLOAT = re.compile(r"^[-+]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][-+]?\d+)?$|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$")
_INT = re.compile(r"^[-+]?\d+$")
_BOOL = re.compile(r"^(true|True|TRUE|false|False|FALSE)$")
_NULL = re.compile(r"^(~|null|Null|NULL|)$")

_RESOLVERS = (
    ("tag:yaml.org,2002:bool", _BOOL, "tTfF"),
    ("tag:yaml.org,2002:int", _INT, "-+0123456789"),
    ("tag:yaml.org,2002:float", _FLOAT, "-+0123456789."),
    ("tag:yaml.org,2002:null", _NULL, ["~", "n", "N", ""]),
    (_MERGE, re.compile(r"^<<$"), "<"),
)


class _Strict:
    """Mixin for both loaders, which refuses repeated keys, keys that are no plain words, and too many copies."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)  # type: ignore[call-arg]
        self._checked: set[yaml.MappingNode] = set()
        self._copied = 0

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Checks the keys that a mapping has itself, then copies those that `<<` names into it."""
        if node not in self._checked:
            self._checked.add(node)
            self._check_keys(node)
        own = len(node.value)
        super().flatten_mapping(node)  # type: ignore[misc]
        self._copied += len(node.value) - own
        if self._copied > MOST_COPIED:
            message = f"'<<' copies more than {MOST_COPIED} keys; copy less"
            raise yaml.constructor.ConstructorError(None, None, message, node.start_mark)

    def _check_keys(self, node: yaml.MappingNode) -> None:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)  # type: ignore[attr-defined]
            if not isinstance(key, str | int | float | bool):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a plain word", key_node.start_mark)
            if key in seen:
                message = f"key {str(key)!r} is given twice; remove one"
                raise yaml.constructor.ConstructorError(None, None, message, key_node.start_mark)
            seen.add(key)


class _Plain(_Strict, yaml.SafeLoader):
    """Slow loader, whose messages tell best what is wrong with a text."""


class _Loader(_Strict, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Fast loader: seven times as fast if PyYAML was built with libyaml."""


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, indentless=False)


for _class in (_Plain, _Loader, _Dumper):
    _class.yaml_implicit_resolvers = {}  # PyYAML's must not apply
    for _tag, _pattern, _first in _RESOLVERS:
        _class.add_implicit_resolver(_tag, _pattern, list(_first))


def _plain_int(loader: Any, node: yaml.ScalarNode) -> int:
    return int(loader.construct_scalar(node))


def _plain_text(loader: Any, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


for _class in (_Plain, _Loader):
    _class.add_constructor(_MERGE, _plain_text)  # `<<` is a word where it is no key
    _class.add_constructor("tag:yaml.org,2002:int", _plain_int)  # 010 is ten, 1:30 is text


def _represent_mapping(dumper: _Dumper, data: Mapping[Any, Any]) -> yaml.Node:
    node = dumper.represent_mapping("tag:yaml.org,2002:map", data.items())
    nested = "name" in data  # an operator or a host reads best on one line, together with its window and columns
    fits = all(isinstance(value, yaml.ScalarNode) or (nested and value.flow_style) for _, value in node.value)
    width = sum(len(_flat(key)) + len(_flat(value)) + 4 for key, value in node.value)
    node.flow_style = fits and width <= FLOW_WIDTH
    return node


def _represent_list(dumper: _Dumper, data: Any) -> yaml.Node:
    node = dumper.represent_sequence("tag:yaml.org,2002:seq", data)
    node.flow_style = all(isinstance(each, yaml.ScalarNode) for each in node.value) and len(_flat(node)) <= FLOW_WIDTH
    return node


def _represent_text(dumper: _Dumper, data: str) -> yaml.Node:
    style = ">" if len(data) > FLOW_WIDTH and _folds(data) else None
    if not data.isprintable() and set(data) - {"\n"}:
        style = '"'  # with escapes: YAML folds NEL and friends into spaces elsewhere
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)


def _folds(text: str) -> bool:
    """Whether folding over lines loses nothing: single spaces only, no line breaks, nothing that needs quotes."""
    return text.isprintable() and text == " ".join(text.split())


def _flat(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    parts = [_flat(part) for each in node.value for part in (each if isinstance(each, tuple) else (each,))]
    return "  ".join(parts)


_Dumper.add_representer(dict, _represent_mapping)
_Dumper.add_representer(list, _represent_list)
_Dumper.add_representer(tuple, _represent_list)
_Dumper.add_representer(str, _represent_text)


def parse_text(text: str, where: str) -> object:
    """Data in a YAML text.

    Raises BadInput with `where` and the line number if it is not YAML, repeats a key, nests more than DEEPEST deep, or
    holds an alias within what it stands for.
    """
    try:
        return _loaded(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" line {mark.line + 1}, column {mark.column + 1}:" if mark else ""
        raise BadInput(f"{where}:{line} {error.problem or 'not valid YAML'}{_hint(error)}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise BadInput(f"{where}: not readable as YAML: {str(error).splitlines()[0]}") from None


class _NestingError(yaml.MarkedYAMLError):
    """Raised for a text that is nested without end, or deeper than anybody writes."""


def _require_shallow(text: str) -> None:
    """Raises _NestingError for a text that nests too deep, counted before nodes are made of it: libyaml makes them
    recursively. An alias counts as what it stands for."""
    open_, heights = list[list[Any]](), dict[str, int]()  # of each collection that is open: its anchor and height
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            open_.append([event.anchor, 1])
            height = 0
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, height = open_.pop()
            if anchor is not None:
                heights[anchor] = height
        elif isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in open_):
                message = f"*{event.anchor} stands within what it names, so that it would never end; write it out"
                raise _NestingError(None, None, message, event.start_mark)  # type: ignore[arg-type]
            height = heights.get(str(event.anchor), 0)
        else:
            continue
        if len(open_) + height > DEEPEST:
            raise _NestingError(None, None, TOO_DEEP, event.start_mark)  # type: ignore[arg-type]
        if open_:
            open_[-1][1] = max(open_[-1][1], height + 1)


def _loaded(text: str) -> object:
    with collector_paused():
        try:
            _require_shallow(text)
            return yaml.load(text, Loader=_Loader)
        except yaml.YAMLError as error:
            if len(text) > RETOLD or isinstance(error, _NestingError):
                raise
            return yaml.load(text, Loader=_Plain)


def line_of(text: str, path: Sequence[int | str]) -> int | None:
    """Line, from 1, of the node at a path of keys and numbers, or of its nearest ancestor in the text; None if the text
    cannot be read."""
    try:
        with collector_paused():
            _require_shallow(text)
            node = yaml.compose(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError):
        return None
    line = None if node is None else node.start_mark.line + 1
    for part in path:
        if isinstance(node, yaml.MappingNode):
            pair = next(((key, value) for key, value in node.value if key.value == str(part)), None)
            if pair is None:
                break
            line, node = pair[0].start_mark.line + 1, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line


def _hint(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or ""
    if isinstance(error, _NestingError):
        return ""
    if "twice" in problem or "plain word" in problem or "copy less" in problem:
        return ""
    if "for the tag" in problem or "base64" in problem:
        return "; leave the tag out (the word that begins with '!')"
    if "undefined alias" in problem:
        return "; define it with '&' before, or put the text in quotes"
    if "'\\t'" in problem:
        return "; indent with spaces, not tabs"
    if "another document" in problem:
        return "; a file holds one, so leave out what follows '---'"
    return "; check the indentation, colons and brackets there"


def to_text(data: Mapping[str, Any]) -> str:
    """Block YAML of `data`, with short mappings of scalars on one line and keys in the order given."""
    return yaml.dump(
        data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=FLOW_WIDTH + 10, default_flow_style=False
    )
