"""Conditions on a run, as people write them: `not backpressured and e2e_latency_s.p99 < 2`.

Python's grammar, of which only this is let through: and, or, not, brackets; < <= > >=; + - * /; numbers; and the names
of `scenarios.questions.measures`, such as `hosts.edge-1.cpu`. Nothing is executed.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from scenarios.questions.measures import FLAGS, Measures, full_name, names, of
from twin.errors import BadInput
from twin.scenario import Scenario

LONGEST = 1000
"""Characters."""
EXAMPLE = "not backpressured and e2e_latency_s.p99 < 2"

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


@dataclass(frozen=True, slots=True)
class Condition:
    """text: as it was written. terms: what must all hold, each with its own text."""

    text: str
    terms: tuple[tuple[str, Test], ...]

    def holds(self, found: Measures) -> bool:
        """Of one run."""
        return not self.failing(found)

    def failing(self, found: Measures) -> list[str]:
        """The terms that do not hold."""
        return [text for text, test in self.terms if not test(found)]


def condition(text: str, scenario: Scenario, flag: str = "--while") -> Condition:
    """Raises BadInput, with what to write instead, if `text` is no condition on a run of the scenario."""
    if len(text) > LONGEST:
        raise BadInput(f"{flag}: {len(text):,} characters, more than {LONGEST:,}; make it shorter")
    try:
        source = _bracketed(text.strip(), scenario)
        body = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise BadInput(f"{flag} {text!r} is no condition; write it as in {EXAMPLE!r}{_slip(text)}") from None
    reader = _Reader(source, scenario, flag)
    both = isinstance(body, ast.BoolOp) and isinstance(body.op, ast.And)
    terms = body.values if isinstance(body, ast.BoolOp) and both else [body]
    return Condition(text, tuple((reader.text(each), reader.test(each)) for each in terms))


def _slip(text: str) -> str:
    """What somebody may have meant who writes another language."""
    slips = {"&&": "and", "||": "or", "!": "not", "=": "< or >", "%": "a number such as 0.8"}
    found = [
        f"{each} is written {word}" for each, word in slips.items() if each in text.replace("<=", "").replace(">=", "")
    ]
    return f" ({found[0]})" if found else ""


@dataclass(frozen=True, slots=True)
class _Reader:
    """Turns parts of the tree into functions of what a run measured; everything that is not known is refused."""

    source: str
    scenario: Scenario
    flag: str

    def text(self, node: ast.expr) -> str:
        """As it was written."""
        return ast.get_source_segment(self.source, node) or self.source

    def test(self, node: ast.expr) -> Test:
        """What holds or does not."""
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
        """What can be compared."""
        match node:
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                return lambda _found: float(value)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.number(operand)
                return lambda found: -inner(found)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                a, b, apply = self.number(left), self.number(right), _ARITHMETIC[type(op)]
                return lambda found: apply(a(found), b(found))
            case ast.Name(id=name) if name in FLAGS:
                raise self._refused(node, f"is yes or no, not a number; write '{name}' or 'not {name}'")
            case ast.Name() | ast.Attribute() | ast.Subscript():
                name = full_name(".".join(self._parts(node)), self.scenario, f"{self.flag} {self.source!r}")
                return lambda found: of(found, name)
        raise self._refused(node, "is no number; use metrics, numbers and + - * /")

    def _compare(self, node: ast.Compare) -> Test:
        for op in node.ops:
            if type(op) not in _COMPARE:
                raise self._refused(node, "compares in a way that is not known; use < <= > >=")
        sides = [self.number(each) for each in (node.left, *node.comparators)]
        steps = [(a, _COMPARE[type(op)], b) for a, op, b in zip(sides, node.ops, sides[1:], strict=False)]
        return lambda found: all(compare(a(found), b(found)) for a, compare, b in steps)

    def _parts(self, node: ast.expr) -> list[str]:
        """Of a name, whether its parts stand after dots or in brackets."""
        match node:
            case ast.Name(id=name):
                return [name]
            case ast.Attribute(value=value, attr=attribute):
                return [*self._parts(value), attribute]
            case ast.Subscript(value=value, slice=ast.Constant(value=str() as key)):
                return [*self._parts(value), key]
        raise self._refused(node, "is no metric; write one such as hosts['edge-1'].cpu")

    def _refused(self, node: ast.expr, why: str) -> BadInput:
        return BadInput(f"{self.flag} {self.source!r}: {self.text(node)!r} {why}")


def _bracketed(text: str, scenario: Scenario) -> str:
    """Names that are none to Python (edge-1, a->b) in brackets: hosts.edge-1.cpu becomes hosts['edge-1'].cpu."""
    whole = {name.partition(".")[2].rpartition(".")[0] for name in names(scenario) if name.count(".") > 1}
    for name in sorted(whole, key=len, reverse=True):
        if not name.isidentifier():
            text = re.sub(rf"\b(operators|hosts|links)\.{re.escape(name)}(?=\.)", rf"\1[{name!r}]", text)
    return text
