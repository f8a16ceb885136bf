"""Handlers of normalizations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xdlc.converter.nhwc.shapes import dims, number, reshape, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import CHANNEL_LAST
from xdlc.converter.values import Value


def _filled(g: Operators, x: Value, shape: Sequence[int], given: Value | None, fill: float) -> Value:
    """Return a parameter in the shape that it has, or one of equal numbers where it is omitted."""
    if given is None:
        return g.builder.const(np.full(shape, fill, x.dtype.numpy))
    return g.builder.cast(given, x.dtype)


# ---------------------------------------------------------------------------------------------- batches


def _by_statistics(
    g: Operators, x: Value, weight: Value | None, bias: Value | None, mean: Value, var: Value, eps: float
) -> Value:
    shape = dims(x, [1])
    scale, shift = _filled(g, x, shape, weight, 1), _filled(g, x, shape, bias, 0)
    mean, var = (g.builder.cast(each, x.dtype) for each in (mean, var))
    return g("BatchNormalization", [x, scale, shift, mean, var], epsilon=eps)


def _own_statistics(g: Operators, x: Value) -> tuple[Value, Value]:
    """Return mean and variance of each channel over all others."""
    axes = vector(g, [axis for axis in range(x.rank) if axis != 1])
    mean = g("ReduceMean", [x, axes], keepdims=1)
    centred = g("Sub", [x, mean])
    variance = g("ReduceMean", [g("Mul", [centred, centred]), axes], keepdims=1)
    shape = dims(x, [1])
    return reshape(g, mean, shape), reshape(g, variance, shape)


def _batch_norm(
    node: AtenNode,
    g: Operators,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running: Sequence[Value | None],
    training: bool,
    eps: float,
) -> list[Value]:
    """Return the result, and mean and one over the deviation of the batch (empty if they are not used)."""
    mean, var = running
    if not training:
        if mean is None or var is None:
            raise node.invalid("it has no running statistics, nor those of the batch")
        empty = g.builder.const(np.zeros(0, x.dtype.numpy))
        return [_by_statistics(g, x, weight, bias, mean, var, eps), empty, empty]
    if mean is not None and mean.is_static:
        raise node.problem(
            "works in training mode, which changes its running statistics",
            "call model.eval() before torch.export.export",
        )
    mean, var = _own_statistics(g, x)
    one_over = g("Reciprocal", [g("Sqrt", [g("Add", [var, number(g, var, eps)])])])
    return [_by_statistics(g, x, weight, bias, mean, var, eps), mean, one_over]


@aten("batch_norm", layout=CHANNEL_LAST, ignores=("momentum", "cudnn_enabled"))
def _batch(
    node: AtenNode,
    g: Operators,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    eps: float,
) -> Value:
    return _batch_norm(node, g, input, weight, bias, (running_mean, running_var), training, eps)[0]


@aten(
    "native_batch_norm",
    "_native_batch_norm_legit_no_training",
    "_native_batch_norm_legit.no_stats",
    "_batch_norm_no_update",
    layout=CHANNEL_LAST,
    ignores=("momentum",),
)
def _native_batch(
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
    made = _batch_norm(node, g, input, weight, bias, (running_mean, running_var), training, eps)
    if node.type == "_batch_norm_no_update":
        made.append(g.builder.const(np.zeros(0, np.uint8)))
    return made


@aten("_native_batch_norm_legit_functional", "_batch_norm_with_update_functional", layout=CHANNEL_LAST)
def _functional_batch(
    node: AtenNode,
    g: Operators,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
    training: bool = True,
) -> list[Value]:
    if not training:
        made = _batch_norm(node, g, input, weight, bias, (running_mean, running_var), False, eps)
        moved = [running_mean, running_var]
    else:
        mean, var = _own_statistics(g, input)
        one_over = g("Reciprocal", [g("Sqrt", [g("Add", [var, number(g, var, eps)])])])
        made = [_by_statistics(g, input, weight, bias, mean, var, eps), mean, one_over]
        count = input.size // max(input.shape[1], 1)
        whole = g("Mul", [var, number(g, var, count / max(count - 1, 1))])
        moved = [
            g(
                "Add",
                [g("Mul", [old, number(g, old, 1 - momentum)]), g("Mul", [new, number(g, new, momentum)])],
            )
            for old, new in ((running_mean, mean), (running_var, whole))
        ]
    reserve = [g.builder.const(np.zeros(0, np.uint8))] if node.type.startswith("_batch") else []
    return [*made, *reserve, *moved]


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
        statistics = (running_mean, running_var)
        return _batch_norm(node, g, input, weight, bias, statistics, False, eps)[0]
    if running_mean is not None and running_mean.is_static:
        raise node.problem(
            "works in training mode, which changes its running statistics",
            "call model.eval() before torch.export.export",
        )
    shape = dims(input, [1])
    scale, shift = _filled(g, input, shape, weight, 1), _filled(g, input, shape, bias, 0)
    x = input if input.rank != 3 else g("Unsqueeze", [input, vector(g, [2])])
    made = g("InstanceNormalization", [x, scale, shift], epsilon=eps)
    return made if input.rank != 3 else g("Squeeze", [made, vector(g, [2])])


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
    axis, count = -len(normalized_shape), 3 if node.type.startswith("native") else 1
    operands = [input, _filled(g, input, normalized_shape, weight, 1)]
    if bias is not None:
        operands.append(g.builder.cast(bias, input.dtype))
    read = count if any(name in g.read for name in node.outputs[1:]) else 1
    return g.apply("LayerNormalization", operands, {"axis": axis, "epsilon": eps}, read)


@aten("rms_norm")
def _rms_norm(
    node: AtenNode,
    g: Operators,
    input: Value,
    normalized_shape: Sequence[int],
    weight: Value | None,
    eps: float | None,
) -> Value:
    smallest = float(np.finfo(np.float32).eps) if eps is None else eps  # that of what it computes with
    scale = _filled(g, input, normalized_shape, weight, 1)
    return g("RMSNormalization", [input, scale], axis=-len(normalized_shape), epsilon=smallest)


def _grouped(
    g: Operators, x: Value, groups: int, weight: Value | None, bias: Value | None, eps: float
) -> Value:
    shape = dims(x, [1])
    scale, shift = _filled(g, x, shape, weight, 1), _filled(g, x, shape, bias, 0)
    lifted = x if x.rank > 3 else g("Unsqueeze", [x, vector(g, range(2, 6 - x.rank))])
    made = g("GroupNormalization", [lifted, scale, shift], num_groups=groups, epsilon=eps)
    return made if x.rank > 3 else g("Squeeze", [made, vector(g, range(2, 6 - x.rank))])


@aten("group_norm", layout=CHANNEL_LAST, ignores=("cudnn_enabled",))
def _group_norm(
    node: AtenNode,
    g: Operators,
    input: Value,
    num_groups: int,
    weight: Value | None,
    bias: Value | None,
    eps: float,
) -> Value:
    return _grouped(g, input, num_groups, weight, bias, eps)


@aten("native_group_norm", layout=CHANNEL_LAST, ignores=("N", "C", "HxW"))
def _native_group_norm(
    node: AtenNode,
    g: Operators,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    group: int,
    eps: float,
) -> list[Value]:
    if any(name in g.read for name in node.outputs[1:]):
        raise node.problem("its mean and deviation are used", "rewrite this part of the model")
    return [_grouped(g, input, group, weight, bias, eps)]


# ---------------------------------------------------------------------------------------------- weights


def _norm_except(g: Operators, x: Value, dim: int, power: int = 2) -> Value:
    """Return the norm over all axes but one, which keep a size of 1; that of all for axis -1."""
    axes = [axis for axis in range(x.rank) if axis != dim]
    if power == 2:
        return g("ReduceL2", [x, vector(g, axes)], keepdims=int(dim != -1))
    powers = g("Pow", [g("Abs", [x]), number(g, x, power)])
    total = g("ReduceSum", [powers, vector(g, axes)], keepdims=int(dim != -1))
    return g("Pow", [total, number(g, x, 1 / power)])


@aten("norm_except_dim")
def _norm_except_dim(node: AtenNode, g: Operators, v: Value, pow: int, dim: int) -> Value:
    return _norm_except(g, v, dim, pow)


@aten("_weight_norm", "_weight_norm_interface")
def _weight_norm(node: AtenNode, operators: Operators, v: Value, g: Value, dim: int) -> list[Value]:
    norm = _norm_except(operators, v, dim)
    made = operators("Mul", [v, operators("Div", [g, norm])])
    return [made, norm] if node.type.endswith("interface") else [made]
