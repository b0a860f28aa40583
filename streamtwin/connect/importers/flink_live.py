"""Asks a running job of Flink through the window of an import, and says what is waited for.

`GET /jobs/:id` returns the metrics that were gathered before it was asked, and has new ones gathered every 10 s at
most, so a live job is asked again and again through the window, and rates are differences between two fresh snapshots.
"""

from __future__ import annotations

import base64
import http.client
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from scenarios.executing import Audience, Lines
from streamtwin.connect.importers import flink_answers as forms
from streamtwin.connect.importers.flink_answers import (
    ACCUMULATED,
    COMPLETE,
    CPU,
    MARKERS,
    MOST_BYTES,
    OF_A_SECOND,
    SEEN,
    Answers,
    Form,
    T,
)
from streamtwin.connect.importers.flink_chain import COUNTED
from twin.errors import BadInput, suggest
from twin.files import parse_json

ASKED_EVERY_S = 0.5
PATIENCE_S = 10.0
"""Longest time for one answer."""
REFRESHED_S = 30.0
"""Longest wait for fresh metrics; by default a cluster gathers them every 10 s."""
LONGEST_LIST = 3000
"""Most characters of a list of metrics in an address: Flink refuses requests whose first line has more than 4,096, and
the name of a latency marker has some 150."""
BUSY = ACCUMULATED[0]
OFTEN, LONGER = 0.05, 4.0
"""Share of the time from which on a vertex is often busy; times the window for which it is watched at most."""
BETWEEN_DUMPS = 20.0
"""Times that a thread dump takes to the next one."""
WAITS = ("TaskMailboxImpl.take", "LocalBufferPool")
"""Words in the stack of a thread that has no record, or is backpressured."""
ASLEEP = ("Net.poll", "socketRead0", "epollWait")
"""Words in the stack of a thread that waits for an answer while Java calls it runnable."""


def without_credentials(url: str) -> str:
    """Address without its user and password, which must not be shown."""
    return re.sub(r"//.*@", "//", url)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Endpoint of a REST API. base: address without credentials. credentials: sent with each request, never shown."""

    base: str
    credentials: str = field(default="", repr=False)

    @classmethod
    def of(cls, url: str) -> Endpoint:
        """Endpoint at http://HOST:PORT or http://USER:PASSWORD@HOST:PORT. Raises BadInput if `url` is no address."""
        base = without_credentials(url).rstrip("/")
        try:
            parts = urlsplit(url)
            if not parts.hostname or (parts.port or 0) < 0:
                raise ValueError("it names no host")
        except ValueError as error:
            raise BadInput(f"{base} is no address ({error}); write http://HOST:PORT") from None
        named = "" if parts.username is None else f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        return cls(base, base64.b64encode(named.encode()).decode())

    def ask(self, path: str, form: Form[T]) -> T:
        """Answer to GET path. Raises BadInput if it is missing, late, too long, or of another form."""
        try:
            return self._asked(path, form)
        except urllib.error.HTTPError as error:
            error.close()
            url, reason = f"{self.base}/{path}", forms.printable(f"{error.code} {error.reason}")
        if reason.startswith(("401", "403")):
            refused = "these credentials" if self.credentials else "questions without credentials"
            raise BadInput(f"{url} refuses {refused} ({reason}); write http://USER:PASSWORD@HOST:PORT")
        raise BadInput(f"{url} gives no answer of Flink's REST API ({reason}); check the address")

    def ask_if_known(self, path: str, form: Form[T]) -> T | None:
        """Answer to GET path; None if the server has no such answer. Raises BadInput as `ask` otherwise."""
        try:
            return self._asked(path, form)
        except urllib.error.HTTPError as error:
            error.close()
            return None

    def _asked(self, path: str, form: Form[T]) -> T:
        url = f"{self.base}/{path}"
        request = urllib.request.Request(url)
        if self.credentials:
            request.add_header("Authorization", f"Basic {self.credentials}")  # redirects stay within this server
        try:
            answer = parse_json(_answered(request))
        except urllib.error.HTTPError:
            raise
        except (http.client.IncompleteRead, ConnectionResetError) as error:
            read = f" after {len(error.partial):,} bytes" if isinstance(error, http.client.IncompleteRead) else ""
            raise BadInput(f"{url}: the connection was cut{read}; give the same command again") from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = forms.printable(str(error)) or type(error).__name__
            raise BadInput(f"{url} gives no answer of Flink's REST API ({reason}); check the address") from None
        return forms.formed(form, answer, url)


