"""What people bring to the page of `twin serve` and what they keep: read as it was, and nothing else of the machine."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from html import escape
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import pytest

from scenarios.files import registry
from scenarios.files.scenario_file import dump, load
from streamtwin.serve import keeping, start
from streamtwin.serve.keeping import RUN, KeptAnswer, KeptAnswers
from streamtwin.serve.opening import HEADING, keep, known
from streamtwin.serve.sessions import Jobs
from tests.commands import twin
from tests.streamtwin.importers.flink_cluster import Cluster, serving
from tests.streamtwin.importers.test_flink_cpu import Seldom
from tests.streamtwin.serving import JOB, Served
from twin.errors import BadInput

EVIL = "<img src=x onerror=alert(1)>"
SAVED = json.loads((Path(__file__).parent / "importers" / "nexmark" / "q12-2000.json").read_text())
TEXT = dump(load(JOB).with_run(horizon_s=20))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Server of one small job."""
    folder = tmp_path_factory.mktemp("serve")
    (folder / f"{JOB}.yaml").write_text(TEXT)
    with Served(folder, f"{JOB}.yaml", "--state", "kept") as found:
        yield found


@pytest.fixture(scope="module")
def watched() -> Iterator[tuple[Served, Path]]:
    """Server for imports that are all stopped, and the folder of what it keeps aside meanwhile."""
    aside = mkdtemp()  # its name is short, as sockets have theirs below it
    folder = Path(aside) / "job"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TMPDIR", aside)
        with Served(folder, JOB, "--state", "kept") as found:
            yield found, Path(aside)
    rmtree(aside)


def dropped(served: Served, name: str) -> None:
    """Removes an opened job, so that others find the server as it was."""
    assert served.send(f"/job/{name}/drop", "POST", "{}")[0] == 200
    assert known(served.state) == {}


def brought(served: Served, **what: Any) -> tuple[int, dict[str, Any]]:
    """Status and answer when a person brings a job."""
    status, body, _ = served.send("/open", "POST", json.dumps(what))
    return status, json.loads(body)


# what people bring ---------------------------------------------------------------------------------------------------


def test_an_opened_file_is_a_job_like_any_other_and_outlives_the_server(tmp_path: Path) -> None:
    mine = dump(load(JOB).with_run(horizon_s=20, seed=5))
    for _ in range(2):
        with Served(tmp_path, JOB, "--state", "kept") as served:
            assert brought(served, file="mine.yaml", text=mine) == (200, {"address": "/job/mine"})
            assert load(str(tmp_path / known(served.state)["mine"])) == load(JOB).with_run(horizon_s=20, seed=5)
            assert served.document("run.json", "mine")["manifest"]["seed"] == 5
            assert 'href="/job/mine"' in served.send("/")[1]
    assert [*known(served.state)] == ["mine"]


def test_names_are_given_once_and_the_same_text_is_the_same_job(tmp_path: Path) -> None:
    called = {"job": "elsewhere.yaml"}
    for text, name in ((TEXT, "job-2"), (TEXT, "job-2"), (TEXT.replace("20", "30"), "job-3")):
        found, file = keep(tmp_path, called, "job", text)
        called[found] = str(file)
        assert found == name and file.read_text() == text
    odd, file = keep(tmp_path, called, "../../etc/passwd: a job?", TEXT.replace("20", "40"))
    assert file.parent == tmp_path / "opened" and re.fullmatch(r"[\w.-]+", odd)
    assert known(tmp_path) == {name: file for name, file in called.items() if name != "job"} | {odd: str(file)}
    wide, file = keep(tmp_path, called, "\U00020000" * 60, TEXT.replace("20", "50"))
    assert set(wide) == {"\U00020000"} and file.is_file()


def test_an_opened_job_whose_name_is_served_has_another_one(tmp_path: Path) -> None:
    """Its file is told by where it is: the same text is the same job still, and it can be removed."""
    texts = [dump(load(JOB).with_run(horizon_s=20, seed=seed)) for seed in (5, 6, 7)]
    (tmp_path / "mine.yaml").write_text(texts[0])
    for text in texts[1:]:
        keep(tmp_path / "kept", {}, "mine", text)
    with Served(tmp_path, "mine.yaml", "--state", "kept") as served:
        page = served.send("/")[1]
        assert sorted(set(re.findall(r'href="/job/([^"]+)"', page))) == ["mine", "mine-2", "mine-3"]
        assert re.findall(r'data-post="/job/([^"]+)/drop"', page) == ["mine-2", "mine-3"]
        for name, seed in (("mine", 5), ("mine-3", 6), ("mine-2", 7)):
            assert served.document("run.json", name)["manifest"]["seed"] == seed
        assert brought(served, file="mine.yaml", text=texts[1]) == (200, {"address": "/job/mine-3"})
        assert served.send("/job/mine-3/drop", "POST", "{}")[0] == 200
        assert [*known(served.state)] == ["mine-2"] and (tmp_path / "mine.yaml").is_file()


