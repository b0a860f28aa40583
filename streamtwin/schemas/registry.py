"""Registry of the JSON Schemas of documents that commands print with --json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scenarios.files.documents import schema
from scenarios.improving.history import ModelImproved
from scenarios.learning.corpora import CorpusWritten
from scenarios.learning.fine_tuning import ModelTrained
from scenarios.learning.learner import EvaluationTable
from scenarios.planning.planner import PlanChosen
from streamtwin.answers.registry import ANSWERS
from streamtwin.connect.importers.flink_scenario import ImportedJob
from streamtwin.connect.importers.run_graph import ImportedRun
from streamtwin.connect.importers.validate_runs import RunsValidated
from streamtwin.connect.shadow.shadow import JobFollowed
from streamtwin.schemas import documents
from twin.errors import BadInput, suggest
from twin.scenario import Scenario

DOCUMENTS: Mapping[str, Any] = {
    "list": documents.ListDocument,
    "show": Scenario,
    "version": documents.VersionDocument,
    "demo": documents.DemoDocument,
    "run": documents.RunDocument,
    **{command: answered.answer for command, answered in ANSWERS.items()},
    "serve": documents.ServeDocument,
    "shadow": JobFollowed,
    "report": documents.ReportDocument,
    "export": documents.ExportDocument,
    "corpus": CorpusWritten,
    "dataset": documents.DatasetDocument,
    "train": ModelTrained,
    "evaluate": EvaluationTable,
    "improve": ModelImproved,
    "profile": documents.ProfileDocument,
    "optimize": PlanChosen,
    "reproduce": documents.ReproduceDocument,
    "validate-runs": RunsValidated,
    "calibrate": documents.CalibrateDocument,
    "use-profile": documents.ScenarioDocument,
    "import run-graph": ImportedRun,
    "import flink": ImportedJob,
    "import lstopo": documents.MachineDocument,
    "import numactl": documents.MachineDocument,
    "import mlc": documents.MachineDocument,
    "import metrics": documents.RowsDocument,
}
"""Documents by command, without `schema`, which prints a schema."""


def schema_of(command: str) -> dict[str, Any]:
    """JSON Schema (2020-12) of a command's document. Raises BadInput, with the nearest name, for one without."""
    if command not in DOCUMENTS:
        raise BadInput(f"no schema of what {command!r} prints; {suggest(command, DOCUMENTS)}")
    return schema(DOCUMENTS[command])
