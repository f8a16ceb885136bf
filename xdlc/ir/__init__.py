"""Intermediate representation: the content of a DLC, without any file format.

Graphs of QNN operations, channel-last, with encodings; weights stay in their files until used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdlc.ir import dtype
from xdlc.lazy import names_of

if TYPE_CHECKING:
    from xdlc.ir.data import (
        ArrayData,
        Elided,
        MappedData,
        MappedFile,
        TensorData,
        Transform,
        packed,
        raw_data,
    )
    from xdlc.ir.derived_data import Dequantized, Repeated, fill
    from xdlc.ir.dtype import DType
    from xdlc.ir.encoding import (
        AxisScaleOffset,
        BlockScaleOffset,
        BlockwiseExpansion,
        Encoding,
        ScaleOffset,
        VectorCode,
        as_float32,
    )
    from xdlc.ir.graph import HOST_PACKAGE, NATIVE_PACKAGE, Graph, Op, Origin, make_op
    from xdlc.ir.model import Model
    from xdlc.ir.tensor import Param, Role, Scalar, Tensor, b8, f32, i32, static, string, u32, u32s
    from xdlc.ir.text import parse, to_text

__all__ = [
    "HOST_PACKAGE",
    "NATIVE_PACKAGE",
    "ArrayData",
    "AxisScaleOffset",
    "BlockScaleOffset",
    "BlockwiseExpansion",
    "DType",
    "Dequantized",
    "Elided",
    "Encoding",
    "Graph",
    "MappedData",
    "MappedFile",
    "Model",
    "Op",
    "Origin",
    "Param",
    "Repeated",
    "Role",
    "Scalar",
    "ScaleOffset",
    "Tensor",
    "TensorData",
    "Transform",
    "VectorCode",
    "as_float32",
    "b8",
    "dtype",
    "f32",
    "fill",
    "i32",
    "make_op",
    "packed",
    "parse",
    "raw_data",
    "static",
    "string",
    "to_text",
    "u32",
    "u32s",
]

_NAMES = {
    ".data": "ArrayData Elided MappedData MappedFile TensorData Transform packed raw_data",
    ".derived_data": "Dequantized Repeated fill",
    ".dtype": "DType",
    ".encoding": (
        "AxisScaleOffset BlockScaleOffset BlockwiseExpansion Encoding ScaleOffset VectorCode as_float32"
    ),
    ".graph": "HOST_PACKAGE NATIVE_PACKAGE Graph Op Origin make_op",
    ".model": "Model",
    ".tensor": "Param Role Scalar Tensor b8 f32 i32 static string u32 u32s",
    ".text": "parse to_text",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
__getattr__ = names_of(__name__, _HOMES)
