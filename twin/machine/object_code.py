"""Machine code as it is kept between processes: in files of this processor, with a checksum.

It is compiled once for its sources, its compilers and a processor. What is damaged is removed, and compiled anew.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import tempfile
import zipfile
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import llvmlite.binding as llvm

from twin.files import signed, verified, write_bytes
from twin.machine.checks import CHECK

CACHE, FORMAT = "__pycache__", b"object code of streamtwin"
"""Folder beside the sources where object code is kept, and the beginning of its files."""
SHARED = "histograms.py"
"""File beside the folder from which compiled code takes functions."""


def sources() -> list[bytes]:
    """Contents of all files that are compiled; also from an archive."""
    own, beside = files("twin.machine"), files("twin")
    names = sorted(each.name for each in own.iterdir() if each.name.endswith(".py"))
    found = [*(own.joinpath(name) for name in names), *(beside.joinpath(name) for name in SHARED.split())]
    return [each.read_bytes() for each in found]


def folders() -> list[Path]:
    """Folders where object code may be kept: beside the sources, in the user's cache, in a temporary folder."""
    user = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "streamtwin"
    temporary = Path(tempfile.gettempdir()) / f"streamtwin-{os.getuid()}"
    return [Path(__file__).parent / CACHE, user, temporary]


def file_name() -> str:
    """File name of the object code of just this processor, and of just these sources and compilers."""
    processor = [llvm.get_host_cpu_name().encode(), llvm.get_host_cpu_features().flatten().encode()]
    made_of = sources() + [version(name).encode() for name in ("numba", "llvmlite")]
    return f"{'checked' if CHECK else 'machine'}-{_hash(processor)}-{_hash(made_of)}.zip"


def files_to_ship() -> list[Path]:
    """Files of the object code of these sources, for whatever processors: workers elsewhere may have one of them."""
    ending = file_name().rpartition("-")[2]
    found = [path for folder in folders() if folder.is_dir() for path in folder.glob(f"machine-*-{ending}")]
    return [*{path.name: path for path in found}.values()]


def _hash(parts: list[bytes]) -> str:
    return hashlib.sha256(b"|".join(parts)).hexdigest()[:16]


BEGUN = file_name()
"""Name of the object code as the sources were when this process read them."""


def cached() -> dict[str, bytes] | None:
    """Object code by symbol, if it was compiled before, or has come with the sources in an archive; else None.

    It is executed, so what another user can have put there is left alone, and what is damaged is removed, with a line.
    """
    name, shipped = file_name(), files("twin.machine").joinpath(CACHE)
    if not isinstance(shipped, Path) and (code := shipped.joinpath(name)).is_file():
        return _unpacked(code.read_bytes())
    for path in (folder / name for folder in folders()):
        try:
            if path.is_file() and path.stat().st_uid in (0, os.getuid()):
                return _unpacked(path.read_bytes())
        except OSError:
            continue
        except (ValueError, zipfile.BadZipFile) as error:
            path.unlink(missing_ok=True)
            print(f"{path} is damaged ({error}); it is removed and made anew", file=sys.stderr, flush=True)
    return None


def _unpacked(content: bytes) -> dict[str, bytes]:
    if not content.startswith(FORMAT):
        raise ValueError("it is not what was written")
    with zipfile.ZipFile(io.BytesIO(verified(content, FORMAT))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def keep(objects: dict[str, bytes]) -> Path | None:
    """Keeps object code, by symbol, in the first folder where it can, in place of older code for the same processor, as
    folders may be shared by machines. Returns its path, or None, also if the sources have changed since they were
    read, as in an update while they were compiled: it would be taken for code of the new ones."""
    name, packed = file_name(), io.BytesIO()
    if name != BEGUN:
        return None
    with zipfile.ZipFile(packed, "w") as archive:
        for symbol, code in objects.items():
            archive.writestr(symbol, code)
    for folder in folders():
        try:
            folder.mkdir(mode=0o777 if folder.name == CACHE else 0o700, parents=True, exist_ok=True)
            if folder.stat().st_uid not in (0, os.getuid()):  # another user's, who may put anything there
                continue
            write_bytes(folder / name, signed(packed.getvalue(), FORMAT))
        except OSError:
            continue
        for old in folder.glob(f"{name.rpartition('-')[0]}-*.zip"):
            if old.name != name:
                old.unlink(missing_ok=True)
        return folder / name
    return None
