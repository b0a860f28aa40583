"""Graphs of real runs, changed as text: imported, and what was imported is run."""

from __future__ import annotations

from pathlib import Path
from random import Random

from benchmarks.fuzz.mutate import changed_bytes, changed_text, other_number
from benchmarks.fuzz.outcome import RAN, Outcome, of_command
from tests.streamtwin.test_run_graph import HOSTS, JOINED, LINEAR


def graph_case(random: Random, folder: Path) -> Outcome:
    """Words, numbers or bytes of a graph changed."""
    text = "graph {\n" + random.choice((LINEAR, JOINED)) + HOSTS + "}\n"
    way = random.randrange(6)
    if way == 0:
        text = changed_text(text, random)
    elif way > 1:
        text = _other_numbers(text, random)
    content = text.encode("utf-8", "surrogatepass")
    path, imported = folder / "run.graph", folder / "run.yaml"
    path.write_bytes(changed_bytes(content, random) if way == 1 else content)
    outcome = of_command("import", "run-graph", str(path), "--out", str(imported))
    if outcome.kind != RAN:
        return outcome
    return of_command("run", str(imported), "--horizon", "20", "--set", "run.warmup_s=0")


def _other_numbers(text: str, random: Random) -> str:
    words = text.split('"')
    digits = [index for index, word in enumerate(words) if word.replace(".", "").isdigit()]
    for index in random.sample(digits, random.choice((1, 1, 2))):
        words[index] = f"{other_number(float(words[index]), random):.6g}"
    return '"'.join(words)
