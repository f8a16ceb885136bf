"""RNN, GRU and LSTM: one QNN op for each direction, or unrolled steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.functions.elementwise import clipped
from xdlc.converter.functions.gathering import reverse_sequence, split_evenly
from xdlc.converter.functions.products import dense
from xdlc.converter.functions.recurrence import LIMIT, Function, cell_step, unrolled
from xdlc.converter.functions.shapes import reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.ops._compose import cut, joined, part
from xdlc.converter.values import Value, check_table, identity
from xdlc.ir import TensorData
from xdlc.ir.data import Array
from xdlc.opdefs.cells import GATES, OPERATIONS, ORDERS, Operation

_WAYS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
_ACTIVATIONS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
_STATES = {"RNN": {"hidden": 5}, "GRU": {"hidden": 5}, "LSTM": {"hidden": 5, "cell": 6}}
"""Positions of the inputs that hold initial states."""


@importer("RNN", "GRU", "LSTM", since=7)
def recurrence(node: Node, g: Operators) -> list[Value]:
    """Map each direction onto one QNN op; unroll the forms that QNN lacks."""
    if not node.flag("layout"):
        return _time_major(node, g)
    b, swapped = g.builder, {0, *_STATES[node.type].values()}
    inputs = [
        b.transpose(value, (1, 0, 2)) if value is not None and index in swapped else value
        for index, value in enumerate(node.inputs)
    ]
    every, *last = _time_major(replace(node, inputs=inputs), g)
    return [b.transpose(every, (2, 0, 1, 3)), *(b.transpose(value, (1, 0, 2)) for value in last)]


def _time_major(node: Node, g: Operators) -> list[Value]:
    """Return hidden states [T, D, N, H] and the last of each state [D, N, H]."""
    x, b = node.required(0), g.builder
    if x.rank != 3:
        raise node.invalid(f"the input has rank {x.rank} instead of 3")
    steps, batch, _ = x.shape
    (ways, units), operation = _checked(node), OPERATIONS.get(node.type)
    names = [name.lower() for name in node.attr("activations") or []]
    is_usual = names in ([], [name.lower() for name in _ACTIVATIONS[node.type]] * len(ways))
    is_coupled, is_after = node.flag("input_forget"), node.flag("linear_before_reset")
    weights = [node.input(position) for position in (1, 2, 3, 7)]
    are_static = all(value is None or value.is_static for value in weights)
    is_offered = is_usual and are_static and not is_coupled
    is_whole = steps > 0 and _lengths(node, steps, batch) is None and node.attr("clip") is None
    if operation and is_offered and is_whole:
        params = {"linear_before_reset": ir.u32(int(is_after))} if node.type == "GRU" else _LSTM
        runs = [_direct(node, b, operation, params, units, *way) for way in enumerate(ways)]
    elif not 0 < steps <= LIMIT:
        raise node.problem(
            f"the sequence has {steps} steps; QNN has no such recurrence, and xdlc unrolls at most "
            f"{LIMIT} steps",
            "shorten the sequence, or run this part of the model on the host",
        )
    else:
        form: dict[str, Any] = {"missing": "f" if is_coupled else "", "after": is_after}
        functions = zip(_functions(node, len(ways)), enumerate(ways), strict=True)
        runs = [_unrolled(node, g, function, *way, **form) for function, way in functions]
    every, *last = zip(*runs, strict=True)
    return [_all_ways(b, every), *(joined(b, states, 0) for states in last)]


def _lengths(node: Node, steps: int, batch: int) -> Array | None:
    """Return the lengths of the sequences, or None if all are whole."""
    stated = node.static(4, "the sequence lengths")
    if stated is None:
        return None
    if stated.size != batch or stated.min(initial=0) < 0 or stated.max(initial=0) > steps:
        raise node.invalid(
            f"sequence lengths {stated.tolist()} do not fit {batch} sequences of {steps} steps"
        )
    if stated.min(initial=1) == 0:
        raise node.problem("xdlc does not support empty sequences: ONNX does not define their last state")
    return None if np.all(stated == steps) else stated.reshape(-1).astype(np.int64)


def _checked(node: Node) -> tuple[tuple[bool, ...], int]:
    """Return if each direction runs backwards, and the number of hidden units.

    Raises:
        ModelError: If a weight does not fit.
    """
    name, gates = node.attr("direction", "forward"), len(ORDERS[node.type]["ONNX"])
    if name not in _WAYS:
        raise node.invalid(f"direction {name!r} is unknown; use forward, reverse or bidirectional")
    weight, recurrence, bias, peepholes = node.required(1), node.required(2), node.input(3), node.input(7)
    ways, units = len(_WAYS[name]), recurrence.shape[-1] if recurrence.rank else 0
    rows = gates * units
    if node.attr("hidden_size") not in (None, units):
        raise node.invalid(f"hidden_size is {node.attr('hidden_size')}, but the weights have {units} units")
    if weight.shape != (ways, rows, node.required(0).shape[2]) or recurrence.shape != (ways, rows, units):
        raise node.invalid(
            f"weights {list(weight.shape)} and {list(recurrence.shape)} do not fit {gates} gates"
        )
    if bias is not None and bias.shape != (ways, 2 * rows):
        raise node.invalid(f"biases {list(bias.shape)} do not fit {gates} gates of {units} units")
    if peepholes is not None and peepholes.shape != (ways, 3 * units):
        raise node.invalid(f"peepholes {list(peepholes.shape)} do not fit 3 gates of {units} units")
    return _WAYS[name], units


def _all_ways(b: Builder, runs: Sequence[Value]) -> Value:
    """Return the hidden states [T, D, N, H] of all directions from [T, N, H] of each.

    The directions lie side by side in each step, as the next layer reads them.
    """
    steps, batch, units = runs[0].shape
    whole = joined(b, runs, 2)
    return b.transpose(b.reshape(whole, (steps, batch, len(runs), units)), (0, 2, 1, 3))


def _initial(node: Node, b: Builder, index: int, shape: Sequence[int]) -> list[Value]:
    """Return the first states of a direction in a shape."""
    states = []
    for name, position in _STATES[node.type].items():
        state = node.input(position)
        if state is None:
            check_table(*shape)
            zeros = np.zeros(shape, node.required(0).dtype.numpy)
            states.append(b.const(zeros, f"{b.stem}_{name}_{index}"))
        else:
            states.append(b.reshape(part(b, state, 0, index, index + 1), shape))
    return states


# ------------------------------------------------------------------ ops of QNN

_SCALES = "input_gate forget_gate cell_gate output_gate hidden_state"
_LSTM: dict[str, ir.Param] = {
    **dict.fromkeys(("cell_clip_threshold", "output_clip_threshold"), ir.f32(0.0)),
    **{f"{name}_qscale": ir.f32(0.0) for name in _SCALES.split()},
    "hidden_state_offset": ir.i32(0),
}
"""Parameters that the vendor's reader states for a file without them."""


