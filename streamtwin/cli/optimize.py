"""Command `twin optimize`: chooses where each operator of a job runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamtwin.cli.given import Events, ScenarioName, Set, known_optimizers, scenario_of
from streamtwin.cli.interruption import Interrupted, hearing
from streamtwin.cli.planning_options import PlanRules, Searching, say_blindness
from streamtwin.cli.profiling import Percentile
from streamtwin.cli.terminal import ScenarioSeed, Terminal

if TYPE_CHECKING:
    from optimizers.interface import Solution
    from optimizers.space import Space
    from scenarios.planning.planner import HostsChosen
    from twin.plan import ExecutionPlan
    from twin.scenario import Scenario

Profiled = Annotated[
    bool, typer.Option("--profiled", help="Profile the operators, plan with these profiles, then simulate.")
]
ProfileFile = Annotated[
    Path | None,
    typer.Option("--profile", metavar="FILE", help="Plan with the profiles that `twin profile` wrote, then simulate."),
]
PRICE, BUYER = "price", "milp-hosts"
"""Objective, and its optimizer unless another one is named: it chooses hosts and numbers of replicas."""
OutFile = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the scenario with its new plan.")]


def optimize(
    scenario: ScenarioName,
    searching: Searching,
    rules: PlanRules,
    terminal: Terminal,
    set_: Set = None,
    event: Events = None,
    optimizer: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="See `twin list`. Default: local-search.", autocompletion=known_optimizers),
    ] = None,
    model: Annotated[
        str,
        typer.Option("--cost-model", metavar="rates[:peak]|sim|learned|staged|MODEL_DIR", help="The cost model."),
    ] = "rates",
    profiled: Profiled = False,
    profile: ProfileFile = None,
    percentile: Percentile = None,
    out: OutFile = None,
    seed: ScenarioSeed = None,
) -> None:
    """Chooses where each operator runs; the result is a scenario file that runs.

    The scenario's own plan is a candidate, and is kept where nothing better is found. Ctrl-C ends the search with the
    best plan so far, which is printed and written; the exit status is then 130.

    Examples: `twin optimize smart-grid --out better.yaml`, then `twin run better.yaml` ·
    `twin optimize smart-grid --optimizer milp --cost-model learned` ·
    `twin optimize smart-grid --cost-model staged` ·
    `twin optimize rush-hour --cost-model rates:peak` ·
    `twin optimize smart-grid --optimizer costream --cost-model model` ·
    `twin optimize smart-grid --optimizer my_file.py:MyOptimizer` ·
    `twin optimize smart-grid --budget 5000 --prove 10` ·
    `twin optimize smart-grid --optimizer fusion` · `twin optimize smart-grid --optimizer fusion+milp` ·
    `twin optimize smart-grid --optimizer milp --objective e2e_latency_s` ·
    `twin optimize smart-grid --pin meters --allow parse=edge-1,edge-2 --replicas fixed` ·
    `twin optimize smart-grid --head-room 0.2 --at-most e2e_latency_s=2` ·
    `twin optimize edge-filter --objective price --head-room 0.1 --price edge-1=2` ·
    `twin optimize briskstream-wc --optimizer rlas --time-limit 10 --profiled`
    """
    from optimizers.registry import optimizer_by_name
    from optimizers.requirements import LATENCIES, price_of, priced, prices_h
    from scenarios.doubts import steepness
    from scenarios.files import scenario_file
    from scenarios.files.traces import check_free, write_text
    from scenarios.planning import planner
    from scenarios.planning.cost_models import cost_model
    from streamtwin.tables import chosen_plan
    from twin.metrics import Slow, Unsure
    from twin.rates.model import RateModel

    space, requirements = rules.space(), rules.requirements()
    check_free(out)
    loaded = scenario_of(scenario, set_, event, seed=seed)
    space.check(loaded)
    optimizer, objective = _buying(optimizer, searching.objective)
    objective = planner.objective_of([optimizer_by_name(optimizer)], objective)
    prices_h(loaded, requirements.prices)
    costs = cost_model(model)
    prove = planner.plans_to_simulate(costs, requirements, searching.prove or 0)
    blind = planner.blindness(loaded, [costs])
    say_blindness(terminal, loaded.name, blind)
    if other := planner.beyond(loaded, costs):
        terminal.note(f"note: cost model {costs.name} was trained on other {', '.join(other)}; it extrapolates")
    known = _as_profiled(loaded, terminal, profiled, profile, percentile)
    with terminal.search(objective) as report, hearing(terminal.note) as heard:
        solution = planner.optimize(
            loaded if known is None else known,
            optimizer,
            costs,
            objective=objective,
            budget=searching.budget,
            prove=prove,
            drive=searching.drive,
            seconds=searching.seconds,
            stopped=heard,
            report=report,
            space=space,
            requirements=requirements,
        )
    if solution.message:
        terminal.note(f"note: {solution.message}")
    if moved := chosen_plan.moved_ends(loaded.query, loaded.plan, solution.plan):
        terminal.note(f"note: {moved}")
    if out is not None:
        write_text(scenario_file.dump(loaded.with_plan(solution.plan)), out)
        terminal.note(f"scenario written to {out}; run it with: twin run {out}")
    count = solution.simulated
    judge = f"simulation of {count} plan{'s' * (count > 1)} found by {model}" if count else model
    outcome = None if known is None else planner.simulated(loaded, solution.plan, objective)
    told = _told(loaded, solution, optimizer, judge, objective, outcome)
    beside = planner.beside_runs(loaded if known is None else known, costs, solution, objective, outcome)
    if beside is not None:
        told += beside.told(chosen_plan.quantity(objective)(beside.predicted or 0.0))
    between = None if prove else planner.interval(loaded if known is None else known, costs, solution.plan, objective)
    if between is not None:
        low, high = map(chosen_plan.quantity(objective), between)
        told.append(
            f"by {optimizer}, nine runs of ten should be between {low} and {high}, by the model's errors on other runs"
        )
    elif not prove and isinstance(costs, Unsure) and (blind or other):
        told.append(f"how far off {model} may be is not known, as it has not learned from such jobs; --prove 5 tells")
    elif beside is None and isinstance(costs, RateModel) and objective in LATENCIES:
        steep = steepness(loaded.with_plan(solution.plan))
        told += [f"careful: the rate model does not know {words}; --prove 5 tells" for words in steep]
    price = before = None
    if priced(loaded, requirements.prices):
        price, before = (price_of(loaded, plan, requirements.prices) for plan in (solution.plan, loaded.plan))
    hosts = None
    if objective == PRICE or price is not None or requirements.head_room is not None:
        hosts = _hosts(loaded, solution.plan, space)
        told += chosen_plan.on_hosts(hosts, price, before)
    if (slots := planner.in_slots(loaded, solution.plan)) is not None:
        told.append(slots.words)
    given, plan = solution.given, solution.plan.model_dump(mode="json")
    answer = planner.PlanChosen(
        scenario=loaded.name,
        optimizer=optimizer,
        cost_model=judge,
        objective=objective,
        status=str(solution.status),
        predicted=solution.objective,
        keeps_up=solution.runs,
        as_required=solution.fulfils,
        given=None if given is None else planner.OtherPlan.of(given),
        simulated=outcome,
        **{name: getattr(solution, name) for name in planner.AS_SOLVED},
        plans_simulated=solution.evaluations if isinstance(costs, Slow) else solution.simulated,
        placement=plan["placement"],
        key_groups=plan["key_groups"],
        fused=solution.plan.fused,
        interval=between,
        blind_to=blind.get(costs.name, ()),
        interrupted=heard(),
        hosts=hosts,
        price=price,
        given_price=before,
        parallelism=None if slots is None else slots.parallelism,
        task_managers=None if slots is None else slots.task_managers,
        head_room=requirements.head_room,
        at_most=requirements.at_most,
        beside=beside,
        starts={name: planner.OtherPlan.of(each) for name, each in solution.starts.items()},
    )
    terminal.result(answer, *told)
    if heard():
        raise Interrupted("the plan is the best so far" + (f", in {out}" if out is not None else ""))


def _buying(optimizer: str | None, objective: str | None) -> tuple[str, str | None]:
    """Optimizer, and the objective to give it; None if it has its own. Raises BadInput if the lowest price is asked of
    an optimizer that cannot take it: only BUYER, and those that take any objective, can."""
    from optimizers.registry import DRIVEN
    from twin.errors import BadInput

    if objective != PRICE or optimizer in DRIVEN:
        return optimizer or "local-search", objective
    if optimizer not in (None, BUYER):
        raise BadInput(f"--objective {PRICE} is the goal of {BUYER}, not of {optimizer}; leave one of the two out")
    return BUYER, PRICE


def _as_profiled(
    loaded: Scenario, terminal: Terminal, profiled: bool, file: Path | None, percentile: float | None
) -> Scenario | None:
    """Job with the costs of its profiles; None if no profile was asked for, so that the job is planned as it is."""
    from streamtwin.connect import profiles
    from twin.errors import BadInput

    if profiled and file is not None:
        raise BadInput(f"--profiled measures anew and --profile {file} does not; give one of them")
    if not profiled and file is None:
        if percentile is not None:
            raise BadInput(f"--percentile {percentile:g} needs a profile; give --profiled or --profile FILE too")
        return None
    chosen = profiles.check_percentile(profiles.MEDIAN if percentile is None else percentile)
    if file is not None:
        return profiles.instantiate(loaded, profiles.load(file).operators, chosen)
    with terminal.progress("operators profiled") as report:
        found = profiles.profile(loaded.deployment, seed=loaded.run.seed, progress=report)
    return profiles.instantiate(loaded, found, chosen)


def _hosts(loaded: Scenario, plan: ExecutionPlan, space: Space) -> HostsChosen:
    """Hosts of a plan, and what it bears by the rate model; nothing of that where no limit is predicted."""
    from scenarios.planning.planner import HostsChosen
    from scenarios.questions.capacity import load_predicted

    used = plan.hosts(*plan.placement)
    pinned = [each.name for each in loaded.query.topological if each.pinned or each.name in space.pinned]
    load = load_predicted(loaded.with_plan(plan))
    bears = load.lasting if load.not_valid is None else None
    return HostsChosen(
        chosen=used,
        given=loaded.plan.hosts(*loaded.plan.placement),
        pinned=tuple(pinned) if {*used} == {*plan.hosts(*pinned)} else (),
        bears=0.0 if load.status == "never" else bears,
        binds=load.binds,
    )


def _told(
    loaded: Scenario,
    solution: Solution,
    optimizer: str,
    judge: str,
    objective: str,
    simulated: float | None,
) -> list[Any]:
    """Tables and sentences of the answer. simulated: the objective in a simulation of the job, if it was profiled."""
    from streamtwin.tables import chosen_plan

    told: list[Any] = [chosen_plan.placements(loaded.name, loaded.plan, solution, optimizer)]
    if solution.plan.fused:
        told.append(f"run as one: {'; '.join(' + '.join(group) for group in solution.plan.fused)}")
    told.append(chosen_plan.estimates(loaded.plan, solution, optimizer, judge, objective))
    words = chosen_plan.claim(solution)
    if simulated is not None:
        words += f"; simulated, by {optimizer}: {objective} = {chosen_plan.quantity(objective)(simulated)}"
    return [*told, words]
