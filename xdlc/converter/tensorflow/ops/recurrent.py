"""Handlers of TensorFlow's fused recurrent operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdlc.converter.nhwc.recurrent import scanned
from xdlc.converter.nhwc.shapes import dims, ints, number
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.registry import handler
from xdlc.converter.values import Value

_Lookup = Callable[[str], "Value | None"]
_WEIGHTS = ("w", "wci", "wcf", "wco", "b")


def _lstm_step(
    node: Node, g: Operators, order: str, forget_bias: float, cell_clip: float
) -> Callable[[Value, Value, Value, _Lookup], list[Value]]:
    """Return an LSTM step: x, hidden, cell to i, cs, f, o, ci, co, h, [B, units] each.

    Args:
        order: Gates in the order of the weights: ``i``, ``f``, ``o``, and ``c`` for the new cell.
        forget_bias: Summand of gate f.
        cell_clip: Bound of the cell; 0 for none.
    """
    peephole = node.attr("use_peephole", False)

    def needed(value: Value | None) -> Value:
        if value is None:
            raise node.invalid("a weight is missing")
        return value

    def step(x: Value, hidden: Value, cell: Value, at: _Lookup) -> list[Value]:
        total = g("Add", [g("MatMul", [g("Concat", [x, hidden], axis=1), needed(at("w"))]), needed(at("b"))])
        gate = dict(zip(order, g.apply("Split", [total], {"axis": 1, "num_outputs": 4}, 4), strict=True))

        def seen(name: str, memory: Value) -> Value:
            if not peephole:
                return gate[name]
            return g("Add", [gate[name], g("Mul", [memory, needed(at(f"wc{name}"))])])

        taken = g("Sigmoid", [seen("i", cell)])
        forget = seen("f", cell)
        forget = g("Sigmoid", [g("Add", [forget, number(g, forget, forget_bias)]) if forget_bias else forget])
        new = g("Tanh", [gate["c"]])
        memory = g("Add", [g("Mul", [new, taken]), g("Mul", [cell, forget])])
        if cell_clip > 0:
            bounds = [number(g, memory, -cell_clip), number(g, memory, cell_clip)]
            memory = g("Clip", [memory, *bounds])
        shown = g("Sigmoid", [seen("o", memory)])
        output = g("Tanh", [memory])
        return [taken, memory, forget, shown, new, output, g("Mul", [output, shown])]

    return step


@handler("LSTMBlockCell")
def _lstm_cell(node: Node, g: Operators) -> list[Value]:
    x, cell, hidden = (node.required(index) for index in range(3))
    held = {name: node.required(3 + index) for index, name in enumerate(_WEIGHTS)}
    step = _lstm_step(node, g, "icfo", node.attr("forget_bias", 1.0), node.attr("cell_clip", 3.0))
    return step(x, hidden, cell, held.get)


@handler("BlockLSTM", "BlockLSTMV2")
def _block_lstm(node: Node, g: Operators) -> list[Value]:
    is_second = node.type == "BlockLSTMV2"
    x, cell, hidden = (node.required(index) for index in (1, 2, 3))
    steps = dims(x)[0]
    if ints(node.required(0), "the number of steps")[0] < steps:
        raise node.problem(
            "xdlc does not support sequences shorter than the input",
            "set the sequence length to the length of the input",
        )
    weights = {name: node.required(4 + index) for index, name in enumerate(_WEIGHTS)}
    order, bias, clip = ("ifco", 0.0, 0.0) if is_second else ("icfo", 1.0, 3.0)
    step = _lstm_step(node, g, order, node.attr("forget_bias", bias), node.attr("cell_clip", clip))

    def iteration(row: Value, states: Sequence[Value], at: _Lookup) -> list[Value]:
        results = step(row, states[0], states[1], at)
        return [results[-1], results[1], *results]

    return scanned(g, x, [hidden, cell], iteration, weights, rows=7)[:7]


@handler("GRUBlockCell")
def _gru_cell(node: Node, g: Operators) -> list[Value]:
    x, hidden, both, new, both_bias, new_bias = (node.required(index) for index in range(6))

    def product(state: Value, weights: Value, bias: Value) -> Value:
        return g("Add", [g("MatMul", [g("Concat", [x, state], axis=1), weights]), bias])

    gates = g("Sigmoid", [product(hidden, both, both_bias)])
    reset, update = g.apply("Split", [gates], {"axis": 1, "num_outputs": 2}, 2)
    made = g("Tanh", [product(g("Mul", [reset, hidden]), new, new_bias)])
    rest = g("Sub", [number(g, update, 1), update])
    return [reset, update, made, g("Add", [g("Mul", [update, hidden]), g("Mul", [rest, made])])]


@handler("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3", ignores=("rnn_mode", "input_mode", "direction"))
def _cudnn(node: Node, _g: Operators) -> Value:
    raise node.problem(
        "the weights are packed in a format of the GPU library",
        "export the model on a CPU, or with layers that do not use cuDNN (use_cudnn=False)",
    )
