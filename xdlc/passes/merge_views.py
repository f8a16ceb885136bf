"""Merging of Transposes and Reshapes: neighbours, chains, and pairs around an op."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy

from xdlc import ir
from xdlc.ir import Encoding, Graph, Op, Origin, Tensor
from xdlc.opdefs import args
from xdlc.opdefs.traits import traits
from xdlc.passes._match import alone, is_type, match
from xdlc.passes.base import graph_pass

MOST_AXES = 5
"""Highest rank of HTP's Transpose."""
_VIEWS = ("Transpose", "Reshape")
_ROWWISE = ("L2Norm", "Softmax")


@graph_pass(stage="converter", after=("fold_affine",), needs=("Reshape", "Transpose"))
def merge_views(graph: Graph) -> bool:
    """Merge neighbouring Transposes and Reshapes, and equal views; drop no-ops.

    A Reshape to the shape that the tensor has already is the tensor itself.
    """
    views = [op for op in graph.ops if op.type in _VIEWS and op.package == ir.NATIVE_PACKAGE]
    shared = _share(graph, views)
    results = [_simplify(graph, op) for op in views if op.graph is not None]
    return shared or any(results)


def _share(graph: Graph, views: Sequence[Op]) -> bool:
    """Let readers of a view read the first equal view; return whether any does."""
    first: dict[tuple[Tensor | None, tuple[int, ...], tuple[int, ...], Encoding | None], Tensor] = {}
    changed = False
    for op in views:
        result = op.outputs[0]
        perm = tuple(int(axis) for axis in op.param("perm", ()))
        if isinstance(result.encoding, ir.AxisScaleOffset):
            continue
        made = first.setdefault((op.inputs[0], perm, result.shape, result.encoding), result)
        if made is not result and made.dtype is result.dtype and not graph.is_output(result):
            graph.replace(result, made)
            graph.remove(op)
            changed = True
    return changed


def _simplify(graph: Graph, op: Op) -> bool:
    source, result = op.inputs[0], op.outputs[0]
    if source is None or source.is_static:
        return False
    if _keeps_all(op, source, result) and graph.bypass(op):
        return True
    before = source.producer
    if before is None or before.type not in _VIEWS or before.package != ir.NATIVE_PACKAGE:
        return False
    first = before.inputs[0]
    if first is None or first.is_static:
        return False
    if op.type == "Reshape" and (before.type == "Reshape" or _moves_nothing(before, first)):
        graph.set_inputs(op, [first])
        op.origin = op.origin.merged(before.origin)
        graph.discard(before)
        return True
    if op.type == before.type == "Transpose":
        perm = numpy.asarray(before.param("perm"))[op.param("perm")]
        joined = ir.static(f"{op.name}_perm", perm.astype(numpy.uint32))
        op.params["perm"] = joined
        graph.set_inputs(op, [first])
        op.origin = op.origin.merged(before.origin)
        graph.discard(before)
        return True
    return False


def _moves_nothing(op: Op, source: Tensor) -> bool:
    """Return whether a Transpose moves axes of size 1 only."""
    moving = [int(axis) for axis in op.param("perm") if source.shape[axis] != 1]
    return moving == sorted(moving)


def _keeps_all(op: Op, source: Tensor, result: Tensor) -> bool:
    if source.dtype is not result.dtype or source.encoding != result.encoding or source.shape != result.shape:
        return False
    if op.type == "Reshape":
        return True
    return [int(axis) for axis in op.param("perm")] == list(range(source.rank))


@graph_pass(stage="converter", after=("merge_views",), needs=("Transpose",))
def merge_rearrangements(graph: Graph) -> bool:
    """Write a chain of Reshapes and Transposes with one Transpose, if possible.

    Unfolding an image into patches and folding it back, which models of channel-first data write so, are
    one Transpose each.
    """
    results = [_merge(graph, chain) for chain in _chains(graph)]
    return any(results)


def is_view(op: Op | None) -> bool:
    """Return whether an op moves or regroups elements of known shape."""
    return (
        op is not None
        and op.type in _VIEWS
        and op.package == ir.NATIVE_PACKAGE
        and op.inputs[0] is not None
        and not op.inputs[0].is_static
        and op.inputs[0].encoding == op.outputs[0].encoding
        and not isinstance(op.outputs[0].encoding, ir.AxisScaleOffset)
        and not op.inputs[0].dynamic_axes
        and 0 not in op.outputs[0].shape
    )


