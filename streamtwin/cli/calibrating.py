"""Commands `twin calibrate`, which fits an engine's constants to measured points, and `twin use-profile`, which puts
them into a scenario."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from streamtwin.cli.terminal import NewYaml, ScenarioName, Set, Terminal, scenario_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scenarios.calibration.calibrate import Calibration, Prediction
    from scenarios.calibration.profile_file import CalibratedProfile, NextPoint
    from streamtwin.tables.tables import Wide

By = Literal["operator", "kind", "function"]
Machine = Annotated[
    str | None, typer.Option("--machine", metavar="NAME", help="Use only the readings of this machine.")
]


def calibrate(
    scenario: ScenarioName,
    points: Annotated[
        Path, typer.Argument(metavar="POINTS", help="A table (CSV, YAML, Parquet) of readings, or a folder of runs.")
    ],
    out: Annotated[Path | None, typer.Option(metavar="PROFILE", help="Write the profile (YAML).")] = None,
    by: Annotated[By | None, typer.Option(help="Fit a cost for each of these. Default: what explains most.")] = None,
    machine: Machine = None,
    set_: Set = None,
    *,
    terminal: Terminal,
) -> None:
    """Fits an engine's constants to measured operating points: busy times, host CPU, rates, latencies; any of these.

    A row is of a `point` and an `operator` (offered_per_s, in_per_s, out_per_s, marker_s, busy, backpressured; shares
    from 0 to 1), a `host` (cpu), or neither (latency_s). Columns with dots set a value of the scenario at that point.

    Examples: `twin calibrate job.yaml points.csv --out measured.yaml`, then
    `twin use-profile job.yaml measured.yaml --out calibrated.yaml` · `twin calibrate smart-grid runs --by kind`
    """
    from scenarios.calibration import profile_file, structures
    from scenarios.calibration.calibrate import calibrate as fitted
    from scenarios.calibration.points import read_points
    from scenarios.calibration.profile_file import LEARN_FROM, held_out
    from scenarios.files.run_folder import check_file, write_text
    from twin.errors import BadInput

    check_file(out)
    loaded = scenario_of(scenario, set_)
    read = read_points(points, loaded)
    if machine is not None:
        known = {point.machine for point in read}
        read = [point for point in read if point.machine == machine]
        if not read:
            raise BadInput(f"no point is of machine {machine!r}; there are {', '.join(sorted(known)) or 'none'}")
    with terminal.progress("evaluations") as report:
        fit = fitted(read, by, report)
    with terminal.progress("folds held out") as report:
        judged = held_out(read, fit, report)
    for point in read:
        for source, words in point.capped.items():
            terminal.note(
                f"point {point.name}: {source} {words}; its offer is unknown, so this is the most it can take"
            )
    for host in structures.untold(read):
        terminal.note(
            f"host {host}: its points are at about one rate, so what is used of it without records counts as costs; "
            "one more, at half or twice the rate, would tell"
        )
    for host, each in structures.faint(read).items():
        terminal.note(
            f"host {host}: records use {each.records:.2f} cores at most, and the engine {each.base:.2f} without any, "
            f"so costs are uncertain; measure a point at {each.factor:.2g} times the highest load, or more"
        )
    for odd in fit.odd:
        terminal.note(f"contradicts the other points: {odd}")
    profile = profile_file.profile_of(loaded, fit, judged, read, read[0].machine)
    best = profile_file.tells_most(profile, loaded)
    if out is not None:
        write_text(profile_file.dump(profile), out)
        terminal.note(f"profile written to {out}; use it with: twin use-profile {scenario} {out} --out NEW.yaml")
    if len(read) >= LEARN_FROM:
        terminal.note(
            f"{len(read)} points are enough to learn what the rate model misses: twin train ROWS OUT --from learned "
            "--profile PROFILE"
        )
    document = {
        **profile.model_dump(mode="json"),
        "contradictions": list(fit.odd),
        "tried": _tried(fit),
        "tells_most": None if best is None else best.model_dump(mode="json"),
    }
    terminal.result(document, *_tables(profile, fit), _verdict(profile, fit), _next(best))


def use_profile(
    scenario: ScenarioName,
    profile: Annotated[Path, typer.Argument(metavar="PROFILE", help="Written by `twin calibrate --out`.")],
    out: NewYaml = None,
    machine: Annotated[str | None, typer.Option(metavar="NAME", help="Refuse a profile of another machine.")] = None,
    costs: Annotated[Literal["low", "high"] | None, typer.Option(help="Take an end of the costs' intervals.")] = None,
    set_: Set = None,
    *,
    terminal: Terminal,
) -> None:
    """A scenario with the constants of a calibrated profile, to be used with every other command.

    Under `--costs low` and `--costs high` other commands answer at both ends of the interval.

    Example: `twin use-profile job.yaml measured.yaml --out calibrated.yaml`, then `twin run calibrated.yaml`
    """
    from scenarios.calibration import profile_file
    from scenarios.files import scenario_file
    from scenarios.files.run_folder import check_file
    from twin.errors import BadInput

    check_file(out)
    loaded = profile_file.load(profile)
    if loaded.machine and machine is None:
        terminal.note(f"note: the profile was fitted on machine {loaded.machine!r}; it says nothing of others")
    given = scenario_of(scenario, set_)
    calibrated = profile_file.applied(loaded, given, machine)
    if costs is not None:
        if not loaded.intervals.load:
            raise BadInput(f"{profile} has no intervals for --costs {costs}; calibrate on more points")
        calibrated = profile_file.ends(loaded, given)[costs == "high"]
    said = profile_file.predictions(loaded, given)
    if not loaded.saturated:
        terminal.note(
            "note: no source was slowed at any point, so what the job bears follows from costs alone, without an "
            "interval; one point at a rate that it does not bear would tell"
        )
    document = {
        "scenario": calibrated.model_dump(mode="json"),
        "predictions": [each.model_dump(mode="json") for each in said],
    }
    words = f"scenario in {out}; run it with: twin run {out}"
    terminal.file(scenario_file.dump(calibrated), out, document, _predicted(said), words)


def _tried(fit: Calibration) -> list[dict[str, Any]]:
    return [
        {"structure": attempt.structure.words, "residual": attempt.residual, "criterion": attempt.criterion}
        for attempt in fit.tried
    ]


def _tables(profile: CalibratedProfile, fit: Calibration) -> list[Wide]:
    from streamtwin.tables import tables

    constants = tables.of_rows(
        "constants",
        {
            "name": "constant",
            "unit": "unit",
            "prior": "before",
            "value": "found",
            "interval": "95 % interval",
            "halved": "error x if halved",
            "doubled": "if doubled",
            "known": "",
        },
        (
            {
                **estimate.model_dump(),
                "interval": f"{tables.number(estimate.low)} to {tables.number(estimate.high)}",
                "known": "" if estimate.known else "not identifiable from these points",
            }
            for estimate in profile.estimates
        ),
    )
    tried = ({**row, "residual": f"{row['residual']:.1%}"} for row in _tried(fit))
    explains = {"structure": "structure", "residual": "residual"}
    structure = tables.of_rows("what explains the CPU time", explains, tried)
    structures, within = [structure] * bool(fit.tried), [_within(profile)] * bool(profile.intervals.load)
    return [constants, *structures, _judged(profile), *within]


def _within(profile: CalibratedProfile) -> Wide:
    from streamtwin.tables import tables

    rows = [
        {"of": of, "factor": f"{reach.factor:.3g}", "readings": reach.readings}
        for found in (profile.intervals.load, profile.intervals.beyond)
        for of, reach in found.items()
    ]
    title = "90 % of readings held out are within a factor of the load, by cost, and then of what is read"
    return tables.of_rows(title, {"of": "of", "factor": "factor", "readings": "readings"}, rows)


def _predicted(rows: Sequence[Prediction]) -> Wide:
    from streamtwin.tables import tables

    units = {"bears": "x the offer", "latency": "s", "markers": "s"}
    columns = {"kind": "predicted", "of": "of", "unit": "", "predicted": "value", "low": "90 %: from", "high": "to"}
    return tables.of_rows(
        "predicted by the rate model, with 90 % intervals from points held out",
        columns,
        (
            {
                "kind": row.kind,
                "of": row.of,
                "unit": units.get(row.kind, "share"),
                **{
                    key: "-" if (value := getattr(row, key)) is None else tables.number(value)
                    for key in ("predicted", "low", "high")
                },
            }
            for row in rows
        ),
    )


def _judged(profile: CalibratedProfile) -> Wide:
    from streamtwin.tables import tables

    columns = {
        "predictor": "points held out",
        "keeps_up": "keeps up, right",
        "delivered": "delivered q50",
        "delivered_p95": "q95",
        "slowed": "slowed q50",
        "cpu": "cpu",
        "cpu_max": "max",
        "busy": "busy",
        "busy_max": "max ",
        "latency": "latency q50",
        "latency_p95": "q95 ",
        "markers": "markers q50",
        "markers_p95": " q95",
    }
    shares = ("keeps_up", "cpu", "cpu_max", "busy", "busy_max")
    rows = []
    for predictor in profile.held_out:
        row = predictor.model_dump()
        rows.append({**row, **{key: f"{row[key]:.1%}" for key in shares if row[key] is not None}})
    return tables.of_rows("predictions of points held out, beside predictors that need no model", columns, rows)


def _next(best: NextPoint | None) -> str:
    if best is None:
        return "no interval: too few points to hold one out; one more point, at any other rate, would tell most"
    ranges = ", ".join(f"{each.kind} {each.of} {each.low:.3g} to {each.high:.3g}" for each in best.predictions)
    where = f"at {best.load:.3g} times the scenario's rates"
    return f"one more point would tell most {where}, where predictions are widest: {ranges}"


def _verdict(profile: CalibratedProfile, fit: Calibration) -> str:
    from scenarios.calibration.structures import SOUND

    if not profile.estimates:
        return f"no constant was fitted: none of these {profile.points} points has a busy time or CPU at a known rate"
    known = sum(estimate.known for estimate in profile.estimates)
    text = f"{known} of {len(profile.estimates)} constants identified from {profile.points} points"
    if profile.residual is None:
        return f"{text}; no CPU time was measured, so only points held out can judge the fit"
    if profile.residual <= SOUND:
        return f"{text}; {profile.residual:.1%} of the CPU time is unexplained"
    why = "subtasks wait while they are busy, as for a store or a lock" if fit.tried[0].waits else "others take CPU too"
    return f"{text}; {profile.residual:.0%} of the CPU time is unexplained: {why}"
