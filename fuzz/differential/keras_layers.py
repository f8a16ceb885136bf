"""Random Keras networks and configurations at the edge, by Keras on torch."""

from __future__ import annotations

import inspect
import os
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import xdlc
from fuzz.differential import ways
from fuzz.differential.cases import target
from fuzz.differential.every_edge import edge_target
from fuzz.differential.frameworks import Framework, Refused, Undefined
from fuzz.differential.growing import Grower, grow
from fuzz.differential.networks import Array, Network, Node, Tensor

SHAPES = ((2, 6), (1, 8, 4), (2, 5, 3), (1, 6, 6, 4), (1, 5, 8, 3), (2, 4, 4, 4), (1, 4, 4, 4, 2))
MANY = {"Add", "Average", "Concatenate", "Dot", "Maximum", "Minimum", "Multiply", "Subtract", "Attention"}
"""Layers that merge a list of values."""
OMITTED = re.compile(
    "Random|Noise|AlphaDropout|StochasticDepth|Discretization|Normalization$(?<=^Normalization)|TimeDistributed|^RNN$"
)
"""Layers that draw numbers, that hold layers, or that have to be fitted."""
ACTIVATIONS = (
    "relu",
    "tanh",
    "sigmoid",
    "gelu",
    "softmax",
    "elu",
    "selu",
    "silu",
    "hard_sigmoid",
    "linear",
    None,
)
FIELDS: dict[str, tuple[Any, ...]] = {
    "units": (1, 3, 5),
    "filters": (1, 2, 4),
    "kernel_size": (1, 2, 3),
    "pool_size": (1, 2, 3),
    "strides": (1, 1, 2),
    "padding": ("valid", "same", 1, 2),
    "dilation_rate": (1, 1, 2),
    "depth_multiplier": (1, 2),
    "activation": ACTIVATIONS,
    "recurrent_activation": ACTIVATIONS[:3],
    "use_bias": (True, False),
    "data_format": ("channels_last", "channels_first"),
    "axis": (-1, 1, 2, 0, -2),
    "axes": (-1, 1, [1, 2]),
    "axis1": (0, 1),
    "axis2": (1, -1),
    "epsilon": (1e-3, 0.1),
    "center": (True, False),
    "scale": (True, False, 0.5),
    "offset": (0.0, 0.3),
    "groups": (1, 2, -1),
    "return_sequences": (True, False),
    "go_backwards": (True, False),
    "reset_after": (True, False),
    "unroll": (False, True),
    "merge_mode": ("concat", "sum", "ave", "mul"),
    "size": (2, 3),
    "interpolation": ("nearest", "bilinear"),
    "height": (3, 4, 8),
    "width": (3, 5, 8),
    "crop_to_aspect_ratio": (False, True),
    "cropping": (1, 0),
    "target_shape": ([-1], [4, -1]),
    "dims": ([1], [2, 1], [1, 2], [3, 1, 2], [1, 3, 2]),
    "n": (1, 3),
    "negative_slope": (0.0, 0.2),
    "alpha": (1.0, 0.3),
    "beta": (0.5, 1.0),
    "threshold": (0.0, 0.5),
    "threshold_value": (0.0, 0.5),
    "value": (0.0, -1.0),
    "default_value": (0.0, -1.0),
    "max_value": (None, 6.0, 1.0),
    "keepdims": (True, False),
    "keep_dims": (True, False),
    "mask_value": (0.0,),
    "num_heads": (1, 2),
    "key_dim": (2, 3),
    "value_dim": (None, 3),
    "use_scale": (True, False),
    "score_mode": ("dot", "concat"),
    "equation": ("abc,cd->abd", "ab,bc->ac", "abcd,de->abce"),
    "output_shape": (3, (None, 3)),
    "output_size": (1, 2, 3, (2, 3)),
    "shared_axes": (None, [1], [1, 2]),
    "normalize": (False, True),
    "rate": (0.5,),
    "shape": ([-1], [2, -1], [4, 4, -1]),
    "newshape": ([-1], [2, -1]),
    "new_shape": ([-1], [2, -1], [4, 4, -1]),
    "repeats": (2, [1, 2], [2, 1, 1]),
    "shift": (1, -2),
    "k": (1, 2),
    "num_classes": (3,),
    "num_tokens": (3,),
    "dtype": ("float32", "int32", "bool"),
    "lower": (-1.0, -0.3),
    "upper": (1.0, 0.4),
    "x_min": (-1.0, -0.3),
    "x_max": (1.0, 0.4),
    "pad_width": (1, [[0, 0], [1, 2]], [[0, 0], [1, 0], [0, 2]]),
    "mode": ("constant", "reflect", "symmetric"),
    "ord": (1, 2),
    "order": (1, 2),
    "block_size": (2,),
    "blocks": (2,),
    "source": (0, 1),
    "destination": (-1, 1),
    "indices_or_sections": (1, 2, [1], [1, 2]),
    "indices": ([0], [1, 0, -1], 1),
    "approximate": (True, False),
}
"""Values of parameters by name."""
INTEGERS = (0, 0, 1, 2, 3, 5, 7, -1, -2, -3, 64, 1 << 20, (1 << 31) - 1, -(1 << 31))
FLOATS = (0.0, 1.0, -1.0, 0.5, -0.3, 2.0, -2.5, 1e-6, 1e6, -1e6, 1e30, float("inf"), float("nan"))
WORDS = ("same", "valid", "causal", "constant", "bilinear", "bicubic", "area")
ERRORS = (
    RuntimeError,
    ValueError,
    TypeError,
    IndexError,
    KeyError,
    AttributeError,
    ZeroDivisionError,
    OverflowError,
    AssertionError,
)
"""Errors with which Keras and torch refuse a configuration."""


