"""All experiments by name. A new one is a file with an `Experiment` and a line here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from papers.albic import fig5 as albic_fig5
from papers.albic import fig6 as albic_fig6
from papers.albic import fig7 as albic_fig7
from papers.albic import fig8 as albic_fig8
from papers.albic import fig9 as albic_fig9
from papers.albic import fig10 as albic_fig10
from papers.albic import fig11 as albic_fig11
from papers.albic import fig12 as albic_fig12
from papers.albic import fig13 as albic_fig13
from papers.albic import fig14 as albic_fig14
from papers.albic import grid
from papers.briskstream import (
    fig3,
    fig8,
    fig9,
    fig10,
    fig12,
    fig13,
    fig14,
    fig15,
    fig16,
    hosts,
    systems,
    table3,
    table4,
    table7,
)
from papers.costream.fig7 import FIG7
from papers.costream.fig8 import FIG8
from papers.costream.fig9 import FIG9
from papers.costream.fig10 import FIG10
from papers.costream.fig11 import FIG11
from papers.costream.fig12 import FIG12
from papers.costream.fig13 import FIG13
from papers.costream.table3 import TABLE3
from papers.costream.table4 import TABLE4
from papers.costream.table5 import TABLE5
from papers.costream.table6a import TABLE6A
from papers.costream.table6b import TABLE6B
from papers.driving.drift import DRIFT
from papers.driving.training import TRAINING
from papers.enorm import fig9 as enorm_fig9
from papers.enorm import fig10 as enorm_fig10
from papers.enorm import fig12 as enorm_fig12
from papers.enorm import fig13 as enorm_fig13
from papers.enorm import fig16 as enorm_fig16
from papers.enorm.consolidation import CONSOLIDATION as ENORM_CONSOLIDATION
from papers.enorm.fig14 import FIG14 as ENORM_FIG14
from papers.enorm.fig15 import FIG15 as ENORM_FIG15
from papers.enorm.punctuations import PUNCTUATIONS as ENORM_PUNCTUATIONS
from papers.interface import Experiment
from twin.errors import BadInput, suggest

_ALL: tuple[Experiment, ...] = (
    TABLE3,
    FIG7,
    FIG8,
    FIG9,
    FIG10,
    TABLE4,
    TABLE5,
    TABLE6A,
    FIG11,
    TABLE6B,
    FIG12,
    FIG13,
    fig3.FIG3,
    table3.TABLE3,
    table4.TABLE4,
    systems.ENGINES,
    fig8.FIG8,
    fig9.FIG9,
    fig10.FIG10,
    fig12.FIG12,
    fig13.FIG13,
    fig14.FIG14,
    fig15.FIG15,
    table7.TABLE7,
    fig16.FIG16,
    hosts.HOSTS,
    grid.FIG2,
    grid.FIG3,
    grid.FIG4,
    albic_fig5.FIG5,
    albic_fig6.FIG6,
    albic_fig7.FIG7,
    albic_fig8.FIG8,
    albic_fig9.FIG9,
    albic_fig10.FIG10,
    albic_fig11.FIG11,
    albic_fig12.FIG12,
    albic_fig13.FIG13,
    albic_fig14.FIG14,
    enorm_fig9.FIG9,
    enorm_fig10.FIG10,
    enorm_fig10.FIG11,
    enorm_fig12.FIG12,
    enorm_fig13.FIG13,
    ENORM_FIG14,
    ENORM_FIG15,
    enorm_fig9.COMPONENTS,
    enorm_fig16.FIG16,
    ENORM_CONSOLIDATION,
    ENORM_PUNCTUATIONS,
    TRAINING,
    DRIFT,
)
"""By paper, in its order."""

EXPERIMENTS: Mapping[str, Experiment] = {experiment.name: experiment for experiment in _ALL}


def chosen(names: Sequence[str]) -> list[Experiment]:
    """The experiments of these names, each once; `all` is every one. Raises BadInput for an unknown name."""
    wanted = list(EXPERIMENTS) if "all" in names else dict.fromkeys(names)
    for name in wanted:
        if name not in EXPERIMENTS:
            raise BadInput(f"unknown experiment {name!r}; {suggest(name, [*EXPERIMENTS, 'all'])}")
    return [EXPERIMENTS[name] for name in wanted]
