"""QNN operations as layers of their own, where no layer of SNPE 1 is known from real files.

Such a layer is named ``<package>::<type>``: it claims to be nothing that SNPE 1 knows, which cannot run it.
Its attributes hold all that the operation has, so that reading it gives the same operation:

======================= ================================================================================
Attribute               Content
======================= ================================================================================
``params.<name>``       a scalar parameter, or of a tensor parameter ``dims``, ``dtype`` and ``data``
``operands.<n>``        of the static operand n, whose bytes are weight ``operand_<n>``: ``name``, ``dims``,
                        ``dtype``; ``axis``, ``bits``, ``scales`` and ``offsets`` if it is quantized
``left_out``            positions of operands that are left out
``outputs.<n>``         data type of output n, if a layer cannot give it
======================= ================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from xdlc import ir
from xdlc.converter.snpe.inverse import Operation, has_place, ints
from xdlc.ir import AxisScaleOffset, DType, Encoding, Op, Param, Scalar, ScaleOffset, Tensor
from xdlc.ir.dtype import BOOL8, BY_NAME, FLOAT32, INT32, STRING, UINT8, UINT32
from xdlc.ir.tensor import Role

if TYPE_CHECKING:
    from xdlc.converter.snpe.registry import Layer

MARK = "::"
SCALARS = (BOOL8, INT32, UINT32, FLOAT32, STRING)
NO_AXIS = -1
ALL_BITS = 0
MAX_RANK = 32


def is_verbatim(op: Op) -> bool:
    """Return whether a layer stands for an operation that SNPE 1 does not know."""
    return MARK in op.type


def keep(node: Operation) -> None:
    """Make a layer that holds an operation as it is.

    Raises:
        UnsupportedOp: If the container has no form for an operand, a parameter or a result.
    """
    op = node.op
    params: dict[str, Param] = {}
    weights: dict[str, Tensor | None] = {}
    dynamic: list[Tensor | None] = []
    left_out = [index for index, tensor in enumerate(op.inputs) if tensor is None]
    if left_out:
        params["left_out"] = ints(left_out)
    for index, tensor in enumerate(op.inputs):
        if tensor is not None and tensor.is_static:
            params |= _operand(node, f"operands.{index}", tensor)
            weights[f"operand_{index}"] = _raw(tensor)
        elif tensor is not None:
            dynamic.append(tensor)
    for name, param in op.params.items():
        params |= _param(node, name, param)
    for index, tensor in enumerate(op.outputs):
        if not has_place(tensor):
            if tensor.encoding is not None:
                raise node.problem(
                    f"gives {tensor.name!r} as {tensor.dtype}; the container has no form for it"
                )
            params[f"outputs.{index}"] = ir.string(tensor.dtype.name)
            node.layers.output(tensor).dtype = FLOAT32
    node.emit(f"{op.package}{MARK}{op.type}", dynamic, params, weights)


def _raw(tensor: Tensor) -> Tensor:
    """Return a static tensor as a weight: its bytes."""
    import numpy

    data = tensor.data
    assert data is not None
    if tensor.dtype is not FLOAT32:
        flat = (data.nbytes,)
        data = data.transform(
            lambda held: numpy.ascontiguousarray(held).reshape(-1).view(numpy.uint8),
            shape=flat,
            dtype=numpy.uint8,
        )
        return Tensor("", flat, UINT8, None, data, Role.STATIC)
    return Tensor("", tensor.shape, FLOAT32, None, data, Role.STATIC)


def _operand(node: Operation, key: str, tensor: Tensor) -> dict[str, Param]:
    if tensor.dtype.kind == "string":
        raise node.problem(f"reads the texts {tensor.name!r}, which the container has no form for")
    found: dict[str, Param] = {
        f"{key}.dims": ints(tensor.shape),
        f"{key}.dtype": ir.string(tensor.dtype.name),
    }
    found[f"{key}.name"] = ir.string(tensor.name)
    encoding = tensor.encoding
    scales: tuple[float, ...]
    offsets: tuple[int, ...]
    if encoding is None:
        return found
    if isinstance(encoding, ScaleOffset):
        axis, scales, offsets = NO_AXIS, (encoding.scale,), (encoding.offset,)
    elif isinstance(encoding, AxisScaleOffset):
        axis, scales, offsets = encoding.axis, encoding.scales, encoding.offsets
    else:
        raise node.problem(
            f"reads {tensor.name!r} with {type(encoding).__name__}, which the container has no form for"
        )
    import numpy

    return found | {
        f"{key}.axis": ir.i32(axis),
        f"{key}.bits": ir.i32(encoding.bits or ALL_BITS),
        f"{key}.scales": ir.static("", numpy.asarray(scales, numpy.float32)),
        f"{key}.offsets": ints(offsets),
    }


def _param(node: Operation, name: str, param: Param) -> dict[str, Param]:
    key = f"params.{name}"
    if not name or "." in name:
        raise node.problem(f"has a parameter {name!r}; the container has no form for such a name")
    if isinstance(param, Scalar):
        if param.dtype not in SCALARS:
            raise node.problem(
                f"has parameter {name!r} of {param.dtype}, which the container has no form for"
            )
        return {key: param}
    import numpy

    data: Param
    if param.dtype is FLOAT32:
        data = ir.static("", param.numpy().reshape(-1).astype(numpy.float32))
    elif param.dtype.kind in ("int", "uint", "bool") and param.dtype.bits <= 32 and param.encoding is None:
        data = ints(param.numpy().reshape(-1).astype(numpy.int64).astype(numpy.uint32).view(numpy.int32))
    else:
        raise node.problem(f"has parameter {name!r} of {param.dtype}, which the container has no form for")
    dtype = ir.string(param.dtype.name)
    return {f"{key}.dims": ints(param.shape), f"{key}.dtype": dtype, f"{key}.data": data}


def restore(node: Layer) -> None:
    """Translate a layer that ``keep`` made into the operation.

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
            raise node.problem("has operands with gaps between them")
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
        raise node.problem(f"names the data type {name!r}, which is not known")
    return dtype


