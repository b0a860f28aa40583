"""Manifest of a corpus folder, and the lock of its writer."""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twin import VERSION, same_runs
from twin.errors import BadInput
from twin.files import PARTIAL, parse_json, write_text

MANIFEST = "manifest.json"
CHUNKS = "chunks"
_LOCK = ".lock"
DISTINCT = "distinct_runs"
"""Key in the settings of a corpus with replicates: the number of runs before them."""
_ABOUT = ("chunk_runs", "config_hash")
"""Keys of a manifest that are not hashed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusSpec:
    """Spec of a corpus: equal specs give equal runs. settings: all other values that `make` depends on, as JSON."""

    runs: int
    seed: int
    space: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.runs < 1:
            raise BadInput(f"runs must be >= 1, got {self.runs}")
        if self.seed < 0:
            raise BadInput(f"seed must be >= 0, got {self.seed}")

    def manifest(self) -> dict[str, Any]:
        """Returns the spec as JSON values, with the version that writes it and a hash over all of it."""
        body = {"version": VERSION, "runs": self.runs, "seed": self.seed, "space": self.space}
        body = json.loads(json.dumps({**body, "settings": dict(self.settings)}, sort_keys=True))
        return {**body, "config_hash": content_hash(body)}


def content_hash(body: Mapping[str, Any]) -> str:
    """Hash of a JSON value, 16 hex digits; it does not depend on the order of keys."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]


def open_corpus(folder: Path, spec: CorpusSpec, chunk_runs: int) -> int:
    """Makes `folder` the corpus of that spec, or continues one that is there, which grows if it has fewer runs.

    Returns the runs a chunk, which are fixed when the corpus is begun. Raises BadInput if the folder holds something
    else, or a corpus of another spec.
    """
    wanted = spec.manifest()
    if (folder / MANIFEST).exists():
        found = read_manifest(folder)
        _refuse_another(folder, found, wanted)
        if found["runs"] < spec.runs:
            write_json(folder / MANIFEST, _grown(found, spec.runs))
        return int(found["chunk_runs"])
    write_json(folder / MANIFEST, {**wanted, "chunk_runs": chunk_runs})
    return chunk_runs


def _grown(found: Mapping[str, Any], runs: int) -> dict[str, Any]:
    """Manifest of a corpus with more runs; the version is still the one that began it."""
    body = {key: value for key, value in found.items() if key not in _ABOUT} | {"runs": runs}
    return {**body, "config_hash": content_hash(body), "chunk_runs": found["chunk_runs"]}


def check_corpus(folder: Path, spec: CorpusSpec) -> None:
    """Raises BadInput where `open_corpus` would, before a Spark is started for it. Writes nothing."""
    _refuse_foreign(folder)
    if (folder / MANIFEST).exists():
        _refuse_another(folder, read_manifest(folder), spec.manifest())


def read_manifest(folder: Path) -> dict[str, Any]:
    """Reads the manifest of a corpus folder. Raises BadInput if there is none, or it is damaged."""
    path = folder / MANIFEST
    try:
        found = parse_json(path.read_text())
        if not isinstance(found, dict) or not {"runs", "seed", "chunk_runs", "config_hash"} <= found.keys():
            raise ValueError("keys are missing")
        if content_hash({key: value for key, value in found.items() if key not in _ABOUT}) != found["config_hash"]:
            raise ValueError("it is damaged")
    except FileNotFoundError:
        raise BadInput(
            f"{folder} is no corpus: {path} is missing; make one with 'twin corpus {folder} --runs 1000'"
        ) from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} is not a corpus manifest ({error}); name another folder") from None
    return found


def write_json(path: Path, body: Mapping[str, Any]) -> None:
    """Writes a JSON file, which appears whole or not at all."""
    write_text(path, json.dumps(body, indent=2, sort_keys=True) + "\n")


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Locks the corpus folder, which is made if need be, and removes the unfinished files of a writer that was killed.

    The lock ends with the process, however it ends. Raises BadInput if another process holds it, or if the folder holds
    anything but a corpus.
    """
    _refuse_foreign(folder)
    try:
        (folder / CHUNKS).mkdir(parents=True, exist_ok=True)
        lock = (folder / _LOCK).open("w")
    except OSError as error:
        raise BadInput(f"cannot write to {folder} ({error.strerror}); name another folder") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(f"{folder} is being written by another process; wait for it, or name another") from None
        remove([*(folder / CHUNKS).glob(".chunk-*"), *folder.glob(f".*{PARTIAL}")])
        yield


def _refuse_foreign(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file; name a folder")
    if folder.exists() and not (folder / MANIFEST).exists():
        names = [entry.name for entry in folder.iterdir()]
        if others := sorted(name for name in names if name not in (CHUNKS, _LOCK) and not _unfinished(name)):
            raise BadInput(f"{folder} is no corpus, it holds {others[0]!r}; name an empty or new folder")


def _unfinished(name: str) -> bool:
    return name.startswith(f".{MANIFEST}.") and name.endswith(PARTIAL)


def _refuse_another(folder: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    if not same_runs(str(found.get("version")), wanted["version"]):
        raise BadInput(
            f"{folder} was begun by streamtwin {found.get('version')}, and {wanted['version']} simulates other runs; "
            f"go on with that version, or name another folder"
        )
    for key, (there, asked) in _differences(found, wanted).items():
        if key == f"settings.{DISTINCT}" and there is not None:
            raise BadInput(
                f"{folder} has replicates of its {there} runs, and can grow by more --replicates only; "
                f"repeat its --runs {there} and as many --replicates or more, or name another folder"
            )
        raise BadInput(
            f"{folder} is a corpus with {key} {there!r}, not {asked!r}; "
            f"repeat its own command to resume it, or name another folder"
        )
    if found["runs"] > wanted["runs"]:
        raise BadInput(f"{folder} has {found['runs']} runs, not {wanted['runs']}; ask for as many or more")


def _differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Settings by which two manifests differ, so that their runs do: found and wanted value, by name."""
    there, asked = ({key: manifest.get(key) for key in ("space", "seed")} for manifest in (found, wanted))
    for flat, manifest in ((there, found), (asked, wanted)):
        flat |= {f"settings.{key}": value for key, value in dict(manifest.get("settings") or {}).items()}
    names = sorted({*there, *asked}, key=lambda name: (name.startswith("settings."), name != "space", name))
    both = {name: (there.get(name), asked.get(name)) for name in names}
    return {name: pair for name, pair in both.items() if pair[0] != pair[1]}


def remove(paths: Iterable[Path]) -> None:
    """Removes chunks. Each is renamed first: a worker whose job was cancelled may still be writing, and its folder must
    not become a chunk while its files are being removed one by one."""
    for path in paths:
        condemned = path.with_name(f".chunk-{uuid.uuid4().hex}.removed")
        try:
            path.rename(condemned)
        except FileNotFoundError:  # its worker has just renamed it
            continue
        if condemned.is_dir():
            shutil.rmtree(condemned, ignore_errors=True)
        else:
            condemned.unlink(missing_ok=True)
