"""Random networks, grown node by node with shapes that the engine computes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fuzz.differential import ways
from fuzz.differential.frameworks import Framework, Refused, Undefined
from fuzz.differential.networks import Array, Grid, Network, Node, Tensor

LARGEST = 1e3
"""Largest number of a value, so that sums and powers of a few more nodes stay finite."""
TRIES = 100
"""Nodes that are tried before a network counts as impossible."""
MOST = 4000
"""Numbers of a value."""


class Grower:
    """A network that grows.

    Attributes:
        rng: Source of chance.
        values: Arrays by name of all values that a node may read.
        constants: Constants by name.
    """

    def __init__(self, rng: random.Random, framework: Framework, **fields: Any) -> None:
        self.rng, self.framework = rng, framework
        self.network = Network(framework.name, {}, {}, (), (), **fields)
        self.values: dict[str, Array] = {}
        self.grids: dict[str, Grid | None] = {}
        self.constants: dict[str, Tensor] = {}
        self._count = 0

    def name(self, stem: str = "v") -> str:
        """Return a name of its own."""
        self._count += 1
        return f"{stem}{self._count}"

    def input(self, tensor: Tensor) -> str:
        """Add an input; return its name."""
        name = self.name("x")
        self.network = replace(self.network, inputs=self.network.inputs | {name: tensor})
        self.values[name], self.grids[name] = tensor.array(), tensor.quantization
        return name

    def constant(self, content: Any, dtype: str = "float32", grid: Grid | None = None) -> str:
        """Return the name of a new constant: a ``Tensor`` or its numbers."""
        name = self.name("c")
        array = content if isinstance(content, Tensor) else Tensor.of(np.asarray(content, dtype), grid)
        self.constants[name] = array
        return name

    def weight(self, *shape: int, scale: float | None = None) -> str:
        """Return the name of a new constant of random floats."""
        size = self.rng.choice((0.3, 1.0)) if scale is None else scale
        return self.constant(Tensor("float32", tuple(shape), None, self.rng.randrange(10**6), size))

    def pick(self, accept: Callable[[Array], bool] = lambda _: True) -> str | None:
        """Return a value, mostly one of the last; None if none is accepted."""
        names = [name for name, each in self.values.items() if accept(each)]
        if not names:
            return None
        return self.rng.choice(names[-3:] if self.rng.random() < 0.75 else names)

    def add(
        self,
        op: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Any] | None = None,
        count: int = 1,
        grids: Sequence[Grid | None] = (),
        types: Sequence[str] = (),
    ) -> bool:
        """Add a node if the engine computes usual numbers; return whether it does."""
        node = Node(
            op,
            tuple(inputs),
            tuple(self.name() for _ in range(count)),
            dict(attributes or {}),
            tuple(grids),
            tuple(types),
        )
        added = {name: self.constants[name] for name in inputs if name in self.constants}
        network = replace(self.network, constants=self.network.constants | added)
        values = [
            None if not name else self.values[name] if name in self.values else added[name].array()
            for name in inputs
        ]
        try:
            with np.errstate(all="ignore"):
                results = self.framework.step(network, node, values)
        except (Refused, Undefined):
            return False
        for result in results:
            if not isinstance(result, np.ndarray) or not 0 < result.size <= MOST or result.ndim > 5:
                return False
            if result.dtype.kind == "f" and not np.abs(result.astype(np.float64)).max(initial=0) < LARGEST:
                return False
        self.network = replace(network, nodes=(*network.nodes, node))
        for index, (name, result) in enumerate(zip(node.outputs, results, strict=False)):
            self.values[name] = result
            self.grids[name] = node.quantization[index] if index < len(node.quantization) else None
        return True

    def finished(self) -> Network:
        """Return the network: outputs are values that nobody reads, sometimes one more."""
        read = {name for node in self.network.nodes for name in node.inputs}
        produced = [name for node in self.network.nodes for name in node.outputs if name in self.values]
        outputs = [name for name in produced if name not in read][-4:] or produced[-1:]
        if self.rng.random() < 0.15:
            outputs += [name for name in produced if name not in outputs][:1]
        return replace(self.network, outputs=tuple(outputs), ways=ways.drawn(self.rng)).used()


def grow(grower: Grower, recipes: Sequence[Callable[[Grower], bool]], nodes: int) -> Network:
    """Return a network of about that many nodes.

    Args:
        grower: A network with inputs.
        recipes: Functions that add a node and return whether they did.
        nodes: Number of nodes.

    Raises:
        Undefined: If no recipe fits.
    """
    for step in range(max(nodes, TRIES)):
        if step >= nodes and grower.network.nodes:
            break
        for _ in range(8):
            if grower.rng.choice(recipes)(grower):
                break
    if not grower.network.nodes:
        raise Undefined("no recipe fits the inputs")
    return grower.finished()
