"""Reads the Graphviz dialect of published run graphs: nodes, edges, and lists of records inside attributes.

    graph {
        "a" ["key"="text","count"=3,"instances"="[{host=h1, outputRate=1.5}, {host=h2, outputRate=1.4}]"];
        "a" -- "b" ["occurences"=2];
    }

Edges have the direction in which they are written, although `--` has none in Graphviz.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from twin.errors import BadInput

_TOKEN = re.compile(
    r'"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<mark>--|->|[\[\]{}=,;])|(?P<word>[^\s"\[\]{}=,;]+)|(?P<end>\Z)', re.DOTALL
)
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """Edge from `start` to `end`, by their names in the text."""

    start: str
    end: str
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Graph:
    """Graph: attributes by node, in the order of the text, and edges."""

    nodes: Mapping[str, Mapping[str, str]]
    edges: tuple[GraphEdge, ...]


def parse_graph(text: str, where: str) -> Graph:
    """Graph in a text; `where` names the text in errors. Raises BadInput, with the line, if it is no graph."""
    reader = _TokenReader(text, where)
    if reader.text != "graph":
        raise reader.error("a run graph begins with 'graph {'")
    reader.step()
    if reader.is_name:
        reader.step()
    reader.mark("{")
    nodes: dict[str, Mapping[str, str]] = {}
    edges: list[GraphEdge] = []
    while not reader.passed("}"):
        start = reader.name()
        if reader.passed("--"):
            edges.append(GraphEdge(start, reader.name(), _attributes(reader)))
        elif start in nodes:
            raise reader.error(f"node {start!r} is described twice")
        else:
            nodes[start] = _attributes(reader)
        reader.passed(";")
    if not reader.is_end:
        raise reader.error("nothing may follow the closing brace")
    return Graph(nodes, tuple(edges))


def _attributes(reader: _TokenReader) -> dict[str, str]:
    """Reads attributes, if there are any: ['[' (name '=' name [','])* ']']."""
    attributes: dict[str, str] = {}
    if reader.passed("["):
        while not reader.passed("]"):
            key = reader.name()
            reader.mark("=")
            attributes[key] = reader.name()
            reader.passed(",")
    return attributes


def parse_records(text: str, where: str) -> tuple[dict[str, str], ...]:
    """Dictionaries in `[{key=value, key=value}, {...}]`. Raises BadInput for anything else."""
    body = text.strip()
    if not (body.startswith("[") and body.endswith("]")):
        raise BadInput(f"{where}: expected a list of records '[{{key=value, ...}}, ...]', got {body[:40]!r}")
    inside = body[1:-1].strip()
    if not inside:
        return ()
    if not (inside.startswith("{") and inside.endswith("}")):
        raise BadInput(f"{where}: expected records in braces, got {inside[:40]!r}")
    return tuple(_record(each, where) for each in re.split(r"\}\s*,\s*\{", inside[1:-1]))


def _record(text: str, where: str) -> dict[str, str]:
    record: dict[str, str] = {}
    for pair in text.split(","):
        key, equals, value = pair.partition("=")
        if not equals or not key.strip() or "{" in pair or "}" in pair:
            raise BadInput(f"{where}: expected 'key=value', got {pair.strip()[:40]!r}")
        record[key.strip()] = value.strip()
    return record


class _TokenReader:
    """Reads a text token by token. text: of the next token, which is a name (quoted or not), a mark, or the end."""

    def __init__(self, content: str, where: str) -> None:
        self._content, self._where, self._end = content, where, 0
        self.step()

    def step(self) -> None:
        """Steps to the next token."""
        self._start = _SPACE.match(self._content, self._end).end()  # type: ignore[union-attr]  # it matches anywhere
        token = _TOKEN.match(self._content, self._start)
        if token is None:
            raise BadInput(f"{self._place}: a quote is opened and never closed; is the file cut off?")
        self._end, quoted = token.end(), token["quoted"]
        self.is_end, self.is_name = token["end"] is not None, token["word"] is not None or quoted is not None
        plain = token.group() if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        self.text = "the end of the file" if self.is_end else plain

    def passed(self, mark: str) -> bool:
        """Steps over a mark, and returns true, if it is the next token."""
        found = not self.is_name and self.text == mark
        if found:
            self.step()
        return found

    def mark(self, mark: str) -> None:
        """Steps over a mark. Raises BadInput if it is not the next token."""
        if not self.passed(mark):
            raise self.error(f"expected {mark!r}")

    def name(self) -> str:
        """Steps over a name, and returns it. Raises BadInput if the next token is none."""
        if not self.is_name:
            raise self.error("expected a name")
        text = self.text
        self.step()
        return text

    @property
    def _place(self) -> str:
        return f"{self._where}: line {1 + self._content.count(chr(10), 0, self._start)}"

    def error(self, expected: str) -> BadInput:
        """Error that names the expected and the next token, with the line."""
        return BadInput(f"{self._place}: {expected}, got {self.text[:40]!r}")
