"""Tests of fan-out: nothing lost, nothing doubled, the same runs however they are spread; failures are rows."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark.corpus import write_corpus
from tests.spark.fakes import Broken, DyingOnce, Slow, make, simulate
from tests.spark.interruptible import SPEC
from twin.corpus.chunks import audit, cut
from twin.corpus.manifest import CorpusSpec, check_corpus, open_corpus, read_manifest, sole_writer
from twin.errors import BadInput
from twin.files import SUMS
from twin.randomness import child_seed
from twin.trace import TABLES, read_table

pytestmark = pytest.mark.spark


def spec_of(runs: int, **changes: object) -> CorpusSpec:
    return CorpusSpec(**{"runs": runs, "seed": 7, "space": "fake", **changes})


def table_of(corpus: Path, table: str) -> pa.Table:
    """One table of all chunks in order, without the one column that is measured."""
    chunks = sorted((corpus / "chunks").glob("chunk-*"))
    whole = pa.concat_tables(read_table(chunk, table) for chunk in chunks)
    return whole.drop_columns("cpu_s") if table == "runs" else whole


def assert_same_runs(one: Path, other: Path) -> None:
    for table in TABLES:
        assert table_of(one, table).equals(table_of(other, table))


def leftovers(corpus: Path) -> list[str]:
    return [path.name for path in corpus.rglob("*") if "partial" in path.name or "attempts" in path.name]


@pytest.mark.parametrize(("runs", "chunk_runs"), [(1, 1), (7, 3), (6, 3), (2, 20)])
def test_chunks_cover_every_index_once(runs: int, chunk_runs: int) -> None:
    chunks = cut(runs, chunk_runs)
    assert [index for chunk in chunks for index in range(chunk.first, chunk.stop)] == list(range(runs))
    assert all(1 <= chunk.runs <= chunk_runs for chunk in chunks)
    assert len({chunk.name for chunk in chunks}) == len(chunks)


def test_every_run_is_there_with_its_own_seed(spark: SparkSession, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    summary = write_corpus(
        spark, tmp_path / "c", spec_of(10), make, simulate, progress=lambda done, total: seen.append((done, total))
    )
    runs = table_of(tmp_path / "c", "runs").to_pylist()
    assert [row["index"] for row in runs] == list(range(10))
    assert [row["seed"] for row in runs] == [child_seed(7, index) for index in range(10)]
    assert [row["name"] for row in runs] == [f"fake {index}" for index in range(10)]
    assert (summary.runs, summary.failed, summary.resumed) == (10, 0, 0)
    assert seen[0] == (0, 10)
    assert seen[-1] == (10, 10)
    assert seen == sorted(seen)
    assert not leftovers(tmp_path)


def test_chunk_size_does_not_change_a_run(spark: SparkSession, tmp_path: Path) -> None:
    """Runs do not depend on the size of chunks: one chunk has one worker at a time, nine have two in turns."""
    write_corpus(spark, tmp_path / "one", spec_of(9), make, simulate, chunk_runs=9)
    write_corpus(spark, tmp_path / "nine", spec_of(9), make, simulate, chunk_runs=1)
    assert_same_runs(tmp_path / "one", tmp_path / "nine")


def test_resume_keeps_finished_chunks_and_clears_unfinished_ones(spark: SparkSession, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    write_corpus(spark, whole, spec_of(12), make, simulate, chunk_runs=3)
    shutil.copytree(whole, broken)
    shutil.rmtree(broken / "chunks" / "chunk-000001")
    (broken / "chunks" / ".chunk-000001.123.partial").mkdir()
    (broken / "chunks" / ".chunk-000001.attempts").write_text("1 4\n")
    kept = broken / "chunks" / "chunk-000000" / "runs.parquet"
    before = kept.stat()
    summary = write_corpus(spark, broken, spec_of(12), make, simulate)
    assert summary.resumed == 9
    assert (kept.stat().st_ino, kept.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert_same_runs(whole, broken)
    assert not leftovers(broken)


def test_failing_hanging_and_dying_runs_become_rows(spark: SparkSession, tmp_path: Path) -> None:
    broken = Broken(raising=frozenset({1}), hanging=frozenset({2}), busy=frozenset({3}), dying=frozenset({5}))
    summary = write_corpus(spark, tmp_path / "c", spec_of(8), make, broken, chunk_runs=4, run_limit_s=0.3)
    rows = table_of(tmp_path / "c", "runs").to_pylist()
    failed = {row["index"]: row["error"] for row in rows if row["status"] == "failed"}
    assert failed.keys() == {1, 2, 3, 5}
    assert summary.failed == 4
    assert failed[1].startswith("ZeroDivisionError: run 1 has two lines (fakes.py:")
    assert failed[2] == "RunTimeLimit: not done after 3 s"
    assert failed[3] == "RunTimeLimit: not done after 0.3 s of CPU time"
    assert failed[5].startswith("WorkerDied")
    assert rows[1]["seed"] == child_seed(7, 1)
    assert json.loads(rows[1]["deployment"])["workload"]["arrivals"]["in"]["rate_per_s"] == 2
    assert set(table_of(tmp_path / "c", "operators")["run"].to_pylist()) == {
        row["run"] for row in rows if row["status"] == "ok"
    }
    assert not leftovers(tmp_path)
    shutil.rmtree(tmp_path / "c" / "chunks" / "chunk-000001")
    assert write_corpus(spark, tmp_path / "c", spec_of(8), make, simulate).failed == 3  # those of before count


def test_a_run_in_a_lost_process_gets_another_chance(spark: SparkSession, tmp_path: Path) -> None:
    summary = write_corpus(spark, tmp_path / "c", spec_of(6), make, DyingOnce(str(tmp_path)), chunk_runs=6)
    assert (tmp_path / "died").exists()
    assert summary.failed == 0


def test_what_is_no_such_corpus_is_refused_and_kept(spark: SparkSession, tmp_path: Path) -> None:
    write_corpus(spark, tmp_path / "c", spec_of(2), make, simulate)
    others = {"seed": {"seed": 8}, "space": {"space": "real"}, "settings.horizon_s": {"settings": {"horizon_s": 1}}}
    for key, changes in others.items():
        with pytest.raises(BadInput, match=f"corpus with {key} "):
            write_corpus(spark, tmp_path / "c", spec_of(**{"runs": 2, **changes}), make, simulate)
    with pytest.raises(BadInput, match="has 2 runs, not 1; ask for as many or more"):
        write_corpus(spark, tmp_path / "c", spec_of(1), make, simulate)
    with sole_writer(tmp_path / "c"), pytest.raises(BadInput, match="another process"):
        write_corpus(spark, tmp_path / "c", spec_of(2), make, simulate)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.txt").write_text("years of work")
    with pytest.raises(BadInput, match=r"no corpus, it holds 'thesis\.txt'"):
        write_corpus(spark, tmp_path / "foreign", spec_of(2), make, simulate)
    assert [path.name for path in (tmp_path / "foreign").iterdir()] == ["thesis.txt"]
    with pytest.raises(BadInput, match="is a file"):
        write_corpus(spark, tmp_path / "foreign" / "thesis.txt", spec_of(2), make, simulate)


def spoil(path: Path, how: str) -> None:
    """Damages a file as disks and people do."""
    content = bytearray(path.read_bytes())
    match how:
        case "one bit":
            content[len(content) // 2] ^= 1
            path.write_bytes(content)
        case "cut off":
            path.write_bytes(content[: len(content) // 2])
        case "no Parquet":
            path.write_bytes(b"PAR1 nonsense PAR1")
        case "gone":
            path.unlink()


def test_damaged_chunks_are_simulated_again(spark: SparkSession, tmp_path: Path) -> None:
    """Chunks are simulated again whatever of them is damaged: each but the first in another way.

    Corpora have no rows of subtasks.
    """
    ways = [(table, "one bit") for table in TABLES if table != "subtasks"]
    ways += [("hosts", "gone"), ("runs", "cut off"), ("links", "no Parquet")]
    corpus, spec, said = tmp_path / "c", spec_of(len(ways) + 1), list[str]()
    write_corpus(spark, tmp_path / "whole", spec, make, simulate, chunk_runs=1)
    shutil.copytree(tmp_path / "whole", corpus)
    for number, (table, how) in enumerate(ways, start=1):
        spoil(corpus / "chunks" / f"chunk-{number:06d}" / f"{table}.parquet", how)
    assert write_corpus(spark, corpus, spec, make, simulate, note=said.append).resumed == 1
    assert [line.partition(" is ")[0] for line in said] == [f"chunk-{n:06d}" for n in range(1, len(ways) + 1)]
    assert all(f"({table}.parquet is" in line for line, (table, _) in zip(said, ways, strict=True))
    assert_same_runs(corpus, tmp_path / "whole")
    assert not audit(corpus, cut(spec.runs, 1)).damaged


def test_chunks_of_a_version_without_checksums_are_read_instead(spark: SparkSession, tmp_path: Path) -> None:
    write_corpus(spark, tmp_path / "c", spec_of(6), make, simulate, chunk_runs=2)
    for sums in tmp_path.rglob(SUMS):
        sums.unlink()
    spoil(tmp_path / "c" / "chunks" / "chunk-000002" / "links.parquet", "cut off")
    found = audit(tmp_path / "c", cut(6, 2))
    assert {chunk.number for chunk in found.whole} == {0, 1}
    assert {chunk.number for chunk in found.damaged} == {2}


@pytest.mark.parametrize("more", [5, 11])
def test_a_corpus_grows_to_the_runs_of_one_that_was_large_at_once(
    spark: SparkSession, tmp_path: Path, more: int
) -> None:
    """A corpus grows to the runs of a larger one: its second chunk is short, and is simulated again when it grows."""
    corpus = tmp_path / "c"
    write_corpus(spark, corpus, spec_of(4), make, simulate, chunk_runs=3)
    summary = write_corpus(spark, corpus, spec_of(more), make, simulate)
    assert (summary.runs, summary.resumed) == (more, 3)
    assert read_manifest(corpus)["runs"] == more
    write_corpus(spark, tmp_path / "large", spec_of(more), make, simulate, chunk_runs=3)
    assert_same_runs(corpus, tmp_path / "large")
    assert read_manifest(corpus) == read_manifest(tmp_path / "large")


@pytest.mark.parametrize(("version", "resumes"), [("0.2.7", True), ("0.1.0", False), ("1.2.0", False)])
def test_patch_releases_resume_each_others_corpora(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, resumes: bool
) -> None:
    """Patch releases resume each other's corpora, as they simulate the same; others name the version to go on with."""
    spec = spec_of(4)
    with monkeypatch.context() as earlier:
        earlier.setattr("twin.corpus.manifest.VERSION", version)
        assert open_corpus(tmp_path, spec, 2) == 2
    if resumes:
        assert open_corpus(tmp_path, spec_of(8), 1) == 2
        assert read_manifest(tmp_path)["version"] == version
    else:
        with pytest.raises(BadInput, match=f"begun by streamtwin {version}, .* go on with that version"):
            check_corpus(tmp_path, spec)


