"""Scales and offsets per output channel of layers and normalizations."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor, TensorData, Transform
from xdlc.ir.data import Array
from xdlc.opdefs.elementwise_enums import ADD, DIVIDE, MULTIPLY, SUBTRACT
from xdlc.opdefs.traits import traits
from xdlc.passes._match import NORM_RANKS, replace_by
from xdlc.passes._polynomial import Terms, is_arithmetic, terms
from xdlc.passes.base import op_pass


def _foldable_producer(graph: Graph, tensor: Tensor | None, reader: Op) -> Op | None:
    """Return the float layer with static weights that only ``reader`` reads.

    Reshapes that keep the last axis may stand between the two.
    """
    while True:
        if tensor is None or graph.sole_consumer(tensor) is not reader:
            return None
        op = tensor.producer
        if op is None or not _keeps_channels(op):
            break
        tensor, reader = op.inputs[0], op
    if op is None or op.package != ir.NATIVE_PACKAGE or not _is_layer(op) or tensor.encoding is not None:
        return None
    weight, bias = op.inputs[1], op.inputs[2] if len(op.inputs) > 2 else None
    if weight is None or weight.data is None or not weight.dtype.is_float:
        return None
    if bias is not None and bias.data is None:
        return None
    return op


def _keeps_channels(op: Op) -> bool:
    source, result = op.inputs[0] if op.inputs else None, op.outputs[0]
    if op.type != "Reshape" or op.package != ir.NATIVE_PACKAGE or source is None or result.dynamic_axes:
        return False
    return source.shape[-1:] == result.shape[-1:] and source.rank > 0 and source.encoding == result.encoding


def _is_layer(op: Op) -> bool:
    found = traits(op)
    if found.macs == "transposed":
        return bool(op.param("group", 1) == 1)
    return op.type in ("Batchnorm", "LayerNorm") or (found.is_convolution or found.macs == "dense")


def _channels(op: Op) -> int:
    """Return the number of output channels of a layer."""
    return op.outputs[0].shape[-1]


def _fold(graph: Graph, layer: Op, reader: Op, scale: TensorData | None, shift: TensorData | None) -> None:
    """Make ``layer`` compute ``layer * scale + shift`` in place of ``reader``.

    Args:
        layer: A layer that ``_foldable_producer`` returned.
        reader: The op to be replaced, whose output the layer or the Reshape before it takes over.
        scale: Factor per output channel, or None.
        shift: Term per output channel, or None.
    """
    weight = layer.inputs[1]
    bias = layer.inputs[2] if len(layer.inputs) > 2 else None
    if weight is None or weight.data is None:
        raise ValueError(f"{layer.name} has no weights")
    if scale is not None:
        axis = traits(layer).channel_axis or 0
        dims = [1] * weight.rank
        dims[axis] = -1

        def scaled(array: Array, factor: Array) -> Array:
            return (array * factor.reshape(dims)).astype(array.dtype, copy=False)

        data = Transform([weight.data, scale], scaled, weight.data.shape, weight.data.dtype, factors=scale)
        weight = _static(graph, weight.name, weight, data)
    bias_data = _folded_bias(bias.data if bias is not None else None, scale, shift, _channels(layer))
    if bias_data is not None:
        name = bias.name if bias is not None else f"{layer.name}_bias"
        bias = _static(graph, name, weight, bias_data)
    inputs: list[Tensor | None] = [layer.inputs[0], weight]
    if bias is not None:
        inputs.append(bias)
    result, before = reader.outputs[0], reader.computed[0]
    if result.shape != before.shape:
        raise ValueError(f"{reader.name} changes the shape of {before.name}")
    last = before.producer
    graph.unlink(reader)
    if last is not None and last is not layer:
        graph.set_output(last, 0, result)
        result = layer.outputs[0]
    merged = ir.Op(
        layer.type,
        inputs,
        [result],
        layer.params,
        name=layer.name,
        package=layer.package,
        origin=layer.origin.merged(reader.origin),
    )
    held = layer.inputs
    graph.replace_op(layer, merged)
    for old, new in zip(held[1:], inputs[1:], strict=False):
        if old is not None and new is not None:
            graph.supersede(old, new)


def _folded_bias(
    bias: TensorData | None, scale: TensorData | None, shift: TensorData | None, count: int
) -> TensorData | None:
    if bias is None:
        return shift if shift is None or shift.shape == (count,) else shift.reshape((count,))
    parts = [part for part in (bias, scale, shift) if part is not None]
    if len(parts) == 1:
        return bias
    has_scale, has_shift = scale is not None, shift is not None

    def combined(array: Array, *rest: Array) -> Array:
        terms = list(rest)
        result = array.reshape(count)
        if has_scale:
            result = result * terms.pop(0).reshape(-1)
        if has_shift:
            result = result + terms.pop(0).reshape(-1)
        return result.astype(array.dtype, copy=False)

    return Transform(parts, combined, (count,), bias.dtype)


def _static(graph: Graph, name: str, like: Tensor, data: TensorData) -> Tensor:
    return Tensor(graph.unique_name(name), data.shape, like.dtype, None, data, ir.Role.STATIC)


def _per_channel(tensor: Tensor, count: int) -> TensorData | None:
    """Return static data as one value per channel of the last axis, or None."""
    if tensor.data is None or not tensor.dtype.is_float:
        return None
    if tensor.size == 1:
        return tensor.data.reshape((1,)).transform(lambda array: array.repeat(count), shape=(count,))
    if tensor.size == count and tensor.shape[-1] == count:
        return tensor.data.reshape((count,))
    return None


@op_pass("Batchnorm", stage="converter", after=("fuse_hard_sigmoid",))
def fold_batchnorm(graph: Graph, op: Op) -> bool:
    """Fold Batchnorm into a layer whose only reader it is."""
    layer = _foldable_producer(graph, op.inputs[0], op)
    weight, bias = op.inputs[1], op.inputs[2] if len(op.inputs) > 2 else None
    if layer is None or weight is None or weight.data is None:
        return False
    if bias is not None and bias.data is None:
        return False
    _fold(graph, layer, op, weight.data, bias.data if bias is not None else None)
    return True


@op_pass("ElementWiseBinary", stage="converter", after=("fold_batchnorm",))
def fold_affine(graph: Graph, op: Op) -> bool:
    """Fold sums, differences, products and quotients with constants into a layer."""
    operation = op.param("operation")
    if operation not in (ADD, DIVIDE, MULTIPLY, SUBTRACT):
        return False
    left, right = op.inputs
    if left is not None and left.is_static and operation in (ADD, MULTIPLY):
        left, right = right, left
    layer = _foldable_producer(graph, left, op)
    if layer is None or right is None or left is None or op.outputs[0].shape != left.shape:
        return False
    if op.outputs[0].encoding is not None:
        return False
    term = _per_channel(right, _channels(layer))
    if term is None:
        return False
    scale: TensorData | None = None
    shift: TensorData | None = None
    if operation == ADD:
        shift = term
    elif operation == SUBTRACT:
        shift = term.transform(lambda array: -array)
    elif operation == MULTIPLY:
        scale = term
    else:
        scale = term.transform(lambda array: (1.0 / array).astype(array.dtype))
    _fold(graph, layer, op, scale, shift)
    return True


@op_pass("ElementWiseBinary", stage="converter", after=("fold_affine", "fuse_layer_norm"))
def fuse_batchnorm(graph: Graph, last: Op) -> bool:
    """Fuse factors and terms per channel into a Batchnorm.

    No layer before them can hold them.  Several factors become one factor, several terms one term.
    Numbers without channels stay, unless they stand beside some.
    """
    result = last.outputs[0]
    reader = graph.sole_consumer(result)
    if _source(last) is None or (reader is not None and _source(reader) is result):
        return False
    if not graph.is_read(result):
        return False
    source, count = _source(last), 1
    while source is not None and source.producer is not None and graph.sole_consumer(source) is not None:
        before = _source(source.producer)
        if before is None:
            break
        source, count = before, count + 1
    found = terms(result, [source]) if source is not None and count > 1 else None
    if source is None or found is None or (0,) not in found:
        return False
    return _replace(graph, last, source, found)


def _source(op: Op) -> Tensor | None:
    """Return the operand of a sum or product with a constant per channel."""
    if len(op.computed) != 1 or op.computed[0].shape != op.outputs[0].shape or op.computed[0].dynamic_axes:
        return None
    if not is_arithmetic(op):
        return None
    (source,) = op.computed
    others = [tensor for tensor in op.inputs if tensor is not None and tensor is not source]
    return source if all(_is_per_channel(tensor, source.shape[-1:]) for tensor in others) else None


def _is_per_channel(tensor: Tensor, channels: tuple[int, ...]) -> bool:
    return tensor.size == 1 or (tensor.shape[-1:] == channels and channels == (tensor.size,))


def _replace(graph: Graph, last: Op, source: Tensor, found: Terms) -> bool:
    scale, shift = found[0,], found.get(())
    dtype, channels = source.dtype.numpy, source.shape[-1]

    def static(part: str, values: object) -> Tensor:
        name = graph.unique_name(f"{last.name}_{part}")
        return graph.add_tensor(ir.static(name, numpy.asarray(values, dtype)))

    if shift is None or (numpy.all(scale == 1) and shift is not None):
        operation, values = (MULTIPLY, scale) if shift is None else (ADD, shift)
        inputs = [source, static("constant", numpy.reshape(values, -1))]
        params = {"operation": ir.u32(operation)}
        replace_by(graph, last, "ElementWiseBinary", inputs, params, name=f"{last.name}_merged")
        return True
    if scale.ndim == shift.ndim == 0 or source.rank not in NORM_RANKS:
        return False
    spread = [numpy.broadcast_to(values, (channels,)) for values in (scale, shift)]
    inputs = [source, static("weight", spread[0]), static("bias", spread[1])]
    replace_by(graph, last, "Batchnorm", inputs, {}, name=f"{last.name}_batchnorm")
    return True
