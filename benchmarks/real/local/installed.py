"""Installs Flink's jars from the Python package index, and compiled jobs, in a cache folder of the user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from twin.errors import BadInput
from twin.files import new_folder

PACKAGE = "apache-flink-libraries"
VERSION = "2.3.0"
PACED = Path(__file__).parent / "Paced.java"
"""Source of records that all jobs share."""
FACTORIES = "META-INF/services/org.apache.flink.table.factories.Factory"
"""File in a jar that names its sources and sinks of tables to Flink."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamtwin" / f"flink-{VERSION}"


def jars() -> Path:
    """Folder of Flink's jars, which pip downloads (330 MB) if they are missing."""
    found = CACHE / "pyflink" / "lib"
    if not found.is_dir():
        print(f"installing {PACKAGE} {VERSION} (330 MB) into {CACHE}", flush=True)
        with new_folder(CACHE) as aside:
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(aside)]
            _run([*pip, f"{PACKAGE}=={VERSION}"], "pip could not install Flink")
    return found


def job_jar(source: Path, factories: Sequence[str] = ()) -> Path:
    """Job, compiled against the jars, with the class of the file's name as its main program. factories: classes that
    make its tables. Raises BadInput without a Java compiler."""
    for tool in ("java", "javac", "jar"):
        if shutil.which(tool) is None:
            raise BadInput(f"there is no {tool}; install a JDK (17 or 21) to run Flink and compile its job")
    libraries, classes, found = jars(), CACHE / "classes" / source.stem, CACHE / f"{source.stem}.jar"
    if found.is_file() and found.stat().st_mtime > max(each.stat().st_mtime for each in (source, PACED)):
        return found
    shutil.rmtree(classes, ignore_errors=True)  # classes of an older source
    _run(["javac", "-d", str(classes), "-cp", f"{libraries}/*", str(source), str(PACED)], "the job does not compile")
    (classes / FACTORIES).parent.mkdir(parents=True)
    (classes / FACTORIES).write_text("".join(f"{each}\n" for each in factories), encoding="utf-8")
    _run(["jar", "cfe", str(found), source.stem, "-C", str(classes), "."], "the job cannot be packed")
    return found


def _run(command: list[str], otherwise: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BadInput(f"{otherwise}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