def test_an_empty_corpus_and_a_manifest_that_is_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="runs must be >= 1"):
        spec_of(0)
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(BadInput, match="not a corpus manifest"):
        read_manifest(tmp_path)


def path_without_java(folder: Path) -> str:
    """PATH with every program of this machine but java."""
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            link = folder / program.name
            link.unlink(missing_ok=True)
            if program.name != "java":
                link.symlink_to(program)
    return str(folder)


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Corpus of `interruptible`, made at once."""
    folder = tmp_path_factory.mktemp("whole") / "c"
    write_corpus(spark, folder, SPEC, make, simulate, chunk_runs=4)
    return folder


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the Java process in /proc")
@pytest.mark.parametrize("killed", [False, True], ids=["ctrl-c", "java killed"])
def test_an_interrupted_corpus_resumes_to_the_same_runs(
    spark: SparkSession, whole: Path, tmp_path: Path, killed: bool
) -> None:
    """A corpus begun on one worker in another process is finished here on two with the same runs. It ends by Ctrl-C, or
    because its Java, which is the package's own, was killed, as where memory runs out."""
    corpus, environment = tmp_path / "c", dict(os.environ)
    if killed:
        (tmp_path / "bin").mkdir()
        environment["PATH"] = path_without_java(tmp_path / "bin")
        environment.pop("JAVA_HOME", None)
    program = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.interruptible", str(corpus)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert program.stdout is not None
    next(line for line in program.stdout if int(line.split()[0]) >= 8)
    java = java_of(program.pid)
    if killed:
        os.kill(java, signal.SIGKILL)
    else:
        os.killpg(program.pid, signal.SIGINT)  # as by a terminal: the JVM included
    _, errors = program.communicate(timeout=60)
    assert ended(java)
    if killed:
        assert "Unfinished: Spark's Java process has ended" in errors.splitlines()[-1]
        assert "ERROR:" not in errors
    else:
        assert program.returncode == -signal.SIGINT
        assert errors.splitlines()[-1:] in ([], ["KeyboardInterrupt"]) and "py4j" not in errors
    assert 8 <= write_corpus(spark, corpus, SPEC, make, simulate).resumed < SPEC.runs
    assert not leftovers(corpus)
    assert_same_runs(corpus, whole)


