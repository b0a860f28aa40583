"""Published numbers of BriskStream, and its applications under other engines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from papers.interface import cells_of
from twin.profiles import PROFILES, EngineProfile
from twin.query import AnyOperator, Query
from twin.scenario import RunSettings, Scenario

# published numbers ---------------------------------------------------------------------------------------------------
# Published numbers of the BriskStream paper (SIGMOD 2019): its tables, and the numbers in its text.


TABLE_3 = cells_of(
    "paper_measured_ns paper_estimated_ns",
    {
        ("A", "splitter", 0): (1612.8, 1612.8),
        ("A", "splitter", 1): (1666.5, 1991.1),
        ("A", "splitter", 3): (1708.2, 1994.9),
        ("A", "splitter", 4): (2050.6, 2923.7),
        ("A", "splitter", 7): (2371.3, 3196.4),
        ("A", "counter", 0): (612.3, 612.3),
        ("A", "counter", 1): (611.4, 665.2),
        ("A", "counter", 3): (623.1, 665.9),
        ("A", "counter", 4): (889.9, 837.9),
        ("A", "counter", 7): (870.2, 888.4),
    },
)
"""Time T of WC's operators on Server A, by the socket of the operator; its producer is on socket 0."""

TABLE_4 = cells_of(
    "paper_measured_kps paper_estimated_kps paper_error",
    {
        ("A", "WC"): (96390.8, 104843.3, 0.08),
        ("A", "FD"): (7172.5, 8193.9, 0.14),
        ("A", "SD"): (12767.6, 12530.2, 0.02),
        ("A", "LR"): (8738.3, 9298.7, 0.06),
    },
)
"""Throughputs of optimised plans on the eight sockets of Server A."""

TABLE_5_P99_MS = {
    "WC": {"brisk": 21.9, "storm": 37881.3, "flink": 5689.2},
    "FD": {"brisk": 12.5, "storm": 14949.8, "flink": 261.3},
    "SD": {"brisk": 13.5, "storm": 12733.8, "flink": 350.5},
    "LR": {"brisk": 204.8, "storm": 16747.8, "flink": 4886.2},
}
"""Quantiles (99 %) of the end-to-end latency on Server A."""

TABLE_7 = cells_of(
    "paper_kps paper_seconds",
    {
        ("A", 1): (10140.2, 93.4),
        ("A", 3): (10079.5, 48.3),
        ("A", 5): (96390.8, 23.0),
        ("A", 10): (84955.9, 46.5),
        ("A", 15): (77773.6, 45.3),
    },
)
"""Throughput of WC and planning time on Server A by ratio. 10,140.2 and 10,079.5 are a tenth of the trend, as printed.
"""

PERCENTILE = 50.0
"""Percentile of profiled times that instantiates the model (Section 3.1)."""

EXECUTE_OF_STORM, OTHERS_OF_STORM = (0.05, 0.24), 0.10
"""Shares of Storm's execution time and (about) other overhead of WC's operators (Section 6.3 on Fig. 8)."""
MOST_REMOTE_FACTOR = 9.4
"""Ratio, "up to", of the round trip of an operator far from its producer (Section 6.3 on Fig. 8)."""

NEARLY_LINEAR_TO = 4
"""Number of sockets up to which all applications scale "almost linearly" (Section 6.3 on Fig. 9b)."""
WITHOUT_RMA_OF_IDEAL = (0.89, 0.95)
"""Shares of eight times one socket that the plans reach if remote memory costs nothing (Section 6.3 on Fig. 10)."""

OVER_FIX_L, OVER_FIX_U = (0.19, 0.39), (1.19, 4.55)
"""Least and largest gains of RLAS over fixed capabilities (Section 6.4 on Fig. 12)."""


# other engines -------------------------------------------------------------------------------------------------------
# BriskStream's applications under other engines: modelled, by engine profiles or by published ratios.


