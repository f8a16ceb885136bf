"""Per-op quantization: fixed-point kernels, operands, and reasons to stay float."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdlc.ir import NATIVE_PACKAGE, Graph, Op, Tensor
from xdlc.ir.graph import is_udo
from xdlc.opdefs.traits import Traits, operation_name, traits
from xdlc.quant.ranges import Use


def single_name(op: Op) -> str:
    """Return the name of the operation of an op; of a UDO with its package."""
    return f"{op.package}::{op.type}" if is_udo(op) else operation_name(op)


_NO_KERNEL = Traits()


def rule_of(op: Op | None) -> Traits:
    """Return the traits of an op with a fixed-point kernel on HTP, else empty ones."""
    rule = _NO_KERNEL if op is None else traits(op)
    return rule if rule.activation_bits else _NO_KERNEL


def is_parameter(op: Op, index: int) -> bool:
    """Return whether an input of an op is its weight, its factor or its bias."""
    return index in (1, 2) and rule_of(op).is_weighted


def weight_of(op: Op) -> Tensor | None:
    """Return the static weight of an op with a fixed-point kernel, or None."""
    weight = op.inputs[1] if rule_of(op).weight is not None and len(op.inputs) > 1 else None
    return weight if weight is not None and weight.is_static else None


def float_tensors(op: Op) -> list[Tensor]:
    """Return the inputs and outputs of an op with float or quantized values."""
    return [tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None and is_real(tensor)]


def is_real(tensor: Tensor) -> bool:
    """Return whether a tensor has float values, quantized or not."""
    return tensor.dtype.is_float or tensor.dtype.is_fixed


def pad_value(op: Op) -> float:
    """Return the value that a Pad adds; 0.0 if it repeats values of its input."""
    return float(op.param("pad_constant_value", 0.0)) if op.param("scheme", 0) == 0 else 0.0


def numbers(op: Op, key: str, default: Sequence[int]) -> list[int]:
    """Return the integers of a parameter that is a tensor, in row-major order."""
    param = op.params.get(key)
    return [int(value) for value in (param.numpy().reshape(-1) if isinstance(param, Tensor) else default)]


def uses_of(graph: Graph, tensor: Tensor) -> list[Use]:
    """Return the places at which ops of a graph read a tensor."""
    return [
        (op, index)
        for op in graph.consumers(tensor)
        for index, read in enumerate(op.inputs)
        if read is tensor
    ]


def reroute(graph: Graph, uses: Iterable[Use], new: Tensor) -> None:
    """Let ops read another tensor at some places."""
    for op, place in uses:
        graph.set_inputs(op, [new if index == place else read for index, read in enumerate(op.inputs)])


def crosses(op: Op) -> bool:
    """Return whether an op is a Cast between float values and integers.

    HTP's Cast between fixed point and integers hands quantized values on, whatever the encoding (emulation of
    SDK 2.51), so that these go through floats; every generation takes a Cast between Quantize or Dequantize
    and integers, those without float kernels too.
    """
    return op.type == "Cast" and op.package == NATIVE_PACKAGE and not _is_of_reals(op)


def _is_of_reals(op: Op) -> bool:
    return all(tensor is not None and is_real(tensor) for tensor in (*op.inputs, *op.outputs))


def why_float(op: Op, act_bits: int) -> str | None:
    """Return why an op cannot be quantized; None if it can."""
    supported = rule_of(op).activation_bits
    if not supported:
        return f"{single_name(op)} of package {op.package} has no fixed-point kernel"
    if act_bits not in supported:
        return f"{single_name(op)} has no {act_bits}-bit fixed-point kernel"
    if crosses(op):
        return "HTP's Cast between fixed point and integers copies stored integers"
    if op.type == "Pad" and not abs(pad_value(op)) < 1e30:
        return "the op pads with an infinite value"
    return None


def listed(names: Sequence[str], most: int = 5) -> str:
    """Return names as text: all, or the first ones and the number of the rest."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
