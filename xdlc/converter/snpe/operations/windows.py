"""Layers that slide a window over an image: convolutions and pools; x is the width, y the height."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.converter.snpe.inverse import Operation, operation, u32
from xdlc.converter.snpe.static_tensors import as_bytes, product_scales, real_bias
from xdlc.ir import Param, Tensor, b8, i32
from xdlc.ir.dtype import FLOAT32

EXPLICIT = 4  # strategy: the attributes say how much padding lies in front
ZEROS = 0
MAXIMUM, AVERAGE = 0, 1


def _pair(name: str, values: Sequence[int], vertical: str = "_y", horizontal: str = "") -> dict[str, Param]:
    return {f"{name}{vertical}": i32(int(values[0])), f"{name}{horizontal}": i32(int(values[1]))}


def _begins(node: Operation) -> list[int]:
    return [int(begin) for begin, _ in node.table("pad_amount")]


def _weights(node: Operation) -> dict[str, Tensor | None]:
    """Return weights and bias as a layer holds them."""
    given = [*node.op.inputs[1:], None, None]
    weight, bias = given[0], given[1]
    if weight is None or not weight.is_static or weight.rank != 4:
        raise node.problem("has weights that are no static tensor of rank 4")
    fixed = node.source.dtype.is_fixed
    if weight.dtype.is_fixed != fixed or (not fixed and weight.dtype is not FLOAT32):
        raise node.problem(f"has weights of {weight.dtype} for an input of {node.source.dtype}")
    held = as_bytes(weight, "weights_0") if fixed else weight
    if held is None:
        raise node.problem(f"has weights of {weight.dtype}, layers hold 8 bits")
    return {"weights_0": held, "bias": _bias(node, bias, weight)}


def _bias(node: Operation, bias: Tensor | None, weight: Tensor) -> Tensor | None:
    if bias is None:
        return None
    if not bias.is_static:
        raise node.problem("has a bias that is computed")
    if not node.source.dtype.is_fixed:
        held = bias if bias.dtype is FLOAT32 else None
    else:
        held = as_bytes(bias, "bias") or real_bias(bias, product_scales(node.source, weight), "bias")
    if held is None:
        raise node.problem(f"has a bias of {bias.dtype} that neither bytes nor real numbers give exactly")
    return held


def _window(node: Operation, weight: Tensor, groups: int) -> dict[str, Param]:
    if node.source.rank != 4:
        raise node.problem(f"works on {list(node.source.shape)}, not on images")
    return {
        **_pair("dilation", node.table("dilation", [1, 1]), "_y", "_x"),
        "groups": i32(groups),
        **_pair("kernel_size", weight.shape),
        **_pair("padding", _begins(node)),
        "padding_mode": u32(ZEROS),
        "padding_strategy": u32(EXPLICIT),
        **_pair("stride", node.table("stride")),
    }


@operation("Conv2d")
def convolution(node: Operation) -> None:
    """Make a layer Convolutional."""
    node.plain("reuse_sparse_indices", "reuse_sparse_indicies")
    weights = _weights(node)
    weight = weights["weights_0"]
    assert weight is not None
    params = _window(node, weight, int(node.op.param("group", 1)))
    node.emit("Convolutional", [node.source], params, weights)


@operation("DepthWiseConv2d")
def depthwise(node: Operation) -> None:
    """Make a layer Convolutional with as many groups as channels."""
    weights = _weights(node)
    weight = weights["weights_0"]
    assert weight is not None
    if node.source.shape[-1] < 2:
        raise node.problem("has one channel, of which a layer with groups knows nothing")
    node.emit("Convolutional", [node.source], _window(node, weight, node.source.shape[-1]), weights)


@operation("TransposeConv2d")
def deconvolution(node: Operation) -> None:
    """Make a layer Deconvolution."""
    weights = _weights(node)
    weight = weights["weights_0"]
    assert weight is not None
    params = _window(node, weight, int(node.op.param("group", 1)))
    params |= _pair("output_padding", node.table("output_padding", [0, 0]), "_y", "_x")
    node.emit("Deconvolution", [node.source], params, weights)


@operation("PoolMax2d", "PoolAvg2d")
def pool(node: Operation) -> None:
    """Make a layer Pooling."""
    node.plain("rounding_mode")
    average = node.op.type == "PoolAvg2d"
    params = {
        **_pair("pad", _begins(node), "_y", "_x"),
        "padding_size_strategy": u32(EXPLICIT),
        "pool_region_include_padding": b8(average and bool(node.op.param("count_pad_for_edges", False))),
        **_pair("size", node.table("filter_size"), "_y", "_x"),
        **_pair("stride", node.table("stride"), "_y", "_x"),
        "type": u32(AVERAGE if average else MAXIMUM),
    }
    node.emit("Pooling", [node.source], params)
