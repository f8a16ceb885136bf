"""Encodings present before calibration: from overrides, or from a converter.

A quantized model becomes a float one again with its weights as stored and its encodings dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from xdlc import passes
from xdlc.errors import UsageError
from xdlc.ir import (
    HOST_PACKAGE,
    NATIVE_PACKAGE,
    AxisScaleOffset,
    DType,
    Graph,
    Model,
    Op,
    ScaleOffset,
    Tensor,
    static,
)
from xdlc.ir.dtype import FLOAT32, SFIXED4, SFIXED8
from xdlc.ir.quantization import float_data
from xdlc.opdefs.traits import traits
from xdlc.options import spell
from xdlc.passes._match import turn_into
from xdlc.quant.op_specs import is_real, pad_value, rule_of, weight_of
from xdlc.runtime.ops.types import keeps_stored

_MOVES = ((NATIVE_PACKAGE, "Cast"), (HOST_PACKAGE, "Reinterpret"))


def forget_given(graph: Graph) -> int:
    """Remove the encodings of all float tensors; return their number."""
    count = 0
    for tensor in graph.tensors.values():
        if tensor.encoding is not None and tensor.dtype.is_float:
            tensor.encoding = None
            count += 1
    return count


def adopt_borders(graph: Graph) -> None:
    """Copy encodings to the float sides of Quantize and Dequantize.

    What the source leaves between them in float is then quantized with the encodings that it has learned.
    """
    for op in graph.ops:
        if is_border(op, "Dequantize"):
            _adopt(op.outputs[0], op.inputs[0])
        elif is_border(op, "Quantize"):
            real = op.inputs[0]
            _adopt(real if real is not None and graph.sole_consumer(real) is op else None, op.outputs[0])


def is_border(op: Op | None, type: str) -> bool:
    """Return whether an op is a Quantize, or a Dequantize, of the source."""
    return op is not None and op.type == type and op.package == NATIVE_PACKAGE and op.inputs[0] is not None


def _adopt(real: Tensor | None, stored: Tensor | None) -> None:
    if real is None or stored is None or not isinstance(stored.encoding, ScaleOffset):
        return
    if real.encoding is None and not real.is_static and not stored.dtype.is_signed:
        real.encoding = replace(stored.encoding, bits=given_bits(stored))


def join_borders(graph: Graph) -> None:
    """Remove a Dequantize and Quantize in a row, or replace them by a Convert."""
    for op in list(graph.ops):
        real = op.inputs[0] if is_border(op, "Quantize") else None
        before = real.producer if real is not None else None
        if before is None or not is_border(before, "Dequantize"):
            continue
        source, result = before.inputs[0], op.outputs[0]
        if source is None or not all(isinstance(each.encoding, ScaleOffset) for each in (source, result)):
            continue
        if (source.dtype, source.encoding) == (result.dtype, result.encoding) and not graph.is_output(result):
            graph.replace(result, source)
            graph.remove(op)
        else:
            turn_into(graph, op, "Convert", [source])
        graph.discard(before)


def dequantize_weights(graph: Graph) -> dict[Tensor, Tensor]:
    """Dequantize integer weights of float ops; return the integers by the floats."""
    before = {op: op.inputs for op in graph.ops}
    passes.run(graph, [passes.find("dequantize_weights").with_options(refused_only=False)])
    return {
        real: stored
        for op, inputs in before.items()
        for real, stored in zip(op.inputs, inputs, strict=True)
        if real is not None and stored is not None and real is not stored
    }


def keep_weights(graph: Graph, stored: Mapping[Tensor, Tensor]) -> dict[str, DType]:
    """Give float weights the encodings of the integers that they were stored as.

    Their types are returned by name.

    Args:
        graph: The graph, its products turned into FullyConnected.
        stored: Static integers by the floats that they denote.
    """
    types: dict[str, DType] = {}
    for op in graph.ops:
        weight = weight_of(op)
        held = stored.get(weight) if weight is not None else None
        if weight is None or held is None:
            continue
        encoding, dtype = held.encoding, held.dtype
        if isinstance(encoding, AxisScaleOffset):
            suits = encoding.axis == rule_of(op).channel_axis and not any(encoding.offsets)
        else:
            suits = isinstance(encoding, ScaleOffset) and not encoding.offset
        if not suits or dtype not in (SFIXED4, SFIXED8):
            continue
        if dtype is SFIXED4 and isinstance(encoding, AxisScaleOffset | ScaleOffset):
            encoding, dtype = replace(encoding, bits=4), SFIXED8
        weight.encoding, types[weight.name] = encoding, dtype
    return types


def given_bits(tensor: Tensor) -> int | None:
    """Return the bits of the encoding of a tensor in the model: 8, 16 or None."""
    if tensor.dtype.is_fixed:
        bits: int | None = tensor.dtype.bits
    else:
        bits = tensor.encoding.bits if isinstance(tensor.encoding, ScaleOffset) else None
    return bits if bits in (8, 16) else None


def spread_encodings(graph: Graph) -> None:
    """Copy encodings along ops that only move values, in both directions.

    Raises:
        UsageError: If no activation has an encoding.
    """
    if not any(_is_given(tensor) for tensor in graph.tensors.values()):
        raise UsageError(
            "no activation has an encoding, so quantizing would change no op",
            where=spell("enable_float_fallback"),
            fix="pass encodings as overrides, or pass calibration samples and omit the float fallback",
        )
    pairs = [
        (op.inputs[0], result)
        for op in graph.ops
        if rule_of(op).selects and not (op.type == "Pad" and pad_value(op))
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


def was_quantized(model: Model) -> bool:
    """Return whether a quantizer made a model.

    Its history names one then, and it has fixed-point values.
    """
    tools = [str(step.get("tool")) for step in model.metadata.get("history", ()) if isinstance(step, dict)]
    return any("quant" in tool for tool in tools) and any(
        tensor.dtype.is_fixed for op in model.main.ops for tensor in op.outputs
    )


def float_model(model: Model) -> tuple[Model, int]:
    """Return a float copy of a quantized model, and the number of dropped encodings.

    Static fixed-point data become their float values; Quantize, Dequantize and Convert go, and so
    does a Cast between fixed point and float32.  Inputs and outputs become float32, those too that hold
    quantized values as plain integers.

    Raises:
        UsageError: If an op inside computes with quantized values, which a float model has not.
        ModelError: If static data have no usable encoding.
    """
    copy = model.clone()
    count = 0
    for graph in copy.graphs.values():
        _check_moves(graph)
        borders = [op for op in graph.ops if _is_border(op)]
        for op in filter(_hands_on_integers, borders):
            for tensor in (op.inputs[0], *op.outputs):
                if tensor is not None and not tensor.dtype.is_fixed:
                    tensor.dtype = FLOAT32
        for tensor in graph.tensors.values():
            if tensor.dtype.is_fixed:
                tensor.data = float_data(tensor) if tensor.is_static else None
                tensor.dtype, tensor.encoding = FLOAT32, None
                count += 1
        count += forget_given(graph)
        for op in borders:
            _drop(graph, op)
    return copy, count


def _is_border(op: Op) -> bool:
    """Return whether an op converts float values from or to fixed point."""
    ends = (op.inputs[0] if op.inputs else None, *op.outputs)
    converts = (op.package, op.type) in _MOVES or traits(op).recodes
    return converts and any(end is not None and end.dtype.is_fixed for end in ends)


def _hands_on_integers(op: Op) -> bool:
    source = op.inputs[0]
    return (
        (op.package, op.type) in _MOVES
        and source is not None
        and keeps_stored(source.dtype, op.outputs[0].dtype)
    )


def _check_moves(graph: Graph) -> None:
    """Check that quantized values become integers only at the ends of the graph."""
    for op in filter(_hands_on_integers, graph.ops):
        source, result = op.inputs[0], op.outputs[0]
        plain = result if source is not None and source.dtype.is_fixed else source
        if plain is None or plain.is_static:
            continue
        readers = graph.consumers(plain)
        comes_in = plain.producer is None and all(map(_hands_on_integers, readers))
        goes_out = plain is result and not readers
        if not (comes_in or goes_out):
            raise UsageError(
                f"op {op.name!r} ({op.type}) passes on quantized values, but the model is float",
                where=f"graph {graph.name!r}",
                fix="quantize the float model that this model came from",
                node=op.name,
                op=op.type,
            )


def _drop(graph: Graph, op: Op) -> None:
    """Remove an op that passes values on; keep a copy between input and output."""
    source, result = op.inputs[0], op.outputs[0]
    if source is None:
        return
    if source.dtype is not result.dtype:
        op.type, op.package, op.params = "Cast", NATIVE_PACKAGE, {}
    elif not graph.is_output(result):
        graph.replace(result, source)
        graph.remove(op)
    elif source.producer is not None and not graph.is_output(source):
        maker = source.producer
        graph.unlink(op)
        graph.replace(source, result)
        graph.set_output(maker, maker.outputs.index(source), result)
    elif source.rank:
        order = static(f"{op.name}_perm", np.arange(source.rank, dtype=np.uint32))
        op.type, op.package, op.params = "Transpose", NATIVE_PACKAGE, {"perm": order}
    else:
        op.type, op.package, op.params = "Reshape", NATIVE_PACKAGE, {}
