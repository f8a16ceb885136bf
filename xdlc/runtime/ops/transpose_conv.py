"""Transposed convolutions of one to three spatial axes."""

from __future__ import annotations

from xdlc.errors import ModelError
from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder, channels_first
from xdlc.runtime.ops import lowering


@lowering("TransposeConv1d", "TransposeConv2d", "TransposeConv3d")
def transpose_conv(op: Op, b: Builder) -> None:
    """Lower to ConvTranspose; weights [..., cin, cout / group] become [cin, cout / group, ...]."""
    source, weight, bias = args.operand(op, 0), args.operand(op, 1), args.optional(op, 2)
    count = source.rank - 2
    if count < 1 or weight.rank != source.rank:
        raise ModelError(f"input of rank {source.rank} does not go with weights of rank {weight.rank}")
    order = channels_first(source.rank)
    inputs = [b.read(source, order), b.read(weight, (count, count + 1, *range(count)))]
    if bias is not None:
        inputs.append(b.read(bias))
    value = b.node(
        "ConvTranspose",
        inputs,
        kernel_shape=list(weight.shape[:count]),
        strides=args.integers(op, "stride", count),
        dilations=args.integers(op, "dilation", count, default=1),
        pads=args.pads(op, count),
        output_padding=args.integers(op, "output_padding", count, default=0),
        group=int(op.param("group", 1)),
    )
    b.write(args.result(op), value, order)
