"""One word for one thing: names and texts of the code, and docs, say no word that the glossary gave up."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("figures", "models", "optimizers", "papers", "scenarios", "spark", "streamtwin", "twin")
ROWS = re.findall(r"^\| .* \| .* \| (.+) \|$", (ROOT / "docs/glossary.md").read_text(encoding="utf-8"), re.M)
GIVEN_UP = [word for row in ROWS for word in re.findall(r"\w+", row) if word not in ("not", "---")]
OF_A_PAPER = r"(?<!jumbo )(?<!Jumbo )"  # BriskStream's name of batches
OF_PYTHON = ("tuple", "Tuple", "NamedTuple", "tuples")  # the last one is Hypothesis's
WRONG = re.compile(rf"(?<![\w.`/=\[{{-]){OF_A_PAPER}({'|'.join(GIVEN_UP)})s?(?![\w`=:(\[}}-])", re.IGNORECASE)


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Comments, docstrings and texts of several words in a file of Python, with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.COMMENT or (
            token.type == tokenize.STRING and token.string.strip("\"' ").count(" ") > 1
        ):
            yield token.start[0], re.sub(r"\{[^{}]*\}", "", token.string)


def test_the_glossary_gives_words_up() -> None:
    assert {"tuple", "replica", "errand"} <= set(GIVEN_UP)
    assert WRONG.search("Twice the replicas of it") and not WRONG.search("`replica` and plan.replicas")


def words_of(path: Path) -> Iterator[tuple[int, str]]:
    """Words within the names of a file of Python, in lower case, with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.NAME and token.string not in OF_PYTHON:
            for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", token.string):
                yield token.start[0], word.lower().removesuffix("s")


@pytest.mark.parametrize("package", [*PACKAGES, "benchmarks", "tests"])
def test_names_of_the_code_keep_to_it(package: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for line, word in words_of(path)
        if word in GIVEN_UP
    ]
    assert not found


@pytest.mark.parametrize("package", PACKAGES)
def test_texts_of_the_code_keep_to_it(package: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {wrong[0]}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for line, text in texts(path)
        if path.name != "words.py"  # words of older versions, and of others
        if (wrong := WRONG.search(text))
    ]
    assert not found


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_docs_keep_to_it(path: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.S)
    if path.name != "glossary.md":
        assert not [wrong[0] for wrong in WRONG.finditer(text)]
