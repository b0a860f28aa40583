"""Plans in words and tables: the progress of a search, the hosts of operators, and predictions beside the given plan.

Each line of an answer names the plan that it is about: `as given` is the scenario's own, the other is the optimizer's.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from optimizers.interface import Candidate, PlanningProgress, Solution
from scenarios.planning.planner import HostsChosen
from scenarios.planning.searching import SearchTold
from scenarios.questions.optimize import PlanFound
from streamtwin.tables import tables
from streamtwin.tables.tables import Wide
from twin.plan import ExecutionPlan
from twin.quantities import unit_of_time, written
from twin.query import Query

OF = {"p50": "median", "p95": "95 %", "p99": "99 %"}
OBJECTIVES: Mapping[str, str] = {
    "e2e_latency_s": "end-to-end latency, mean",
    "processing_latency_s": "processing latency, mean",
    "throughput_per_s": "results a second",
    "result_delay_s": "delay of results behind their windows, mean",
    **{
        f"{name}.{q}": f"{words}, {share}"
        for name, words in (
            ("e2e_latency_s", "end-to-end latency"),
            ("processing_latency_s", "processing latency"),
            ("result_delay_s", "delay of results behind their windows"),
        )
        for q, share in OF.items()
    },
    "checkpoint_duration_s": "duration of checkpoints, mean",
    "checkpoint_bytes": "bytes of a checkpoint, mean",
    "price": "price of the hosts",
    "traffic_bytes_per_s": "bytes a second between hosts",
    "subtasks_changed": "subtasks moved, started or stopped",
}
"""Words for all of `optimizers.objectives`."""
EVERY_S = 2.0
"""Least time between two lines of progress, where there is no terminal."""


def words(standing: PlanningProgress, objective: str) -> str:
    """Line on the progress of a search."""
    total = "" if standing.total is None else f" of {standing.total:,}"
    found = f"{standing.done:,}{total} {standing.what}"
    if standing.best is not None:
        found += f"; best {value(standing.best, objective)}"
    if standing.bound is not None:
        found += f", none better than {value(standing.bound, objective)}"
    return found


def value(number: float, objective: str) -> str:
    """Number in the unit of an objective."""
    return quantity(objective)(number) + "/s" * objective.endswith("per_s")


def now_and_then(say: Callable[[str], None], objective: str) -> Callable[[PlanningProgress], None]:
    """Function that prints a line of progress when another quantity is counted, and else every EVERY_S."""
    what, at_s = "", 0.0

    def report(standing: PlanningProgress) -> None:
        nonlocal what, at_s
        if standing.what != what or time.monotonic() - at_s >= EVERY_S:
            what, at_s = standing.what, time.monotonic()
            say(words(standing, objective))

    return report


@contextmanager
def one_line(objective: str) -> Iterator[Callable[[PlanningProgress], None]]:
    """Context with a function that shows progress in one line on stderr, which changes in its place."""
    import sys

    from rich.console import Console

    with Console(file=sys.stderr).status("planning") as status:
        yield lambda standing: status.update(words(standing, objective))


GIVEN = "as given"
LACKS = {True: "not as required", False: "does not keep up"}
"""Words for a plan that is not feasible, by whether it runs."""
PROVED = 0.0005
"""Gap below which it is 0.0 % in print, and left out beside `optimal`."""


def told(found: PlanFound) -> list[Any]:
    """Tables and sentences on a plan that was found."""
    search, solution = found.search, found.solution
    optimizer, objective, shown = found.answer_by, search.objective, quantity(search.objective)
    said: list[Any] = [verdict(found), placements(search.job.name, search.job.plan, solution, optimizer)]
    if solution.plan.fused:
        said.append(f"run as one: {'; '.join(' + '.join(group) for group in solution.plan.fused)}")
    best_runs = 0 if found.by_runs is None else found.by_runs.told.best_runs
    said.append(estimates(search.job.plan, solution, optimizer, found.judge, objective, best_runs))
    by_run = "" if found.outcome is None else f"; simulated, by {optimizer}: {objective} = {shown(found.outcome)}"
    said.append(f"{claim(solution)}{by_run}")
    if found.refusal:
        said.append(found.refusal)
    if found.by_runs is not None:
        said += of_search(found.by_runs.told, shown)
    if found.beside is not None:
        said += found.beside.told(shown(found.beside.predicted or 0.0))
    if found.between is not None:
        low, high = map(shown, found.between)
        within = f"nine runs of ten should be between {low} and {high}, by the model's errors on other runs"
        said.append(f"by {optimizer}, {within}")
    said += found.doubts
    if found.hosts is not None:
        said += on_hosts(found.hosts, found.price, found.given_price)
    if found.slots is not None:
        said.append(found.slots.words)
    return said


def verdict(found: PlanFound) -> str:
    """Sentence on the answer: how many operators move, what the objective is then, and what it was."""
    solution, before = found.solution, found.search.job.plan.placement
    objective, shown = found.search.objective, quantity(found.search.objective)
    moved = sum(places != before[name] for name, places in solution.plan.placement.items())
    what = f"{moved} of {len(before)} operators move" if moved else "no operator moves"
    how = "simulated" if solution.simulated else "predicted"
    state = "" if solution.feasible else f", but it {'is ' * solution.runs}{LACKS[solution.runs]}"
    given = solution.given
    as_given = "" if given is None or not moved else f"; {GIVEN}: {shown(given.objective)}, {_state(given)}"
    return f"{what}: {objective} is {shown(solution.objective)}, {how}{state}{as_given}"


def of_search(told: SearchTold, shown: Callable[[float], str]) -> Iterator[Any]:
    """Table of the path of a search by runs, and a sentence on its answer."""
    rows, before = list[dict[str, Any]](), ""
    for step in told.path:
        if step.found_by != before or step is told.path[-1]:
            state = "" if step.as_required else "not as required"
            best = shown(math.inf if step.best is None else step.best)
            rows.append({"runs": step.runs, "best": best, "by": step.found_by, "state": state})
        before = step.found_by
    columns = {"runs": "runs", "best": "of the plan kept", "by": "found by", "state": ""}
    yield tables.of_rows("the search", columns, rows)
    within = ""
    if told.interval is not None:
        low, high = (shown(each if each is not None else math.inf) for each in told.interval)
        within = f"; by {told.best_runs} runs of the best plan, it is between {low} and {high} (95 %)"
    yield f"{told.runs} run{'s' * (told.runs > 1)} in {told.cpu_seconds:.1f} CPU s{within}"
    for name, value in told.limits.items():
        yield f"{name} of the best plan: {quantity(name)(math.inf if value is None else value)}"


def placements(name: str, given: ExecutionPlan, solution: Solution, optimizer: str) -> Wide:
    """Table of the places of each operator's subtasks under both plans."""
    before, after = (each.model_dump(mode="json")["placement"] for each in (given, solution.plan))
    rows = [
        {"operator": operator, "before": tables.places(before[operator]), "after": tables.places(where)}
        for operator, where in after.items()
    ]
    columns = {"operator": "operator", "before": GIVEN, "after": f"by {optimizer}"}
    return tables.of_rows(f"{name}: where operators run", columns, rows)


