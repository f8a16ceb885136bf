"""Data types of what stays float: float32, or tensors of 16 bits with Cast where others begin."""

from __future__ import annotations

from functools import partial

from xdlc.ir import NATIVE_PACKAGE, Graph, Op, Origin, Tensor, make_op
from xdlc.ir.data import Array
from xdlc.ir.dtype import BFLOAT16, FLOAT16, FLOAT32, DType
from xdlc.ir.tensor import Role
from xdlc.opdefs.control_flow import is_control_flow
from xdlc.quant.apply import insert_beside
from xdlc.quant.ranges import NOTHING, range_of

LEAST_FLOAT16 = 2.0**-24

_TYPES: dict[int | str, DType] = {16: FLOAT16, "bf16": BFLOAT16}


def store_floats(graph: Graph, float_bitwidth: int | str) -> list[str]:
    """Store what is float32 between ops in another type; return a note of each constant that does not fit it.

    Inputs and outputs of the graph keep their type, and so does what ops of other packages and ops that
    run graphs read and write; a Cast is between.  Constants beyond the largest float16 become that.

    Args:
        float_bitwidth: 32, 16 or ``"bf16"``.
    """
    dtype = _TYPES.get(float_bitwidth)
    if dtype is None:
        return []
    notes: list[str] = []
    for tensor in list(graph.tensors.values()):
        if tensor.dtype is not FLOAT32:
            continue
        narrow = [op for op in graph.consumers(tensor) if _is_free(op)]
        if tensor.is_static:
            first = float(tensor.numpy().flat[0]) if tensor.size == 1 and narrow else 0.0
            if dtype is FLOAT16 and 0.0 < abs(first) <= LEAST_FLOAT16 / 2:
                notes.append(
                    f"{tensor.name!r} is {first:g}, which is 0 in float16, HTP's floats: use "
                    f"{LEAST_FLOAT16:.1g} or more"
                )
            values = range_of(tensor.numpy()) if dtype is FLOAT16 and narrow else NOTHING
            if max(-values.low, values.high) > FLOAT16.largest:
                notes.append(f"{tensor.name!r} spans {values.low:g} to {values.high:g}: clipped to float16")
            _store_static(graph, tensor, narrow, dtype)
        else:
            _store_activation(graph, tensor, narrow, dtype)
    return notes


def _is_free(op: Op) -> bool:
    """Return whether an op computes with floats of any type."""
    reals = [t for t in (*op.inputs, *op.outputs) if t is not None and not t.is_static and t.dtype.is_float]
    return bool(reals) and op.package == NATIVE_PACKAGE and not is_control_flow(op)


def _store_static(graph: Graph, tensor: Tensor, readers: list[Op], dtype: DType) -> None:
    if not readers or tensor.data is None:
        return
    held = tensor
    if len(readers) < len(graph.consumers(tensor)):
        held = Tensor(graph.unique_name(f"{tensor.name}_{dtype}"), tensor.shape, tensor.dtype)
        held.role, held.data = Role.STATIC, tensor.data
        graph.add_tensor(held)
        _reroute(graph, readers, tensor, held)
    largest = FLOAT16.largest if dtype is FLOAT16 else None
    held.data = tensor.data.transform(partial(_narrow, dtype=dtype, largest=largest), dtype=dtype.numpy)
    held.dtype = dtype


def _narrow(array: Array, *, dtype: DType, largest: float | None) -> Array:
    clipped = array if largest is None else array.clip(-largest, largest)
    return clipped.astype(dtype.numpy)


def _store_activation(graph: Graph, tensor: Tensor, readers: list[Op], dtype: DType) -> None:
    producer = tensor.producer
    written = producer is not None and _is_free(producer)
    others = graph.is_output(tensor) or len(readers) < len(graph.consumers(tensor))
    if written and not others:
        tensor.dtype = dtype
        return
    if not written and not readers:
        return
    other = Tensor(
        graph.unique_name(f"{tensor.name}_{dtype}"), tensor.shape, dtype, dynamic_axes=tensor.dynamic_axes
    )
    name = f"{other.name}_op"
    if producer is None or not written:
        nodes = producer.origin.nodes if producer is not None else readers[0].origin.nodes
        cast = make_op(
            graph, "Cast", [tensor], [other], name=name, origin=Origin(nodes, _reason(tensor, dtype))
        )
        insert_beside(graph, tensor, cast)
        _reroute(graph, readers, tensor, other)
        return
    origin = Origin(producer.origin.nodes, _reason(tensor, dtype))
    graph.set_output(producer, producer.outputs.index(tensor), other)
    graph.insert_after(producer, make_op(graph, "Cast", [other], [tensor], name=name, origin=origin))
    _reroute(graph, readers, tensor, other)


def _reason(tensor: Tensor, dtype: DType) -> str:
    return f"{tensor.name!r} is {tensor.dtype} outside, and ops that stay float compute with {dtype}"


def _reroute(graph: Graph, readers: list[Op], old: Tensor, new: Tensor) -> None:
    for op in readers:
        graph.set_inputs(op, [new if tensor is old else tensor for tensor in op.inputs])
