"""Scenario files and `--set`: the library's, changed as data, as numbers alone, or as text."""

from __future__ import annotations

from pathlib import Path
from random import Random

import yaml

from benchmarks.fuzz.mutate import NUMBERS, WORDS, changed_data, changed_text, other_number
from benchmarks.fuzz.outcome import Outcome, of_command
from scenarios.files.registry import LIBRARY
from scenarios.files.yaml_text import parse_text

FILES = sorted(LIBRARY.glob("*.yaml"))
OPTIONS = ("--policy", "--horizon", "--precision", "--seed", "--set")


def scenario_case(random: Random, folder: Path) -> Outcome:
    """A file of the library, changed, and run."""
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
    """A name of the library, with up to three assignments and options that make no sense."""
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
