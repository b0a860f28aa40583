"""Scenario cases: files of the library, changed as data, in their numbers alone, or as text; and `--set`.

Some runs are judged: conservation holds (every run checks it), they are the same to the last bit when Python looks
after each event, and the rate model predicts about the same throughput.
"""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

import yaml

from benchmarks.fuzz.mutate import NUMBERS, WORDS, changed_data, changed_text, other_number
from benchmarks.fuzz.outcome import ANNOUNCED, RAN, WRONG, Outcome, of_call, of_command
from scenarios.files import scenario_file
from scenarios.files.registry import LIBRARY
from scenarios.files.yaml_text import parse_text, to_text
from tests.twin.machine.runs import differences, looking_after_each_event, outcome
from twin.errors import BadInput
from twin.rates.model import RateModel
from twin.run import Run
from twin.scenario import Scenario

FILES = sorted(LIBRARY.glob("*.yaml"))
RUN = {"horizon_s": 8, "warmup_s": 2, "period_s": 2, "noise": False}
MOST_RECORDS = 100_000
"""Most records, at all operators of a run, of a case that is judged: looks after each event take some CPU seconds."""
ENOUGH, APART = 500, 1.5
"""Least number of results of a run whose throughput is judged, and the factor by which the rate model may be off."""
OPTIONS = ("--policy", "--horizon", "--precision", "--seed", "--set")


def scenario_case(random: Random, folder: Path) -> Outcome:
    """Runs a changed file of the library."""
    text, path = random.choice(FILES).read_text(encoding="utf-8"), folder / "s.yaml"
    way = random.randrange(5)
    if way == 0:
        path.write_text(changed_text(text, random), encoding="utf-8", errors="surrogatepass")
    else:
        data = parse_text(text, "library")
        assert isinstance(data, dict)
        data["run"] = {"horizon_s": 20, "warmup_s": 5, "period_s": 5} | data.get("run", {})
        data["run"] |= {"horizon_s": 20, "warmup_s": 5}
        if random.random() < 0.3:
            data["engine"] = random.choice(("brisk", "flink"))
        path.write_text(yaml.dump(changed_data(data, random, numbers_only=way < 3), sort_keys=False), encoding="utf-8")
    more = ["--policy", random.choice(("relieve", "ds2"))] if random.random() < 0.2 else []
    return of_command("run", str(path), *more)


def override_case(random: Random, _folder: Path) -> Outcome:
    """Runs a job of the library with up to two assignments and options that make no sense."""
    name = random.choice(FILES).stem
    assignments = [_assignment(name, random) for _ in range(random.choice((1, 1, 1, 2)))]
    more = [word for each in assignments for word in ("--set", each)]
    if random.random() < 0.15:
        more += [random.choice(OPTIONS), str(random.choice((*NUMBERS, *WORDS)))]
    return of_command("run", name, "--horizon", "15", *more)


def _assignment(name: str, random: Random) -> str:
    data = parse_text((LIBRARY / f"{name}.yaml").read_text(encoding="utf-8"), name)
    steps = []
    while isinstance(data, dict | list) and data and (not steps or random.random() < 0.95):
        key = random.choice(list(data) if isinstance(data, dict) else range(len(data)))
        data = data[key]
        steps.append(str(data["name"]) if isinstance(data, dict) and "name" in data else str(key))
    path = ".".join(steps)
    if random.random() < 0.1:
        path = changed_text(path, random)
    if isinstance(data, int | float) and random.random() < 0.8:
        return f"{path}={other_number(data, random)}"
    return f"{path}={random.choice((*NUMBERS, *WORDS))}"


def judged_case(random: Random, folder: Path) -> Outcome:
    """Runs a file of the library with up to four changed numbers, twice."""
    found: list[str] = []
    outcome = of_call(lambda: found.append(_judged(random, folder / "s.yaml")))
    if outcome.kind != RAN or not found[0]:
        return outcome
    return Outcome(ANNOUNCED if found[0] == ANNOUNCED else WRONG, found[0], outcome.cpu_s)


def _judged(random: Random, path: Path) -> str:
    """Words on what is wrong with a run; empty if nothing is."""
    data = parse_text(random.choice(FILES).read_text(encoding="utf-8"), "library")
    assert isinstance(data, dict)
    data["run"] = {**data.get("run", {}), **RUN, "seed": random.randrange(1000)}
    changed = changed_data({key: value for key, value in data.items() if key != "run"}, random, numbers_only=True)
    assert isinstance(changed, dict)
    path.write_text(to_text({**changed, "run": data["run"]}), encoding="utf-8")
    scenario = scenario_file.load(str(path))
    found = outcome(scenario)
    if found.run is not None and sum(row["numRecordsIn"] for row in found.run.operator_rows) > MOST_RECORDS:
        return ANNOUNCED
    with looking_after_each_event():
        if differing := differences(found, outcome(scenario)):
            return f"a run that is looked at differs in {differing[0]}"
    if found.run is None:
        raise BadInput(found.error)
    return _against_rates(scenario, found.run)


def _against_rates(scenario: Scenario, run: Run) -> str:
    model = RateModel()
    if scenario.events or scenario.policy or scenario.checkpoints or model.blind_to(scenario) or run.crashed:
        return ""
    said = float(model.predict(scenario, [scenario.plan])["throughput_per_s"][0])
    measured = run.metrics.throughput_per_s
    seconds = run.manifest["simulated_s"] - run.manifest["warmup_s"]
    if min(said, measured) * seconds < ENOUGH or abs(math.log(said / measured)) < math.log(APART):
        return ""
    return f"the rate model says {said:.4g} results a second, the run has {measured:.4g}"
