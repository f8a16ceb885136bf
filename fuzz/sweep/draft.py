"""Cases of the sweep: a few ONNX nodes, their data and their choices."""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper, shape_inference

from xdlc.registry import Registry

Family = Callable[["Draft"], None]
FAMILIES: Registry[str, Family] = Registry("fuzz.sweep.families", "family")
family = FAMILIES.register
NEIGHBOURS = [n + step for n in (8, 16, 32, 64, 128, 256) for step in (-1, 0, 1)]
MOST = 1 << 15
"""Most numbers of a tensor: the emulation is slow."""
SAMPLES = 3
"""Samples of each input; quantizing needs several."""


class Unfit(Exception):
    """The choices of a case make no valid network."""


class Draft:
    """A case: nodes, inputs and constants, drawn at random.

    All floats are numbers of float16, so that HTP receives what the host does.

    Attributes:
        name: Name of the case, ``FAMILY/NUMBER``.
        inputs: Samples of each input by name.
        constants: Constants by name.
        opset: Version of the operators.
        quantizable: Whether a quantized network of it makes sense.

    Args:
        kind: Name of the family.
        number: Number of the case: equal numbers are equal cases.
    """

    def __init__(self, kind: str, number: int) -> None:
        self.name, self.opset, self.quantizable = f"{kind}/{number}", 18, True
        self.inputs: dict[str, list[Any]] = {}
        self.constants: dict[str, Any] = {}
        self.nodes: list[tuple[str, list[str], list[str], dict[str, Any]]] = []
        self._choice = random.Random(self.name)
        self._data = np.random.default_rng(zlib.crc32(self.name.encode()))
        self._count = 0

    @property
    def operators(self) -> str:
        """Types of the nodes, in order."""
        return "+".join(node[0] for node in self.nodes)

    def pick(self, *options: Any) -> Any:
        """Return one of some options."""
        return self._choice.choice(options)

    def flag(self, share: float = 0.5) -> bool:
        """Return True in a share of all cases."""
        return self._choice.random() < share

    def between(self, low: int, high: int) -> int:
        """Return a number, both ends included."""
        return self._choice.randint(low, high)

    def size(self, most: int = 257) -> int:
        """Return the size of an axis: small, middling, or beside a power of two."""
        kind = self._choice.random()
        if kind < 0.5:
            return self.between(1, min(8, most))
        if kind < 0.8:
            return self.between(1, min(64, most))
        return int(self._choice.choice([n for n in NEIGHBOURS if n <= most] or [most]))

    def shape(self, rank: int, most: int = MOST) -> tuple[int, ...]:
        """Return a shape of at most some numbers; batches are mostly 1."""
        sizes = [1 if rank > 2 and self.flag(0.7) else self.size() if rank < 3 else self.between(1, 5)]
        sizes = [sizes[0], *(self.size() for _ in range(rank - 1))][:rank]
        while math.prod(sizes) > most:
            at = max(range(rank), key=sizes.__getitem__)
            sizes[at] = max(1, sizes[at] // 2)
        return tuple(sizes)

    def ranked(self, low: int = 1, high: int = 5) -> tuple[int, ...]:
        """Return a shape of a rank in a range."""
        return self.shape(self.between(low, high))

    def floats(self, shape: Sequence[int], low: float = -2.0, high: float = 2.0) -> Any:
        """Return numbers of float16 as float32."""
        return self._data.uniform(low, high, shape).astype(np.float16).astype(np.float32)

    def input(self, shape: Sequence[int], low: float = -2.0, high: float = 2.0) -> str:
        """Add an input of floats."""
        return self._input([self.floats(shape, low, high) for _ in range(SAMPLES)])

    def integers(self, shape: Sequence[int], low: int, high: int, dtype: Any = np.int32) -> str:
        """Add an input of integers from ``low`` to ``high`` - 1, or of booleans."""
        return self._input([self._data.integers(low, high, shape).astype(dtype) for _ in range(SAMPLES)])

    def distinct(self, shape: Sequence[int]) -> str:
        """Add an input of floats, all different."""
        count = math.prod(shape)
        return self._input(
            [
                ((self._data.permutation(count) - count // 2) / 8).reshape(shape).astype(np.float32)
                for _ in range(SAMPLES)
            ]
        )

    def _input(self, samples: list[Any]) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = samples
        return name

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        """Add a constant."""
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(values, dtype)
        return name

    def indices(self, *values: int) -> str:
        """Add a constant list of int64."""
        return self.constant(values, np.int64)

    def weight(self, *shape: int) -> str:
        """Add a constant of floats whose sums stay small."""
        bound = 1.7 / math.sqrt(math.prod(shape[1:]) or 1)
        return self.constant(self.floats(shape, -bound, bound))

    def node(self, type: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output."""
        return self.several(type, inputs, 1, **attributes)[0]

    def several(self, type: str, inputs: Iterable[str], outputs: int, **attributes: Any) -> list[str]:
        """Add a node with several outputs."""
        self._count += 1
        names = [f"v{self._count}_{index}" for index in range(outputs)]
        self.nodes.append((type, list(inputs), names, attributes))
        return names


def draw(kind: str, number: int) -> Draft | None:
    """Return a case of a family; None if its choices make no network."""
    build = FAMILIES.all()[kind]
    case = Draft(kind, number)
    try:
        build(case)
    except Unfit:
        return None
    return case


def prefix(index: int) -> str:
    """Return what names of a case in a network of several begin with."""
    return f"k{index}_"


def network(cases: Sequence[Draft]) -> ModelProto:
    """Return one network of several cases, which share nothing."""
    nodes, inputs, constants, results = [], [], [], []
    for index, case in enumerate(cases):
        start = prefix(index)
        for name, array in case.constants.items():
            constants.append(numpy_helper.from_array(np.ascontiguousarray(array), start + name))
        for name, samples in case.inputs.items():
            kind = helper.np_dtype_to_tensor_dtype(samples[0].dtype)
            inputs.append(helper.make_tensor_value_info(start + name, kind, samples[0].shape))
        read = {name for _, sources, _, _ in case.nodes for name in sources}
        for place, (type, sources, names, attributes) in enumerate(case.nodes):
            sources = [name and start + name for name in sources]
            made = helper.make_node(
                type, sources, [start + name for name in names], f"{start}n{place}", **attributes
            )
            nodes.append(made)
            results += [start + name for name in names if name not in read]
    opset = helper.make_opsetid("", max(case.opset for case in cases))
    graph = helper.make_graph(nodes, "sweep", inputs, [], constants)
    graph.output.extend(helper.make_empty_tensor_value_info(name) for name in results)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
    model = shape_inference.infer_shapes(model)
    for entry in model.graph.output:
        if not entry.type.tensor_type.elem_type:  # GroupNormalization has no inference
            entry.type.tensor_type.elem_type = TensorProto.FLOAT
    return model


def feeds(cases: Sequence[Draft], sample: int) -> Mapping[str, Any]:
    """Return a sample of the inputs of a network of several cases."""
    return {
        prefix(index) + name: samples[sample]
        for index, case in enumerate(cases)
        for name, samples in case.inputs.items()
    }