def test_what_was_opened_can_be_removed_and_nothing_else(served: Served) -> None:
    """A job that is opened again under a removed one's name has none of its changes, and none of its kept answers."""
    for seed in (5, 6):
        mine = dump(load(JOB).with_run(horizon_s=20, seed=seed))
        assert brought(served, file="mine.yaml", text=mine)[0] == 200
        assert served.document("run.json", "mine")["manifest"]["seed"] == seed
        assert served.view("mine")["regions"]["kept"] == ""
        assert served.act("mine", act="keep", what="run", name="of mine")[0] == 200
        assert 'href="/kept/' in served.view("mine")["regions"]["kept"]
        assert served.act("mine", act="set", text="run.seed=9")[0] == 200
        dropped(served, "mine")
        assert served.send("/job/mine")[0] == 404
        assert [*KeptAnswers(served.state)] == []
    for name in (JOB, "mine", "none"):
        assert served.send(f"/job/{name}/drop", "POST", "{}")[0] == 422
    assert served.send(f"/job/{JOB}")[0] == 200


@pytest.mark.parametrize("path", ["/etc/passwd", "/dev/zero", "pipe", "kept/token"])
def test_a_file_that_names_another_one_is_refused_before_that_is_looked_at(served: Served, path: str) -> None:
    if path == "pipe" and not (served.state.parent / path).exists():
        os.mkfifo(served.state.parent / path)
    law = f"    sensors:\n      law: replay\n      path: {path}\n"
    text = re.sub(r"    sensors:.*?\n(?=\S)|    sensors: .*\n", law, TEXT, flags=re.DOTALL)
    assert "replay" in text
    status, found = brought(served, file="mine.yaml", text=text)
    assert status == 422 and "may not name a file" in found["wrong"]


@pytest.mark.parametrize(
    "what",
    [
        {"file": "x.yaml", "text": "name: [1"},
        {"file": "x.yaml", "text": "a: 1"},
        {"file": "x.yaml", "text": "x" * 2_000_001},
        {"file": "x.yaml", "text": "[" * 200_000},
        {},
        {"url": "file:///etc/passwd"},
        {"url": "/etc"},
        {"url": "--out=/tmp/x"},
        {"url": "http://127.0.0.1:9"},
        {"url": "http://127.0.0.1:9", "window": "0"},
        {"url": "http://127.0.0.1:9", "window": "--save=/tmp/x"},
        {"answers": {"../x.json": "{}"}},
        {"answers": {"/etc/passwd": "{}"}},
        {"answers": {"a" * 300 + ".json": "{}"}},
        {"answers": {"\U00020000" * 70 + ".json": "{}"}},
        {"answers": {"a.json": "{}"}},
        {"answers": {"a.json": "{}", "b.json": "{}"}},
    ],
    ids=lambda what: str(what)[:50],
)
def test_what_cannot_be_opened_is_said_in_a_line(served: Served, what: dict[str, Any]) -> None:
    status, found = brought(served, **what)
    assert status == 422 and found["wrong"] and "\n" not in found["wrong"]
    assert "internal" not in found["wrong"] and "/tmp/" not in found["wrong"].replace("--save=/tmp/x", "")
    assert not [*(served.state / "opened").glob("*")]


def test_senseless_requests_are_refused(served: Served) -> None:
    for body in ("", "[]", "{", '{"text": 1}', '{"answers": ["a"]}', '{"path": "/etc/passwd"}', '{"text": "\\ud800"}'):
        assert served.send("/open", "POST", body)[0] == 400, body
    assert served.send("/open", "POST", "{}", Origin="http://evil.example")[0] == 403
    assert served.send("/open", "POST", "{}", Cookie="")[0] == 403
    assert served.send("/open")[0] == 405
    assert served.send("/open", "POST", "{}", Content_Length=str(64_000_001))[0] == 413


