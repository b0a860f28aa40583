"""Optimizers and cost models of users: a class in a Python file, or an entry point of an installed package.

`my_file.py:MyOptimizer` names a class, or an instance, that satisfies `interface.Optimizer`; a package names its own
in the entry-point group `streamtwin.optimizers`, which are the names they are asked for by. `my_file.py:MyCostModel`
names one that satisfies `twin.metrics.CostModel`.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import numpy as np

from optimizers.interface import Optimizer, Problem, Solution
from optimizers.rules import bin_ranges
from optimizers.space import Space
from twin.deployment import Deployment
from twin.errors import BadInput, suggest
from twin.metrics import BINARY_METRICS, METRICS, Estimates
from twin.plan import ExecutionPlan
from twin.scenario import Scenario

GROUP = "streamtwin.optimizers"
NEEDED = "needs a `name` and a method `solve(problem)` that returns a Solution"


class AnswerError(Exception):
    """The answer of an optimizer is no valid solution."""


class PredictionError(AnswerError, BadInput):
    """A cost model of a user raised something, or its answer is no estimate of these plans. The optimizer that asked is
    not to blame."""


def of_others(optimizer: Optimizer) -> bool:
    """Whether an optimizer's class is not part of this project."""
    return type(optimizer).__module__.partition(".")[0] not in ("optimizers", "scenarios")


def fitting(problem: Problem, found: object, *, in_space: bool = True) -> Solution:
    """Checked answer of an optimizer. Raises AnswerError if it is no solution, or if its plan does not fit the job; and
    BadInput, with the operator and the limit, if its plan is another than the given one and not in the space.

    in_space: whether the plan must be in the space. Where the engine has slots, plans are put into these first.
    """
    if not isinstance(found, Solution):
        raise AnswerError(f"solve returned {type(found).__name__}, not a Solution")
    if math.isnan(found.objective):
        raise AnswerError("its objective is not a number")
    try:
        problem.scenario.with_plan(found.plan)
    except BadInput as error:
        raise AnswerError(f"its plan does not fit the job: {error}") from error
    job, space = problem.deployment, problem.space
    judged = in_space and found.plan != job.plan and not replace(space, free_subtasks=True).has_slots(job)
    if judged and (broken := why_not(space, job, found.plan)):
        raise BadInput(
            f"the optimizer cannot keep to the space: in its plan, {broken}; use local-search, milp or exhaustive"
        )
    return found


def installed() -> dict[str, EntryPoint]:
    """Entry points of the optimizers of installed packages, by name; nothing is imported."""
    return {point.name: point for point in entry_points(group=GROUP)}


def is_file(name: str) -> bool:
    """Whether a name means a class in a Python file."""
    return ".py:" in name


def from_file(name: str) -> Optimizer:
    """Optimizer of `FILE.py:NAME`. Raises BadInput with the reason if it cannot be loaded."""
    return _made(name, _found("--optimizer", name))


