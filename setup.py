"""Compiles the engine where STREAMTWIN_COMPILE=1 asks for it; all else is in pyproject.toml (docs/compiled.md)."""

from __future__ import annotations

import json
import os
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_ext import build_ext

ENGINE = Path("twin/engine")
NEEDS = ["mypy==2.4.1", "networkx", "numpy", "pydantic>=2", "simpy"]
"""To compile: the compiler, and what the engine's types come from."""
EXACT = "-ffp-contract=off"
"""No fused multiply-add, which rounds once where Python rounds twice: results are the same to the last bit."""


class Build(build_ext):
    """Notes what was compiled, beside it, so that a change of the sources is noticed."""

    built: tuple[str, dict[str, str]]
    """Name of the note; hashes of the sources, from before the compiler read them."""

    def run(self) -> None:
        """Compiles, then writes the note."""
        super().run()
        name, digests = self.built
        folder = ENGINE if self.inplace else Path(self.build_lib) / ENGINE
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(digests, indent=0), encoding="utf-8")


def extensions() -> list[Any]:
    """The engine's modules as extensions."""
    from mypyc.build import mypycify

    sys.path.insert(0, str(Path.cwd()))
    compiled = runpy.run_path(str(ENGINE / "compiled.py"))
    digests = compiled["fingerprint"](ENGINE, compiled["sources"](ENGINE))
    Build.built = compiled["BUILT"], digests
    paths = [str(ENGINE / name) for name in digests]
    made = mypycify(paths, opt_level="3", strip_asserts=False, group_name="twin.engine")
    for extension in made:
        if os.name == "posix":
            extension.extra_compile_args.append(EXACT)
    return made


if os.environ.get("STREAMTWIN_COMPILE", "") in ("", "0"):
    setup()
elif find_spec("mypyc") is None:  # pip asks what building a wheel takes, installs it and comes again
    setup(setup_requires=NEEDS)
else:
    setup(ext_modules=extensions(), cmdclass={"build_ext": Build})
