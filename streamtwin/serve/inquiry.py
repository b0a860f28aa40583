"""Inquiry about a job: the scenario as given, a list of changes to it, and the controls that make them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, Field

from optimizers.policies import POLICIES
from scenarios.files import registry, scenario_file
from scenarios.files.scenario_file import set_values
from scenarios.files.yaml_text import parse_text
from scenarios.questions.knobs import SubtasksKnob
from scenarios.questions.variants import with_all_events
from twin.arrivals.replay import Replay, only_recordings
from twin.errors import BadInput, suggest
from twin.files import stamped, unstamped, write_text
from twin.key_skew import default_key_groups
from twin.profiles import PROFILES
from twin.quantities import number
from twin.scenario import Scenario
from twin.workload import ArrivalLaw, group_count

# inquiries -----------------------------------------------------------------------------------------------------------
# Inquiry about a job: the scenario as given, and a list of changes, each of them an option of the command line.
#
# So the page can ask nothing that the command cannot, and can show the command that gives the same answer.


_WORD = re.compile(r"[\w./-]+")


def flow(value: Any) -> str:
    """Value on one line of YAML, with as few quotes as possible."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(key)}: {flow(part)}" for key, part in value.items()) + "}"
    if isinstance(value, str):
        return value if _WORD.fullmatch(value) and _read(value) == value else json.dumps(value)
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, float):
        return f"{int(value)}" if value.is_integer() and abs(value) < 2**53 else repr(value)
    return json.dumps(value)


def _read(text: str) -> Any:
    try:
        return parse_text(text, "")
    except BadInput:
        return None


SET, EVENT = "--set", "--event"
MOST_CHANGES, MOST_TEXT = 200, 100_000
"""Most changes of one job, and most characters of one change."""
PAIRS = 5


class Alteration(NamedTuple):
    """Change of a job: an option, such as `--set`, and its text. stroke: a change replaces an earlier one of the same
    stroke of a slider. said: words for people, if the text does not tell."""

    flag: str
    text: str
    stroke: str = ""
    said: str = ""


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Inquiry about a job. name: of the scenario, for commands. against: the state that it is compared with. version:
    grows with each change, also after a restart of the server. answer: the last long question, its options and its
    document."""

    name: str
    changes: tuple[Alteration, ...] = ()
    against: Literal["before", "given"] = "before"
    version: int = 0
    answer: Mapping[str, Any] | None = field(default=None, hash=False)

    def options(self, changes: Sequence[Alteration] | None = None) -> list[str]:
        """Options of the command line, in its order: values first, then events."""
        listed = self.changes if changes is None else changes
        ordered = [each for flag in (SET, EVENT) for each in listed if each.flag == flag]
        return [word for each in ordered for word in (each.flag, each.text)]

    def scenario(self, changes: Sequence[Alteration] | None = None) -> Scenario:
        """Scenario with the changes. Raises BadInput if they do not fit it (any more), or name a file that the scenario
        as given does not name."""
        listed, before = self.changes if changes is None else changes, given(self.name)
        with only_recordings(law.path for law in before.workload.arrivals.values() if isinstance(law, Replay)):
            values = set_values(before, [each.text for each in listed if each.flag == SET])
            return with_all_events(values, [each.text for each in listed if each.flag == EVENT])

    def changed(self, change: Alteration) -> Self:
        """Inquiry with one more change, which replaces one of the same stroke. Raises BadInput if it does not fit."""
        before = self.before_stroke(change.stroke)
        if len(before) >= MOST_CHANGES:
            raise BadInput(
                f"{len(before)} changes are the most; undo some, or save the scenario and go on from the file"
            )
        if len(change.text) > MOST_TEXT:
            raise BadInput(f"a change of {len(change.text):,} characters; {MOST_TEXT:,} are the most")
        after = (*before, change)
        self.scenario(after)
        return self._next(changes=after)

    def before_stroke(self, stroke: str) -> tuple[Alteration, ...]:
        """Changes that a change of this stroke follows, without an earlier one of the same stroke."""
        again = bool(stroke and self.changes) and self.changes[-1].stroke == stroke
        return self.changes[:-1] if again else self.changes

    def dropped(self, at: int) -> Self:
        """Inquiry without one of the changes, by number; -1: the last. Raises BadInput if the others no longer fit."""
        if not self.changes:
            raise BadInput("there is nothing to undo: the scenario is as given")
        if not -1 <= at < len(self.changes):
            raise BadInput(f"there is no change {at + 1} to undo; there are {len(self.changes)}")
        kept = tuple(each for number, each in enumerate(self.changes) if number != at % len(self.changes))
        if kept and at not in (-1, len(self.changes) - 1):
            self.scenario(kept)
        return self._next(changes=kept)

    def compared_with(self, against: str) -> Self:
        """Inquiry that is compared with the run before, or with the scenario as given."""
        if against not in ("before", "given"):
            raise BadInput(f"against {against!r}: either before or given")
        return self._next(against=against)

    def answered(self, answer: Mapping[str, Any] | None) -> Self:
        """Inquiry with the answer to a long question."""
        return self._next(answer=answer)

    @property
    def values(self) -> tuple[Alteration, ...]:
        """Changes that are no added events."""
        return tuple(each for each in self.changes if each.flag == SET)

    @property
    def earlier(self) -> tuple[Alteration, ...]:
        """Changes of the scenario that the present one is compared with."""
        return () if self.against == "given" else self.changes[:-1]

    def _next(self, **parts: Any) -> Self:
        return replace(self, version=self.version + 1, **parts)

    def run_command(self) -> str:
        """Command that prints the numbers of the page's run."""
        return command("run", self.name, *self.options())

    def compare_command(self) -> str:
        """Command that gives the page's comparison; empty if the two scenarios differ in several changes at once."""
        if len(self.changes) - len(self.earlier) != 1:
            return ""
        last, before = self.changes[-1], self.earlier
        values = [each for each in before if each.flag == SET]
        words = self.options(values)
        if len(values) < len(before) or (last.flag == SET and any(each.flag == EVENT for each in before)):
            events = [each.model_dump(mode="json", exclude_none=True) for each in self.scenario(before).events]
            words += [SET, f"events={flow(events)}"]
        vary = "--vary" if last.flag == SET else EVENT
        return command("whatif", self.name, *words, vary, last.text, "--replications", str(PAIRS))


