"""Encodes figures as picture files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenarios.files.traces import check_free
from twin.errors import BadInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def png(figure: Figure) -> bytes:
    """PNG of a figure; the same figure gives the same bytes."""
    return picture(figure, Path("figure.png"))


def picture(figure: Figure, file: Path) -> bytes:
    """Picture of a figure in the format of the file's ending; the same figure gives the same bytes."""
    form, buffer = file.suffix[1:].lower(), io.BytesIO()
    figure.savefig(buffer, format=form, metadata=FORMATS[form])
    return buffer.getvalue()


def check_picture(file: Path) -> None:
    """Raises BadInput if a file has no ending of a picture, exists, or cannot be made; its folder must be there."""
    if file.suffix[1:].lower() not in FORMATS:
        raise BadInput(f"{file}: a picture ends in one of {', '.join(f'.{each}' for each in FORMATS)}")
    if not file.parent.exists():
        raise BadInput(f"{file} cannot be made: there is no folder {file.parent}; make it, or name another file")
    check_free(file)


FORMATS: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    "svg": {"Date": None},
}
"""Formats by ending, with the metadata to leave out because they differ from one time to the next."""
