"""ONNX's protobuf messages without the rest of the ``onnx`` package.

``import onnx`` also loads the checker, the version converter and much of numpy's typing, which takes
longer than converting a small network.  The generated message classes need none of that.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdlc.errors import BackendError

if TYPE_CHECKING:
    from types import ModuleType

    from xdlc.ir.data import Array

_MESSAGES = "onnx.onnx_ml_pb2"
INT64, STRING = 7, 8  # TensorProto.DataType
TENSOR_ATTRIBUTE, SPARSE_ATTRIBUTE = 4, 11  # AttributeProto.AttributeType
# TensorProto.DataType numbers of onnx.proto that numpy has itself.
_PLAIN = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
}
# The field of TensorProto that holds the values of a type, where raw_data does not.
_TYPED = {"float32": "float_data", "float64": "double_data", "int64": "int64_data"}
_TYPED |= {"uint64": "uint64_data", "uint32": "uint64_data"}
_NARROW = ("int32", "int16", "int8", "uint16", "uint8", "bool")


@cache
def messages() -> ModuleType:
    """Return the module of message classes, the one that ``import onnx`` uses too."""
    if _MESSAGES in sys.modules:
        return sys.modules[_MESSAGES]
    package = importlib.util.find_spec("onnx")
    folders = list(package.submodule_search_locations or ()) if package else []
    if not folders:
        raise BackendError("the package onnx is not installed", fix="pip install onnx")
    spec = importlib.util.spec_from_file_location(_MESSAGES, Path(folders[0], "onnx_ml_pb2.py"))
    if spec is None or spec.loader is None:
        raise BackendError(
            "the package onnx has no message classes", fix="pip install --force-reinstall onnx"
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MESSAGES] = module
    spec.loader.exec_module(module)
    return module


def numpy_dtype(data_type: int) -> Any:
    """Return the numpy dtype of a TensorProto.DataType.

    Raises:
        KeyError: If there is none.
    """
    import numpy

    if data_type in _PLAIN:
        return numpy.dtype(_PLAIN[data_type])
    import onnx

    return onnx.helper.tensor_dtype_to_np_dtype(data_type)


def to_array(tensor: Any) -> Array:
    """Return the elements of a TensorProto without external data.

    Raises:
        ValueError: If their number does not fit the dimensions.
    """
    import numpy

    name = _PLAIN.get(tensor.data_type)
    if name is not None:
        dtype = numpy.dtype(name)
        if tensor.HasField("raw_data"):
            return numpy.frombuffer(tensor.raw_data, dtype.newbyteorder("<")).reshape(tuple(tensor.dims))
        field = "int32_data" if name in _NARROW else _TYPED.get(name)
        if field is not None:
            return numpy.asarray(getattr(tensor, field)).astype(dtype).reshape(tuple(tensor.dims))
    import onnx

    return onnx.numpy_helper.to_array(tensor)


def attribute_value(attribute: Any) -> Any:
    """Return the value of an AttributeProto as a Python object; strings are decoded.

    Raises:
        ValueError: If it has no type that ONNX defines.
    """
    kinds: dict[int, Callable[[], Any]] = {
        1: lambda: attribute.f,
        2: lambda: attribute.i,
        3: lambda: attribute.s.decode("utf-8", "replace"),
        4: lambda: attribute.t,
        5: lambda: attribute.g,
        6: lambda: list(attribute.floats),
        7: lambda: list(attribute.ints),
        8: lambda: [item.decode("utf-8", "replace") for item in attribute.strings],
        9: lambda: list(attribute.tensors),
        10: lambda: list(attribute.graphs),
        11: lambda: attribute.sparse_tensor,
        13: lambda: attribute.tp,
    }
    if attribute.type not in kinds:
        raise ValueError(f"attribute {attribute.name!r} has unknown type {attribute.type}")
    return kinds[attribute.type]()