def is_rowwise(op: Op) -> bool:
    """Return whether an op computes each row of the last axis independently."""
    rank = op.outputs[0].rank
    if op.type not in _ROWWISE or "axes" in op.params or not rank:
        return False
    return int(op.param("axis", rank - 1)) % rank == rank - 1


def views_to(graph: Graph, tensor: Tensor | None) -> list[Op]:
    """Return the chain of Reshapes and Transposes that ends in a tensor.

    Each is read by the next alone.
    """
    chain: list[Op] = []
    while tensor is not None and tensor.producer is not None and is_view(tensor.producer):
        if chain and graph.sole_consumer(tensor) is not chain[0]:
            break
        chain.insert(0, tensor.producer)
        tensor = tensor.producer.inputs[0]
    return chain


def views_from(graph: Graph, tensor: Tensor) -> list[Op]:
    """Return the chain of Reshapes and Transposes that each alone read their input."""
    chain: list[Op] = []
    while (reader := graph.sole_consumer(tensor)) is not None and is_view(reader):
        chain.append(reader)
        tensor = reader.outputs[0]
    return chain


def from_transpose(chain: Sequence[Op]) -> list[Op]:
    """Return views from the first Transpose among them on."""
    turns = [op.type == "Transpose" for op in chain]
    return list(chain[turns.index(True) :]) if True in turns else []


def _chains(graph: Graph) -> list[list[Op]]:
    """Return runs of Reshapes and Transposes, each the only reader of the one before.

    They have two Transposes, or one of a rank that HTP does not have.
    """
    chains = []
    for op in graph.ops:
        if not is_view(op):
            continue
        after = graph.sole_consumer(op.outputs[0])
        if after is not None and is_view(after):
            continue
        chain = views_to(graph, op.outputs[0])
        ranks = [op.outputs[0].rank for op in chain if op.type == "Transpose"]
        if len(ranks) > 1 or any(rank > MOST_AXES for rank in ranks):
            chains.append(chain)
    return chains


