"""Smaller networks to try in place of one that is a finding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fuzz.differential.frameworks import Framework, Refused, Undefined
from fuzz.differential.networks import Array, Network, Tensor

MOST_VALUES = 4096
"""Numbers of an input that stands for a removed node."""


def smaller(framework: Framework, network: Network) -> Iterator[Network]:
    """Iterate over smaller networks, larger steps first; the engine may refuse some."""
    try:
        values = framework.walk(network, network.feeds())
    except (Refused, Undefined):
        values = {}
    seen = {network.files()["network.json"]}
    for each in _candidates(network, values):
        if (text := each.used().files()["network.json"]) not in seen and each.nodes:
            seen.add(text)
            yield each.used()


def _candidates(network: Network, values: Mapping[str, Array]) -> Iterator[Network]:
    for name in network.outputs if len(network.outputs) > 1 else ():
        yield replace(network, outputs=(name,))
    for way in network.ways if len(network.ways) > 1 else ():
        yield replace(network, ways=(way,))
    for node in network.nodes[:-1]:  # what is behind a node goes
        yield replace(network, outputs=tuple(name for name in node.outputs if name)[:1])
    for index in reversed(range(len(network.nodes) - 1)):  # the node becomes an input
        yield from _without(network, index, values)
    for index, node in enumerate(network.nodes):  # its first input takes its place
        yield from _bypassed(network, index, values)
        for name in node.attributes:
            attributes = {key: each for key, each in node.attributes.items() if key != name}
            yield _changed(network, index, attributes=attributes)
        if node.inputs and len(node.inputs) > 1:
            yield _changed(network, index, inputs=node.inputs[:-1])
    for size in sorted(
        {size for each in network.inputs.values() for size in each.shape if size > 1}, reverse=True
    ):
        for less in sorted({1, 2, size // 2, size - 1} - {0, size}):
            yield _resized(network, size, less)
    for part in ("inputs", "constants"):
        for name, tensor in getattr(network, part).items():
            for simple in _simple(tensor):
                yield replace(network, **{part: getattr(network, part) | {name: simple}})
    for index, node in enumerate(network.nodes):
        for name, value in node.attributes.items():
            for other in _plain(value):
                yield _changed(network, index, attributes=node.attributes | {name: other})


def _without(network: Network, index: int, values: Mapping[str, Array]) -> Iterator[Network]:
    node = network.nodes[index]
    names = [name for name in node.outputs if name]
    if set(names) & set(network.outputs) or not all(name in values for name in names):
        return
    arrays = [np.asarray(values[name]) for name in names]
    if sum(array.size for array in arrays) > MOST_VALUES:
        return
    rest = network.nodes[:index] + network.nodes[index + 1 :]
    grids = {name: grid for name, grid in zip(node.outputs, node.quantization, strict=False) if name}
    exact = {name: Tensor.of(array, grids.get(name)) for name, array in zip(names, arrays, strict=True)}
    random = {
        name: replace(tensor, values=None) if tensor.dtype.startswith("float") else tensor
        for name, tensor in exact.items()
    }
    for inputs in (random, exact):
        yield replace(network, nodes=rest, inputs=network.inputs | inputs)


def _bypassed(network: Network, index: int, values: Mapping[str, Array]) -> Iterator[Network]:
    node = network.nodes[index]
    for name in node.inputs:
        result = values.get(node.outputs[0])
        if name not in values or result is None or node.outputs[0] in network.outputs:
            continue
        if (values[name].shape, values[name].dtype) == (result.shape, result.dtype):
            nodes = tuple(
                replace(each, inputs=tuple(name if one == node.outputs[0] else one for one in each.inputs))
                for each in network.nodes[:index] + network.nodes[index + 1 :]
            )
            yield replace(network, nodes=nodes)


def _changed(network: Network, index: int, **fields: Any) -> Network:
    nodes = list(network.nodes)
    nodes[index] = replace(nodes[index], **fields)
    return replace(network, nodes=tuple(nodes))


def _resized(network: Network, size: int, less: int) -> Network:
    """Return the network with one size in place of another, everywhere."""

    def tensor(source: Tensor) -> Tensor:
        shape = tuple(less if dim == size else dim for dim in source.shape)
        if source.values is None:
            return replace(source, shape=shape)
        array = source.array()
        if array.dtype.kind in "iu" and array.ndim < 2:  # shapes
            array = np.where(array == size, less, array).astype(array.dtype)
        if shape != source.shape:
            array = array[tuple(slice(0, dim) for dim in shape)] if less < size else array
        return replace(Tensor.of(array, source.quantization))

    def number(value: Any) -> Any:
        if isinstance(value, list):
            return [number(item) for item in value]
        return less if type(value) is int and value == size else value

    nodes = tuple(
        replace(node, attributes={name: number(value) for name, value in node.attributes.items()})
        for node in network.nodes
    )
    return replace(
        network,
        inputs={name: tensor(source) for name, source in network.inputs.items()},
        constants={name: tensor(source) for name, source in network.constants.items()},
        nodes=nodes,
        sizes={
            name: tuple(less if dim == size else dim for dim in sizes)
            for name, sizes in network.sizes.items()
        },
    )


def _simple(tensor: Tensor) -> Iterator[Tensor]:
    """Iterate over tensors of the same shape and simpler content."""
    array = tensor.array()
    if array.dtype.kind not in "fiu":
        return
    if array.dtype.kind == "f" and tensor.values is not None and array.size > 8:
        yield replace(tensor, values=None, seed=0, scale=1.0)
    if array.size <= 64:
        for simple in (np.zeros_like(array), np.ones_like(array)):
            if not np.array_equal(simple, array, equal_nan=True):
                yield Tensor.of(simple, tensor.quantization)
        if array.dtype.kind == "f" and np.isfinite(array).all():
            with np.errstate(all="ignore"):
                rounded = array.astype(np.float64).round(1).astype(array.dtype)
            if tensor.values is None or not np.array_equal(rounded, array):
                yield Tensor.of(rounded, tensor.quantization)
    elif tensor.values is None and tensor.scale != 1:
        yield replace(tensor, scale=1.0)


def _plain(value: Any) -> Iterator[Any]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    for other in (0, 1, -1, round(value) if np.isfinite(value) else 0):
        if abs(other) < abs(value):
            yield type(value)(other)
