"""Handlers of recurrent operators; next values of states follow the outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from xdlc.converter.nhwc import recurrent
from xdlc.converter.nhwc.elementwise import clipped
from xdlc.converter.nhwc.recurrent import PARTS, SUMS, Finish, LstmWeights, Rounding, Steps
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tflite.graphs import Operator
from xdlc.converter.tflite.quantized import real_value, rounded_value, stored_value
from xdlc.converter.tflite.registry import handler
from xdlc.converter.tflite.tensors import Quantization, TensorInfo
from xdlc.converter.values import Value

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
    between = operator.intermediates
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
        dict(zip("ifco", (entry._replace(zero=0, bits=16) for entry in sums), strict=True)),
        dict(zip("ifco", (max(1, int(_GUARD * scale)) for scale in scales), strict=True)),
        cell,
        hidden,
        output,
    )


def integer_weights(node: Node, g: Operators, weights: LstmWeights, rounding: Rounding) -> LstmWeights:
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
    parameters = Quantization(np.asarray([steps.scale], np.float32), np.asarray([steps.zero], np.int64))
    return rounded_value(g, value, parameters, np.dtype(f"int{steps.bits}"))


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
_IGNORED = ("asymmetric_quantize_inputs", "kernel_type", "diagonal_recurrent_tensors")
_BASIC = 1
_GATES = "ifco"


def _real(node: Node, g: Operators, tensors: Sequence[TensorInfo | None] = ()) -> list[Value | None]:
    """Return float inputs, with the quantization of other tensors if stated."""
    operator: Operator = node.message
    return [
        value if value is None or info is None else real_value(g, value, info)
        for value, info in zip(node.inputs, tensors or operator.inputs, strict=True)
    ]


def _stored(g: Operators, value: Value, tensor: TensorInfo | None) -> Value:
    return value if tensor is None else stored_value(g, value, tensor)


def _rounded(g: Operators, tensors: Sequence[TensorInfo | None]) -> Finish | None:
    """Return the rounding of states to their tensors; None if none is quantized."""
    if all(tensor is None or tensor.quantization is None for tensor in tensors):
        return None

    def finish(states: Sequence[Value]) -> list[Value]:
        return [
            value if tensor is None else real_value(g, stored_value(g, value, tensor), tensor)
            for value, tensor in zip(states, tensors, strict=True)
        ]

    return finish


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


def _swapped(g: Operators, x: Value, *, swap: bool) -> Value:
    return g("Transpose", [x], perm=[1, 0, 2]) if swap else x


def _weights(node: Node, values: Sequence[Value | None], first: int, norms: int | None = None) -> LstmWeights:
    """Return the weights of an LSTM from the input at ``first`` on.

    Raises:
        ModelError: If a gate other than the input gate lacks weights, or that one half of them.
    """
    for index in (1, 2, 3, 5, 6, 7, *((0, 4) if values[first] is not None else ())):
        _at(node, values, first + index)

    def gates(start: int | None, names: str) -> dict[str, Value | None]:
        if start is None:
            return {}
        return {
            name: values[start + index] if start + index < len(values) else None
            for index, name in enumerate(names)
        }

    activation = _activation(node)
    if activation is None:
        raise node.problem(
            "xdlc does not support an LSTM without an activation, because LiteRT then reads unset memory",
            "convert the model with fused activation TANH",
        )
    projection, bias = gates(first + 15, "pb").values()
    return LstmWeights(
        gates(first, _GATES),
        gates(first + 4, _GATES),
        gates(first + 11, _GATES),
        gates(first + 8, "ifo"),
        gates(norms, _GATES),
        projection,
        bias,
        cell_clip=node.attr("cell_clip", 0.0),
        clip=node.attr("proj_clip", 0.0),
        activation=activation,
    )


@handler("UNIDIRECTIONAL_SEQUENCE_LSTM", ignores=_IGNORED, wraps=False)
def _sequence_lstm(node: Node, g: Operators) -> list[Value]:
    return _full_lstm(node, g, swap=not node.attr("time_major", False))


def _full_lstm(node: Node, g: Operators, *, swap: bool, once: bool = False) -> list[Value]:
    operator: Operator = node.message
    for index in (0, 18, 19):
        _at(node, node.inputs, index)
    rounding = rounding_of(node, g) if operator.outputs[0].quantization is not None else None
    values = _real(node, g, integer_inputs(node) if rounding else ())
    weights = _weights(node, values, 1, 20)
    weights = integer_weights(node, g, weights, rounding) if rounding else weights
    states = [_at(node, values, index) for index in (18, 19)]
    tensors = [operator.inputs[index] for index in (18, 19)]
    x = _at(node, values, 0)
    x = recurrent.front(g, x) if once else _swapped(g, x, swap=swap)
    every, *last = recurrent.lstm(g, x, weights, states, rounding)
    every = last[0] if once else _swapped(g, every, swap=swap)
    return [
        stored_value(g, every, operator.outputs[0]),
        *(_stored(g, value, tensor) for value, tensor in zip(last, tensors, strict=True)),
    ]


@handler("LSTM", ignores=_IGNORED[:1] + _IGNORED[2:], wraps=False)
def _lstm(node: Node, g: Operators) -> list[Value]:
    if node.attr("kernel_type", 0) != _BASIC:
        return _full_lstm(node, g, swap=False, once=True)
    operator: Operator = node.message
    values = _real(node, g)
    x, hidden, weight, bias, cell = (_at(node, values, index) for index in range(5))
    activation = _activation(node)
    if activation != "Tanh" or node.attr("cell_clip", 0.0) or node.attr("proj_clip", 0.0):
        raise node.problem("an LSTM of the basic kernel supports only TANH, without clips")
    joined = g("Concat", [x, hidden], axis=1)
    state = operator.inputs[4] if operator.outputs[0].quantization is not None else None
    memory_steps = None if state is None else steps_of(node, state)

    def kept(value: Value, *places: Steps | None) -> Value:
        for steps in places if state is not None else ():
            value = value if steps is None else rounded(g, value, steps)
        return value

    total = g("Add", [g("MatMul", [joined, g("Transpose", [weight], perm=[1, 0])]), bias])
    total = kept(total, SUMS)
    writing, new, forget, shown = g.apply("Split", [total], {"axis": 1, "num_outputs": 4}, 4)
    writing, forget, shown = (kept(g("Sigmoid", [gate]), PARTS) for gate in (writing, forget, shown))
    added = kept(g("Mul", [writing, kept(g("Tanh", [new]), PARTS)]), PARTS, memory_steps)
    memory = kept(g("Add", [kept(g("Mul", [forget, cell]), memory_steps), added]), memory_steps)
    result = kept(g("Mul", [shown, kept(g("Tanh", [memory]), PARTS)]), PARTS)
    made = [result, memory, joined, total]
    return [stored_value(g, value, info) for value, info in zip(made, operator.outputs, strict=False)]


@handler("BIDIRECTIONAL_SEQUENCE_LSTM", ignores=_IGNORED, wraps=False)
def _two_lstms(node: Node, g: Operators) -> list[Value]:
    values = _real(node, g)
    swap = not node.attr("time_major", True)
    forward, backward = _weights(node, values, 1), _weights(node, values, 18)
    x = _swapped(g, _at(node, values, 0), swap=swap)
    sources = _sources(node, g, values, x, 39, swap=swap)
    runs = []
    for index, weights in enumerate((forward, backward)):
        first = 35 + 2 * index
        states = [_at(node, values, position) for position in (first, first + 1)]
        if len(sources) == 3:
            extra = values[40 + 4 * index : 44 + 4 * index]
            weights = _widened(g, weights, extra)
            source = sources[2]
        else:
            source = sources[index]
        runs.append(recurrent.lstm(g, source, weights, states, reverse=bool(index)))
    return _both(node, g, runs, (35, 36, 37, 38), swap=swap)


def _widened(g: Operators, weights: LstmWeights, extra: Sequence[Value | None]) -> LstmWeights:
    """Return weights for an input joined with an auxiliary one."""
    inputs = {
        gate: value if value is None or more is None else g("Concat", [value, more], axis=1)
        for (gate, value), more in zip(weights.inputs.items(), extra, strict=True)
    }
    return weights._replace(inputs=inputs)


def _sources(
    node: Node, g: Operators, values: Sequence[Value | None], x: Value, at: int, *, swap: bool
) -> list[Value]:
    """Return the inputs of both directions, and an auxiliary one if each has its own."""
    auxiliary = values[at] if at < len(values) else None
    if auxiliary is None:
        return [x, x]
    auxiliary = _swapped(g, auxiliary, swap=swap)
    if all(value is None for value in values[at + 1 :]):
        if not swap:
            return [x, auxiliary]
        g.context.diagnostics.notices.append(
            f"operator {node.own_name!r}: the auxiliary input has no weights; xdlc ignores this input, as "
            "LiteRT does without time_major"
        )
        return [x, x]
    return [x, x, g("Concat", [x, auxiliary], axis=2)]


def _both(
    node: Node, g: Operators, runs: Sequence[Sequence[Value]], states: Sequence[int], *, swap: bool
) -> list[Value]:
    """Return both directions' outputs, joined if requested, and next states."""
    operator: Operator = node.message
    outputs = [_swapped(g, run[0], swap=swap) for run in runs]
    if node.attr("merge_outputs", False):
        outputs = [g("Concat", outputs, axis=2)]
    last = [value for run in runs for value in run[1:]]
    return [
        *(stored_value(g, value, info) for value, info in zip(outputs, operator.outputs, strict=False)),
        *(_stored(g, value, operator.inputs[at]) for value, at in zip(last, states, strict=True)),
    ]


