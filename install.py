"""Installs the project and its pinned packages into the environment that runs this: by uv, else by pip.

uv takes less time than pip. It reads none of pip's settings, so it is told where pip would look for packages.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
PROJECT = ("--constraint", "constraints.txt", "--editable", ".[dev]")

OF_UV = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
}
"""Settings of pip that say where packages come from, and the variables by which uv is told the same."""


def main() -> None:
    uv = shutil.which("uv") or _uv_of_here()
    failure = "uv cannot be had here" if uv is None else _by_uv(uv)
    if failure is None:
        return
    print(f"{failure}; pip installs instead, which takes longer", file=sys.stderr)
    sys.exit(subprocess.run([*PIP, "install", "--quiet", "--no-compile", *PROJECT], check=False).returncode)


def _uv_of_here() -> str | None:
    """Path of uv after pip has installed it here; None if pip cannot."""
    subprocess.run([*PIP, "install", "--constraint", "constraints.txt", "uv"], capture_output=True, check=False)
    return shutil.which("uv", path=str(Path(sys.executable).parent))


def _by_uv(uv: str) -> str | None:
    """Installs the project, and returns None or, in one line, why uv could not."""
    settings = pip_settings(
        subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=False).stdout
    )
    only_links = ["--no-index"] if "no-index" in settings else []
    variables = for_uv(settings) | os.environ  # what the user has told uv itself goes before what pip was told
    # A cache that stays would double the disk that this takes. Files are linked from one that lies beside them.
    with TemporaryDirectory(prefix="uv-", dir=sys.prefix, ignore_cleanup_errors=True) as cache:
        command = [uv, "pip", "install", "--quiet", "--cache-dir", cache, "--python", sys.executable]
        command += [*only_links, *PROJECT]
        done = subprocess.run(command, env=variables, stderr=subprocess.PIPE, text=True, check=False)
    return f"uv did not install ({' '.join(done.stderr.split())[:300]})" if done.returncode else None


def pip_settings(listed: str) -> dict[str, str]:
    """Settings that hold for `pip install`, by name, from the output of `pip config list`."""
    found = dict[str, str]()
    for section in ("global.", "install.", ":env:."):  # later ones replace earlier ones, as in pip
        for line in listed.splitlines():
            name, _, value = line.partition("=")
            if name.startswith(section):
                found[name.removeprefix(section)] = ast.literal_eval(value)
    return found


def for_uv(settings: Mapping[str, str]) -> dict[str, str]:
    """Variables that make uv look where pip looks, and take the best version of all indexes, as pip does."""
    variables = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    for name in OF_UV.keys() & settings.keys():
        separator = "," if name == "find-links" else " "
        variables[OF_UV[name]] = separator.join(settings[name].split())
    return variables


if __name__ == "__main__":
    main()
