"""Catalogue of all that can be named on the command line besides scenarios, with a line each for `twin list`.

Everything describes itself: the line is the first sentence of its documentation, or a text in its file. Files are
read as text, because importing them takes far longer.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from streamtwin.house import PAPERS, ROOT

_SENTENCE = re.compile(r'(?<!\bFig)(?<!\bSec)(?<!\bEq)(?<!\bvs)\.\s+(?=[A-Z"(`])')


def summary(module: str) -> str:
    """First sentence of a module's docstring, without its full stop."""
    text = " ".join((ast.get_docstring(_tree(_file(module))) or "").split())
    return _SENTENCE.split(text)[0].rstrip(".")


def assigned_calls(path: Path, called: str, fields: Sequence[str]) -> Iterator[dict[str, str]]:
    """Texts of the arguments of each `X = called(...)` in a file, by keyword or, with names from `fields`, by position.
    Calls that do not give a text for each of the fields are left out."""
    for node in _tree(path).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _is_name(node.value.func, called):
            given = [*zip(fields, node.value.args, strict=False)]
            given += [(str(each.arg), each.value) for each in node.value.keywords]
            texts = {name: text for name, value in given if (text := _text(value)) is not None}
            if set(fields) <= set(texts):
                yield texts


def assigned_texts(module: str, name: str) -> dict[str, str]:
    """Dictionary of texts that a module assigns as `NAME: ... = {...}`; empty without it. Raises ValueError if it is
    not a literal."""
    for node in _tree(_file(module)).body:
        if isinstance(node, ast.AnnAssign) and _is_name(node.target, name) and node.value is not None:
            return dict(ast.literal_eval(node.value))
    return {}


def registered(module: str) -> Iterator[tuple[str, str]]:
    """Name and module of each object that a registry makes of an imported class.

    The name is the call's first argument, or the default of the class's field `name`.
    """
    tree = _tree(_file(module))
    imports = {each.name: node.module for node in tree.body if isinstance(node, ast.ImportFrom) for each in node.names}
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in imports:
            home = str(imports[call.func.id])
            name = _text(call.args[0]) if call.args else _default_name(home, call.func.id)
            if name is not None:
                yield name, home


