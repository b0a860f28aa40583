"""File with the encoding of a dataset beside its rows: encoding a large one takes minutes, reading it a second.

The file is named after the code that encodes, so that other code never reads it.
"""

from __future__ import annotations

import hashlib
import struct
import tokenize
import zipfile
import zlib
from functools import cache
from pathlib import Path

import numpy as np

from models.encoding import Encoded, Reprofiled
from models.features import NODE_TYPES
from models.graph import GraphTable, Ragged
from twin import kinds, rates
from twin.atomic import new_file

_HERE, _RATES, _KINDS = Path(__file__).parent, Path(rates.__path__[0]), Path(kinds.__path__[0])
_FILES: tuple[str, ...] = (
    "demand",
    "encoding",
    "feature",
    "features",
    "graph",
    "job_columns",
    "perturbed_costs",
    "vectors",
)
"""Source files that decide the encoding, beside files of `twin`: profiles, query, kinds and the rate model."""

_OF_ZIP = (struct.error, zlib.error, zipfile.BadZipFile)
_RAGGED = ("streams", "updates", "placements")


@cache
def code_version() -> str:
    """Version of the encoding: 12 hex digits over the source of everything that decides one."""
    own = [*(_HERE / f"{name}.py" for name in _FILES), _RATES.parent / "query.py"]
    rooms = (path for room in (_RATES.parent / "profiles", _RATES, _KINDS) for path in sorted(room.glob("*.py")))
    source = b"".join(path.read_bytes() for path in (*own, *rooms))
    return hashlib.sha256(source).hexdigest()[:12]


def path_in(folder: Path, reprofiled: Reprofiled | None = None) -> Path:
    """Path of the encoding of a folder's dataset, under a profile if given, whether it exists or not."""
    seen = "" if reprofiled is None else f"-{reprofiled.name}"
    return folder / f"encoded-{code_version()}{seen}.npz"


def write(folder: Path, encoded: Encoded, config_hash: np.ndarray, reprofiled: Reprofiled | None = None) -> None:
    """Writes the encoding of a dataset's rows; it appears whole or not at all. config_hash: [G], of the rows."""
    table = encoded.graphs
    arrays = {"config_hash": config_hash, "context": table.context_GxC, "rates": table.rates_GxA}
    arrays |= {"flat": encoded.flat_GxF, "derived": encoded.derived_GxD, "about": encoded.about_GxA}
    ragged = {f"node{kind}": each for kind, each in enumerate(table.nodes)}
    ragged |= {name: getattr(table, name) for name in _RAGGED}
    for name, each in ragged.items():
        arrays |= {f"{name}_rows": each.rows, f"{name}_start": each.start}
    with new_file(path_in(folder, reprofiled)) as aside, aside.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def read(folder: Path, config_hash: np.ndarray, reprofiled: Reprofiled | None = None) -> Encoded | None:
    """Reads the encoding of these rows; None if there is none of today's code, or it is of other rows or damaged."""
    try:
        with np.load(path_in(folder, reprofiled)) as arrays:
            if not np.array_equal(arrays["config_hash"], config_hash):
                return None

            def ragged(name: str) -> Ragged:
                return Ragged(arrays[f"{name}_rows"], arrays[f"{name}_start"])

            nodes = tuple(ragged(f"node{kind}") for kind in range(len(NODE_TYPES)))
            streams, updates, placements = (ragged(name) for name in _RAGGED)
            table = GraphTable(nodes, streams, updates, placements, arrays["context"], arrays["rates"])
            return Encoded(table, arrays["flat"], arrays["derived"], arrays["about"])
    except (OSError, LookupError, ValueError, RuntimeError, EOFError, tokenize.TokenError, *_OF_ZIP):
        return None
