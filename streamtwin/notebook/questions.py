"""Questions of the command line in Python. Each returns an `Answer` with the result type of its command.

All take `seed` (default: the scenario's own); `workers`, the number of processes (with more than one, a script needs
`if __name__ == "__main__":`); `master`, a Spark master that makes the runs instead; and `audience`, which gets reports
of the progress. All raise BadInput for questions that cannot be answered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

from scenarios.executing.processes import executor
from scenarios.executing.progress import Audience, Lines
from scenarios.files.scenario_file import load
from scenarios.questions import capacity as of_capacity
from scenarios.questions import dry_run as of_change
from scenarios.questions import policies_compared
from scenarios.questions import sensitivity as of_inputs
from scenarios.questions import whatif as of_variants
from scenarios.questions.bench import Bench, Of, outcome
from scenarios.questions.change_options import ChangeOptions, planned
from scenarios.questions.condition import condition
from scenarios.questions.control_measures import judge
from scenarios.questions.knobs import knob
from scenarios.questions.measures import USUAL, full_name, full_names
from scenarios.questions.replications import Wanted
from scenarios.questions.variants import Variant, VariantsQuestion, as_variants, variants
from streamtwin.answers.registry import ANSWERS
from streamtwin.notebook.shown import Answer
from twin.control import PolicySpec
from twin.errors import BadInput
from twin.scenario import Scenario

Knobs = Mapping[str, Sequence[Any] | str]
"""Values of knobs by path or 'subtasks of OPERATOR'; a text is read as on the command line ("1k..50k:10")."""
SILENT = Lines(lambda _text: None)


class Runs(NamedTuple):
    """Arguments of all questions that decide where runs are made, and who gets reports."""

    workers: int
    master: str | None
    audience: Audience

    @contextmanager
    def bench(self, of: Of = outcome) -> Iterator[Bench]:
        """Context with a bench."""
        made_by = executor(self.workers if self.master is None else None, self.master, self.audience.stage)
        with Bench(made_by, of) as bench:
            yield bench


def whatif(
    scenario: Scenario | str,
    vary: Knobs | None = None,
    *,
    plans: Sequence[str] = (),
    policies: Sequence[str] = (),
    events: Sequence[str] = (),
    on: Sequence[str] = (),
    metrics: Sequence[str] = USUAL,
    replications: int = 10,
    precision: float | None = None,
    seed: int | None = None,
    workers: int = 1,
    master: str | None = None,
    audience: Audience = SILENT,
) -> Answer:
    """Compares variants of a scenario, all combinations of the given values, with the scenario itself: `twin whatif`.

    plans: files. policies: names. events: events in YAML. on: hosts that all subtasks take in turn, where their number
    is varied; without, those there stay, and others go where the engine puts them. precision: runs are added until half
    of each interval is this share of its mean.
    """
    given = _given(scenario, seed)
    knobs = [
        f"{path}={values if isinstance(values, str) else _listed(values)}" for path, values in (vary or {}).items()
    ]
    cases = variants(given, VariantsQuestion(knobs, plans, policies, events, on))
    wanted = Wanted(replications, precision)
    return _compared("whatif", cases, metrics, wanted, given.run.seed, Runs(workers, master, audience))


def compare(
    scenarios: Mapping[str, Scenario],
    *,
    metrics: Sequence[str] = USUAL,
    replications: int = 10,
    precision: float | None = None,
    seed: int | None = None,
    workers: int = 1,
    master: str | None = None,
    audience: Audience = SILENT,
) -> Answer:
    """Compares scenarios, such as one under several plans, with the first, on the same random numbers: `twin compare`.

    scenarios: by label. precision: as in `whatif`. Raises BadInput for fewer than two, equal ones, or no labels.
    """
    if not isinstance(scenarios, Mapping):
        raise BadInput("compare: scenarios without labels; give them as {'as given': one, 'better': another}")
    cases = as_variants([Variant(label, scenario) for label, scenario in scenarios.items()])
    wanted = Wanted(replications, precision)
    first = cases[0].scenario.run.seed if seed is None else seed
    return _compared("compare", cases, metrics, wanted, first, Runs(workers, master, audience))


def compare_policies(
    scenario: Scenario | str,
    policies: Sequence[str | PolicySpec | Mapping[str, Any]],
    *,
    slo_s: float | None = None,
    replications: int = 5,
    seed: int | None = None,
    workers: int = 1,
    master: str | None = None,
    audience: Audience = SILENT,
) -> Answer:
    """Compares policies on the same load with the first one: `twin compare-policies`.

    policies: names ("none" among them, if wanted), or options with a name: {"name": "ds2", "margin": 0.1}. slo_s: the
    end-to-end latency in seconds that 99 % of results should keep. Raises BadInput for fewer than two, or unknown ones.
    """
    given, wanted = _given(scenario, seed), Wanted(replications)
    wanted.check()
    cases = policies_compared.variants(given, [_policy(each) for each in policies])
    with Runs(workers, master, audience).bench(judge(slo_s)) as bench:
        return _told(
            "compare-policies", policies_compared.compared(bench, cases, slo_s, wanted, given.run.seed, audience)
        )


def capacity(
    scenario: Scenario | str,
    find_max: str | None = None,
    *,
    find_min: str | None = None,
    while_: str = "not backpressured",
    between: tuple[float, float] | None = None,
    on: Sequence[str] = (),
    policy: str | None = None,
    replications: int | None = None,
    precision: float = 0.01,
    prove: bool = True,
    full_length: bool = False,
    seed: int | None = None,
    workers: int = 1,
    master: str | None = None,
    audience: Audience = SILENT,
) -> Answer:
    """Finds the largest or smallest value at which a condition holds, and what binds there: `twin capacity`.

    find_max, find_min: one of the two: a path such as `workload.arrivals.clicks.rate_per_s`, `load`, `subtasks of
    OPERATOR`, or `hosts`. between: the lowest and highest value. on: as in `whatif`. precision: of the limit of each
    run, as a share. replications: None: 4, or up to 10 for the precision. prove: by runs; if false, the rate model's
    prediction is the answer. full_length: whether all runs have the scenario's length.
    """
    if (find_max is None) == (find_min is None):
        raise BadInput("capacity: give either find_max or find_min, such as 'workload.arrivals.SOURCE.rate_per_s'")
    find: Literal["max", "min"] = "min" if find_max is None else "max"
    given, flag, what = _given(scenario, seed), f"find_{find}", find_max or find_min or ""
    if replications is not None:
        Wanted(replications).check()
    ends = None if between is None else (float(between[0]), float(between[1]))
    question = of_capacity.CapacityQuestion(
        find, knob(what, flag, on), condition(while_, given, "while_"), ends, precision, replications, full_length
    )
    job = given if policy is None else given.with_policy(policy)
    question.range(job)
    with Runs(workers, master, audience).bench() as bench:
        answer = of_capacity.capacity(job, question, bench, given.run.seed, audience, prove=prove)
        return _told("capacity", answer)


def dry_run(
    scenario: Scenario | str,
    *,
    rescale: Mapping[str, int | Sequence[str]] | None = None,
    migrate: Mapping[str, str] | None = None,
    fail: Sequence[str] = (),
    at_s: float | None = None,
    recover_after_s: float | None = None,
    failover: Literal["region", "full", "both"] | None = None,
    lost: Literal["spread", "wait"] | None = None,
    replications: int = 5,
    seed: int | None = None,
    workers: int = 1,
    master: str | None = None,
    audience: Audience = SILENT,
) -> Answer:
    """Tries a change of a running job: its pauses, its backlog, and the time to catch up: `twin dry-run`.

    rescale: replicas, or their hosts, by operator; migrate: hosts by operator, or by replica ("match[1]"); fail: hosts
    that die. at_s: time of the change, in simulated seconds; None: after a third of the run. recover_after_s: seconds
    from a failure until the job runs again; None: 10. failover: the part that a failure restarts, or both ways for a
    comparison. lost: the failed hosts stay away, and other hosts take their subtasks, or the job waits. Raises BadInput
    for impossible changes.
    """
    Wanted(replications).check()
    given = of_change.finer(_given(scenario, seed))
    counts = ((name, [str(to)] if isinstance(to, int) else to) for name, to in (rescale or {}).items())
    rescales = [f"{name}={','.join(to)}" for name, to in counts]
    moves = [f"{name}={to}" for name, to in (migrate or {}).items()]
    change = planned(given, ChangeOptions(rescales, moves, fail, at_s, recover_after_s, failover, lost))
    with Runs(workers, master, audience).bench(of_change.look(change.at_s)) as bench:
        return _told("dry-run", of_change.dry_run(bench, given, change, replications, given.run.seed, audience))


def sensitivity(
    scenario: Scenario | str,
    inputs: Mapping[str, tuple[float, float] | str],
    *,
    metric: str = "e2e_latency_s",
    trajectories: int = 10,
    samples: int = 64,
    replications: int = 2,
    seed: int | None = None,
    workers: int = 1,
    master: str | None = None,
    audience: Audience = SILENT,
) -> Answer:
    """Finds the inputs that matter for a metric, and the shares of its variance that they explain: `twin sensitivity`.

    inputs: two or more intervals by path, as (low, high) or as on the command line ("50..200:log"). trajectories: of
    Morris' screening. samples: for Sobol's indices, a power of 2. replications: runs of each point.
    """
    given, budget = _given(scenario, seed), of_inputs.SampleBudget(trajectories, samples, replications)
    budget.check()
    texts = [f"{path}={ends if isinstance(ends, str) else '..'.join(map(str, ends))}" for path, ends in inputs.items()]
    model = of_inputs.Model(
        given, of_inputs.inputs(texts, given), full_name(metric, given, "metric"), replications, given.run.seed
    )
    with Runs(workers, master, audience).bench() as bench:
        return _told("sensitivity", of_inputs.sensitivity(model, budget, bench, audience))


def _given(scenario: Scenario | str, seed: int | None) -> Scenario:
    given = load(scenario) if isinstance(scenario, str) else scenario
    return given if seed is None else given.with_run(seed=seed)


def _compared(
    command: str, cases: Sequence[Variant], metrics: Sequence[str], wanted: Wanted, seed: int, runs: Runs
) -> Answer:
    wanted.check()
    asked = full_names(metrics, (case.scenario for case in cases), "metrics")
    with runs.bench() as bench:
        return _told(command, of_variants.compared(bench, cases, asked, wanted, seed, runs.audience))


def _told(command: str, result: Any) -> Answer:
    return Answer(result, ANSWERS[command].told(result))


def _policy(policy: str | PolicySpec | Mapping[str, Any]) -> str:
    """Policy as text of the command line."""
    if isinstance(policy, str):
        return policy
    return json.dumps(policy.model_dump(mode="json") if isinstance(policy, PolicySpec) else dict(policy))


def _listed(values: Sequence[Any]) -> str:
    """Values as a list of the command line."""
    return ",".join(json.dumps(value) for value in values)
