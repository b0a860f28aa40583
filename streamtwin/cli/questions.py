"""Commands `twin capacity` (limits of a job), `sensitivity` (inputs that matter) and `dry-run` (effect of a change)."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from streamtwin.cli.asking import AskingOne
from streamtwin.cli.given import Places, PolicyName, ScenarioName, places, seconds

WHAT = "A path such as workload.arrivals.clicks.rate_per_s, load (all sources), 'subtasks of OPERATOR', or hosts."


def capacity(
    scenario: ScenarioName,
    asking: AskingOne,
    find_max: Annotated[str | None, typer.Option(metavar="WHAT", help=WHAT)] = None,
    find_min: Annotated[
        str | None, typer.Option(metavar="WHAT", help="The same, for the smallest value that holds.")
    ] = None,
    while_: Annotated[
        str,
        typer.Option(
            "--while", metavar="CONDITION", help="Condition that must hold: metrics with < <= > >=, and, or, not."
        ),
    ] = "not backpressured",
    between: Annotated[
        str | None, typer.Option(metavar="LOW..HIGH", help="Range to search. Default: around the prediction.")
    ] = None,
    on: Places = None,
    policy: PolicyName = None,
    replications: Annotated[
        int | None, typer.Option(metavar="N", help="Runs at each value. Default: 4 to 10, for the precision.")
    ] = None,
    precision: Annotated[
        str, typer.Option(metavar="SHARE", help="Relative precision of the limit in each run.")
    ] = "1%",
    predict_only: Annotated[
        bool, typer.Option("--predict-only", help="Answer at once by the rate model, without a run.")
    ] = False,
    full_length: Annotated[
        bool, typer.Option("--full-length", help="Make runs as long as the scenario says, even if shorter ones do.")
    ] = False,
) -> None:
    """The largest rate that a job bears, or the fewest subtasks or hosts that it needs; and what binds.

    The rate model predicts the limit at once; exact runs prove it.

    Examples: `twin capacity edge-filter --find-max workload.arrivals.sensors.rate_per_s` ·
    `twin capacity smart-grid --find-max load --predict-only` ·
    `twin capacity rush-hour-scaling --find-min "subtasks of match" --set events=[]` ·
    `twin capacity smart-grid --find-min hosts --while "not backpressured and e2e_latency_s.p99 < 500ms"`
    """
    from scenarios.files.overrides import set_value
    from scenarios.questions import capacity as asked
    from scenarios.questions import single_run
    from scenarios.questions.condition import condition
    from scenarios.questions.knobs import knob
    from scenarios.questions.ranges import bounds, share
    from scenarios.questions.replications import Wanted
    from streamtwin.answers.capacity import predicted, told
    from twin.errors import BadInput

    if (find_max is None) == (find_min is None):
        raise BadInput("give either --find-max or --find-min, such as --find-max workload.arrivals.SOURCE.rate_per_s")
    loaded = asking.scenario(scenario, "capacity")
    if replications is not None:
        Wanted(replications).check()
    find: Literal["max", "min"] = "max" if find_min is None else "min"
    question = asked.CapacityQuestion(
        find,
        knob(find_max or find_min or "", f"--find-{find}", places(on)),
        condition(while_, loaded),
        None if between is None else bounds(between, "--between"),
        share(precision),
        replications,
        full_length,
    )
    job = loaded if policy is None else set_value(loaded, f"policy={policy}", "--policy")
    keyed = {"find": question.find, "of": question.knob.name, "while": while_, "on": on, "seed": loaded.run.seed}
    with asking.bench() as bench:
        question.range(job)
        asking.keep(bench, {"command": "capacity", "case": single_run.key(job), **keyed})
        said = lambda answer: asking.terminal.stage(predicted(answer))  # noqa: E731
        answer = asked.capacity(job, question, bench, loaded.run.seed, asking.terminal, said, not predict_only)
    asking.answered(answer, told)


def sensitivity(
    scenario: ScenarioName,
    asking: AskingOne,
    input_: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="PATH=LOW..HIGH", help="An input and its interval; LOW..HIGH:log. Repeatable."),
    ] = None,
    metric: Annotated[str, typer.Option(metavar="NAME", help="The metric to explain.")] = "e2e_latency_s",
    trajectories: Annotated[int, typer.Option(metavar="N", help="Runs of Morris' screening.")] = 10,
    samples: Annotated[int, typer.Option(metavar="N", help="Samples for Sobol's indices; a power of 2 from 8.")] = 64,
    replications: Annotated[int, typer.Option(metavar="N", help="Runs of each point.")] = 2,
) -> None:
    """Which inputs matter: screening (Morris), then how much of the variance each explains (Sobol); a tornado figure.

    Examples: `twin sensitivity rush-hour --input workload.arrivals.gates.rate_per_s=600..1200
    --input cluster.hosts.edge-2.cpu_percent=80..120 --input cluster.hosts.edge-2.latency_ms=5..50 --out answer`
    """
    loaded = asking.scenario(scenario, "sensitivity")
    from scenarios.questions import sensitivity as asked
    from scenarios.questions import single_run
    from scenarios.questions.measures import full_name
    from streamtwin.answers.sensitivity import told

    budget = asked.SampleBudget(trajectories, samples, replications)
    budget.check()
    inputs = asked.inputs(input_ or [], loaded)
    model = asked.Model(loaded, inputs, full_name(metric, loaded, "--metric"), replications, loaded.run.seed)
    question = {"command": "sensitivity", "scenario": single_run.key(loaded), "inputs": input_, "seed": loaded.run.seed}
    with asking.bench() as bench:
        asking.keep(bench, question)
        answer = asked.sensitivity(model, budget, bench, asking.terminal)
    asking.answered(answer, told)


def dry_run(
    scenario: ScenarioName,
    asking: AskingOne,
    rescale: Annotated[
        list[str] | None,
        typer.Option(metavar="OPERATOR=N", help="Subtasks, or their places: OPERATOR=HOST,HOST. Repeatable."),
    ] = None,
    migrate: Annotated[
        list[str] | None,
        typer.Option(metavar="OPERATOR=HOST", help="To a host or socket; OPERATOR[1]=HOST: one replica."),
    ] = None,
    fail: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="This host fails, and the job restarts.")
    ] = None,
    at: Annotated[
        float | None,
        typer.Option(metavar="S", parser=seconds, help="Simulated time of the change. Default: a third of the run."),
    ] = None,
    recover_after: Annotated[
        float | None,
        typer.Option(metavar="S", parser=seconds, help="With --fail: seconds until the job runs again. Default: 10."),
    ] = None,
    failover: Annotated[
        str | None, typer.Option(metavar="region|full|both", help="With --fail: what restarts; both: a comparison.")
    ] = None,
    lost: Annotated[
        str | None,
        typer.Option(
            metavar="spread|wait",
            help="With --fail: the host stays lost; its subtasks spread over others, or the job waits.",
        ),
    ] = None,
    replications: Annotated[int, typer.Option(metavar="N", help="Pairs of runs.")] = 5,
) -> None:
    """Tries a change of a running job: how long it pauses, lags and catches up, and which results come late or twice.

    Examples: `twin dry-run failover --rescale per-page=8 --at 100` ·
    `twin dry-run failover --fail worker-1 --set events=[]` ·
    `twin dry-run failover --migrate "per-page[0]=worker-3" --replications 10 --out answer` ·
    `twin dry-run checkpointed-shop --fail worker-3 --failover both --set events=[]`
    """
    from scenarios.questions import dry_run as asked
    from scenarios.questions import single_run
    from scenarios.questions.change_options import ChangeOptions, planned
    from scenarios.questions.replications import Wanted
    from streamtwin.answers.dry_run import told

    Wanted(replications).check()
    given = asked.finer(asking.scenario(scenario, "dry run"))
    change = planned(given, ChangeOptions(rescale or (), migrate or (), fail or (), at, recover_after, failover, lost))
    case = {"command": "dry-run", "case": single_run.key(change.scenario), "seed": given.run.seed}
    with asking.bench(asked.look(change.at_s)) as bench:
        asking.keep(bench, case)
        answer = asked.dry_run(bench, given, change, replications, given.run.seed, asking.terminal)
    asking.answered(answer, told)
