"""Nodes of canonical operators, from which networks of decoders are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xdlc.converter.session.node import GraphInput, Node
from xdlc.ir import ArrayData, TensorData
from xdlc.ir.dtype import DType

OPSET = 24
"""Version of ONNX's operators."""


@dataclass(slots=True)
class Net:
    """Nodes and constants of a graph under construction; values are names."""

    dtype: DType
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, TensorData] = field(default_factory=dict)
    inputs: list[GraphInput] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    scope: str = ""

    def add(self, type: str, name: str, inputs: Sequence[str], /, domain: str = "", **attributes: Any) -> str:
        """Add an operator with one output, which has its name."""
        return self.add_many(type, name, inputs, [name], domain, **attributes)[0]

    def add_many(
        self,
        type: str,
        name: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        /,
        domain: str = "",
        **attributes: Any,
    ) -> list[str]:
        """Add an operator; names of nodes and outputs follow the scope."""
        place = f"{self.scope}{name}"
        names = [f"{self.scope}{output}" for output in outputs]
        opset = 1 if domain else OPSET
        self.nodes.append(Node(type, list(inputs), names, attributes, place, domain, opset))
        return names

    def array(self, name: str, values: Any, dtype: str | None = None) -> str:
        """Add a constant; default: of the type of floats."""
        return self.constant(name, ArrayData(np.asarray(values, dtype or self.dtype.numpy)))

    def constant(self, name: str, data: TensorData) -> str:
        """Add a constant, unless there is one of the name."""
        self.constants.setdefault(name, data)
        return name

    def input(self, name: str, dtype: DType, *dims: int) -> str:
        self.inputs.append(GraphInput(name, dtype, dims))
        return name

    def output(self, type: str, name: str, inputs: Sequence[str], /, **attributes: Any) -> None:
        """Add an operator whose result is an output of the graph."""
        scope, self.scope = self.scope, ""
        self.outputs.append(self.add(type, name, inputs, **attributes))
        self.scope = scope

    def shaped(self, name: str, value: str, *dims: int) -> str:
        return self.add("Reshape", name, [value, self.array(f"shape_{dims}", dims, "int64")])

    def scaled(self, name: str, value: str, factor: float) -> str:
        if factor == 1.0:
            return value
        return self.add("Mul", name, [value, self.array(f"factor_{factor!r}", factor)])

    def capped(self, name: str, value: str, cap: float) -> str:
        """Return ``cap * tanh(value / cap)``; the value itself if the cap is 0."""
        if not cap:
            return value
        bounded = self.add("Tanh", f"{name}.tanh", [self.scaled(f"{name}.inner", value, 1 / cap)])
        return self.scaled(name, bounded, cap)
