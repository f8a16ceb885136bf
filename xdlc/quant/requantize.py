"""Float model of a quantized one: weights as stored, encodings dropped."""

from __future__ import annotations

from xdlc.errors import UsageError
from xdlc.ir import HOST_PACKAGE, NATIVE_PACKAGE, Graph, Model, Op, static
from xdlc.ir.dtype import FLOAT32
from xdlc.ir.quantization import float_data
from xdlc.opdefs.traits import traits
from xdlc.quant.existing_encodings import forget_given
from xdlc.runtime.ops.types import keeps_stored

_MOVES = ((NATIVE_PACKAGE, "Cast"), (HOST_PACKAGE, "Reinterpret"))


def was_quantized(model: Model) -> bool:
    """Return whether a quantizer made a model: its history names one, and it has fixed-point values."""
    tools = [str(step.get("tool")) for step in model.metadata.get("history", ()) if isinstance(step, dict)]
    return any("quant" in tool for tool in tools) and any(
        tensor.dtype.is_fixed for op in model.main.ops for tensor in op.outputs
    )


def float_model(model: Model) -> tuple[Model, int]:
    """Return a float copy of a quantized model, and the number of tensors whose encodings were dropped.

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
    """Return whether an op hands float values on from one form to another, one of them fixed point."""
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
    """Check that quantized values become plain ones at inputs and outputs of the graph only.

    Raises:
        UsageError: If an op passes quantized values to others inside, or reads them.
    """
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
                f"op {op.name!r} ({op.type}) passes quantized values on; a float model has none",
                where=f"graph {graph.name!r}",
                fix="quantize the float model that it came from",
                node=op.name,
                op=op.type,
            )


def _drop(graph: Graph, op: Op) -> None:
    """Take an op out that hands float values on; between an input and an output it stays a move."""
    import numpy

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
        order = static(f"{op.name}_perm", numpy.arange(source.rank, dtype=numpy.uint32))
        op.type, op.package, op.params = "Transpose", NATIVE_PACKAGE, {"perm": order}
    else:
        op.type, op.package, op.params = "Reshape", NATIVE_PACKAGE, {}
