"""The structures of ``xdlc_udo.h`` for ctypes.

What libraries hand over is held as plain addresses, so that it is read within bounds.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_double,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any

from xdlc.errors import BackendError
from xdlc.ir.dtype import BY_CODE
from xdlc.opdefs.model import LAYOUTS
from xdlc.runtime.udo.descriptor import OpForm, ParamForm, TensorForm
from xdlc.runtime.udo.memory import Memory

API_MAJOR = 1
MAX_RANK = 16
OPEN_EXTENT = 0xFFFFFFFF
CPU = 1
CORES = {1: "CPU", 2: "GPU", 4: "DSP"}
LAYOUT_CODES = {name: code for code, name in enumerate(("", *LAYOUTS))}
OMITTED, STATIC = 1, 2
SCALAR, STRING, TENSOR = 0, 1, 2
STATUS = {
    0: "XDLC_UDO_OK",
    1: "XDLC_UDO_ERROR_UNKNOWN_OP",
    2: "XDLC_UDO_ERROR_INVALID_ARGUMENT",
    3: "XDLC_UDO_ERROR_UNSUPPORTED",
    4: "XDLC_UDO_ERROR_OUT_OF_MEMORY",
    5: "XDLC_UDO_ERROR_STATE",
    6: "XDLC_UDO_ERROR_FAILED",
}
UNSUPPORTED = 3
MESSAGE = 1024


class Tensor(Structure):
    """``xdlc_udo_tensor``."""

    _fields_ = (
        ("name", c_char_p),
        ("flags", c_uint32),
        ("data_type", c_uint32),
        ("layout", c_uint32),
        ("rank", c_uint32),
        ("dims", POINTER(c_uint32)),
        ("scale", c_double),
        ("offset", c_int32),
        ("num_bytes", c_uint64),
        ("data", c_void_p),
    )


class Param(Structure):
    """``xdlc_udo_param``."""

    _fields_ = (
        ("name", c_char_p),
        ("kind", c_uint32),
        ("data_type", c_uint32),
        ("integer", c_int64),
        ("real", c_double),
        ("string", c_char_p),
        ("tensor", Tensor),
    )


class Op(Structure):
    """``xdlc_udo_op``."""

    _fields_ = (
        ("package", c_char_p),
        ("type", c_char_p),
        ("name", c_char_p),
        ("num_params", c_uint32),
        ("params", POINTER(Param)),
        ("num_inputs", c_uint32),
        ("inputs", POINTER(Tensor)),
        ("num_outputs", c_uint32),
        ("outputs", POINTER(Tensor)),
    )


class Shape(Structure):
    """``xdlc_udo_shape``."""

    _fields_ = (("data_type", c_uint32), ("rank", c_uint32), ("dims", c_uint32 * MAX_RANK))


class OpInfo(Structure):
    """``xdlc_udo_op_info``."""

    _fields_ = (("type", c_void_p), ("cores", c_uint32), ("num_places", c_uint32), ("places", c_void_p))


class LibraryInfo(Structure):
    """``xdlc_udo_library_info``."""

    _fields_ = (("core", c_uint32), ("file", c_void_p))


class RegistrationInfo(Structure):
    """``xdlc_udo_registration_info``."""

    _fields_ = (
        ("package", c_void_p),
        ("version", c_void_p),
        ("num_ops", c_uint32),
        ("ops", c_void_p),
        ("num_libraries", c_uint32),
        ("libraries", c_void_p),
    )


class ImplementationInfo(Structure):
    """``xdlc_udo_implementation_info``."""

    _fields_ = (("package", c_void_p), ("core", c_uint32), ("num_types", c_uint32), ("types", c_void_p))


Log = CFUNCTYPE(None, c_void_p)


class Infrastructure(Structure):
    """``xdlc_udo_infrastructure``."""

    _fields_ = (("log", Log),)


class Registration(Structure):
    """``xdlc_udo_registration``."""

    _fields_ = (
        ("api_major", c_uint32),
        ("api_minor", c_uint32),
        ("initialize", CFUNCTYPE(c_int32)),
        ("get_info", CFUNCTYPE(c_int32, POINTER(c_void_p))),
        ("validate", CFUNCTYPE(c_int32, POINTER(Op), POINTER(c_char), c_size_t)),
        ("infer_outputs", CFUNCTYPE(c_int32, POINTER(Op), POINTER(Shape), POINTER(c_char), c_size_t)),
        ("terminate", CFUNCTYPE(c_int32)),
    )


_Io = (c_uint32, POINTER(Tensor), c_uint32, POINTER(Tensor))


class Implementation(Structure):
    """``xdlc_udo_implementation``."""

    _fields_ = (
        ("api_major", c_uint32),
        ("api_minor", c_uint32),
        ("initialize", CFUNCTYPE(c_int32, POINTER(Infrastructure))),
        ("get_info", CFUNCTYPE(c_int32, POINTER(c_void_p))),
        (
            "create_factory",
            CFUNCTYPE(c_int32, c_uint32, c_char_p, c_uint32, POINTER(Param), POINTER(c_void_p)),
        ),
        ("create_operation", CFUNCTYPE(c_int32, c_void_p, *_Io, POINTER(c_void_p))),
        ("set_io", CFUNCTYPE(c_int32, c_void_p, *_Io)),
        ("execute", CFUNCTYPE(c_int32, c_void_p, c_uint32, c_void_p, c_void_p)),
        ("profile", CFUNCTYPE(c_int32, c_void_p, POINTER(c_uint64))),
        ("release_operation", CFUNCTYPE(c_int32, c_void_p)),
        ("release_factory", CFUNCTYPE(c_int32, c_void_p)),
        ("terminate", CFUNCTYPE(c_int32)),
        ("last_message", CFUNCTYPE(c_void_p)),
    )


class Argument(Structure):
    """``xdlc_udo_argument``."""

    _fields_ = (
        ("kind", c_char),
        ("integer", c_int64),
        ("real", c_double),
        ("string", c_char_p),
        ("tensor", POINTER(Tensor)),
    )


COMPILED = CFUNCTYPE(c_int32, *_Io, c_uint32, POINTER(Argument))
"""``xdlc_udo_kernel``."""

_strnlen = ctypes.CDLL(None).strnlen
_strnlen.argtypes, _strnlen.restype = (c_void_p, c_size_t), c_size_t


def text_at(address: int | None, limit: int = 1024) -> str | None:
    """Return the zero-terminated text at an address, up to a limit; None at NULL."""
    if not address:
        return None
    return ctypes.string_at(address, _strnlen(address, limit)).decode("utf-8", "backslashreplace")


def utf8(text: str) -> bytes:
    """Return a text in UTF-8; other characters are escaped."""
    return text.encode("utf-8", "backslashreplace")


class Native:
    """Structures, with the objects that they point to kept alive."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def tensors(self, forms: Sequence[TensorForm], addresses: Mapping[int, int]) -> Any:
        """Return an array of tensors.

        Args:
            addresses: Where their elements are, by position.
        """
        made = (Tensor * max(len(forms), 1))()
        for index, form in enumerate(forms):
            self._fill(made[index], form, addresses.get(index))
        self._kept.append(made)
        return made

    def _fill(self, tensor: Tensor, form: TensorForm, address: int | None) -> None:
        tensor.name = utf8(form.name)
        if form.omitted:
            tensor.flags = OMITTED
            return
        extents = [OPEN_EXTENT if extent is None else extent for extent in form.dims]
        dims = (ctypes.c_uint32 * max(len(extents), 1))(*extents)
        self._kept.append(dims)
        tensor.flags = 0 if form.place is None else STATIC
        tensor.data_type, tensor.layout = form.dtype, LAYOUT_CODES.get(form.layout, 0)
        tensor.rank, tensor.dims = len(extents), dims
        tensor.scale, tensor.offset = form.scale, form.offset
        tensor.num_bytes, tensor.data = form.nbytes, address

    def params(self, forms: Sequence[ParamForm], memory: Memory) -> Any:
        """Return an array of parameters, whose tensors are in a memory."""
        params = (Param * max(len(forms), 1))()
        for param, form in zip(params, forms, strict=False):
            param.name, param.data_type = utf8(form.name), form.dtype
            if form.tensor is not None:
                param.kind = TENSOR
                self._fill(param.tensor, form.tensor, memory.address + (form.tensor.place or 0))
            elif isinstance(form.value, str):
                param.kind, param.string = STRING, utf8(form.value)
            elif BY_CODE[form.dtype].is_float:
                param.real = float(form.value or 0)
            else:
                number = int(form.value or 0)
                param.integer = number - (1 << 64) if number >= 1 << 63 else number
        self._kept.append(params)
        return params

    def op(self, form: OpForm, memory: Memory, addresses: Mapping[int, int] | None = None) -> Op:
        """Return an operation with static data in ``memory``, inputs at ``addresses``."""
        inputs = self.tensors(form.inputs, {**static_addresses(form, memory), **(addresses or {})})
        op = Op(
            utf8(form.package),
            utf8(form.type),
            utf8(form.name),
            len(form.params),
            self.params(form.params, memory),
            len(form.inputs),
            inputs,
            len(form.outputs),
            self.tensors(form.outputs, {}),
        )
        self._kept.append(op)
        return op


def static_addresses(form: OpForm, memory: Memory) -> dict[int, int]:
    """Return where the static inputs of an operation are, by position."""
    return {
        index: memory.address + tensor.place
        for index, tensor in enumerate(form.inputs)
        if tensor.place is not None
    }


def message_buffer() -> Any:
    """Return a buffer for the message of a library."""
    return ctypes.create_string_buffer(MESSAGE)


def message_in(buffer: Any) -> str:
    """Return the text in a buffer, which may lack the final zero."""
    raw: bytes = buffer.raw
    return raw.split(b"\0", 1)[0].decode("utf-8", "backslashreplace").strip()


def check(status: int, doing: str, message: str, where: str) -> None:
    """Raise an error if a library function returned a failure.

    Raises:
        BackendError: If it failed.
    """
    if status:
        name = STATUS.get(status, f"the unknown status {status}")
        words = " ".join(message.split())
        text = f": {words}" if words else ""
        known = status in STATUS
        raise BackendError(
            f"{doing} returned {name}{text}",
            where=where,
            fix=None if known else "return one of the values of xdlc_udo_status that xdlc_udo.h names",
        )
