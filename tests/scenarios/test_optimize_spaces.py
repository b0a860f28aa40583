"""`twin optimize` and `twin validate` with options that say which plans may be chosen, as a user calls them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scenarios.files import scenario_file
from streamtwin.cli.planning_options import PlanRules
from tests.optimizers.judged_jobs import spread
from twin.errors import BadInput


def twin(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "streamtwin.cli.app", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def answered(*arguments: object) -> dict[str, object]:
    done = twin(*arguments, "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_a_plan_that_is_good_is_kept_and_said_so(tmp_path: Path) -> None:
    path = tmp_path / "spread.yaml"
    path.write_text(scenario_file.dump(spread()), encoding="utf-8")
    done = twin("optimize", path, "--pin", "src,out", "--out", tmp_path / "kept.yaml")
    assert done.returncode == 0, done.stderr
    assert "nothing better than the given plan was found" in done.stderr
    assert "as given, kept" in done.stdout
    assert scenario_file.load(str(tmp_path / "kept.yaml")).plan == scenario_file.load(str(path)).plan


def test_the_library_leaves_meters_where_they_are_and_the_given_plan_stands_beside() -> None:
    found = answered("optimize", "smart-grid")
    assert found["placement"]["meters"] == "edge-1"  # type: ignore[index]
    assert found["given"]["backpressured"] is True  # type: ignore[index]
    assert found["given"]["predicted"] > found["predicted"]  # type: ignore[index,operator]


def test_hosts_are_allowed_operators_pinned_and_rules_kept() -> None:
    found = answered(
        *("optimize", "smart-grid", "--pin", "house-average,compare", "--allow", "parse=edge-2,edge-3"),
        *("--replicas", "fixed"),
    )
    placement = found["placement"]
    assert isinstance(placement, dict)
    assert (placement["house-average"], placement["compare"]) == ("edge-1", "edge-1")
    assert placement["parse"] in ("edge-2", "edge-3")


def test_a_proof_says_of_what() -> None:
    done = twin("optimize", "edge-filter", "--optimizer", "exhaustive")
    assert done.returncode == 0, done.stderr
    assert "optimal" in done.stdout
    assert "sensors, dashboard pinned" in " ".join(done.stdout.split())


def test_every_row_of_validate_keeps_to_the_space() -> None:
    found = answered(
        *("validate", "edge-filter", "--optimizers", "as-given,random,local-search,first-fit", "--allow"),
        *("hot=edge-1", "--replications", "1", "--references", "2"),
    )
    rows = {row["optimizer"]: row for row in found["rows"]}  # type: ignore[attr-defined]
    for name in ("random", "local-search"):
        assert rows[name]["plan"] == {"sensors": "edge-1", "hot": "edge-1", "dashboard": "cloud-1"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--pin", "metres"], "did you mean 'meters'"),
        (["--replicas", "free"], "rlas or milp-hosts"),
        (["--optimizer", "governor", "--allow", "parse=edge-3"], "governor cannot keep to the space"),
    ],
)
def test_what_cannot_be_is_one_line_and_nothing_is_written(options: list[str], says: str, tmp_path: Path) -> None:
    done = twin("optimize", "smart-grid", *options, "--quiet", "--out", tmp_path / "plan.yaml")
    assert done.returncode == 2
    assert says in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "plan.yaml").exists()


@pytest.mark.parametrize(
    ("allow", "says"),
    [(["parse"], "write OP=HOST"), (["parse="], "write OP=HOST"), (["parse=a", "parse=b"], "names 'parse' twice")],
)
def test_hosts_that_cannot_be_read(allow: list[str], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        PlanRules(allow=allow).space()
