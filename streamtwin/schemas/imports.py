"""What importers, profiles and calibrations print with --json."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from scenarios.calibration.profile_file import CalibratedProfile
from scenarios.files.documents import CLOSED, Number, PerSecond
from streamtwin.connect.profiling.profile_files import Profiles
from twin.cluster import Cluster
from twin.scenario import Scenario


@CLOSED
class ScenarioDocument(TypedDict):
    """`twin use-profile`."""

    scenario: Scenario


@CLOSED
class MeasuredPart(TypedDict):
    """Of an operator; tuples a second of all its replicas that reported."""

    operator: str
    kind: str
    in_per_s: Number
    out_per_s: PerSecond
    offered_per_s: Number
    replicas: int
    reports: int


@CLOSED
class RunGraphDocument(TypedDict):
    """`twin import run-graph`."""

    scenario: Scenario
    measured: list[MeasuredPart]
    notes: list[str]


@CLOSED
class FlinkDocument(TypedDict):
    """`twin import flink`. readings: rows of one operating point, as `twin calibrate` takes them."""

    scenario: Scenario
    readings: list[dict[str, Any]]
    notes: list[str]


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
class ComparisonPart(TypedDict):
    """An operator of a published run beside the simulated one."""

    run: str
    family: str
    operator: str
    kind: str
    measured_in_per_s: Number
    predicted_in_per_s: Number
    measured_out_per_s: PerSecond
    predicted_out_per_s: PerSecond
    relative_error_in: Number
    relative_error_out: Number


@CLOSED
class ErrorPart(TypedDict):
    """Relative errors of several quantities."""

    quantities: int
    median: Number
    p90: Number
    within_5_percent: Number


@CLOSED
class ValidateRunsDocument(TypedDict):
    """`twin validate-runs`. beside: what needs no simulation. failed: runs that were left out, and why."""

    median_relative_error: Number
    beside: dict[str, ErrorPart]
    runs: int
    by_quantity: dict[str, ErrorPart]
    by_family: dict[str, ErrorPart]
    operators: list[ComparisonPart]
    failed: dict[str, str]
    notes: dict[str, list[str]]


class ProfileDocument(Profiles):
    """`twin profile`. percentile: that service times are taken at."""

    percentile: float


@CLOSED
class TriedPart(TypedDict):
    """A structure that was fitted; the least criterion is chosen."""

    structure: str
    residual: Number
    criterion: Number


class CalibrateDocument(CalibratedProfile):
    """`twin calibrate`: the profile; contradictions: readings that the others speak against."""

    contradictions: list[str]
    tried: list[TriedPart]