def _found(flag: str, name: str) -> Any:
    """What `FILE.py:NAME` names. flag: that it was given with. Raises BadInput with the reason if there is no such."""
    file, _, attribute = name.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise BadInput(f"{flag} {name!r}: there is no file {file!r}")
    own = f"{path.stem}_{flag.strip('-').replace('-', '_')}s"
    spec = importlib.util.spec_from_file_location(own, path)
    if spec is None or spec.loader is None:
        raise BadInput(f"{flag} {name!r}: {file!r} is no Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[own] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BadInput(f"{flag} {name!r} cannot be loaded: {type(error).__name__}: {error}") from error
    public = [member for member in vars(module) if not member.startswith("_")]
    if attribute not in public:
        raise BadInput(f"{flag} {name!r}: {file!r} has no {attribute!r}; {suggest(attribute, public)}")
    return getattr(module, attribute)


def from_package(point: EntryPoint) -> Optimizer:
    """Optimizer of an entry point. Raises BadInput with the reason if it cannot be loaded."""
    try:
        found = point.load()
    except Exception as error:
        raise BadInput(f"optimizer {point.name!r} ({point.value}) cannot be loaded: {error}") from error
    return _made(point.name, found)


def _made(name: str, found: Any) -> Optimizer:
    optimizer: Optimizer = _instance(f"optimizer {name!r}", found, ("solve",), NEEDED)
    return optimizer


def _instance(what: str, found: Any, methods: Sequence[str], needed: str) -> Any:
    """Instance of a user's class, or the instance that was named. Raises BadInput if it has no name, or lacks a
    method."""
    try:
        made = found() if isinstance(found, type) else found
    except Exception as error:
        raise BadInput(f"{what} cannot be made: {type(error).__name__}: {error}") from error
    if not isinstance(getattr(made, "name", None), str) or not all(callable(getattr(made, m, None)) for m in methods):
        raise BadInput(f"{what} {needed}")
    return made


# cost models ---------------------------------------------------------------------------------------------------------
# Cost models of users, which are asked through a guard: what they raise, and answers that are none, have one line.


NEEDED_OF_MODELS = (
    "needs a `name`, a method `predict(scenario, plans)` that returns Estimates, and a method `blind_to(scenario)` "
    "that returns a sequence of texts"
)
MAY_HAVE = ("interval", "beyond")
"""Methods of `twin.metrics.Unsure` and `Ranged`, which a cost model may have or not."""


class OwnCostModel:
    """Guard of a user's cost model, which is a twin.metrics.CostModel, and Unsure and Ranged if the user's is."""

    def __init__(self, own: Any) -> None:
        self.own = own
        self.name: str = own.name
        for method in MAY_HAVE:
            if callable(getattr(own, method, None)):
                setattr(self, method, partial(self._asked, method))

    def predict(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> Estimates:
        """Checked estimates. Raises PredictionError if the model raises, or does not estimate all METRICS of every
        plan."""
        found = self._asked("predict", scenario, plans)
        if not isinstance(found, Estimates):
            raise self._fault(f"predict returned {type(found).__name__}, not Estimates")
        if missing := [metric for metric in METRICS if metric not in found.by_metric]:
            raise self._fault(f"predict returned no {missing[0]}; it must estimate {', '.join(METRICS)}")
        by_metric = {metric: self._checked(metric, found[metric], len(plans)) for metric in METRICS}
        return Estimates(by_metric, self._checked("spread", found.spread, len(plans)))

    def blind_to(self, scenario: Scenario) -> tuple[str, ...]:
        """What the model says that it ignores. Raises PredictionError if it raises, or says something else."""
        found = self._asked("blind_to", scenario)
        if (
            isinstance(found, str)
            or not isinstance(found, Sequence)
            or not all(isinstance(each, str) for each in found)
        ):
            raise self._fault(f"blind_to returned {found!r}, not a sequence of texts")
        return tuple(found)

    def _asked(self, method: str, *arguments: Any) -> Any:
        try:
            return getattr(self.own, method)(*arguments)
        except BadInput:
            raise
        except Exception as error:
            raise self._fault(f"raised {type(error).__name__}: {error}; see 'twin --traceback'") from error

    def _checked(self, name: str, values: Any, count: int) -> np.ndarray:
        """Estimates of a metric, [count]. Raises PredictionError if they are not that, or not possible."""
        try:
            value_n = np.asarray(values, dtype=float)
        except (TypeError, ValueError):
            raise self._fault(f"predicts no numbers for {name}") from None
        if value_n.shape != (count,):
            raise self._fault(f"predicts an array of shape {value_n.shape} for {name}, not ({count},): one a plan")
        most = 1.0 if name in BINARY_METRICS else math.inf
        for wrong_n, words in (
            (np.isnan(value_n), "NaN"),
            ((value_n < 0.0) | (value_n > most), "a probability outside of 0 to 1" if most == 1.0 else "less than 0"),
        ):
            if wrong_n.any():
                raise self._fault(f"predicts {words} for {name} of plan {int(np.argmax(wrong_n)) + 1} of {count}")
        return value_n

    def _fault(self, words: str) -> PredictionError:
        return PredictionError(f"cost model {self.name!r} {words}")


def model_from_file(name: str, taken: Sequence[str]) -> OwnCostModel:
    """Cost model of `FILE.py:NAME`. taken: names that it may not have. Raises BadInput with the reason if it cannot be
    loaded."""
    own = _instance(f"cost model {name!r}", _found("--cost-model", name), ("predict", "blind_to"), NEEDED_OF_MODELS)
    if own.name in taken:
        raise BadInput(f"cost model {name!r} is named {own.name!r}, as one of streamtwin is; give it another name")
    return OwnCostModel(own)


@contextmanager
def faults_told(optimizer: Optimizer) -> Iterator[None]:
    """Context in which what somebody else's optimizer raises, or a wrong answer of any, becomes one line: BadInput."""
    try:
        yield
    except BadInput:
        raise
    except AnswerError as failure:
        raise BadInput(f"optimizer {optimizer.name!r} failed: {failure}") from failure
    except Exception as error:
        if not of_others(optimizer):
            raise
        words = f"{type(error).__name__}: {error}; see 'twin --traceback'"
        raise BadInput(f"optimizer {optimizer.name!r} raised {words}") from error


# why a plan is refused -----------------------------------------------------------------------------------------------
# Why a plan is not in a space: the first operator that breaks a limit, and the limit.


BINS = ("weak", "middle", "strong")
"""Names of the classes of hosts of Costream's rules (`optimizers.rules`)."""


def why_not(space: Space, deployment: Deployment, plan: ExecutionPlan) -> str:
    """Operator and limit for which a plan is not in the space, in words; empty if it is, or if the reason is none of
    those that have words."""
    if space.includes(deployment, plan):
        return ""
    return next(_reasons(space, deployment, plan), "")


def _reasons(space: Space, deployment: Deployment, plan: ExecutionPlan) -> Iterator[str]:
    for operator in deployment.query.topological:
        name, given = operator.name, deployment.plan
        places, before = ([str(place) for place in each.locations(name)] for each in (plan, given))
        if (operator.pinned or name in space.pinned) and sorted(places) != sorted(before):
            yield f"{name} is on {_listed(places)}, and pinned to {_listed(before)}"
            continue
        if outside := [host for host in plan.hosts(name) if host not in space.allowed.get(name, (host,))]:
            yield f"{name} is on {outside[0]}, and allowed on {', '.join(space.allowed[name])} only"
        if len(places) != len(before) and space.free_subtasks is False:
            yield f"{name} has {len(places)} subtasks, and their number stays {len(before)}"
        if len({*places}) > 1 and not space.spreads(deployment):
            yield f"{name} is on {_listed(places)}, and all of its subtasks are to be together"
    try:
        deployment.with_plan(plan)
    except BadInput as refusal:  # routes, shared queues, sockets: it names the operator or the stream
        yield str(refusal)
        return
    moved = [name for name in plan.placement if plan.locations(name) != deployment.plan.locations(name)]
    if space.most_moves is not None and len(moved) > space.most_moves:
        yield f"{', '.join(moved)} move, and at most {space.most_moves} may"
    if space.costream_rules:
        yield from _against_rules(deployment, plan)
    if space.free_subtasks and space.has_slots(deployment) and replace(space, slots=False).includes(deployment, plan):
        yield "its subtasks are not spread evenly over slots"


def _against_rules(deployment: Deployment, plan: ExecutionPlan) -> Iterator[str]:
    """Streams that break a rule of Costream: data reach a weaker class of hosts, or return to a host."""
    query, bins = deployment.query, bin_ranges(deployment.cluster)
    host = {each.name: plan.hosts(each.name)[0] for each in query.topological}
    floor: dict[str, str] = {}
    left: dict[str, set[str]] = {}
    for operator in query.topological:
        name, here = operator.name, host[operator.name]
        floor[name], left[name] = here, set()
        for stream in query.inputs(name):
            above = stream.producer
            strongest = floor[above]
            if bins[here].highest < bins[strongest].lowest:
                yield (
                    f"{name} is on {here} ({BINS[bins[here].highest]}), and its data come from {strongest} "
                    f"({BINS[bins[strongest].lowest]}): by Costream's rules they never flow to a weaker class of hosts"
                )
            if here != host[above] and here in left[above]:
                yield f"{name} is on {here}, which its data have left before: by Costream's rules they never return"
            left[name] |= left[above] | {host[above]}
            if bins[strongest].lowest > bins[floor[name]].lowest:
                floor[name] = strongest


def _listed(places: list[str]) -> str:
    return ", ".join(dict.fromkeys(places))
