"""The JSON Schema of what a command prints with --json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import TypedDict

from scenarios.files.documents import CLOSED, schema
from scenarios.questions.capacity import CapacityAnswer
from scenarios.questions.dry_run import DryRunAnswer
from scenarios.questions.policies_compared import PoliciesCompared
from scenarios.questions.sensitivity import SensitivityAnswer
from scenarios.questions.whatif import VariantsCompared
from streamtwin.schemas.imports import (
    CalibrateDocument,
    FlinkDocument,
    MachineDocument,
    ProfileDocument,
    RowsDocument,
    RunGraphDocument,
    ScenarioDocument,
    ValidateRunsDocument,
)
from streamtwin.schemas.learning import (
    CorpusDocument,
    DatasetDocument,
    DemoDocument,
    EvaluateDocument,
    ImproveDocument,
    TrainDocument,
)
from streamtwin.schemas.plans import BenchmarkDocument, OptimizeDocument, ValidateDocument
from streamtwin.schemas.run import RunDocument
from streamtwin.schemas.shadow import ShadowDocument
from twin.errors import BadInput, suggest
from twin.scenario import Scenario


@CLOSED
class ReportDocument(TypedDict):
    """`twin report`."""

    page: str
    bytes: int


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
"""By experiment and table, its rows; without a name, by experiment, a line on each."""

DOCUMENTS: Mapping[str, Any] = {
    "list": ListDocument,
    "show": Scenario,
    "version": VersionDocument,
    "demo": DemoDocument,
    "run": RunDocument,
    "whatif": VariantsCompared,
    "compare": VariantsCompared,
    "compare-policies": PoliciesCompared,
    "capacity": CapacityAnswer,
    "sensitivity": SensitivityAnswer,
    "dry-run": DryRunAnswer,
    "shadow": ShadowDocument,
    "report": ReportDocument,
    "export": ExportDocument,
    "corpus": CorpusDocument,
    "dataset": DatasetDocument,
    "train": TrainDocument,
    "evaluate": EvaluateDocument,
    "improve": ImproveDocument,
    "profile": ProfileDocument,
    "optimize": OptimizeDocument,
    "validate": ValidateDocument,
    "benchmark": BenchmarkDocument,
    "reproduce": ReproduceDocument,
    "validate-runs": ValidateRunsDocument,
    "calibrate": CalibrateDocument,
    "use-profile": ScenarioDocument,
    "import run-graph": RunGraphDocument,
    "import flink": FlinkDocument,
    "import lstopo": MachineDocument,
    "import numactl": MachineDocument,
    "import mlc": MachineDocument,
    "import metrics": RowsDocument,
}
"""By command; all but `schema`, which prints one."""


def schema_of(command: str) -> dict[str, Any]:
    """JSON Schema 2020-12. Raises BadInput, with the nearest, for a command that has none."""
    if command not in DOCUMENTS:
        raise BadInput(f"no schema of what {command!r} prints; {suggest(command, DOCUMENTS)}")
    return schema(DOCUMENTS[command])