def _direct(
    node: Node,
    b: Builder,
    operation: Operation,
    params: Mapping[str, ir.Param],
    units: int,
    index: int,
    backwards: bool,
) -> list[Value]:
    """Append one op; return all hidden states [T, N, H] and the last states [1, N, H]."""
    x = node.required(0)
    steps, batch, _ = x.shape
    is_flat = operation.type == "Lstm"  # states have no axis of the time
    is_once = is_flat and steps == 1  # HTP's emulation (SDK 2.51) executes single steps only
    operands = {0: b.reshape(x, x.shape[1:]) if is_once else x}
    for kind, data in _weights(node, index, units, operation).items():
        for gate, position in operation.inputs[kind].items():
            operands[position] = b.const(_gate(node, data, gate), f"{b.stem}_{kind}_{GATES[gate]}_{index}")
    state_shape = (batch, units) if is_flat else (1, batch, units)
    shapes = {0: (batch, units) if is_once else (steps, batch, units)}
    for state, initial in zip(operation.states, _initial(node, b, index, state_shape), strict=True):
        operands[state.input], shapes[state.output] = initial, state_shape
    # HTP wants all positions, biases and the first states among them.
    inputs = [b.source_order(operands[at]) if at in operands else None for at in range(operation.reset)]
    params = {"direction": ir.u32(int(backwards)), "time_major": ir.b8(True), **params}
    outputs = [(shapes[at], x.dtype) for at in range(len(shapes))]
    results = [
        Value(made, identity(made.rank)) for made in b.emit_many(operation.type, inputs, outputs, params)
    ]
    lasts = [b.reshape(results[state.output], (1, batch, units)) for state in operation.states]
    return [b.reshape(results[0], (steps, batch, units)), *lasts]


def _weights(node: Node, index: int, units: int, operation: Operation) -> dict[str, TensorData]:
    """Return the static weights of a direction by their kind."""

    def own(position: int) -> TensorData | None:
        value = node.input(position)
        data = None if value is None else value.tensor.data
        return data and data.transform(lambda array: array[index], shape=data.shape[1:])

    weights = {"w": own(1), "r": own(2), "p": own(7)}
    rows = len(ORDERS[node.type]["ONNX"]) * units
    both = own(3) or ir.ArrayData(np.zeros(2 * rows, node.required(0).dtype.numpy))
    if "rb" in operation.inputs:
        weights["b"] = both.transform(lambda array: array[:rows], shape=(rows,))
        weights["rb"] = both.transform(lambda array: array[rows:], shape=(rows,))
    else:
        weights["b"] = both.transform(lambda array: array[:rows] + array[rows:], shape=(rows,))
    return {kind: data for kind, data in weights.items() if data is not None}