ALONE = {"job.json": {**SAVED["job_jobs_id.json"], **SAVED["job_jobs_id_plan.json"]}}


@pytest.mark.parametrize("answers", [SAVED, ALONE], ids=["folder", "alone"])
def test_saved_answers_make_the_scenario_that_the_command_makes(
    answers: dict[str, Any], served: Served, tmp_path: Path
) -> None:
    texts = {name: json.dumps(each) for name, each in answers.items()}
    folder = tmp_path / "saved"
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(text)
    source = folder if len(texts) > 1 else folder / "job.json"
    told = json.loads(twin("import", "flink", source, "--out", tmp_path / "job.yaml", "--json").stdout)
    assert brought(served, answers=texts) == (200, {"address": f"/job/{load(str(tmp_path / 'job.yaml')).name}"})
    ((name, file),) = known(served.state).items()
    assert load(str(served.state.parent / file)) == load(str(tmp_path / "job.yaml"))
    page = served.send(f"/job/{name}")[1]
    assert told["notes"] and all(escape(" ".join(note.split()), quote=False) in page for note in told["notes"])
    dropped(served, name)


def test_a_running_flink_is_imported_by_its_address(served: Served) -> None:
    with serving(Cluster()) as url:
        assert brought(served, url=url, job="clicks", window="1") == (200, {"address": "/job/clicks"})
    assert load(str(served.state.parent / known(served.state)["clicks"])).query.operators
    dropped(served, "clicks")


def test_ctrl_c_ends_an_import_that_is_under_way(tmp_path: Path) -> None:
    served = Served(tmp_path, JOB, "--state", "kept")
    with serving(Cluster()) as url, ThreadPoolExecutor(1) as other:
        going = other.submit(brought, served, url=url, window="300")
        wait_until(lambda: bool(_importing()))
        served.process.send_signal(signal.SIGINT)
        _, errors = served.process.communicate(timeout=30)
        assert "ended meanwhile" in going.result()[1]["wrong"]
    assert served.process.returncode == 130 and len(errors.splitlines()) == 2, errors
    wait_until(lambda: not _importing())


def importing(served: Served) -> str:
    """What the start page says of imports."""
    return str(json.loads(served.send("/view")[1])["importing"])


def stopped(served: Served) -> list[str]:
    """Stops all imports: addresses at which that was asked for."""
    found = re.findall(r'data-post="(/import/\d+/stop)"', served.send("/")[1])
    for each in found:
        assert served.send(each, "POST", "{}")[0] == 200
    return found


@pytest.mark.parametrize("after", ["", "answers", "threads"], ids=["at once", "while it watches", "while it looks"])
def test_an_import_says_what_it_waits_for_and_stop_leaves_nothing(after: str, watched: tuple[Served, Path]) -> None:
    """The page is usable meanwhile: another job is opened. Neither a file nor a folder nor a process stays."""
    served, aside = watched
    window = "300" if after == "answers" else "2"
    with serving(Seldom(cores=0.05, dump_s=1.0)) as url, ThreadPoolExecutor(1) as other:
        going = other.submit(brought, served, url=url, window=window)
        wait_until(lambda: after in importing(served) and url in importing(served))
        assert brought(served, file="mine.yaml", text=TEXT) == (200, {"address": "/job/mine"})
        assert not after or [*aside.glob("twin-serve-*")]
        (stop,) = stopped(served)
        status, found = going.result()
        assert status == 422 and "stopped; nothing of it is kept" in found["wrong"]
        assert importing(served) == "" and [*known(served.state)] == ["mine"] and not [*aside.glob("twin-serve-*")]
        assert served.send(stop, "POST", "{}")[0] == 422
    wait_until(lambda: not _importing())


def test_an_import_goes_on_when_its_page_is_left_and_its_failure_is_told_to_the_next(served: Served) -> None:
    with serving(Cluster()) as url:
        leave(served, url=url, window="1")
        wait_until(lambda: 'href="/job/clicks"' in served.send("/")[1])
        assert importing(served) == "" and [*known(served.state)] == ["clicks"]
        leave(served, url=url, window="300")
        wait_until(lambda: "answers" in importing(served))
    wait_until(lambda: "Stop" not in importing(served))
    told = importing(served)  # by chance, a request is under way as the cluster ends
    assert f"{url}/jobs/j1 gives no answer" in told or f"{url}/jobs/j1: the connection was cut" in told
    assert len(stopped(served)) == 1
    assert importing(served) == "" and [*known(served.state)] == ["clicks"]
    dropped(served, "clicks")


