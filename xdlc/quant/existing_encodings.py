"""Encodings present before calibration: from overrides, or from a converter."""

from __future__ import annotations

from dataclasses import replace

from xdlc.errors import UsageError
from xdlc.ir import Graph, ScaleOffset, Tensor
from xdlc.quant.op_specs import is_real, pad_value, rule_of


def forget_given(graph: Graph) -> int:
    """Take the encodings from all tensors of floats; return how many there were."""
    count = 0
    for tensor in graph.tensors.values():
        if tensor.encoding is not None and tensor.dtype.is_float:
            tensor.encoding = None
            count += 1
    return count


def given_bits(tensor: Tensor) -> int | None:
    """Return the bits of the encoding that a tensor has in the model already, or None: 8 or 16."""
    if tensor.dtype.is_fixed:
        bits: int | None = tensor.dtype.bits
    else:
        bits = tensor.encoding.bits if isinstance(tensor.encoding, ScaleOffset) else None
    return bits if bits in (8, 16) else None


def spread_encodings(graph: Graph) -> None:
    """Give encodings on through ops that only move values, in both directions.

    Raises:
        UsageError: If no activation has an encoding.
    """
    if not any(_is_given(tensor) for tensor in graph.tensors.values()):
        raise UsageError(
            "no activation has an encoding, so that all would stay float",
            where="enable_float_fallback",
            fix="give encodings as overrides, or calibration samples and no float fallback",
        )
    pairs = [
        (op.inputs[0], result)
        for op in graph.ops
        if (rule := rule_of(op)) is not None and rule.selects and not (op.type == "Pad" and pad_value(op))
        for result in op.outputs
        if op.inputs[0] is not None
    ]
    for source, result in pairs:
        _give(source, result)
    for source, result in reversed(pairs):
        _give(result, source)
    # What went up to a tensor goes down again to its other readers.
    for source, result in pairs:
        _give(source, result)


def _is_given(tensor: Tensor) -> bool:
    return not tensor.is_static and is_real(tensor) and tensor.encoding is not None


def _give(source: Tensor, target: Tensor) -> None:
    if not _is_given(source) or target.is_static or target.encoding is not None or not is_real(target):
        return
    encoding = source.encoding
    if isinstance(encoding, ScaleOffset):
        target.encoding = replace(encoding, bits=given_bits(source))
