"""Handlers of normalizations and softmaxes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xdlc.converter.functions.normalization import softmax
from xdlc.converter.functions.shapes import axis_of, cast, dims, reshape, vector
from xdlc.converter.functions.terms import Term
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops._shapes import operand
from xdlc.converter.pytorch.ops.reductions import norm
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import CHANNEL_LAST
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8


def _filled(g: Operators, x: Value, shape: Sequence[int], given: Value | None, fill: float) -> Value:
    """Return a parameter; if omitted, a constant filled with one value."""
    if given is None:
        return g.builder.const(np.full(shape, fill, x.dtype.numpy))
    return g.builder.cast(given, x.dtype)


def _affine(g: Operators, x: Value, weight: Value | None, bias: Value | None) -> list[Value]:
    """Return scale and shift of each channel."""
    shape = dims(x, [1])
    return [_filled(g, x, shape, weight, 1), _filled(g, x, shape, bias, 0)]


def _check_mode(node: AtenNode, mean: Value | None) -> None:
    if mean is not None and mean.is_static:
        raise node.problem(
            "the operator works in training mode, which changes its running statistics",
            "call model.eval() before torch.export.export",
        )


# ---------------------------------------------------------------------------------------------- batches


@aten(
    "batch_norm",
    "native_batch_norm",
    "_native_batch_norm_legit_no_training",
    "_native_batch_norm_legit.no_stats",
    "_batch_norm_no_update",
    layout=CHANNEL_LAST,
    ignores=("momentum", "cudnn_enabled"),
)
def _batch_norm(
    node: AtenNode,
    g: Operators,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    eps: float,
    running_mean: Value | None = None,
    running_var: Value | None = None,
    training: bool = False,
) -> list[Value]:
    """Return the result, batch mean and inverse deviation (empty if unused), and None."""
    x, empty = input, g.builder.const(np.zeros(0, input.dtype.numpy))
    mean, var, more = running_mean, running_var, [empty, empty]
    if training:
        _check_mode(node, running_mean)
        axes, shape = vector(g, [axis for axis in range(x.rank) if axis != 1]), dims(x, [1])
        mean = g("ReduceMean", [x, axes], keepdims=1)
        centred = g("Sub", [x, mean])
        mean = reshape(g, mean, shape)
        var = reshape(g, g("ReduceMean", [g("Mul", [centred, centred]), axes], keepdims=1), shape)
        more = [mean, g("Reciprocal", [g("Sqrt", [g("Add", [var, eps])])])]
    if mean is None or var is None:
        raise node.invalid("the operator has no running statistics and no statistics of the batch")
    statistics = (g.builder.cast(each, x.dtype) for each in (mean, var))
    operands = [x, *_affine(g, x, weight, bias), *statistics]
    made = g("BatchNormalization", operands, epsilon=eps)
    return [made, *more, g.builder.const(np.zeros(0, np.uint8))]


@aten("instance_norm", layout=CHANNEL_LAST, ignores=("momentum", "cudnn_enabled"))
def _instance_norm(
    node: AtenNode,
    g: Operators,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    use_input_stats: bool,
    eps: float,
) -> Value:
    if not use_input_stats:
        return _batch_norm(node, g, input, weight, bias, eps, running_mean, running_var)[0]
    _check_mode(node, running_mean)
    x = input if input.rank != 3 else g("Unsqueeze", [input, [2]])
    # torch divides by nothing where both the variance and eps are 0
    normal = g("InstanceNormalization", [x, *_affine(g, input, weight, bias)], epsilon=eps or 1e-30)
    return normal if input.rank != 3 else g("Squeeze", [normal, [2]])


# ---------------------------------------------------------------------------------------------- features


@aten("layer_norm", "native_layer_norm", ignores=("cudnn_enable",))
def _layer_norm(
    node: AtenNode,
    g: Operators,
    input: Value,
    normalized_shape: Sequence[int],
    weight: Value | None,
    bias: Value | None,
    eps: float,
) -> list[Value]:
    operands = [input, _filled(g, input, normalized_shape, weight, 1)]
    if bias is not None:
        operands.append(g.builder.cast(bias, input.dtype))
    count = 3 if any(name in g.read for name in node.outputs[1:]) else 1
    return g.apply("LayerNormalization", operands, {"axis": -len(normalized_shape), "epsilon": eps}, count)


@aten("rms_norm")
def _rms_norm(
    node: AtenNode,
    g: Operators,
    input: Value,
    normalized_shape: Sequence[int],
    weight: Value | None,
    eps: float | None,
) -> Value:
    smallest = float(np.finfo(np.float32).eps) if eps is None else eps  # of the type it computes in
    scale = _filled(g, input, normalized_shape, weight, 1)
    return g("RMSNormalization", [input, scale], axis=-len(normalized_shape), epsilon=smallest)


@aten(
    "group_norm",
    "native_group_norm",
    layout=CHANNEL_LAST,
    ignores=("cudnn_enabled", "N", "C", "HxW"),
    names={"group": "num_groups"},
)
def _group_norm(
    node: AtenNode,
    g: Operators,
    input: Value,
    num_groups: int,
    weight: Value | None,
    bias: Value | None,
    eps: float,
) -> Value:
    axes = vector(g, range(2, 6 - input.rank))
    x = input if input.rank > 3 else g("Unsqueeze", [input, axes])
    operands = [x, *_affine(g, input, weight, bias)]
    made = g("GroupNormalization", operands, num_groups=num_groups, epsilon=eps)
    return made if input.rank > 3 else g("Squeeze", [made, axes])


# ---------------------------------------------------------------------------------------------- weights


@aten("norm_except_dim")
def _norm_except(node: AtenNode, g: Operators, v: Value, pow: int, dim: int) -> Value:
    """Return the norm over all axes except one, kept with size 1; over all for -1."""
    x, axes = Term(g, v), [axis for axis in range(v.rank) if axis != dim]
    return norm(x, pow, axes, dim != -1).value if axes else norm(x.raised(1), pow, 1).value


@aten("_weight_norm", "_weight_norm_interface")
def _weight_norm(node: AtenNode, operators: Operators, v: Value, g: Value, dim: int) -> list[Value]:
    length = _norm_except(node, operators, v, 2, dim)
    if dims(g) != dims(length):
        raise node.invalid(f"lengths {list(dims(g))} do not fit norms {list(dims(length))}")
    return [operators("Mul", [v, operators("Div", [g, length])]), length]


_SOFTMAX = ("softmax", "_softmax", "special_softmax", "log_softmax", "_log_softmax", "special_log_softmax")


@aten(*_SOFTMAX, ignores=("half_to_float", "dtype"))
def _softmax(node: AtenNode, g: Operators, self: Value, dim: int) -> Value:
    x, log = operand(node, g, self), "log_" in node.type
    if not x.rank:
        return reshape(g, softmax(g, reshape(g, x, (1,)), log=log), ())
    return softmax(g, x, log=log, axis=axis_of(dim, x.rank))


@aten("_safe_softmax", ignores=("dtype",))
def _safe_softmax(node: AtenNode, g: Operators, self: Value, dim: int) -> Value:
    x = operand(node, g, self)
    if not x.rank:
        return _softmax(node, g, self, dim)
    axis = axis_of(dim, x.rank)
    finite = g("Max", [x, float(x.dtype.float_info.min)])
    return g("Mul", [softmax(g, finite, axis=axis), alive(g, x, axis)])


def alive(g: Operators, scores: Value, axis: int) -> Value:
    """Return 0 where all along an axis are -inf, else 1."""
    most = g("ReduceMax", [scores, [axis]], keepdims=1)
    return cast(g, g("Greater", [most, -math.inf]), scores.dtype)


@aten("_masked_softmax")
def _masked(
    node: AtenNode, g: Operators, self: Value, mask: Value, dim: int | None, mask_type: int | None
) -> Value:
    return masked_softmax(g, self, mask, axis_of(-1 if dim is None else dim, self.rank), mask_type)


def masked_softmax(g: Operators, x: Value, mask: Value | None, axis: int, kind: int | None) -> Value:
    """Return a softmax that excludes masked elements.

    Args:
        x: Scores, [N, heads, L, S] where the mask is of kind 0 or 1.
        mask: True for what is hidden; None for no mask.
        axis: Axis of the softmax.
        kind: 0 for a mask [L, S], 1 for [N, S], else it has the shape of the scores.
    """
    if mask is None:
        return softmax(g, x, axis=axis)
    mask = cast(g, mask, BOOL8)
    if kind == 1 and mask.rank == 2:
        mask = g("Unsqueeze", [mask, [1, 2]])
    return softmax(g, g("Where", [mask, -math.inf, x]), axis=axis)