def java_of(program: int) -> int:
    """Process id of the program's Java."""
    children = Path(f"/proc/{program}/task/{program}/children").read_text().split()
    return next(int(child) for child in children if Path(f"/proc/{child}/comm").read_text().strip() == "java")


def ended(process: int) -> bool:
    """Whether a process is gone, or a zombie, within half a minute."""
    command, patience_s = Path(f"/proc/{process}/cmdline"), 30.0
    while command.exists() and command.read_bytes() and (patience_s := patience_s - 0.1) > 0:
        time.sleep(0.1)
    return patience_s > 0


def test_a_slow_corpus_stays_interruptible(spark: SparkSession, tmp_path: Path) -> None:
    """An exception in the main thread cancels the job, and the session stays usable."""

    class StopError(Exception):
        pass

    def stop(done: int, _total: int) -> None:
        if done:
            raise StopError

    with pytest.raises(StopError):
        write_corpus(spark, tmp_path / "c", spec_of(24), make, Slow(0.1), chunk_runs=2, progress=stop)
    kept = len(list((tmp_path / "c" / "chunks").glob("chunk-*")))
    assert 1 <= kept < 12
    assert write_corpus(spark, tmp_path / "c", spec_of(24), make, simulate).resumed >= 2 * kept


def test_a_chunk_under_removal_cannot_be_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker of a cancelled job that is still writing cannot turn a half-removed folder into a chunk."""
    partial = tmp_path / "c" / "chunks" / ".chunk-000003.77.partial"
    partial.mkdir(parents=True)
    (partial / "runs.parquet").write_bytes(b"rows")
    remove = shutil.rmtree

    def race(path: Path, **options: bool) -> None:
        with pytest.raises(FileNotFoundError):
            partial.replace(partial.with_name("chunk-000003"))
        remove(path, **options)

    monkeypatch.setattr(shutil, "rmtree", race)
    with sole_writer(tmp_path / "c"):
        assert not list((tmp_path / "c" / "chunks").iterdir())
