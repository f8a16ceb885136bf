"""Export of a UDO as a node: its package is the domain, its parameters are attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdlc.errors import UnsupportedOp
from xdlc.ir import Op, Param, Tensor
from xdlc.ir.dtype import FLOAT32, DType
from xdlc.opdefs.model import OpDef, TensorDef, order_of
from xdlc.opdefs.op_view import plain_value
from xdlc.runtime.builder import Builder

OpDefs = Mapping[tuple[str, str], OpDef]
_ONNX = ("", "ai.onnx", "com.microsoft")


def write_node(op: Op, b: Builder, definition: OpDef | None) -> None:
    """Write an op as a node of the domain of its package.

    Operands whose layout the definition states are brought into the order of a source whose channels are
    axis 1: there a converter finds them that knows the same definition.  Enumerations go by name.

    Args:
        op: The op.
        b: Where the node goes.
        definition: The op's definition in the model, if there is one.

    Raises:
        UnsupportedOp: If the package has the name of a domain that means something else.
    """
    from onnx import helper

    if op.package in _ONNX:
        raise UnsupportedOp(f"package {op.package!r} is a domain of ONNX", fix="rename the package")
    b.require_opset(op.package, 1)
    inputs, outputs = (definition.inputs, definition.outputs) if definition is not None else ((), ())
    operands = [
        "" if tensor is None else b.read(tensor, _perm(inputs, index, tensor), dtype=_type(tensor))
        for index, tensor in enumerate(op.inputs)
    ]
    made = b.nodes_out(op.type, operands, len(op.outputs), domain=op.package)
    for name, param in op.params.items():
        b.nodes[-1].attribute.append(helper.make_attribute(name, _attribute(definition, name, param)))
    for index, (tensor, value) in enumerate(zip(op.outputs, made, strict=True)):
        b.write(tensor, value, _perm(outputs, index, tensor), dtype=_type(tensor))


def _perm(places: tuple[TensorDef, ...], index: int, tensor: Tensor) -> tuple[int, ...]:
    """Return the axes of a tensor in the order of the source."""
    layout = places[min(index, len(places) - 1)].layout if places else ""
    order = order_of(layout, tensor.rank)
    return tuple(order.index(axis) for axis in range(tensor.rank))


def _type(tensor: Tensor) -> Any:
    dtype: DType = FLOAT32 if tensor.dtype.is_fixed else tensor.dtype
    return dtype.numpy


def _attribute(definition: OpDef | None, name: str, param: Param) -> Any:
    from onnx import numpy_helper

    if not isinstance(param, Tensor):
        value = plain_value(definition, name, param) if definition is not None else param.value
        return int(value) if isinstance(value, bool) else value
    known = definition.params.get(name) if definition is not None else None
    array = param.numpy().transpose(_perm((known,) if known is not None else (), 0, param))
    if array.ndim == 1 and array.dtype.name in ("int32", "uint32", "int64", "float32"):
        return array.tolist()
    return numpy_helper.from_array(array)
