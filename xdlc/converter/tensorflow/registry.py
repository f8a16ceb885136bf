"""Registry of the handlers of TensorFlow, and readers of their nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from xdlc import ir
from xdlc.converter.functions.spectra import Complex
from xdlc.converter.functions.windows import Padding
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.registry import Handlers
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.tensors import ir_dtype
from xdlc.converter.values import SequenceValue, Value

_RESTATING = """
T N Index S TI TL Taxis Tblock_shape Tcond Tcrops Tdim Tdims Tidx Tin Tindices Tlen Tmultiples Tnumel Tout
Tpaddings Tparams Tperm Tshape Tsplits Treal Tcomplex dtypes Tmaxsize Tindex Toffset Tshift Tstrides Tk
use_cudnn_on_gpu
"""
"""Attributes that restate the types of inputs or their number, or name a kernel of TensorFlow."""
_COMPLEX = "export the model with real and imaginary parts as separate tensors"


class _TensorFlowHandlers(Handlers):
    def operands(self, node: Node, least: int = 0, most: float = math.inf) -> list[Value]:
        """Return the inputs of a node.

        Raises:
            ModelError: If one is omitted, or there are fewer or more of them.
            UnsupportedOp: If one is complex.
        """
        values = node.operands(least, most)
        for index, value in enumerate(values):
            if isinstance(value, SequenceValue):
                raise node.problem(f"xdlc does not support complex values (input {index})", _COMPLEX)
        return values

    def is_optional(self, attribute: str) -> bool:
        """Return whether an attribute belongs to a function, restating argument types."""
        return "." in attribute


handler = _TensorFlowHandlers("xdlc.converter.tensorflow.ops", _RESTATING.split())


def applied(node: Node, g: Operators, op: str, inputs: Sequence[Value | None], /, **attributes: Any) -> Any:
    """Return the results of an operator of TensorFlow on behalf of a node.

    Args:
        attributes: Attributes that replace the node's.
    """
    inner = replace(node, type=op, inputs=list(inputs), attributes=node.attributes | attributes)
    return handler.all()["", op].function(inner, g)


def complex_inputs(node: Node) -> list[Complex] | None:
    """Return the inputs as real and imaginary pairs; None if the first is real.

    Raises:
        UnsupportedOp: If just some of several are complex.
    """
    values: list[Any] = [value for value in node.inputs if isinstance(value, SequenceValue)]
    if not values or node.inputs[0] is not values[0]:
        return None
    if len(values) < len(node.inputs) and "FFT" not in node.type:
        raise node.problem("xdlc does not support a mix of complex and real values", _COMPLEX)
    return [Complex(*value.elements) for value in values]


def complex_value(x: Complex) -> SequenceValue:
    """Return a complex value as a sequence of its parts, the result of a handler."""
    return SequenceValue(tuple(x))


def dtype_of(node: Node, attribute: str, default: str = "float32") -> ir.DType:
    """Return the data type that an attribute names or is.

    Raises:
        UnsupportedOp: If a DLC has no such type.
    """
    stated = node.attr(attribute, default)
    return stated if isinstance(stated, ir.DType) else ir_dtype(str(stated), node.own_name)


def is_channel_first(node: Node) -> bool:
    """Return whether attribute data_format is channel-first."""
    given = str(node.attr("data_format", "NHWC"))
    if given not in ("NHWC", "NCHW", "NDHWC", "NCDHW", "NWC", "NCW"):
        raise node.problem(f"xdlc does not support data_format {given!r}")
    return given.startswith("NC")


def spatial(node: Node, attribute: str, stated: Sequence[int] | None = None) -> list[int]:
    """Return an attribute's spatial entries; refuse batch or channels other than 1.

    Args:
        attribute: Its name; an omitted one is 1 for every axis of a value of rank 4.
        stated: The entries instead, in the order of the data format.
    """
    entries = [int(entry) for entry in (node.attr(attribute, [1] * 4) if stated is None else stated)]
    is_first = is_channel_first(node)
    batch, channels = entries[0], entries[1 if is_first else -1]
    if len(entries) < 3 or (batch, channels) != (1, 1):
        raise node.problem(f"{attribute} {entries} must be 1 for batch and channels")
    return entries[2:] if is_first else entries[1:-1]


def padding_of(node: Node) -> Padding:
    """Return the padding of a node, explicit one as amounts of the spatial axes."""
    padding = str(node.attr("padding", "VALID"))
    amounts = [int(amount) for amount in node.attr("explicit_paddings") or []]
    if padding != "EXPLICIT":
        return padding
    pairs = list(zip(amounts[::2], amounts[1::2], strict=False))
    channels = 1 if is_channel_first(node) else len(pairs) - 1
    if len(pairs) < 3 or any(pairs[0]) or any(pairs[channels]):
        raise node.problem(f"xdlc does not support explicit_paddings {amounts} of batch or channels")
    return [pair for axis, pair in enumerate(pairs) if axis not in (0, channels)]
