"""Fusions of HTP: ops computed with the op before, without rounding.

Found with the vendor's emulation (SDK 2.51, SM8650) on pairs of ops with 8-bit activations: the
result is that of the second op over unrounded values of the first, whatever encoding the tensor
between them has, and even if that tensor is an output of the graph.  Other pairs, like a
convolution and Sigmoid, Gelu or Elu, or an addition and Relu, round between.
"""

from __future__ import annotations

from xdlc.ir import NATIVE_PACKAGE, Model, Op, Tensor
from xdlc.opdefs.traits import operation_name, traits


def came_quantized(model: Model) -> bool:
    """Return whether the encodings of a model are those of its source.

    The source rounds every value that has one, and so does the host then, where HTP would not: what was
    converted computes what the source computes.
    """
    history = model.metadata.get("history", ())
    tools = [entry.get("tool", "") for entry in history if isinstance(entry, dict)]
    return any(tool.startswith("xconv-") for tool in tools) and "xdlc-quant" not in tools


def has_halves(model: Model) -> bool:
    """Return whether floats are stored as float16, whose rounding the host predicts.

    A source of float16 is computed as its own engine does, in float32.
    """
    history = model.metadata.get("history", ())
    steps = [entry.get("args") for entry in history if isinstance(entry, dict)]
    return any(isinstance(args, dict) and args.get("float_bitwidth") == "16" for args in steps)


def with_producer(source: Tensor, function: str) -> bool:
    """Return whether an activation function reads its input unrounded.

    Args:
        source: The function's input.
        function: Its name, like ``Prelu``.
    """
    producer = source.producer
    return (
        producer is not None
        and producer.package == NATIVE_PACKAGE
        and function in traits(producer).fuses
        and source.dtype.is_fixed
        and source.dtype.bits == 8
    )


def reads_unrounded(op: Op) -> Tensor | None:
    """Return the input that HTP does not round before an activation, or None.

    Such an op and the one before give the same together only if nothing comes between them.
    """
    if op.package != NATIVE_PACKAGE or not op.inputs or op.inputs[0] is None or not op.outputs:
        return None
    source = op.inputs[0]
    function = operation_name(op)
    same = function != "Prelu" and source.encoding == op.outputs[0].encoding
    return source if not same and with_producer(source, function) else None


def shapes_product(op: Op) -> bool:
    """Return whether an op's result encoding decides the rounding before it.

    The product before is one of 8 bits.

    That of an ElementWiseNeuron does, whatever its operation; ops Sigmoid, Tanh, Elu and Gelu do not.
    """
    neuron = op.package == NATIVE_PACKAGE and op.type == "ElementWiseNeuron"
    return neuron or traits(op).activation


def gate_of(op: Op) -> Tensor | None:
    """Return the unrounded ``sigmoid(x)`` of a product ``x * sigmoid(x)``, or None."""
    if op.package != NATIVE_PACKAGE or operation_name(op) != "ElementWiseMultiply" or len(op.inputs) < 2:
        return None
    for gate, factor in (op.inputs[:2], op.inputs[1::-1]):
        producer = gate.producer if gate is not None else None
        if (
            gate is not None
            and producer is not None
            and producer.package == NATIVE_PACKAGE
            and operation_name(producer) == "Sigmoid"
            and producer.inputs[0] is factor
            and gate.dtype.is_fixed
            and gate.dtype.bits == 8
        ):
            return gate
    return None
