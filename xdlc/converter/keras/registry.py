"""Registry of layer handlers, and readers of their nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xdlc.converter.functions.shapes import cast, vector
from xdlc.converter.keras.calls import Call
from xdlc.converter.keras.layers import EXPORT, Layer
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.registry import Handler, Handlers
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import SOURCE
from xdlc.converter.values import Value
from xdlc.errors import UnsupportedOp
from xdlc.ir.dtype import FLOAT32, from_numpy

_SUFFIXES = ("_initializer", "_regularizer", "_constraint")
_SILENT = """
name trainable dtype batch_input_shape batch_shape seed dropout recurrent_dropout autocast build_config
lora_rank lora_alpha quantization_config ragged implementation input_length gptq_unpacked_column_size
synchronized fused virtual_batch_size flash_attention use_cudnn layers cells layer cell backward_layer
query_shape key_shape
value_shape batch_size
""".split()  # noqa: SIM905 - words
"""Options without meaning at inference, or read already."""
POSITIONAL = {
    "MultiHeadAttention": "query value key query_mask value_mask key_mask attention_mask",
    "GroupQueryAttention": "query value key query_mask value_mask key_mask attention_mask",
    **dict.fromkeys(("LSTM", "GRU", "SimpleRNN", "RNN", "Bidirectional"), "sequences initial_state mask"),
    **dict.fromkeys(("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"), "sequences initial_state mask"),
    "BatchNormalization": "inputs training mask",
}
"""Parameters of calls; the first is the input of a layer."""


def options_of(layer: Layer) -> dict[str, Any]:
    """Return the options of a layer that have a meaning at inference."""
    silent = ("name",) if layer.domain == "ops" else _SILENT
    return {
        name: _plain(value)
        for name, value in layer.config.items()
        if name not in silent and not name.endswith(_SUFFIXES)
    }


def _plain(stored: Any, depth: int = 0) -> Any:
    """Return a value without Keras 2's wrappers of tuples, lists and arrays."""
    if isinstance(stored, list) and depth < 8:
        return [_plain(item, depth + 1) for item in stored]
    if isinstance(stored, dict) and stored.get("class_name") in ("__tuple__", "ListWrapper"):
        return _plain(stored.get("items", stored.get("config")), depth + 1)
    return stored.get("value") if isinstance(stored, dict) and stored.get("type") == "ndarray" else stored


def arguments_of(layer: Layer, call: Call) -> dict[str, Any]:
    """Return a call's arguments after the first by name, without neutral values."""
    words = POSITIONAL.get(layer.kind, "inputs").split()
    if len(call.args) > len(words):
        raise UnsupportedOp(
            f"the layer is called with {len(call.args)} positional arguments, which is too many",
            where=layer.place,
            fix=EXPORT,
        )
    arguments = {**dict(zip(words, call.args, strict=False)), **call.kwargs}
    if not layer.is_old:  # in Keras 3, that of the call of the whole model wins
        arguments.pop("training", None)
    if words[0] not in arguments and "inputs" in arguments:
        words[0] = "inputs"
    first = arguments.pop(words[0], None)
    if isinstance(first, list) and len(first) > 1:
        arguments["inputs"] = first
    return {name: value for name, value in arguments.items() if value is not None and value is not False}


def described(layer: Layer, group: str) -> dict[str, Any]:
    """Return an inner layer of a wrapper in the form that its handler reads."""
    inner = [described(each, each.path[len(layer.path) + 1 :]) for each in layer.inner]
    return {"kind": layer.kind, "group": group, "config": options_of(layer), "inner": inner}


def _refuse(node: Node, _g: Operators) -> Value:
    """Refuse a layer.

    Raises:
        UnsupportedOp: Always.
    """
    if node.domain:
        raise node.problem(f"xdlc does not support the operation {node.type}", EXPORT)
    raise node.problem(
        f"xdlc does not support the layer class {node.type}, which is unknown or custom", EXPORT
    )


_REFUSING = Handler(_refuse, SOURCE, frozenset())


class _KerasHandlers(Handlers):
    def find(self, domain: str, type: str) -> Handler | None:
        """Return the handler of a layer class; unknown classes have a refusing handler."""
        return super().find(domain, type) or _REFUSING

    def knows(self, domain: str, type: str) -> bool:
        """Return whether there is a handler of a layer class."""
        return super().find(domain, type) is not None