def test_more_imports_than_can_be_watched_are_refused_by_the_names_of_those(watched: tuple[Served, Path]) -> None:
    served, _ = watched
    with serving(Cluster()) as url, ThreadPoolExecutor(2) as other:
        going = [other.submit(brought, served, url=url, window="300", job=job) for job in ("clicks", "j1")]
        wait_until(lambda: importing(served).count("Stop") == 2)
        status, found = brought(served, url=url)
        assert status == 422 and all(f"{job}, {url}" in found["wrong"] for job in ("clicks", "j1"))
        assert len(stopped(served)) == 2
        assert {each.result()[0] for each in going} == {422}


def test_credentials_of_a_flink_are_not_shown_while_it_is_imported(watched: tuple[Served, Path]) -> None:
    served, _ = watched
    with serving(Cluster()) as url, ThreadPoolExecutor(1) as other:
        going = other.submit(brought, served, url=url.replace("//", "//ann:s3cret@"), window="300")
        wait_until(lambda: "answers" in importing(served))
        assert url in importing(served) and "s3cret" not in importing(served)
        assert len(stopped(served)) == 1
        assert "s3cret" not in going.result()[1]["wrong"]


def leave(served: Served, **what: Any) -> None:
    """Brings a job by a page that is left before it is imported."""
    body = json.dumps(what)
    lines = [
        "POST /open HTTP/1.1", f"Host: {served.host}", f"Origin: http://{served.host}",
        f"Cookie: twin-{served.port}={served.token}", f"Content-Length: {len(body)}", "", body,
    ]  # fmt: skip
    with socket.create_connection(("127.0.0.1", served.port)) as page:
        page.sendall("\r\n".join(lines).encode())
        wait_until(lambda: what["url"] in importing(served))


def wait_until(happens: Callable[[], bool]) -> None:
    """Waits until something happens."""
    ends_s = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < ends_s
        time.sleep(0.05)


