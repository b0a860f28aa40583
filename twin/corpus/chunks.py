"""Chunks of a corpus on disk: how runs are divided into them, and which are there and undamaged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from twin.corpus.chunk import Chunk
from twin.corpus.manifest import CHUNKS, MANIFEST, CorpusSpec, read_manifest, remove
from twin.errors import BadInput
from twin.nesting import parse_json
from twin.trace import damage, read_table

CARD = "card"


Note = Callable[[str], None]
"""Function that tells the user something, in one line."""


@dataclass(frozen=True, slots=True)
class ChunkAudit:
    """State of the chunks that are there. whole: with all their runs. short: the last ones of a smaller corpus that has
    grown. damaged: the damaged ones, and what is wrong with each."""

    whole: frozenset[Chunk]
    short: frozenset[Chunk]
    damaged: Mapping[Chunk, str]


@dataclass(frozen=True, slots=True)
class CorpusSummary:
    """Result of making a corpus. runs, failed: of the whole corpus. resumed: runs that were there already. The seconds
    are of this invocation."""

    runs: int
    failed: int
    resumed: int
    wall_s: float
    simulation_cpu_s: float


def cut(runs: int, chunk_runs: int) -> list[Chunk]:
    """Divides runs 0 to runs - 1 into consecutive chunks. Raises BadInput if chunk_runs < 1."""
    if chunk_runs < 1:
        raise BadInput(f"chunk_runs must be >= 1, got {chunk_runs}")
    starts = range(0, runs, chunk_runs)
    return [Chunk(number, first, min(first + chunk_runs, runs)) for number, first in enumerate(starts)]


def finished(folder: Path, chunks: Iterable[Chunk]) -> set[Chunk]:
    """Chunks that are in the corpus, damaged or not."""
    present = set(os.listdir(folder / CHUNKS))
    return {chunk for chunk in chunks if chunk.name in present}


def audit(folder: Path, chunks: Iterable[Chunk]) -> ChunkAudit:
    """Reads every file of every chunk that is there, and tells whole, short and damaged chunks apart."""
    whole, short, damaged = set[Chunk](), set[Chunk](), dict[Chunk, str]()
    for chunk in sorted(finished(folder, chunks), key=lambda each: each.number):
        runs = 0
        why = damage(folder / CHUNKS / chunk.name)
        if not why:
            runs = int(pq.read_metadata(folder / CHUNKS / chunk.name / "runs.parquet").num_rows)
            why = f"runs.parquet holds {runs} runs, not {chunk.runs}" if runs > chunk.runs else ""
        if why:
            damaged[chunk] = why
        else:
            (whole if runs == chunk.runs else short).add(chunk)
    return ChunkAudit(frozenset(whole), frozenset(short), damaged)


def keep_whole(folder: Path, chunks: Sequence[Chunk], note: Note) -> frozenset[Chunk]:
    """Removes the chunks that must be simulated again, and notes why. Returns the others."""
    there = audit(folder, chunks)
    for chunk, why in there.damaged.items():
        note(f"{chunk.name} is damaged ({why}); its {chunk.runs} runs are simulated again")
    remove(folder / CHUNKS / chunk.name for chunk in (*there.short, *there.damaged))
    return there.whole


def complete(folder: Path, spec: CorpusSpec) -> CorpusSummary | None:
    """Summary of a complete corpus of that spec with its card; None if anything is missing."""
    if not (folder / MANIFEST).exists() or not (folder / CHUNKS).is_dir():
        return None
    manifest = read_manifest(folder)
    chunks = cut(spec.runs, manifest["chunk_runs"])
    if _described(folder) != manifest["config_hash"] or audit(folder, chunks).whole != set(chunks):
        return None
    return CorpusSummary(spec.runs, failed_in(folder, chunks), resumed=spec.runs, wall_s=0.0, simulation_cpu_s=0.0)


def failed_in(folder: Path, chunks: Iterable[Chunk]) -> int:
    """Number of failed runs in chunks that are not damaged."""
    statuses = (read_table(folder / CHUNKS / chunk.name, "runs")["status"].to_pylist() for chunk in chunks)
    return sum(status != "ok" for column in statuses for status in column)


def _described(folder: Path) -> str | None:
    """`config_hash` of the corpus that the card describes; None if there is no whole card."""
    try:
        card = parse_json((folder / f"{CARD}.json").read_text())
        return str(card["recipe"]["config_hash"]) if (folder / f"{CARD}.md").exists() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def require_whole(corpus: Path, chunks: Sequence[Chunk]) -> None:
    """Raises BadInput for a chunk that is damaged or lacks runs."""
    there = audit(corpus, chunks)
    lacking = dict.fromkeys(there.short, "runs are missing")
    for chunk, why in {**there.damaged, **lacking}.items():
        raise BadInput(
            f"{corpus / CHUNKS / chunk.name} is damaged ({why}); "
            f"repeat the command that began {corpus}, which simulates damaged chunks again"
        )
