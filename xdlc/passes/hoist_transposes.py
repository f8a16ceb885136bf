"""Transposes of all parts of a tensor, merged into a Transpose of the tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.opdefs import args
from xdlc.opdefs.traits import traits
from xdlc.passes._match import is_type
from xdlc.passes.base import graph_pass
from xdlc.passes.merge_views import MOST_AXES, is_rowwise, is_view, view

_CUTS = ("Split", "StridedSlice")
_MOST_OPS = 32
"""Most ops between a part and its Transpose."""


@graph_pass(stage="converter", after=("merge_rearrangements",), needs=_CUTS)
def hoist_transposes(graph: Graph) -> bool:
    """Transpose a tensor before its split, if all parts are transposed equally.

    Attention that computes queries, keys and values by one product cuts them so.
    """
    results = [_hoist(graph, tensor) for tensor in list(graph.tensors.values())]
    return any(results)


class _Part(NamedTuple):
    """A part of a tensor, and its ops up to a Transpose.

    Attributes:
        output: Which output of that it is.
        start: First place on the cut axis.
        size: Its size along that axis.
        ops: The ops after that: a Reshape that drops the cut axis, those that follow it, the Transpose.
    """

    cut: Op
    output: int
    start: int
    size: int
    ops: Sequence[Op]


def _hoist(graph: Graph, tensor: Tensor) -> bool:
    cuts = graph.consumers(tensor)
    if (
        not cuts
        or (len(cuts) > 1 and any(op.type == "Split" for op in cuts))
        or tensor.is_static
        or graph.is_output(tensor)
        or tensor.dynamic_axes
        or 0 in tensor.shape
    ):
        return False
    axes = {_cut_axis(op, tensor) for op in cuts}
    axis = axes.pop()
    if axis is None or axes or isinstance(tensor.encoding, ir.AxisScaleOffset):
        return False
    parts = [part for op in cuts for part in _parts(graph, op, tensor, axis)]
    order = _order(parts[0], tensor, axis)
    others = [part for part in parts if _order(part, tensor, axis) != order]
    if order is None or len(parts) < 2:
        return False
    if any(
        _order(part, tensor, axis, turned=True) != order or _product(graph, part) is None for part in others
    ):
        return False
    rest = [at for at in order if at != axis]
    places = [order.index(axis)] if axis in order else range(len(order) + 1)
    runs = min((_runs(tensor, axis, rest, place) for place in places), key=len)
    lying = sorted(runs)
    if not 1 < len(lying) <= MOST_AXES or lying == runs:
        return False
    for part in others:
        _turn(graph, part)
    shape = [math.prod(tensor.shape[held] for held in run) for run in lying]
    perm = [lying.index(run) for run in runs]
    place = next(index for index, run in enumerate(runs) if axis in run)
    step = math.prod(tensor.shape[held] for held in runs[place] if held != axis)
    first, transpose = parts[0].cut, parts[0].ops[-1]
    moved = view(graph, first, "Reshape", tensor, shape, transpose.name, transpose.origin)
    params: dict[str, ir.Param] = {"perm": ir.u32s(perm)}
    moved = view(
        graph, first, "Transpose", moved, [shape[i] for i in perm], transpose.name, transpose.origin, params
    )
    for part, piece in zip(parts, _pieces(graph, parts, moved, place, step), strict=True):
        _continue(graph, part, piece)
    for op in dict.fromkeys(cuts):
        graph.remove(op)
    return True


def _cut_axis(op: Op, tensor: Tensor) -> int | None:
    """Return the only axis along which an op splits or slices its input, or None."""
    if not is_type(op, *_CUTS) or op.inputs[0] is not tensor:
        return None
    if op.type == "Split":
        return int(op.param("axis"))
    if set(op.params) != {"ranges"}:
        return None
    ranges = numpy.asarray(op.param("ranges")).reshape(-1, 3).tolist()
    cut = [axis for axis, bounds in enumerate(ranges) if bounds != [0, tensor.shape[axis], 1]]
    return cut[0] if len(cut) == 1 and ranges[cut[0]][0] >= 0 and ranges[cut[0]][2] == 1 else None


def _parts(graph: Graph, op: Op, tensor: Tensor, axis: int) -> list[_Part]:
    """Return the parts that an op splits off, each with its ops up to a Transpose."""
    if op.type == "StridedSlice":
        starts = [int(numpy.asarray(op.param("ranges")).reshape(-1, 3)[axis, 0])]
    else:
        starts = [0, *(int(start) for start in numpy.asarray(op.param("split_index")).reshape(-1))]
    parts = []
    for index, (start, result) in enumerate(zip(starts, op.outputs, strict=True)):
        first = graph.sole_consumer(result)
        drops = [first] if first is not None and first.type == "Reshape" and is_view(first) else []
        ops = _region(graph, drops[0].outputs[0] if drops else result)
        same = result.encoding == tensor.encoding
        parts.append(_Part(op, index, start, result.shape[axis], [*drops, *ops] if ops and same else ()))
    return parts


def _region(graph: Graph, start: Tensor) -> list[Op]:
    """Return the ops between a tensor and one Transpose, which is the last.

    Empty if there are none, or a Transpose cannot come before them.
    """
    ops: list[Op] = []
    inside, waiting = {start}, [start]
    while waiting:
        tensor = waiting.pop()
        readers = graph.consumers(tensor)
        if graph.is_output(tensor) or not readers or len(ops) > _MOST_OPS:
            return []
        for op in readers:
            if op in ops:
                continue
            ops.append(op)
            if op.type == "Transpose" and is_view(op):
                continue
            if not _follows(op, start.rank):
                return []
            inside.update(op.outputs)
            waiting += op.outputs
    turns = [op for op in ops if op.type == "Transpose"]
    computed = (source for op in ops for source in op.computed)
    if len(turns) != 1 or graph.is_output(turns[0].outputs[0]) or not inside.issuperset(computed):
        return []
    return [*(op for op in ops if op is not turns[0]), *turns]


def _follows(op: Op, rank: int) -> bool:
    """Return whether an op commutes with the Transpose after it."""
    constants = [source for source in op.inputs if source is not None and source.is_static]
    if op.package != ir.NATIVE_PACKAGE or any(result.rank != rank for result in op.outputs):
        return False
    if any(isinstance(tensor.encoding, ir.AxisScaleOffset) for tensor in (*op.outputs, *constants)):
        return False
    if traits(op).elementwise:
        return all(source.size == 1 or op.type == "ElementWiseBinary" for source in constants)
    is_slice = op.type == "StridedSlice" and set(op.params) == {"ranges"}
    return is_slice or op.type in ("Concat", "Split") or is_rowwise(op)


def _permute(graph: Graph, op: Op, perm: Sequence[int]) -> None:
    """Update an op for a transposed input, and the shapes of its results."""
    for result in op.outputs:
        result.shape = tuple(result.shape[axis] for axis in perm)
    if op.type == "StridedSlice":
        ranges = numpy.asarray(op.param("ranges")).reshape(-1, 3)[list(perm)]
        op.params["ranges"] = ir.static(f"{op.name}_ranges", ranges.astype(numpy.int32))
    elif "axis" in op.params or is_rowwise(op):
        op.params["axis"] = ir.u32(perm.index(int(op.param("axis", len(perm) - 1)) % len(perm)))
    for source in dict.fromkeys(op.inputs):
        if source is not None and source.data is not None and source.size > 1:
            whole = (1,) * (len(perm) - source.rank) + source.shape
            shape, data = (
                tuple(whole[axis] for axis in perm),
                source.data.reshape(whole).transpose(tuple(perm)),
            )
            name = graph.unique_name(source.name)
            moved = Tensor(name, shape, source.dtype, source.encoding, data, ir.Role.STATIC)
            graph.replace(source, moved, [op])
            graph.supersede(source, moved)


def _product(graph: Graph, part: _Part) -> tuple[Op, int] | None:
    """Return the MatMul that alone reads a transposed part, and the input index."""
    result = part.ops[-1].outputs[0]
    reader = graph.sole_consumer(result)
    if reader is None or reader.type != "MatMul" or reader.package != ir.NATIVE_PACKAGE or result.rank < 2:
        return None
    places = [at for at, source in enumerate(reader.inputs) if source is result]
    return (reader, places[0]) if len(places) == 1 else None


def _turn(graph: Graph, part: _Part) -> None:
    """Let the MatMul swap the last two axes of a part, in place of its Transpose."""
    found, transpose = _product(graph, part), part.ops[-1]
    assert found is not None
    product, at = found
    key, result = f"transpose_in{at}", transpose.outputs[0]
    product.params[key] = ir.b8(not product.param(key, False))
    *kept, row, column = (int(axis) for axis in transpose.param("perm"))
    transpose.params["perm"] = ir.static(
        f"{transpose.name}_perm", numpy.asarray([*kept, column, row], numpy.uint32)
    )
    result.shape = (*result.shape[:-2], result.shape[-1], result.shape[-2])


def _order(part: _Part, tensor: Tensor, axis: int, *, turned: bool = False) -> tuple[int, ...] | None:
    """Return the permutation of the tensor's axes that a part's Transpose implies.

    The cut axis is omitted where the part has one place of it, which may lie anywhere.  None if it is not
    transposed, or a Reshape does more than drop that axis.
    """
    if not part.ops:
        return None
    shape = list(part.cut.outputs[part.output].shape)
    kept = [at for at in range(tensor.rank) if at != axis]
    dropped = part.ops[0].type == "Reshape"
    if dropped and (shape[axis] != 1 or part.ops[0].outputs[0].shape != tuple(shape[at] for at in kept)):
        return None
    perm = [int(at) for at in part.ops[-1].param("perm")]
    if turned:
        perm[-2:] = perm[:-3:-1]
    if perm[-1] != len(perm) - 1 and any(is_rowwise(op) for op in part.ops):
        return None
    names = kept if dropped else list(range(tensor.rank))
    return tuple(names[at] for at in perm if names[at] != axis or shape[axis] != 1)


def _runs(tensor: Tensor, axis: int, order: Sequence[int], place: int) -> list[list[int]]:
    """Return axes with the cut one inserted and runs of neighbours joined.

    The cut axis is the first of its run, so that a part of it is a part of the run; axes of size 1 are
    omitted.
    """
    axes = [at for at in (*order[:place], axis, *order[place:]) if at == axis or tensor.shape[at] != 1]
    present = sorted(axes)
    runs: list[list[int]] = []
    for at in axes:
        last = runs[-1][-1] if runs else None
        if last is not None and at != axis and present.index(at) == present.index(last) + 1:
            runs[-1].append(at)
        else:
            runs.append([at])
    return runs


def _pieces(graph: Graph, parts: Sequence[_Part], moved: Tensor, place: int, step: int) -> list[Tensor]:
    """Return the parts of the transposed tensor, sliced along an axis."""
    pieces, ranges = [], []
    for part in parts:
        bounds = [[0, dim, 1] for dim in moved.shape]
        bounds[place][:2] = [part.start * step, (part.start + part.size) * step]
        shape = tuple(stop - start for start, stop, _ in bounds)
        name = graph.unique_name(f"{part.cut.outputs[part.output].name}_moved")
        pieces.append(graph.add_tensor(Tensor(name, shape, moved.dtype, moved.encoding)))
        ranges.append(bounds)
    params: dict[str, ir.Param]
    cut = parts[0].cut
    if cut.type == "Split":
        starts = numpy.asarray([part.start * step for part in parts[1:]], numpy.uint32)
        params = {"axis": ir.u32(place), "split_index": ir.static("", starts)}
        made = ir.make_op(graph, "Split", [moved], pieces, params, name=cut.name, origin=cut.origin)
        graph.insert_before(cut, made)
        return pieces
    for part, piece, bounds in zip(parts, pieces, ranges, strict=True):
        cut = part.cut
        params = {"ranges": ir.static("", numpy.asarray(bounds, numpy.int32))}
        graph.insert_before(
            cut, ir.make_op(graph, "StridedSlice", [moved], [piece], params, name=cut.name, origin=cut.origin)
        )
    return pieces


def _continue(graph: Graph, part: _Part, piece: Tensor) -> None:
    """Connect the readers of a part to its transposed form."""
    transpose = part.ops[-1]
    perm = [int(axis) for axis in transpose.param("perm")]
    drops = part.ops[0].type == "Reshape"
    start = part.ops[0].outputs[0] if drops else part.cut.outputs[part.output]
    shape = [start.shape[axis] for axis in perm]
    made = view(graph, part.cut, "Reshape", piece, shape, part.cut.name, part.cut.origin)
    for op in part.ops[drops:-1]:
        _permute(graph, op, perm)
    graph.replace(start, made)
    if drops:
        graph.remove(part.ops[0])
    source = args.operand(transpose, 0)
    graph.replace(transpose.outputs[0], source)
    graph.remove(transpose)