def estimates(
    given: ExecutionPlan, solution: Solution, optimizer: str, judge: str, objective: str, runs: int = 0
) -> Wide:
    """Table of predictions, or simulations, for both plans, or one if the given plan is the answer, and for those by
    rates for each load. runs: of the answer, where plans have different numbers of them."""
    shown = quantity(objective)
    kept = solution.plan == given

    def row(plan: str, value: float, state: Candidate | Solution, count: int) -> dict[str, Any]:
        return {"plan": plan, "value": shown(value), "state": _state(state), "runs": count}

    rows = list[dict[str, Any]]()
    if solution.given is not None and not kept:
        rows.append(row(GIVEN, solution.given.objective, solution.given, solution.given.simulated))
    rows += [
        row(f"by {name}", each.objective, each, each.simulated)
        for name, each in solution.starts.items()
        if name != GIVEN
    ]
    answer = f"{GIVEN}, kept" if kept else f"by {optimizer}"
    known = solution.given if kept and solution.given is not None else solution
    rows.append(row(answer, solution.objective, known, runs))
    columns = {"plan": "plan", "value": objective, "state": "outcome"} | ({"runs": "runs"} if runs else {})
    return tables.of_rows(judge if solution.simulated else f"predicted by {judge}", columns, rows)


def on_hosts(hosts: HostsChosen, price: float | None, before: float | None) -> Iterator[str]:
    """Sentences on the hosts that a plan uses, what that saves, and what it bears. price: of them, before: of those of
    the given plan; None without prices."""
    same = {*hosts.chosen} == {*hosts.given}
    words = f"hosts: {_some(hosts.chosen, price)}"
    words += ", as given" if same else f", instead of {_some(hosts.given, before)}"
    if price is not None and before and price != before:
        became = "saved" if price < before else "added"
        words += f"; {written(abs(before - price), 4)} ({abs(1 - price / before):.0%}) is {became}"
    if hosts.pinned:
        words += f"; {', '.join(hosts.pinned)} {'is' if len(hosts.pinned) == 1 else 'are'} pinned there, so none can go"
    yield words
    if hosts.bears is not None:
        then = f"; what binds then: {hosts.binds}" if hosts.binds else ""
        yield f"by rates it bears {tables.number(hosts.bears)} times the offered rates{then}"


