"""JSON Schemas of the documents that commands print with --json, and the types of those that are no result types."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NotRequired, get_type_hints

from typing_extensions import TypedDict

from scenarios.calibration.calibrate import Prediction
from scenarios.calibration.profile_file import CalibratedProfile, NextPoint
from scenarios.files.documents import CLOSED, Number, Seconds, schema
from scenarios.learning import CorpusWritten, EvaluationTable, ModelTrained
from streamtwin.connect.importers.flink_config import ImportedConfiguration
from streamtwin.connect.importers.flink_scenario import ImportedJob
from streamtwin.connect.importers.kafka_streams import ImportedTopology
from streamtwin.connect.importers.run_graph import ImportedRun, RunsValidated
from streamtwin.connect.profiles import Profiles
from streamtwin.demo.story import JudgedPlan
from streamtwin.questions.registry import QUESTIONS
from twin.cluster import Cluster
from twin.errors import BadInput, suggest
from twin.metrics import Metrics, StandardErrors
from twin.run import HostTotals, LinkTotals, OperatorTotals
from twin.scenario import Scenario


class Happened(TypedDict):
    """Change of the running job. end_s: null while it lasts. bytes: of state that was moved."""

    at_s: Seconds
    end_s: Number
    kind: str
    component: str
    paused_s: Number
    bytes: Number
    detail: dict[str, Any]


class Manifest(TypedDict):
    """All that is needed to make a run again. simulated_s: end of the run; with a precision, this may be before its
    horizon. warmup_s: begin of means; later than asked for if a whole number of slides is measured."""

    version: str
    config_hash: str
    seed: int
    horizon_s: Seconds
    warmup_s: Seconds
    period_s: Seconds
    precision: NotRequired[Number]
    simulated_s: Seconds


def _but(kind: Any, key: str = "") -> dict[str, Any]:
    """Types of a dataclass's fields, by name, without the field `key`."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.name != key}


def _by_name(kind: Any, key: str) -> Any:
    """Type of an object of records, by the field that names them."""
    part: Any = TypedDict(kind.__name__, _but(kind, key))  # type: ignore[misc]
    part.__doc__ = kind.__doc__
    return dict[str, part]


_FIELDS: dict[str, Any] = {
    **_but(Metrics),
    "standard_errors": StandardErrors,
    "cpu_s": Seconds,
    "crashed": bool,
    "keeps_up": bool | None,
    "full": list[str],
    "operators": _by_name(OperatorTotals, "operator"),
    "hosts": _by_name(HostTotals, "host"),
    "links": _by_name(LinkTotals, "link"),
    "markers": dict[str, dict[str, Number]],
    "duplicates": int,
    "events": list[Happened],
    "warnings": list[str],
    "manifest": Manifest,
}
RunDocument: Any = CLOSED(TypedDict("RunDocument", _FIELDS))  # type: ignore[operator]
RunDocument.__doc__ = """One simulated run. Latencies are null when nothing reached a sink. keeps_up: null while what is
full, of operators and hosts, may yet hold the job up. markers: by operator and source, the age of latency markers there
(s)."""


@CLOSED
class ReportDocument(TypedDict):
    """The answer of `twin report`."""

    page: str
    bytes: int


@CLOSED
class ServeDocument(TypedDict):
    """The answer of `twin serve`, as soon as it serves. state: the folder in which changes are kept."""

    address: str
    state: str


@CLOSED
class ExportDocument(TypedDict):
    """The answer of `twin export`."""

    format: str
    path: str


@CLOSED
class ListDocument(TypedDict):
    """The answer of `twin list`: by name, a line on each."""

    scenarios: dict[str, str]
    optimizers: dict[str, str]
    policies: dict[str, str]
    cost_models: dict[str, str]
    spaces: dict[str, str]
    families: dict[str, str]
    experiments: dict[str, str]
    kinds: dict[str, str]


@CLOSED
class VersionDocument(TypedDict):
    """The answer of `twin version`."""

    version: str


ReproduceDocument = dict[str, dict[str, str | list[dict[str, Any]]]]
"""Answer of `twin reproduce`: rows by experiment and table; without names, a line by experiment."""


@CLOSED
class ScenarioDocument(TypedDict):
    """The answer of `twin use-profile`."""

    scenario: Scenario
    predictions: list[Prediction]


@CLOSED
class MachineDocument(TypedDict):
    """The answer of `twin import lstopo`, `numactl` and `mlc`."""

    cluster: Cluster
    notes: list[str]


@CLOSED
class RowsDocument(TypedDict):
    """The answer of `twin import metrics`. rows: their number."""

    rows: int


@CLOSED
class DatasetDocument(TypedDict):
    """The answer of `twin dataset`: numbers. runs: of the corpora, failed ones included. duplicates: runs that an
    earlier corpus has, too."""

    runs: int
    rows: int
    failed: int
    duplicates: int


@CLOSED
class DemoDocument(TypedDict):
    """The answer of `twin demo`. seconds: of each stage. promise_s: longest latency of 99 of 100 results. plans: by who
    chose them."""

    out: str
    report: str
    seconds: dict[str, float]
    training_rows: int
    promise_s: float
    plans: list[JudgedPlan]
    accuracy: EvaluationTable


class ProfileDocument(Profiles):
    """The answer of `twin profile`. percentile: at which service times are taken."""

    percentile: float


@CLOSED
class TriedStructure(TypedDict):
    """Structure that was fitted; the one with the least criterion is chosen."""

    structure: str
    residual: Number
    criterion: Number


class CalibrateDocument(CalibratedProfile):
    """The answer of `twin calibrate`: the profile. contradictions: readings that the others contradict."""

    contradictions: list[str]
    tried: list[TriedStructure]
    tells_most: NextPoint | None


DOCUMENTS: Mapping[str, Any] = {
    "list": ListDocument,
    "show": Scenario,
    "version": VersionDocument,
    "demo": DemoDocument,
    "run": RunDocument,
    **{command: question.answer() for command, question in QUESTIONS.items()},
    "serve": ServeDocument,
    "report": ReportDocument,
    "export": ExportDocument,
    "corpus": CorpusWritten,
    "dataset": DatasetDocument,
    "train": ModelTrained,
    "evaluate": EvaluationTable,
    "profile": ProfileDocument,
    "reproduce": ReproduceDocument,
    "validate-runs": RunsValidated,
    "calibrate": CalibrateDocument,
    "use-profile": ScenarioDocument,
    "import run-graph": ImportedRun,
    "import flink": ImportedJob,
    "import flink-config": ImportedConfiguration,
    "import kafka-streams": ImportedTopology,
    "import lstopo": MachineDocument,
    "import numactl": MachineDocument,
    "import mlc": MachineDocument,
    "import metrics": RowsDocument,
}
"""Documents by command, without `schema`, which prints a schema."""


def schema_of(command: str) -> dict[str, Any]:
    """JSON Schema (2020-12) of a command's document. Raises BadInput, with the nearest name, for one without."""
    if command not in DOCUMENTS:
        raise BadInput(f"no schema of what {command!r} prints; {suggest(command, DOCUMENTS)}")
    return schema(DOCUMENTS[command])
