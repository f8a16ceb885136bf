"""QNN operations as layers, as earlier versions of xdlc wrote format 3.

Such a layer is of type ``<package>::<type>``.  Its attributes hold all of the operation:

======================= ================================================================================
Attribute               Content
======================= ================================================================================
``params.<name>``       a scalar parameter, or of a tensor parameter ``dims``, ``dtype`` and ``data``
``operands.<n>``        of the static operand n, whose bytes are weight ``operand_<n>``: ``name``, ``dims``,
                        ``dtype``; ``axis``, ``bits``, ``scales`` and ``offsets`` if it is quantized
``left_out``            positions of omitted operands
``outputs.<n>``         data type of output n, if no layer has it
======================= ================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from xdlc import ir
from xdlc.ir import AxisScaleOffset, DType, Encoding, Op, Param, Scalar, ScaleOffset, Tensor
from xdlc.ir.dtype import BY_NAME, FLOAT32, INT32
from xdlc.ir.tensor import Role

if TYPE_CHECKING:
    from xdlc.converter.snpe.registry import Layer

MARK = "::"
NO_AXIS = -1
ALL_BITS = 0
MAX_RANK = 32


def is_stored_operation(op: Op) -> bool:
    """Return whether a layer stores a QNN operation that SNPE 1 lacks."""
    return MARK in op.type


def restore_operation(node: Layer) -> None:
    """Restore the QNN operation from a layer that stores it.

    Raises:
        UnsupportedOp: If something is missing, or does not fit together.
    """
    package, _, type = node.op.type.partition(MARK)
    tree = _tree(node.op.params)
    operands, outputs = _branch(tree, "operands"), _branch(tree, "outputs")
    left_out = set(_list(node, tree, "left_out", INT32)) if "left_out" in tree else set()
    inputs: list[Tensor | None] = []
    waiting = list(node.inputs)
    for index in range(len(waiting) + len(operands) + len(left_out)):
        if index in left_out:
            inputs.append(None)
        elif str(index) in operands:
            inputs.append(_static(node, operands[str(index)], node.weight(f"operand_{index}")))
        elif waiting:
            inputs.append(waiting.pop(0))
        else:
            raise node.problem("the layer has operands with gaps between them")
    for index, tensor in enumerate(node.outputs):
        if str(index) in outputs:
            tensor.dtype, tensor.encoding = _dtype(node, outputs[str(index)]), None
    params = {name: _restored(node, value) for name, value in _branch(tree, "params").items()}
    node.append(type, inputs, node.outputs, params, package=package)


def _tree(params: Mapping[str, Param]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, param in params.items():
        *path, last = name.split(".")
        place = tree
        for step in path:
            inner = place.setdefault(step, {})
            place = inner if isinstance(inner, dict) else {}
        place[last] = param
    return tree


def _branch(tree: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    held = tree.get(key)
    return held if isinstance(held, dict) else {}


def _dtype(node: Layer, held: Any) -> DType:
    name = held.value if isinstance(held, Scalar) else None
    dtype = BY_NAME.get(str(name))
    if dtype is None or not dtype.bits:
        raise node.problem(f"the layer has the unknown data type {name!r}")
    return dtype


def _list(node: Layer, tree: Any, key: str, dtype: DType) -> list[Any]:
    held = tree.get(key) if isinstance(tree, dict) else None
    if not isinstance(held, Tensor) or held.dtype is not dtype:
        raise node.problem(f"the layer has no list {key!r} of {dtype}")
    found: list[Any] = held.numpy().tolist()
    return found


def _shape(node: Layer, tree: Any) -> tuple[int, ...]:
    shape = tuple(_list(node, tree, "dims", INT32))
    if len(shape) > MAX_RANK or min(shape, default=0) < 0:
        raise node.problem(f"the layer has a tensor of the invalid shape {list(shape)}")
    return shape


def _static(node: Layer, tree: Any, weight: Tensor) -> Tensor:
    import numpy

    shape, dtype = _shape(node, tree), _dtype(node, tree.get("dtype"))
    data = weight.data
    assert data is not None
    if data.nbytes != dtype.nbytes(shape):
        raise node.problem(f"the layer has {data.nbytes} bytes for {dtype}{list(shape)}")
    kind = dtype.numpy
    held = shape if dtype.bits >= 8 else (data.nbytes,)
    if data.dtype != kind or data.shape != held:
        data = data.transform(
            lambda raw: numpy.ascontiguousarray(raw).reshape(-1).view(numpy.uint8).view(kind).reshape(held),
            shape=held,
            dtype=kind,
        )
    name = tree.get("name")
    label = str(name.value) if isinstance(name, Scalar) and name.value else weight.name
    if label in node.graph.tensors:
        label = node.graph.unique_name(label)
    return Tensor(label, shape, dtype, _encoding(node, tree, shape), data, Role.STATIC)


def _encoding(node: Layer, tree: Any, shape: tuple[int, ...]) -> Encoding | None:
    if "scales" not in tree:
        return None
    scales, offsets = _list(node, tree, "scales", FLOAT32), _list(node, tree, "offsets", INT32)
    numbers = [tree[key].value if isinstance(tree.get(key), Scalar) else None for key in ("axis", "bits")]
    axis, bits = (value if type(value) is int else ALL_BITS for value in numbers)
    if not scales or len(scales) != len(offsets) or not all(0 < scale < math.inf for scale in scales):
        raise node.problem("the layer has an operand with a malformed encoding")
    if axis == NO_AXIS:
        return ScaleOffset(scales[0], int(offsets[0]), bits or None)
    if not 0 <= axis < len(shape) or shape[axis] != len(scales):
        raise node.problem(f"the layer has {len(scales)} scales along axis {axis} of {list(shape)}")
    return AxisScaleOffset(axis, tuple(scales), tuple(map(int, offsets)), bits or None)


def _restored(node: Layer, stored: Any) -> Param:
    import numpy

    if isinstance(stored, Scalar):
        return stored
    if not isinstance(stored, dict):
        raise node.problem("the layer has a list as a parameter, which xdlc does not support")
    shape, dtype = _shape(node, stored), _dtype(node, stored.get("dtype"))
    if dtype is not FLOAT32 and dtype.kind not in ("int", "uint", "bool"):
        raise node.problem(f"the layer has a parameter of the unsupported type {dtype}")
    values = _list(node, stored, "data", FLOAT32 if dtype is FLOAT32 else INT32)
    if len(values) != math.prod(shape):
        raise node.problem(f"the layer has {len(values)} numbers for a parameter {dtype}{list(shape)}")
    return ir.static("", numpy.asarray(values).astype(dtype.numpy).reshape(shape), dtype)