class _SameServer(urllib.request.HTTPRedirectHandler):
    """Follows redirects within a server only: another one was not named."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """Request to the new address. Raises ValueError if that is elsewhere."""
        if urlsplit(newurl)[:2] != urlsplit(req.full_url)[:2]:
            raise ValueError(f"it leads to {without_credentials(newurl)}; name that address if it is the right one")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _answered(request: urllib.request.Request) -> bytes:
    """Body of an answer that comes within PATIENCE_S, headers and redirects included. Raises as `_body` does."""
    made: Future[bytes] = Future()

    def ask() -> None:
        try:
            made.set_result(_body(request))
        except BaseException as error:
            made.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()  # it may wait for a server that says a byte now and then
    try:
        return made.result(PATIENCE_S)
    except TimeoutError:
        raise ValueError(f"it takes more than {PATIENCE_S:g} s") from None


def _body(request: urllib.request.Request) -> bytes:
    """Body of an answer. Raises ValueError if it is too long or takes too long, and otherwise as urllib does."""
    end_s, parts, size = time.monotonic() + PATIENCE_S, [], 0
    with urllib.request.build_opener(_SameServer).open(request, timeout=PATIENCE_S) as answer:
        while part := answer.read1(2**16):
            parts.append(part)
            size += len(part)
            if size > MOST_BYTES:
                raise ValueError(f"it has more than {MOST_BYTES >> 20} MiB")
            if time.monotonic() > end_s:
                raise ValueError(f"it takes more than {PATIENCE_S:g} s")
        if answer.length:
            raise http.client.IncompleteRead(b"".join(parts), answer.length)
    return b"".join(parts)


def from_endpoint(
    url: str,
    job: str | None = None,
    window_s: float = 20.0,
    audience: Audience | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Answers:
    """Polls a live job for window_s. job: its name or id; may be left out if only one runs. audience: is told what is
    waited for, and for how long at most.

    Raises BadInput if the endpoint does not answer, no such job is running, or its metrics stand still.
    """
    flink, audience = Endpoint.of(url), audience or Lines(lambda _text: None)
    found = _job_id(flink, job)
    of_job = f"jobs/{quote(found, safe='')}"
    managers = flink.ask("taskmanagers", forms.ManagersAnswer)
    first, last = _watched(flink, of_job, managers, window_s, audience, sleep)
    threads: tuple[forms.ThreadsAnswer, ...] = ()
    if _unexplained(first, last):
        threads = _seen(flink, first.job, last.job, managers, window_s, audience, sleep)
    audience.stage("reading the job's plan, places, checkpoints and configuration")
    vertices = [f"{of_job}/vertices/{quote(each.id, safe='')}" for each in last.job.vertices]
    checkpoints = flink.ask_if_known(f"{of_job}/checkpoints", forms.CheckpointsAnswer)
    checkpoint_first, checkpoint = _checkpoints(flink, of_job, checkpoints)
    return Answers(
        where=f"{flink.base}, job {found}",
        first=first.job,
        job=last.job,
        plan=flink.ask(f"{of_job}/plan", forms.PlanAnswer),
        details=tuple(flink.ask(each, forms.DetailAnswer) for each in vertices),
        markers=tuple(_markers(flink, each) for each in vertices),
        averages=tuple(_averages(flink, *each) for each in zip(vertices, last.job.vertices, strict=True)),
        threads=threads,
        managers=managers,
        cpu=last.cpu,
        cpu_first=first.cpu,
        config=flink.ask_if_known("jobmanager/config", forms.SETTINGS) or [],
        checkpoints=checkpoints,
        checkpoint=checkpoint,
        checkpoint_first=checkpoint_first,
        checkpoint_config=flink.ask_if_known(f"{of_job}/checkpoints/config", forms.CheckpointConfig),
        operators=last.operators,
        operators_first=first.operators,
        version=flink.ask("overview", forms.VersionAnswer).version or "",
    )


def _averages(flink: Endpoint, vertex: str, answer: forms.VertexAnswer) -> list[forms.AverageAnswer]:
    """Mean shares of time of a vertex's subtasks, for versions of Flink that do not add up times; else empty."""
    if any(key in answer.metrics for key in ACCUMULATED):
        return []
    return flink.ask_if_known(f"{vertex}/subtasks/metrics?get={','.join(OF_A_SECOND)}&agg=avg", forms.AVERAGES) or []


