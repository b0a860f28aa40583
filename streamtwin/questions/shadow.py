"""Question about a running job: `twin shadow`, a twin beside it that is fed by its metrics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamtwin.options import option
from streamtwin.questions.question import Question, Runs
from twin.errors import BadInput

if TYPE_CHECKING:
    from streamtwin.connect.shadow import JobFollowed
    from twin.scenario import Scenario

MASTER = "local[2]"
"""Spark master that reads, if none is named."""


@dataclass(frozen=True, kw_only=True)
class FollowJob(Question):
    """Follows a running job: its rates, costs and trends, when it will not keep up, and which move avoids that.

    Reads what arrives in FOLDER until Ctrl-C (or --once), and goes on from there the next time, with nothing lost or
    doubled. Backpressure is forecast by the rate model; a move is found by an optimizer and tried in the simulator.

    Examples: `twin shadow job.yaml metrics --out shadow` ·
    `twin export rush-hour --format metrics --out metrics`, then `twin shadow rush-hour metrics --window 30 --once`,
    and `twin report shadow`
    """

    samples: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where files of metric samples arrive; see `twin import metrics`.")
    ]
    window: float = option(60, "Length of a window in seconds.", "S", min=0.001)
    ahead: float = option(600, "Seconds to look ahead.", "S", min=0.001)
    trend: int = option(10, "Windows to fit a trend to.", "N", min=2)
    late: float = option(10, "How long a window waits for late samples.", "S", min=0)
    once: bool = option(False, "End when all files have been read.", flag="--once")

    command = "shadow"
    shown_by = "shadow.told"
    doing = "shadow"

    def ask(self, scenario: Scenario, out: Path, runs: Runs) -> JobFollowed:
        """Follows the job until all files are read, or for ever; what was seen is in `out`.

        Raises BadInput if there is no folder of samples, or `out` holds something else.
        """
        from scenarios.questions.kept import key, opened
        from spark.metric_windows import watch
        from spark.session import session
        from streamtwin.connect.belief import parsed
        from streamtwin.connect.shadow import Shadow, followed

        if not self.samples.is_dir():
            raise BadInput(f"{self.samples} is no folder; name the one in which files of metric samples arrive")
        asked: dict[str, Any] = {"command": self.command, "scenario": key(scenario)}
        asked |= {"folder": str(self.samples.resolve()), "window_s": self.window, "ahead_s": self.ahead}
        opened(out, {**asked, "trend": self.trend, "late_s": self.late})
        stage = runs.audience.stage
        stage(f"{scenario.name}: starting Spark")
        twin = Shadow(scenario, out, self.window, self.ahead, self.trend, stage)
        with runs.kept(f"what was read, in {out}"), session(runs.master or MASTER) as spark:
            stage(f"following {self.samples}" + ("" if self.once else "; Ctrl-C ends it, the same command goes on"))
            watch(
                spark,
                self.samples,
                out / "checkpoint",
                parsed,
                twin.told,
                window_s=self.window,
                late_s=self.late,
                once=self.once,
                note=runs.note,
            )
        return followed(scenario.name, out)


QUESTIONS: tuple[type[Question], ...] = (FollowJob,)
