"""What commands that choose and judge plans print with --json."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from scenarios.files.documents import CLOSED, Number, Seconds

Placement = dict[str, Any]
"""By operator the hosts of its replicas, or their sockets."""


@CLOSED
class GivenPart(TypedDict):
    """The scenario's own plan, by the same cost model."""

    predicted: Number
    backpressured: bool
    success: bool


@CLOSED
class _Chosen(TypedDict):
    scenario: str
    optimizer: str
    cost_model: str
    objective: str
    status: str
    predicted: Number
    keeps_up: bool
    given: GivenPart | None
    simulated: Number
    bound: Number
    gap: Number
    evaluations: int
    weighed: int
    seconds: Seconds
    message: str
    among: str
    placement: Placement
    key_groups: dict[str, Any]
    fused: list[list[str]]
    interval: list[Number] | None
    blind_to: list[str]
    interrupted: bool


@CLOSED
class OptimizeDocument(_Chosen, total=False):
    """`twin optimize`. keeps_up: whether the plan is predicted to, and fulfils what else is required. bound, gap: null
    where nothing is proved. price, given_price: where hosts have prices."""

    price: float
    given_price: float


@CLOSED
class JudgedPart(TypedDict):
    """A chosen plan in the simulator; null where there is none, or it is infinite. Units are the objective's."""

    scenario: str
    optimizer: str
    cost_model: str
    objective: str
    status: str
    message: str
    predicted: Number
    simulated: Number
    ci95: Number
    best: Number
    regret: Number
    regret_ci95: Number
    backpressured: bool | None
    success: bool | None
    plan_s: Number
    evaluations: int | None
    references: int | None
    plan: Placement | None


@CLOSED
class StandingPart(TypedDict):
    """An optimizer and cost model over all scenarios; regrets without those that are spoilt."""

    optimizer: str
    cost_model: str
    scenarios: int
    refused: int
    failed: int
    spoilt: int
    mean: Number
    ci95: Number
    median: Number
    p90: Number
    plan_s: Number
    evaluations: Number


@CLOSED
class ValidateDocument(TypedDict):
    """`twin validate`. blind_to: by scenario and cost model."""

    objective: str
    rows: list[JudgedPart]
    standings: list[StandingPart]
    blind_to: dict[str, dict[str, list[str]]]


@CLOSED
class BenchmarkDocument(TypedDict):
    """`twin benchmark`. most: scenarios of each family; null: all. optimizers: null: the usual ones."""

    suite: Any
    families: list[str]
    optimizers: str | None
    cost_models: str
    drive: str | None
    most: int | None
    budget: int
    seconds: Number
    replications: int
    references: int
    seed: int
    standings: list[StandingPart]
    by_family: dict[str, list[StandingPart]]
    rows: list[JudgedPart]