def _some(names: Sequence[str], price: float | None) -> str:
    return f"{', '.join(names)}{'' if price is None else f' for {written(price, 4)}'}"


def claim(solution: Solution) -> str:
    """Sentence on what the search did and proved."""
    claimed = solution.status != "feasible" or solution.bound is not None
    among = f" ({solution.among})" if solution.among and claimed else ""
    weighed = f", {solution.weighed:,} placements weighed in the search" if solution.weighed else ""
    how = "simulated" if solution.simulated else "estimated"
    count = solution.simulated or solution.evaluations
    estimated = f"{count:,} plan{'s' * (count != 1)} {how}{weighed}"
    lacks = "" if solution.feasible or solution.status == "infeasible" else f", but {LACKS[solution.runs]}"
    words = f"{solution.status}{among}{lacks}: {estimated}, in {solution.seconds:.2f} s"
    if solution.gap is not None and not (solution.status == "optimal" and solution.gap < PROVED):
        whose = "no plan that keeps up" if solution.feasible else "no plan"
        words += f"; {whose} can be more than {solution.gap:.1%} better by this model"
    return words


def moved_ends(query: Query, before: ExecutionPlan, after: ExecutionPlan) -> str | None:
    """Note on sources and sinks that would run on other hosts than now; None if they stay."""
    ends = (each.name for each in (*query.sources, *query.sinks))
    moved = [name for name in ends if {*after.hosts(name)} != {*before.hosts(name)}]
    if not moved:
        return None
    them = "it" if len(moved) == 1 else "them"
    return f"{', '.join(moved)} would run elsewhere; if a device or a place binds {them}: --pin {','.join(moved)}"


def quantity(objective: str) -> Callable[[float], str]:
    """Function that writes values of a target metric."""
    return tables.seconds if unit_of_time(objective) == "s" else tables.number


def _state(found: Candidate | Solution) -> str:
    if isinstance(found, Candidate) and found.success < 0.5:
        return "fails"
    kept = "keeps up, but " * found.runs
    return "keeps up" if found.feasible else f"{kept}{LACKS[found.runs]}"
