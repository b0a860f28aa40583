"""Scenarios: a deployment, the events of its run, and the run settings. A scenario file holds one; `--set` changes one
value of it, by its path."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Self, TypeVar, get_args

from pydantic import Field, model_validator

from twin.checkpoints import Checkpoints, check_checkpoints
from twin.control import AnyPolicy, Policy, PolicySpec
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.event_checks import check_events, check_pending
from twin.events import AnyEvent, Event
from twin.flink_settings import told
from twin.scheduling import scaled
from twin.spec import Spec, parse
from twin.words import RETIRED, ours, remedy, renamed, told_retired

# scenarios -----------------------------------------------------------------------------------------------------------


class RunSettings(Spec):
    """Settings of a run: how long, how fine, and with which random numbers a deployment is simulated."""

    horizon_s: Annotated[float, Field(ge=1e-3, le=10**7, description="simulated seconds")] = 240.0
    warmup_s: Annotated[float, Field(ge=0, description="simulated seconds left out of all metrics")] = 0.0
    period_s: Annotated[float, Field(ge=1e-6, description="length of one row of statistics")] = 10.0
    precision: Annotated[
        float | None,
        Field(
            ge=1e-4,
            le=0.5,
            exclude_if=lambda precision: precision is None,
            description="the run ends before its horizon once throughput and latencies are known to such a share, "
            "with 95 % confidence; absent: at its horizon",
        ),
    ] = None
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = 0
    checkpoint_interval_s: Annotated[
        float, Field(ge=1e-3, le=10**7, description="between checkpoints, from which a failed job starts again")
    ] = 10.0
    decision_latency_s: Annotated[
        float, Field(ge=0, le=10**7, description="from the end of a period until a policy's decision is carried out")
    ] = 0.0
    noise: Annotated[
        bool, Field(description="false: no variability of services, no pauses, no jitter; arrivals keep theirs")
    ] = True

    @model_validator(mode="before")
    @classmethod
    def _without_retired(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or not told_retired(data):
            return data
        return {name: value for name, value in data.items() if name not in RETIRED}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.warmup_s >= self.horizon_s:
            raise ValueError(f"warmup_s must be < horizon_s ({self.horizon_s}), got {self.warmup_s}")
        return self


class Scenario(Deployment):
    """Deployment with a name, run settings, and what happens while it runs. `with_...` gives another scenario."""

    name: Annotated[str, Field(min_length=1)] = "scenario"
    description: str = ""
    run: RunSettings = RunSettings()
    events: tuple[Event, ...] = ()
    policy: AnyPolicy | None = None
    checkpoints: Annotated[
        Checkpoints | None,
        Field(
            exclude_if=lambda checkpoints: checkpoints is None,
            description="absent: they cost nothing, come every run.checkpoint_interval_s, and a failure restarts all",
        ),
    ] = None

    @model_validator(mode="after")
    def _check_events(self) -> Self:
        check_events(self.events, self)
        if self.checkpoints is not None:
            check_checkpoints(self.checkpoints, self)
        if self.engine.max_spout_pending is not None:
            check_pending(self.events, self.policy is not None, self.checkpoints is not None, self)
        return self

    @property
    def deployment(self) -> Deployment:
        """Deployment of the scenario, without run settings and events."""
        return Deployment(**{field: getattr(self, field) for field in Deployment.model_fields})

    @classmethod
    def of(cls, deployment: Deployment, run: RunSettings | None = None, events: Sequence[AnyEvent] = ()) -> Self:
        """Makes a scenario of a deployment with these settings and events; of a scenario, settings that are not given
        stay.

        Raises BadInput if an event does not fit the job.
        """
        given = {"run": run, "events": tuple(events)}
        return parse(cls, {**dict(deployment), **{name: value for name, value in given.items() if value}})

    def with_run(self, **settings: Any) -> Self:
        """Scenario under other run settings, such as `horizon_s=60`. Raises BadInput for settings that cannot be."""
        return self.model_copy(update={"run": parse(RunSettings, {**dict(self.run), **settings}, "run")})

    def with_events(self, *events: AnyEvent) -> Self:
        """Scenario with these events instead of its own. Raises BadInput if one does not fit the job."""
        return parse(type(self), {**dict(self), "events": events})

    def with_set(self, path: str, value: Any) -> Self:
        """Scenario with one value replaced, by its path as for `--set`: `with_set("cluster.hosts.edge-1.cpu_percent",
        200)`. Raises BadInput if the path leads nowhere, or if the result is not valid."""
        return put(self, path, value, "with_set")

    def with_policy(self, policy: PolicySpec | str | None) -> Self:
        """Scenario under another policy, or none. Raises BadInput for an unknown name."""
        return parse(type(self), {**dict(self), "policy": policy})


def _in_order(places: Any) -> Any:
    """Places of subtasks such that sorting by names keeps their order, by which subtasks own their keys."""
    if isinstance(places, dict) and list(places) != sorted(places):
        return [place for place, count in places.items() for _ in range(count)]
    return places


def config_hash(scenario: Scenario, policy: Policy | None = None) -> str:
    """Hash of all that decides a run except its seed, 16 hex digits; name and description do not count.

    policy: one that takes the place of the scenario's own, known by its name alone.
    """
    said = {*Deployment.model_fields, "run", "events", "policy", "checkpoints"}
    body = scenario.model_dump(mode="json", include=said)
    del body["run"]["seed"]
    body["plan"]["placement"] = {name: _in_order(where) for name, where in body["plan"]["placement"].items()}
    if policy is not None:
        body["policy"] = policy.name
    unsaid = [name for name in ("events", "policy") if not body[name]]
    body = {name: value for name, value in body.items() if name not in unsaid}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]


# values by their path ------------------------------------------------------------------------------------------------
# `--set` and `Scenario.with_set` replace one value of a spec by its path; `value_at` reads one.
#
# Items of lists are addressed by name: `query.operators.parse.selectivity`, `cluster.hosts.edge-1.ram_mb`. An
# operator's `parallelism` can be set as if it were a field: the engine's scheduler changes the plan
# (`twin.scheduling`).


S = TypeVar("S", bound=Spec)
Node = dict[str, Any] | list[Any]
OPERATORS, PARALLELISM = "query.operators.", ".parallelism"
"""Beginning and end of the path to an operator's parallelism."""


