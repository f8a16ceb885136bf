"""Products with blockwise expansion ("LPBQ") in forms that HTP computes right."""

from __future__ import annotations

from dataclasses import replace

import numpy

from xdlc import ir
from xdlc.ir import AxisScaleOffset, BlockwiseExpansion, Graph, Op, Role, Tensor
from xdlc.ir.dtype import SFIXED8
from xdlc.ir.quantization import unpacked
from xdlc.opdefs import args
from xdlc.passes._writing import Writer
from xdlc.passes.base import graph_pass

_SMALL, _LARGE = 16, 32
"""Channels of blocks that are right in any number of them."""
_BROKEN = (7, 8, 9, 13, 14, 19)
"""Numbers of blocks of more than 32 channels whose caches end the library."""
_LARGEST = 16
"""Largest integer scale of a block for which 4-bit weights times it fit in 8 bits."""


@graph_pass(stage="storage", needs=(BlockwiseExpansion,))
def convolve_blocks(graph: Graph) -> bool:
    """Turn FullyConnected with blockwise expansion into Conv2d of 1x1.

    HTP computes such a FullyConnected wrongly: always with more channels out than in, else now and then.
    Conv2d of 1x1 is right with blocks of 16 and 32 channels if there is a multiple of 32 channels, and for
    most numbers of larger blocks (emulation of SDK 2.51, v69 to v79).  The parts of a block keep its scale,
    so that no weight changes.
    """
    return _rewrite(graph, expands=False)


@graph_pass(stage="htp", after=("dequantize_weights",), needs=(BlockwiseExpansion,))
def expand_blocks(graph: Graph) -> bool:
    """Rewrite as ``convolve_blocks``, and store unsupported blocks as 8-bit weights.

    A weight of 4 bits times the integer scale of its block is one of 8 bits with the scale of its channel.
    """
    return _rewrite(graph, expands=True)


def _rewrite(graph: Graph, *, expands: bool) -> bool:
    kernels: dict[Tensor, Tensor] = {}
    for op in list(graph.ops):
        weight = _weight_in_blocks(op)
        if weight is None:
            continue
        if weight not in kernels:
            kernels[weight] = _kernel(graph, weight, expands=expands)
        kernel = kernels[weight]
        if kernel is not weight and op.type == "Conv2d":
            graph.set_inputs(op, [op.inputs[0], kernel, *op.inputs[2:]])
        elif kernel is not weight:
            _convolve(graph, op, kernel)
    changed = {old: new for old, new in kernels.items() if old is not new}
    for old, new in changed.items():
        graph.supersede(old, new)
    return bool(changed)


def _weight_in_blocks(op: Op) -> Tensor | None:
    """Return the weight of a fixed-point product with blocks along the channels in."""
    if op.package != ir.NATIVE_PACKAGE or op.type not in ("Conv2d", "FullyConnected"):
        return None
    source, weight = op.inputs[0], op.inputs[1]
    if source is None or weight is None or weight.data is None or not source.dtype.is_fixed:
        return None
    is_point = op.type == "FullyConnected" or weight.shape[:2] == (1, 1)
    return weight if is_point and isinstance(weight.encoding, BlockwiseExpansion) else None


def _kernel(graph: Graph, weight: Tensor, *, expands: bool) -> Tensor:
    """Return the weight of a 1x1 convolution in a form that HTP computes right."""
    encoding = weight.encoding
    assert isinstance(encoding, BlockwiseExpansion)
    is_matrix = weight.rank == 2
    features, units = weight.shape[::-1] if is_matrix else weight.shape[2:]
    count = encoding.blocks_per_axis
    parts = block_parts(features // count, count)
    steps = numpy.array(encoding.block_scales).reshape(units, count)
    keeps_blocks = parts > 0 or not expands or steps.max() > _LARGEST
    if not is_matrix and keeps_blocks and parts <= 1:
        return weight
    values = unpacked(weight)
    if is_matrix:
        values = values.transpose((1, 0)).reshape((1, 1, features, units))
    name, shape = graph.unique_name(f"{weight.name}_kernel"), (1, 1, features, units)
    if keeps_blocks:
        steps = steps.repeat(parts or 1, axis=1)
        data = ir.packed(values) if weight.dtype.bits == 4 else values
        blocks = tuple(steps.reshape(-1).tolist())
        form = replace(encoding, axis=3, blocks_per_axis=steps.shape[1], block_scales=blocks)
        return graph.add_tensor(Tensor(name, shape, weight.dtype, form, data, Role.STATIC))
    factors = steps.repeat(features // count, axis=1).T
    data = values.transform(lambda array: (array * factors).astype(numpy.int8), dtype=numpy.dtype(numpy.int8))
    channels = AxisScaleOffset(3, encoding.scales)
    return graph.add_tensor(Tensor(name, shape, SFIXED8, channels, data, Role.STATIC))


def block_parts(size: int, count: int) -> int:
    """Return the number of parts into which each block is divided for HTP.

    0 means that HTP computes no division of it right.
    """
    if size * count % _LARGE:
        return 0
    if size in (_SMALL, _LARGE) or (size % _LARGE == 0 and count not in _BROKEN):
        return 1
    return next((size // part for part in (_LARGE, _SMALL) if size % part == 0), 0)


def _convolve(graph: Graph, op: Op, kernel: Tensor) -> None:
    source, result, name = args.operand(op, 0), op.outputs[0], op.name
    features, units = kernel.shape[2:]
    w = Writer(graph, op, "HTP computes FullyConnected with scales per block wrongly")
    rows = (1, 1, result.size // units)
    image = w.emit("Reshape", [source], (*rows, features), None, source.dtype, source.encoding)
    params: dict[str, ir.Param] = {"stride": ir.u32s([1, 1]), "pad_amount": ir.u32s([[0, 0], [0, 0]])}
    inputs = [image, kernel, *op.inputs[2:]]
    product = w.emit("Conv2d", inputs, (*rows, units), params, result.dtype, result.encoding)
    for view in (image, product):
        view.dynamic_axes = (2,) if result.dynamic_axes else ()
    w.finish(w.emit("Reshape", [product], result.shape, None, result.dtype, result.encoding))
    assert product.producer is not None
    graph.rename_op(product.producer, name)
