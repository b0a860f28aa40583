"""The Graphviz dialect of published run graphs, as plain data: nodes, edges, and lists of records inside attributes.

    graph {
        "a" ["key"="text","count"=3,"instances"="[{host=h1, outputRate=1.5}, {host=h2, outputRate=1.4}]"];
        "a" -- "b" ["occurences"=2];
    }

Edges have the direction in which they are written, although `--` has none in Graphviz.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from twin.errors import BadInput

_TOKEN = re.compile(r'"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<mark>--|->|[\[\]{}=,;])|(?P<word>[^\s"\[\]{}=,;]+)', re.DOTALL)
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True, slots=True)
class Edge:
    """From `start` to `end`, as written."""

    start: str
    end: str
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Graph:
    """Attributes by node, in the order of the text, and the edges."""

    nodes: Mapping[str, Mapping[str, str]]
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # "name" (quoted or not), "mark", "end"
    text: str
    line: int


def parse_graph(text: str, where: str) -> Graph:
    """The graph in `text`; `where` names the text in errors. Raises BadInput, with the line, where it is not one."""
    return _Parser(_tokens(text, where), where).graph()


def parse_records(text: str, where: str) -> tuple[dict[str, str], ...]:
    """`[{key=value, key=value}, {...}]` as dictionaries. Raises BadInput where it is something else."""
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


def _tokens(text: str, where: str) -> Iterator[_Token]:
    at, line = 0, 1
    while True:
        space = _SPACE.match(text, at)
        assert space is not None  # it may be empty
        line += space.group().count("\n")
        at = space.end()
        if at == len(text):
            yield _Token("end", "the end of the file", line)
            return
        match = _TOKEN.match(text, at)
        if match is None:
            raise BadInput(f"{where}: line {line}: a quote is opened and never closed; is the file cut off?")
        if match["mark"]:
            yield _Token("mark", match["mark"], line)
        else:
            quoted = match["quoted"]
            yield _Token("name", match["word"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted), line)
        line += match.group().count("\n")
        at = match.end()


@dataclass(slots=True)
class _Parser:
    """One token of look-ahead, one method a rule of the grammar."""

    tokens: Iterator[_Token]
    where: str
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    next: _Token = _Token("end", "", 0)

    def graph(self) -> Graph:
        """graph := 'graph' [name] '{' statement* '}'"""
        self._advance()
        if self.next.text != "graph":
            raise self._error("a run graph begins with 'graph {'")
        self._advance()
        if self.next.kind == "name":
            self._advance()
        self._mark("{")
        while not self._at("}"):
            self._statement()
        self._mark("}")
        if self.next.kind != "end":
            raise self._error("nothing may follow the closing brace")
        return Graph(self.nodes, tuple(self.edges))

    def _statement(self) -> None:
        """statement := name ['--' name] ['[' attributes ']'] [';']"""
        start = self._name()
        if self._at("--"):
            self._advance()
            end = self._name()
            self.edges.append(Edge(start, end, self._attributes()))
        else:
            if start in self.nodes:
                raise self._error(f"node {start!r} is described twice")
            self.nodes[start] = self._attributes()
        if self._at(";"):
            self._advance()

    def _attributes(self) -> dict[str, str]:
        """attributes := (name '=' name [','])*"""
        found: dict[str, str] = {}
        if not self._at("["):
            return found
        self._advance()
        while not self._at("]"):
            key = self._name()
            self._mark("=")
            found[key] = self._name()
            if self._at(","):
                self._advance()
        self._advance()
        return found

    def _at(self, mark: str) -> bool:
        return self.next == _Token("mark", mark, self.next.line)

    def _mark(self, mark: str) -> None:
        if not self._at(mark):
            raise self._error(f"expected {mark!r}")
        self._advance()

    def _name(self) -> str:
        if self.next.kind != "name":
            raise self._error("expected a name")
        text = self.next.text
        self._advance()
        return text

    def _advance(self) -> None:
        if self.next.kind != "end" or self.next.line == 0:
            self.next = next(self.tokens)

    def _error(self, expected: str) -> BadInput:
        return BadInput(f"{self.where}: line {self.next.line}: {expected}, got {self.next.text[:40]!r}")
