"""Contestants of the experiments, at an experiment's size. Imports JAX and LightGBM."""

from __future__ import annotations

from typing import Any

from models.predictors import PREDICTORS, Networks, Predictor
from papers.sizes import Sizes


def everyone(sizes: Sizes) -> dict[str, Predictor]:
    """All contestants by key, networks with as many members and epochs as the sizes say."""
    return {name: _sized(contestant, sizes, sizes.members) for name, contestant in PREDICTORS.items()}


def generalising(sizes: Sizes) -> list[Predictor]:
    """Contestants among which extrapolations decide what is shipped; small ensembles, trained for that alone."""
    names = ("paper", "ours", "trees-log", "trees-ratio", "rates")
    return [_sized(PREDICTORS[name], sizes, sizes.restricted_members) for name in names]


def anew(sizes: Sizes, *names: str) -> list[Predictor]:
    """Contestants of these names, or all; small ensembles, trained for one experiment alone."""
    return [_sized(PREDICTORS[name], sizes, sizes.restricted_members) for name in names or PREDICTORS]


def ours(sizes: Sizes) -> Predictor:
    """Network of ours."""
    return _sized(PREDICTORS["ours"], sizes, sizes.members)


def paper(sizes: Sizes, **network: Any) -> Predictor:
    """Network of the paper; network: settings of models.settings.NetworkConfig that an ablation changes."""
    found = _sized(PREDICTORS["paper"], sizes, sizes.members)
    assert isinstance(found, Networks)
    changed = found.settings.network.model_copy(update=network)
    if changed == found.settings.network:
        return found
    name = f"{found.name}, {', '.join(f'{key} {value}' for key, value in network.items())}"
    return Networks(name, found.settings.model_copy(update={"network": changed}))


def flat() -> Predictor:
    """Flat Vector on raw labels, as in the paper."""
    return PREDICTORS["flat-raw"]


def paper_on_logs(sizes: Sizes) -> Predictor:
    """Network of the paper with regressions on log labels, which tell small costs apart as the MSLE does not."""
    found = _sized(PREDICTORS["paper"], sizes, sizes.members)
    assert isinstance(found, Networks)
    return Networks(f"{found.name}, log labels", found.settings.model_copy(update={"scale": "log"}))


def _sized(contestant: Predictor, sizes: Sizes, members: int) -> Predictor:
    if not isinstance(contestant, Networks):
        return contestant
    changes = {"members": members} | ({} if sizes.epochs is None else {"epochs": sizes.epochs})
    return Networks(contestant.name, contestant.settings.model_copy(update=changes))