def put(spec: S, path: str, value: Any, flag: str) -> S:
    """Returns the spec with `value`, as JSON would hold it, at `path`; the result is checked as a whole.

    flag: the option that this came from, for errors. Raises BadInput if the path leads nowhere (with the nearest key),
    or if the result is not valid.
    """
    return _all_put(spec, [(path, value)], [flag])


def put_all(spec: S, values: Sequence[tuple[str, Any]], flag: str | Sequence[str]) -> S:
    """Returns the spec with all values at their paths, put there one after the other. Raises BadInput as `put` does.

    flag: the option that they came from, or that of each. Only the last result needs to be valid: a cluster with other
    hosts also needs a plan for them.
    """
    changed, flags = spec, [flag] * len(values) if isinstance(flag, str) else flag
    for index, (path, value) in enumerate(values):
        try:
            changed = put(changed, path, value, flags[index])
        except BadInput as alone:
            if len(values) < 2:
                raise
            try:
                return _all_put(spec, values, flags)
            except BadPath as error:  # if this value's path is at fault, the first error names the spec's own keys
                raise (alone if error.path == values[index][0] else error) from None
    return changed


def value_at(spec: Spec, path: str, flag: str) -> Any:
    """Value at `path`, as JSON would hold it; None if not given. Raises BadInput if the path leads nowhere."""
    if isinstance(spec, Deployment) and (name := _scaled(spec, path)):
        return spec.plan.parallelism(name)
    parent, key = _resolve(_opened(spec, [path]), path, flag)
    return parent[key]  # type: ignore[index]


class BadPath(BadInput):
    """Mistake: a path that leads nowhere."""

    def __init__(self, words: str, path: str) -> None:
        super().__init__(words)
        self.path = path


def _all_put(spec: S, values: Sequence[tuple[str, Any]], flags: Sequence[str]) -> S:
    """Puts all values in before the result is checked, then scales operators. Retired settings are left out with a
    warning."""
    given = [(path, value, flag) for (path, value), flag in zip(values, flags, strict=True)]
    scales = [each for each in given if _scaled(spec, each[0])]
    meant = [each for each in given if each not in scales and not _retired(each[0])]
    data = _opened(spec, [path for path, _, _ in meant])
    for path, value, flag in meant:
        _begin(type(spec), data, path)
        parent, key = _resolve(data, path, flag, value)
        parent[key] = value  # type: ignore[index]
    changed = parse(type(spec), data, where=", ".join(dict.fromkeys(flag for _, _, flag in meant))) if meant else spec
    for path, count, flag in scales:
        assert isinstance(changed, Deployment)
        changed = scaled(changed, _scaled(changed, path), count, f"{flag} {path}")
    return changed


def _scaled(spec: Spec, path: str) -> str:
    """Operator whose parallelism a path names; empty if it names something else."""
    if not isinstance(spec, Deployment) or not (path.startswith(OPERATORS) and path.endswith(PARALLELISM)):
        return ""
    name = path.removeprefix(OPERATORS).removesuffix(PARALLELISM)
    return name if name in spec.plan.placement else ""


def _retired(path: str) -> bool:
    return path.startswith("run.") and told_retired([path.removeprefix("run.")])


def _opened(spec: Spec, paths: Iterable[str]) -> dict[str, Any]:
    """Spec as plain data. A part that is given by a name, such as a profile, is written out if a path needs it."""
    data = spec.model_dump(mode="json")
    for name in {path.partition(".")[0] for path in paths if "." in path}:
        value = getattr(spec, name, None)
        if isinstance(value, Spec) and isinstance(data.get(name), str):
            data[name] = value.model_dump(mode="json")
    _show(spec, data)
    return data