def _gate(node: Node, data: TensorData, gate: str) -> TensorData:
    """Return the rows of a gate; peepholes have the order of the other gates."""
    place, rows = ORDERS[node.type]["ONNX"].index(gate), node.required(2).shape[-1]
    return data.transform(
        lambda array: array[place * rows : (place + 1) * rows], shape=(rows, *data.shape[1:])
    )


# ------------------------------------------------------------------ unrolled steps


def _unrolled(
    node: Node, g: Operators, functions: Sequence[Function], index: int, backwards: bool, **form: Any
) -> list[Value]:
    """Return hidden states [T, N, H] and last states [1, N, H] of a direction.

    Args:
        form: Options of ``cell_step``.
    """
    x, b, order = node.required(0), g.builder, ORDERS[node.type]["ONNX"]
    (steps, batch, width), ends = x.shape, _lengths(node, *x.shape[:2])
    masks: list[Value | None] = [None] * steps
    if ends is not None:
        for at in range(ends.min(), steps):
            masks[at] = b.const((at < ends).reshape(batch, 1))

    def own(position: int) -> Value | None:
        value = node.input(position)
        return None if value is None else b.reshape(part(b, value, 0, index, index + 1), value.shape[1:])

    def turned(value: Value) -> Value:
        is_whole = not backwards or ends is None
        return value if is_whole else reverse_sequence(g, value, vector(g, ends), time=0, batch=1)

    weight, recurrence, both = (own(position) for position in (1, 2, 3))
    assert weight is not None
    assert recurrence is not None
    bias, state_bias = (None, None) if both is None else cut(b, both, 0, 2)
    peepholes = own(7) if node.type == "LSTM" else None
    if peepholes is not None:
        form["peepholes"] = dict(zip(order.replace("c", ""), cut(b, peepholes, 0, 3), strict=True))
    step = cell_step(g, node.type, "ONNX", recurrence, state_bias, functions, **form)
    rows = split_evenly(g, dense(g, reshape(g, turned(x), (steps * batch, width)), weight, bias), steps, 0)
    initial = _initial(node, b, index, (batch, recurrence.shape[-1]))
    run = unrolled(g, rows, initial, step, masks, reverse=backwards and ends is None, zeros=True)
    every = turned(reshape(g, joined(b, run.every, 0), (steps, batch, recurrence.shape[-1])))
    return [every, *(b.reshape(state, (1, *state.shape)) for state in run.states)]


# ------------------------------------------------------------------ activations

_NUMBERS: dict[str, tuple[float | None, ...]] = {
    "Affine": (None, None),
    "Elu": (1.0,),
    "HardSigmoid": (0.2, 0.5),
    "LeakyRelu": (0.01,),
    "Relu": (),
    "ScaledTanh": (None, None),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
    "ThresholdedRelu": (1.0,),
}
"""Defaults of alpha and beta of the activations that have them; None if ONNX has no default."""


def _functions(node: Node, ways: int) -> list[list[Function]]:
    """Return the activation functions of each direction, bounded by ``clip``."""
    default, clip = _ACTIVATIONS[node.type], node.attr("clip")
    names = list(node.attr("activations") or default * ways)
    alphas, betas = iter(node.attr("activation_alpha") or ()), iter(node.attr("activation_beta") or ())
    if len(names) != len(default) * ways:
        raise node.invalid(f"the node has {len(names)} activations instead of {len(default) * ways}")
    if clip is not None and not clip > 0:
        raise node.invalid(f"clip must be above 0, but is {clip}")
    functions = [_activation(node, name, alphas, betas) for name in names]
    if clip is not None:  # not of the cell of an LSTM
        functions = [
            function if at % len(default) == 2 else _clipped(function, clip)
            for at, function in enumerate(functions)
        ]
    return [functions[start : start + len(default)] for start in range(0, len(names), len(default))]


def _clipped(function: Function, bound: float) -> Function:
    return lambda x: function(x.via(partial(clipped, low=-bound, high=bound)))


def _activation(node: Node, name: str, alphas: Iterator[float], betas: Iterator[float]) -> Function:
    """Return an activation of RNN, GRU or LSTM; consume the alphas and betas it needs."""
    type = next((key for key in _NUMBERS if key.lower() == name.lower()), None)
    if type is None:
        raise node.invalid(f"activation {name!r} is unknown")
    numbers: dict[str, float] = {}
    for key, stated, default in zip(("alpha", "beta"), (alphas, betas), _NUMBERS[type], strict=False):
        value = next(stated, default)
        if value is None:
            raise node.invalid(f"activation {name} needs alpha or beta: ONNX has no default")
        numbers[key] = value
    if type == "Affine":
        return lambda x: x * numbers["alpha"] + numbers["beta"]
    if type == "ScaledTanh":
        return lambda x: (x * numbers["beta"])("Tanh") * numbers["alpha"]
    return lambda x: x(type, **numbers)
