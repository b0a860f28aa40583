"""Algorithm 1 of Costream, node by node in plain numpy: slow, and easy to check against the paper."""

from __future__ import annotations

from typing import Any

import numpy as np

from models.features import CONTEXT, FEATURES, HOST, NODE_TYPES, encode
from models.graph import JointGraph
from models.settings import NetworkConfig


def mlp(layers: Any, x: np.ndarray, linear_end: bool = False) -> np.ndarray:
    for index in range(len(layers)):
        layer = layers[f"layer_{index}"]
        x = x @ np.asarray(layer["kernel"], float) + np.asarray(layer["bias"], float)
        if index < len(layers) - 1 or not linear_end:
            x = np.where(x > 0, x, 0.01 * x)
    return x


class Reference:
    """Reference network for one graph."""

    def __init__(self, config: NetworkConfig, parameters: Any, graph: JointGraph) -> None:
        self.config, self.parameters, self.graph = config, parameters, graph
        self.operators = [self._encode(kind, raw) for kind, raw in zip(graph.kinds, graph.operators, strict=True)]
        self.hosts = [self._encode(HOST, raw) for raw in graph.hosts] if config.hosts else []

    def output(self) -> np.ndarray:
        """Output of the network. [M]"""
        if self.config.scheme == "traditional":
            self._rounds()
        else:
            if self.config.hosts:
                self._operators_to_hosts()
                self._hosts_to_operators()
            self._data_flow()
        nodes = [*self.operators, *self.hosts]
        readout = sum(nodes) / (len(nodes) if self.config.readout == "mean" else 1)
        if self.config.context.size:
            x = encode(CONTEXT, np.array([self.graph.context]))[0, self.config.context]
            readout = np.concatenate([readout, mlp(self.parameters["encoders_context"], x.astype(float))])
        return mlp(self.parameters["head"], np.asarray(readout), linear_end=True)

    def _encode(self, kind: int, raw: list[float]) -> np.ndarray:
        x = encode(FEATURES[NODE_TYPES[kind]], np.array([raw]))[0, self.config.columns(kind)]
        return mlp(self.parameters[f"encoders_{NODE_TYPES[kind]}"], x.astype(float))

    def _update(self, name: str, children: list[np.ndarray], own: np.ndarray) -> np.ndarray:
        total = sum(children, np.zeros_like(own))
        x = total + own if self.config.combine == "sum" else np.concatenate([total, own])
        new = mlp(self.parameters[name], x, linear_end=self.config.residual)
        return own + new if self.config.residual else new

    def _name(self, phase: str, operator: int) -> str:
        phase = "flow" if self.config.phase_weights == "shared" else phase
        return f"updates_{phase}_{NODE_TYPES[self.graph.kinds[operator]]}"

    def _operators_to_hosts(self) -> None:
        self.hosts = [
            self._update("host_update", [self.operators[o] for o, h in self.graph.placements if h == host], own)
            for host, own in enumerate(self.hosts)
        ]

    def _hosts_to_operators(self) -> None:
        self.operators = [
            self._update(
                self._name("placed", operator),
                [self.hosts[h] for o, h in self.graph.placements if o == operator],
                own,
            )
            for operator, own in enumerate(self.operators)
        ]

    def _data_flow(self) -> None:
        for operator in range(len(self.operators)):  # numbered in data-flow order
            producers = [self.operators[u] for u, v in self.graph.streams if v == operator]
            if producers:
                self.operators[operator] = self._update(
                    self._name("flow", operator), producers, self.operators[operator]
                )

    def _rounds(self) -> None:
        for _ in range(self.config.rounds):
            operators = []
            for operator, own in enumerate(self.operators):
                near = [self.operators[u] for u, v in self.graph.streams if v == operator]
                near += [self.operators[v] for u, v in self.graph.streams if u == operator]
                if self.config.hosts:
                    near += [self.hosts[h] for o, h in self.graph.placements if o == operator]
                operators.append(self._update(f"updates_flow_{NODE_TYPES[self.graph.kinds[operator]]}", near, own))
            hosts = [
                self._update("host_update", [self.operators[o] for o, h in self.graph.placements if h == host], own)
                for host, own in enumerate(self.hosts)
            ]
            self.operators, self.hosts = operators, hosts
