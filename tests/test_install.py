"""Set-up by uv and pip, with an uv that only notes what it is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import install
from tests.commands import ROOT

CONFIG = """[global]
index-url = https://global.invalid/simple
find-links = /wheels
timeout = 7
[install]
index-url = https://index.invalid/simple
extra-index-url =
    https://one.invalid/simple
    https://two.invalid/simple
"""
FAKE = f"""#!{sys.executable}
import json, os, pathlib, sys
told = {{"arguments": sys.argv[1:], "variables": dict(os.environ)}}
pathlib.Path(os.environ["TOLD"]).write_text(json.dumps(told))
sys.exit(os.environ.get("FAILS"))
"""


def installed(folder: Path, python: str = sys.executable, **variables: str) -> tuple[subprocess.CompletedProcess, dict]:
    """Runs install.py beside the fake uv, and returns how it ended and what uv was told."""
    told, uv, config = folder / "told.json", folder / "uv", folder / "pip.conf"
    config.write_text(CONFIG)
    uv.write_text(FAKE)
    uv.chmod(0o755)
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "SSL_"))}
    ours |= {"PATH": str(folder), "PIP_CONFIG_FILE": str(config), "TOLD": str(told), **variables}
    done = subprocess.run([python, "install.py"], cwd=ROOT, env=ours, capture_output=True, text=True, check=False)
    return done, json.loads(told.read_text())


def test_uv_looks_where_pip_would(tmp_path: Path) -> None:
    done, told = installed(tmp_path, PIP_FIND_LINKS="/mine /others", UV_HTTP_TIMEOUT="9")
    assert (done.returncode, done.stderr) == (0, "")
    variables = told["variables"]
    assert variables["UV_DEFAULT_INDEX"] == "https://index.invalid/simple"
    assert variables["UV_INDEX"] == "https://one.invalid/simple https://two.invalid/simple"
    assert variables["UV_FIND_LINKS"] == "/mine,/others"
    assert variables["UV_HTTP_TIMEOUT"] == "9"
    assert not Path(told["arguments"][told["arguments"].index("--cache-dir") + 1]).exists()
    assert told["arguments"][-4:] == ["--constraint", "constraints.txt", "--editable", ".[dev]"]


def test_links_alone_are_links_alone_to_uv(tmp_path: Path) -> None:
    _, told = installed(tmp_path, PIP_NO_INDEX="1")
    assert "--no-index" in told["arguments"]


def test_where_uv_fails_pip_installs_and_one_line_says_so(tmp_path: Path) -> None:
    venv.create(tmp_path / "empty", symlinks=True)  # without pip, so nothing is installed
    done, _ = installed(tmp_path, str(tmp_path / "empty" / "bin" / "python"), FAILS="no such\nindex")
    first, second = done.stderr.splitlines()
    assert first == "uv did not install (no such index); pip installs instead, which takes longer"
    assert "No module named pip" in second
    assert done.returncode != 0


@pytest.mark.parametrize("listed", ["", "nonsense", "freeze.timeout='9'"])
def test_without_settings_uv_looks_at_its_own_index(listed: str) -> None:
    assert install.for_uv(install.pip_settings(listed)) == {"UV_INDEX_STRATEGY": "unsafe-best-match"}
