"""Which corpus a user asked for: what its runs simulate, and the specification that makes it resumable."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Required, TypedDict

from scenarios.files import scenario_file
from scenarios.files.documents import CLOSED
from scenarios.files.overrides import set_values
from scenarios.spaces.families import FamilyAmongOthers, OneQuery, RandomScenarios, Replicated, ScenarioFamily
from scenarios.spaces.registry import WIDE
from scenarios.spaces.wide import WideScenarios
from twin.corpus.chunks import CorpusSummary
from twin.corpus.manifest import CorpusSpec
from twin.errors import BadInput
from twin.scenario import RunSettings, Scenario, config_hash

DEFAULT_SPACE = "costream"

Distinct = RandomScenarios | WideScenarios | OneQuery | FamilyAmongOthers
Make = Distinct | Replicated


@CLOSED
@dataclass(frozen=True, kw_only=True)
class CorpusWritten(CorpusSummary):
    """`twin corpus`. card: the page that describes it."""

    card: str


class CorpusRequest(TypedDict, total=False):
    """What a user asks of `twin corpus`: the arguments of `plan` and `command`."""

    runs: Required[int]
    seed: Required[int]
    space: Required[str | None]
    scenario: Required[str | None]
    horizon_s: Required[float | None]
    replicates: int
    set_: tuple[str, ...]


def plan(
    *,
    runs: int,
    seed: int,
    space: str | None,
    scenario: str | None,
    horizon_s: float | None,
    replicates: int = 0,
    set_: tuple[str, ...] = (),
) -> tuple[Make, CorpusSpec]:
    """The maker of the scenarios and the specification of the corpus.

    space and scenario: random queries; or variations of one scenario; or, if both are given, the query of the scenario
    with everything else drawn from the space. replicates: this many of the runs, the first ones, are simulated once
    more under another seed. set_: values of the scenario to replace, as --set takes them.
    Raises BadInput if a space or scenario is unknown, or there are more replicates than runs.
    """
    if replicates > runs:
        raise BadInput(f"--replicates {replicates} is above --runs {runs}; a run is repeated once at most, give less")
    make, spec = _distinct(runs=runs, seed=seed, space=space, scenario=scenario, horizon_s=horizon_s, set_=set_)
    if not replicates:
        return make, spec
    settings = {**spec.settings, "distinct_runs": runs}
    return Replicated(make, runs), replace(spec, runs=runs + replicates, settings=settings)


def command(request: CorpusRequest) -> str:
    """What a user types for the corpus of `plan(**request)`."""
    options = {
        "--runs": request["runs"],
        "--space": request["space"],
        "--scenario": request["scenario"],
        "--horizon": request["horizon_s"],
        "--replicates": request.get("replicates") or None,
        "--seed": request["seed"],
    }
    given = [f"{name} {value}" for name, value in options.items() if value is not None]
    return " ".join(["twin corpus OUT", *given, *(f"--set {shlex.quote(each)}" for each in request.get("set_", ()))])


def _distinct(
    *, runs: int, seed: int, space: str | None, scenario: str | None, horizon_s: float | None, set_: tuple[str, ...]
) -> tuple[Distinct, CorpusSpec]:
    if scenario is None:
        if set_:
            raise BadInput(f"--set {set_[0]} is of a scenario; name one with --scenario")
        if space == WIDE:
            wide: dict[str, Any] = {"horizon_s": horizon_s, "warmup_s": 0.0}
            return WideScenarios(seed, horizon_s), CorpusSpec(runs=runs, seed=seed, space=WIDE, settings=wide)
        settings = RunSettings() if horizon_s is None else _settings(RunSettings(), horizon_s)
        maker = RandomScenarios(space or DEFAULT_SPACE, seed, settings)
        return maker, CorpusSpec(runs=runs, seed=seed, space=maker.space, settings=settings.model_dump(mode="json"))
    base = set_values(scenario_file.load(scenario), set_)
    if horizon_s is not None:
        base = base.model_copy(update={"run": _settings(base.run, horizon_s)})
    return around(base, runs=runs, seed=seed) if space is None else one_query(base, space, runs=runs, seed=seed)


def one_query(base: Scenario, space: str, *, runs: int, seed: int) -> tuple[OneQuery, CorpusSpec]:
    """The query of one scenario, with rates, hosts and placement from a space. Raises BadInput if it has none."""
    return OneQuery(base, space, seed), CorpusSpec(
        runs=runs, seed=seed, space=f"{base.name} in {space}", settings=_around(base)
    )


def around(base: Scenario, *, runs: int, seed: int) -> tuple[FamilyAmongOthers, CorpusSpec]:
    """Variations of one scenario (plan, rates and hardware), and a tenth of random scenarios of the default space."""
    make = FamilyAmongOthers(ScenarioFamily(base, seed), RandomScenarios(DEFAULT_SPACE, seed, base.run))
    return make, CorpusSpec(runs=runs, seed=seed, space=f"around {base.name}", settings=_around(base))


def _around(base: Scenario) -> dict[str, Any]:
    """What identifies a corpus of one scenario."""
    return {"config_hash": config_hash(base), **base.run.model_dump(mode="json")}


def in_words(summary: CorpusSummary, folder: Path) -> str:
    """A line for a reader."""
    new = summary.runs - summary.resumed
    text = f"{summary.runs} runs in {folder}: {new} new in {summary.wall_s:.1f} s"
    if new:
        text += f" ({summary.simulation_cpu_s / new * 1000:.0f} ms of CPU a simulation)"
    if summary.resumed:
        text += f", {summary.resumed} were there"
    return f"{text}; {summary.failed} failed" if summary.failed else text


def _settings(settings: RunSettings, horizon_s: float) -> RunSettings:
    if horizon_s <= settings.warmup_s:
        raise BadInput(f"--horizon {horizon_s:g} must be above the warm-up of {settings.warmup_s:g} s; give more")
    return settings.model_copy(update={"horizon_s": horizon_s})