class _Factors:
    """Axes as products of factors of the axes that a chain begins with.

    Attributes:
        parts: The two factors that a factor was found to consist of, the slower one first.
    """

    def __init__(self, shape: Sequence[int]) -> None:
        self.sizes = list(shape)
        self.parts: dict[int, tuple[int, int]] = {}

    def whole(self, factors: Sequence[int]) -> list[int]:
        """Return factors split into factors that have no parts."""
        undivided: list[int] = []
        stack = list(reversed(factors))
        while stack:
            factor = stack.pop()
            if factor in self.parts:
                stack += reversed(self.parts[factor])
            else:
                undivided.append(factor)
        return undivided

    def split(self, factor: int, outer: int) -> tuple[int, int]:
        """Split a factor into a factor of size ``outer`` and the rest."""
        count = len(self.sizes)
        self.sizes += [outer, self.sizes[factor] // outer]
        self.parts[factor] = (count, count + 1)
        return self.parts[factor]

    def grouped(self, axes: Sequence[Sequence[int]], shape: Sequence[int]) -> list[list[int]] | None:
        """Return the axes after a Reshape; None if an axis is not a product of factors."""
        waiting = self.whole([factor for axis in axes for factor in axis if self.sizes[factor] != 1])
        waiting.reverse()
        groups: list[list[int]] = []
        for dim in shape:
            axis: list[int] = []
            while dim > 1:
                factor = waiting.pop()
                size = self.sizes[factor]
                if size == 1:
                    continue
                if dim % size:
                    if size % dim:
                        return None
                    factor, rest = self.split(factor, dim)
                    waiting.append(rest)
                    size = dim
                axis.append(factor)
                dim //= size
            groups.append(axis)
        return groups


def moved(chain: Sequence[Op]) -> tuple[list[int], list[int]] | None:
    """Return shape and permutation of the one Transpose equal to a chain.

    The permutation is empty if no element moves; None if the chain is not a permutation of factors.
    """
    source = args.operand(chain[0], 0)
    factors = _Factors(source.shape)
    axes: list[list[int]] | None = [[axis] for axis in range(source.rank)]
    for op in chain:
        assert axes is not None
        if op.type == "Transpose":
            axes = [axes[int(axis)] for axis in op.param("perm")]
        else:
            axes = factors.grouped(axes, op.outputs[0].shape)
            if axes is None:
                return None
    assert axes is not None
    order = [f for f in factors.whole(range(source.rank)) if factors.sizes[f] != 1]
    wanted = [f for f in factors.whole([f for axis in axes for f in axis]) if factors.sizes[f] != 1]
    place = {factor: index for index, factor in enumerate(order)}
    runs: list[list[int]] = []
    for factor in wanted:
        if runs and place[factor] == place[runs[-1][-1]] + 1:
            runs[-1].append(factor)
        else:
            runs.append([factor])
    if len(runs) < 2:
        return [], []
    lying = sorted(runs, key=lambda run: place[run[0]])
    shape = [math.prod(factors.sizes[factor] for factor in run) for run in lying]
    return shape, [lying.index(run) for run in runs]


def _merge(graph: Graph, chain: Sequence[Op]) -> bool:
    layout = moved(chain)
    if layout is None or len(layout[0]) > MOST_AXES:
        return False
    shape, perm = layout
    source, last = args.operand(chain[0], 0), chain[-1]
    origin: Origin = last.origin
    for op in chain[-2::-1]:
        origin = op.origin.merged(origin)
    current: Tensor = source
    if perm:
        mover = next(op for op in reversed(chain) if op.type == "Transpose")
        current = view(graph, last, "Reshape", current, shape, last.name, origin)
        params: dict[str, ir.Param] = {"perm": ir.u32s(perm)}
        moved_shape = [shape[axis] for axis in perm]
        if mover is last and tuple(moved_shape) == last.outputs[0].shape:
            last.params["perm"] = ir.static(f"{last.name}_perm", numpy.asarray(perm, numpy.uint32))
        else:
            current = view(graph, last, "Transpose", current, moved_shape, last.name, origin, params)
            last = _as_reshape(graph, last, origin)
    else:
        last = _as_reshape(graph, last, origin)
    last.origin = origin
    graph.set_inputs(last, [current])
    for op in reversed(chain[:-1]):
        graph.remove(op)
    return True


def _as_reshape(graph: Graph, op: Op, origin: Origin) -> Op:
    """Return the op, replaced by a Reshape with the same result."""
    if op.type == "Reshape":
        return op
    made = ir.Op("Reshape", op.inputs, op.outputs, {}, name=op.name, package=ir.NATIVE_PACKAGE, origin=origin)
    return graph.replace_op(op, made)


def view(
    graph: Graph,
    anchor: Op,
    type: str,
    source: Tensor,
    shape: Sequence[int],
    name: str,
    origin: Origin,
    params: dict[str, ir.Param] | None = None,
) -> Tensor:
    """Insert a Reshape or Transpose before ``anchor`` and return its result."""
    if type == "Reshape" and tuple(shape) == source.shape:
        return source
    name = graph.unique_name(f"{name}_{type.lower()}")
    result = Tensor(graph.unique_name(f"{name}_out"), tuple(shape), source.dtype, source.encoding)
    graph.insert_before(anchor, ir.make_op(graph, type, [source], [result], params, name=name, origin=origin))
    return result


@graph_pass(stage="converter", after=("merge_rearrangements", "merge_views"), needs=("Reshape", "Transpose"))
def merge_views_around(graph: Graph) -> bool:
    """Compute ``view(f(view(x)))`` as ``view(view(f(x)))``.

    The two views are Reshapes, or both have a Transpose.  If f is a Gather, the second one comes first.
    """
    results = [rule(graph, op) for op in list(graph.ops) for rule in _rules(op)]
    return any(results)


def _rules(op: Op) -> tuple[Callable[[Graph, Op], bool], ...]:
    """Return the rules that move views past an op."""
    if op.package != ir.NATIVE_PACKAGE:
        return ()
    if op.type == "Gather":
        return (_lift,)
    if traits(op).elementwise:
        return (_move, _turn)
    return (_turn,) if is_rowwise(op) else ()


def _move(graph: Graph, op: Op) -> bool:
    if len(op.computed) != 1:
        return False
    (flat,), result = op.computed, op.outputs[0]
    found, after = match(graph, alone("Reshape", "x"), flat), graph.sole_consumer(result)
    if found is None or after is None or not is_type(after, "Reshape"):
        return False
    source, before = found["x"], flat.producer
    if before is None or source.is_static or not source.rank:
        return False
    if flat.shape != result.shape or source.encoding != flat.encoding or source.dynamic_axes:
        return False
    if not all(tensor is flat or _suits(tensor, flat, source) for tensor in op.inputs):
        return False
    result.shape = source.shape
    graph.replace(flat, source, [op])
    after.origin = before.origin.merged(after.origin)
    graph.remove(before)
    return True


def _turn(graph: Graph, op: Op) -> bool:
    """Move views with a Transpose past an op, if such views follow the op too."""
    if len(op.computed) != 1 or not is_view(op.computed[0].producer):
        return False
    (flat,), result, by_rows = op.computed, op.outputs[0], is_rowwise(op)
    chain = from_transpose(views_to(graph, flat))
    if not chain or not from_transpose(views_from(graph, result)):
        return False
    source = chain[0].inputs[0]
    if source is None or flat.shape != result.shape or graph.sole_consumer(flat) is not op:
        return False
    keeps_rows = _keeps_rows(chain, source, flat)
    for tensor in op.inputs:
        if tensor is not flat and not _suits(tensor, flat, source):
            return False
        if tensor is not flat and tensor is not None and tensor.size > 1 and not keeps_rows:
            return False
    if by_rows and not keeps_rows:
        return False
    if by_rows:
        op.params["axis"] = ir.u32(source.rank - 1)
    graph.replace(flat, source, [op])
    graph.replace(result, flat, graph.consumers(result))
    graph.unlink(op)
    result.shape = source.shape
    graph.insert_before(chain[0], op)
    graph.set_inputs(chain[0], [result])
    for each in chain:
        moved_on = each.outputs[0]
        moved_on.dtype, moved_on.encoding = result.dtype, result.encoding
        graph.rename(moved_on, graph.unique_name(f"{result.name}_{each.type.lower()}"))
    return True


def _keeps_rows(chain: Sequence[Op], source: Tensor, flat: Tensor) -> bool:
    """Return whether views leave the rows of the last axis whole."""
    layout, row = moved(chain), flat.shape[-1]
    if layout is None or source.shape[-1:] != (row,):
        return False
    shape, perm = layout
    return not perm or (perm[-1] == len(perm) - 1 and shape[-1] % row == 0)


def _suits(tensor: Tensor | None, flat: Tensor, source: Tensor) -> bool:
    """Return whether a constant is a number, or has values per channel of both shapes."""
    if tensor is None or tensor.size == 1:
        return tensor is None or tensor.rank <= source.rank
    return tensor.shape == flat.shape[-1:] == source.shape[-1:]


def _lift(graph: Graph, op: Op) -> bool:
    """Move a Transpose after a Gather before it."""
    (source, places), result = op.inputs, op.outputs[0]
    turn = graph.sole_consumer(result)
    if source is None or places is None or places.rank != 1:
        return False
    if turn is None or turn.type != "Transpose" or not is_view(turn):
        return False
    if graph.sole_consumer(source) is not op or not from_transpose(views_to(graph, source)):
        return False
    if graph.is_output(turn.outputs[0]):
        return False
    perm = [int(axis) for axis in turn.param("perm")]
    shape = [source.shape[axis] for axis in perm]
    params: dict[str, ir.Param] = {"perm": ir.u32s(perm)}
    lifted = view(graph, op, "Transpose", source, shape, turn.name, turn.origin, params)
    op.params["axis"] = ir.i32(perm.index(int(op.param("axis", 0)) % source.rank))
    graph.set_inputs(op, [lifted, *op.inputs[1:]])
    result.shape = tuple(result.shape[axis] for axis in perm)
    graph.replace(turn.outputs[0], result)
    graph.remove(turn)
    return True
