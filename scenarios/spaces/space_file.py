"""Spaces of random scenarios that users write as YAML files: parameters of random queries, or one job that is varied.

A file without `template` is a `ParameterSpace`: what it leaves out is as in Costream's. A file with `template` names a
scenario, and which of its values are drawn, by the paths of `--set`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

import numpy as np
from pydantic import Field, model_validator
from pydantic_core import core_schema

from optimizers.objectives import at_rate
from optimizers.space import Space, SpacePlans, as_plans
from scenarios.files import scenario_file
from scenarios.files.yaml_text import line_of, parse_text
from scenarios.spaces.draws import LEAST, Between, Draw, is_number, read_draw, read_numbers, read_weights
from scenarios.spaces.generator import COSTREAM, HostTier, ParameterSpace, random_engine, random_scenario
from scenarios.spaces.registry import refuse_unseen
from scenarios.spaces.wide import LAWS, varying
from twin.cluster import Host
from twin.errors import BadInput, suggest
from twin.kinds.aggregate import AggregateFunction
from twin.kinds.basic import FilterFunction
from twin.plan import ExecutionPlan
from twin.profiles import PROFILES
from twin.query import Aggregate, CountWindow, DataType, TimeWindow
from twin.randomness import child_seed, random_stream
from twin.scenario import RunSettings, Scenario, put_all, value_at
from twin.spec import Spec, parse
from twin.workload import Workload

# how values are written ----------------------------------------------------------------------------------------------
# Values of a file that are drawn, and outcomes with frequencies, as fields of specs.


NAME = r"^[A-Za-z][\w-]*$"
RANDOM = "random"
"""Engine whose constants are drawn (`scenarios.spaces.generator.random_engine`)."""
LINEAR = "linear"
MOST_SOURCES, MOST_FILTERS, MOST_HOSTS, MOST_VALUES = 8, 100, 1000, 1000
"""Largest numbers of a query's sources and filters, of hosts, and of values of a record."""
_JOIN = re.compile(r"^(\d+)-way[ -]join$")


@dataclass(frozen=True, slots=True)
class _Field:
    """Annotation of a field that `read` makes of what is written, given the field's name. written: the reverse."""

    read: Callable[[Any, str], Any]
    written: Callable[[Any], Any] = lambda value: value

    def __get_pydantic_core_schema__(self, _source: Any, _handler: Any) -> core_schema.CoreSchema:
        def validated(value: Any, info: core_schema.ValidationInfo) -> Any:
            return self.read(value, getattr(info, "field_name", None) or "")

        back = core_schema.plain_serializer_function_ser_schema(self.written)
        return core_schema.with_info_plain_validator_function(validated, serialization=back)

    def __get_pydantic_json_schema__(self, _schema: Any, _handler: Any) -> dict[str, Any]:
        return {}


def _written(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _written(each) for key, each in value.items()}
    return value.written() if isinstance(value, Draw) else value


def _numbers(**limits: Any) -> _Field:
    """Field of numbers that are drawn; `limits` as of `read_numbers`."""
    return _Field(lambda value, name: read_numbers(value, name, **limits), _written)


def _like(spec: type[Spec], name: str, scale: float = 1.0) -> _Field:
    """Field of numbers within the limits of a field of a scenario, which is `scale` times as large."""
    field = spec.model_fields[name]
    limits = {key: getattr(each, key) for each in field.metadata for key in ("ge", "le") if hasattr(each, key)}
    whole = field.annotation is int
    least = limits.get("ge", 1 if whole else LEAST)
    return _numbers(whole=whole, least=least / scale, most=limits["le"] / scale)


def _frequencies(read: Callable[[Any], Any]) -> _Field:
    """Field of outcomes with frequencies; `read` as of `read_weights`."""
    return _Field(lambda value, _name: read_weights(value, read), _written)