@cache
def types() -> tuple[str, ...]:
    """Return the layers and operations that the importer registers and Keras has."""
    import keras

    from xdlc.converter.keras.registry import handler

    names = set()
    for _, name in handler.all():
        if OMITTED.search(name):
            continue
        if isinstance(getattr(keras.layers, name, None), type):
            names.add(f"layers.{name}")
        function = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
        if callable(getattr(keras.ops, function, None)):
            names.add(f"ops.{function}")
    return tuple(sorted(names))


@cache
def parameters(op: str) -> tuple[dict[str, Any], int]:
    """Return a layer's parameters with defaults, and its number of tensors."""
    import keras

    space, name = op.split(".")
    values: dict[str, Any] = {}
    tensors = 0
    for each in inspect.signature(getattr(getattr(keras, space), name)).parameters.values():
        if space == "ops" and each.name in ("x", "x1", "x2", "inputs", "images", "a", "b", "condition"):
            tensors += 1
        elif each.name in FIELDS and (space == "ops" or each.name != "dtype"):
            values[each.name] = each.default
    return values, tensors


def call(node: Node, values: Sequence[Any]) -> list[Any]:
    """Return the results of a node: numbers, or symbols of a network that is built.

    Weights come from the seed of the node.
    """
    import keras

    space, name = node.op.split(".")
    config = {key: value for key, value in node.attributes.items() if key != "seed"}
    if space == "ops":
        result = getattr(keras.ops, name)(*values, **config)
    else:
        if name == "Bidirectional":
            config["layer"] = keras.layers.GRU(2, return_sequences=True)
        layer = getattr(keras.layers, name)(**config)
        argument = list(values) if name in MANY else values[0]
        result = layer(values[0], values[0]) if name == "MultiHeadAttention" else layer(argument)
        rng = np.random.default_rng(node.attributes.get("seed", 0))
        weights = []
        for variable, array in zip(layer.weights, layer.get_weights(), strict=True):
            drawn = rng.standard_normal(array.shape) * 0.4
            weights.append(np.abs(drawn) + 0.5 if "variance" in variable.path else drawn)
        if weights:
            layer.set_weights(weights)
            if not isinstance(result, keras.KerasTensor):
                result = layer(values[0], values[0]) if name == "MultiHeadAttention" else layer(argument)
    return list(result) if isinstance(result, tuple | list) else [result]


