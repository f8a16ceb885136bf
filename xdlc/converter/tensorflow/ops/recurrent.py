"""Handlers of TensorFlow's fused recurrent operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdlc.converter.functions.elementwise import clipped
from xdlc.converter.functions.gathering import split_evenly
from xdlc.converter.functions.recurrence import Lookup, by_gate, scanned
from xdlc.converter.functions.shapes import dims, ints
from xdlc.converter.functions.terms import Term
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.registry import handler
from xdlc.converter.values import Value
from xdlc.opdefs.cells import ORDERS, gru_step, lstm_step

_WEIGHTS = ("w", "wci", "wcf", "wco", "b")


def _lstm_step(
    node: Node, g: Operators, forget_bias: float, cell_clip: float
) -> Callable[[Value, Value, Value, Lookup], list[Value]]:
    """Return an LSTM step: x, hidden, cell to i, cs, f, o, ci, co, h, [B, units] each.

    Args:
        forget_bias: Default summand of gate f.
        cell_clip: Default bound of the cell; 0 for none.
    """
    peephole, bias = node.attr("use_peephole", False), node.attr("forget_bias", forget_bias)
    bound = node.attr("cell_clip", cell_clip)

    def step(x: Value, hidden: Value, cell: Value, at: Lookup) -> list[Value]:
        def weight(name: str) -> Value:
            value = at(name)
            if value is None:
                raise node.invalid("a weight is missing")
            return value

        total = Term(g, g("Concat", [x, hidden], axis=1))("MatMul", weight("w")) + weight("b")
        sums = by_gate(g, total.value, "LSTM", node.type, 1)
        gates: dict[str, Term] = {}

        def gate(name: str, memory: Term) -> Term:
            own = Term(g, sums[name])
            own = own + memory * weight(f"wc{name}") if peephole and name != "c" else own
            own = own + bias if name == "f" and bias else own
            gates[name] = own("Tanh" if name == "c" else "Sigmoid")
            return gates[name]

        def keep(name: str, value: Term) -> Term:
            if name == "cell" and bound > 0:
                value = Term(g, clipped(g, value.value, -bound, bound))
            gates[name] = value
            return value

        output, memory = lstm_step(gate, Term(g, cell), lambda memory: memory("Tanh"), keep)
        results = (gates["i"], memory, gates["f"], gates["o"], gates["c"], gates["shown"], output)
        return [result.value for result in results]

    return step


@handler("LSTMBlockCell")
def _lstm_cell(node: Node, g: Operators) -> list[Value]:
    x, cell, hidden = (node.required(index) for index in range(3))
    weights = {name: node.required(3 + index) for index, name in enumerate(_WEIGHTS)}
    return _lstm_step(node, g, 1.0, 3.0)(x, hidden, cell, weights.get)


@handler("BlockLSTM", "BlockLSTMV2")
def _block_lstm(node: Node, g: Operators) -> list[Value]:
    x, cell, hidden = (node.required(index) for index in (1, 2, 3))
    steps = dims(x)[0]
    if ints(node.required(0), "the number of steps")[0] < steps:
        raise node.problem(
            "xdlc does not support sequences shorter than the input",
            "set the sequence length to the length of the input",
        )
    weights = {name: node.required(4 + index) for index, name in enumerate(_WEIGHTS)}
    step = _lstm_step(node, g, *((0.0, 0.0) if node.type == "BlockLSTMV2" else (1.0, 3.0)))

    def iteration(row: Value, states: Sequence[Value], at: Lookup) -> list[Value]:
        results = step(row, states[0], states[1], at)
        return [results[-1], results[1], *results]

    return scanned(g, x, [hidden, cell], iteration, weights, rows=7)[:7]


@handler("GRUBlockCell")
def _gru_cell(node: Node, g: Operators) -> list[Value]:
    x, hidden, both, new, both_bias, new_bias = (node.required(index) for index in range(6))

    def product(state: Value, weights: Value, bias: Value) -> Term:
        return Term(g, g("Concat", [x, state], axis=1))("MatMul", weights) + bias

    parts = split_evenly(g, product(hidden, both, both_bias)("Sigmoid").value, 2, 1)
    gates = {name: Term(g, part) for name, part in zip(ORDERS["GRU"][node.type], parts, strict=True)}

    def gate(state: Term) -> Term:
        gates["n"] = product(state.value, new, new_bias)("Tanh")
        return gates["n"]

    state = gru_step(gates.__getitem__, Term(g, hidden), lambda state: state, gate, after=False)
    return [value.value for value in (gates["r"], gates["z"], gates["n"], state)]


@handler("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3", ignores=("rnn_mode", "input_mode", "direction"))
def _cudnn(node: Node, _g: Operators) -> Value:
    raise node.problem(
        "the weights are packed in a format of the GPU library",
        "export the model on a CPU, or with layers that do not use cuDNN (use_cudnn=False)",
    )
