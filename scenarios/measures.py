"""Named numbers by which a run is judged (`e2e_latency_s.p99` · `operators.match.busy` · `hosts.edge-1.cpu`), and
conditions on them, such as `not backpressured and e2e_latency_s.p99 < 500ms`.

Python's grammar is reduced to: and, or, not, brackets; < <= > >=; + - * /; numbers, with units as in
`twin.quantities`; and the names of measures. Nothing is executed.
"""

from __future__ import annotations

import ast
import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import add, ge, gt, le, lt, mul, sub
from typing import Any, NamedTuple

from twin.corpus.rows import further_labels
from twin.errors import BadInput, suggest
from twin.histograms import WAYS
from twin.metrics import CHECKPOINTS, LATENCIES, Latency
from twin.quantities import NUMBER, SECONDS, UNIT, number, unit_of_time
from twin.run import EventTimeTotals, HostTotals, LinkTotals, OperatorTotals, Run, parts
from twin.scenario import Scenario

Measures = Mapping[str, float]
"""Numbers by name. Latencies are inf if nothing reached a sink; flags are 0 or 1."""

BEHIND = ("behind_share", "backlog_max")
QUANTILES = tuple(field.name for field in dataclasses.fields(Latency))
MEAN = ".mean"
EVENT_TIME = tuple(field.name for field in dataclasses.fields(EventTimeTotals))
KEEPS_UP = "keeps_up"
FLAGS = (KEEPS_UP, "backpressured", "success", "crashed")
COUNTS = ("records_in", "records_out", "duplicates")
PAUSED = "paused_s"
"""Longest time for which a failure, a migration or a change of numbers stopped what it touches; infinite if a failed
part stays down."""
CHANGES = ("migration", "scale", "failure")
"""Kinds of events that stop something."""
WHOLE_JOB = (
    "throughput_per_s",
    *(f"{name}.{quantile}" for name in LATENCIES for quantile in QUANTILES),
    "backpressure_per_s",
    "queue_growth_per_s",
    "late_per_s",
    PAUSED,
    *BEHIND,
    *CHECKPOINTS,
    *FLAGS,
    *COUNTS,
)


def measures(run: Run) -> dict[str, float]:
    """Measures of a run: all that `names` lists, except of links that carried nothing, ways that no time was spent in,
    and event time where there is none; and `full.*` of full operators and hosts, and how busy an operator's busiest
    subtask on each host is."""
    metrics = run.metrics
    named = {
        "throughput_per_s": metrics.throughput_per_s,
        **_latency("processing_latency_s", metrics.processing_latency_s),
        **_latency("e2e_latency_s", metrics.e2e_latency_s),
        **_latency("result_delay_s", metrics.result_delay_s),
        "backpressure_per_s": metrics.backpressure_per_s,
        "queue_growth_per_s": metrics.queue_growth_per_s,
        "late_per_s": metrics.late_per_s,
        PAUSED: max((paused_s(row, given=False) for row in run.event_rows if row["kind"] in CHANGES), default=0.0),
        "backpressured": float(metrics.backpressured),
        "success": float(metrics.success),
        "crashed": float(run.crashed),
        "records_in": float(metrics.records_in),
        "records_out": float(metrics.records_out),
        "duplicates": float(run.duplicates),
        **_further(run),
        **{f"full.{name}": 1.0 for name in run.full},
    }
    for operator in run.operators:
        named |= _totals(f"operators.{operator.operator}", operator)
        busiest = operator.busiest
        named[f"operators.{operator.operator}.busiest"] = operator.busy if busiest is None else busiest.busy
        for way, times in operator.spent.items():
            named |= {f"operators.{operator.operator}.spent.{way}.{q}": getattr(times, q) for q in QUANTILES}
        if (event_time := operator.event_time) is not None:
            for each in EVENT_TIME:
                named[f"operators.{operator.operator}.event_time.{each}"] = float(getattr(event_time, each) or 0.0)
        for subtask in operator.subtasks:
            name = busy_on(operator.operator, subtask.host)
            named[name] = max(named.get(name, 0.0), subtask.busy)
    for part in parts(run.operators):
        named[f"operators.{part.operator}.part.{part.way}_s"] = part.mean_s
    for host in run.hosts:
        named |= _totals(f"hosts.{host.host}", host)
    for link in run.links:
        named |= _totals(f"links.{link.link}", link)
    return named


def _further(run: Run) -> dict[str, float]:
    """How far a run is behind, and what its checkpoints took: infinite where none was completed."""
    found = further_labels(run.operator_rows, run.event_rows, run.manifest["warmup_s"])
    return {name: math.inf if value is None else float(value) for name, value in found.items()}


