"""Policies, by name: they decide on changes of a running job at the end of each period.

A new one is a file with a policy and its spec, and a line in `POLICIES`; it is imported once named.
"""

from __future__ import annotations

from collections.abc import Mapping

from twin.control import Policies

POLICIES = Policies(
    {
        "adaptation": "optimizers.policies.adaptation:AdaptationSpec",
        "albic": "optimizers.policies.balance:AlbicSpec",
        "balance": "optimizers.policies.balance:BalanceSpec",
        "cola": "optimizers.policies.balance:ColaSpec",
        "ds2": "optimizers.policies.ds2:Ds2Spec",
        "flink-autoscaler": "optimizers.policies.flink_autoscaler:FlinkAutoscalerSpec",
        "flux": "optimizers.policies.balance:FluxSpec",
        "joint": "optimizers.policies.balance:JointSpec",
        "monitoring": "optimizers.policies.moves:MonitoringSpec",
        "relieve": "optimizers.policies.moves:RelieveSpec",
        "split-combine": "optimizers.policies.balance:SplitCombineSpec",
    }
)

WORDS: Mapping[str, str] = {
    "albic": "Brings pairs of key groups that exchange much onto one host, and balances: ALBIC (Algorithm 2)",
    "cola": "COLA in every round: a plan from scratch, whatever has to migrate for it. A baseline for collocation",
    "flux": "Flux (Shah et al., ICDE 2003) as a policy: the biggest group that fits, fullest host to emptiest",
    "joint": "Chooses a round's migrations together: most traffic on one host while hosts stay within a band of loads",
    "monitoring": (
        "Monitors a running job and deploys it anew: "
        "the traffic-based online scheduler of Aniello, Baldoni, Querzoni (2013)"
    ),
    "relieve": "Takes load off the hottest host: moves one subtask from there to the host with the most idle CPU",
    "split-combine": (
        "Splits or combines windows, whichever costs less CPU while migrations pause records at most for a limit "
        "(Enorm, 5.1)"
    ),
}
"""Descriptions in `twin list` of policies that share a file; others are described by the docstring of their file."""
