"""Operators without a QNN operation, executed by onnxruntime."""

from __future__ import annotations

import json
from typing import Any

import numpy

from xdlc.errors import ModelError
from xdlc.ir import HOST_PACKAGE, Op, Param, Tensor
from xdlc.ir.dtype import UNDEFINED
from xdlc.runtime.builder import Builder
from xdlc.runtime.host_kernels import DOMAIN, HOST_KERNELS, opset_of
from xdlc.runtime.ops import lowering

_TYPES = sorted({name for names in HOST_KERNELS.values() for name in names} - {"Erf"})
_DOUBLE = frozenset(("DFT", "STFT"))  # in single precision, onnxruntime's sums lose five digits
_SIGNED_BYTES = {
    "DynamicQuantizeMatMul": (1, 3),
    "MatMulInteger": (1, 3),
    "MatMulIntegerToFloat": (1, 5),
    "QAttention": (1, 7),
    "QGemm": (3, 5),
    "QLinearConv": (3, 5),
    "QLinearMatMul": (3, 5),
}
"""Inputs for weights and their zero point of ops that multiply unsigned by signed bytes."""


@lowering(*_TYPES, package=HOST_PACKAGE)
def host_only(op: Op, b: Builder) -> None:
    """Lower to the operator itself; its operands are in the source's order already."""
    domain = str(op.param(DOMAIN, ""))
    if op.type not in HOST_KERNELS.get(domain, ()):
        raise ModelError(f"domain {domain!r} has no operator {op.type} that the host can run")
    version = opset_of(op.type, domain)
    b.require_opset(domain, version)
    kinds = _attribute_kinds(op.type, version, domain)
    attributes = {name: _attribute(name, param, kinds) for name, param in op.params.items() if name != DOMAIN}
    if "dtype" in attributes and _is_half(op.outputs[0]):  # which are computed in another type
        attributes["dtype"] = _element(b.dtype(op.outputs[0]))
    outputs = [tensor.dtype is not UNDEFINED for tensor in op.outputs]
    double = op.type in _DOUBLE
    operands = [_operand(tensor, b, double) for tensor in op.inputs]
    if op.type in _SIGNED_BYTES and not b.native:
        _make_unsigned(op, b, operands, *_SIGNED_BYTES[op.type])
    results = b.nodes_out(op.type, operands, outputs, domain=domain, **attributes)
    for tensor, value in zip(op.outputs, results, strict=True):
        if value:
            if _is_half(tensor) and not double and b.dtype(tensor) != tensor.dtype.numpy:
                value = b.cast(value, b.dtype(tensor))
            b.write(tensor, value, dtype=_given(tensor, b, double))


def _make_unsigned(op: Op, b: Builder, operands: list[str], weight: int, zero: int) -> None:
    """Make signed weight bytes unsigned: they and their zero point rise by 128.

    On CPUs without VNNI, onnxruntime's sums of two such products saturate at 16 bits.
    """
    types = [None if tensor is None else tensor.dtype.numpy for tensor in op.inputs]
    if len(types) <= weight or types[weight] != numpy.int8 or types[0] == numpy.int8:
        return
    operands += [""] * (zero + 1 - len(operands))
    for index in (weight, zero):
        value = b.cast(operands[index], numpy.int32) if operands[index] else b.constant(numpy.int32(0))
        operands[index] = b.cast(b.node("Add", [value, b.constant(numpy.int32(128))]), numpy.uint8)


def _operand(tensor: Tensor | None, b: Builder, double: bool) -> str:
    return "" if tensor is None else b.read(tensor, dtype=_given(tensor, b, double))


def _given(tensor: Tensor, b: Builder, double: bool) -> Any:
    """Return the operator's type: integers in their width, floats as computed."""
    if double and tensor.dtype.is_float:
        return numpy.dtype(numpy.float64)
    return tensor.dtype.numpy if tensor.dtype.is_integer else b.dtype(tensor)


def _is_half(tensor: Tensor) -> bool:
    return tensor.dtype.is_float and tensor.dtype.bits == 16


def _element(dtype: Any) -> int:
    """Return ONNX's number of a numpy dtype."""
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(dtype))


def _attribute_kinds(type: str, version: int, domain: str) -> dict[str, str]:
    """Return the kinds of an operator's attributes, as far as ONNX knows it."""
    import onnx

    try:
        schema = onnx.defs.get_schema(type, version, domain)
    except onnx.defs.SchemaError:
        return {}
    return {name: str(attribute.type).rpartition(".")[2] for name, attribute in schema.attributes.items()}


def _attribute(name: str, param: Param, kinds: dict[str, str]) -> Any:
    import onnx

    kind = kinds.get(name)
    if isinstance(param, Tensor):
        array = param.numpy()
        return onnx.numpy_helper.from_array(array) if kind == "TENSOR" else array.reshape(-1).tolist()
    if kind == "STRINGS":
        try:
            return [str(item) for item in json.loads(str(param.value))]
        except (ValueError, TypeError) as error:
            raise ModelError(f"parameter {name!r} is not a list of strings: {error}") from error
    return param.value
