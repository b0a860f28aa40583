"""Table of the checkpoints of a run: means and maxima of what one takes. Each checkpoint has a row in the trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from streamtwin.tables.tables import Wide, number, of_rows, seconds

KIND = "checkpoint"
"""Kind of checkpoints in the rows of events."""
Row = Mapping[str, Any]
QUANTITIES: Mapping[str, tuple[Callable[[Row], float], Callable[[float], str]]] = {
    "from the first barrier to the last upload": (lambda row: row["end_s"] - row["at_s"], seconds),
    "uploaded (MB)": (lambda row: row["bytes"] / 1e6, number),
    "state (MB)": (lambda row: row["detail"]["state_bytes"] / 1e6, number),
    "records on their way (MB)": (lambda row: row["detail"]["flying_bytes"] / 1e6, number),
    "a task waits for its last barrier": (lambda row: row["detail"]["alignment_s"], seconds),
    "records put aside meanwhile": (lambda row: row["detail"]["put_aside"], number),
}


def apart(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Rows of events that changed the job, and rows of checkpoints."""
    return [row for row in rows if row["kind"] != KIND], [row for row in rows if row["kind"] == KIND]


def of_checkpoints(rows: Sequence[Row]) -> Wide:
    """Table of checkpoints. rows: of their events. Its title has the number of completed ones, and ends of others."""
    done = [row for row in rows if row["detail"]["status"] == "completed"]
    columns = {"what": "what", "mean": "mean", "most": "most"}
    lines = [_line(what, [value(row) for row in done], told) for what, (value, told) in QUANTITIES.items() if done]
    return of_rows(f"checkpoints: {_counts(rows)}", columns, lines)


def _line(what: str, values: Sequence[float], told: Callable[[float], str]) -> dict[str, str]:
    return {"what": what, "mean": told(sum(values) / len(values)), "most": told(max(values))}


def _outcome(detail: Row) -> str:
    return f"failed ({detail['why']})" if "why" in detail else str(detail["status"])


def _counts(rows: Sequence[Row]) -> str:
    """Words for the number of checkpoints of each status; failed ones by their reasons."""
    words = [_outcome(row["detail"]) for row in rows]
    return ", ".join(f"{words.count(each)} {each}" for each in dict.fromkeys(sorted(words)))