handler = _KerasHandlers("xdlc.converter.keras.ops")


DTYPES = dict.fromkeys(("float16", "bfloat16", "float32", "float64"), FLOAT32) | {
    name: from_numpy(np.dtype(name))
    for name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}
"""Types of a DLC by their names in Keras; floats are float32."""


class Operand(NamedTuple):
    """A tensor among the arguments of a call.

    Attributes:
        place: Its position among the inputs of the node.
    """

    place: int


def weight(node: Node, role: str) -> Value | None:
    """Return a weight of a layer; None if the layer has no weight of this role."""
    index = node.attr("weights", {}).get(role)
    return None if index is None else node.required(index)


def required_weight(node: Node, role: str, rank: int | None = None) -> Value:
    """Return a weight of a layer.

    Raises:
        ModelError: If it is missing or has another rank.
    """
    value = weight(node, role)
    if value is None:
        raise node.invalid(f"the layer has no weight {role!r}")
    if rank is not None and value.rank != rank:
        raise node.invalid(f"weight {role!r} has shape {list(value.shape)} instead of rank {rank}")
    return value


def argument(node: Node, name: str) -> Value | None:
    """Return an argument of a call that is a tensor, or None."""
    argument = node.attr(name)
    if argument is None:
        return None
    if not isinstance(argument, Operand):
        raise node.problem(f"argument {name} must be a tensor, but is {argument!r:.40}")
    return node.required(argument.place)


def inputs(node: Node) -> list[Value]:
    """Return the tensors of the first argument of a call."""
    given = node.attr("inputs", [Operand(0)])
    if not all(isinstance(each, Operand) for each in given):
        raise node.problem("an input is not a tensor of the model")
    return [node.required(each.place) for each in given]


def only_input(node: Node) -> Value:
    """Return the one tensor that a layer is called with."""
    return node.required(0)


def as_float(g: Operators, x: Value) -> Value:
    """Return a value as float32, as layers convert their inputs."""
    return x if x.dtype.is_float else cast(g, x, FLOAT32)


def sizes(node: Node, name: str, count: int, default: Any = None) -> list[int]:
    """Return an option of one integer for each of some axes.

    Raises:
        ModelError: If it has another form.
    """
    given = node.attr(name)
    given = default if given is None else given
    found = [given] * count if type(given) is int else given
    if not isinstance(found, list) or len(found) != count or not all(type(each) is int for each in found):
        raise node.invalid(f"{name} is {given!r:.60}, but must have a number for each of {count} axes")
    return found


def number_of(node: Node, name: str, default: float | None = None) -> float:
    """Return an option that is a number.

    Raises:
        ModelError: If it is not a number.
    """
    number = node.attr(name, default)
    number = default if number is None else number
    if isinstance(number, dict):  # an array of numpy
        number = (number.get("config") or {}).get("value")
    if isinstance(number, bool) or not isinstance(number, int | float) or math.isnan(number):
        raise node.invalid(f"{name} is {number!r:.60}, not a number")
    return number


def is_channel_first(node: Node) -> bool:
    """Return whether a layer is channel-first.

    Raises:
        ModelError: If the data format is unknown.
    """
    given = node.attr("data_format", "channels_last")
    if given not in ("channels_last", "channels_first", None):
        raise node.invalid(f"the data_format is unknown: {given!r:.40}")
    return bool(given == "channels_first")


def moved(g: Operators, x: Value, axes: Sequence[int], places: Sequence[int]) -> tuple[Value, list[int]]:
    """Return a value with axes moved, and the permutation that moves them back.

    Args:
        places: Their places in the result.
    """
    rest = [axis for axis in range(x.rank) if axis not in axes]
    there = dict(zip(places, axes, strict=True))
    left = iter(rest)
    order = [there[place] if place in there else next(left) for place in range(x.rank)]
    back = [order.index(axis) for axis in range(x.rank)]
    return (x if order == list(range(x.rank)) else g("Transpose", [x], perm=order)), back


def batched(g: Operators, x: Value, shape: Sequence[int]) -> Value:
    """Return a value reshaped after its first dimension; one may be -1."""
    return g("Reshape", [x, vector(g, [0, *shape])])


def const(g: Operators, value: Any, like: Value | None = None) -> Value:
    """Return a constant, float32 or of the type of another value."""
    return g.builder.const(np.asarray(value, np.float32 if like is None else like.dtype.numpy))
