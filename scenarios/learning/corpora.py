"""Corpora that users ask for: the scenarios of their runs, and the specification that makes them resumable."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from scenarios.files import scenario_file
from scenarios.files.documents import CLOSED
from scenarios.files.overrides import set_values
from scenarios.spaces.families import Make, OneQuery, RandomScenarios, ScenarioFamily, among_others, drawn, replicated
from scenarios.spaces.registry import DRAWN
from twin.corpus.chunks import CorpusSummary
from twin.corpus.manifest import DISTINCT, CorpusSpec
from twin.errors import BadInput
from twin.scenario import RunSettings, Scenario, config_hash

DEFAULT_SPACE = "costream"


@CLOSED
@dataclass(frozen=True, kw_only=True)
class CorpusWritten(CorpusSummary):
    """The answer of `twin corpus`. card: the page that describes the corpus."""

    card: str


@dataclass(frozen=True, slots=True)
class CorpusRecipe:
    """The options of `twin corpus`, and the runs that they ask for.

    space alone: random queries. scenario alone: variations of one scenario. Both: the query of the scenario with
    everything else drawn from the space. replicates: number of runs, the first ones, that are simulated once more under
    another seed. horizon_s: None is the default of run settings. set_: values of the scenario to replace, as --set
    takes them.
    """

    runs: int
    seed: int
    replicates: int = 0
    space: str | None = None
    scenario: str | None = None
    horizon_s: float | None = None
    set_: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the scenario or the space."""
        return self.scenario or self.space or DEFAULT_SPACE

    @property
    def command(self) -> str:
        """Command line that makes the corpus."""
        options = {
            "--runs": self.runs,
            "--space": self.space,
            "--scenario": self.scenario,
            "--horizon": self.horizon_s,
            "--replicates": self.replicates or None,
            "--seed": self.seed,
        }
        given = [f"{name} {value}" for name, value in options.items() if value is not None]
        return " ".join(["twin corpus OUT", *given, *(f"--set {shlex.quote(each)}" for each in self.set_)])

    def plan(self) -> tuple[Make, CorpusSpec]:
        """Maker of the scenarios, and specification of the corpus.

        Raises BadInput if a space or scenario is unknown, or there are more replicates than runs.
        """
        if self.replicates > self.runs:
            raise BadInput(
                f"--replicates {self.replicates} is above --runs {self.runs}; a run is repeated at most once, give less"
            )
        make, spec = self._distinct()
        if not self.replicates:
            return make, spec
        settings = {**spec.settings, DISTINCT: self.runs}
        return partial(replicated, make, self.runs), replace(spec, runs=self.runs + self.replicates, settings=settings)

    def _distinct(self) -> tuple[Make, CorpusSpec]:
        runs, seed, space, horizon_s = self.runs, self.seed, self.space, self.horizon_s
        if self.scenario is None:
            if self.set_:
                raise BadInput(f"--set {self.set_[0]} changes a scenario; name one with --scenario")
            if space is not None and space in DRAWN:
                known: dict[str, Any] = {"horizon_s": horizon_s, "warmup_s": 0.0}
                make = partial(drawn, space, seed, horizon_s=horizon_s)
                return make, CorpusSpec(runs=runs, seed=seed, space=space, settings=known)
            settings = RunSettings() if horizon_s is None else _settings(RunSettings(), horizon_s)
            maker = RandomScenarios(space or DEFAULT_SPACE, seed, settings)
            return maker, CorpusSpec(runs=runs, seed=seed, space=maker.space, settings=settings.model_dump(mode="json"))
        base = set_values(scenario_file.load(self.scenario), self.set_)
        if horizon_s is not None:
            base = base.model_copy(update={"run": _settings(base.run, horizon_s)})
        if space is None:
            return around(base, runs=runs, seed=seed)
        name = f"{base.name} in {space}"
        return OneQuery(base, space, seed), CorpusSpec(runs=runs, seed=seed, space=name, settings=_around(base))


def around(base: Scenario, *, runs: int, seed: int) -> tuple[Make, CorpusSpec]:
    """Variations of one scenario (plan, rates and hardware), and a tenth of random scenarios of the default space."""
    make = partial(among_others, ScenarioFamily(base, seed), RandomScenarios(DEFAULT_SPACE, seed, base.run))
    return make, CorpusSpec(runs=runs, seed=seed, space=f"around {base.name}", settings=_around(base))


def _around(base: Scenario) -> dict[str, Any]:
    """Settings that identify a corpus of one scenario."""
    return {"config_hash": config_hash(base), **base.run.model_dump(mode="json")}


def in_words(summary: CorpusSummary, folder: Path) -> str:
    """Line about a corpus for people."""
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
