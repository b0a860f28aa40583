"""Depth of nested texts: what is read, what is refused, and that nothing is built before."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.files.yaml_text import parse_text
from tests.commands import twin
from twin.errors import BadInput
from twin.files import DEEPEST, parse_json

DEEP = {
    "lists in brackets": lambda depth: "[" * depth + "]" * depth,
    "mappings in brackets": lambda depth: "{a: " * depth + "1" + "}" * depth,
    "lists on one line": lambda depth: "- " * depth + "x",
    "keys that are lists": lambda depth: "? " * depth + "x",
    "mappings by indentation": lambda depth: "\n".join(" " * each + "a:" for each in range(depth)),
    "aliases of aliases": lambda depth: "\n".join(
        ["a0: &a0 x", *(f"a{each}: &a{each} [*a{each - 1}]" for each in range(1, depth))]
    ),
}


@pytest.mark.parametrize("kind", DEEP)
def test_yaml_nests_only_so_deep(kind: str) -> None:
    if kind != "keys that are lists":  # a key must be a plain word
        parse_text(DEEP[kind](DEEPEST), "a file")
    for depth in (DEEPEST + 1, 3_000, 30_000 if "indentation" not in kind else 3_000):
        with pytest.raises(BadInput, match=r"^a file: line \d+, column \d+: .* more than 100 deep; flatten it$"):
            parse_text(DEEP[kind](depth), "a file")


@pytest.mark.parametrize("text", ["&a [*a]", "a: &a {b: [1, {c: *a}]}", "&a {*a : 1}", "- &a\n  - &b [*a]"])
def test_what_contains_itself_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"a file: line \d, column \d+: \*a stands within what it names"):
        parse_text(text, "a file")


nested = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda each: st.lists(each) | st.dictionaries(st.text(), each),
)


@given(nested, st.booleans())
def test_json_is_read_as_by_the_standard_library(value: object, ascii_: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_)
    assert parse_json(text) == value
    assert parse_json(text.encode("utf-8", "surrogatepass")) == value


@given(st.text(alphabet='[]{}",:\\a1 '))
def test_json_that_is_none_is_refused_as_by_the_standard_library(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError as error:
        with pytest.raises(ValueError, match=re.escape(str(error))):
            parse_json(text)
    else:
        assert parse_json(text) == expected


@pytest.mark.parametrize("text", ["[" * 10**6, "[" * 101 + "]" * 101, '{"a":' * 200 + "1" + "}" * 200])
def test_json_nests_only_so_deep(text: str) -> None:
    with pytest.raises(ValueError, match="more than 100 deep; flatten it"):
        parse_json(text)


def test_brackets_in_texts_do_not_count() -> None:
    text = "[" * 1000 + '\\"'
    assert parse_json(json.dumps([text, {text: text}])) == [text, {text: text}]


@pytest.mark.parametrize("option", ["--set=run.warmup_s=", "--event="])
def test_depth_in_options_and_files_is_one_line(option: str, tmp_path: Path) -> None:
    """Brackets that would overflow the stack of a parser in C, and so end the process by a signal."""
    deep = "[" * 40_000
    (tmp_path / "deep.yaml").write_text(f"x: {deep}")
    for words in (("edge-filter", f"{option}{deep}"), (tmp_path / "deep.yaml",)):
        done = twin("run", *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1 and "more than 100 deep" in done.stderr


def test_the_product_reads_json_by_one_function() -> None:
    """Other code reads no JSON text by itself: what it reads may be a file that anybody has written."""
    root = Path(__file__).parents[2]
    packages = ["twin", "models", "optimizers", "scenarios", "streamtwin", "spark", "papers", "figures"]
    for path in (path for package in packages for path in (root / package).rglob("*.py")):
        text = path.read_text(encoding="utf-8").replace("json.loads(json.dumps(", "")
        assert path.name == "files.py" or not re.search(r"json\.loads?\(", text), path
