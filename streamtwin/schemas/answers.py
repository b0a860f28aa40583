"""What questions print with --json, which is answer.json in their folders, too."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from streamtwin.schemas.documents import CLOSED, Known, Number, Seconds, Share


@CLOSED
class CellPart(Known):
    """A metric of a variant; what follows is the paired difference from the first variant, which has none."""

    difference: NotRequired[Number]
    difference95: NotRequired[Number]
    share: NotRequired[Number]
    share95: NotRequired[Number]
    p_value: NotRequired[Number]
    p_adjusted: NotRequired[Number]
    significant: NotRequired[bool]
    words: NotRequired[str]


@CLOSED
class VariantPart(TypedDict):
    """settings: what was done to the scenario. full: operators and hosts with nothing to spare. course: by period,
    with `compare-policies` alone."""

    variant: str
    settings: dict[str, Any]
    policy: str | None
    backpressured_runs: int
    success_runs: int
    metrics: dict[str, CellPart]
    full: list[str]
    warnings: list[str]
    course: NotRequired[dict[str, list[Number]]]


@CLOSED
class ComparisonDocument(TypedDict):
    """`twin whatif` and `twin compare`. needed: runs of each that the precision would take; null if it is reached."""

    scenario: str
    compared_with: str
    metrics: list[str]
    seed: int
    replications: int
    precision: Number
    needed: int | None
    comparisons: int
    variants: list[VariantPart]


@CLOSED
class PoliciesDocument(ComparisonDocument):
    """`twin compare-policies`."""

    slo_s: Number


@CLOSED
class ResourcePart(TypedDict):
    """At the border; head_room: times as much that it could bear."""

    kind: str
    name: str
    used: Share
    head_room: Number
    used_beyond: Number


@CLOSED
class ContradictionPart(TypedDict):
    """Two values of one repetition that no single border explains."""

    fails_at: float
    holds_at: float


CapacityDocument = TypedDict(
    "CapacityDocument",
    {
        "scenario": str,
        "find": Literal["max", "min"],
        "of": str,
        "while": str,
        "status": Literal["found", "always", "never", "sometimes"],
        "replications": int,
        "seed": int,
        "precision": float,
        "value": Number,
        "interval95": NotRequired[list[float]],
        "holds_in_all": NotRequired[float],
        "borders": NotRequired[list[float]],
        "share_that_holds95": NotRequired[Share],
        "longer_runs_fail": NotRequired[int | None],
        "looked_at": NotRequired[list[float]],
        "monotone": bool,
        "contradiction": ContradictionPart | None,
        "fails_first": dict[str, int],
        "not_valid": str | None,
        "binds": str,
        "resources": list[ResourcePart],
        "values": list[float],
        "holds": list[dict[str, bool]],
    },
)
CLOSED(CapacityDocument)


@CLOSED
class InputPart(TypedDict):
    """mu_star: mean size of its effect (Morris). first, total: shares of the variance (Sobol), if it matters."""

    input: str
    low: float
    high: float
    mu: float
    mu_star: float
    mu_star95: Number
    sigma: float
    matters: bool
    first: Number
    first95: Number
    total: Number
    total95: Number
    given: float
    at_low: float
    at_high: float


@CLOSED
class SensitivityDocument(TypedDict):
    """`twin sensitivity`; the inputs that matter most first."""

    scenario: str
    metric: str
    seed: int
    trajectories: int
    samples: int
    replications: int
    given: float
    inputs: list[InputPart]


@CLOSED
class DryRunDocument(TypedDict):
    """`twin dry-run`. course: `without` and `with` the change, by period, means over the runs. full: measures where the
    whole job restarts, and saved: how much more they are, with --failover both.
    """

    scenario: str
    change: str
    at_s: Seconds
    seed: int
    replications: int
    period_s: Seconds
    keeps_up_without: int
    measures: dict[str, Known]
    full: NotRequired[dict[str, Known]]
    saved: NotRequired[dict[str, Known]]
    course: dict[str, dict[str, list[Number]]]
    warnings: list[str]
