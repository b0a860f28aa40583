"""Brings key groups that exchange much onto one host, and keeps the hosts balanced: ALBIC, and our joint search.

Rounds are those of `balance`; besides loads, the traffic between key groups is measured. A round is carried out if it
brings more traffic together, or balances better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from optimizers.balancing.albic import Albic
from optimizers.balancing.balance import Balance
from optimizers.balancing.interface import Assignment
from optimizers.balancing.joint import Joint
from optimizers.balancing.objective import relieved
from optimizers.balancing.search import Search
from optimizers.policies.balance import SEARCHED, Round, Rounds
from optimizers.policies.group_map import GroupMap
from twin.control import PolicySpec, Reconfiguration
from twin.deployment import Deployment

LITTLE = 1e-6
"""Percent of all traffic, or percentage points of a load distance, below which nothing is gained."""


class AlbicSpec(Round, PolicySpec):
    """What of it can be set; the defaults of maxLD, maxPL, stepPL and sF are the paper's."""

    name: Literal["albic"] = "albic"
    pairs: Annotated[
        Literal["one", "several"], Field(description="that are brought together in a round; one, as published")
    ] = "several"
    share: Annotated[float, Field(gt=0, le=1, description="of the budget that several pairs may take")] = 0.6
    max_distance: Annotated[float, Field(gt=0, le=100, description="maxLD (percentage points)")] = 10.0
    max_partition: Annotated[float, Field(gt=0, le=100, description="maxPL: load that moves as one (percent)")] = 25.0
    step: Annotated[float, Field(gt=0, le=100, description="stepPL (percent)")] = 5.0
    score_factor: Annotated[float, Field(gt=0, description="sF: times the average traffic of a pair")] = 1.5

    def start(self, deployment: Deployment) -> Collocating:
        """For one run."""
        solver = Albic(
            max_distance=self.max_distance,
            max_partition=self.max_partition,
            step=self.step,
            score_factor=self.score_factor,
            share=self.share if self.pairs == "several" else None,
            inner=Search(looks=SEARCHED, band=self.band),
        )
        return Collocating(deployment, self, solver, self.name)


class JointSpec(Round, PolicySpec):
    """What of it can be set."""

    name: Literal["joint"] = "joint"
    band: Annotated[float, Field(ge=0, le=100, description="percentage points off the mean that hosts may be")] = 3.0
    max_partition: Annotated[float, Field(gt=0, le=100, description="load that moves as one (percent)")] = 25.0
    score_factor: Annotated[float, Field(gt=0, description="times the average traffic of a pair")] = 1.5
    steps: Annotated[int, Field(gt=0, le=100_000, description="of the search in a round, at most")] = 300

    def start(self, deployment: Deployment) -> Collocating:
        """For one run."""
        solver = Joint(
            band=self.band,
            max_partition=self.max_partition,
            score_factor=self.score_factor,
            steps=self.steps,
            inner=Search(looks=SEARCHED, band=self.band),
        )
        return Collocating(deployment, self, solver, self.name)


@dataclass
class Collocating(Rounds):
    """Rounds in which traffic counts. Where no pair exchanges more than others, hosts are balanced and no more."""

    solver: Albic | Joint

    def _round(self, here: GroupMap) -> Reconfiguration | None:
        balance = here.balance(self.spec.budget, with_traffic=True)
        pairs = balance.traffic is not None and balance.traffic.mutual(self.solver.score_factor).any()
        plan = (self.solver if pairs else self.solver.inner).solve(balance)
        if balance.violation(plan.node_g) or not gained(balance, plan):
            return None
        return Reconfiguration(
            moves=here.moves(plan.node_g), reason=reason(balance, plan), figures=figures(balance, plan)
        )


def gained(balance: Balance, plan: Assignment) -> bool:
    """Whether anything moves, and more traffic is together or the load distance is smaller."""
    closer = collocation(plan) - together(balance)
    nearer = balance.distance(balance.home_g) - distance(balance, plan)
    return bool(len(plan.moves)) and (closer > LITTLE or nearer > LITTLE)


def figures(balance: Balance, plan: Assignment) -> dict[str, float]:
    """For the record of a decision: load distances and collocation factors, as they are and as planned."""
    told = {"load_distance": balance.distance(balance.home_g), "planned": distance(balance, plan)}
    if balance.traffic is None:
        return told
    return told | {"collocation": together(balance), "planned_collocation": collocation(plan)}


def reason(balance: Balance, plan: Assignment) -> str:
    """For people."""
    told = f"load distance {balance.distance(balance.home_g):.3g}, planned {distance(balance, plan):.3g}"
    if balance.traffic is None:
        return told
    return f"{told}; traffic on one host {together(balance):.3g} %, planned {collocation(plan):.3g} %"


def distance(balance: Balance, plan: Assignment) -> float:
    """Planned, with what need not be serialised then."""
    return relieved(balance, plan.node_g).distance(plan.node_g)


def together(balance: Balance) -> float:
    """Percent of the traffic that is on one host now."""
    return 100.0 if balance.traffic is None else balance.traffic.factor(balance.home_g)


def collocation(plan: Assignment) -> float:
    """Percent of the traffic that will be."""
    return 100.0 if plan.collocation is None else plan.collocation
