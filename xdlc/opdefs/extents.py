"""Checks that output extents follow from the parameters of ops that enlarge or shrink axes.

A graph whose Conv2d states a padding of millions but an output of a few elements would make an
engine allocate what the parameters say; files come from strangers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xdlc.errors import ConstraintError
from xdlc.ir import NATIVE_PACKAGE, Graph, Op, Tensor

_CONVOLUTIONS = ("Conv2d", "Conv3d", "DepthWiseConv2d")
_TRANSPOSED = ("TransposeConv2d", "TransposeConv3d")
_POOLS = ("PoolAvg2d", "PoolMax2d", "L2Pool2d", "PoolAvg3d", "PoolMax3d")


def verify_extents(graph: Graph) -> list[ConstraintError]:
    """Return the ops of a graph whose output extents contradict their parameters."""
    problems = []
    for op in graph.ops:
        rule = _RULES.get(op.type) if op.package == NATIVE_PACKAGE else None
        if rule is None or not op.inputs or op.inputs[0] is None:
            continue
        found = op.outputs[0].shape
        accepted = rule(op, op.inputs[0])
        if accepted is not None and list(found) not in accepted:
            problems.append(
                ConstraintError(
                    f"its parameters make the output {accepted[0]}, but it is {list(found)}",
                    where=f"graph {graph.name!r}: op {op.name!r} ({op.type})",
                    fix="the file is damaged, or written by a faulty tool: convert the source model again",
                )
            )
    return problems


Shapes = list[list[int]]


def stated_extents(op: Op, shape: tuple[int, ...]) -> Shapes | None:
    """Return the output shapes that an op's parameters allow for an input of ``shape``.

    None if the op's type has no such law, or its parameters do not go with the rank.
    """
    rule = _RULES.get(op.type) if op.package == NATIVE_PACKAGE else None
    source = op.inputs[0] if op.inputs else None
    return None if rule is None or source is None else rule(op, replace(source, shape=shape))


def _ints(op: Op, name: str, default: Sequence[int]) -> list[int]:
    given = op.param(name)
    return list(default) if given is None else [int(value) for value in given.reshape(-1)]


def _convolution(op: Op, source: Tensor) -> Shapes | None:
    weight = op.inputs[1] if len(op.inputs) > 1 else None
    if weight is None or weight.rank != source.rank:
        return None
    kernel = weight.shape[:-2]
    extents = _windows(op, source, kernel, _ints(op, "dilation", [1] * len(kernel)), [False])
    return _with_ends(op, source, extents)


def _pool(op: Op, source: Tensor) -> Shapes | None:
    kernel = _ints(op, "filter_size", ())
    modes = [bool(op.param("rounding_mode", 0))]
    return _with_ends(op, source, _windows(op, source, kernel, [1] * len(kernel), modes))


def _windows(
    op: Op, source: Tensor, kernel: Sequence[int], dilation: Sequence[int], modes: Sequence[bool]
) -> Shapes | None:
    strides, pads = _ints(op, "stride", ()), _ints(op, "pad_amount", ())
    rank = source.rank - 2
    if not len(kernel) == len(strides) == len(dilation) == rank or len(pads) != 2 * rank or 0 in strides:
        return None
    accepted = []
    for rounds_up in modes:
        extents = []
        for axis in range(rank):
            reach = dilation[axis] * (kernel[axis] - 1) + 1
            room = source.shape[1 + axis] + pads[2 * axis] + pads[2 * axis + 1] - reach
            steps = -(-room // strides[axis]) if rounds_up else room // strides[axis]
            extents.append(steps + 1)
        accepted.append(extents)
        if rounds_up:  # some tools drop a last window that would start in the padding
            accepted.append([max(1, extent - 1) for extent in extents])
    return accepted


def _transposed(op: Op, source: Tensor) -> Shapes | None:
    weight = op.inputs[1] if len(op.inputs) > 1 else None
    if weight is None or weight.rank != source.rank:
        return None
    rank = source.rank - 2
    strides, pads = _ints(op, "stride", ()), _ints(op, "pad_amount", ())
    extra, dilation = _ints(op, "output_padding", [0] * rank), _ints(op, "dilation", [1] * rank)
    if not len(strides) == len(extra) == len(dilation) == rank or len(pads) != 2 * rank:
        return None
    extents = [
        strides[axis] * (source.shape[1 + axis] - 1)
        + dilation[axis] * (weight.shape[axis] - 1)
        + 1
        + extra[axis]
        - pads[2 * axis]
        - pads[2 * axis + 1]
        for axis in range(rank)
    ]
    return _with_ends(op, source, [extents])


def _with_ends(op: Op, source: Tensor, spatial: Shapes | None) -> Shapes | None:
    found = op.outputs[0].shape
    if spatial is None or len(found) != source.rank:
        return None
    return [[source.shape[0], *extents, found[-1]] for extents in spatial]


def _pad(op: Op, source: Tensor) -> Shapes | None:
    pads = _ints(op, "pad_amount", ())
    if len(pads) != 2 * source.rank:
        return None
    return [[extent + pads[2 * axis] + pads[2 * axis + 1] for axis, extent in enumerate(source.shape)]]


def _tile(op: Op, source: Tensor) -> Shapes | None:
    multiples = _ints(op, "multiples", ())
    if len(multiples) != source.rank:
        return None
    return [[extent * count for extent, count in zip(source.shape, multiples, strict=True)]]


_RULES: dict[str, Callable[[Op, Tensor], Shapes | None]] = {
    **dict.fromkeys(_CONVOLUTIONS, _convolution),
    **dict.fromkeys(_TRANSPOSED, _transposed),
    **dict.fromkeys(_POOLS, _pool),
    "Pad": _pad,
    "Tile": _tile,
}