def paused_s(change: Mapping[str, Any], *, given: bool) -> float:
    """Seconds for which a change stopped the job or a part of it; infinite if a failed part stays down. given: whether
    a change that has not ended counts as infinite, too, as of one that is asked about."""
    for_good = change["end_s"] is None and ("restarted" in change["detail"] if change["kind"] == "failure" else given)
    return math.inf if for_good else float(change["paused_s"] or 0.0)


def busy_on(operator: str, host: str) -> str:
    """Name of the busy share of the busiest subtask of an operator on a host."""
    return f"busy.{operator}.{host}"


def is_part(name: str) -> bool:
    """Whether a measure is a part of the latency, at one operator in one way."""
    return ".part." in name


def of(found: Measures, name: str) -> float:
    """Value of a measure; 0 if the run does not list it, as of a link that carried nothing."""
    if name == KEEPS_UP:
        behind = of(found, "backpressured") or of(found, "queue_growth_per_s")
        return float(bool(of(found, "success")) and not behind)
    return found.get(name, 0.0)


def surely_keeps_up(found: Measures) -> bool:
    """Whether the job kept up, and nothing was full, behind which queues may still be filling."""
    return bool(of(found, KEEPS_UP)) and not any(name.startswith("full.") for name in found)


def names(scenario: Scenario) -> list[str]:
    """Names of all measures that a run of the scenario can have."""
    operators = [operator.name for operator in scenario.query.operators]
    hosts = [host.name for host in scenario.cluster.hosts]
    ends = [link.between for link in scenario.cluster.links]
    links = [*hosts, *(f"{a}->{b}" for a, b in ends), *(f"{b}->{a}" for a, b in ends)]
    absent = () if scenario.checkpoints is not None else CHECKPOINTS
    return [
        *(name for name in WHOLE_JOB if name not in absent),
        *_fields("operators", operators, OperatorTotals),
        *(f"operators.{name}.busiest" for name in operators),
        *(f"operators.{name}.spent.{way}_s.{q}" for name in operators for way in WAYS for q in QUANTILES),
        *(f"operators.{name}.part.{way}_s" for name in operators for way in WAYS),
        *(f"operators.{name}.event_time.{each}" for name in operators for each in EVENT_TIME),
        *_fields("hosts", hosts, HostTotals),
        *_fields("links", links, LinkTotals),
    ]


def full_name(name: str, scenario: Scenario, where: str) -> str:
    """Full name of a measure: a latency without a quantile is its mean. Raises BadInput, with the nearest name, if it
    is unknown."""
    known = names(scenario)
    wanted = f"{name}{MEAN}" if name in LATENCIES else name
    if wanted in CHECKPOINTS and wanted not in known:
        raise BadInput(f"{where}: {scenario.name} takes no checkpoints, so it has no {name}; give it checkpoints")
    if wanted not in known:
        first = name.partition(".")[0]
        near = [candidate for candidate in known if candidate.partition(".")[0] == first] or [*WHOLE_JOB, *LATENCIES]
        if name in QUANTILES:
            raise BadInput(f"{where}: {name!r} of what? Write {' or '.join(f'{each}.{name}' for each in LATENCIES)}")
        raise BadInput(f"{where}: unknown metric {name!r}; {suggest(name, near)}")
    return wanted


def full_names(names: Sequence[str], scenarios: Iterable[Scenario], where: str) -> list[str]:
    """Full names of measures, each once. Raises BadInput if a scenario lacks one, which would look like 0."""
    known = [[full_name(name, scenario, f"{where}, {scenario.name}") for name in names] for scenario in scenarios]
    return list(dict.fromkeys(known[0]))


def _latency(name: str, latency: Latency | None) -> dict[str, float]:
    return {f"{name}.{q}": getattr(latency, q) if latency is not None else math.inf for q in QUANTILES}


def _totals(prefix: str, totals: OperatorTotals | HostTotals | LinkTotals) -> dict[str, float]:
    return {f"{prefix}.{field}": float(getattr(totals, field)) for field in _numbers(type(totals))}


def _fields(part: str, of: list[str], totals: type) -> list[str]:
    return [f"{part}.{name}.{field}" for name in of for field in _numbers(totals)]


def _numbers(totals: type) -> list[str]:
    return [field.name for field in dataclasses.fields(totals) if field.type in ("int", "float")]


LONGEST = 1000
"""Most characters of a condition."""
SHOWN = 100
"""Most characters of a condition in a message."""
EXAMPLE = "not backpressured and e2e_latency_s.p99 < 500ms"

_COMPARE: dict[type, Callable[[float, float], bool]] = {
    ast.Lt: lt,
    ast.LtE: le,
    ast.Gt: gt,
    ast.GtE: ge,
}
_ARITHMETIC: dict[type, Callable[[float, float], float]] = {
    ast.Add: add,
    ast.Sub: sub,
    ast.Mult: mul,
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
