"""Small tables in Parquet, as rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twin.errors import BadInput


def parquet_rows(path: Path) -> list[Mapping[str, Any]]:
    """Raises BadInput if there is no such file, or it is none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise BadInput(f"{path} is missing; check the path")
    try:
        return list(pq.read_table(path).to_pylist())
    except (pa.ArrowInvalid, OSError) as error:
        raise BadInput(f"{path} is not a readable Parquet file ({error})") from None
