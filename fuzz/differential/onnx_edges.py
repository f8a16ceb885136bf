"""ONNX operators with values at the edge: changed cases of the package onnx."""

from __future__ import annotations

import importlib
import pkgutil
import random
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from fuzz.differential import ways
from fuzz.differential.cases import target
from fuzz.differential.edge_numbers import FLOATS, INTEGERS
from fuzz.differential.every_edge import edge_target
from fuzz.differential.networks import Network, Node, Tensor
from fuzz.differential.onnx_engine import engine
from fuzz.differential.onnx_graphs import RECIPES, begun

MOST = 4000
"""Numbers of all tensors of a case."""
WORDS = {
    "auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "SAME"),
    "mode": (
        *(
            "constant",
            "reflect",
            "edge",
            "wrap",
            "linear",
            "nearest",
            "cubic",
            "bilinear",
            "DCR",
            "CRD",
            "avg",
            "max",
        ),
        *("zeros", "border", "reflection", "bicubic"),
    ),
    "padding_mode": ("zeros", "border", "reflection"),
    "coordinate_transformation_mode": (
        *("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "tf_crop_and_resize"),
        *("half_pixel_symmetric", "output_half_pixel"),
    ),
    "nearest_mode": ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil", "simple"),
    "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
    "direction": ("forward", "reverse", "bidirectional", "LEFT", "RIGHT"),
    "reduction": ("none", "sum", "mean", "add", "mul", "max", "min"),
    "approximate": ("none", "tanh"),
    "equation": ("ij,jk->ik", "ij->ji", "...i->...", "ii->i", "i,i"),
    "activations": (
        "Tanh",
        "Relu",
        "Sigmoid",
        "Affine",
        "LeakyRelu",
        "HardSigmoid",
        "Elu",
        "Softsign",
        "Softplus",
    ),
    "": ("", "none", "sum", "linear", "constant", "nonsense"),
}
RANDOM = {
    "RandomNormal",
    "RandomUniform",
    "RandomNormalLike",
    "RandomUniformLike",
    "Multinomial",
    "Bernoulli",
    "Dropout",
}


@cache
def modules() -> tuple[str, ...]:
    """Return the names of the modules with the package's cases."""
    package = importlib.import_module("onnx.backend.test.case.node")
    names = sorted(info.name for info in pkgutil.iter_modules(package.__path__))
    return tuple(
        name for name in names if not name.startswith(("_", "sequence", "optional", "image", "ai_onnx"))
    )


@cache
def cases(module: str) -> tuple[Network, ...]:
    """Return the cases of a module that are small and consist of tensors."""
    package = importlib.import_module("onnx.backend.test.case.node")
    before = len(package._NodeTestCases)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(f"{package.__name__}.{module}")
    networks = (network_of(each.model, each.data_sets[0][0]) for each in package._NodeTestCases[before:])
    return tuple(each for each in networks if each is not None)


def network_of(model: Any, arrays: Any) -> Network | None:
    """Return a model of the package onnx as a network; None if large or no tensors."""
    nodes, inputs, size = [], {}, 0
    for info, array in zip(model.graph.input, arrays, strict=False):
        if not isinstance(array, np.ndarray | np.generic) or array.dtype.kind not in "biuf":
            return None
        if array.dtype.name not in np.sctypeDict:
            return None
        inputs[info.name] = Tensor.of(array)
        size += array.size
    for node in model.graph.node:
        attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        for name, value in attributes.items():
            plain = _plain(value)
            if plain is None:
                return None
            attributes[name] = plain
        nodes.append(
            Node(node.op_type, tuple(node.input), tuple(node.output), attributes, domain=node.domain)
        )
    if not 0 <= size <= MOST or any(node.domain or node.op in RANDOM for node in nodes):
        return None
    opset = min(next(entry.version for entry in model.opset_import if not entry.domain), 24)
    constants = {
        initializer.name: Tensor.of(numpy_helper.to_array(initializer))
        for initializer in model.graph.initializer
    }
    return Network(
        "onnx",
        inputs,
        constants,
        tuple(nodes),
        tuple(output.name for output in model.graph.output),
        opset=opset,
    )


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, int | float | str):
        return value
    if isinstance(value, onnx.TensorProto):
        tensor = Tensor.of(numpy_helper.to_array(value))
        return {"dtype": tensor.dtype, "shape": list(tensor.shape), "values": list(tensor.values or ())}
    try:
        parts = [_plain(each) for each in value]
    except TypeError:
        return None
    return None if None in parts else parts


def edge(rng: random.Random) -> Network:
    """Return a case with some inputs constant and one or two values at the edge."""
    while not (lot := cases(rng.choice(modules()))):
        continue
    network = replace(_begun(rng, rng.choice(lot)), ways=ways.drawn(rng)[:1])
    for _ in range(rng.choice((0, 1, 1, 1, 1, 2))):
        network = changed(rng, network)
    return network


def _begun(rng: random.Random, network: Network) -> Network:
    """Return a case with some inputs constant."""
    inputs, constants = dict(network.inputs), dict(network.constants)
    for name, each in network.inputs.items():
        share = 0.6 if each.dtype[:3] in ("int", "uin", "boo") or not each.shape else 0.15
        if rng.random() < share:
            constants[name] = inputs.pop(name)
    return replace(network, inputs=inputs, constants=constants, edge=True)


