"""Merging of several Transposes with Reshapes between them into one Transpose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op, Origin, Tensor
from xdlc.passes.base import graph_pass

MOST_AXES = 5
"""Highest rank of HTP's Transpose."""
_VIEWS = ("Transpose", "Reshape")
_ROWWISE = ("L2Norm", "Softmax")


@graph_pass(stage="converter", after=("merge_views",), op_types=("Transpose",))
@dataclass(frozen=True, slots=True)
class MergeRearrangements:
    """Write a chain of Reshapes and Transposes with one Transpose, if possible.

    Unfolding an image into patches and folding it back, which models of channel-first data write so, are
    one Transpose each.
    """

    name: str = "merge_rearrangements"

    def apply(self, graph: Graph) -> bool:
        """Rewrite ``graph`` and return whether anything changed."""
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
    """Return the Reshapes and Transposes that end in a tensor.

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
    """Return the Reshapes and Transposes that alone read a tensor, in order."""
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
        sizes: Size of each factor.
        parts: The two factors that a factor was found to consist of, the slower one first.
    """

    def __init__(self, shape: Sequence[int]) -> None:
        self.sizes = list(shape)
        self.parts: dict[int, tuple[int, int]] = {}

    def whole(self, factors: Sequence[int]) -> list[int]:
        """Return factors in terms of those that have no parts."""
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
        """Split a factor into one of size ``outer`` and the rest."""
        count = len(self.sizes)
        self.sizes += [outer, self.sizes[factor] // outer]
        self.parts[factor] = (count, count + 1)
        return self.parts[factor]

    def grouped(self, axes: Sequence[Sequence[int]], shape: Sequence[int]) -> list[list[int]] | None:
        """Return the axes after a Reshape; None if an axis of it is no product of factors."""
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

    The permutation is empty if no element moves; None if the chain is no permutation of factors.
    """
    source = chain[0].inputs[0]
    assert source is not None
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
    source, last = chain[0].inputs[0], chain[-1]
    assert source is not None
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
    """Return the op as a Reshape with the same result."""
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