def specs(module: str, base: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Module, and fields with defaults (`name` among them), of each class of that base which a registry imports."""
    for node in _tree(_file(module)).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                found = _class(node.module, alias.name)
                if found is not None and any(_is_name(each, base) for each in found.bases):
                    yield node.module, _with_inherited(node.module, found, base)


def _with_inherited(module: str, of_class: ast.ClassDef, base: str) -> dict[str, str]:
    """Fields, with defaults, of a class and of those that it inherits from, but for `base`; its own last."""
    others = (each.id for each in of_class.bases if isinstance(each, ast.Name) and each.id != base)
    found = (_class(_home(module, name), name) for name in others)
    inherited = [_defaults(each) for each in found if each is not None]
    return {key: value for fields in (*inherited, _defaults(of_class)) for key, value in fields.items()}


def _home(module: str, name: str) -> str:
    """Module in which a name of this module is defined: itself, or one from which it imports the name."""
    imports = (node for node in _tree(_file(module)).body if isinstance(node, ast.ImportFrom))
    return next((node.module for node in imports if node.module and name in {a.name for a in node.names}), module)


def _default_name(module: str, of_class: str) -> str | None:
    """Default of a class's field `name`; None if it has none."""
    found = _class(module, of_class)
    return None if found is None else _defaults(found).get("name")


def _class(module: str, name: str) -> ast.ClassDef | None:
    if not _file(module).exists():
        return None
    classes = (node for node in _tree(_file(module)).body if isinstance(node, ast.ClassDef))
    return next((node for node in classes if node.name == name), None)


def _defaults(of_class: ast.ClassDef) -> dict[str, str]:
    """Defaults of the fields in the body of a class, as text."""
    given = [node for node in of_class.body if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None]
    targets = (node.target if isinstance(node, ast.AnnAssign) else node.targets[0] for node in given)
    pairs = zip(targets, given, strict=True)
    return {target.id: _shown(node.value) for target, node in pairs if isinstance(target, ast.Name) and node.value}


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _shown(node: ast.expr) -> str:
    return _text(node) or ast.unparse(node)


def _file(module: str) -> Path:
    path = ROOT / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


COST_MODELS: Mapping[str, str] = {
    "rates": "analytic: steady rates, utilisations and queueing formulas; milliseconds a plan",
    "rates:twice": "the same, for twice the mean rates",
    "rates:peak": "the same, for each source's highest rate: what learning is to be compared with",
    "sim": "the simulator itself; a fraction of a second a plan",
    "learned": "a correction of the rate model for any engine and hosts, trained on simulated runs",
    "staged": "rates find plans near their best, the learned model orders them, the simulator decides among a few",
    "MODEL": "a folder that 'twin train' wrote: an ensemble of graph neural networks",
}


def optimizers() -> dict[str, str]:
    """Name and summary of every optimizer: the text in the registry, or the docstring of its module."""
    words = assigned_texts("optimizers.registry", "WORDS")
    found = {name: words.get(name, summary(module)) for name, module in registered("optimizers.registry")}
    for alias, text in assigned_texts("optimizers.registry", "ALIASES").items():
        found[alias] = f"{words[alias]}; the same as {text}"
    return dict(sorted(found.items()))


def policies() -> dict[str, str]:
    """Name and summary of every policy: the text in the registry, or the docstring of its module; and its options."""
    found, words = {}, assigned_texts("optimizers.policies.registry", "WORDS")
    for module, fields in specs("optimizers.policies.registry", "PolicySpec"):
        name, options = fields.pop("name"), ", ".join(f"{option}: {default}" for option, default in fields.items())
        found[name] = words.get(name, summary(module)) + (f" ({options})" if options else "")
    return dict(sorted(found.items()))


def spaces() -> dict[str, str]:
    """Name and summary of every parameter space that `twin corpus --space` takes."""
    from scenarios.spaces.registry import DRAWN, SPACES

    drawn = {name: space.summary for name, space in DRAWN.items()}
    return {**{name: _space(space) for name, space in sorted(SPACES.items())}, **drawn}


def families() -> dict[str, str]:
    """Name and summary of every family of the suite that `twin benchmark` takes."""
    from scenarios.suite.members import MEMBERS

    return {name: f"{len(each.seeds)} scenarios: {each.summary}" for name, each in MEMBERS.items()}


def experiments() -> dict[str, str]:
    """Name, summary and source of every experiment that `twin reproduce` takes; none without a checkout."""
    files = sorted(PAPERS.glob("*/*.py"))
    fields = ("name", "source", "summary")
    found = [each for path in files for each in assigned_calls(path, "Experiment", fields)]
    found.sort(key=lambda each: _by_number(each["name"]))
    return {each["name"]: f"{each['summary']} ({each['source']})" for each in found}


def _by_number(name: str) -> list[str]:
    """Sort key of a name with numbers, by which fig9 comes before fig10."""
    return [part.zfill(4) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _space(space: Any) -> str:
    """Summary of a parameter space: queries, number of hosts, and hardware that differs from Costream's."""
    from scenarios.spaces.parameter_space import COSTREAM, FEATURES

    low, high = space.hosts_range
    sources, filters = ("/".join(map(str, counts)) for counts in (space.sources, space.filters))
    other = {name: getattr(space, name) for name in FEATURES if getattr(space, name) != getattr(COSTREAM, name)}
    words = [f"{name} {', '.join(f'{value:g}' for value in values)}" for name, values in other.items()]
    return "; ".join([f"random queries with {sources} sources and {filters} filters on {low} to {high} hosts", *words])
