"""Documents tell the truth: links lead somewhere, named files exist, and every `twin` command in them parses."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest
import typer

from optimizers.interface import Problem
from scenarios import cli
from scenarios.files import scenario_file
from twin.rates.model import RateModel

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "scenarios" / "demo" / "templates" / "report.html"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), REPORT])
COMMAND = typer.main.get_command(cli.app)


def commands(text: str) -> list[list[str]]:
    """The words of each line that is a `twin` command, comments and prompts apart."""
    lines = [line.strip().removeprefix("$ ") for line in text.splitlines()]
    lines = [line for line in lines if re.match(r"twin [a-z]", line) and not line.startswith("twin: ")]
    return [shlex.split(line, comments=True)[1:] for line in lines if "..." not in line]


def parse(words: list[str]) -> None:
    """Raises if the command line would refuse these words before running anything."""
    if ">" in words:
        words = words[: words.index(">")]
    command, context = COMMAND, COMMAND.make_context("twin", list(words), resilient_parsing=False)
    while hasattr(command, "commands"):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, list(rest), parent=context)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_files_exist(page):
    text = page.read_text(encoding="utf-8")
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("http")]
    for link in filter(None, links):
        assert (page.parent / link).exists(), link
    named = re.findall(r"`((?:twin|models|optimizers|scenarios|spark|figures|tests|benchmarks)/[\w/.-]+)`", text)
    for path in named:
        if "NAME" not in path:
            assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_parse(page):
    for words in commands(page.read_text(encoding="utf-8")):
        parse(words)


def test_a_wrong_command_would_be_noticed():
    with pytest.raises(Exception, match="No such option"):
        parse(["run", "smart-grid", "--sed", "1"])
    with pytest.raises(Exception, match="No such command"):
        parse(["import", "storm", "x"])


def test_there_are_commands_to_check():
    assert sum(len(commands(page.read_text(encoding="utf-8"))) for page in PAGES) > 25


def test_the_optimizer_of_the_guide_works(monkeypatch):
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    guide = ModuleType("guide")
    monkeypatch.setitem(sys.modules, "guide", guide)  # a dataclass looks its module up
    exec(compile(text.split("```python")[1].split("```")[0], "guide", "exec"), guide.__dict__)
    deployment = scenario_file.load("edge-filter").deployment
    solution = guide.FirstHost().solve(Problem(scenario=deployment, cost_model=RateModel()))
    assert set(solution.plan.placement.values()) == {("edge-1",)}
