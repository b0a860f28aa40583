"""Balances the hosts by moving key groups: ALBIC's adaptation, Algorithm 1 (Madsen, Zhou, Cao 2016) without scaling.

The other policies here differ in their solver: Flux, and COLA from scratch in every round, are baselines. ALBIC and our
joint search also bring key groups that exchange much onto one host: their traffic is measured too, and a round
is carried out if it brings more traffic together, or balances better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from optimizers.balancing.albic import Albic
from optimizers.balancing.cola import Cola
from optimizers.balancing.flux import Flux
from optimizers.balancing.joint import Joint
from optimizers.balancing.problem import Assignment, Balance, Solver
from optimizers.balancing.search import Search
from optimizers.policies.rounds import SEARCHED, Round, Rounds
from twin.control import PolicySpec
from twin.deployment import Deployment

NO_LIMIT = 10**9


class BalanceSpec(Round, PolicySpec):
    """Settings of policy `balance`: hosts are balanced by moving key groups."""

    name: Literal["balance"] = "balance"
    solver: Annotated[Literal["search", "milp", "flux", "flux-best-fit"], Field(description="as in docs/albic.md")] = (
        "search"
    )
    seconds: Annotated[float, Field(gt=0, le=3600, description="that HiGHS has for a round, if milp is the solver")] = 5

    def start(self, deployment: Deployment) -> Rounds:
        """Starts the policy for one run."""
        return Rounds(deployment, self, self._solver(), self.name)

    def _solver(self) -> Solver:
        search = Search(looks=SEARCHED, band=self.band)
        if self.solver == "milp":
            from optimizers.balancing.milp import BalanceMilp  # here, because no other solver needs HiGHS

            return BalanceMilp(seconds=self.seconds, start=search)
        return search if self.solver == "search" else Flux(best_fit=self.solver == "flux-best-fit")


class FluxSpec(Round, PolicySpec):
    """Settings of policy `flux`."""

    name: Literal["flux"] = "flux"

    def start(self, deployment: Deployment) -> Rounds:
        """Starts the policy for one run."""
        return Rounds(deployment, self, Flux(), self.name)


class ColaSpec(PolicySpec):
    """Settings of policy `cola`, which has no budget. Moves of groups that cannot move are left out of its plan."""

    name: Literal["cola"] = "cola"
    max_distance: Annotated[
        float, Field(gt=0, le=100, description="load distance that is even enough (percentage points)")
    ] = 10.0
    every_periods: Annotated[int, Field(ge=1, description="periods of a round; loads are means over them")] = 1

    @property
    def periods_before_acting(self) -> int:
        """Number of periods before the policy can act: one round."""
        return self.every_periods

    def start(self, deployment: Deployment) -> Rounds:
        """Starts the policy for one run."""
        spec = Round(max_migrations=NO_LIMIT, every_periods=self.every_periods)
        return Rounds(deployment, spec, Cola(self.max_distance), self.name, with_traffic=True, limited=False)


class AlbicSpec(Round, PolicySpec):
    """Settings of policy `albic`; the defaults of maxLD, maxPL, stepPL and sF are the paper's."""

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
        """Starts the policy for one run."""
        solver = Albic(
            max_distance=self.max_distance,
            max_partition=self.max_partition,
            step=self.step,
            score_factor=self.score_factor,
            share=self.share if self.pairs == "several" else None,
            inner=Search(looks=SEARCHED, band=self.band),
        )
        return Collocating(deployment, self, solver, self.name, with_traffic=True)


class JointSpec(Round, PolicySpec):
    """Settings of policy `joint`."""

    name: Literal["joint"] = "joint"
    band: Annotated[float, Field(ge=0, le=100, description="percentage points off the mean that hosts may be")] = 3.0
    max_partition: Annotated[float, Field(gt=0, le=100, description="load that moves as one (percent)")] = 25.0
    score_factor: Annotated[float, Field(gt=0, description="times the average traffic of a pair")] = 1.5
    steps: Annotated[int, Field(gt=0, le=100_000, description="of the search in a round, at most")] = 300

    def start(self, deployment: Deployment) -> Collocating:
        """Starts the policy for one run."""
        solver = Joint(
            band=self.band,
            max_partition=self.max_partition,
            score_factor=self.score_factor,
            steps=self.steps,
            inner=Search(looks=SEARCHED, band=self.band),
        )
        return Collocating(deployment, self, solver, self.name, with_traffic=True)


@dataclass
class Collocating(Rounds):
    """Rounds of a solver that collocates. Where no pair exchanges more than others, hosts are only balanced."""

    solver: Albic | Joint

    def _plan(self, balance: Balance) -> Assignment:
        pairs = balance.traffic is not None and balance.traffic.mutual(self.solver.score_factor).any()
        return (self.solver if pairs else self.solver.inner).solve(balance)
