"""The JSON Schema of what a command prints with --json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from scenarios.schemas.answers import (
    CapacityDocument,
    ComparisonDocument,
    DryRunDocument,
    PoliciesDocument,
    SensitivityDocument,
)
from scenarios.schemas.documents import CLOSED
from scenarios.schemas.run import RunDocument
from twin.errors import BadInput, suggest


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


DOCUMENTS: Mapping[str, Any] = {
    "run": RunDocument,
    "whatif": ComparisonDocument,
    "compare": ComparisonDocument,
    "compare-policies": PoliciesDocument,
    "capacity": CapacityDocument,
    "sensitivity": SensitivityDocument,
    "dry-run": DryRunDocument,
    "report": ReportDocument,
    "export": ExportDocument,
}
"""By command."""


def schema_of(command: str) -> dict[str, Any]:
    """JSON Schema 2020-12. Raises BadInput, with the nearest, for a command that has none."""
    if command not in DOCUMENTS:
        raise BadInput(f"no schema of what {command!r} prints; {suggest(command, DOCUMENTS)}")
    found = TypeAdapter(DOCUMENTS[command]).json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}