def _markers(flink: Endpoint, vertex: str) -> list[forms.ReadingAnswer]:
    """Mean ages of latency markers at a vertex, by source and subtask; empty if the job sends none."""
    return _readings(flink, vertex, [each for each in _listed(flink, vertex) if each.endswith(MARKERS)])


def _listed(flink: Endpoint, vertex: str) -> list[str]:
    """Names of the metrics that a vertex has."""
    return [each.id for each in flink.ask_if_known(f"{vertex}/metrics", forms.READINGS) or []]


def _readings(flink: Endpoint, vertex: str, names: Sequence[str]) -> list[forms.ReadingAnswer]:
    """Metrics of a vertex by their names."""
    answers = (flink.ask_if_known(f"{vertex}/metrics?get={part}", forms.READINGS) for part in in_requests(names))
    return [each for answer in answers for each in answer or ()]


def in_requests(names: Sequence[str]) -> Iterator[str]:
    """Lists of metrics as addresses have them, each short enough for one request."""
    part = ""
    for written in (quote(each, safe="") for each in names):
        if part and len(part) + len(written) >= LONGEST_LIST:
            yield part
            part = ""
        part += f",{written}" if part else written
    if part:
        yield part


def _counters(listed: Sequence[str]) -> list[str]:
    """Those of a vertex's metrics that are counters of operators within it: `0.Calc[4].numRecordsIn`."""
    return [each for each in listed if each.count(".") > 1 and each.rpartition(".")[2] in COUNTED]


