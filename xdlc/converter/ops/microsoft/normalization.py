"""Normalizations with additions, embeddings or activations fused into them."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import CHANNEL_LAST, MICROSOFT, Node, importer
from xdlc.converter.ops._compose import compare, neuron, part, reduced
from xdlc.converter.ops._formulas import normalized, plus, silu
from xdlc.converter.ops.normalization import rms_normalization
from xdlc.converter.values import Value, channel_last, check_table, identity
from xdlc.ir.dtype import INT32
from xdlc.opdefs.elementwise_enums import EQUAL, MULTIPLY, SIGMOID

_NONE, _SILU = 0, 1


@importer("GroupNorm", domain=MICROSOFT, layout=CHANNEL_LAST)
def group_norm(node: Node, b: Builder) -> Value:
    """Map onto GroupNorm and, for activation 1, x * sigmoid(x)."""
    return _normalized(node, b, node.required(0))


@importer("SkipGroupNorm", domain=MICROSOFT, layout=CHANNEL_LAST)
def skip_group_norm(node: Node, b: Builder, x: Value) -> list[Value]:
    """Map as GroupNorm of x + skip + bias; the second output is that sum."""
    skip, bias = node.required(3), node.input(4)
    last = node.flag("channels_last", 1)
    if skip.rank == 2:
        batch, channels = skip.shape
        skip = b.reshape(skip, (batch, 1, 1, channels) if last else (batch, channels, 1, 1))
    if bias is not None and not last:
        bias = b.reshape(bias, (bias.size, 1, 1))
    total = plus(b, x, skip, bias)
    return [_normalized(node, b, total), total]


def _normalized(node: Node, b: Builder, x: Value) -> Value:
    scale, shift, groups = node.required(1), node.required(2), node.attr("groups", 0)
    activation, last = node.attr("activation", _NONE), node.flag("channels_last", 1)
    if x.rank != 4 or activation not in (_NONE, _SILU):
        raise node.problem(f"xdlc does not support an input of rank {x.rank} with activation {activation}")
    if last:
        x = b.transpose(x, (0, 3, 1, 2))
    if groups < 1 or x.shape[1] % groups:
        raise node.problem(f"{groups} groups do not fit {x.shape[1]} channels")
    inputs = [
        b.channel_last(x),
        b.source_order(b.cast(scale, x.dtype)),
        b.source_order(b.cast(shift, x.dtype)),
    ]
    params = {"epsilon": ir.f32(node.attr("epsilon", 1e-5)), "group": ir.u32(groups)}
    out = b.emit("GroupNorm", inputs, inputs[0].shape, x.dtype, params)
    made = Value(out, channel_last(4))
    made = silu(b, made) if activation == _SILU else made
    return b.transpose(made, (0, 2, 3, 1)) if last else made


@importer("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(node: Node, b: Builder) -> list[Value]:
    """Map onto additions and LayerNorm; the last output is the sum."""
    return _skip(node, b, node.input(3), node.input(4), rms=False)


@importer("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_normalization(node: Node, b: Builder) -> list[Value]:
    """Map onto additions and RmsNorm; the last output is the sum."""
    return _skip(node, b, None, node.input(3), rms=True)


def _skip(node: Node, b: Builder, shift: Value | None, bias: Value | None, *, rms: bool) -> list[Value]:
    if any(node.outputs[1:3]):
        raise node.problem(
            "xdlc does not support the outputs of mean and deviation", "export the model for inference"
        )
    total = plus(b, node.required(0), node.required(1), bias)
    made = normalized(b, total, node.required(2), shift, node.attr("epsilon", 1e-12), rms=rms)
    return [made, made, made, total]


@importer("SimplifiedLayerNormalization", ignores=("stash_type",))
def simplified_layer_normalization(node: Node, b: Builder) -> Value:
    """Map like RMSNormalization of newer opsets, which replaced it."""
    if any(node.outputs[1:]):
        raise node.problem(
            "xdlc does not support the output of the deviation", "export the model for inference"
        )
    return rms_normalization(node, b)


@importer("GatedRMSNorm", domain=MICROSOFT)
def gated_rms_norm(node: Node, b: Builder) -> Value:
    """Map onto RmsNorm of each group of channels, times the activated gate."""
    x, scale, gate = (node.required(index) for index in range(3))
    activation = node.attr("activation", "silu")
    if activation not in ("silu", "swish", "sigmoid"):
        raise node.problem(f"xdlc does not support activation {activation!r}")
    size = scale.shape[-1]
    grouped = b.reshape(x, (*x.shape[:-1], x.shape[-1] // size, size))
    made = b.reshape(normalized(b, grouped, scale, None, node.attr("epsilon", 1e-5), rms=True), x.shape)
    return b.binary(MULTIPLY, made, neuron(b, gate, SIGMOID) if activation == "sigmoid" else silu(b, gate))


@importer("EmbedLayerNormalization", domain=MICROSOFT, ignores=("mask_index_type",))
def embed_layer_normalization(
    node: Node, b: Builder, words: Value, segments: Value | None = None
) -> list[Value]:
    """Map onto Gather, additions and LayerNorm."""
    mask = node.input(7)
    total = plus(
        b,
        _looked_up(b, node.required(2), words),
        _positions(node, b, words),
        None if segments is None else _looked_up(b, node.required(4), segments),
    )
    made = normalized(b, total, node.required(5), node.required(6), node.attr("epsilon", 1e-12), rms=False)
    return [made, _counted(b, mask, words.shape[0]), total]


def _looked_up(b: Builder, table: Value, indices: Value) -> Value:
    """Return rows of a table [rows, width] as [..., width]."""
    if indices.is_static:
        indices = b.const(indices.numpy().astype(np.int32), indices.tensor.name)
    inputs = [b.source_order(table), b.source_order(b.cast(indices, INT32))]
    out = b.emit("Gather", inputs, (*indices.shape, table.shape[1]), table.dtype, {"axis": ir.i32(0)})
    return Value(out, identity(out.rank))


def _positions(node: Node, b: Builder, words: Value) -> Value:
    """Return the embeddings of stated positions, else of 0, 1, 2 and so on."""
    table, given = node.required(3), node.input(8)
    if given is not None:
        return _looked_up(b, table, given)
    length = words.shape[1]
    if length > table.shape[0]:
        raise node.problem(f"{length} words need more than {table.shape[0]} position embeddings")
    rows = part(b, table, 0, 0, length)
    return b.reshape(rows, (1, *rows.shape))


def _counted(b: Builder, mask: Value | None, batch: int) -> Value:
    """Return how many numbers of each row of a mask are 1; 0 without a mask."""
    if mask is None:
        check_table(batch)
        return b.const(np.zeros(batch, np.int32))
    if mask.is_static:
        return b.const((mask.numpy() == 1).sum(axis=1, dtype=np.int32))
    words = compare(b, EQUAL, b.cast(mask, INT32), b.const(np.asarray([1], np.int32)))
    return reduced(b, "ReduceSum", b.cast(words, INT32), [1], keep=False)