def samples() -> dict[str, list[Network]]:
    """Return networks by operator: cases of the package onnx, else random ones."""
    rng = random.Random(0)
    networks: dict[str, list[Network]] = {}
    for module in modules():
        for case in cases(module):
            if len(case.nodes) == 1:
                networks.setdefault(case.nodes[0].op, []).append(_begun(rng, case))
    own = set(networks)
    for number in range(12):
        for index, recipe in enumerate(RECIPES):
            grower = begun(random.Random(f"{number} {index}"))
            if recipe(grower):
                network = replace(grower.finished(), edge=True, ways=())
                if network.nodes[-1].op not in own:
                    networks.setdefault(network.nodes[-1].op, []).append(network)
    return networks


def changes(network: Network) -> Iterator[Network]:
    """Iterate over networks with one attribute or small constant at the edge."""
    node = network.nodes[-1]
    for name, each in _attributes(node, network.opset).items():
        kind, now = each.type.name, node.attributes.get(name)
        for value in _edge_values(name, kind, now):
            attributes = node.attributes | {name: value}
            yield replace(network, nodes=(*network.nodes[:-1], replace(node, attributes=attributes)))
    for name, tensor in network.constants.items():
        array = tensor.array()
        if array.dtype.kind not in "iuf" or not 0 < array.size <= 32:
            continue
        for value in FLOATS if array.dtype.kind == "f" else dict.fromkeys(INTEGERS):
            if (
                array.dtype.kind != "f"
                and not np.iinfo(array.dtype).min <= value <= np.iinfo(array.dtype).max
            ):
                continue
            for place in {0, array.size - 1}:
                with np.errstate(all="ignore"):
                    other = array.copy()
                    other.flat[place] = value
                yield replace(network, constants=network.constants | {name: Tensor.of(other)})


def _attributes(node: Node, opset: int) -> dict[str, Any]:
    """Return an operator's attributes that are numbers, texts or lists of these."""
    try:
        attributes: dict[str, Any] = onnx.defs.get_schema(node.op, opset, node.domain).attributes
    except onnx.defs.SchemaError:
        return {}
    kinds = ("INT", "INTS", "FLOAT", "FLOATS", "STRING", "STRINGS")
    return {name: each for name, each in sorted(attributes.items()) if each.type.name in kinds}


def _edge_values(name: str, kind: str, now: Any) -> Iterator[Any]:
    if kind.endswith("S"):
        old = list(now) if isinstance(now, list) and now else [1, 1] if kind == "INTS" else []
        yield from ([], old + old[-1:], old[:-1])
        for value in _edge_values(name, kind[:-1], None):
            for place in {0, len(old) - 1} if old else ():
                yield [value if index == place else each for index, each in enumerate(old)]
            yield [value] * max(len(old), 1)
    elif kind == "INT":
        yield from dict.fromkeys((*INTEGERS, *((now + 1, now - 1) if isinstance(now, int) else ())))
    elif kind == "FLOAT":
        yield from FLOATS
    else:
        yield from dict.fromkeys((*WORDS.get(name, ()), *WORDS[""]))


def changed(rng: random.Random, network: Network) -> Network:
    """Return the network with one attribute or small constant at the edge."""
    small = [name for name, each in network.constants.items() if each.values and len(each.values) <= 32]
    if small and rng.random() < 0.35:
        name = rng.choice(small)
        array = network.constants[name].array().copy()
        place = rng.randrange(array.size)
        pool: tuple[Any, ...] = (
            FLOATS if array.dtype.kind == "f" else (0, 1) if array.dtype == bool else INTEGERS
        )
        near = [array.flat[place] + 1, array.flat[place] - 1] if array.dtype.kind == "i" else []
        value = rng.choice((*pool, *near))
        if array.dtype.kind in "iu":
            value = min(max(int(value), np.iinfo(array.dtype).min), np.iinfo(array.dtype).max)
        with np.errstate(all="ignore"):
            array.flat[place] = value
        return replace(network, constants=network.constants | {name: Tensor.of(array)})
    index = rng.randrange(len(network.nodes))
    node = network.nodes[index]
    attributes = _attributes(node, network.opset)
    if not attributes:
        return network
    name = rng.choice(list(attributes))
    value = _edge_value(rng, name, attributes[name].type.name, node.attributes.get(name))
    nodes = list(network.nodes)
    nodes[index] = replace(node, attributes=node.attributes | {name: value})
    return replace(network, nodes=tuple(nodes))


def _edge_value(rng: random.Random, name: str, type: str, now: Any) -> Any:
    if type.endswith("S"):
        old = list(now) if isinstance(now, list) else []
        if old and rng.random() < 0.8:
            place = rng.randrange(len(old))
            old[place] = _edge_value(rng, name, type[:-1], old[place])
            return old
        return [_edge_value(rng, name, type[:-1], None) for _ in range(rng.choice((0, 1, 2, 2, 3, 4)))]
    if type == "INT":
        return rng.choice(
            (*INTEGERS, *((now + 1, now - 1) if isinstance(now, int) and abs(now) < 1 << 60 else ()))
        )
    if type == "FLOAT":
        return float(rng.choice((*FLOATS, *((-now, now * 2) if isinstance(now, float) else ()))))
    return rng.choice(WORDS.get(name, WORDS[""]))


TARGETS = (
    target("onnx-edges", engine, edge, "onnxruntime"),
    edge_target("onnx-operators", engine, samples, changes, changed, "onnxruntime"),
)
