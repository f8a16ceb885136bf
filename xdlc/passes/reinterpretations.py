"""Reinterpret for HTP: as another type of inputs and outputs, or as Cast."""

from __future__ import annotations

from xdlc import ir
from xdlc.ir import Graph, Op, Origin, Tensor
from xdlc.ir.dtype import UFIXED8, UINT8
from xdlc.opdefs.traits import traits
from xdlc.passes._match import is_reinterpret, turn_into
from xdlc.passes.base import graph_pass, op_pass


@graph_pass(stage="htp", after=("lift_scalar_io",))
def reinterpret_io(graph: Graph) -> bool:
    """Remove Reinterpret at inputs and outputs, also with views between.

    Callers feed and fetch the same bytes.
    """
    changed = [_store_input(graph, tensor) for tensor in graph.inputs]
    for tensor in graph.outputs:
        changed += [_move_after_views(graph, tensor), _store_output(graph, tensor)]
    return any(changed)


def _store_input(graph: Graph, tensor: Tensor) -> bool:
    readers = graph.consumers(tensor)
    forms = {(op.outputs[0].dtype, op.outputs[0].encoding) for op in readers if is_reinterpret(op)}
    if tensor.dtype.is_fixed or len(forms) != 1 or not all(map(is_reinterpret, readers)):
        return False
    if graph.is_output(tensor) or not all(isinstance(encoding, ir.ScaleOffset) for _, encoding in forms):
        return False
    tensor.dtype, tensor.encoding = forms.pop()
    for op in readers:
        result = op.outputs[0]
        if graph.is_output(result):
            _copy(graph, op, tensor, result)
        else:
            graph.replace(result, tensor)
            graph.remove(op)
    return True


def _move_after_views(graph: Graph, tensor: Tensor) -> bool:
    """Move Reinterpret from before the views of an output to after them."""
    views: list[Op] = []
    op, viewed = tensor.producer, tensor
    while op is not None and op.package == ir.NATIVE_PACKAGE and traits(op).view and op.inputs[0] is not None:
        if viewed is not tensor and (graph.sole_consumer(viewed) is not views[-1]):
            return False
        views.append(op)
        viewed = op.inputs[0]
        op = viewed.producer
    source = op.inputs[0] if op is not None and is_reinterpret(op) else None
    if not views or op is None or source is None or graph.consumers(tensor):
        return False
    if not source.dtype.is_fixed or not isinstance(source.encoding, ir.ScaleOffset):
        return False
    graph.set_inputs(views[-1], [source, *views[-1].inputs[1:]])
    for view in views:
        view.outputs[0].dtype, view.outputs[0].encoding = source.dtype, source.encoding
    if not graph.is_read(viewed):
        views[-1].origin = views[-1].origin.merged(op.origin)
        graph.remove(op)
    return True


def _store_output(graph: Graph, tensor: Tensor) -> bool:
    op = tensor.producer
    source = op.inputs[0] if op is not None and is_reinterpret(op) else None
    if op is None or source is None or not source.dtype.is_fixed or graph.consumers(tensor):
        return False
    tensor.dtype, tensor.encoding = source.dtype, source.encoding
    producer = source.producer
    if producer is None or producer.package != ir.NATIVE_PACKAGE or graph.is_output(source):
        _copy(graph, op, source, tensor)
        return True
    graph.unlink(op)
    producer.origin = producer.origin.merged(op.origin)
    graph.set_output(producer, producer.outputs.index(source), tensor)
    graph.replace(source, tensor)
    graph.tensors.pop(source.name, None)
    return True


def _copy(graph: Graph, op: Op, source: Tensor, result: Tensor) -> None:
    """Replace an op by a Reshape, which copies a graph input or output."""
    origin = Origin(op.origin.nodes, op.origin.reason or f"{source.name!r} and {result.name!r} are the same")
    graph.replace_op(op, Op("Reshape", [source], [result], name=op.name, origin=origin))


@op_pass("Reinterpret", stage="htp", after=("dequantize_weights",), package=ir.HOST_PACKAGE)
def cast_reinterpreted(graph: Graph, op: Op) -> bool:
    """Turn Reinterpret between 8-bit unsigned fixed point and uint8 into Cast.

    HTP's Cast keeps the stored bytes there, whatever the encoding (emulation of SDK 2.51, SM8650).  Of
    other widths and signed types it has no such Cast, so they stay ops of the host.
    """
    source = op.inputs[0]
    if source is None or {source.dtype, op.outputs[0].dtype} != {UFIXED8, UINT8}:
        return False
    turn_into(graph, op, "Cast")
    return True
