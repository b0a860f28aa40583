"""Questions that runs of a scenario answer: `twin whatif`, `compare`, `compare-policies`, `capacity`, `sensitivity` and
`dry-run`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from operator import not_
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from streamtwin.options import listed, option, seconds
from streamtwin.questions.question import Form, FormField, OfScenario, Question, Runs, texts
from twin.errors import BadInput

if TYPE_CHECKING:
    from scenarios.questions.capacity import CapacityAnswer
    from scenarios.questions.dry_run import DryRunAnswer
    from scenarios.questions.policies_compared import PoliciesCompared
    from scenarios.questions.sensitivity import SensitivityAnswer
    from scenarios.questions.variants import Variant
    from scenarios.questions.whatif import VariantsCompared
    from twin.scenario import Scenario


def precise(text: str) -> float:
    """Precision, as a share, that an option gives, such as 1%. Raises BadInput for what is none."""
    from scenarios.questions.knobs import share

    return share(text)


def _range(text: str) -> tuple[float, float]:
    from scenarios.questions.knobs import bounds

    return bounds(text, "--between")


def _known_policy(name: str | None) -> str | None:
    if name is not None and name.isidentifier():
        from optimizers.policies import POLICIES
        from twin.errors import suggest

        if name not in POLICIES:
            raise BadInput(f"--policy {name}: unknown policy; {suggest(name, POLICIES)}")
    return name


PolicyName = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME",
        help="A policy that reconfigures the job; see `twin list`.",
        callback=_known_policy,
    ),
]
ON = partial(
    option,
    (),
    "Hosts that all subtasks take in turn. Default: those there stay, others go where the engine puts them.",
    "HOST,...",
    read=listed,
)
COMPARED = ("throughput_per_s", "e2e_latency_s.mean", "e2e_latency_s.p99")
METRICS = partial(
    option,
    COMPARED,
    "What to compare, such as e2e_latency_s.p99 or hosts.HOST.cpu. Repeatable. "
    "Default: throughput, latency and its p99, and late_per_s where late records have an output.",
    "NAME",
    "--metric",
)
VARIANT_RUNS = partial(option, 10, "Runs of each variant; with --precision, the first ones.", "N")
NARROW = partial(
    option,
    None,
    "Add runs until every 95 % interval is this narrow: 2%.",
    "SHARE",
    read=precise,
    python="Add runs until half of every 95 % interval is this share of its mean.",
)


@dataclass(frozen=True)
class WhatIf(OfScenario):
    """What would happen if: variants of a scenario on the same random numbers, and whether they differ.

    Examples: `twin whatif smart-grid --vary workload.arrivals.meters.rate_per_s=500..3k:6` ·
    `twin whatif rush-hour-scaling --vary "subtasks of match=1..4" --on worker-1,worker-2` ·
    `twin whatif rush-hour-scaling --policy ds2,relieve --vary run.period_s=5,10` ·
    `twin whatif failover --event "kind: slow-down, at_s: 60, host: edge-1, factor: 3" --precision 5%` ·
    `twin whatif smart-grid --plan better.yaml --out answer`
    """

    vary: Mapping[str, Sequence[Any] | str] | Sequence[str] | None = option(
        None,
        "Values that a path, 'subtasks of OPERATOR' or hosts takes: a list, 1k..50k:10, 1k..50k:10:log or "
        "1..8. Several make a grid.",
        "PATH=V1,V2",
        read=tuple,
        kind=list[str] | None,
        python="Values by path, 'subtasks of OPERATOR' or hosts: listed, or as in '1k..50k:10'.",
    )
    _: KW_ONLY
    on: Sequence[str] = ON()
    plans: Sequence[str] = option((), "A scenario file with another plan. Repeatable.", "FILE", "--plan")
    policies: Sequence[str] = option(
        (), "A policy that reconfigures the job; see `twin list`. Repeatable.", "NAME", "--policy"
    )
    events: Sequence[str] = option((), "A variant with one more event, in YAML. Repeatable.", "EVENT", "--event")
    metrics: Sequence[str] = METRICS()
    replications: int = VARIANT_RUNS()
    precision: float | None = NARROW()

    command = "whatif"
    shown_by = "comparison.told"
    doing = "what if"

    def ask(self, scenario: Scenario, runs: Runs) -> VariantsCompared:
        from scenarios.questions.variants import VariantsQuestion, variants

        vary = texts(self.vary, lambda values: ",".join(map(json.dumps, values)))
        found = variants(scenario, VariantsQuestion(vary, self.plans, self.policies, self.events, self.on))
        return _compared(self, found, scenario.run.seed, runs)


@dataclass(frozen=True)
class Compare(Question):
    """Two scenarios, or more, on the same random numbers: by how much they differ, and whether that is chance.

    Examples: `twin compare smart-grid-local smart-grid-global` · `twin compare before.yaml after.yaml --precision 2%`
    """

    _: KW_ONLY
    metrics: Sequence[str] = METRICS()
    replications: int = VARIANT_RUNS()
    precision: float | None = NARROW()

    command = "compare"
    shown_by = "comparison.told"

    def ask(self, scenarios: Sequence[tuple[str, Scenario]], runs: Runs) -> VariantsCompared:
        """Compares scenarios with the first; each has a label. Raises BadInput for fewer than two, or equal ones."""
        from scenarios.questions.variants import Variant, as_variants

        found = as_variants([Variant(label, scenario) for label, scenario in scenarios])
        seed = found[0].scenario.run.seed if self.seed is None else self.seed
        return _compared(self, found, seed, runs)


def _compared(question: WhatIf | Compare, variants: Sequence[Variant], seed: int, runs: Runs) -> VariantsCompared:
    from scenarios.measures import full_names
    from scenarios.questions.bench import Wanted
    from scenarios.questions.kept import key
    from scenarios.questions.whatif import compared

    wanted = Wanted(question.replications, question.precision)
    wanted.check()
    scenarios = [variant.scenario for variant in variants]
    late = any(getattr(each, "late_to", None) for scenario in scenarios for each in scenario.query.operators)
    asked = (*COMPARED, "late_per_s") if late and question.metrics == COMPARED else question.metrics
    metrics = full_names(asked, scenarios, runs.named("metrics", "--metric"))
    cases = {variant.label: key(variant.scenario) for variant in variants}
    with runs.bench({"command": question.command, "variants": cases, "seed": seed}) as bench:
        return compared(bench, variants, metrics, wanted, seed, runs.audience)


def _duration(text: str) -> float:
    from twin.quantities import duration_s

    return duration_s(text, "--slo")


def _policies() -> Mapping[str, str]:
    from streamtwin import catalogue

    return {"none": "", **catalogue.policies()}


@dataclass(frozen=True)
class ComparePolicies(OfScenario):
    """Compares policies on one load: backlog, latency, SLO, subtasks, migrations, oscillations, all with intervals.

    Examples: `twin compare-policies rush-hour-scaling --policies none,ds2,flink-autoscaler --slo 5s` ·
    `twin compare-policies wikipedia-top-k --policies balance,flux --replications 3` ·
    `twin compare-policies rush-hour-scaling --policies "ds2,{name: ds2, calm_periods: 3}" --out answer`
    """

    policies: Sequence[Any] = option(
        (),
        "Two or more, 'none' among them if wanted; with options: '{name: ds2, margin: 0.1}'. The first is what the "
        "others are compared with. Repeatable.",
        "NAMES",
    )
    _: KW_ONLY
    slo_s: float | None = option(
        None,
        "Highest end-to-end latency for 99 % of results: 500ms.",
        "DURATION",
        "--slo",
        read=_duration,
        python="Highest end-to-end latency for 99 % of results, in seconds.",
    )
    replications: int = option(5, "Runs of each policy.", "N")

    command = "compare-policies"
    shown_by = "policies.told"
    doing = "comparing policies"
    form = Form(
        "Compare policies",
        3,
        {
            "policies": FormField("policies", "none,ds2,flink-autoscaler", allowed=_policies),
            "slo": FormField("latency of 99 % within", "5s"),
        },
    )

    def ask(self, scenario: Scenario, runs: Runs) -> PoliciesCompared:
        from scenarios.questions.bench import Wanted
        from scenarios.questions.kept import key
        from scenarios.questions.policies_compared import compared, judge, variants

        wanted = Wanted(self.replications)
        wanted.check()
        candidates = variants(scenario, [_in_yaml(policy) for policy in self.policies])
        cases, seed = {variant.label: key(variant.scenario) for variant in candidates}, scenario.run.seed
        asked = {"command": self.command, "variants": cases, "seed": seed, "slo_s": self.slo_s}
        with runs.bench(asked, judge(self.slo_s)) as bench:
            return compared(bench, candidates, self.slo_s, wanted, seed, runs.audience)


def _in_yaml(policy: Any) -> str:
    """Policy, given by its name, spec or options, as text of the command line."""
    if isinstance(policy, str):
        return policy
    return json.dumps(dict(policy) if isinstance(policy, Mapping) else policy.model_dump(mode="json"))


def _loads(now: Scenario) -> Mapping[str, str]:
    """Words for the loads of a job that can be varied, by path."""
    rates = [each.name for each in now.query.sources if hasattr(now.workload.arrivals[each.name], "rate_per_s")]
    each_alone = {f"workload.arrivals.{name}.rate_per_s": f"the rate of {name}" for name in rates}
    together = {"load": "all sources together"}
    return {**each_alone, **together} if len(now.query.sources) == 1 else {**together, **each_alone}


@dataclass(frozen=True)
class FindCapacity(OfScenario):
    """The largest rate that a job bears, or the fewest subtasks or hosts that it needs; and what binds.

    The rate model predicts the limit at once; exact runs prove it.

    Examples: `twin capacity edge-filter --find-max workload.arrivals.sensors.rate_per_s` ·
    `twin capacity smart-grid --find-max load --predict-only` ·
    `twin capacity rush-hour-scaling --find-min "subtasks of match" --set events=[]` ·
    `twin capacity smart-grid --find-min hosts --while "not backpressured and e2e_latency_s.p99 < 500ms"`
    """

    find_max: str | None = option(
        None,
        "A path such as workload.arrivals.clicks.rate_per_s, load (all sources), 'subtasks of OPERATOR', or hosts.",
        "WHAT",
    )
    _: KW_ONLY
    find_min: str | None = option(None, "The same, for the smallest value that holds.", "WHAT")
    while_: str = option(
        "not backpressured",
        "Condition that must hold: metrics with < <= > >=, and, or, not.",
        "CONDITION",
        "--while",
    )
    between: tuple[float, float] | None = option(
        None,
        "Range to search. Default: around the prediction.",
        "LOW..HIGH",
        read=_range,
        python="The lowest and the highest value to try. Default: around the prediction.",
    )
    on: Sequence[str] = ON()
    policy: PolicyName = None
    replications: int | None = option(None, "Runs at each value. Default: 4 to 10, for the precision.", "N")
    precision: float = option(
        0.01,
        "Relative precision of the limit in each run.",
        "SHARE",
        read=precise,
        kind=str,
        shown="1%",
        python="Precision of the limit in each run, as a share.",
    )
    prove: bool = option(
        True,
        "Answer at once by the rate model, without a run.",
        flag="--predict-only",
        read=not_,
        kind=bool,
        shown=False,
        python="By runs; if false, the prediction of the rate model is the answer.",
    )
    full_length: bool = option(
        False, "Make runs as long as the scenario says, even if shorter ones do.", flag="--full-length"
    )

    command = "capacity"
    shown_by = "capacity.told"
    doing = "capacity"
    form = Form(
        "How much load can it take?",
        1,
        {
            "find-max": FormField("the highest", choices=_loads),
            "while": FormField("while", "not backpressured"),
        },
    )

    def ask(self, scenario: Scenario, runs: Runs) -> CapacityAnswer:
        if (self.find_max is None) == (self.find_min is None):
            path = "workload.arrivals.SOURCE.rate_per_s"
            python = f"capacity: give either find_max or find_min, such as {path!r}"
            raise BadInput(runs.named(python, f"give either --find-max or --find-min, such as --find-max {path}"))
        from scenarios.measures import condition
        from scenarios.questions.bench import Wanted
        from scenarios.questions.capacity import CapacityQuestion, capacity
        from scenarios.questions.kept import key
        from scenarios.questions.knobs import knob
        from streamtwin.answers.capacity import predicted

        if self.replications is not None:
            Wanted(self.replications).check()
        find: Literal["max", "min"] = "max" if self.find_min is None else "min"
        question = CapacityQuestion(
            find,
            knob(self.find_max or self.find_min or "", runs.named(f"find_{find}", f"--find-{find}"), self.on),
            condition(self.while_, scenario, runs.named("while_", "--while")),
            self.between and (float(self.between[0]), float(self.between[1])),
            self.precision,
            self.replications,
            self.full_length,
        )
        job, seed = self._under_policy(scenario, runs), scenario.run.seed
        question.range(job)
        on = ",".join(self.on) or None
        keyed = {"find": find, "of": question.knob.name, "while": self.while_, "on": on, "seed": seed}
        said = lambda answer: runs.audience.stage(predicted(answer))  # noqa: E731
        with runs.bench({"command": self.command, "case": key(job), **keyed}) as bench:
            return capacity(job, question, bench, seed, runs.audience, said, self.prove)

    def _under_policy(self, scenario: Scenario, runs: Runs) -> Scenario:
        from scenarios.files.scenario_file import set_value

        if self.policy is None or not runs.command:
            return scenario if self.policy is None else scenario.with_policy(self.policy)
        return set_value(scenario, f"policy={self.policy}", "--policy")  # it may have options


@dataclass(frozen=True)
class FindSensitivity(OfScenario):
    """Which inputs matter: screening (Morris), then how much of the variance each explains (Sobol); a tornado figure.

    Examples: `twin sensitivity rush-hour --input workload.arrivals.gates.rate_per_s=600..1200
    --input cluster.hosts.edge-2.cpu_percent=80..120 --input cluster.hosts.edge-2.latency_ms=5..50 --out answer`
    """

    inputs: Mapping[str, tuple[float, float] | str] | Sequence[str] = option(
        (),
        "An input and its interval; LOW..HIGH:log. Repeatable.",
        "PATH=LOW..HIGH",
        "--input",
        read=tuple,
        kind=list[str] | None,
        python="Two or more intervals by path: (low, high), or as in '50..200:log'.",
    )
    _: KW_ONLY
    metric: str = option("e2e_latency_s", "The metric to explain.", "NAME")
    trajectories: int = option(10, "Runs of Morris' screening.", "N")
    samples: int = option(64, "Samples for Sobol's indices; a power of 2 from 8.", "N")
    replications: int = option(2, "Runs of each point.", "N")

    command = "sensitivity"
    shown_by = "sensitivity.told"
    doing = "sensitivity"

    def ask(self, scenario: Scenario, runs: Runs) -> SensitivityAnswer:
        from scenarios.measures import full_name
        from scenarios.questions.kept import key
        from scenarios.questions.sensitivity import Model, SampleBudget, inputs, sensitivity

        budget, seed = SampleBudget(self.trajectories, self.samples, self.replications), scenario.run.seed
        budget.check()
        given = texts(self.inputs, lambda ends: "..".join(map(str, ends)))
        metric = full_name(self.metric, scenario, runs.named("metric", "--metric"))
        model = Model(scenario, inputs(given, scenario), metric, self.replications, seed)
        asked = {"command": self.command, "scenario": key(scenario), "inputs": given, "seed": seed}
        with runs.bench(asked) as bench:
            return sensitivity(model, budget, bench, runs.audience)


def _hosts(now: Scenario) -> Mapping[str, str]:
    return {"": "-", **{host.name: host.name for host in now.cluster.hosts}}


def _ways_of_loss(_now: Scenario) -> Mapping[str, str]:
    return {"": "comes back", "spread": "is lost, others take over", "wait": "is lost, the job waits"}


@dataclass(frozen=True, kw_only=True)
class DryRun(OfScenario):
    """Tries a change of a running job: how long it pauses, lags and catches up, and which results come late or twice.

    Examples: `twin dry-run failover --rescale per-page=8 --at 100` ·
    `twin dry-run failover --fail worker-1 --set events=[]` ·
    `twin dry-run failover --migrate "per-page[0]=worker-3" --replications 10 --out answer` ·
    `twin dry-run checkpointed-shop --fail worker-3 --failover both --set events=[]` ·
    `twin dry-run clicks --rescale parallelism=12`
    """

    rescale: Mapping[str, int | Sequence[str]] | Sequence[str] | None = option(
        None,
        "Subtasks, their places (OPERATOR=HOST,HOST), or the job's (parallelism=N). Repeatable.",
        "OPERATOR=N",
        read=tuple,
        kind=list[str] | None,
        python="Numbers of subtasks, or their places, by operator, or of the job ('parallelism').",
    )
    migrate: Mapping[str, str] | Sequence[str] | None = option(
        None,
        "To a host or socket; OPERATOR[1]=HOST: one subtask.",
        "OPERATOR=HOST",
        read=tuple,
        kind=list[str] | None,
        python="Places by operator, or by subtask ('match[1]').",
    )
    fail: Sequence[str] = option((), "This host fails, and the job restarts.", "HOST")
    at_s: float | None = option(
        None, "Simulated time of the change. Default: a third of the run.", "S", "--at", parser=seconds
    )
    recover_after_s: float | None = option(
        None,
        "With --fail: seconds until the job is deployed again. Default: the engine's, mostly 10.",
        "S",
        "--recover-after",
        parser=seconds,
    )
    failover: Literal["region", "full", "both"] | None = option(
        None, "With --fail: what restarts; both: a comparison.", "region|full|both", read=str
    )
    lost: Literal["spread", "wait"] | None = option(
        None,
        "With --fail: the host stays lost; its subtasks spread over others, or the job waits.",
        "spread|wait",
        read=str,
    )
    replications: int = option(5, "Pairs of runs.", "N")

    command = "dry-run"
    shown_by = "dry_run.told"
    doing = "dry run"
    form = Form(
        "Try a change",
        4,
        {
            "fail": FormField("host fails", choices=_hosts),
            "lost": FormField("and", choices=_ways_of_loss),
            "rescale": FormField("rescale", about=lambda now: f"such as {now.query.topological[0].name}=4"),
            "migrate": FormField(
                "move", about=lambda now: f"such as {now.query.topological[0].name}={now.cluster.hosts[0].name}"
            ),
            "at": FormField("at", about="s"),
        },
    )

    def ask(self, scenario: Scenario, runs: Runs) -> DryRunAnswer:
        from scenarios.questions.bench import Wanted
        from scenarios.questions.dry_run import ChangeOptions, dry_run, finer, look, planned
        from scenarios.questions.kept import key

        Wanted(self.replications).check()
        given, seed = finer(scenario), scenario.run.seed
        rescales = texts(self.rescale, lambda to: str(to) if isinstance(to, int) else ",".join(to))
        options = (texts(self.migrate), self.fail, self.at_s, self.recover_after_s, self.failover, self.lost)
        change = planned(given, ChangeOptions(rescales, *options))
        asked = {"command": self.command, "case": key(change.scenario), "seed": seed}
        with runs.bench(asked, look(change.at_s)) as bench:
            return dry_run(bench, given, change, self.replications, seed, runs.audience)


QUESTIONS: tuple[type[Question], ...] = (
    WhatIf,
    Compare,
    ComparePolicies,
    FindCapacity,
    FindSensitivity,
    DryRun,
)
