"""What commands that make and judge cost models print with --json."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

from scenarios.files.documents import CLOSED, Number, Seconds
from streamtwin.schemas.plans import JudgedPart


@CLOSED
class CorpusDocument(TypedDict):
    """`twin corpus`. runs, failed: of the whole corpus; resumed: that were there. card: its description."""

    runs: int
    failed: int
    resumed: int
    wall_s: Seconds
    simulation_cpu_s: Seconds
    card: str


@CLOSED
class DatasetDocument(TypedDict):
    """`twin dataset`. runs: of the corpus, those that failed included."""

    runs: int
    rows: int
    failed: int


@CLOSED
class EvaluationPart(TypedDict):
    """A model on a metric: q-errors of numbers, balanced accuracy of flags; null where it does not apply."""

    metric: str
    model: str
    rows: int
    q50: Number
    q95: Number
    accuracy: Number
    q50_se: Number
    q95_se: Number
    accuracy_se: Number


@CLOSED
class TunedPart(EvaluationPart):
    """The same before fine-tuning beside it; null where the model could not say anything then."""

    queries: str
    q50_before: Number
    q95_before: Number
    accuracy_before: Number


TrainDocument = TypedDict(
    "TrainDocument",
    {
        "model": str,
        "rows": dict[str, int],
        "metrics": NotRequired[list[str]],
        "validation_losses": NotRequired[list[Number]],
        "from": NotRequired[str],
        "evaluation": NotRequired[list[TunedPart]],
    },
)
CLOSED(TrainDocument)


@CLOSED
class StratumPart(TypedDict):
    """Where the error of a model sits; pairs: replicates from which its noise is known."""

    metric: str
    model: str
    stratum: str
    rows: int
    q50: Number
    q95: Number
    accuracy: Number
    error: Number
    share: Number
    noise: Number
    noise_share: Number
    pairs: int


@CLOSED
class EvaluateDocument(TypedDict):
    """`twin evaluate`. part: which rows. strata: with --by-stratum alone."""

    part: str
    runs: int
    rows: list[EvaluationPart]
    notes: list[str]
    strata: NotRequired[list[StratumPart]]


@CLOSED
class ImprovedPart(TypedDict):
    """A model on all judging jobs. runs: that it learned from."""

    strategy: str
    round: int
    runs: int
    regret: Number
    ci95: Number
    regret_median: Number
    spoilt: int
    error_median: Number
    error_p95: Number


@CLOSED
class ImproveDocument(TypedDict):
    """`twin improve`. weights: digits over the networks that it began with. compared: of two strategies, in words."""

    command: str
    model: str
    weights: str
    on: str
    seed: int
    jobs: int
    runs: int
    pool: int
    judges: int
    plans: int
    rehearse: str | None
    rounds: int
    rows: list[ImprovedPart]
    compared: str | None


@CLOSED
class DemoDocument(TypedDict):
    """`twin demo`. seconds: of each stage."""

    out: str
    report: str
    seconds: dict[str, float]
    training_rows: int
    rows: list[JudgedPart]
    accuracy: EvaluateDocument