def _list(node: Layer, tree: Any, key: str, dtype: DType) -> list[Any]:
    held = tree.get(key) if isinstance(tree, dict) else None
    if not isinstance(held, Tensor) or held.dtype is not dtype:
        raise node.problem(f"has no list {key!r} of {dtype}")
    found: list[Any] = held.numpy().tolist()
    return found


def _shape(node: Layer, tree: Any) -> tuple[int, ...]:
    shape = tuple(_list(node, tree, "dims", INT32))
    if len(shape) > MAX_RANK or min(shape, default=0) < 0:
        raise node.problem(f"has the shape {list(shape)}")
    return shape


def _static(node: Layer, tree: Any, weight: Tensor) -> Tensor:
    import numpy

    shape, dtype = _shape(node, tree), _dtype(node, tree.get("dtype"))
    data = weight.data
    assert data is not None
    if data.nbytes != dtype.nbytes(shape):
        raise node.problem(f"has {data.nbytes} bytes for {dtype}{list(shape)}")
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
        raise node.problem("has an operand with a malformed encoding")
    if axis == NO_AXIS:
        return ScaleOffset(scales[0], int(offsets[0]), bits or None)
    if not 0 <= axis < len(shape) or shape[axis] != len(scales):
        raise node.problem(f"has {len(scales)} scales along axis {axis} of {list(shape)}")
    return AxisScaleOffset(axis, tuple(scales), tuple(map(int, offsets)), bits or None)


def _restored(node: Layer, held: Any) -> Param:
    import numpy

    if isinstance(held, Scalar):
        return held
    if not isinstance(held, dict):
        raise node.problem("has a parameter that is a bare list")
    shape, dtype = _shape(node, held), _dtype(node, held.get("dtype"))
    if dtype is not FLOAT32 and dtype.kind not in ("int", "uint", "bool"):
        raise node.problem(f"has a parameter of {dtype}")
    values = _list(node, held, "data", FLOAT32 if dtype is FLOAT32 else INT32)
    if len(values) != math.prod(shape):
        raise node.problem(f"has {len(values)} numbers for a parameter {dtype}{list(shape)}")
    return ir.static("", numpy.asarray(values).astype(dtype.numpy).reshape(shape), dtype)