def _show(spec: Any, data: Any) -> None:
    """Adds the fields that are left out while they have their default, as they can be set as well."""
    if isinstance(spec, Spec) and isinstance(data, dict):
        for name in type(spec).model_fields:
            value = getattr(spec, name)
            if name not in data:
                data[name] = value.model_dump(mode="json") if isinstance(value, Spec) else value
            if isinstance(data[name], tuple):
                data[name] = list(data[name])
            _show(value, data[name])
    elif isinstance(spec, tuple) and isinstance(data, list):
        for item, part in zip(spec, data, strict=True):
            _show(item, part)


def _begin(spec: type[Spec], data: dict[str, Any], path: str) -> None:
    """Adds a part that is not given, with its defaults, if a path leads into it and nothing has to be known for it, as
    `checkpoints.interval_s` into `checkpoints`."""
    name, dot, rest = path.partition(".")
    field = spec.model_fields.get(name)
    inner = [] if field is None else [each for each in _types(field.annotation) if issubclass(each, Spec)]
    if not dot or len(inner) != 1:
        return
    (part,) = inner
    if data.get(name) is None and not any(each.is_required() for each in part.model_fields.values()):
        made = part()
        data[name] = made.model_dump(mode="json")
        _show(made, data[name])
    if isinstance(data.get(name), dict):
        _begin(part, data[name], rest)


def _types(annotation: Any) -> list[type]:
    """Classes in an annotation such as `Checkpoints | None`."""
    if isinstance(annotation, type):
        return [annotation]
    return [each for part in get_args(annotation) for each in _types(part)]


def _resolve(data: Node, path: str, flag: str, value: Any = None) -> tuple[Node, str | int]:
    """Container, and the key in it, to which `path` leads. value: to be put there, for words of errors."""
    node: Any = data
    rest, walked, place, where = path, "", "", f"{flag} {path}"
    while True:
        if not isinstance(node, dict | list):
            inside = f"{walked} is {node!r}" if node is not None else f"{walked} is not given"
            raise BadPath(f"{where}: {inside} and has no parts; set {walked} as a whole", path)
        step = _step(node, rest) or _step(node, _newer(node, rest))
        if step is None:
            word, known = rest.partition(".")[0], list(_keys(node))
            hint = told(rest, value, in_file=False) or ours(rest) or _further(node, rest, walked)
            hint = hint or remedy(word, known, place, value if rest == word else None)
            raise BadPath(f"{where}: no {word!r} in {walked or 'the scenario'}; {hint}", path)
        key, label, rest = step
        if not rest:
            return node, key
        walked = f"{walked}.{label}" if walked else label
        place = label if isinstance(node, dict) else place
        node = node[key]


def _further(node: Node, rest: str, walked: str) -> str:
    """What to write for a path whose beginning was left out, as `plan.placement.parse` for `plan.parse`; empty if the
    rest leads nowhere below `node`, or to several places."""
    found = list(islice(_ways(node, rest, walked), 2))
    return f"write {found[0]}" if len(found) == 1 else ""


def _ways(node: Node, rest: str, walked: str) -> Iterator[str]:
    """Paths below `node` that end in `rest`."""
    for label, key in _keys(node).items():
        part = node[key]
        if isinstance(part, dict | list):
            path = f"{walked}.{label}" if walked else label
            if _leads(part, rest):
                yield f"{path}.{rest}"
            yield from _ways(part, rest, path)


def _leads(node: Any, rest: str) -> bool:
    """Whether a path leads from `node` to a value."""
    while rest:
        step = _step(node, rest) if isinstance(node, dict | list) else None
        if step is None:
            return False
        key, _, rest = step
        node = node[key]
    return True


def _step(node: Node, rest: str) -> tuple[Any, str, str] | None:
    """Longest key of `node` with which `rest` begins (names may hold dots): the key, its label, and the rest of the
    path."""
    keys = _keys(node)
    for label in sorted(keys, key=len, reverse=True):
        if rest == label or rest.startswith(f"{label}."):
            return keys[label], label, rest[len(label) + 1 :]
    return None


def _newer(node: Node, rest: str) -> str:
    """Path whose first key has its name of today."""
    word, dot, more = rest.partition(".")
    return f"{renamed(word, _keys(node))}{dot}{more}"


def _keys(node: Node) -> dict[str, Any]:
    if isinstance(node, dict):
        return {str(key): key for key in node}
    return {_label(item, index): index for index, item in enumerate(node)}


def _label(item: Any, index: int) -> str:
    """Label of a list's item in paths: its name, producer->consumer for a stream (with :input if that has a name), and
    its number for anything else."""
    if isinstance(item, dict) and "name" in item:
        return str(item["name"])
    if isinstance(item, dict) and "producer" in item:
        name = f":{item['input']}" if item.get("input") else ""
        return f"{item['producer']}->{item['consumer']}{name}"
    return str(index)
