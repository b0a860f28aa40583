"""Policies by name. A new one is a file with a policy and its spec, and a line here."""

from __future__ import annotations

from collections.abc import Mapping

from optimizers.policies.adaptation import AdaptationSpec
from optimizers.policies.balance import AlbicSpec, BalanceSpec, ColaSpec, FluxSpec, JointSpec
from optimizers.policies.ds2 import Ds2Spec
from optimizers.policies.flink_autoscaler import FlinkAutoscalerSpec
from optimizers.policies.monitoring import MonitoringSpec
from optimizers.policies.relieve import RelieveSpec
from optimizers.policies.split_combine import SplitCombineSpec
from twin.control import PolicySpec

POLICIES: Mapping[str, type[PolicySpec]] = {
    spec.model_fields["name"].default: spec
    for spec in (
        AdaptationSpec,
        AlbicSpec,
        BalanceSpec,
        ColaSpec,
        Ds2Spec,
        FlinkAutoscalerSpec,
        FluxSpec,
        JointSpec,
        MonitoringSpec,
        RelieveSpec,
        SplitCombineSpec,
    )
}

WORDS: Mapping[str, str] = {
    "albic": "Brings pairs of key groups that exchange much onto one host, and balances: ALBIC (Algorithm 2)",
    "cola": "COLA in every round: a plan from scratch, whatever has to migrate for it. A baseline for collocation",
    "flux": "Flux (Shah et al., ICDE 2003) as a policy: the biggest group that fits, fullest host to emptiest",
    "joint": "Chooses a round's migrations together: most traffic on one host while hosts stay within a band of loads",
}
"""Descriptions in `twin list` of policies that share a file; others are described by the docstring of their file."""
