"""Layers that compute element by element."""

from __future__ import annotations

from xdlc.converter.snpe.inverse import Operation, operation, u32
from xdlc.ir import f32
from xdlc.opdefs.elementwise_enums import ABS, ADD, BINARY, NEURON, RELU, RELU_MIN_MAX, SIGMOID, UNARY

SUM, ABSOLUTE = 0, 8
# Number of the function in QNN: in layer Neuron, and the factor ``a`` that real files have beside it.
NEURONS = {RELU: (1, 1.0), SIGMOID: (3, 1.0), RELU_MIN_MAX: (4, 0.0)}


def _name(names: tuple[str, ...], number: int) -> str:
    return names[number] if 0 <= number < len(names) else str(number)


@operation("ElementWiseBinary")
def binary(node: Operation) -> None:
    """Make a layer ElementwiseBinaryOp of a sum."""
    number = int(node.number("operation"))
    if number != ADD:
        raise node.problem(f"computes {_name(BINARY, number)}; the only layer of two inputs known is a sum")
    if len(node.op.inputs) != 2:
        raise node.problem(f"has {len(node.op.inputs)} inputs instead of 2")
    node.emit("ElementwiseBinaryOp", node.op.inputs, {"op": u32(SUM)})


@operation("ElementWiseUnary")
def unary(node: Operation) -> None:
    """Make a layer ElementwiseUnaryOp of an absolute value."""
    number = int(node.number("operation"))
    if number != ABS:
        raise node.problem(f"computes {_name(UNARY, number)}; the only layer of one input known is Abs")
    node.emit("ElementwiseUnaryOp", [node.source], {"op": u32(ABSOLUTE)})


@operation("ElementWiseNeuron")
def neuron(node: Operation) -> None:
    """Make a layer Neuron of a rectifier or a sigmoid."""
    number = int(node.number("operation"))
    if number not in NEURONS:
        known = ", ".join(_name(NEURON, one) for one in NEURONS)
        raise node.problem(f"computes {_name(NEURON, number)}; layers are known for {known}")
    kind, factor = NEURONS[number]
    low, high = 0.0, 0.0
    if number == RELU_MIN_MAX:
        low, high = float(node.number("min_value")), float(node.number("max_value"))
    params = {"a": f32(factor), "b": f32(0.0), "max_clamp": f32(high), "min_clamp": f32(low)}
    node.emit("Neuron", [node.source], {**params, "type": u32(kind)})
