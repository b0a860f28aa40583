"""Tests of the namespace: `streamtwin` is the name for users; commands work beside modules with our packages' names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import streamtwin
from streamtwin.package import PACKAGES, foreign

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Folder of a user in which every second of our names is a package, the others modules; all break importers."""
    for number, name in enumerate(PACKAGES):
        place = tmp_path / name / "__init__.py" if number % 2 else tmp_path / f"{name}.py"
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"raise RuntimeError('this is the {name} of the user')\n")
    return tmp_path


def python(folder: Path, code: str, *arguments: str, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Runs code with the folder first on the path, and again by PYTHONPATH; our packages are found last."""
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{root}"}
    environment.pop("PYTHONSAFEPATH", None)
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


NOT_EDITABLE = "import sys; sys.meta_path[:] = [each for each in sys.meta_path if 'Editable' not in str(each)]; "
"""Code that hides editable installations, which would also be found, submodule by submodule."""


def twin(folder: Path, *arguments: str, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Runs the command, as its console script does."""
    return python(folder, f"{NOT_EDITABLE}from streamtwin.command import main; main()", *arguments, root=root)


COMMANDS = (
    "list",
    "run word-count --horizon 20 --out trace",
    "optimize smart-grid --budget 20",
    "validate smart-grid --replications 1 --references 0 --optimizers as-given",
)


@pytest.mark.slow
def test_commands_work_beside_modules_of_our_names(hostile: Path) -> None:
    code = f"""{NOT_EDITABLE}
from streamtwin.command import main
for words in {COMMANDS}:
    sys.argv[1:] = words.split()
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, words
"""
    done = python(hostile, code)
    assert done.returncode == 0, done.stderr
    assert "smart-grid" in done.stdout


@pytest.mark.parametrize("name", PACKAGES)
def test_what_is_installed_over_ours_is_one_line_and_exit_status_2(name: str, tmp_path: Path) -> None:
    """A distribution with a package of the same name, installed over ours, is named in one line with status 2."""
    root = tmp_path / "site"
    root.mkdir()
    shutil.copytree(ROOT / "streamtwin", root / "streamtwin")
    for each in PACKAGES:
        if each != name:
            (root / each).symlink_to(ROOT / each)
    (root / name).mkdir()
    (root / name / "__init__.py").write_text("WEIGHTS = 1\n")
    needs = {"models": ("train", "d", "m"), "spark": ("corpus", "c", "--runs", "1"), "figures": ("demo", "--out", "d")}
    done = twin(tmp_path, *needs.get(name, ("run", "word-count")), root=root)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and name in done.stderr


def test_the_package_refuses_in_one_line_what_stands_in_its_place(hostile: Path) -> None:
    done = python(hostile, "import streamtwin; streamtwin.simulate")
    assert done.returncode == 1
    assert "ImportError: 'twin' is " in done.stderr.splitlines()[-1]
    assert str(hostile) in done.stderr.splitlines()[-1]


def test_the_package_works_beside_what_it_does_not_need(tmp_path: Path) -> None:
    for name in ("models", "spark", "figures"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("MINE = True\n")
    code = """
import streamtwin as st, models, spark
scenario = st.load("word-count").with_run(horizon_s=20)
print(st.simulate(scenario.with_plan(st.optimize(scenario).plan)).metrics.success, models.MINE, spark.MINE)
"""
    done = python(tmp_path, code)
    assert (done.returncode, done.stdout) == (0, "True True True\n"), done.stderr


def test_every_public_name_is_there_for_programs_and_for_type_checkers_alike() -> None:
    for name in streamtwin.__all__:
        assert getattr(streamtwin, name) is not None
    assert set(dir(streamtwin)) == set(streamtwin.__all__)
    with pytest.raises(AttributeError, match="no attribute 'simulated'"):
        _ = streamtwin.simulated
    assert set(streamtwin._home_of()) == set(streamtwin.__all__)
    assert all((ROOT / name / "py.typed").exists() for name in (*PACKAGES, "streamtwin"))


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import sys, streamtwin; print(sorted({'numpy', 'pydantic', 'twin', 'simpy'} & set(sys.modules)))"
    assert python(ROOT, code).stdout == "[]\n"


def test_here_nothing_is_foreign() -> None:
    assert foreign() == ""
