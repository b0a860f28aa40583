"""Readings of operating points as a CSV that grows, a point at a time."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scenarios.files.scenario_file import read_text
from twin.errors import BadInput

COLUMNS = (
    "point",
    "operator",
    "host",
    "offered_per_s",
    "in_per_s",
    "out_per_s",
    "busy",
    "backpressured",
    "marker_s",
    "cpu",
    "latency_s",
)


def with_point(path: Path, point: str, rows: Sequence[Mapping[str, Any]], text: str = "") -> str:
    """The text of the file with one more point; of a new file, with a first line. text: instead of the file's own.

    Raises BadInput if the file is another table, or has a point of that name.
    """
    before = text or (read_text(path) if path.exists() else ",".join(COLUMNS) + "\n")
    reader = csv.DictReader(io.StringIO(before))
    kept = list(reader)
    if "point" not in (reader.fieldnames or ()) or not set(reader.fieldnames or ()) <= set(COLUMNS):
        raise BadInput(f"{path} is another table; name a new file, or one that an import wrote")
    if any(row["point"] == point for row in kept):
        raise BadInput(f"{path} has a point {point!r}; name this one with --point")
    known = [key for row in rows for key in row if key not in COLUMNS]
    if known:
        raise BadInput(
            f"{path}: this table has no column {known[0]!r}; write the points by hand, or leave --points out"
        )
    lines = io.StringIO()
    writer = csv.DictWriter(lines, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows([*kept, *({"point": point, **row} for row in rows)])
    return lines.getvalue()
