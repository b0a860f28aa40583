"""Installs Flink's jars from the Python package index, and the compiled job, in a cache folder of the user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from twin.errors import BadInput
from twin.files import new_folder

PACKAGE = "apache-flink-libraries"
VERSION = "2.3.0"
SOURCE = Path(__file__).parent / "LiveJob.java"
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


def job_jar() -> Path:
    """Job of this folder, compiled against the jars. Raises BadInput without a Java compiler."""
    for tool in ("java", "javac", "jar"):
        if shutil.which(tool) is None:
            raise BadInput(f"there is no {tool}; install a JDK (17 or 21) to run Flink and compile its job")
    libraries, classes, found = jars(), CACHE / "classes", CACHE / "job.jar"
    if found.is_file() and found.stat().st_mtime > SOURCE.stat().st_mtime:
        return found
    _run(["javac", "-d", str(classes), "-cp", f"{libraries}/*", str(SOURCE)], "the job does not compile")
    _run(["jar", "cfe", str(found), "LiveJob", "-C", str(classes), "."], "the job cannot be packed")
    return found


def _run(command: list[str], otherwise: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BadInput(f"{otherwise}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