def command(*words: str) -> str:
    """Command line of `twin`, quoted for a shell."""
    return shlex.join(["twin", *words])


def given(name: str) -> Scenario:
    """Scenario in its file as it is now. Raises BadInput if the file cannot be read."""
    path = registry.find(name)
    try:
        status = path.stat()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}; check the path") from None
    return _given(name, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _given(name: str, _modified_ns: int, _bytes: int) -> Scenario:
    return scenario_file.load(name)


def modified_ns(file: Path | None) -> int:
    """Time at which a file was written, in nanoseconds since 1970; 0 if it is not there."""
    try:
        return 0 if file is None else file.stat().st_mtime_ns
    except OSError:
        return 0


class _Answer(BaseModel, strict=True, extra="forbid"):
    """Form of the last long question in a file."""

    question: str
    command: str
    of: str
    plan: str
    took_s: float
    refused: str
    document: str
    interrupted: bool


class _State(BaseModel, strict=True, extra="forbid"):
    """Form of an inquiry in a file."""

    changes: Annotated[list[tuple[Literal["--set", "--event"], str, str, str]], Field(max_length=MOST_CHANGES)]
    against: Literal["before", "given"]
    version: Annotated[int, Field(ge=0)]
    answer: _Answer | None


class Store:
    """Store of the inquiries about jobs, by their names on the page, kept in files with checksums."""

    def __init__(
        self, folder: Path, jobs: Mapping[str, str], check: Callable[[Mapping[str, Any]], object] = lambda _answer: None
    ) -> None:
        """Opens the store. folder: of the state. jobs: names of jobs for commands, by the name on the page. check:
        raises ValueError or LookupError for a kept answer that cannot be shown."""
        self.folder, self.jobs, self._check = folder, jobs, check
        self._open: dict[str, Inquiry] = {}

    def get(self, name: str) -> Inquiry:
        """Inquiry about a job; without changes if there is none yet. Raises KeyError for an unknown job."""
        if name not in self._open:
            self._open[name] = self._read(name, self.jobs[name])
        return self._open[name]

    def put(self, name: str, inquiry: Inquiry) -> None:
        """Keeps the inquiry about a job, and writes it to its file."""
        self._open[name] = inquiry
        kept = {key: value for key, value in asdict(inquiry).items() if key != "name"}
        write_text(self._file(name), stamped(kept) + "\n")

    def forget(self, name: str) -> None:
        """Removes what is kept of a job."""
        self._open.pop(name, None)
        self._file(name).unlink(missing_ok=True)

    def asked_ns(self, name: str) -> int:
        """Time at which a job was asked about last, as of `modified_ns`."""
        return modified_ns(self._file(name))

    def _file(self, name: str) -> Path:
        plain = "".join(each if each.isalnum() or each in "-_." else "_" for each in name)[:60]
        return self.folder / f"{plain}-{sha256(self.jobs[name].encode()).hexdigest()[:8]}.json"

    def _read(self, name: str, called: str) -> Inquiry:
        try:
            body = unstamped(self._file(name).read_text(encoding="utf-8"))
            kept = _State.model_validate_json(json.dumps(body))
            answer = None if kept.answer is None else kept.answer.model_dump()
            if answer is not None:
                self._check(answer)
        except FileNotFoundError:
            return Inquiry(called)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            raise BadInput(f"{self._file(name)} does not hold what a page has kept; remove it") from None
        changes = tuple(Alteration(*each) for each in kept.changes)
        return Inquiry(called, changes, kept.against, kept.version, answer)


# controls ------------------------------------------------------------------------------------------------------------
# Controls of the page, sliders and fields: values of a job that can be changed, with their ranges and options.


WIDE = 10.0
"""Factor on the given value, up and down, to which a slider reaches."""
MOST_SUBTASKS = 16
MOST_SKEW = 2.0


class Control(NamedTuple):
    """Control of one value of a job. value: present. given: in the scenario's file. low, high: ends of its slider;
    without, it is a field. choices: its possible values, if few. text: makes the option's text from a written value.
    first: an option that has to come before it.
    """

    group: str
    name: str
    label: str
    value: Any
    given: Any
    text: Callable[[str], str]
    unit: str = ""
    low: float | None = None
    high: float | None = None
    log: bool = False
    whole: bool = False
    choices: tuple[str, ...] = ()
    first: str = ""


def controls(given: Scenario, now: Scenario) -> dict[str, Control]:
    """All controls of a job, by name. given: the job of the file. now: with the changes."""
    listed = (*_rates(given, now), *_subtasks(given, now), *_hosts(given, now), *_keys(given, now), *_run(given, now))
    return {each.name: each for each in listed}


def turned(given: Scenario, inquiry: Inquiry, name: str, value: str, stroke: str = "") -> list[Alteration]:
    """Changes that a control makes: one, and another that has to come before it, if any. value: as written.

    Raises BadInput for an unknown control, or a value that it does not take.
    """
    marked = stroke and f"{name} {stroke}"
    known = controls(given, inquiry.scenario(inquiry.before_stroke(marked)))
    if name not in known:
        raise BadInput(f"{name}: no such control; {suggest(name, known)}")
    before = [Alteration(SET, known[name].first)] if known[name].first else []
    return [*before, Alteration(SET, known[name].text(value.strip()), marked)]


def _at(path: str) -> Callable[[str], str]:
    """Function that makes the option's text of a control of one value at a path, which is read as by `--set`."""
    return lambda value: f"{path}={value}"


def _slider(group: str, name: str, label: str, path: str, value: float, given: float, unit: str) -> Control:
    ends = (given / WIDE, given * WIDE) if given else (0.0, WIDE)
    return Control(group, name, label, value, given, _at(path), unit, *ends, log=given > 0)


def _rates(given: Scenario, now: Scenario) -> Iterator[Control]:
    laws, first = now.workload.arrivals, given.workload.arrivals
    whole = sum(law.mean_rate_per_s for law in first.values())
    factor = sum(law.mean_rate_per_s for law in laws.values()) / whole

    def load(value: str) -> str:
        scaled = {name: law.scaled(_above_zero(value, "load")) for name, law in first.items()}
        return f"workload.arrivals={flow({name: _law(law) for name, law in scaled.items()})}"

    yield Control("Rates", "load", "all sources", factor, 1.0, load, "times", 1 / WIDE, WIDE, True)
    yield from (_rate(name, first[name], law) for name, law in laws.items())


def _rate(name: str, first: ArrivalLaw, law: ArrivalLaw) -> Control:
    """Control of a source's rate: sets the rate of a law that has one, or scales all rates of another law."""
    path, mean, given = f"workload.arrivals.{name}", law.mean_rate_per_s, first.mean_rate_per_s
    if _plain(law):
        return _slider("Rates", f"rate {name}", name, f"{path}.rate_per_s", mean, given, "/s")

    def scaled(value: str) -> str:
        return f"{path}={flow(_law(first.scaled(_above_zero(value, name) / given)))}"

    return Control("Rates", f"rate {name}", name, mean, given, scaled, "/s", given / WIDE, given * WIDE, True)


def _plain(law: ArrivalLaw) -> bool:
    return hasattr(law, "rate_per_s")


def _law(law: Any) -> Mapping[str, Any]:
    kept: Mapping[str, Any] = law.model_dump(mode="json", exclude_defaults=True)
    return {"law": law.law, **kept}


def _subtasks(given: Scenario, now: Scenario) -> Iterator[Control]:
    for operator in now.query.topological:
        name, first = operator.name, given.plan.parallelism(operator.name)
        if operator.pinned:
            continue

        def dealt(value: str, name: str = name) -> str:
            count = _number(value, f"subtasks of {name}")
            turned = SubtasksKnob(name, SET).turned(now, int(count) if count.is_integer() else count)
            return plan_option(now, turned)

        high = float(max(MOST_SUBTASKS, 2 * first))
        label, count = f"{name}", now.plan.parallelism(name)
        yield Control("Subtasks", f"subtasks {name}", label, count, first, dealt, "", 1, high, whole=True)


def plan_option(before: Scenario, after: Scenario) -> str:
    """Option's text that turns the plan of one scenario into that of another: of one operator, if only that differs."""
    old, new = before.plan, after.plan
    differ = [name for name in new.placement if new.placement[name] != old.placement[name]]
    written = new.model_dump(mode="json")
    if new.key_groups != old.key_groups or new.fused != old.fused:
        return f"plan={flow(written)}"
    if len(differ) == 1:
        return f"plan.placement.{differ[0]}={flow(written['placement'][differ[0]])}"
    return f"plan.placement={flow(written['placement'])}"


def _hosts(given: Scenario, now: Scenario) -> Iterator[Control]:
    first = {host.name: host for host in given.cluster.hosts}
    shared = () if now.cluster.links else (("Latency", "latency", "latency_ms", "ms"),)
    for group, name, key, unit in (("Cores", "cpu", "cpu_percent", "% core"), *shared):
        for host in now.cluster.hosts:
            if (was := first.get(host.name)) is not None:
                values, path = (getattr(host, key), getattr(was, key)), f"cluster.hosts.{host.name}.{key}"
                yield _slider(group, f"{name} {host.name}", host.name, path, *values, unit)
    for number_, link in enumerate(now.cluster.links):
        was_ms = given.cluster.links[number_].latency_ms if number_ < len(given.cluster.links) else link.latency_ms
        label = " - ".join(link.between)
        path = f"cluster.links.{number_}.latency_ms"
        yield _slider("Latency", f"latency {label}", label, path, link.latency_ms, was_ms, "ms")


def _keys(given: Scenario, now: Scenario) -> Iterator[Control]:
    follows = {each.consumer for each in now.query.streams if each.alignment and each.alignment.share == 1.0}
    for operator in now.query.topological:
        name = operator.name
        if name in follows:  # its keys are those of its producer
            continue
        skew, first = now.workload.keys.get(name), given.workload.keys.get(name)
        groups = group_count(now.query, name, now.plan.parallelism(name))
        splits = operator.keyed and "key_groups" in type(operator).model_fields
        if (groups is None and not splits) or (skew is not None and skew.shares):
            continue

        def skewed(value: str, name: str = name) -> str:
            if name in now.workload.keys:
                return f"workload.keys.{name}.zipf={value}"
            others = {
                key: each.model_dump(mode="json", exclude_defaults=True) for key, each in now.workload.keys.items()
            }
            return f"workload.keys={flow({**others, name: {'zipf': _number(value, f'skew of {name}')}})}"

        values = (skew.zipf if skew else 0.0, first.zipf if first else 0.0)
        count = default_key_groups(now.plan.parallelism(name))
        before = f"query.operators.{name}.key_groups={count}" if groups is None else ""
        control = Control("Skew of keys", f"skew {name}", name, *values, skewed, "Zipf", 0.0, MOST_SKEW)
        yield control._replace(first=before)


def _run(given: Scenario, now: Scenario) -> Iterator[Control]:
    profiles = tuple(PROFILES) if now.engine.name in PROFILES else (now.engine.name, *PROFILES)
    yield Control(
        "Engine and run",
        "engine",
        "engine profile",
        now.engine.name,
        given.engine.name,
        _at("engine"),
        choices=profiles,
    )
    policy, first = (each.policy.name if each.policy else "none" for each in (now, given))

    def governed(value: str) -> str:
        return f"policy={'null' if value == 'none' else value}"

    yield Control("Engine and run", "policy", "policy", policy, first, governed, choices=("none", *POLICIES))
    for key, label in (("horizon_s", "simulated time"), ("warmup_s", "warm-up"), ("seed", "seed")):
        unit = "s" if key.endswith("_s") else ""
        values = (getattr(now.run, key), getattr(given.run, key))
        yield Control("Engine and run", key, label, *values, _at(f"run.{key}"), unit)


def _number(value: str, what: str) -> float:
    try:
        return number(value)
    except ValueError as error:
        raise BadInput(f"{what}: {error}; write a number") from None


def _above_zero(value: str, what: str) -> float:
    found = _number(value, what)
    if not found > 0.0:
        raise BadInput(f"{what}: {value} is not above 0; write a number such as 1.5")
    return found
