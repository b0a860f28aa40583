"""Reads small tables in Parquet as rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twin.errors import BadInput


def parquet_rows(path: Path) -> list[Mapping[str, Any]]:
    """Reads the rows of a Parquet file. Raises BadInput if there is no such file, or it is no Parquet."""
    if not path.is_file():
        raise BadInput(f"{path} is missing; check the path")
    return rows_of(str(path), path.read_bytes())


def rows_of(name: str, content: bytes) -> list[Mapping[str, Any]]:
    """Rows in the content of a Parquet file. Raises BadInput, with the file's name, if it is no Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return list(pq.read_table(pa.BufferReader(content)).to_pylist())
    except (pa.ArrowInvalid, OSError) as error:
        raise BadInput(f"{name} is not a readable Parquet file ({error})") from None
