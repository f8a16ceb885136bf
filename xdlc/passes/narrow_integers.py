"""Narrowing of 64-bit numbers to 32 bits, the most that HTP supports."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from xdlc import ir
from xdlc.errors import ConstraintError, XdlcError, raise_all
from xdlc.ir import Graph, Op, Origin, Param, Role, Tensor
from xdlc.ir.dtype import FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64, DType
from xdlc.ir.names import place_of
from xdlc.passes._match import turn_into
from xdlc.passes.base import graph_pass

NARROW = {INT64: INT32, UINT64: UINT32, FLOAT64: FLOAT32}


@graph_pass(stage="htp", after=("store_integers",))
def narrow_integers(graph: Graph, *, check: bool = True) -> bool:
    """Convert 64-bit integers and floats to 32 bits; known integers must fit.

    Inputs and outputs of type int64 stay, with a Cast after or before them; for uint64 and float64 there is
    no such Cast in HTP, so that these become uint32 and float32 themselves.  What ops of the host compute
    keeps its type; a Cast is before ops that compute nothing wide of it, such as a Gather by such indices.

    Args:
        check: Whether known values must fit.
    """
    if check:
        raise_all(list(misfits(graph)))
    beside = _beside_host(graph)
    twins = [_narrow_read(graph, op, beside) for op in list(graph.ops)]
    copies = [  # HTP stores both sides as float32
        op
        for op in graph.ops
        if _is_cast(op, FLOAT64, FLOAT32, either=True) and not beside.intersection((*op.inputs, *op.outputs))
    ]
    for op in copies:
        turn_into(graph, op, "Reshape")
    ports = [_split_input(graph, tensor) for tensor in graph.inputs if tensor not in beside]
    ports += [_split_output(graph, tensor) for tensor in graph.outputs if tensor not in beside]
    kept = beside | {tensor for tensor in (*graph.inputs, *graph.outputs) if tensor.dtype is INT64}
    tensors = [_narrow_tensor(tensor) for tensor in graph.tensors.values() if tensor not in kept]
    params = [
        _narrow_params(op)
        for op in graph.ops
        if op.package == ir.NATIVE_PACKAGE and not beside.intersection((*op.inputs, *op.outputs))
    ]
    return any([*twins, *copies, *ports, *tensors, *params])


def misfits(graph: Graph) -> Iterator[XdlcError]:
    """Yield a problem for each value that does not fit, at the first op that uses it."""
    beside, seen = _beside_host(graph), set[Tensor]()
    for op in graph.ops:
        wide: Collection[Tensor] = () if _is_end(op) and op.type != "Cast" else beside
        parts: list[tuple[str, Param | None]] = [
            (f"input {index}", tensor)
            for index, tensor in enumerate(op.inputs)
            if tensor not in seen and tensor not in wide
        ]
        if op.package == ir.NATIVE_PACKAGE:
            parts += [(f"parameter {name!r}", param) for name, param in op.params.items()]
        for place, param in parts:
            if isinstance(param, Tensor):
                seen.add(param)
            value = _misfit(param)
            if value is not None:
                named = f"{place} ({param.name!r})" if isinstance(param, Tensor) else place
                yield ConstraintError(
                    f"{named} holds {value}, but HTP's integers have 32 bits",
                    where=place_of(op),
                    fix="use a value that fits 32 bits, or run this part of the model on the host",
                    node=op.name,
                    op=op.type,
                )


def _beside_host(graph: Graph) -> set[Tensor]:
    """Return the wide tensors of ops of the host, and of ops connected to them."""
    tensors: set[Tensor] = set()
    waiting = [op for op in graph.ops if op.package == ir.HOST_PACKAGE]
    while waiting:
        op = waiting.pop()
        for tensor in (*op.inputs, *op.outputs):
            if tensor is not None and tensor.dtype in NARROW and tensor not in tensors:
                tensors.add(tensor)
                readers = [*graph.consumers(tensor), *([tensor.producer] if tensor.producer else [])]
                waiting += [reader for reader in readers if reader.type != "Cast" and not _is_end(reader)]
    return tensors


def _is_end(op: Op) -> bool:
    """Return whether an op has no 64-bit results and no 64-bit inputs but int64."""
    is_wide = any(tensor.dtype in NARROW for tensor in op.outputs)
    others = any(
        tensor is not None and tensor.dtype in NARROW and tensor.dtype is not INT64 for tensor in op.inputs
    )
    return op.package == ir.NATIVE_PACKAGE and not is_wide and not others


def _narrow_read(graph: Graph, op: Op, beside: set[Tensor]) -> bool:
    """Let an op without 64-bit results read int32 in place of int64 from the host."""
    wide = [tensor for tensor in dict.fromkeys(op.inputs) if tensor is not None and tensor in beside]
    if not wide or op.type == "Cast" or not _is_end(op):
        return False
    for tensor in wide:
        twin = _narrow_twin(graph, tensor)
        if tensor.data is not None:
            twin.data, twin.role = tensor.data.cast(INT32.numpy), tensor.role
            graph.add_tensor(twin)
        else:
            reason = f"HTP reads {tensor.name!r} in 32 bits"
            graph.insert_before(op, cast_between(graph, tensor, twin, reason))
        graph.replace(tensor, twin, [op])
    return True


def _misfit(param: Param | None) -> int | None:
    """Return the value farthest outside of 32 bits, if any is."""
    narrow = NARROW.get(param.dtype) if param is not None else None
    if param is None or narrow is None or narrow.is_float:
        return None
    if isinstance(param, Tensor):
        if param.data is None or not param.size:
            return None
        values = param.data.numpy()
        ends = (int(values.min()), int(values.max()))
        param.data.release()
    else:
        ends = (int(param.value), int(param.value))
    low, high = narrow.limits
    worst = ends[0] if low - ends[0] > ends[1] - high else ends[1]
    return None if low <= worst <= high else worst


def _split_input(graph: Graph, tensor: Tensor) -> bool:
    readers = [op for op in graph.consumers(tensor) if not _is_cast(op, INT64, INT32)]
    if tensor.dtype is not INT64 or not readers:
        return False
    inner = _narrow_twin(graph, tensor)
    graph.replace(tensor, inner, readers)
    first = graph.ops[0]
    reason = f"HTP computes input {tensor.name!r} in 32 bits"
    graph.insert_before(first, cast_between(graph, tensor, inner, reason))
    return True


def _split_output(graph: Graph, tensor: Tensor) -> bool:
    op = tensor.producer
    if tensor.dtype is not INT64 or op is None or _is_cast(op, INT32, INT64):
        return False
    inner = _narrow_twin(graph, tensor)
    graph.set_output(op, op.outputs.index(tensor), inner)
    graph.replace(tensor, inner, graph.consumers(tensor))
    reason = f"HTP computes output {tensor.name!r} in 32 bits"
    graph.insert_after(op, cast_between(graph, inner, tensor, reason))
    return True


def _narrow_twin(graph: Graph, tensor: Tensor) -> Tensor:
    name = graph.unique_name(f"{tensor.name}_int32")
    return Tensor(name, tensor.shape, INT32, dynamic_axes=tensor.dynamic_axes)


def cast_between(graph: Graph, source: Tensor, result: Tensor, reason: str) -> Op:
    """Return an unlinked Cast between tensors, counted for the first one's writer."""
    producer = source.producer
    nodes = producer.origin.nodes if producer is not None else ()
    return ir.make_op(
        graph, "Cast", [source], [result], name=f"{source.name}_cast", origin=Origin(nodes, reason)
    )


def _is_cast(op: Op, source: DType, result: DType, *, either: bool = False) -> bool:
    given = op.inputs[0] if op.inputs else None
    if op.type != "Cast" or op.package != ir.NATIVE_PACKAGE or given is None:
        return False
    ends = (given.dtype, op.outputs[0].dtype)
    return ends == (source, result) or (either and ends == (result, source))


def _narrow_tensor(tensor: Tensor) -> bool:
    narrow = NARROW.get(tensor.dtype)
    if narrow is None or tensor.role is Role.INPUT_OUTPUT:
        return False
    tensor.dtype = narrow
    if tensor.data is not None:
        tensor.data = tensor.data.cast(narrow.numpy)
    return True


def _narrow_params(op: Op) -> bool:
    changed = False
    for name, param in op.params.items():
        if isinstance(param, Tensor):
            changed |= _narrow_tensor(param)
        elif param.dtype in NARROW:
            op.params[name] = ir.Scalar(NARROW[param.dtype], param.value)
            changed = True
    return changed