def _one_of(known: Sequence[str]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in known:
            raise ValueError(f"unknown {value!r}; {suggest(str(value), known)}")
        return str(value)

    return read


def _kind(value: Any) -> int:
    """Number of sources of a kind of query, as a file names it."""
    match = _JOIN.match(str(value))
    sources = 1 if value == LINEAR else int(match[1]) if match else 0
    if not 1 <= sources <= MOST_SOURCES or (match and sources < 2):
        raise ValueError(f"unknown kind {value!r}; write {LINEAR}, 2-way join, 3-way join, ... {MOST_SOURCES}-way join")
    return sources


def _number_of_filters(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_FILTERS:
        raise ValueError(f"{value!r} is no number of filters; give whole numbers from 0 to {MOST_FILTERS}")
    return value


def _words(literal: Any) -> _Field:
    """Field of words, equally likely, of those that a scenario knows."""
    known = get_args(literal)

    def read(value: Any, _name: str) -> tuple[str, ...]:
        values = value if isinstance(value, list) else [value]
        if not values:
            raise ValueError(f"an empty list has nothing to draw; known: {', '.join(known)}")
        return tuple(map(_one_of(known), values))

    return _Field(read, list)


def _rates(value: Any, name: str) -> Draw | dict[int, Draw]:
    """Rates of sources: as they are drawn, or so by the number of sources."""
    if not isinstance(value, Mapping) or "from" in value or "to" in value:
        return read_numbers(value, name, **RATES)
    found = {}
    for count, each in value.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise ValueError(f"{count!r} is no number of sources; write {{1: RATES, 2: RATES}}, or RATES for all")
        found[count] = read_numbers(each, name, **RATES)
    return found


RATES: Mapping[str, Any] = {"least": 1e-6, "most": 1e8}
"""Limits of rates, which leave room for the peaks and pauses of all laws."""
Cores = Annotated[Draw, _like(Host, "cpu_percent", scale=100.0)]
CpuPercent = Annotated[Draw, _like(Host, "cpu_percent")]
RamMb = Annotated[Draw, _like(Host, "ram_mb")]
BandwidthMbps = Annotated[Draw, _like(Host, "bandwidth_mbps")]
LatencyMs = Annotated[Draw, _like(Host, "latency_ms")]
WindowSeconds = Annotated[Draw, _like(TimeWindow, "size_s")]
WindowRecords = Annotated[Draw, _like(CountWindow, "size_records")]
Groups = Annotated[Draw, _like(Aggregate, "groups")]
Shares = Annotated[Draw, _numbers(least=LEAST, most=1.0)]
HostCounts = Annotated[Draw, _numbers(whole=True, least=1, most=MOST_HOSTS)]
ValueCounts = Annotated[Draw, _numbers(whole=True, least=1, most=MOST_VALUES)]
Rates = Annotated[Any, _Field(_rates, _written)]
Kinds = Annotated[Mapping[int, float], _frequencies(_kind)]
Filters = Annotated[Mapping[int, float], _frequencies(_number_of_filters)]
Laws = Annotated[Mapping[str, float], _frequencies(_one_of(LAWS))]
Engines = Annotated[Mapping[str, float], _frequencies(_one_of((*PROFILES, RANDOM)))]
DataTypes = Annotated[tuple[str, ...], _words(DataType)]
FilterFunctions = Annotated[tuple[str, ...], _words(FilterFunction)]
AggregateFunctions = Annotated[tuple[str, ...], _words(AggregateFunction)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


# spaces of random queries --------------------------------------------------------------------------------------------


class Tier(Spec):
    """Hosts of one kind. hosts: how many. cores: 100 % of cpu_percent each; one of the two. What is left out is as for
    all hosts."""

    hosts: HostCounts | None = None
    cores: Cores | None = None
    cpu_percent: CpuPercent | None = None
    ram_mb: RamMb | None = None
    bandwidth_mbps: BandwidthMbps | None = None
    latency_ms: LatencyMs | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.cores is not None and self.cpu_percent is not None:
            raise ValueError("cores and cpu_percent say the same; give one of the two")
        return self

    def drawn(self) -> dict[str, Draw]:
        """Values by the names that a `ParameterSpace` has for them."""
        cpu = self.cpu_percent if self.cores is None else self.cores.times(100.0)
        given = {"hosts_range": self.hosts, "cpu_percent": cpu, "ram_mb": self.ram_mb}
        given |= {"bandwidth_mbps": self.bandwidth_mbps, "latency_ms": self.latency_ms}
        return {name: value for name, value in given.items() if value is not None}


class Hardware(Tier):
    """Hosts, without links between them. tiers: groups of hosts by name, instead of `hosts`."""

    tiers: Mapping[Annotated[str, Field(pattern=NAME)], Tier] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_tiers(self) -> Self:
        if self.tiers and self.hosts is not None:
            raise ValueError("hosts beside tiers: each tier has its own number of hosts; leave this one out")
        return self


class Windows(Spec):
    """Windows of aggregates and joins. counted, sliding: shares of windows by count, and of those that slide.
    slide_share: the slide over the size."""

    size_s: WindowSeconds | None = None
    size_records: WindowRecords | None = None
    counted: Share = 0.5
    sliding: Share = 0.5
    slide_share: Shares | None = None


class Queries(Spec):
    """Queries: sources, filters on each branch, left-deep joins, and maybe an aggregate at the end. kinds: by their
    number of sources. filters: of a query. aggregated: share with an aggregate. record_values: of a source's
    records. join_amplification_max: most records that a join sends for each that it takes."""

    kinds: Kinds | None = None
    filters: Filters | None = None
    aggregated: Share = COSTREAM.aggregated_share
    record_values: ValueCounts | None = None
    data_types: DataTypes | None = None
    filter_functions: FilterFunctions | None = None
    filter_selectivity: Shares | None = None
    aggregate_functions: AggregateFunctions | None = None
    groups: Groups | None = None
    join_selectivity: Shares | None = None
    join_amplification_max: Annotated[float, Field(gt=0.0)] = COSTREAM.join_amplification_max
    windows: Windows = Windows()


class ArrivalsDrawn(Spec):
    """Arrivals. rate_per_s: mean rate of each source, for any number of sources or by it. laws: arrival laws; their
    peaks and waves are drawn as in the space `demanding`."""

    rate_per_s: Rates | None = None
    laws: Laws = Field(default_factory=lambda: {"poisson": 1.0})


class QuerySpace(Spec):
    """Space of random queries on random hosts. engines: profiles, or `random`."""

    description: str = ""
    hardware: Hardware = Hardware()
    queries: Queries = Queries()
    arrivals: ArrivalsDrawn = ArrivalsDrawn()
    engines: Engines = Field(default_factory=lambda: {"storm": 1.0})

    @model_validator(mode="after")
    def _check(self) -> Self:
        space = self.parameters()
        for sources in space.sources:
            if sources not in space.rates_per_s:
                given = "arrivals.rate_per_s" if self.arrivals.rate_per_s is not None else "Costream's space"
                raise ValueError(
                    f"arrivals.rate_per_s: {given} has no rates for {sources} sources, which queries.kinds draws; "
                    "give rates for any number of sources, such as [100, 1k], or for this one"
                )
        return self

    def parameters(self) -> ParameterSpace:
        """Parameter space from which queries, hosts and rates are drawn."""
        queries, windows, rates = self.queries, self.queries.windows, self.arrivals.rate_per_s
        values: dict[str, Any] = {
            "sources": queries.kinds,
            "filters": queries.filters,
            "values_range": queries.record_values,
            "data_types": queries.data_types,
            "filter_functions": queries.filter_functions,
            "filter_selectivity_range": queries.filter_selectivity,
            "aggregate_functions": queries.aggregate_functions,
            "groups_range": queries.groups,
            "join_selectivity_range": queries.join_selectivity,
            "window_sizes_s": windows.size_s,
            "window_sizes_records": windows.size_records,
            "slide_share_range": windows.slide_share,
            "rates_per_s": dict.fromkeys(range(1, MOST_SOURCES + 1), rates) if isinstance(rates, Draw) else rates,
            **self.hardware.drawn(),
        }
        space = replace(
            COSTREAM,
            aggregated_share=queries.aggregated,
            join_amplification_max=queries.join_amplification_max,
            sliding_share=windows.sliding,
            counted_share=windows.counted,
            **{name: value for name, value in values.items() if value is not None},
        )
        usual = {name: getattr(space, name) for name in _HOST_FEATURES}
        tiers = tuple(HostTier(name=name, **{**usual, **tier.drawn()}) for name, tier in self.hardware.tiers.items())
        return replace(space, tiers=tiers)


_HOST_FEATURES = ("hosts_range", "cpu_percent", "ram_mb", "bandwidth_mbps", "latency_ms")


@dataclass(frozen=True, slots=True)
class QueriesOfFile:
    """Scenarios of a `QuerySpace`: a function of a run's index that can be pickled."""

    space: QuerySpace
    seed: int
    settings: RunSettings

    def __call__(self, index: int) -> Scenario:
        """Scenario of a run, determined by space, seed and index."""
        seed = child_seed(self.seed, index)
        base, rng = random_scenario(self.space.parameters(), seed, self.settings), random_stream(seed, "space file")
        engine = _drawn(rng, self.space.engines)
        arrivals = {
            name: varying(_drawn(rng, self.space.arrivals.laws), law.mean_rate_per_s, base.run.horizon_s, rng)
            for name, law in base.workload.arrivals.items()
        }
        changed = {
            "engine": random_engine(rng) if engine == RANDOM else PROFILES[engine],
            "workload": Workload(arrivals=arrivals),
        }
        return Scenario(**{**dict(base), **changed})


def _drawn(rng: np.random.Generator, weights: Mapping[Any, float]) -> Any:
    shares = np.array(list(weights.values()))
    return list(weights)[int(rng.choice(len(shares), p=shares / shares.sum()))]


# variations of a job -------------------------------------------------------------------------------------------------


MOST_WHOLE = 2**53
"""Bound on whole numbers that are drawn."""
LOAD = "load"
"""Name of the factor on the rates of all sources, beside paths."""
MOST_DRAWS = 100
TRIES = 20
"""Draws of the other values with which a value must give a valid scenario at least once."""


def _varied(value: Any, _name: str) -> dict[str, Draw]:
    if not isinstance(value, Mapping) or not value:
        raise ValueError("write a mapping from paths of the template to values, as in {run.horizon_s: [60, 120]}")
    found = {}
    for path, each in value.items():
        try:
            found[str(path)] = read_draw(each, str(path))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    return found


class JobSpace(Spec):
    """Space of variations of one scenario. template: a file, whose path is relative to this one, or a name of the
    library. vary: values that are drawn, by path as in `--set`, or `load` for a factor on all rates. plans: `given`, or
    drawn anew for each run: of all (`random`), or of those that obey Costream's rules."""

    description: str = ""
    template: str
    vary: Annotated[Mapping[str, Draw], _Field(_varied, _written)]
    plans: Literal["given", "random", "costream"] = "random"


@dataclass(frozen=True, slots=True)
class VariationsOfFile:
    """Scenarios of a `JobSpace`: a function of a run's index that can be pickled. vary: where the template has a whole
    number, whole ones are drawn.

    Raises BadInput if a path does not exist, or a value gives no valid scenario whatever the others are.
    """

    template: Scenario
    vary: Mapping[str, Draw]
    plans: str
    seed: int
    where: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "vary", {path: self._whole(path, draw) for path, draw in self.vary.items()})
        if self.plans != "given" and (places := [path for path in self.vary if path.startswith("plan.placement")]):
            raise BadInput(
                f"{self.where}: vary: {places[0]} is drawn, and plans: {self.plans} draws all places; "
                "leave one out, or write plans: given"
            )
        for path, draw in self.vary.items():
            for value in draw.extremes:
                self._check(path, value)
        self(0)  # pinned operators and links may leave no plan

    def __call__(self, index: int) -> Scenario:
        """Scenario of a run, determined by the space, seed and index."""
        rng = random_stream(child_seed(self.seed, index), "variations")
        for attempt in range(MOST_DRAWS):
            try:
                job = self._planned(self._with(self._drawn(rng)), rng)
                return job.model_copy(update={"name": f"{self.template.name}-{index}", "description": ""})
            except BadInput:  # some values do not go together
                if attempt == MOST_DRAWS - 1:
                    raise
        raise AssertionError("unreachable")

    def _whole(self, path: str, draw: Draw) -> Draw:
        given = 1.0 if path == LOAD else value_at(self.template, path, f"{self.where}: vary")
        if not isinstance(draw, Between) or not isinstance(given, int) or isinstance(given, bool):
            return draw
        if not (draw.low.is_integer() and draw.high.is_integer() and max(-draw.low, draw.high) < MOST_WHOLE):
            raise BadInput(f"{self.where}: vary: {path} takes whole numbers; give whole ends, or a list")
        return replace(draw, whole=True)

    def _drawn(self, rng: np.random.Generator) -> dict[str, Any]:
        return {path: draw.draw(rng) for path, draw in self.vary.items()}

    def _with(self, values: Mapping[str, Any]) -> Scenario:
        paths = [(path, value) for path, value in values.items() if path != LOAD]
        job = put_all(self.template, paths, f"{self.where}: vary") if paths else self.template
        return job if LOAD not in values else at_rate(job, float(values[LOAD]))

    def _check(self, path: str, value: Any) -> None:
        """Raises BadInput unless a value goes with some of the others."""
        if path == LOAD and (not is_number(value) or value <= 0):
            raise BadInput(f"{self.where}: vary: {LOAD}: {value!r} is no factor; give numbers above 0")
        rng, refusal = random_stream(0, "check"), BadInput("nothing tried")
        for attempt in range(TRIES):
            try:
                self._with({path: value} if attempt == 0 else {**self._drawn(rng), path: value})
                return
            except BadInput as error:
                refusal = refusal if attempt else error
        raise refusal

    def _planned(self, job: Scenario, rng: np.random.Generator) -> Scenario:
        if self.plans == "given":
            return job
        space = Space(free_subtasks=False, costream_rules=self.plans == "costream")
        plans = SpacePlans(job, space)
        found = plans.draws(rng, TRIES)
        plan: ExecutionPlan = as_plans(job, found[:1] if len(found) else plans.sample(rng, 1))[0]
        return job.with_plan(plan)


# files ---------------------------------------------------------------------------------------------------------------


ENDINGS = (".yaml", ".yml")


def is_file(name: str) -> bool:
    """Whether the name of a space means a file."""
    return name.endswith(ENDINGS)


def load(path: Path) -> QuerySpace | JobSpace:
    """Space in a YAML file. Raises BadInput with the line, path and remedy of every mistake."""
    text = scenario_file.read_text(path)
    data = parse_text(text, str(path))
    if not isinstance(data, Mapping):
        raise BadInput(f"{path}: a space is a mapping of keys such as hardware and queries, or template and vary")
    if "query" in data and "cluster" in data:
        raise BadInput(
            f"{path} is a scenario; give it with --scenario, or as the template of a space: template: {path}"
        )
    kind: type[QuerySpace | JobSpace] = JobSpace if "template" in data else QuerySpace
    return parse(kind, data, str(path), partial(line_of, text))


def template_of(space: JobSpace, path: Path) -> Scenario:
    """Template of a space in the file at `path`. Raises BadInput as `scenarios.files.scenario_file.load`, and for what
    no training row shows."""
    name = str(path.parent / space.template) if is_file(space.template) else space.template
    try:
        template = scenario_file.load(name)
    except BadInput as error:
        raise BadInput(f"{path}: template: {error}") from None
    refuse_unseen(template, f"{path}: template", "take it out of the template")
    return template
