"""Upgrade of nodes of old opsets to the version of host-only ops.

Only what changed the meaning of a node counts: attributes that became inputs, defaults that changed.
Sources: the change logs of the operators in ONNX's Operators.md and Changelog.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import Node
from xdlc.converter.values import Value
from xdlc.runtime.host_kernels import HOST_OPSET

Upgrade = Callable[[Node, Builder], Node]


def upgraded(node: Node, builder: Builder) -> Node:
    """Return the node in the newest version of its operator on the host.

    Raises:
        UnsupportedOp: If the old form has no new one.
    """
    if node.domain:
        return node
    node = replace(node, inputs=list(node.inputs), attributes=dict(node.attributes))
    for before, function in _UPGRADES.get(node.type, ()):
        if node.opset < before:
            node = function(node, builder)
    return node


def _to_input(attribute: str, index: int, dtype: str = "int64", default: Any = None) -> Upgrade:
    """Return an upgrade that converts an attribute into a constant input."""

    def upgrade(node: Node, builder: Builder) -> Node:
        import numpy

        value = node.attributes.pop(attribute, default)
        if value is not None:
            kind = node.required(0).dtype.numpy if dtype == "like" else numpy.dtype(dtype)
            _set(node, index, builder.const(numpy.asarray(value, kind), f"{node.name}_{attribute}"))
        return node

    return upgrade


def _set(node: Node, index: int, value: Value | None) -> None:
    node.inputs.extend([None] * (index + 1 - len(node.inputs)))
    node.inputs[index] = value


def _default(attribute: str, value: Any) -> Upgrade:
    """Return an upgrade that writes out a former default."""

    def upgrade(node: Node, builder: Builder) -> Node:
        node.attributes.setdefault(attribute, value)
        return node

    return upgrade


def _spelled(attribute: str, names: dict[str, str]) -> Upgrade:
    """Return an upgrade that renames the values of an attribute."""

    def upgrade(node: Node, builder: Builder) -> Node:
        if attribute in node.attributes:
            node.attributes[attribute] = names.get(node.attributes[attribute], node.attributes[attribute])
        return node

    return upgrade


def _batch_normalization(node: Node, builder: Builder) -> Node:
    """Refuse statistics per element (opset < 9) or of the batch (opset < 7)."""
    if not node.attributes.pop("spatial", 1):
        raise node.problem(
            "xdlc does not support spatial = 0 (statistics of each element)",
            "multiply and add the folded statistics instead",
        )
    if not node.attributes.pop("is_test", node.opset >= 7):
        raise node.problem(
            "xdlc does not support is_test = 0 (batch statistics)", "export the model for inference"
        )
    return node


def _prelu(node: Node, builder: Builder) -> Node:
    """Before opset 7 a slope belongs to a channel, whatever the rank."""
    x, slope = node.required(0), node.required(1)
    if slope.size != 1:
        node.inputs[1] = builder.reshape(slope, (slope.size, *(1,) * (x.rank - 2)))
    return node


def _scatter(node: Node, builder: Builder) -> Node:
    return replace(node, type="ScatterElements")


def _upsample(node: Node, builder: Builder) -> Node:
    """Upsample and Resize 10: no region of interest, coordinates divided by the scale."""
    if node.opset < 9:
        node = _to_input("scales", 1, "float32")(node, builder)
    scales = node.inputs.pop(1) if len(node.inputs) > 1 else None
    node.inputs.extend([None, scales])
    node.attributes.setdefault("mode", "nearest")
    node.attributes["coordinate_transformation_mode"] = "asymmetric"
    node.attributes["nearest_mode"] = "floor"
    return replace(node, type="Resize")


def _split(node: Node, builder: Builder) -> Node:
    if node.input(1) is None:
        node.attributes["num_outputs"] = len(node.outputs)
    return node


def _slice(node: Node, builder: Builder) -> Node:
    for index, name in enumerate(("starts", "ends", "axes"), 1):
        node = _to_input(name, index)(node, builder)
    return node


def _dropout(node: Node, builder: Builder) -> Node:
    node.attributes.pop("ratio", None)
    return node


def _pad(node: Node, builder: Builder) -> Node:
    node = _to_input("pads", 1)(node, builder)
    return _to_input("value", 2, "like")(node, builder)


def _clip(node: Node, builder: Builder) -> Node:
    node = _to_input("min", 1, "like")(node, builder)
    return _to_input("max", 2, "like")(node, builder)


def _softmax(node: Node, builder: Builder) -> Node:
    """Refuse axes that opsets before 13 join, unless only the last one is meant."""
    if not _is_along_last(node):
        raise node.problem(
            "the node joins axes of dynamic dimensions before opset 13",
            "upgrade the model with onnx.version_converter to opset 13 or newer",
        )
    node.attributes["axis"] = -1
    return node


def _is_along_last(node: Node) -> bool:
    x = node.required(0)
    return x.ranked and int(node.attributes.get("axis", 1)) in (-1, x.rank - 1)


def rewritten(node: Node) -> Any | None:
    """Return a ``FunctionProto`` for an old operator without a successor, or None."""
    if node.domain or node.opset >= 13 or node.type not in _SOFTMAXES or _is_along_last(node):
        return None
    from onnx import helper

    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Flatten", ["x"], ["rows"], axis=int(node.attributes.get("axis", 1))),
        helper.make_node(node.type, ["rows"], ["result"], axis=-1),
        helper.make_node("Reshape", ["result", "shape"], ["y"]),
    ]
    return helper.make_function(
        "", node.type, ["x"], ["y"], nodes, [helper.make_opsetid("", HOST_OPSET)], attributes=["axis"]
    )


_SOFTMAXES = ("Softmax", "LogSoftmax", "Hardmax")
_REDUCED_BY_18: Sequence[str] = tuple(
    f"Reduce{name}" for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
)
_UPGRADES: dict[str, Sequence[tuple[int, Upgrade]]] = {
    **{name: [(18, _to_input("axes", 1))] for name in _REDUCED_BY_18},
    "ReduceSum": [(13, _to_input("axes", 1))],
    "Squeeze": [(13, _to_input("axes", 1))],
    "Unsqueeze": [(13, _to_input("axes", 1))],
    "Split": [(13, _to_input("split", 1)), (18, _split)],
    "Slice": [(10, _slice)],
    "Pad": [(11, _pad)],
    "Clip": [(11, _clip)],
    "TopK": [(10, _to_input("k", 1))],
    "Dropout": [(12, _dropout)],
    "Scatter": [(99, _scatter)],
    "Upsample": [(99, _upsample)],
    "Resize": [(11, _upsample)],
    "RoiAlign": [(16, _default("coordinate_transformation_mode", "output_half_pixel"))],
    "GridSample": [(20, _spelled("mode", {"bilinear": "linear", "bicubic": "cubic"}))],
    "DFT": [(20, _to_input("axis", 2, default=1))],
    **{name: [(13, _softmax)] for name in _SOFTMAXES},
    "BatchNormalization": [(9, _batch_normalization)],
    "PRelu": [(7, _prelu)],
}
