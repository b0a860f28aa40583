"""Reads the description of a Kafka Streams topology (`Topology.describe()`, printed) as a scenario.

A description has processors and topics, and no numbers: what it does not tell is assumed, and listed. Sub-topologies
talk through topics of their own, to which one writes and which another reads: these become streams. What one task runs
without a topic in between is chained where the twin can chain it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scenarios.files.documents import CLOSED
from streamtwin.connect.importers.flink_chain import once
from twin.errors import BadInput
from twin.kinds.registry import SINKS, SOURCES
from twin.scenario import Scenario
from twin.spec import parse

RATE_PER_S, PASSED, KEYS, WITHIN_S, CORES = 1000.0, 0.5, 10_000, 10.0, 4
"""What is assumed: records a second of a topic, what a filter lets pass, keys, seconds between two records that join,
and cores of the machine."""
MACHINE = {"name": "host", "cpu_percent": 100 * CORES, "ram_mb": 16_000, "bandwidth_mbps": 1000, "latency_ms": 0.5}
NOTES = (
    "costs are those of the profile flink, as there is none of Kafka Streams; measure yours",
    "topics between sub-topologies are streams here: the way through the broker and its log are left out",
)
FORM = "print Topology.describe() of the program"

# the description -----------------------------------------------------------------------------------------------------

_NODE = re.compile(r"\s*(Source|Processor|Sink):\s+(\S+)\s+\([a-z ]+:\s*(.*?)\)\s*")
_ARROW = re.compile(r"\s*(-->|<--)\s*(.*?)\s*")
_HEADING = re.compile(r"\s*(Topolog(y|ies)|Sub-topolog(y|ies))\b.*")
_NUMBER = re.compile(r"-?0*(\d+)(-[a-z-]+)?$")


@dataclass(frozen=True, slots=True)
class Node:
    """Node of a topology. kind: Source, Processor or Sink. of: its topics or stores. to: names of what follows."""

    name: str
    kind: str
    of: tuple[str, ...]
    to: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """Words of its name in capitals, without its number: `("KSTREAM", "FILTER")`, or as the program calls it."""
        return tuple(_NUMBER.sub("", self.name).upper().split("-"))

    def does(self, *words: str) -> bool:
        """Whether its name has one of the words."""
        return not {*words}.isdisjoint(self.words)


def nodes_in(text: str, where: str) -> dict[str, Node]:
    """Nodes of a description by name, in its order. Raises BadInput, naming the line, for what is no description."""
    about, ways = dict[str, tuple[str, tuple[str, ...]]](), dict[str, list[str]]()
    name = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or _HEADING.fullmatch(line):
            continue
        if found := _NODE.fullmatch(line):
            name = found[2]
            if name in about:
                raise BadInput(f"{where}, line {number}: {name} is described twice; {FORM}")
            about[name], ways[name] = (found[1], _listed(found[3])), []
            if found[1] == "Source" and not about[name][1]:
                raise BadInput(f"{where}, line {number}: {name} reads no topic; {FORM} with its topics")
        elif name is not None and (found := _ARROW.fullmatch(line)):
            ways[name] += _listed(found[2]) if found[1] == "-->" else ()
        else:
            raise BadInput(f"{where}, line {number}: {line.strip()[:60]!r} is no part of a topology; {FORM}")
    if not about:
        raise BadInput(f"{where} describes no topology; {FORM}")
    for name, after in ways.items():
        if lost := [each for each in after if each not in about]:
            raise BadInput(f"{where}: {name} leads to {lost[0]}, which is not described; give the whole description")
    return {name: Node(name, kind, of, tuple(ways[name])) for name, (kind, of) in about.items()}


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part for part in re.split(r"[\s,\[\]]+", text) if part and part != "none")


# the job -------------------------------------------------------------------------------------------------------------

MEETS = ("JOINTHIS", "JOINOTHER", "OUTERTHIS", "OUTEROTHER")
"""Words of the two processors of a join of two streams or tables; a merge behind them brings the pairs together."""
NAMED_MEETS = re.compile(r"-(this|other)-join$|-join-(this|other)$")
"""Ends of their names, where the program names the join."""
WINDOWED = "WINDOWED"
"""Word of a processor that keeps records for a join of streams."""
LOOKS = ("JOIN", "LEFTJOIN")
"""Words of a processor that looks up the rows of a table, of which it has the store."""
COUNTS = ("AGGREGATE", "REDUCE", "COUNT")
DROPS = ("FILTER", "SUPPRESS")
ONE_FOR_ONE = ("MAP", "MAPVALUES", "SELECT", "PEEK", "MERGE", "TOSTREAM", "BRANCH", "SOURCE")
"""Words of processors that send each record on, once; how many others send is asked for."""
REPARTITIONED = "-repartition"
"""End of the names of topics through which records go to the subtasks of their keys."""


@CLOSED
@dataclass(frozen=True, slots=True)
class ImportedTopology:
    """The answer of `twin import kafka-streams`: the scenario of a topology, and notes on what is assumed."""

    scenario: Scenario
    notes: tuple[str, ...]


def read_topology(text: str, name: str, where: str) -> ImportedTopology:
    """Reads a description. name: of the scenario. where: of the text, for messages. Raises BadInput, naming the line,
    for what is none, or has no source of records from outside."""
    job = _Job(nodes_in(text, where))
    sources = [each["name"] for each in job.operators if each["kind"] in SOURCES]
    if not sources:
        raise BadInput(f"{where}: no topic is read that the topology does not write; give the whole description")
    rates = [f"workload.arrivals.{each}.rate_per_s={RATE_PER_S:g}" for each in sources]
    places = [f"one subtask an operator (there are as many as partitions), and one machine of {CORES} cores"]
    scenario = parse(
        Scenario,
        {
            "name": name,
            "query": {"operators": job.operators, "streams": job.streams},
            "cluster": {"hosts": [MACHINE]},
            "plan": {"placement": {each["name"]: MACHINE["name"] for each in job.operators}},
            "workload": {"arrivals": {each: {"law": "poisson", "rate_per_s": RATE_PER_S} for each in sources}},
            "engine": {"profile": "flink", "chaining": True},
            "run": {"horizon_s": 120, "warmup_s": 20},
        },
    )
    assumed = "; ".join([*rates, *job.asks, *places])
    return ImportedTopology(scenario, (f"a topology has no numbers; set what you know (--set) of: {assumed}", *NOTES))


@dataclass(slots=True)
class _Job:
    """Operators and streams of a topology. asks: what is assumed of operators, as `PATH=VALUE`."""

    nodes: Mapping[str, Node]
    operators: list[dict[str, Any]] = field(default_factory=list)
    streams: list[dict[str, Any]] = field(default_factory=list)
    asks: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        before = self._before()
        kept = [name for name in self.nodes if not self._passed_over(name)]
        names = _short([self.nodes[name] for name in kept])
        for name in kept:
            node, called = self.nodes[name], names[name]
            sides = self._sides(node, before)
            self._add(node, called, [[names[each] for each in side] for side in sides], before[name])
            if node.kind == "Processor" and not self._led_to(name) and self.operators[-1]["kind"] not in SINKS:
                self.operators.append({"kind": "sink", "name": f"{called}-store"})  # which others ask for its rows
                self.streams.append({"producer": called, "consumer": f"{called}-store"})

    def _before(self) -> dict[str, list[str]]:
        """What each node gets records from: through topics, those before the node that writes there."""
        before = {name: list[str]() for name in self.nodes}
        for node in self.nodes.values():
            for after in node.to:
                before[after].append(node.name)
        return before

    def _writers(self, node: Node) -> list[Node]:
        """Sinks that write to a topic that a source reads."""
        sinks = (each for each in self.nodes.values() if each.kind == "Sink")
        return [each for each in sinks if {*each.of} & {*node.of}] if node.kind == "Source" else []

    def _passed_over(self, name: str) -> bool:
        """Whether a node is no operator of its own: ends of topics within, helpers of joins, and tables that are only
        looked up."""
        node = self.nodes[name]
        if node.kind == "Sink":
            return any(node in self._writers(each) for each in self.nodes.values())
        if node.kind == "Source":
            return {*node.of} <= {topic for each in self._writers(node) for topic in each.of}
        if _meets(node) or node.does(WINDOWED):
            return True
        return node.does("SOURCE") and not node.to and bool(self._lookers(node))

    def _lookers(self, node: Node) -> list[Node]:
        """Processors that look up rows of a node's store."""
        return [
            each
            for each in self.nodes.values()
            if each is not node and each.does(*LOOKS) and each.does("KSTREAM") and {*each.of} & {*node.of}
        ]

    def _led_to(self, name: str) -> bool:
        """Whether something gets the records of a node."""
        return bool(self.nodes[name].to or self._lookers(self.nodes[name]))

    def _reached(self, names: Sequence[str], before: Mapping[str, Sequence[str]]) -> list[str]:
        """Operators from which nodes get records, behind all that is passed over."""
        found = dict[str, None]()
        for name in names:
            over, writers = self._passed_over(name), [each.name for each in self._writers(self.nodes[name])]
            if not over:
                found[name] = None
            found |= dict.fromkeys(self._reached([*writers, *(before[name] if over else [])], before))
        return list(found)

    def _sides(self, node: Node, before: Mapping[str, Sequence[str]]) -> list[list[str]]:
        """Operators from which a node gets records, by side: the table that it looks up is one, the streams that meet
        are two; others have one."""
        came = before[node.name]
        meeting = [each for each in came if _meets(self.nodes[each])]
        if len(meeting) == 2:
            return [self._reached([each], before) for each in meeting]
        owners = [each.name for each in self.nodes.values() if node in self._lookers(each)]
        return [self._reached(came, before), *([self._reached(owners, before)] if owners else [])]

    def _add(self, node: Node, name: str, sides: Sequence[Sequence[str]], before: Sequence[str]) -> None:
        """Adds an operator and the streams that lead there. before: the nodes right before it."""
        self.operators.append({"name": name, **self._kind(node, name, len(sides) == 2, before)})
        two = len(sides) == 2
        for side, producers in zip(("left", "right") if two else ("",), sides, strict=True):
            for producer in producers:
                self.streams.append({"producer": producer, "consumer": name, **({"input": side} if two else {})})

    def _kind(self, node: Node, name: str, joins: bool, before: Sequence[str]) -> dict[str, Any]:
        """Kind of an operator, and its fields. joins: whether it has two sides."""
        if node.kind == "Source":
            return {"kind": "source"}
        if node.kind == "Sink":
            return {"kind": "sink"}
        if joins:
            return self._join(node, name, before)
        if node.does(*COUNTS):
            return {"kind": "group-aggregate", "changelog": "upsert", "keys": self._ask(name, "keys", KEYS)}
        if ways := max((len(self._branches(self.nodes[each])) for each in before), default=0):
            return {"kind": "filter", "selectivity": self._ask(name, "selectivity", 1.0 / ways)}
        if node.does(*DROPS) and not self._repartitions(node):
            return {"kind": "filter", "selectivity": self._ask(name, "selectivity", PASSED)}
        if node.of:
            return {"kind": "keyed-state", "keys": self._ask(name, "keys", KEYS)}
        if not node.to:
            return {"kind": "sink"}
        if node.does(*ONE_FOR_ONE, *DROPS):
            return {"kind": "map"}
        return {"kind": "map", "selectivity": self._ask(name, "selectivity", 1.0)}

    def _join(self, node: Node, name: str, before: Sequence[str]) -> dict[str, Any]:
        if node.does(*LOOKS) and not any(_meets(self.nodes[each]) for each in before):
            return {"kind": "temporal-join", "side": "right", "selectivity": self._ask(name, "selectivity", 1.0)}
        ends = {"left": "left", "right": "right", "keys": self._ask(name, "keys", KEYS)}
        windowed = any(each.does(WINDOWED) and {*each.to} & {*before} for each in self.nodes.values())
        if not windowed:
            return {"kind": "regular-join", **ends}
        upper_s = self._ask(name, "upper_s", WITHIN_S)
        return {"kind": "interval-join", "lower_s": -upper_s, "upper_s": upper_s, **ends}

    def _branches(self, node: Node) -> list[str]:
        """Followers of a node that are the branches of which each record takes one."""
        if not node.does("BRANCH") and not any(self.nodes[each].does("BRANCHCHILD") for each in node.to):
            return []
        return [each for each in node.to if self.nodes[each].does("BRANCHCHILD") or each.startswith(node.name)]

    def _repartitions(self, node: Node) -> bool:
        """Whether a filter only drops records without a key, before a topic for repartitioning."""
        after = [self.nodes[each] for each in node.to]
        return bool(after) and all(
            each.kind == "Sink" and self._passed_over(each.name) and each.of[0].endswith(REPARTITIONED)
            for each in after
        )

    def _ask(self, name: str, key: str, value: float) -> float:
        self.asks.append(f"query.operators.{name}.{key}={value:,g}")
        return value


def _meets(node: Node) -> bool:
    """Whether a processor is one of the two of a join, before their merge."""
    return node.kind == "Processor" and (node.does(*MEETS) or NAMED_MEETS.search(node.name) is not None)


def _short(nodes: Sequence[Node]) -> dict[str, str]:
    """Short names: topics of sources and sinks, else the words with the number; all different."""
    return dict(zip((node.name for node in nodes), once([_plain(node) for node in nodes], "-"), strict=True))


def _plain(node: Node) -> str:
    """Short name of a node, of letters that names of operators may have."""
    short = "-and-".join(node.of)
    if node.kind == "Processor" or not node.of:
        number = _NUMBER.search(node.name)
        words = [each.lower() for each in node.words if each not in ("KSTREAM", "KTABLE", "")]
        short = "-".join([*words, *([number[1]] if number else [])]) or node.name
    return re.sub(r"[^a-zA-Z0-9_-]+", "-", short).strip("-") or "operator"
