"""Ops that HTP computes as one with the op before, so that nothing is rounded between them.

Found with the vendor's emulation (SDK 2.51, SM8650) on pairs of ops with 8-bit activations: the
result is that of the second op over unrounded values of the first, whatever encoding the tensor
between them has, and even if that tensor is an output of the graph.  Other pairs, like a
convolution and Sigmoid, Gelu or Elu, or an addition and Relu, round between.
"""

from __future__ import annotations

from xdlc.ir import NATIVE_PACKAGE, Model, Op, Tensor
from xdlc.opdefs.elementwise_enums import MULTIPLY, NEURON

_WEIGHTED = ("Conv2d", "DepthWiseConv2d", "FullyConnected", "Batchnorm")
_PRODUCERS = {"Prelu": _WEIGHTED, "HardSwish": _WEIGHTED, "Relu": ("Conv2d", "FullyConnected")}


def came_quantized(model: Model) -> bool:
    """Return whether the encodings of a model are those of its source.

    The source rounds every value that has one, and so does the host then, where HTP would not: what was
    converted gives what the source gives.
    """
    history = model.metadata.get("history", ())
    tools = [entry.get("tool", "") for entry in history if isinstance(entry, dict)]
    return any(tool.startswith("xconv-") for tool in tools) and "xdlc-quant" not in tools


def with_producer(source: Tensor, function: str) -> bool:
    """Return whether an activation function takes its input unrounded.

    Args:
        source: The function's input.
        function: Its name, like ``Prelu``.
    """
    producer = source.producer
    return (
        producer is not None
        and producer.package == NATIVE_PACKAGE
        and producer.type in _PRODUCERS.get(function, ())
        and source.dtype.is_fixed
        and source.dtype.bits == 8
    )


def reads_unrounded(op: Op) -> Tensor | None:
    """Return the input that HTP, and so the host, does not round before an activation function, or None.

    Such an op and the one before give the same together only if nothing comes between them.
    """
    if op.package != NATIVE_PACKAGE or not op.inputs or op.inputs[0] is None or not op.outputs:
        return None
    source = op.inputs[0]
    function = op.type
    if op.type == "ElementWiseNeuron":
        number = op.param("operation")
        function = NEURON[number] if isinstance(number, int) and 0 <= number < len(NEURON) else ""
    same = function != "Prelu" and source.encoding == op.outputs[0].encoding
    return source if not same and with_producer(source, function) else None


def gate_of(op: Op) -> Tensor | None:
    """Return the ``sigmoid(x)`` if an op is the product ``x * sigmoid(x)``, else None; it is not rounded."""
    multiplies = op.type == "ElementWiseMultiply" or (
        op.type == "ElementWiseBinary" and op.param("operation") == MULTIPLY
    )
    if op.package != NATIVE_PACKAGE or not multiplies or len(op.inputs) < 2:
        return None
    for gate, other in (op.inputs[:2], op.inputs[1::-1]):
        producer = gate.producer if gate is not None else None
        if (
            gate is not None
            and producer is not None
            and producer.package == NATIVE_PACKAGE
            and _is_sigmoid(producer)
            and producer.inputs[0] is other
            and gate.dtype.is_fixed
            and gate.dtype.bits == 8
        ):
            return gate
    return None


def _is_sigmoid(op: Op) -> bool:
    return op.type == "Sigmoid" or (op.type == "ElementWiseNeuron" and op.param("operation") == 6)
