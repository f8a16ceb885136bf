"""Networks as data: what the file of a case holds, whatever framework it is for.

A case is one file of JSON, so that it can be read, made smaller, and kept as a test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from fuzz.targets import Files

Array = np.ndarray[Any, Any]
Grid = tuple[float | tuple[float, ...], int]
FILE = "network.json"


@dataclass(frozen=True)
class Tensor:
    """An input or a constant: numbers, or how to draw them.

    Attributes:
        dtype: Its type as numpy names it.
        shape: Its sizes.
        values: Numbers in the order of memory; None: drawn.
        seed: Number of the series that they are drawn from.
        scale: Standard deviation of floats; integers are from 0 to 3.
        quantization: Scale, or scales by channel, and zero point of a quantized tensor.
    """

    dtype: str
    shape: tuple[int, ...]
    values: tuple[Any, ...] | None = None
    seed: int = 0
    scale: float = 1.0
    quantization: Grid | None = None

    @classmethod
    def of(cls, array: Any, quantization: Grid | None = None) -> Tensor:
        """Return the tensor that holds an array."""
        array = np.asarray(array)
        return cls(array.dtype.name, array.shape, tuple(array.ravel().tolist()), quantization=quantization)

    def array(self) -> Array:
        """Return the numbers."""
        if self.values is not None:
            return np.array(self.values, dtype=self.dtype).reshape(self.shape)
        rng = np.random.default_rng(self.seed)
        kind = np.dtype(self.dtype)
        if kind.kind == "f":
            return np.asarray(rng.standard_normal(self.shape) * self.scale).astype(kind)
        if kind == np.int8:
            return rng.integers(-127, 128, self.shape).astype(kind)
        return np.asarray(rng.integers(0, 2 if kind.kind == "b" else 4, self.shape)).astype(kind)


@dataclass(frozen=True)
class Node:
    """An operation.

    Attributes:
        op: Its type.
        inputs: Names of the values that it reads; empty for one left out.
        outputs: Names of its results.
        attributes: Its attributes; ``"@1"`` stands for the second input where arguments have names.
        quantization: Scale and zero point of each result (TFLite).
        types: Datatypes of the results where they differ from that of the first input (TFLite).
        domain: Domain of the type (ONNX).
    """

    op: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    quantization: tuple[Grid | None, ...] = ()
    types: tuple[str, ...] = ()
    domain: str = ""


@dataclass(frozen=True)
class Network:
    """A network, and the ways by which it goes through xdlc.

    Attributes:
        framework: Name of the framework.
        inputs: Inputs by name.
        constants: Constants by name.
        nodes: Operations in order of execution.
        outputs: Names of the values that are compared.
        ways: Ways beside conversion and run (``ways.WAYS``).
        sizes: Shapes by input of a second run; axes whose sizes differ are dynamic.
        opset: Version of the operators (ONNX).
        edge: Whether a value at the edge is tried: the engine may refuse the network.
    """

    framework: str
    inputs: dict[str, Tensor]
    constants: dict[str, Tensor]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    ways: tuple[str, ...] = ()
    sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    opset: int = 17
    edge: bool = False

    def feeds(self) -> dict[str, Array]:
        """Return the inputs' numbers."""
        return {name: each.array() for name, each in self.inputs.items()}

    def other_feeds(self) -> dict[str, Array]:
        """Return numbers for inputs of the second run's sizes."""
        resized = {
            name: replace(each, shape=self.sizes.get(name, each.shape), values=None, seed=each.seed + 1)
            for name, each in self.inputs.items()
        }
        return {
            name: each.array() if each.shape != self.inputs[name].shape else self.inputs[name].array()
            for name, each in resized.items()
        }

    def used(self) -> Network:
        """Return the network without nodes, inputs and constants that no output needs."""
        needed, nodes = set(self.outputs), []
        for node in reversed(self.nodes):
            if needed & set(node.outputs):
                nodes.append(node)
                needed |= set(node.inputs)
        return replace(
            self,
            nodes=tuple(reversed(nodes)),
            inputs={name: each for name, each in self.inputs.items() if name in needed},
            constants={name: each for name, each in self.constants.items() if name in needed},
            sizes={name: size for name, size in self.sizes.items() if name in needed},
        )

    def ops(self) -> str:
        """Return the types of the nodes as one line."""
        return " ".join(node.op for node in self.nodes)

    def files(self) -> Files:
        """Return the file of a case."""
        return {FILE: _text(asdict(self)).encode()}

    @classmethod
    def read(cls, files: Files) -> Network:
        """Return the network of a case."""
        fields: dict[str, Any] = json.loads(files[FILE])
        for part in ("inputs", "constants"):
            fields[part] = {name: Tensor(**_tuples(tensor)) for name, tensor in fields.get(part, {}).items()}
        fields["nodes"] = tuple(
            Node(**_tuples({key: value for key, value in node.items() if key != "attributes"}))
            if "attributes" not in node
            else Node(**_tuples(node) | {"attributes": node["attributes"]})
            for node in fields["nodes"]
        )
        fields["sizes"] = _tuples(fields.get("sizes", {}))
        for name, value in fields.items():
            fields[name] = tuple(value) if isinstance(value, list) else value
        return cls(**fields)


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: _tuple(value) for key, value in fields.items()}


def _tuple(value: Any) -> Any:
    return tuple(_tuple(each) for each in value) if isinstance(value, list) else value


def _text(fields: dict[str, Any]) -> str:
    """Return JSON with a line for each tensor and node, without defaults."""
    defaults = {**Tensor.__dataclass_fields__, **Node.__dataclass_fields__, **Network.__dataclass_fields__}

    def plain(part: dict[str, Any]) -> dict[str, Any]:
        return {
            key: value
            for key, value in part.items()
            if (value not in ((), {}, None) and value != defaults[key].default) or key == "shape"
        }

    lines = []
    for key, value in plain(fields).items():
        if key == "nodes":
            inner = ",\n  ".join(json.dumps(plain(each)) for each in value)
            lines.append(f'"nodes": [\n  {inner}]')
        elif key in ("inputs", "constants"):
            inner = ",\n  ".join(
                f"{json.dumps(name)}: {json.dumps(plain(each))}" for name, each in value.items()
            )
            lines.append(f'"{key}": {{\n  {inner}}}')
        else:
            lines.append(f'"{key}": {json.dumps(value)}')
    for key in ("inputs", "constants", "nodes"):
        if not fields[key]:
            lines.append(f'"{key}": {"[]" if key == "nodes" else "{}"}')
    return "{" + ",\n ".join(lines) + "}\n"


def free_names(network: Network, stem: str) -> Iterator[str]:
    """Iterate over names that no value of a network has."""
    names = {*network.inputs, *network.constants, *(name for node in network.nodes for name in node.outputs)}
    number = 0
    while True:
        if f"{stem}{number}" not in names:
            yield f"{stem}{number}"
        number += 1
