"""Chooses the structure that explains measured CPU time: costs by operator, kind or function; hosts; waiting for cores.

The structure with the lowest Bayesian information criterion is chosen, so that more degrees of freedom must pay. Its
residual is the verdict on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from scipy import optimize

from scenarios.calibration.design import BUSY, Rows, Work, core_speeds, rows_of, work_of
from scenarios.calibration.least_squares import LinearFit, fit
from scenarios.calibration.point import Point, one_job
from scenarios.calibration.unit_costs import UnitCost, charged, of_functions, of_kinds, of_operators
from twin.errors import BadInput
from twin.rates.model import RateModel
from twin.scenario import Scenario

By = Literal["operator", "kind", "function"]
EXPONENTS = (0.4, 1.6)
"""Range of the exponent of a host: it gives its nominal cores to that power."""
TURNS = 3
"""Number of fits of the costs; before each but the first, speeds of operators that share cores are computed anew."""
EVIDENCE = 10.0
"""Least decrease of the criterion for each freedom that a profile lacks (very strong evidence)."""
SOUND = 0.05
"""Relative residual up to which a structure counts as right."""


@dataclass(frozen=True, slots=True)
class Structure:
    """Structure of costs. by: what costs belong to. exponent: of hosts, fitted if None. own_cores: replicas never wait
    for cores."""

    by: By
    exponent: float | None = 1.0
    own_cores: bool = False

    @property
    def words(self) -> str:
        """Description of the structure for people."""
        hosts = "" if self.exponent == 1.0 else ", hosts give a power of their cores"
        return f"costs by {self.by}{hosts}{', each replica on a core of its own' if self.own_cores else ''}"


@dataclass(frozen=True)
class Explained:
    """A structure fitted to points. exponent: of hosts, as found."""

    structure: Structure
    costs: tuple[UnitCost, ...]
    fit: LinearFit
    rows: Rows
    exponent: float

    @cached_property
    def criterion(self) -> float:
        """Bayesian information criterion; the lower, the better."""
        rows = len(self.rows.cores_r)
        shown = _shown(self.rows) + (self.structure.exponent is None)
        doubt = EVIDENCE * ((self.structure.by == "function") + (self.structure.exponent is None))
        return self.fit.deviance + shown * math.log(max(rows, 2)) + doubt

    @property
    def residual(self) -> float:
        """Share of the CPU time that is not explained: root mean square over the rows, relative."""
        return float(np.linalg.norm(self.off_r) / max(float(np.linalg.norm(self.rows.cores_r)), 1e-12))

    @property
    def off_r(self) -> np.ndarray:
        """Cores of each row that the fitted costs do not explain [R]."""
        return self.fit.errors_r / self.fit.weight_r

    @property
    def waits(self) -> bool:
        """Whether most of the unexplained is in busy times: a subtask that waits for a core is busy but uses no CPU."""
        squares_r = self.off_r**2
        of_busy_r = np.array([BUSY in name.rpartition(": ")[2] for name in self.rows.name_r])
        return bool(2.0 * squares_r[of_busy_r].sum() > squares_r.sum())

    @property
    def values(self) -> dict[str, float]:
        """Fitted costs by name."""
        return {cost.name: float(value) for cost, value in zip(self.costs, self.fit.values_k, strict=True)}


def candidates(points: Sequence[Point], by: By | None) -> list[Structure]:
    """Structures that these points can tell apart. by: the only owner of costs to consider; None: all."""
    alone = one_job(points)
    busy, hosts = any(point.busy for point in points), any(point.cpu for point in points)
    if by == "operator" and not alone:
        raise BadInput("--by operator is for points of one job, and these are of several; use --by kind or function")
    found: list[By] = [by] if by else ["operator", "kind"] if alone and busy else ["kind", "function"]
    sizes = {host.cpu_percent for point in points for host in point.scenario.cluster.hosts if host.name in point.cpu}
    structures = [Structure(each) for each in found]
    if hosts and max(sizes) > 1.5 * min(sizes):
        structures += [replace(each, exponent=None) for each in structures]
    if busy and alone and not hosts:  # where hosts differ, replicas of small ones get less than a core
        structures += [replace(each, own_cores=True) for each in structures]
    return structures


def explain(points: Sequence[Point], structures: Sequence[Structure], works: Works) -> list[Explained]:
    """Fits each structure; best first. Raises BadInput if there are too few rows for all of them."""
    found, missing = [], []
    of = {structure.by: [works.of(point, structure.by) for point in points] for structure in structures}
    free = {by: _shown(rows_of(points, each)) for by, each in of.items()}
    for structure in structures:
        if any(free.values()) and not free[structure.by]:
            continue  # all operators have service times of their own, so there is nothing to fit
        costs, each = works.costs(structure.by), of[structure.by]
        lacking = _lacking(points, each, structure)
        if lacking:
            missing.append(lacking)
            continue
        found.append(_fitted(points, each, costs, structure))
    if not found:
        raise BadInput(
            f"too few points: {min(missing)} more rows of busy times or host CPU are needed to fit "
            f"{structures[0].words}, with some left over to judge it by"
        )
    return sorted(found, key=lambda each: each.criterion)


def _lacking(points: Sequence[Point], works: Sequence[Work], structure: Structure) -> int:
    """Number of rows that are missing: there must be one more than constants that occur in rows."""
    rows = rows_of(points, works)
    return max(0, _shown(rows) + (structure.exponent is None) + 1 - len(rows.cores_r))


def _shown(rows: Rows) -> int:
    """Number of costs that occur in any row."""
    return int((np.abs(rows.need_rk).max(axis=0, initial=0.0) > 0).sum())


class Works:
    """Cache of the work of operators at points, by family of costs."""

    def __init__(self, points: Sequence[Point]) -> None:
        self._kept: dict[tuple[int, By], Work] = {}
        first = points[0].scenario
        self._costs: dict[By, tuple[UnitCost, ...]] = {
            "operator": tuple(of_operators(first.engine, first.query)),
            "kind": tuple(of_kinds(first.engine)),
            "function": tuple(of_functions(first.engine, (point.scenario.query for point in points))),
        }

    def costs(self, by: By) -> tuple[UnitCost, ...]:
        """Unit costs of a family."""
        return self._costs[by]

    def of(self, point: Point, by: By) -> Work:
        """Work of the operators at one point, by a family of costs."""
        if by == "kind":
            return self._by_kind(self.of(point, "function"))
        key = (id(point), by)
        if key not in self._kept:
            self._kept[key] = work_of(point, self._costs[by])
        return self._kept[key]

    def _by_kind(self, work: Work) -> Work:
        """Work by kind of operator from work by function: sums over the functions of a kind."""
        fine = [each.name.partition(":")[0] for each in self._costs["function"]]
        of_kind = [[name == cost.name for name in fine] for cost in self._costs["kind"]]
        return replace(work, each_ok=work.each_ok @ np.array(of_kind, dtype=float).T)


def _fitted(
    points: Sequence[Point], works: Sequence[Work], costs: tuple[UnitCost, ...], structure: Structure
) -> Explained:
    exponent = structure.exponent
    if exponent is None:

        def criterion(power: float) -> float:
            return _settled(points, works, costs, replace(structure, exponent=float(power)), turns=1).fit.deviance

        exponent = float(
            optimize.minimize_scalar(criterion, bounds=EXPONENTS, method="bounded", options={"xatol": 0.01}).x
        )
    found = _settled(points, works, costs, replace(structure, exponent=exponent), turns=TURNS)
    return replace(found, structure=structure)


def _settled(
    points: Sequence[Point], works: Sequence[Work], costs: tuple[UnitCost, ...], structure: Structure, turns: int
) -> Explained:
    exponent = structure.exponent or 1.0

    def with_speeds(speeds: list[np.ndarray] | None) -> Explained:
        rows = rows_of(points, works, exponent, speeds)
        return Explained(structure, costs, fit(rows, costs), rows, exponent)

    found = with_speeds(None)
    shared = any(point.busy for point in points) and not structure.own_cores
    for _ in range(turns - 1 if shared else 0):
        found = with_speeds([_speeds(with_power(charged(each.scenario, found.values), exponent)) for each in points])
    return found


def _speeds(scenario: Scenario) -> np.ndarray:
    """[O] share of a core that the slowest replica of each operator gets beside the others; exact if all of its hosts
    have cores of one speed."""
    answer = RateModel().answer(scenario, [scenario.plan])
    return answer.speed[0] / [min(core_speeds(scenario, name)) for name in answer.operators]


def with_power(scenario: Scenario, exponent: float) -> Scenario:
    """Scenario on hosts that give a power of their nominal cores."""
    if exponent == 1.0:
        return scenario
    cluster = scenario.cluster
    hosts = tuple(
        host.model_copy(update={"cpu_percent": host.others_percent + 100.0 * (host.left_percent / 100.0) ** exponent})
        for host in cluster.hosts
    )
    return scenario.model_copy(update={"cluster": cluster.model_copy(update={"hosts": hosts})})
