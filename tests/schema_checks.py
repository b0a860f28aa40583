"""Checks every document that a command gives in a test against the command's schema."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from scenarios.files.documents import document, read
from streamtwin.cli import app as cli
from streamtwin.cli.terminal import Terminal
from streamtwin.schemas import DOCUMENTS


def check(kind: Any, result: Any) -> None:
    """Raises ValueError if the document of a result is not valid for the type `kind`."""
    read(kind, json.dumps(document(result), allow_nan=False))


@pytest.fixture(autouse=True)
def documents_are_as_described(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks the documents of commands that are called in this process, through `cli.main`."""
    given: list[str] = []
    call, tell = cli.main, Terminal.result

    def main(arguments: Sequence[str] | None = None) -> None:
        given[:] = arguments or ()
        call(arguments)

    def result(self: Terminal, found: Any, *renderables: Any) -> None:
        command = " ".join(given[: 2 if given[:1] == ["import"] else 1])
        if command not in ("", "schema"):
            check(DOCUMENTS[command], found)
        tell(self, found, *renderables)

    monkeypatch.setattr(cli, "main", main)
    monkeypatch.setattr(Terminal, "result", result)
