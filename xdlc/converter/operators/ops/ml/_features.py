"""Inputs, attributes and results that operators of ai.onnx.ml share.

Formulas are those of onnxruntime's CPU kernels; the specification leaves them open.
"""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import compare, joined, neuron, number, without_axes
from xdlc.converter.operators.ops.activations import along
from xdlc.converter.operators.registry import Node
from xdlc.converter.values import Value, identity
from xdlc.ir import TensorData
from xdlc.ir.data import Array
from xdlc.ir.dtype import FLOAT32, FLOAT64, INT32, INT64
from xdlc.opdefs.elementwise_enums import GREATER, SIGMOID, SUBTRACT


def floats(node: Node, b: Builder, x: Value) -> Value:
    """Return an input as float32, which onnxruntime computes in, except for double."""
    if x.dtype is FLOAT64:
        raise node.problem("its input is double, which float32 does not hold", "feed float32")
    return b.cast(x, FLOAT32)


def rows(node: Node, b: Builder) -> Value:
    """Return input 0 as float32 [N, F]; one axis is one row."""
    x = floats(node, b, node.required(0))
    if x.rank == 1:
        x = b.reshape(x, (1, *x.shape))
    if x.rank != 2:
        raise node.problem(f"input has rank {x.rank} instead of 2")
    return x


def numbers(node: Node, name: str, width: int | None = None) -> Array:
    """Return an attribute as float32 [n], possibly stated as ``name_as_tensor``.

    Raises:
        ModelError: If ``width`` is stated and the attribute has neither one number nor as many.
    """
    tensor = node.attr(f"{name}_as_tensor")
    listed = node.attr(name)
    if isinstance(tensor, TensorData):
        listed = tensor.numpy().reshape(-1)
        if listed.dtype != np.float32:
            raise node.problem(f"attribute {name}_as_tensor is {listed.dtype}, which float32 cannot hold")
    array = np.asarray([] if listed is None else listed, np.float32).reshape(-1)
    if width is not None and array.size not in (1, width):
        raise node.invalid(f"attribute {name} has {array.size} numbers for {width} features")
    return array


def class_labels(node: Node, name: str) -> Array:
    """Return the class labels as int64; the integers' attribute is ``name``."""
    if node.attr("classlabels_strings"):
        raise node.problem("string labels are not supported", "export the classifier with integer labels")
    return np.asarray(node.attr(name) or [], np.int64).reshape(-1)


def labelled(node: Node, b: Builder, labels: Array, index: Value) -> Value:
    """Return int64 labels of the classes at positions ``index``."""
    if np.array_equal(labels, np.arange(labels.size)):
        return b.cast(index, INT64)
    return gathered(node, b, labels, index)


def gathered(node: Node, b: Builder, table: Array, index: Value) -> Value:
    """Return the entries of a table at ``index``; int64 is gathered in 32 bits."""
    dtype = ir.dtype.from_numpy(table.dtype)
    stored = b.const(narrow(node, table) if dtype is INT64 else table, f"{b.stem}_table")
    inputs = [b.source_order(stored), b.source_order(index)]
    out = b.emit("Gather", inputs, index.shape, stored.dtype, {"axis": ir.i32(0)})
    return b.cast(Value(out, identity(out.rank)), dtype)


def narrow(node: Node, array: Array) -> Array:
    """Return whole numbers as int32.

    Raises:
        UnsupportedOp: If one does not fit.
    """
    if array.size and (array.min() < -(1 << 31) or array.max() >= 1 << 31):
        raise node.problem("a number does not fit 32 bits")
    return array.astype(np.int32)


def greatest(b: Builder, x: Value) -> Value:
    """Return the position of the first greatest element along the last axis, int32."""
    if x.rank == 1:
        return b.reshape(greatest(b, b.reshape(x, (1, *x.shape))), ())
    lying = x.axis(x.rank - 1)
    shape = [dim for position, dim in enumerate(x.tensor.shape) if position != lying]
    params: dict[str, ir.Param] = {"axis": ir.u32(lying), "keep_dims": ir.b8(False)}
    return Value(b.emit("Argmax", [x.tensor], shape, INT32, params), without_axes(x.order, [x.rank - 1]))


def above(b: Builder, score: Value, threshold: float) -> Value:
    """Return whether scores [N, 1] are above a number, as int32 [N]."""
    return b.cast(b.reshape(compare(b, GREATER, score, number(b, score, threshold)), score.shape[:1]), INT32)


def both(b: Builder, score: Value, transform: str, *, mirrored: bool) -> Value:
    """Return [N, 1] of the second of two classes as [N, 2].

    Args:
        score: The score of the second class.
        mirrored: Whether the first class has the negative score, and 1 - score otherwise.
    """
    zero = number(b, score, 0.0)
    if not mirrored:
        return joined(b, [b.binary(SUBTRACT, number(b, score, 1.0), score), score], 1)
    pair = joined(b, [b.binary(SUBTRACT, zero, score), score], 1)
    return neuron(b, pair, SIGMOID) if transform == "LOGISTIC" else pair


def transformed(node: Node, b: Builder, scores: Value, transform: str) -> Value:
    """Return scores [N, C] after a post transform."""
    if transform == "LOGISTIC":
        return neuron(b, scores, SIGMOID)
    if transform == "SOFTMAX":
        return along(b, "Softmax", scores, scores.rank - 1)
    if transform != "NONE":
        raise node.problem(f"post_transform {transform!r} is not supported")
    return scores
