"""Handlers of normalizations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xdlc.converter.nhwc.shapes import dims, number, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops._terms import Term
from xdlc.converter.pytorch.ops.reductions import norm
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import CHANNEL_LAST
from xdlc.converter.values import Value


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
        more = [mean, g("Reciprocal", [g("Sqrt", [g("Add", [var, number(g, var, eps)])])])]
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
    x = input if input.rank != 3 else g("Unsqueeze", [input, vector(g, [2])])
    # torch divides by nothing where both the variance and eps are 0
    normal = g("InstanceNormalization", [x, *_affine(g, input, weight, bias)], epsilon=eps or 1e-30)
    return normal if input.rank != 3 else g("Squeeze", [normal, vector(g, [2])])


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
