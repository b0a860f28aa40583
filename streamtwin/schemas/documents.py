"""What commands print with --json that is no result type of its own."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from scenarios.calibration.intervals import Prediction
from scenarios.calibration.profile_file import CalibratedProfile, NextPoint
from scenarios.files.documents import CLOSED, Number
from scenarios.learning.learner import EvaluationTable
from scenarios.planning.validation import ValidationRow
from streamtwin.connect.profiling.profile_files import Profiles
from twin.cluster import Cluster
from twin.scenario import Scenario


@CLOSED
class ReportDocument(TypedDict):
    """`twin report`."""

    page: str
    bytes: int


@CLOSED
class ServeDocument(TypedDict):
    """`twin serve`, as soon as it serves. state: the folder in which changes are kept."""

    address: str
    state: str


@CLOSED
class ExportDocument(TypedDict):
    """`twin export`."""

    format: str
    path: str


@CLOSED
class ListDocument(TypedDict):
    """`twin list`: by name, a line on each."""

    scenarios: dict[str, str]
    optimizers: dict[str, str]
    policies: dict[str, str]
    cost_models: dict[str, str]
    spaces: dict[str, str]
    families: dict[str, str]
    experiments: dict[str, str]


@CLOSED
class VersionDocument(TypedDict):
    """`twin version`."""

    version: str


ReproduceDocument = dict[str, dict[str, str | list[dict[str, Any]]]]
"""Rows by experiment and table; without names, a line by experiment."""


@CLOSED
class ScenarioDocument(TypedDict):
    """`twin use-profile`."""

    scenario: Scenario
    predictions: list[Prediction]


@CLOSED
class MachineDocument(TypedDict):
    """`twin import lstopo`, `numactl` and `mlc`."""

    cluster: Cluster
    notes: list[str]


@CLOSED
class RowsDocument(TypedDict):
    """`twin import metrics`."""

    rows: int


@CLOSED
class DatasetDocument(TypedDict):
    """`twin dataset`. runs: of the corpus, those that failed included."""

    runs: int
    rows: int
    failed: int


@CLOSED
class DemoDocument(TypedDict):
    """`twin demo`. seconds: of each stage."""

    out: str
    report: str
    seconds: dict[str, float]
    training_rows: int
    rows: list[ValidationRow]
    accuracy: EvaluationTable


class ProfileDocument(Profiles):
    """`twin profile`. percentile: that service times are taken at."""

    percentile: float


@CLOSED
class TriedStructure(TypedDict):
    """A structure that was fitted; the least criterion is chosen."""

    structure: str
    residual: Number
    criterion: Number


class CalibrateDocument(CalibratedProfile):
    """`twin calibrate`: the profile; contradictions: readings that the others speak against."""

    contradictions: list[str]
    tried: list[TriedStructure]
    tells_most: NextPoint | None
