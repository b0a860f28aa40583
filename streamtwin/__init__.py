"""streamtwin: a digital twin of stream processing systems, under one name.

    import streamtwin as st

    scenario = st.load("smart-grid").with_run(seed=7)
    result = st.run(scenario)
    print(result.verdict, result.operators)
    better = scenario.with_plan(st.optimize(scenario).plan)
    print(st.compare({"as given": scenario, "better": better}))

Names are imported when they are first used. What each is, its own module says.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimizers.interface import Optimizer, Problem, Solution, Status
    from optimizers.policies.registry import POLICIES
    from optimizers.registry import OPTIMIZERS
    from optimizers.requirements import Requirements
    from optimizers.space import Space
    from scenarios.files.scenario_file import dump, load
    from scenarios.planning.cost_models import cost_model
    from scenarios.planning.planner import optimize
    from scenarios.planning.simulated_cost import SimulatedCostModel, replicate
    from scenarios.planning.validation import validate
    from streamtwin.notebook.answer import Answer
    from streamtwin.notebook.frames import frame
    from streamtwin.notebook.html import Html, picture
    from streamtwin.notebook.questions import capacity, compare, compare_policies, dry_run, sensitivity, whatif
    from streamtwin.notebook.result import Result, read_run, run
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
    from twin.version import VERSION
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

_HOMES = {
    "optimizers.interface": "Optimizer Problem Solution Status",
    "optimizers.policies.registry": "POLICIES",
    "optimizers.registry": "OPTIMIZERS",
    "optimizers.requirements": "Requirements",
    "optimizers.space": "Space",
    "scenarios.files.scenario_file": "load dump",
    "streamtwin.notebook.answer": "Answer",
    "streamtwin.notebook.frames": "frame",
    "streamtwin.notebook.html": "Html picture",
    "streamtwin.notebook.questions": "capacity compare compare_policies dry_run sensitivity whatif",
    "streamtwin.notebook.result": "Result read_run run",
    "scenarios.planning.cost_models": "cost_model",
    "scenarios.planning.planner": "optimize",
    "scenarios.planning.simulated_cost": "SimulatedCostModel replicate",
    "scenarios.planning.validation": "validate",
    "twin.cluster": "Cluster Host Link Numa Socket",
    "twin.control": "PeriodStatistics Policy PolicySpec Reconfiguration",
    "twin.deployment": "Deployment",
    "twin.errors": "BadInput",
    "twin.events": "Failure LinkDegradation Migration Move RateChange Rescale Scale SlowDown",
    "twin.key_skew": "KeySkew",
    "twin.metrics": "CostModel Estimates Latency Metric Metrics",
    "twin.plan": "ExecutionPlan Location",
    "twin.profiles": "PROFILES EngineProfile Noise",
    "twin.query": "Aggregate Columns CountWindow Filter Join Map Query Sink Source Stream TimeWindow",
    "twin.rates.model": "RateModel",
    "twin.run": "Run",
    "twin.scenario": "RunSettings Scenario",
    "twin.simulation": "simulate",
    "twin.version": "VERSION",
    "twin.workload": "Bursty Constant Diurnal Poisson Replay Spikes Steps Workload",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}
_NEEDS = {"twin": ("twin",), "optimizers": ("twin", "optimizers"), "scenarios": ("twin", "optimizers", "scenarios")}
_NEEDS["streamtwin"] = _NEEDS["scenarios"]
"""What a package imports besides itself as soon as it is imported."""


def __getattr__(name: str) -> Any:
    """Imports it. Raises AttributeError for an unknown name, ImportError (a line) if a foreign module is in the way."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'streamtwin' has no attribute {name!r}")
    from streamtwin.house import foreign

    module = _HOME_OF[name]
    if told := foreign(_NEEDS[module.partition(".")[0]]):
        raise ImportError(told)
    if name == "Scenario" and not foreign(["optimizers"]):
        import_module("optimizers.policies")  # so that a scenario can name one
    found = getattr(import_module(module), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
