"""streamtwin: a digital twin of stream processing systems, under one name.

    import streamtwin as st

    scenario = st.load("smart-grid").with_run(seed=7)
    result = st.run(scenario)
    print(result.verdict, result.operators)
    better = scenario.with_plan(st.optimize(scenario).plan)
    print(st.compare({"as given": scenario, "better": better}))

Names are imported when they are first used; the module of each describes it.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimizers.interface import Optimizer, Problem, Solution, Status
    from optimizers.objectives import Requirements
    from optimizers.policies import POLICIES
    from optimizers.registry import OPTIMIZERS
    from optimizers.space import Space
    from scenarios.files.scenario_file import dump, load
    from scenarios.planning.bench import SimulatedCostModel, replicate
    from scenarios.planning.cost_models import cost_model, load_model
    from scenarios.planning.planner import optimize
    from scenarios.planning.validation import validate
    from streamtwin.notebook import (
        Answer,
        Html,
        Result,
        capacity,
        compare,
        compare_policies,
        dry_run,
        frame,
        picture,
        read_run,
        run,
        sensitivity,
        whatif,
    )
    from twin import VERSION
    from twin.cluster import Cluster, Host, Link, Numa, Socket
    from twin.control import PeriodStatistics, Policy, PolicySpec, Reconfiguration
    from twin.deployment import Deployment
    from twin.errors import BadInput
    from twin.events import Failure, LinkDegradation, Migration, Move, RateChange, Rescale, Scale, SlowDown
    from twin.key_skew import KeySkew
    from twin.metrics import CostModel, Estimates, Latency, Metric, Metrics
    from twin.plan import ExecutionPlan, Location
    from twin.profiles import PROFILES, EngineProfile, Noise
    from twin.query import Aggregate, Columns, CountWindow, Filter, Join, Map, Query, Sink, Source, Stream, TimeWindow
    from twin.rates.model import RateModel
    from twin.run import Run
    from twin.scenario import RunSettings, Scenario
    from twin.simulation import simulate
    from twin.workload import Bursty, Constant, Diurnal, Poisson, Replay, Spikes, Steps, Workload

__all__ = [
    "OPTIMIZERS",
    "POLICIES",
    "PROFILES",
    "VERSION",
    "Aggregate",
    "Answer",
    "BadInput",
    "Bursty",
    "Cluster",
    "Columns",
    "Constant",
    "CostModel",
    "CountWindow",
    "Deployment",
    "Diurnal",
    "EngineProfile",
    "Estimates",
    "ExecutionPlan",
    "Failure",
    "Filter",
    "Host",
    "Html",
    "Join",
    "KeySkew",
    "Latency",
    "Link",
    "LinkDegradation",
    "Location",
    "Map",
    "Metric",
    "Metrics",
    "Migration",
    "Move",
    "Noise",
    "Numa",
    "Optimizer",
    "PeriodStatistics",
    "Poisson",
    "Policy",
    "PolicySpec",
    "Problem",
    "Query",
    "RateChange",
    "RateModel",
    "Reconfiguration",
    "Replay",
    "Requirements",
    "Rescale",
    "Result",
    "Run",
    "RunSettings",
    "Scale",
    "Scenario",
    "SimulatedCostModel",
    "Sink",
    "SlowDown",
    "Socket",
    "Solution",
    "Source",
    "Space",
    "Spikes",
    "Status",
    "Steps",
    "Stream",
    "TimeWindow",
    "Workload",
    "capacity",
    "compare",
    "compare_policies",
    "cost_model",
    "dry_run",
    "dump",
    "frame",
    "load",
    "load_model",
    "optimize",
    "picture",
    "read_run",
    "replicate",
    "run",
    "sensitivity",
    "simulate",
    "validate",
    "whatif",
]

_NEEDS = {"twin": ("twin",), "optimizers": ("twin", "optimizers"), "scenarios": ("twin", "optimizers", "scenarios")}
_NEEDS["streamtwin"] = _NEEDS["scenarios"]
"""Packages that are imported with a module of each package, so that none of them may be foreign."""


@cache
def _home_of() -> dict[str, str]:
    """Module of each public name, read from the text of the imports above, which run for type checkers alone."""
    import ast
    from pathlib import Path

    nodes = ast.walk(ast.parse(Path(__file__).read_text(encoding="utf-8")))
    imports = (node for node in nodes if isinstance(node, ast.ImportFrom))
    return {each.name: str(node.module) for node in imports for each in node.names if each.name in __all__}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used. Raises AttributeError for an unknown name, ImportError (a line) if a
    foreign module has the place of one of ours."""
    if name not in __all__:
        if name.startswith("_") or (question := _question(name)) is None:
            raise AttributeError(f"module 'streamtwin' has no attribute {name!r}")
        return question
    from streamtwin.package import foreign

    module = _home_of()[name]
    if told := foreign(_NEEDS[module.partition(".")[0]]):
        raise ImportError(told)
    if name == "Scenario" and not foreign(["optimizers"]):
        import_module("optimizers.policies")  # so that a scenario can name a policy
    found = getattr(import_module(module), name)
    globals()[name] = found
    return found


def _question(name: str) -> Any:
    """Function of a question that is not among the names above; None if there is none."""
    from importlib.util import find_spec

    from streamtwin.package import foreign

    is_module = find_spec(f"streamtwin.{name}") is not None  # which Python imports if there is no such attribute
    if is_module or foreign(_NEEDS["streamtwin"]):
        return None
    from streamtwin.questions.registry import QUESTIONS

    if name.replace("_", "-") not in QUESTIONS:
        return None
    from streamtwin.notebook import function_of

    return function_of(name)


def __dir__() -> list[str]:
    return __all__
