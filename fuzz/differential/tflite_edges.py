"""TFLite operators with options, constants and scales at the edge, float and int8."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from fuzz.differential.cases import target
from fuzz.differential.every_edge import edge_target
from fuzz.differential.frameworks import Refused, Undefined
from fuzz.differential.networks import Network, Node, Tensor
from fuzz.differential.tflite_engine import engine
from fuzz.differential.tflite_graphs import RECIPES, begun
from xdlc.converter.tflite.file import options_of

INTEGERS = (0, 0, 1, 2, 3, 4, 5, 7, -1, -2, -7, 64, 1 << 20, (1 << 31) - 1, -(1 << 31))
BYTES = (0, 1, 2, 3, 4, 5, 6, 7, 100, -1)
FLOATS = (0.0, 1.0, -1.0, 0.5, -0.3, 2.0, -2.5, 1e-6, 1e6, 1e30, float("inf"), float("nan"))
LIMITS = {
    "int": INTEGERS,
    "uint": INTEGERS,
    "long": INTEGERS,
    "byte": BYTES,
    "ubyte": BYTES,
    "float": FLOATS,
    "bool": (True, False),
}


def edge(rng: random.Random) -> Network:
    """Return one operator with one or two values at the edge."""
    while True:
        grower = begun(rng, is_int8=rng.random() < 0.4)
        if not rng.choice(RECIPES)(grower):
            continue
        network = replace(grower.finished(), edge=True, ways=())
        for _ in range(rng.choice((1, 1, 2))):
            network = changed(rng, network)
        try:
            values = engine().walk(network, network.feeds())
        except (Refused, Undefined):
            return network
        if all(np.size(each) < 10**5 for each in values.values()):
            return network


def changed(rng: random.Random, network: Network) -> Network:
    """Return the network with an option or an integer constant at the edge."""
    node = network.nodes[-1]
    lists = [
        name
        for name, each in network.constants.items()
        if each.dtype == "int32" and each.quantization is None
    ]
    if lists and rng.random() < 0.4:
        name = rng.choice(lists)
        array = network.constants[name].array().copy()
        if array.size:
            place = rng.randrange(array.size)
            near = int(array.flat[place])
            array.flat[place] = rng.choice((*INTEGERS[:11], near + 1, near - 1))
        return replace(network, constants=network.constants | {name: Tensor.of(array)})
    fields = _fields(node)
    if not fields:
        return network
    field = rng.choice(fields)
    return _with(network, field, rng.choice(LIMITS[field.kind]))


def _fields(node: Node) -> list[Any]:
    """Return an operator's numeric options; LiteRT reads out of bounds by "offset"."""
    table = options_of(node.op)
    return (
        [field for field in table.FIELDS if field.kind in LIMITS and field.name != "offset"] if table else []
    )


def _with(network: Network, field: Any, value: Any) -> Network:
    """Return the network with an option of its last node."""
    node = network.nodes[-1]
    if field.kind == "float" and node.quantization and not abs(value) < 100:
        value = 0.0  # LiteRT makes a fixed-point number of it, which overflows
    if field.kind in ("uint", "ubyte"):
        value = abs(value)
    other = replace(node, attributes=node.attributes | {field.name: value})
    return replace(network, nodes=(*network.nodes[:-1], other))


def samples() -> dict[str, list[Network]]:
    """Return networks of one operator, by operator."""
    networks: dict[str, list[Network]] = {}
    for number in range(48):
        for index, recipe in enumerate(RECIPES):
            grower = begun(random.Random(f"{number} {index}"), is_int8=number % 2 == 1)
            if recipe(grower):
                network = replace(grower.finished(), edge=True, ways=())
                networks.setdefault(network.nodes[-1].op, []).append(network)
    return networks


def changes(network: Network) -> Iterator[Network]:
    """Iterate over networks with one option or integer constant at the edge."""
    for field in _fields(network.nodes[-1]):
        for value in dict.fromkeys(LIMITS[field.kind]):
            yield _with(network, field, value)
    for name, tensor in network.constants.items():
        array = tensor.array()
        if tensor.dtype != "int32" or tensor.quantization is not None:
            continue
        for place in range(min(array.size, 8)):
            for value in dict.fromkeys(INTEGERS):
                other = array.copy()
                other.flat[place] = value
                yield replace(network, constants=network.constants | {name: Tensor.of(other)})


TARGETS = (
    target("tflite-edges", engine, edge, "ai_edge_litert"),
    edge_target("tflite-operators", engine, samples, changes, changed, "ai_edge_litert"),
)
