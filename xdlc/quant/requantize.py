"""The float model that a quantized one stands for: weights as stored, encodings dropped."""

from __future__ import annotations

from xdlc.errors import UsageError
from xdlc.ir import HOST_PACKAGE, NATIVE_PACKAGE, Graph, Model, Op
from xdlc.ir.dtype import FLOAT32
from xdlc.ir.stored import real_data
from xdlc.quant.given import forget_given
from xdlc.runtime.ops.reinterpret import keeps_stored

_BORDERS = ("Quantize", "Dequantize", "Convert", "Cast")


def was_quantized(model: Model) -> bool:
    """Return whether a quantizer made a model: its history names one, and it has fixed-point values."""
    tools = [str(step.get("tool")) for step in model.metadata.get("history", ()) if isinstance(step, dict)]
    return any("quant" in tool for tool in tools) and any(
        tensor.dtype.is_fixed for op in model.main.ops for tensor in op.outputs
    )


def float_model(model: Model) -> tuple[Model, int]:
    """Return a float copy of a quantized model, and the number of tensors whose encodings were dropped.

    Static fixed-point data become the reals that they stand for; Quantize, Dequantize and Convert go, and so
    does a Cast between fixed point and float32.

    Raises:
        UsageError: If an op reads or writes stored integers themselves, which a float model has not.
        ModelError: If static data have no usable encoding.
    """
    copy = model.clone()
    count = 0
    for graph in copy.graphs.values():
        borders = [op for op in graph.ops if _is_border(op, graph)]
        for tensor in graph.tensors.values():
            if tensor.dtype.is_fixed:
                tensor.data = real_data(tensor) if tensor.is_static else None
                tensor.dtype, tensor.encoding = FLOAT32, None
                count += 1
        count += forget_given(graph)
        for op in borders:
            _drop(graph, op)
    return copy, count


def _is_border(op: Op, graph: Graph) -> bool:
    """Return whether an op hands reals on from one form to another, one of them fixed point.

    Raises:
        UsageError: If it hands stored integers on.
    """
    source = op.inputs[0] if op.inputs else None
    if source is None or not any(tensor.dtype.is_fixed for tensor in (source, *op.outputs)):
        return False
    is_move = (op.package, op.type) in ((NATIVE_PACKAGE, "Cast"), (HOST_PACKAGE, "Reinterpret"))
    if is_move and keeps_stored(source.dtype, op.outputs[0].dtype):
        raise UsageError(
            f"op {op.name!r} ({op.type}) hands on stored integers, which a float model has not",
            where=f"graph {graph.name!r}",
            fix="quantize the float model that it came from",
            node=op.name,
            op=op.type,
        )
    return op.package == NATIVE_PACKAGE and op.type in _BORDERS


def _drop(graph: Graph, op: Op) -> None:
    """Take an op out that hands reals on; between an input and an output it stays a move."""
    source, result = op.inputs[0], op.outputs[0]
    if source is None:
        return
    if source.dtype is not result.dtype:
        op.type, op.params = "Cast", {}
    elif not graph.is_output(result):
        graph.replace(result, source)
        graph.remove(op)
    elif source.producer is not None and not graph.is_output(source):
        maker = source.producer
        graph.unlink(op)
        graph.replace(source, result)
        graph.set_output(maker, maker.outputs.index(source), result)
    else:
        op.type, op.params = "Reshape", {}
