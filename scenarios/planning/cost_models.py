"""Cost models by name: `rates` (analytic), `sim` (the simulator itself), or the folder of a learned model."""

from __future__ import annotations

from pathlib import Path

from scenarios.planning.simulated_cost import SimulatedCostModel
from twin.errors import BadInput, suggest
from twin.metrics import CostModel
from twin.rates.model import RateModel
from twin.simulation import simulate


def cost_model(name: str) -> CostModel:
    """The cost model of that name or folder.

    Raises BadInput if it is neither a known name nor a folder that holds a model.
    """
    if name == "rates":
        return RateModel()
    if name == "sim":
        return SimulatedCostModel(simulate)
    if not Path(name).is_dir():
        remedy = suggest(name, ("rates", "sim"))
        raise BadInput(f"--cost-model {name!r} is neither rates, sim, nor a folder that 'twin train' wrote; {remedy}")
    try:
        from models import prediction  # the only cost model that needs JAX
    except ImportError as error:
        raise BadInput(f"--cost-model {name!r} cannot be loaded: {error}; see 'twin --traceback'") from error
    return prediction.load(Path(name))
