"""Handlers of recurrent operators; next values of states follow the outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from xdlc.converter import fixed_point
from xdlc.converter.functions.elementwise import clipped
from xdlc.converter.functions.lstm import PARTS, SUMS, Finish, Rounding, Steps, activated, lstm, rnn
from xdlc.converter.functions.products import dense
from xdlc.converter.functions.recurrence import NONE, Gates, Weights, front, lstm_cell
from xdlc.converter.functions.shapes import dims, reshape
from xdlc.converter.functions.terms import Term
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tflite.graphs import Operator
from xdlc.converter.tflite.quantized import restored_value, stored_value
from xdlc.converter.tflite.registry import handler
from xdlc.converter.tflite.tensors import Quantization, TensorInfo
from xdlc.converter.tflite.variables import STATES
from xdlc.converter.values import Value
from xdlc.ir import ScaleOffset
from xdlc.ir.dtype import UFIXED8, UFIXED16
from xdlc.opdefs.cells import ORDERS

_NORM_BITS = 10
"""Fractional bits of normalized values, in which biases of layer norms count too."""
_GUARD = 10_000
"""Smallest variance per scale of the weights of a layer norm."""


def integer_inputs(node: Node) -> list[TensorInfo | None]:
    """Return the inputs, biases with the scales that the kernel reads them with."""
    operator: Operator = node.message
    tensors = list(operator.inputs)
    x = _scale(node, operator.inputs[0])
    for index in range(4):
        norm = tensors[20 + index] if len(tensors) > 20 + index else None
        weight = tensors[1 + index]
        if norm is not None:
            _rescale(tensors, 12 + index, _scale(node, norm) / (1 << _NORM_BITS))
        elif weight is not None:
            _rescale(tensors, 12 + index, x * _scale(node, weight))
    if tensors[16] is not None:
        _rescale(tensors, 17, _scale(node, tensors[16]) * steps_of(node, operator.intermediates[4]).scale)
    return tensors


def rounding_of(node: Node, g: Operators) -> Rounding:
    """Return the roundings of a step.

    Raises:
        UnsupportedOp: If the operator is one for another kernel.
        ModelError: If a tensor that the kernel reads integers of is not quantized.
    """
    operator: Operator = node.message
    between, gates = operator.intermediates, ORDERS["LSTM"]["TFLite"]
    if len(between) != 5:
        raise node.problem(
            f"an integer LSTM has {len(between)} intermediate tensors instead of 5",
            "convert the model again with a current converter, or without quantization",
        )
    output, cell = steps_of(node, operator.outputs[0]), steps_of(node, operator.inputs[19])
    norms = operator.inputs[20:24]
    scales = [0.0 if norm is None else _scale(node, norm) for norm in norms] or [0.0] * 4
    sums = [steps_of(node, tensor) if any(scales) else SUMS for tensor in between[:4]]
    hidden = output
    if operator.inputs[16] is not None:
        hidden = steps_of(node, between[4])
        hidden = hidden._replace(zero=-hidden.zero)  # so does LiteRT store them

    return Rounding(
        partial(rounded, g),
        dict(zip(gates, (entry._replace(zero=0, bits=16) for entry in sums), strict=True)),
        dict(zip(gates, (max(1, int(_GUARD * scale)) for scale in scales), strict=True)),
        cell,
        hidden,
        output,
    )


def integer_weights(node: Node, g: Operators, weights: Weights, rounding: Rounding) -> Weights:
    """Return weights with whole steps as bounds, and peepholes padded to the outputs."""
    outputs, units = (node.message.inputs[index].shape[-1] for index in (18, 19))
    mask = g.builder.const((np.arange(units) < outputs).astype(np.float32))
    peepholes = {
        gate: value if value is None or outputs == units else g("Mul", [value, mask])
        for gate, value in weights.peepholes.items()
    }
    return weights._replace(
        cell_clip=_whole(weights.cell_clip, rounding.cell),
        clip=_whole(weights.clip, rounding.output),
        peepholes=peepholes,
    )


def rounded(g: Operators, value: Value, steps: Steps) -> Value:
    """Return values rounded to integers; to 16 bits if none of their type denotes 0."""
    low, high = (limit - steps.zero for limit in _limits(steps.bits))
    if not low <= 0 <= high:
        value = clipped(g, value, low * steps.scale, high * steps.scale)
        steps = Steps(steps.scale)
    encoding = ScaleOffset(steps.scale, _limits(steps.bits)[0] - steps.zero)
    dtype = UFIXED8 if steps.bits == 8 else UFIXED16
    stored = fixed_point.rounded(g.builder, value, (dtype, encoding))
    return fixed_point.restored(g.builder, stored.real)


def _limits(bits: int) -> tuple[int, int]:
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _whole(bound: float, steps: Steps) -> float:
    return int(min(bound / steps.scale, _limits(steps.bits)[1])) * steps.scale if bound > 0 else 0.0


def _rescale(tensors: list[TensorInfo | None], index: int, scale: float) -> None:
    tensor = tensors[index]
    if tensor is not None:
        parameters = Quantization(np.asarray([scale], np.float32), np.zeros(1, np.int64))
        tensors[index] = replace(tensor, quantization=parameters)


def _scale(node: Node, tensor: TensorInfo | None) -> float:
    return steps_of(node, tensor).scale


def steps_of(node: Node, tensor: TensorInfo | None) -> Steps:
    """Return the integers of a tensor.

    Raises:
        ModelError: If it is not quantized with one scale.
    """
    quantization = tensor.quantization if tensor is not None else None
    if tensor is None or quantization is None or quantization.scales.size != 1:
        name = "an input that the LSTM needs" if tensor is None else repr(tensor.name)
        raise node.invalid(f"an integer LSTM reads {name}, which does not have exactly one scale")
    return Steps(
        float(quantization.scales.reshape(-1)[0]),
        int(quantization.zero_points.reshape(-1)[0]),
        tensor.dtype.itemsize * 8,
    )


_ACTIVATIONS = {0: None, 1: "Relu", 2: "ReluN1To1", 3: "Relu6", 4: "Tanh"}
_IGNORED = ("asymmetric_quantize_inputs", "diagonal_recurrent_tensors")
_BASIC = 1
_LSTM_NORMS = 20
_WEIGHTS = {
    "LSTM": [1],
    "UNIDIRECTIONAL_SEQUENCE_LSTM": [1],
    "BIDIRECTIONAL_SEQUENCE_LSTM": [1, 18],
    "RNN": [1],
    "UNIDIRECTIONAL_SEQUENCE_RNN": [1],
    "BIDIRECTIONAL_SEQUENCE_RNN": [1, 5],
}
"""Positions of the first weights of each direction."""
_AUXILIARY = {"BIDIRECTIONAL_SEQUENCE_LSTM": (39, 4), "BIDIRECTIONAL_SEQUENCE_RNN": (9, 1)}
"""Position of an auxiliary input, which the weights of each direction follow, and their number."""


def _real(node: Node, g: Operators, tensors: Sequence[TensorInfo | None] = ()) -> list[Value | None]:
    """Return float inputs, with the quantization of other tensors if stated."""
    operator: Operator = node.message
    return [
        value if value is None or info is None else restored_value(g, value, info)
        for value, info in zip(node.inputs, tensors or operator.inputs, strict=True)
    ]


def _stored(g: Operators, values: Sequence[Value], tensors: Sequence[TensorInfo | None]) -> list[Value]:
    """Return values as the integers of tensors that are quantized."""
    return [
        value if tensor is None else stored_value(g, value, tensor)
        for value, tensor in zip(values, tensors, strict=False)
    ]


def _rounded(g: Operators, tensor: TensorInfo | None) -> Finish | None:
    """Return the rounding of a state to its tensor; None if that is not quantized."""
    if tensor is None or tensor.quantization is None:
        return None
    return lambda state: restored_value(g, stored_value(g, state, tensor), tensor)


def _activation(node: Node) -> str | None:
    number = node.attr("fused_activation_function", 0)
    if number not in _ACTIVATIONS:
        raise node.problem(f"xdlc does not support fused activation {number}")
    return _ACTIVATIONS[number]


def _at(node: Node, values: Sequence[Value | None], index: int) -> Value:
    value = values[index] if index < len(values) else None
    if value is None:
        raise node.invalid(f"input {index} is missing")
    return value


def _weights(node: Node, values: Sequence[Value | None], first: int) -> Weights:
    """Return the weights of a direction from the input at ``first`` on.

    Raises:
        ModelError: If a gate other than the input gate lacks weights, or that one half of them.
    """
    activation = _activation(node)
    if "RNN" in node.type:
        weight, recurrence = (_at(node, values, first + index) for index in (0, 1))
        return Weights({"n": weight}, {"n": recurrence}, {"n": values[first + 2]}, activation=activation)
    for index in (1, 2, 3, 5, 6, 7, *((0, 4) if values[first] is not None else ())):
        _at(node, values, first + index)
    if activation is None:
        raise node.problem(
            "xdlc does not support an LSTM without an activation, because LiteRT then reads unset memory",
            "convert the model with fused activation TANH",
        )
    order = ORDERS["LSTM"]["TFLite"]

    def gates(start: int, names: str = order) -> Gates:
        return dict(zip(names, values[start : start + len(names)], strict=False))

    return Weights(
        gates(first),
        gates(first + 4),
        gates(first + 11),
        peepholes=gates(first + 8, order.replace("c", "")),
        norms=NONE if node.type in _AUXILIARY else gates(_LSTM_NORMS),
        projection=values[first + 15],
        projection_bias=values[first + 16],
        cell_clip=node.attr("cell_clip", 0.0),
        clip=node.attr("proj_clip", 0.0),
        activation=activation,
    )


@handler(*_WEIGHTS, ignores=_IGNORED, wraps=False)
def _recurrent(node: Node, g: Operators) -> list[Value]:
    """Return hidden states of each direction, and the next states."""
    operator: Operator = node.message
    if node.attr("kernel_type", 0) == _BASIC:
        return _basic_lstm(node, g)
    ways, is_lstm, is_step = _WEIGHTS[node.type], "LSTM" in node.type, node.type in ("LSTM", "RNN")
    for index in (0, *STATES[node.type]):
        _at(node, node.inputs, index)
    is_integer = is_lstm and len(ways) == 1 and operator.outputs[0].quantization is not None
    rounding = rounding_of(node, g) if is_integer else None
    values = _real(node, g, integer_inputs(node) if rounding else ())
    swap = not is_step and not node.attr("time_major", node.type == "BIDIRECTIONAL_SEQUENCE_LSTM")

    def swapped_axes(x: Value) -> Value:
        return g("Transpose", [x], perm=[1, 0, 2]) if swap else x

    x = _at(node, values, 0)
    auxiliary = _auxiliary(node, g, values, swap=swap)
    x, auxiliary = front(g, x) if is_step else swapped_axes(x), auxiliary and swapped_axes(auxiliary)
    tensors = [operator.inputs[place] for place in STATES[node.type]]
    states = [_at(node, values, place) for place in STATES[node.type]]
    count = len(states) // len(ways)
    outputs, lasts = list[Value](), list[Value]()
    for index, first in enumerate(ways):
        weights, own = _weights(node, values, first), states[index * count : (index + 1) * count]
        source = x
        if auxiliary is not None:
            source, weights = _joined(node, g, values, weights, [x, auxiliary], index)
        if is_lstm:
            weights = integer_weights(node, g, weights, rounding) if rounding else weights
            every, *last = lstm(g, source, weights, own, rounding, reverse=bool(index))
        else:
            finish = _rounded(g, tensors[index])
            every, *last = rnn(g, source, weights, own[0], finish, reverse=bool(index))
        outputs.append(last[0] if is_step else swapped_axes(every))
        lasts += last
    if len(ways) > 1 and node.attr("merge_outputs", False):
        outputs = [g("Concat", outputs, axis=2)]
    return [*_stored(g, outputs, operator.outputs), *_stored(g, lasts, tensors)]


def _auxiliary(node: Node, g: Operators, values: Sequence[Value | None], *, swap: bool) -> Value | None:
    """Return the auxiliary input, if an operator has one and reads it."""
    place, _ = _AUXILIARY.get(node.type, (len(values), 0))
    auxiliary = values[place] if place < len(values) else None
    if auxiliary is None or not swap or any(value is not None for value in values[place + 1 :]):
        return auxiliary
    g.context.diagnostics.notices.append(
        f"operator {node.own_name!r}: the auxiliary input has no weights; xdlc ignores this input, as "
        "LiteRT does without time_major"
    )
    return None


def _joined(
    node: Node,
    g: Operators,
    values: Sequence[Value | None],
    weights: Weights,
    sources: Sequence[Value],
    index: int,
) -> tuple[Value, Weights]:
    """Return the input of a direction and its weights, joined with auxiliary ones.

    Without weights the auxiliary input is the input of the second direction.
    """
    place, count = _AUXILIARY[node.type]
    if all(value is None for value in values[place + 1 :]):
        return sources[index], weights
    extra = values[place + 1 + count * index :][:count]
    inputs = {
        gate: value if value is None or more is None else g("Concat", [value, more], axis=1)
        for (gate, value), more in zip(weights.inputs.items(), extra, strict=True)
    }
    return g("Concat", sources, axis=2), weights._replace(inputs=inputs)


def _basic_lstm(node: Node, g: Operators) -> list[Value]:
    """Apply a step of the basic kernel, which has joined weights."""
    operator: Operator = node.message
    values = _real(node, g)
    x, hidden, weight, bias, cell = (_at(node, values, index) for index in range(5))
    if _activation(node) != "Tanh" or node.attr("cell_clip", 0.0) or node.attr("proj_clip", 0.0):
        raise node.problem("an LSTM of the basic kernel supports only TANH, without clips")
    joined = g("Concat", [x, hidden], axis=1)
    is_integer = operator.outputs[0].quantization is not None
    memory = [steps_of(node, operator.inputs[4])] if is_integer else []
    places = {"sums": [SUMS], "kept": memory, "added": [PARTS, *memory], "cell": memory}

    def keep(name: str, value: Term) -> Term:
        for steps in places.get(name, [PARTS]) if memory else ():
            value = Term(g, rounded(g, value.value, steps))
        return value

    total = keep("sums", Term(g, dense(g, joined, weight, bias))).value
    results = [*lstm_cell(g, total, cell, "TFLite basic", keep=keep), joined, total]
    return _stored(g, results, operator.outputs)


@handler("SVDF", ignores=_IGNORED, wraps=False)
def _svdf(node: Node, g: Operators) -> list[Value]:
    """Filter the last ``memory`` products of features by weights of time.

    Features are [filters, width].  The state [B, filters * memory] holds the products; ``rank`` filters make
    a unit.
    """
    operator: Operator = node.message
    values = _real(node, g)
    x, features, times, state = (_at(node, values, index) for index in (0, 1, 2, 4))
    rank, info = node.attr("rank", 0), operator.inputs[4]
    if rank < 1 or times.shape[0] % rank:
        raise node.invalid(f"rank {rank} does not divide its filters")
    batch, (filters, memory), finish = dims(x)[0], dims(times), _rounded(g, info)
    product = dense(g, x, features)
    product = product if finish is None else finish(product)
    new = reshape(g, product, (batch, filters, 1))
    before = reshape(g, state, (batch, filters, memory))
    kept = g("Slice", [before, *([number] for number in (1, memory, 2))])
    window = g("Concat", [kept, new], axis=2) if memory > 1 else new
    total = (Term(g, window) * times)("ReduceSum", [2], keepdims=0)
    if rank > 1:
        total = Term(g, reshape(g, total.value, (batch, filters // rank, rank)))
        total = total("ReduceSum", [2], keepdims=0)
    total = total if values[3] is None else total + values[3]
    activation = _activation(node)
    if operator.outputs[0].quantization is None:  # integer kernels only clip to the range of the output
        total = activated(total, activation)
    states = reshape(g, window, (batch, filters * memory))
    return _stored(g, [total.value, states], [operator.outputs[0], info])
