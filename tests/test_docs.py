"""Tests of documents: links lead somewhere, named files exist, and every `twin` command in them parses."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
from functools import cache
from pathlib import Path

import pytest
import typer

from streamtwin.cli import app as cli
from twin.kinds.operator import OperatorBase

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "streamtwin" / "demo" / "templates" / "report.html"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), REPORT])
FILES = {path.name for top in ROOT.iterdir() if not top.name.startswith(".") for path in top.rglob("*.py")}
COMMAND = typer.main.get_command(cli.app)


def commands(text: str) -> list[list[str]]:
    """Words of each line that is a `twin` command, without comments and prompts."""
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
    named = re.findall(
        r"`((?:twin|models|optimizers|scenarios|streamtwin|papers|spark|figures|tests|benchmarks)/[\w/.-]+)`", text
    )
    for path in named:
        if "NAME" not in path:
            assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_and_bare_file_names_exist(page):
    text = page.read_text(encoding="utf-8")
    for module in re.findall(r"python -m ((?:benchmarks|twin|streamtwin)[\w.]*)", text):
        path = ROOT / module.rstrip(".").replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module
    for name in re.findall(r"`(\w+\.py)`", text):
        assert name in FILES, name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_python_on_a_page_imports_is_there(page):
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        for node in ast.parse(block).body:
            if isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__":
                module = importlib.import_module(node.module)
                assert all(hasattr(module, name.name) for name in node.names), ast.unparse(node)


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


@cache
def defined(path: Path) -> set[str]:
    """Names of everything that a file defines: classes, functions, methods, fields, constants."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {each.id for each in targets if isinstance(each, ast.Name)}
    return found


def wrong_names(text: str) -> set[str]:
    """Names in a guide that nothing has, and `name path` pairs of which the file does not define the name."""
    sources = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    known = set.union(*map(defined, sources))
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    quoted = [each for each in re.findall(r"`([^`]+)`", text) if re.fullmatch(r"[\w(), >:-]+", each)]
    names = {name for each in quoted if each[0] not in "-" for name in re.findall(r"[A-Za-z_]\w*", each)}
    pairs = re.findall(r"`(\w+)`(?:,| \(| of| in)? ?`([\w/]+\.py)`", text)
    misplaced = {f"{name} in {path}" for name, path in pairs if "NAME" not in path and name not in defined(ROOT / path)}
    return {name for name in names if name not in known and name not in WORDS} | misplaced


PACKAGES = ("twin", "models", "optimizers", "scenarios", "streamtwin", "papers", "spark", "figures")
WORDS = {
    "twin",
    "list",
    "optimize",
    "validate",
    "problem",
    "deployment",
    "plans",
    "statistics",
    "app",
    "NAME",
    "Figure",
}
"""Quoted words that no file defines: commands, parameters of signatures, another library's class, the guide's own."""


def test_every_name_of_the_guide_is_where_it_says():
    assert not wrong_names((ROOT / "docs" / "extending.md").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_a_wrong_name_in_the_guide_would_be_noticed():
    assert wrong_names("a `Joiner` with `_columns_out`") == {"Joiner", "_columns_out"}
    assert wrong_names("in `LOGICS`, `twin/world/world.py`") == {"LOGICS in twin/world/world.py"}
    assert not wrong_names("in `LOGICS` (`twin/world/mechanisms.py`), with `--set`")


def test_the_guide_lists_what_a_kind_of_operator_says_of_itself():
    """The guide lists every public attribute of an operator kind, except the fields of every operator."""
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8").partition("## An operator kind")[2]
    told = set(re.findall(r"`(\w+)`", text))
    own = {name for name in vars(OperatorBase) if not name.startswith(("_", "model_"))}
    assert own - set(OperatorBase.model_fields) <= told


def test_the_program_of_the_page_for_python_works(capsys):
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    exec(compile(text.split("```python")[1].split("```")[0], "page", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) >= 5


def test_the_readme_has_the_two_commands_of_a_newcomer_and_the_integration_runs_the_tests() -> None:
    text, runs = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", ".ci/run"))
    assert re.search(r"^make demo\b", text, re.MULTILINE) and re.search(r"^make test\b", text, re.MULTILINE)
    assert re.search(r"^make .*\btest$", runs, re.MULTILINE)
