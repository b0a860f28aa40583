"""What loads become once traffic stays on a node: what need not be serialised is not work any more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from optimizers.balancing.balance import Balance
from optimizers.balancing.traffic import Traffic


def relieved(balance: Balance, node_g: np.ndarray) -> Balance:
    """The same with the loads that groups have where the traffic is as on these nodes; as it was without `serialising`.

    Half of what traffic between nodes costs is work of its sender, half of its receiver.
    """
    traffic = balance.traffic
    if traffic is None or not balance.serialising:
        return balance
    more_g = remote_g(traffic, node_g) - remote_g(traffic, balance.home_g)
    work_g = np.maximum(balance.work_g + 0.5 * balance.serialising * more_g, 0.0)
    loads = dict(balance.loads) | {balance.bottleneck: work_g / balance.capacity_h[balance.home_g]}
    return replace(balance, loads=loads)


def remote_g(traffic: Traffic, node_g: np.ndarray) -> np.ndarray:
    """[G] what each group exchanges with groups on other nodes."""
    apart = node_g[traffic.sender_e] != node_g[traffic.receiver_e]
    rate_e, groups = traffic.rate_e * apart, len(node_g)
    sent_g = np.bincount(traffic.sender_e, rate_e, groups)
    return np.asarray(sent_g + np.bincount(traffic.receiver_e, rate_e, groups))