@handler("RNN", ignores=_IGNORED, wraps=False)
def _rnn(node: Node, g: Operators) -> list[Value]:
    return _simple(node, g, swap=False, once=True)


@handler("UNIDIRECTIONAL_SEQUENCE_RNN", ignores=_IGNORED, wraps=False)
def _sequence_rnn(node: Node, g: Operators) -> list[Value]:
    return _simple(node, g, swap=not node.attr("time_major", False))


def _simple(node: Node, g: Operators, *, swap: bool, once: bool = False) -> list[Value]:
    operator: Operator = node.message
    values = _real(node, g)
    x = _at(node, values, 0)
    x = recurrent.front(g, x) if once else _swapped(g, x, swap=swap)
    weights = [_at(node, values, 1), _at(node, values, 2), values[3]]
    tensors = [operator.inputs[4]]
    state, finish = _at(node, values, 4), _rounded(g, tensors)
    every, last = recurrent.rnn(g, x, weights, state, _activation(node), finish)
    result = last if once else _swapped(g, every, swap=swap)
    return [stored_value(g, result, operator.outputs[0]), _stored(g, last, tensors[0])]


@handler("BIDIRECTIONAL_SEQUENCE_RNN", ignores=_IGNORED, wraps=False)
def _two_rnns(node: Node, g: Operators) -> list[Value]:
    operator: Operator = node.message
    values, swap = _real(node, g), not node.attr("time_major", False)
    x = _swapped(g, _at(node, values, 0), swap=swap)
    sources = _sources(node, g, values, x, 9, swap=swap)
    runs = []
    for index, first in enumerate((1, 5)):
        weights = [_at(node, values, first), _at(node, values, first + 1), values[first + 2]]
        if len(sources) == 3:
            weights[0] = g("Concat", [weights[0], _at(node, values, 10 + index)], axis=1)
        finish = _rounded(g, [operator.inputs[first + 3]])
        state = _at(node, values, first + 3)
        source = sources[2] if len(sources) == 3 else sources[index]
        runs.append(recurrent.rnn(g, source, weights, state, _activation(node), finish, reverse=bool(index)))
    return _both(node, g, runs, (4, 8), swap=swap)


@handler("SVDF", ignores=_IGNORED, wraps=False)
def _svdf(node: Node, g: Operators) -> list[Value]:
    operator: Operator = node.message
    values = _real(node, g)
    x, features, times, state = (_at(node, values, index) for index in (0, 1, 2, 4))
    rank, info = node.attr("rank", 0), operator.inputs[4]
    if rank < 1 or times.shape[0] % rank:
        raise node.invalid(f"rank {rank} does not divide its filters")
    result, held = recurrent.svdf(g, x, features, times, values[3], state, rank, _rounded(g, [info]))
    activation = _activation(node)
    if operator.outputs[0].quantization is None:  # integer kernels only clip to the range of the output
        result = recurrent.activated(g, result, activation)
    return [stored_value(g, result, operator.outputs[0]), _stored(g, held, info)]
