"""Storage of signed activations as unsigned integers, which HTP computes with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdlc import ir
from xdlc.ir import Encoding, Graph, Op, Origin, ScaleOffset, Tensor, make_op
from xdlc.ir import dtype as types
from xdlc.ir.dtype import DType
from xdlc.ir.graph import is_udo
from xdlc.opdefs import args
from xdlc.opdefs.traits import traits
from xdlc.passes._fixed_point_plan import Plan, computed, form_of, moves
from xdlc.passes._match import is_reinterpret
from xdlc.passes._static_fixed_point import shifted
from xdlc.passes.base import graph_pass

_PLAIN = {types.INT8: types.UINT8, types.INT16: types.UINT16}
_WHY = "HTP computes with unsigned values, but the source stores signed values"


@graph_pass(stage="converter", after=("prune",), needs=("Quantize", "Dequantize"))
def shift_signed(graph: Graph) -> bool:
    """Round computed values to unsigned instead of signed integers.

    q + 128 with offset - 128 denotes the same number.  HTP takes signed activations of some operations only,
    and its emulation is wrong by many steps for others that it takes, like DepthWiseConv2d (SDK 2.51,
    SM8650).  Where something reads the integers as such, or the graph has them as an input or output, both
    forms exist.  Values that UDOs read and write keep the type that their definitions have.
    """
    changed, seen = False, set[Tensor]()
    plan = Plan(graph, io=False)
    plan.note_requests(list(graph.ops))
    for op in list(graph.ops):
        for tensor in (*op.inputs, *op.outputs):
            if tensor is None or tensor in seen or not _is_signed(tensor):
                continue
            group = _group(graph, tensor)
            seen |= group.keys()
            changed |= _shift(plan, group)
    return changed


def _is_signed(tensor: Tensor) -> bool:
    """Return whether a computed tensor stores signed integers of one scale."""
    if tensor.is_static or tensor.dtype not in (types.SFIXED8, types.SFIXED16):
        return False
    return isinstance(tensor.encoding, ScaleOffset) and tensor.encoding.bits is None


def _unsigned(tensor: Tensor) -> tuple[DType, Encoding | None]:
    """Return the unsigned form of a tensor."""
    form = form_of(tensor)
    return (_PLAIN[tensor.dtype], None) if form is None else computed(form)


def _beside(graph: Graph, tensor: Tensor) -> tuple[Op, ...]:
    made = () if tensor.producer is None else (tensor.producer,)
    return made + graph.consumers(tensor)


def _kept(op: Op) -> tuple[Tensor, ...]:
    """Return the operands between which an op moves integers unchanged."""
    positions = (0,) if is_reinterpret(op) else moves(op)
    held = [op.inputs[index] for index in positions]
    is_plain = all(tensor is not None and tensor.dtype.is_integer for tensor in held)
    if not held or not (is_reinterpret(op) or is_plain):
        return ()
    return (*(tensor for tensor in held if tensor is not None), *op.outputs)


def _group(graph: Graph, tensor: Tensor) -> dict[Tensor, None]:
    """Return the tensors that share integers with one."""
    group, waiting = dict[Tensor, None](), [tensor]
    while waiting:
        tensor = waiting.pop()
        if tensor not in group:
            group[tensor] = None
            waiting += [each for op in _beside(graph, tensor) for each in _kept(op)]
    return group


def _shift(plan: Plan, group: dict[Tensor, None]) -> bool:
    """Make a group, or copies of it, unsigned; return whether anything changed."""
    graph = plan.graph
    if any(_meets_udo(graph, tensor) for tensor in group):
        return False
    if not all(_is_free(graph, tensor) for tensor in group):
        results = [_split(graph, tensor) for tensor in group if _is_signed(tensor) and _helps(plan, tensor)]
        return any(results)
    for tensor in group:
        dtype, encoding = _unsigned(tensor)
        if tensor.data is not None:
            tensor.data = shifted(tensor.data, tensor.dtype, dtype)
        tensor.dtype, tensor.encoding = dtype, encoding
    return True


def _is_free(graph: Graph, tensor: Tensor) -> bool:
    """Return whether only borders and moving ops read and write a tensor."""
    is_made = tensor.producer is not None or (tensor.is_static and tensor.dtype.is_integer)
    if not is_made or graph.is_output(tensor):
        return False
    if tensor.dtype not in _PLAIN and not _is_signed(tensor):
        return False
    return all(
        (tensor.dtype.is_fixed and traits(op).recodes) or _only_moves(op, tensor)
        for op in _beside(graph, tensor)
    )


def _only_moves(op: Op, tensor: Tensor) -> bool:
    """Return whether an op only moves the integers of a tensor."""
    positions = (0,) if is_reinterpret(op) else moves(op)
    read = [index for index, operand in enumerate(op.inputs) if operand is tensor]
    return tensor in _kept(op) and all(index in positions for index in read)


def _maker(tensor: Tensor) -> Op | None:
    """Return the op that computes the floats that are rounded to a tensor, or None."""
    op = tensor.producer
    while op is not None and (op.type == "Quantize" or moves(op)):
        op = op.inputs[0].producer if op.inputs[0] is not None else None
    return op


def _users(graph: Graph, tensor: Tensor) -> Iterator[Op]:
    """Yield the ops that compute with the numbers that a tensor denotes."""
    waiting, seen = list(graph.consumers(tensor)), set[Op]()
    while waiting:
        op = waiting.pop()
        if op in seen:
            continue
        seen.add(op)
        if op.type == "Dequantize" or moves(op):
            waiting += [reader for result in op.outputs for reader in graph.consumers(result)]
        else:
            yield op


def _meets_udo(graph: Graph, tensor: Tensor) -> bool:
    """Return whether a UDO writes or reads the floats of a quantized tensor."""
    maker = _maker(tensor)
    return (maker is not None and is_udo(maker)) or any(map(is_udo, _users(graph, tensor)))


# ---------------------------------------------------------------------- both forms


def _helps(plan: Plan, tensor: Tensor) -> bool:
    """Return whether a writer or reader of a tensor can compute in fixed point."""
    maker = _maker(tensor)
    beside = [*_users(plan.graph, tensor), *([] if maker is None else [maker])]
    return any(
        all(not out.dtype.is_float or out in plan.requested for out in op.outputs)
        for op in beside
        if op.package == ir.NATIVE_PACKAGE and not traits(op).recodes
    )


def _split(graph: Graph, tensor: Tensor) -> bool:
    """Dequantize from an unsigned copy; return whether anything changed."""
    writer = tensor.producer
    readers = [op for op in graph.consumers(tensor) if op.type == "Dequantize"]
    if writer is None or not readers or _is_copied(graph, tensor, readers):
        return False
    if writer.type == "Quantize" and writer.package == ir.NATIVE_PACKAGE:
        source = args.operand(writer, 0)
        rounded = _copy(graph, writer, tensor, source)
        graph.set_inputs(writer, [_restored(graph, writer, rounded)])
    elif is_reinterpret(writer):
        anchor = readers[0]
        rounded = _copy(graph, anchor, tensor, _restored(graph, anchor, tensor))
    else:
        return False
    for op in readers:
        graph.set_inputs(op, [rounded])
    return True


def _is_copied(graph: Graph, tensor: Tensor, readers: Sequence[Op]) -> bool:
    """Return whether a tensor is dequantized for its unsigned copy only."""
    if len(readers) != 1 or graph.is_output(readers[0].outputs[0]):
        return False
    rounded = [op.outputs[0] for op in graph.consumers(readers[0].outputs[0])]
    return all((each.dtype, each.encoding) == _unsigned(tensor) for each in rounded)


def _copy(graph: Graph, anchor: Op, tensor: Tensor, source: Tensor) -> Tensor:
    """Return floats rounded to the unsigned form of a tensor, before an op."""
    dtype, encoding = _unsigned(tensor)
    name = graph.unique_name(f"{tensor.name}_unsigned")
    made = Tensor(name, tensor.shape, dtype, encoding, dynamic_axes=tensor.dynamic_axes)
    return _insert(graph, anchor, "Quantize", source, made)


def _restored(graph: Graph, anchor: Op, tensor: Tensor) -> Tensor:
    """Return the floats that a tensor denotes, before an op."""
    name = graph.unique_name(f"{tensor.name}_float")
    made = Tensor(name, tensor.shape, types.FLOAT32, dynamic_axes=tensor.dynamic_axes)
    return _insert(graph, anchor, "Dequantize", tensor, made)


def _insert(graph: Graph, anchor: Op, type: str, source: Tensor, result: Tensor) -> Tensor:
    origin = Origin(anchor.origin.nodes, _WHY)
    graph.insert_before(
        anchor, make_op(graph, type, [source], [result], name=f"{result.name}_op", origin=origin)
    )
    return result