def _importing() -> list[str]:
    """Processes that import a job that is watched for 300 s."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += [str(file)] if b"import\0flink" in (told := file.read_bytes()) and b"--window=300" in told else []
    return found


# the start page ------------------------------------------------------------------------------------------------------


def test_the_start_page_has_each_scenario_of_the_library_once_with_its_picture(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        page = served.send("/")[1]
        assert sorted(re.findall(r'href="/job/([^"]+)"', page)) == sorted(registry.names())
        assert sorted(re.findall(r'src="/job/([^"]+)/sketch.svg"', page)) == sorted(registry.names())
        for name in registry.names():
            status, picture, headers = served.send(f"/job/{name}/sketch.svg")
            assert status == 200 and headers["content-type"].startswith("image/svg+xml")
            assert picture.count("<circle") == len(load(name).query.operators), name
        assert served.send("/job/none/sketch.svg")[0] == 404
        assert "Asked about last" not in page
        for name in ("clicks", "orders", "clicks"):
            assert served.act(name, act="set", text="run.seed=3")[0] == 200
        last = served.send("/")[1].split("Asked about last")[1].split("</ul>")[0]
        assert re.findall(r'href="/job/([^"]+)"', last) == ["clicks", "orders"] and "2 changes" in last


def test_a_job_that_comes_or_goes_while_sentences_are_read_is_listed_without_one() -> None:
    assert Jobs({}, Path()).about("gone") == ""
    assert 'href="/job/new"' in start.regions({HEADING: ["new"]}, {}, {}, [], {})["listed"]


def test_every_name_of_the_library_is_under_one_heading() -> None:
    listed = registry.by_theme([*registry.names(), "mine"])
    assert sorted(name for names in listed.values() for name in names) == sorted([*registry.names(), "mine"])
    assert listed.pop(registry.OTHERS) == ["mine"]
    assert list(listed) == list(registry.THEMES)
    numbers = [int(name.removeprefix("nexmark-q")) for name in listed["Nexmark as Flink SQL"]]
    assert len(numbers) > 10 and numbers == sorted(numbers)


# what people keep ----------------------------------------------------------------------------------------------------


def test_a_kept_answer_is_the_pages_and_is_set_beside_another(served: Served) -> None:
    """A run kept before a change and one kept after it stand in one table, each with its own numbers and changes."""
    while served.act(act="undo")[0] == 200:
        pass
    regions = []
    for name, text in (("as it is", ""), (EVIL, "workload.arrivals.sensors.rate_per_s=400")):
        if text:
            assert served.act(act="set", text=text)[0] == 200
        regions.append(served.settled()["regions"]["answer"])
        assert served.act(act="keep", what="run", name=name)[0] == 200
    assert served.act(act="keep", what="run", name=EVIL)[1]["wrong"].startswith("an answer is kept as")
    second, first = KeptAnswers(served.state).values()
    assert (first.name, second.name) == ("as it is", EVIL)
    assert first.changes == [] and second.changes == ["workload.arrivals.sensors.rate_per_s=400"]
    for kept, region in zip((first, second), regions, strict=True):
        assert escape(kept.told, quote=False) in region
        assert all(escape(value, quote=False) in region for _, value in kept.facts)
    status, page, _ = served.send(f"/kept/{first.number}/{second.number}")
    assert status == 200 and EVIL not in page and escape(EVIL, quote=False) in page
    rows = dict(re.findall(r"<tr><td>([^<]*)</td>(.*?)</tr>", page))
    for what, value in first.facts:
        cells = re.findall(r"<td[^>]*>([^<]*)</td>", rows[what])
        assert cells == [escape(value, quote=False), escape(dict(second.facts)[what], quote=False)]
    differs = page.split("What differs")[1]
    assert "throughput_per_s" in differs and "operators.sensors.rate_in_per_s" in differs
    for each in (first, second):
        alone = served.send(each.address)[1]
        assert "What differs" not in alone
        assert escape(each.told, quote=False) in alone and escape(each.command) in alone
        assert f'href="/kept/{each.number}"' in served.send("/")[1]
        assert f'href="/kept/{each.number}"' in served.view()["regions"]["kept"]
    assert served.send(f"/kept/{first.number}/forget", "POST", "{}")[0] == 200
    assert served.send(f"/kept/{first.number}")[0] == 404
    assert list(KeptAnswers(served.state).values()) == [second]


def test_nothing_is_kept_that_is_not_there_or_has_no_name(served: Served) -> None:
    served.settled()
    names = (" ", "x" * 61, "two\nlines", "turned\u202e")
    for asked in (
        *({"what": "run", "name": each} for each in names),
        *({"what": w, "name": "x"} for w in ("answer", "")),
    ):
        status, found = served.act(act="keep", **asked)
        assert status == 422 and found["wrong"]
    assert served.send("/kept/none")[0] == 404
    assert served.send("/kept/none/figure.png")[0] == 404
    assert served.send("/kept/none/forget", "POST", "{}")[0] == 422
    assert served.send("/kept/none/forget")[0] in (404, 405)


def test_kept_answers_are_read_as_they_were_written_or_refused(tmp_path: Path) -> None:
    about = {"job": JOB, "question": RUN, "command": "twin run x --set run.seed=3", "told": "It keeps up."}
    answers = [KeptAnswer(name=name, facts=(("results", "3"),), **about) for name in ("a", "b", "c")]
    store = KeptAnswers(tmp_path)
    for each in answers:
        store.keep(each)
    assert list(KeptAnswers(tmp_path).values()) == list(store.values()) == answers[::-1]
    assert keeping.page(answers[:2], answers).count("run.seed=3") >= 2
    file = tmp_path / "kept" / f"{answers[0].number}.json"
    whole = file.read_text()
    for damaged in (whole.replace("keeps up", "is slow"), whole[:50], "", "[" * 100_000, json.dumps({"name": "a"})):
        file.write_text(damaged)
        with pytest.raises(BadInput, match="does not hold an answer that was kept; remove it"):
            KeptAnswers(tmp_path)


@pytest.mark.slow  # it waits for a question
def test_the_answer_to_a_question_is_kept_with_its_figure(served: Served) -> None:
    assert served.act(act="ask", question="capacity", **{"find-max": "load", "while": "not backpressured"})[0] == 200
    served.settled()
    assert served.act(act="keep", what="answer", name="how much")[0] == 200
    (kept,) = (each for each in KeptAnswers(served.state).values() if each.name == "how much")
    assert kept.question == "capacity" and "find-max" in kept.command
    page = served.send(f"/kept/{kept.number}")[1]
    assert escape(kept.told, quote=False) in page and f"/kept/{kept.number}/figure.png" in page
    assert served.send(f"/kept/{kept.number}/forget", "POST", "{}")[0] == 200
