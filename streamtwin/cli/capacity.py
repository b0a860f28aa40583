"""`twin capacity`: how much load a job bears, or how little it needs, while a condition holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from streamtwin.cli.asking import AskingOne
from streamtwin.cli.given import PolicyName, ScenarioName

if TYPE_CHECKING:
    from scenarios.questions.knobs import Knob

WHAT = "A path such as workload.arrivals.clicks.rate_per_s, load (all sources), 'replicas of OPERATOR', or hosts."


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
    on: Annotated[
        str | None, typer.Option(metavar="HOST,...", help="Hosts that replicas take in turn. Default: as now.")
    ] = None,
    policy: PolicyName = None,
    replications: Annotated[
        int | None, typer.Option(metavar="N", help="Runs at each value. Default: 3 to 10, for the precision.")
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
    """The largest rate that a job bears, or the fewest replicas or hosts that it needs; and what binds.

    The rate model predicts the limit at once; exact runs prove it.

    Examples: `twin capacity edge-filter --find-max workload.arrivals.sensors.rate_per_s` ·
    `twin capacity smart-grid --find-max load --predict-only` ·
    `twin capacity rush-hour-scaling --find-min "replicas of match" --on worker-1,worker-2` ·
    `twin capacity smart-grid --find-min hosts --while "not backpressured and e2e_latency_s.p99 < 500ms"`
    """
    from scenarios.files.overrides import set_value
    from scenarios.questions import capacity as asked
    from scenarios.questions import single_run
    from scenarios.questions.condition import condition
    from scenarios.questions.ranges import bounds, share
    from scenarios.questions.replications import Wanted
    from streamtwin.answers.capacity import predicted, told
    from twin.errors import BadInput

    if (find_max is None) == (find_min is None):
        raise BadInput("give either --find-max or --find-min, such as --find-max workload.arrivals.SOURCE.rate_per_s")
    loaded = asking.scenario(scenario, "capacity")
    if replications is not None:
        Wanted(replications).check()
    question = asked.CapacityQuestion(
        "max" if find_min is None else "min",
        _knob(find_max or find_min or "", "--find-max" if find_min is None else "--find-min", on),
        condition(while_, loaded),
        None if between is None else bounds(between, "--between"),
        share(precision),
        replications,
        full_length,
    )
    job = loaded if policy is None else set_value(loaded, f"policy={policy}", "--policy")
    keyed = {"find": question.find, "of": question.knob.name, "while": while_, "on": on, "seed": loaded.run.seed}
    with asking.bench() as bench:
        bench.check(job)
        question.range(job)
        asking.keep(bench, {"command": "capacity", "case": single_run.key(job), **keyed})
        said = lambda answer: asking.terminal.stage(predicted(answer))  # noqa: E731
        answer = asked.capacity(job, question, bench, loaded.run.seed, asking.terminal, said, not predict_only)
    asking.answered(answer, told)


def _knob(name: str, flag: str, on: str | None) -> Knob:
    from scenarios.questions.hosts_knob import HOSTS, HostsKnob
    from scenarios.questions.knobs import REPLICAS, knob
    from twin.errors import BadInput

    places = [place.strip() for place in (on or "").split(",") if place.strip()]
    if on is not None and not (places and name.startswith(REPLICAS)):
        raise BadInput(f"--on {on}: names places for replicas; it goes with {flag} 'replicas of OPERATOR'")
    return HostsKnob(flag) if name == HOSTS else knob(name, flag, places)