class Keras(Framework):
    """Keras archives."""

    name = "keras"

    def step(self, network: Network, node: Node, values: Sequence[Array | None]) -> list[Array]:
        """Return the results of a layer or an operation."""
        import keras
        import torch

        try:
            with torch.no_grad():
                results = call(node, [keras.ops.convert_to_tensor(each) for each in values])
                return [np.array(keras.ops.convert_to_numpy(each)) for each in results]
        except ERRORS as error:
            raise Refused(f"{type(error).__name__} {error}".split("\n")[0][:300]) from error

    def named(self, network: Network, outputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by place: their names are those of layers."""
        return dict(zip(network.outputs, outputs.values(), strict=False))

    def evaluate(self, network: Network, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return the outputs by Keras on torch, if they have the stated shapes."""
        values = self.walk(network, feeds)
        try:
            stated = self._symbols(network)
        except ERRORS as error:
            raise Undefined(f"Keras has no symbols for it, {type(error).__name__}") from error
        for name, symbol in stated.items():
            if tuple(symbol.shape) != values[name].shape:
                raise Undefined("Keras on torch has another shape than Keras states")
        for node in network.nodes:
            if node.op == "ops.pad" and node.attributes.get("mode") == "symmetric":
                raise Undefined("Keras on torch repeats the edge")
            if "AveragePooling" in node.op and node.attributes.get("padding") == "same":
                raise Undefined("Keras on torch counts the padding of some average pools")
            if node.attributes.get("interpolation") == "bicubic":
                raise Undefined("torch has another cubic kernel than TensorFlow")
            is_flat = node.op == "ops.take" and node.attributes.get("axis") is None
            if is_flat and np.min(node.attributes.get("indices", 0)) < 0:
                raise Undefined("Keras on torch counts negative indices from the first axis")
        return {name: values[name] for name in network.outputs}

    def step_of(self, node: Node, index: int, result: Array) -> float:
        """Return the error of onnxruntime's tanh for recurrences."""
        return 2e-7 if re.search("LSTM|GRU|RNN", node.op) else 0.0

    def convert(self, network: Network, folder: Path, feeds: dict[str, Array]) -> xdlc.Model:
        """Convert the archive of the network."""
        import keras

        keras.backend.clear_session(free_memory=False)  # a collection of garbage takes half a second
        path = folder / "network.keras"
        try:
            values = self._symbols(network)
            outputs = [values[name] for name in network.outputs]
            inputs = [values[name] for name in network.inputs]
            keras.Model(inputs, outputs if len(outputs) > 1 else outputs[0]).save(path)
        except ERRORS as error:
            raise Undefined(f"Keras does not save, {type(error).__name__}") from error
        return xdlc.convert(path, notify=lambda _: None)

    def _symbols(self, network: Network) -> dict[str, Any]:
        import keras

        values = {
            name: keras.Input(batch_shape=each.shape, dtype=each.dtype, name=name)
            for name, each in network.inputs.items()
        }
        for node in network.nodes:
            values |= zip(node.outputs, call(node, [values[name] for name in node.inputs]), strict=False)
        return values


@cache
def engine() -> Keras:
    """Return the framework, with its engine loaded."""
    os.environ["KERAS_BACKEND"] = "torch"
    import keras
    import torch

    torch.set_num_threads(1)
    keras.config.disable_traceback_filtering()
    return Keras()


def any_layer(grower: Grower, op: str = "") -> bool:
    """Add a layer or an operation, if Keras takes its configuration."""
    rng = grower.rng
    op = op or rng.choice(types())
    usual, tensors = parameters(op)
    for _ in range(6):
        x = grower.pick(lambda array: array.ndim > 1)
        if x is None:
            return False
        attributes: dict[str, Any] = {
            key: rng.choice(FIELDS[key])
            for key, default in usual.items()
            if default is inspect.Parameter.empty or rng.random() < 0.3
        }
        attributes["seed"] = rng.randrange(10**6)
        same = [name for name, array in grower.values.items() if array.shape == grower.values[x].shape]
        count = tensors if op.startswith("ops.") else 2 if op.removeprefix("layers.") in MANY else 1
        if op.startswith("ops."):
            attributes.pop("seed")
        inputs = [x, *(rng.choice(same) for _ in range(count - 1))][: max(count, 1)]
        if grower.add(op, inputs, attributes):
            return True
    return False


def graph(rng: random.Random) -> Network:
    """Return a random network."""
    grower = Grower(rng, engine())
    for _ in range(rng.choice((1, 1, 2))):
        grower.input(Tensor("float32", rng.choice(SHAPES), None, rng.randrange(10**6)))
    return grow(grower, [any_layer], rng.choice((1, 2, 3, 4)))


def edge(rng: random.Random) -> Network:
    """Return one layer or operation with a value at the edge that Keras takes."""
    while True:
        grower = Grower(rng, engine(), edge=True)
        for _ in range(rng.choice((1, 2))):
            grower.input(Tensor("float32", rng.choice(SHAPES), None, rng.randrange(10**6)))
        if not any_layer(grower):
            continue
        node = grower.network.nodes[-1]
        names = list(parameters(node.op)[0])
        for _ in range(10 if names else 0):
            key = rng.choice(names)
            value = node.attributes.get(key, parameters(node.op)[0][key])
            changed = replace(node, attributes=node.attributes | {key: _edge_value(rng, value)})
            network = replace(grower.network, nodes=(changed,), outputs=changed.outputs).used()
            try:
                values = [grower.values[name] for name in changed.inputs]
                with np.errstate(all="ignore"):
                    results = engine().step(network, changed, values)
            except (Refused, Undefined):
                continue
            if sum(each.size for each in results) < 10**5:
                outputs = changed.outputs[: len(results)]
                return replace(network, outputs=outputs, ways=ways.drawn(rng)[:1])


def samples() -> dict[str, list[Network]]:
    """Return networks of one layer or operation, by type."""
    networks: dict[str, list[Network]] = {}
    for op in types():
        for number in range(8):
            grower = Grower(random.Random(f"{op} {number}"), engine(), edge=True)
            for _ in range(2):
                grower.input(Tensor("float32", grower.rng.choice(SHAPES), None, number))
            if any_layer(grower, op):
                networks.setdefault(op, []).append(replace(grower.finished(), ways=()))
    return networks


def changes(network: Network) -> Iterator[Network]:
    """Iterate over the network with one parameter at the edge."""
    node = network.nodes[-1]
    for name, default in parameters(node.op)[0].items():
        now = node.attributes.get(name, default)
        likely = (
            FLOATS if isinstance(now, float) else (*INTEGERS, True, False) if isinstance(now, int) else ()
        )
        texts = ACTIVATIONS if "activation" in name else WORDS
        for value in (*FIELDS[name], *(likely or (*INTEGERS[:8], *FLOATS[:8], *texts)), []):
            yield replace(network, nodes=(replace(node, attributes=node.attributes | {name: value}),))


def changed(rng: random.Random, network: Network) -> Network:
    """Return the network with a parameter at the edge."""
    node = network.nodes[-1]
    usual = parameters(node.op)[0]
    if not usual:
        return network
    key = rng.choice(list(usual))
    value = _edge_value(rng, node.attributes.get(key, usual[key]))
    return replace(network, nodes=(replace(node, attributes=node.attributes | {key: value}),))


def _edge_value(rng: random.Random, value: Any) -> Any:
    if isinstance(value, list | tuple) and value:
        place = rng.randrange(len(value))
        return [_edge_value(rng, each) if index == place else each for index, each in enumerate(value)]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((*INTEGERS, [value, value + 1], value + 1))
    if isinstance(value, float):
        return rng.choice((*FLOATS, -value))
    return rng.choice(
        (
            *INTEGERS[:8],
            *FLOATS[:8],
            *ACTIVATIONS,
            *WORDS,
        )
    )


TARGETS = (
    target("keras-graphs", engine, graph, "keras", "torch", seconds=20),
    target("keras-edges", engine, edge, "keras", "torch", seconds=20),
    edge_target("keras-operators", engine, samples, changes, changed, "keras", "torch"),
)
