"""Conditions on a run, such as `not backpressured and e2e_latency_s.p99 < 500ms`.

Python's grammar is reduced to: and, or, not, brackets; < <= > >=; + - * /; numbers, with units as in
`twin.quantities`; and the names of `scenarios.questions.measures`, such as `hosts.edge-1.cpu`. Nothing is executed.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from scenarios.questions.measures import FLAGS, Measures, full_name, names, of
from twin.errors import BadInput
from twin.quantities import NUMBER, SECONDS, UNIT, number, unit_of_time
from twin.scenario import Scenario

LONGEST = 1000
"""Most characters of a condition."""
SHOWN = 100
"""Most characters of a condition in a message."""
EXAMPLE = "not backpressured and e2e_latency_s.p99 < 500ms"

_COMPARE: dict[type, Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ARITHMETIC: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: a / b if b else float("nan"),
}
Test = Callable[[Measures], bool]
Number = Callable[[Measures], float]
_QUANTITY = re.compile(rf"'[^']*'|\"[^\"]*\"|(?<![\w.]){NUMBER}{UNIT}(?!\w)")
"""Number with a unit, or name in quotes; names are matched first, so that nothing in them counts as a number."""
_MARK = "quantity"


class Term(NamedTuple):
    """Part of a condition. text: as it was written. metrics: the full names of the metrics in it."""

    text: str
    test: Test
    metrics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Condition:
    """Condition on a run. text: as it was written. terms: the parts that must all hold."""

    text: str
    terms: tuple[Term, ...]

    @property
    def metrics(self) -> frozenset[str]:
        """Full names of all metrics in the condition."""
        return frozenset().union(*(term.metrics for term in self.terms))

    def holds(self, found: Measures) -> bool:
        """Whether the condition holds in one run."""
        return not self.failing(found)

    def failing(self, found: Measures) -> list[str]:
        """Texts of the terms that do not hold in one run."""
        return [term.text for term in self.terms if not term.test(found)]


def condition(text: str, scenario: Scenario, flag: str = "--while") -> Condition:
    """Condition in a text. Raises BadInput, with the remedy, if the text is no condition on a run of the scenario."""
    if len(text) > LONGEST:
        raise BadInput(f"{flag}: {len(text):,} characters, more than {LONGEST:,}; make it shorter")
    try:
        quantities: list[str] = []
        source = _marked(_bracketed(text.strip(), scenario), quantities)
        body = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise BadInput(f"{flag} {text!r} is no condition; write it as in {EXAMPLE!r}{_slip(text)}") from None
    reader = _Reader(source, scenario, flag, tuple(quantities))
    both = isinstance(body, ast.BoolOp) and isinstance(body.op, ast.And)
    terms = body.values if isinstance(body, ast.BoolOp) and both else [body]
    return Condition(text, tuple(Term(reader.text(node), reader.test(node), reader.metrics(node)) for node in terms))


def _slip(text: str) -> str:
    """Hint for a text in the syntax of another language, such as `&&`; else empty."""
    slips = {"&&": "and", "||": "or", "!": "not", "=": "< or >", "%": "a share such as 80%"}
    found = [
        f"{each} is written {word}" for each, word in slips.items() if each in text.replace("<=", "").replace(">=", "")
    ]
    return f" ({found[0]})" if found else ""


@dataclass(frozen=True, slots=True)
class _Reader:
    """Turns parts of the syntax tree into functions of the measures of a run; refuses everything that is not known."""

    source: str
    scenario: Scenario
    flag: str
    quantities: tuple[str, ...]

    def text(self, node: ast.expr) -> str:
        """Text of a part of the condition as it was written, with names without brackets."""
        return self._written(ast.get_source_segment(self.source, node) or self.source)

    def _written(self, source: str) -> str:
        text = re.sub(r"\['([^']*)'\]", r".\1", source)
        return re.sub(rf"{_MARK}\((\d+)\)", lambda mark: self.quantities[int(mark[1])], text)

    def metrics(self, node: ast.expr) -> frozenset[str]:
        """Full names of all metrics in a part of the condition."""
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            return frozenset([self._metric(node)])
        parts = (part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
        return frozenset().union(*() if self._quantity(node) else map(self.metrics, parts))

    def test(self, node: ast.expr) -> Test:
        """Function that tells whether a part of the condition holds. Raises BadInput if the part is no condition."""
        match node:
            case ast.BoolOp(op=op, values=values):
                tests, combine = [self.test(each) for each in values], all if isinstance(op, ast.And) else any
                return lambda found: combine(test(found) for test in tests)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.test(operand)
                return lambda found: not inner(found)
            case ast.Compare():
                return self._compare(node)
            case ast.Name(id=name) if name in FLAGS:
                return lambda found: of(found, name) > 0.5
            case ast.Name() | ast.Attribute() | ast.Subscript():
                self.number(node)
                raise self._refused(node, f"is a number; compare it, as in {self.text(node)} < 2")
        raise self._refused(node, f"is no condition; compare something, as in {EXAMPLE!r}")

    def number(self, node: ast.expr) -> Number:
        """Function that computes a number of a run, which can be compared. Raises BadInput for a part that is none."""
        match node:
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                return self._fixed(node, lambda: float(value))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.number(operand)
                return lambda found: -inner(found)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                a, b, apply = self.number(left), self.number(right), _ARITHMETIC[type(op)]
                if not self.metrics(node):
                    return self._fixed(node, lambda: apply(a({}), b({})))
                if isinstance(op, ast.Div) and not self.metrics(right) and not b({}):
                    raise self._refused(node, "divides by zero; divide by something else")
                return lambda found: apply(a(found), b(found))
            case ast.Name(id=name) if name in FLAGS:
                raise self._refused(node, f"is yes or no, not a number; write '{name}' or 'not {name}'")
            case ast.Name() | ast.Attribute() | ast.Subscript():
                name = self._metric(node)
                return lambda found: of(found, name)
            case ast.Call() if quantity := self._quantity(node):
                return self._fixed(node, lambda: number(quantity, "_s"))
        raise self._refused(node, "is no number; use metrics, numbers and + - * /")

    def _fixed(self, node: ast.expr, value: Callable[[], float]) -> Number:
        """Function for a number that is the same in all runs."""
        try:
            found = value()
        except OverflowError:
            found = math.inf
        if not math.isfinite(found):
            raise self._refused(node, "is no finite number; write a smaller one, and do not divide by zero")
        return lambda _found: found

    def _metric(self, node: ast.expr) -> str:
        name = ".".join(self._parts(node))
        return name if name in FLAGS else full_name(name, self.scenario, f"{self.flag} {self.text(node)!r}")

    def _quantity(self, node: ast.AST) -> str:
        """Text of the number with a unit at a node; empty if the node is none."""
        match node:
            case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=int() as index)]) if name == _MARK:
                return self.quantities[index] if index < len(self.quantities) else ""
        return ""

    def _compare(self, node: ast.Compare) -> Test:
        for op in node.ops:
            if type(op) not in _COMPARE:
                raise self._refused(node, "compares in a way that is not known; use < <= > >=")
        sides = [self.number(side) for side in (node.left, *node.comparators)]
        times = [
            text
            for part in ast.walk(node)
            if (text := self._quantity(part)) and text.lstrip("0123456789.eE+-") in SECONDS
        ]
        if times and not any(unit_of_time(metric) for metric in self.metrics(node)):
            raise self._refused(node, f"compares {times[0]} with what is no time; leave the unit out")
        if not self.metrics(node):
            raise self._refused(node, f"says nothing of the run; compare a metric, as in {EXAMPLE!r}")
        steps = [(a, _COMPARE[type(op)], b) for a, op, b in zip(sides, node.ops, sides[1:], strict=False)]
        return lambda found: all(compare(a(found), b(found)) for a, compare, b in steps)

    def _parts(self, node: ast.expr) -> list[str]:
        """Parts of a name, which stand after dots or in brackets."""
        match node:
            case ast.Name(id=name):
                return [name]
            case ast.Attribute(value=value, attr=attribute):
                return [*self._parts(value), attribute]
            case ast.Subscript(value=value, slice=ast.Constant(value=str() as key)):
                return [*self._parts(value), key]
        raise self._refused(node, "is no metric; write one such as hosts['edge-1'].cpu")

    def _refused(self, node: ast.expr, why: str) -> BadInput:
        return BadInput(f"{self.flag} {_short(self._written(self.source))}: {_short(self.text(node))} {why}")


def _short(text: str) -> str:
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]} ...")


def _marked(text: str, quantities: list[str]) -> str:
    """Text with a mark for each number with a unit, as Python has no units; appends the numbers to `quantities`."""

    def marked(match: re.Match[str]) -> str:
        if match[0][0] in "\"'":
            return match[0]
        quantities.append(match[0])
        return f"{_MARK}({len(quantities) - 1})"

    return _QUANTITY.sub(marked, text)


def _bracketed(text: str, scenario: Scenario) -> str:
    """Text with names that Python cannot read (edge-1, a->b) in brackets: hosts.edge-1.cpu as hosts['edge-1'].cpu."""
    whole = {name.partition(".")[2].rpartition(".")[0] for name in names(scenario) if name.count(".") > 1}
    for name in sorted(whole, key=len, reverse=True):
        if not (name.isascii() and name.isidentifier()):  # Python would change some letters of others
            text = re.sub(rf"\b(operators|hosts|links)\.{re.escape(name)}(?=\.)", rf"\1[{name!r}]", text)
    return text
