"""`twin capacity`: how much a job bears, or how little it needs, while a condition holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from streamtwin.cli import asking
from streamtwin.cli.asking import Master, OutFolder, Workers
from streamtwin.cli.given import ScenarioName, Set
from streamtwin.cli.terminal import AsJson, Quiet, ScenarioSeed, Terminal

if TYPE_CHECKING:
    from scenarios.questions.knobs import Knob

WHAT = "A path such as workload.arrivals.clicks.rate_per_s, 'replicas of OPERATOR', or hosts."


def register(app: typer.Typer) -> None:
    """Adds the command of this file."""
    app.command("capacity", rich_help_panel="Questions")(capacity)


def capacity(
    scenario: ScenarioName,
    find_max: Annotated[str | None, typer.Option("--find-max", metavar="WHAT", help=WHAT)] = None,
    find_min: Annotated[
        str | None, typer.Option("--find-min", metavar="WHAT", help="The same, for the smallest value.")
    ] = None,
    while_: Annotated[
        str,
        typer.Option("--while", metavar="CONDITION", help="What must hold: metrics with < <= > >=, and, or, not."),
    ] = "not backpressured",
    between: Annotated[
        str | None,
        typer.Option("--between", metavar="LOW..HIGH", help="Where to look. Default: doubling from the given value."),
    ] = None,
    on: Annotated[
        str | None, typer.Option("--on", metavar="HOST,...", help="Hosts of the replicas, in turn. Default: as now.")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option("--policy", metavar="NAME", help="A policy that reconfigures the job; see `twin list`."),
    ] = None,
    set_: Set = None,
    replications: Annotated[int, typer.Option("--replications", metavar="N", help="Runs at each value.")] = 10,
    precision: Annotated[
        str, typer.Option("--precision", metavar="SHARE", help="How precisely the limit of each run is found.")
    ] = "1%",
    out: OutFolder = None,
    workers: Workers = None,
    master: Master = None,
    seed: ScenarioSeed = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """The largest rate that a job bears, or the fewest replicas or hosts that it needs; and what binds.

    Examples: `twin capacity edge-filter --find-max workload.arrivals.sensors.rate_per_s` ·
    `twin capacity rush-hour-scaling --find-min "replicas of match" --on worker-1,worker-2` ·
    `twin capacity smart-grid --find-min hosts --while "not backpressured and e2e_latency_s.p99 < 2"`
    """
    terminal = Terminal(as_json=as_json, quiet=quiet)
    terminal.stage(f"capacity: reading {scenario}")
    from scenarios.files.overrides import set_value
    from scenarios.questions import capacity as asked
    from scenarios.questions import folder, single_run
    from scenarios.questions.condition import condition
    from scenarios.questions.ranges import bounds, share
    from streamtwin.answers.capacity import told
    from twin.errors import BadInput

    if (find_max is None) == (find_min is None):
        raise BadInput("give either --find-max or --find-min, such as --find-max workload.arrivals.SOURCE.rate_per_s")
    loaded = asking.adjusted(scenario, set_, seed)
    asking.wanted(replications, None)
    find = "max" if find_max is not None else "min"
    question = asked.Question(
        "max" if find == "max" else "min",
        _knob(find_max or find_min or "", f"--find-{find}", on),
        condition(while_, loaded),
        None if between is None else bounds(between, "--between"),
        share(precision),
        replications,
    )
    job = loaded if policy is None else set_value(loaded, f"policy={policy}", "--policy")
    keyed = {"find": find, "of": question.knob.name, "while": while_, "on": on, "seed": loaded.run.seed}
    with asking.keeping(out), asking.bench(terminal, workers, master) as bench:
        bench.check(job)
        question.range(job)
        bench.kept = folder.opened(out, {"command": "capacity", "case": single_run.key(job), **keyed})
        answer = asked.capacity(job, question, bench, loaded.run.seed, terminal)
    asking.answered(terminal, answer, told(answer), out)


def _knob(name: str, flag: str, on: str | None) -> Knob:
    from scenarios.questions.hosts_knob import HOSTS, HostsKnob
    from scenarios.questions.knobs import REPLICAS, knob
    from twin.errors import BadInput

    places = [each.strip() for each in (on or "").split(",") if each.strip()]
    if on is not None and not (places and name.startswith(REPLICAS)):
        raise BadInput(f"--on {on}: names places for replicas; it goes with {flag} 'replicas of OPERATOR'")
    return HostsKnob(flag) if name == HOSTS else knob(name, flag, places)
