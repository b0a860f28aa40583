"""`twin run --json`, and result.json of a trace: what `Run.to_dict` gives."""

from __future__ import annotations

import dataclasses
from typing import Any, NotRequired, get_type_hints

from typing_extensions import TypedDict

from scenarios.files.documents import CLOSED, Number, Seconds
from twin.engine.measure.standard_errors import StandardErrors
from twin.metrics import Metrics
from twin.run import HostTotals, LinkTotals, OperatorTotals


class Happened(TypedDict):
    """A change of the running job. end_s: null while it lasts. bytes: of state that was moved."""

    at_s: Seconds
    end_s: Number
    kind: str
    component: str
    paused_s: Number
    bytes: Number
    detail: dict[str, Any]


class Manifest(TypedDict):
    """All that is needed to make the run again. simulated_s: when it ended; with a precision, this may be before its
    horizon. warmup_s: when means begin; this is later than asked for if a whole number of slides is measured."""

    version: str
    config_hash: str
    seed: int
    horizon_s: Seconds
    warmup_s: Seconds
    period_s: Seconds
    precision: NotRequired[Number]
    simulated_s: Seconds


def _but(kind: Any, key: str = "") -> dict[str, Any]:
    """The types of a dataclass's fields, by name, one left out."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.name != key}


def _by_name(kind: Any, key: str) -> Any:
    """Records as an object, by the field that names them."""
    part: Any = TypedDict(kind.__name__, _but(kind, key))  # type: ignore[misc]
    part.__doc__ = kind.__doc__
    return dict[str, part]


_FIELDS: dict[str, Any] = {
    **_but(Metrics),
    "standard_errors": StandardErrors,
    "cpu_s": Seconds,
    "crashed": bool,
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
RunDocument.__doc__ = """One simulated run. Latencies are null when nothing reached a sink. markers: by operator and
source, the age of latency markers there (s)."""