BRISK = "brisk"
STORM_BY_RATIOS = "storm-by-ratios"
WITHOUT_JUMBO = "brisk-without-jumbo"

OTHERS = 0.1
"""Assumed share of BriskStream's time a record that is not function execution but queues, objects, and checks (its Fig.
8 is only drawn). The larger it is, the more jumbo tuples gain."""
STORM_EXECUTES = 1.0 / math.sqrt(math.prod(EXECUTE_OF_STORM))
"""Ratio of Storm's execution time to BriskStream's, for all applications: the middle, on a logarithmic scale, of the
ratios published for word count's operators."""


@dataclass(frozen=True, slots=True)
class Ratios:
    """Ratios to BriskStream's times of a record: of execution, and of everything else; each record is sent alone."""

    execute: float
    others: float

    @property
    def factor(self) -> float:
        """Factor on BriskStream's time of a record."""
        return (1.0 - OTHERS) * self.execute + OTHERS * self.others


RATIOS: Mapping[str, Ratios] = {
    STORM_BY_RATIOS: Ratios(STORM_EXECUTES, 1.0 / OTHERS_OF_STORM),
    WITHOUT_JUMBO: Ratios(1.0, 1.0 / OTHERS_OF_STORM),
}
"""Engines that no profile describes. Without jumbo tuples everything but execution costs as in Storm."""


def under(scenario: Scenario, engine: str) -> Scenario:
    """Scenario of the brisk engine under another engine; under brisk itself unchanged.

    An operator's time of a record is the profile's cost of its kind and values on top of the operator's own time, which
    is BriskStream's and contains next to no engine; sizes of records stay. Runs take longer in proportion, so that as
    many records pass.
    """
    if engine == BRISK:
        return scenario
    if engine in RATIOS:
        return _by_ratio(scenario, RATIOS[engine].factor)
    profile = PROFILES[engine]
    query, before = scenario.query, scenario.engine
    slower = _work_s(query, profile, before) / _work_s(query, None, before)
    operators = tuple(
        each.__class__(
            **{
                **dict(each),
                "service_time_s": _charged_s(query, profile, each.name) + before.service_s(query, each),
                "record_bytes": before.output_bytes(query, each.name),
            }
        )
        for each in query.operators
    )
    return _slowed(scenario, operators, profile, slower)


def _by_ratio(scenario: Scenario, factor: float) -> Scenario:
    """Scenario with all times multiplied and every record sent alone; the rest of the profile is brisk's."""
    query, before = scenario.query, scenario.engine
    operators = tuple(
        each.__class__(**{**dict(each), "service_time_s": factor * before.service_s(query, each)})
        for each in query.operators
    )
    alone = before.model_copy(update={"batch_records": 1, "buffer_bytes": None, "flush_s": None})
    return _slowed(scenario, operators, alone, factor)


def _slowed(scenario: Scenario, operators: tuple[AnyOperator, ...], engine: EngineProfile, slower: float) -> Scenario:
    run = scenario.run
    longer = {name: getattr(run, name) * slower for name in ("horizon_s", "warmup_s", "period_s")}
    return Scenario(
        **{
            **dict(scenario),
            "query": Query(operators=operators, streams=scenario.query.streams),
            "engine": engine,
            "run": RunSettings(**{**dict(run), **longer}),
        }
    )


def _charged_s(query: Query, profile: EngineProfile, name: str) -> float:
    """Time that a profile charges for an operator without a time of its own."""
    bare = query.operator(name)
    return profile.service_s(query, bare.__class__(**{**dict(bare), "service_time_s": None}))


def _work_s(query: Query, profile: EngineProfile | None, before: EngineProfile) -> float:
    """Time of one record in all operators, one after the other."""
    own_s = sum(before.service_s(query, each) for each in query.operators)
    return own_s + (0.0 if profile is None else sum(_charged_s(query, profile, each.name) for each in query.operators))
