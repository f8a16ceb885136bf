"""Element-wise layers."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.snpe.registry import Layer, layer
from xdlc.ir import Param
from xdlc.opdefs.elementwise_enums import ABS, ADD, RELU, RELU_MIN_MAX, SIGMOID

# Numbers of QNN's operations: OpDefs of ElementWiseBinary, ElementWiseUnary and ElementWiseNeuron.
BINARY = {0: "sum"}
UNARY = {8: "absolute value"}
NEURONS = {1: "rectifier", 3: "sigmoid", 4: "rectifier with bounds"}


@layer("ElementwiseBinaryOp")
def binary(node: Layer) -> None:
    """Translate to ElementWiseBinary."""
    node.choice("op", BINARY)
    if len(node.inputs) != 2:
        raise node.problem(f"the layer has {len(node.inputs)} inputs instead of 2")
    node.emit("ElementWiseBinary", node.inputs, {"operation": ir.u32(ADD)})


@layer("ElementwiseOp")
def combined(node: Layer) -> None:
    """Translate a plain sum of two inputs to ElementWiseBinary."""
    node.choice("op", BINARY)
    factors = set(node.floats("coeffs"))
    if len(node.inputs) != 2 or factors - {1.0}:
        raise node.problem(
            f"the layer sums {len(node.inputs)} inputs, factors {sorted(factors)}; xdlc supports sums of two"
        )
    node.emit("ElementWiseBinary", node.inputs, {"operation": ir.u32(ADD)})


@layer("ElementwiseUnaryOp")
def unary(node: Layer) -> None:
    """Translate to ElementWiseUnary."""
    node.choice("op", UNARY)
    node.emit("ElementWiseUnary", [node.source], {"operation": ir.u32(ABS)})


@layer("Neuron")
def neuron(node: Layer) -> None:
    """Translate to ElementWiseNeuron."""
    function = node.choice("type", NEURONS)
    numbers = {"rectifier": RELU, "sigmoid": SIGMOID, "rectifier with bounds": RELU_MIN_MAX}
    params: dict[str, Param] = {"operation": ir.u32(numbers[function])}
    if function == "rectifier with bounds":
        low, high = node.real("min_clamp"), node.real("max_clamp")
        if low > high:
            raise node.problem(f"the layer clamps to at least {low:g} and at most {high:g}")
        params |= {"min_value": ir.f32(low), "max_value": ir.f32(high)}
    node.emit("ElementWiseNeuron", [node.source], params)
