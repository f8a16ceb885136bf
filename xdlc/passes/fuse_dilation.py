"""Fusion of SpaceToBatch, a convolution and BatchToSpace."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op, ScaleOffset, Tensor
from xdlc.ir.data import Array
from xdlc.opdefs.traits import traits
from xdlc.passes._match import is_type
from xdlc.passes.base import op_pass


@op_pass("BatchToSpace", stage="converter", after=("fold_affine",))
def fuse_dilation(graph: Graph, back: Op) -> bool:
    """Turn SpaceToBatch, a convolution of stride 1 and BatchToSpace into one op.

    The op is a convolution with that dilation.

    Its padding is that of SpaceToBatch less the crops.  Activations, and sums and products per channel, may
    stand after the convolution.
    """
    chain, tensor, reader = [], back.inputs[0], back
    while tensor is not None and graph.sole_consumer(tensor) is reader and tensor.producer is not None:
        reader = tensor.producer
        chain.append(reader)
        if not _is_per_channel(reader):
            break
        tensor = reader.inputs[0]
    if not chain or traits(chain[-1]).macs != "convolution" or len(chain[-1].outputs[0].shape) != 4:
        return False
    layer, inner = chain[-1], chain[-1].inputs[0]
    spread = inner.producer if inner is not None else None
    if spread is None or inner is None or not is_type(spread, "SpaceToBatch"):
        return False
    source, result = spread.inputs[0], back.outputs[0]
    if source is None or not _keeps_zeros(source, inner) or chain[0].outputs[0].encoding != result.encoding:
        return False
    block, pads = _pair(spread, "block_size"), _pair(spread, "pad_amount")
    if (block != _pair(back, "block_size")).any() or not _is_plain(layer):
        return False
    amounts = pads + _pair(layer, "pad_amount") * block[:, None] - _pair(back, "crops")
    reach = block * (numpy.asarray(_kernel(layer)) - 1) + 1
    sizes = numpy.asarray(source.shape[1:3]) + amounts.sum(axis=1) - reach + 1
    if (amounts < 0).any() or tuple(sizes) != result.shape[1:3]:
        return False
    layer.params["dilation"] = ir.static(f"{layer.name}_dilation", block.astype(numpy.uint32))
    layer.params["pad_amount"] = ir.static(f"{layer.name}_pad_amount", amounts.astype(numpy.uint32))
    graph.set_inputs(layer, [source, *layer.inputs[1:]])
    layer.origin = layer.origin.merged(spread.origin).merged(back.origin)
    for op in chain:
        op.outputs[0].shape = (*result.shape[:3], op.outputs[0].shape[3])
    graph.unlink(back)
    graph.set_output(chain[0], 0, result)
    return True


def _is_per_channel(op: Op) -> bool:
    """Return whether an op maps each element of its first input separately."""
    source, others = op.inputs[0], op.inputs[1:]
    if source is None or op.package != ir.NATIVE_PACKAGE or op.outputs[0].shape != source.shape:
        return False
    return (traits(op).elementwise or op.type == "Batchnorm") and all(
        tensor is not None and tensor.is_static and tensor.size in (1, *tensor.shape[-1:])
        for tensor in others
    )


def _is_plain(layer: Op) -> bool:
    ones = [_pair(layer, name, default=1) for name in ("stride", "dilation")]
    return all((values == 1).all() for values in ones)


def _kernel(layer: Op) -> tuple[int, ...]:
    weight = layer.inputs[1]
    return weight.shape[:2] if weight is not None else ()


def _pair(op: Op, name: str, default: int = 0) -> Array:
    """Return a parameter of two axes, padding as pairs."""
    shape = (2,) if name in ("block_size", "stride", "dilation") else (2, 2)
    given = op.param(name)
    return numpy.full(shape, default) if given is None else numpy.asarray(given, numpy.int64).reshape(shape)


def _keeps_zeros(source: Tensor, spread: Tensor) -> bool:
    """Return whether a SpaceToBatch pads with the zeros of a convolution."""
    if source.dtype is not spread.dtype or source.encoding != spread.encoding or source.dynamic_axes:
        return False
    encoding = source.encoding
    if not source.dtype.is_fixed:
        return encoding is None
    low, high = source.dtype.limits
    return isinstance(encoding, ScaleOffset) and low <= -encoding.offset <= high