def _checkpoints(
    flink: Endpoint, of_job: str, found: forms.CheckpointsAnswer | None
) -> tuple[forms.CheckpointAnswer | None, forms.CheckpointAnswer | None]:
    """Details of the oldest complete checkpoint of which Flink knows, and of the last one; None if there is none."""
    done = [each.id for each in found.history if each.status == "COMPLETED"] if found else []
    ids = (done[-1], done[0]) if done else ()
    details = [flink.ask_if_known(f"{of_job}/checkpoints/details/{each}", forms.CheckpointAnswer) for each in ids]
    return (details[0], details[1]) if details else (None, None)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Snapshot of a job, and what was gathered with it: metrics of each task manager, and counters of the operators
    within each vertex."""

    job: forms.JobAnswer
    cpu: tuple[list[forms.ReadingAnswer], ...] = ()
    operators: tuple[list[forms.ReadingAnswer], ...] = ()


def _watched(
    flink: Endpoint,
    of_job: str,
    managers: forms.ManagersAnswer,
    window_s: float,
    audience: Audience,
    sleep: Callable[[float], None],
) -> tuple[Snapshot, Snapshot]:
    """Watches a job: its first and last fresh snapshots, for longer than window_s until there are two."""
    last = flink.ask(of_job, forms.JobAnswer)
    audience.stage(f"watching job {last.name!r} for {window_s:g} s")
    watch = _Watch(flink, of_job, managers, last)
    polls, more = max(3, round(window_s / ASKED_EVERY_S)), round(REFRESHED_S / ASKED_EVERY_S)
    with audience.progress("answers") as report:
        for done in range(polls):
            sleep(ASKED_EVERY_S)
            if (ended := watch.look()) is not None:
                return ended
            report(done + 1, polls)
    if len(watch.fresh) < 2:
        audience.stage(f"waiting until the cluster gathers metrics again, {REFRESHED_S:g} s at most")
        with audience.progress("answers at most") as report:
            for done in range(more):
                sleep(ASKED_EVERY_S)
                if (ended := watch.look()) is not None:
                    return ended
                enough = len(watch.fresh) > 1
                report(done + 1, done + 1 if enough else more)
                if enough:
                    break
    if len(watch.fresh) > 1:
        return watch.fresh[0], watch.fresh[-1]
    raise BadInput(
        f"{flink.base}/{of_job}: its metrics were not refreshed in {window_s + REFRESHED_S:.0f} s; lower the cluster's "
        "metrics.fetcher.update-interval, or take a longer --window"
    )


class _Watch:
    """Watch on a job. last: its last answer. fresh: snapshots with metrics that were gathered anew."""

    def __init__(self, flink: Endpoint, of_job: str, managers: forms.ManagersAnswer, last: forms.JobAnswer) -> None:
        self._flink, self._of_job, self.last = flink, of_job, last
        self._of_managers = [f"taskmanagers/{quote(each.id, safe='')}" for each in managers.taskmanagers]
        self._counters = dict[str, list[str]]()
        self.fresh: list[Snapshot] = []

    def look(self) -> tuple[Snapshot, Snapshot] | None:
        """Asks once more. Returns the last two answers if the job runs no longer, or has no vertices yet."""
        flink, of_job, seen = self._flink, self._of_job, self.last
        last = self.last = flink.ask(of_job, forms.JobAnswer)
        if last.state != forms.RUNNING or not last.vertices:
            return Snapshot(seen), Snapshot(last)
        if _metrics(last) != _metrics(seen) and _complete(last):
            cpu = (flink.ask_if_known(f"{each}/metrics?get={CPU}", forms.READINGS) for each in self._of_managers)
            chains = [f"{of_job}/vertices/{quote(each.id, safe='')}" * (" -> " in each.name) for each in last.vertices]
            if not self.fresh:  # Flink has gathered the names of metrics with the metrics
                self._counters = {each: _counters(_listed(flink, each)) for each in chains if each}
            operators = [_readings(flink, each, self._counters.get(each, [])) for each in chains]
            self.fresh.append(Snapshot(last, tuple(each or [] for each in cpu), tuple(operators)))
        return None


def _unexplained(first: Snapshot, last: Snapshot) -> bool:
    """Whether subtasks were busy for longer than task managers used CPU, so that some may have slept; also if Flink
    tells neither."""
    busy_ms = _busy_ms(first.job, last.job)
    cpu_ns = [sum(forms.finite(each.value) or 0.0 for some in cpu for each in some) for cpu in (first.cpu, last.cpu)]
    told = None not in busy_ms and 0.0 < cpu_ns[0] < cpu_ns[1]
    return not told or sum(each or 0.0 for each in busy_ms) > (cpu_ns[1] - cpu_ns[0]) / 1e6


def _busy_ms(first: forms.JobAnswer, last: forms.JobAnswer) -> list[float | None]:
    """Time between two snapshots for which the subtasks of each vertex were busy, in milliseconds; None: not told."""
    pairs = (
        (forms.finite(now.metrics.get(BUSY)), forms.finite(was.metrics.get(BUSY)))
        for now, was in zip(last.vertices, first.vertices, strict=False)
    )
    return [None if now is None or was is None else now - was for now, was in pairs]


def _seen(
    flink: Endpoint,
    first: forms.JobAnswer,
    job: forms.JobAnswer,
    managers: forms.ManagersAnswer,
    window_s: float,
    audience: Audience,
    sleep: Callable[[float], None],
) -> tuple[forms.ThreadsAnswer, ...]:
    """What threads of a job do, by dumps of its task managers, in turn: for window_s, and on, for up to LONGER times
    that, until each vertex that is often busy was seen at work SEEN times.

    A dump stops the task manager while its heap is searched for locks (ThreadMXBean.dumpAllThreads): so there are few,
    far apart, and none while the job is measured.
    """
    threads = [forms.ThreadsAnswer() for _ in job.vertices]
    often = [
        (busy_ms or 0.0) > OFTEN * window_s * 1e3 * each.parallelism
        for busy_ms, each in zip(_busy_ms(first, job), job.vertices, strict=False)
    ]
    names, passed_s, most_s = [each.id for each in managers.taskmanagers], 0.0, LONGER * window_s
    audience.stage(
        "the CPU in use does not explain how busy the job is: looking whether its threads sleep, "
        f"for {window_s:g} s, at most {most_s:g} s"
    )
    with audience.progress("s at most") as report:
        while names and passed_s < most_s:
            began_s = time.perf_counter()
            _count(_dump(flink, f"taskmanagers/{quote(names[0], safe='')}"), job, threads)
            waits_s = max(ASKED_EVERY_S, BETWEEN_DUMPS * (time.perf_counter() - began_s))
            sleep(waits_s)
            passed_s, names = passed_s + waits_s, [*names[1:], names[0]]
            seen = [each.computing + each.asleep >= SEEN for each in threads]
            done = sum(enough for enough, wanted in zip(seen, often, strict=False) if wanted)
            most_s = window_s if done == sum(often) else LONGER * window_s
            words = f"{done} of {sum(often)} busy vertices seen at work often enough" * any(often)
            report(round(passed_s), round(max(passed_s, most_s)), words)
    return tuple(threads)


def _dump(flink: Endpoint, manager: str) -> forms.DumpAnswer | None:
    """Thread dump of a task manager; None if it does not come: where threads wait for cores it may take long, and the
    import does without."""
    try:
        return flink.ask_if_known(f"{manager}/thread-dump", forms.DumpAnswer)
    except BadInput:
        return None


def _count(dump: forms.DumpAnswer | None, job: forms.JobAnswer, threads: list[forms.ThreadsAnswer]) -> None:
    """Adds the threads of a dump that run subtasks to the counts of their vertices."""
    for thread in dump.threads if dump else ():
        subtask = re.match(r"(.*) \(\d+/\d+\)#\d+", thread.name)
        which = next((n for n, each in enumerate(job.vertices) if subtask and each.name == subtask[1]), None)
        if which is None or which >= len(threads) or any(each in thread.text for each in WAITS):
            continue
        state = re.search(r"\b(RUNNABLE|BLOCKED|WAITING|TIMED_WAITING)\b", thread.text)
        asleep = any(each in thread.text for each in ASLEEP) or (state is not None and state[1] != "RUNNABLE")
        now = threads[which]
        threads[which] = forms.ThreadsAnswer(computing=now.computing + (not asleep), asleep=now.asleep + asleep)


def _metrics(job: forms.JobAnswer) -> list[dict[str, Any]]:
    return [each.metrics for each in job.vertices]


def _complete(job: forms.JobAnswer) -> bool:
    return all(value for metrics in _metrics(job) for key, value in metrics.items() if key.endswith(COMPLETE))


def _job_id(flink: Endpoint, job: str | None) -> str:
    jobs = flink.ask("jobs/overview", forms.JobsAnswer).jobs
    running = [each for each in jobs if each.state == forms.RUNNING]
    named = [each for each in jobs if job in (each.name, each.jid)] if job else running
    if len(named) == 1:
        return named[0].jid
    names = [each.name for each in running]
    if job and not named:
        raise BadInput(f"{flink.base} has no job {job!r}; {suggest(job, names)}")
    if not named:
        raise BadInput(f"{flink.base} has no running job; start one")
    raise BadInput(f"{flink.base} has {len(named)} such jobs ({', '.join(names)}); choose one by its id with --job")
