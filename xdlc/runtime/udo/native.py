"""Operations in the vendor's C structures, and reasons of failures.

What libraries hand over is held as plain addresses, so that it is read within bounds.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdlc.errors import BackendError
from xdlc.ir.dtype import BY_CODE
from xdlc.runtime import interfaces
from xdlc.runtime.interfaces import constants, ctype, overlay
from xdlc.runtime.udo.descriptor import OpForm, ParamForm, TensorForm
from xdlc.runtime.udo.memory import Memory

_MESSAGE = 2048
CORES = interfaces.names("SnpeUdo_CoreType_t", "SNPE_UDO_CORETYPE_")
CPU = constants()["SNPE_UDO_CORETYPE_CPU"]

_strnlen = ctypes.CDLL(None).strnlen
_strnlen.argtypes, _strnlen.restype = (ctypes.c_void_p, ctypes.c_size_t), ctypes.c_size_t


def text_at(address: int | None, limit: int = 1024) -> str | None:
    """Return the zero-terminated text at an address, up to a limit; None at NULL."""
    if not address:
        return None
    return ctypes.string_at(address, _strnlen(address, limit)).decode("utf-8", "backslashreplace")


def utf8(text: str) -> bytes:
    """Return a text in UTF-8; other characters are escaped."""
    return text.encode("utf-8", "backslashreplace")


def snpe_type(code: int) -> int:
    """Return SnpeUdo's number of a data type; 0 if it has none."""
    match = re.fullmatch(r"([a-z]+)(\d+)", BY_CODE[code].name)
    if match is None:
        return 0
    kind = "FIXED" if match[1] == "ufixed" else match[1].upper()
    return constants().get(f"SNPE_UDO_DATATYPE_{kind}_{match[2]}", 0)


def has_snpe_types(form: OpForm) -> bool:
    """Return whether SnpeUdo has the data types of an operation."""
    tensors = [tensor for tensor in (*form.inputs, *form.outputs) if not tensor.omitted]
    tensors += [param.tensor for param in form.params if param.tensor is not None]
    scalars = [param for param in form.params if param.tensor is None and not isinstance(param.value, str)]
    return all(snpe_type(tensor.dtype) for tensor in tensors) and all(
        snpe_type(param.dtype) and BY_CODE[param.dtype].name != "float16" for param in scalars
    )


def static_addresses(form: OpForm, memory: Memory) -> dict[int, int]:
    """Return where the static inputs of an operation are, by position."""
    return {
        index: memory.address + tensor.place
        for index, tensor in enumerate(form.inputs)
        if tensor.place is not None
    }


class Native:
    """Structures, with the objects that they point to kept alive."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def text(self, text: str) -> int:
        """Return the address of a text."""
        return self.keep(ctypes.create_string_buffer(utf8(text)))

    def keep(self, item: Any) -> int:
        """Keep an object alive and return its address."""
        self._kept.append(item)
        return ctypes.addressof(item)

    def dims(self, form: TensorForm) -> int:
        """Return the address of the dimensions of a tensor."""
        return self.keep((ctypes.c_uint32 * max(len(form.dims), 1))(*(extent or 0 for extent in form.dims)))

    def pointers(self, addresses: Sequence[int]) -> int:
        """Return the address of a list of pointers."""
        return self.keep((ctypes.c_void_p * max(len(addresses), 1))(*addresses))

    # ------------------------------------------------------------------ SnpeUdo

    def snpe_tensors(self, forms: Sequence[TensorForm], addresses: Mapping[int, int]) -> Any:
        """Return an array of tensors whose elements are at some addresses."""
        tensors = (ctype("SnpeUdo_TensorParam_t") * max(len(forms), 1))()
        self._kept.append(tensors)
        for index, form in enumerate(forms):
            self._fill_snpe(tensors[index], form, addresses.get(index))
        return tensors

    def _fill_snpe(self, tensor: Any, form: TensorForm, address: int | None) -> None:
        codes = constants()
        if form.omitted:
            tensor.layout = codes["SNPE_UDO_LAYOUT_NULL"]
            return
        tensor.maxDimensions = tensor.currDimensions = self.dims(form)
        tensor.tensorRank, tensor.tensorData = len(form.dims), address
        tensor.dataType = snpe_type(form.dtype)
        nchw = form.layout == "NCHW"
        tensor.layout = codes["SNPE_UDO_LAYOUT_NCHW" if nchw else "SNPE_UDO_LAYOUT_NHWC"]
        if form.scale:
            tensor.quantizeParams.quantizeType = codes["SNPE_UDO_QUANTIZATION_TF"]
            span = overlay(tensor.quantizeParams, "params", ctype("SnpeUdo_TFQuantize_t"))
            span.minValue = form.offset * form.scale
            span.maxValue = ((1 << BY_CODE[form.dtype].bits) - 1 + form.offset) * form.scale

    def snpe_params(self, forms: Sequence[ParamForm], memory: Memory) -> Any:
        """Return an array of parameters, whose tensors are in a memory."""
        codes = constants()
        params = (ctype("SnpeUdo_Param_t") * max(len(forms), 1))()
        self._kept.append(params)
        for param, form in zip(params, forms, strict=False):
            param.paramName = self.text(form.name)
            if form.tensor is not None:
                param.paramType = codes["SNPE_UDO_PARAMTYPE_TENSOR"]
                tensor = overlay(param, "value", ctype("SnpeUdo_TensorParam_t"))
                self._fill_snpe(tensor, form.tensor, memory.address + (form.tensor.place or 0))
            elif isinstance(form.value, str):
                param.paramType = codes["SNPE_UDO_PARAMTYPE_STRING"]
                overlay(param, "value", ctypes.c_void_p).value = self.text(form.value)
            else:
                param.paramType = codes["SNPE_UDO_PARAMTYPE_SCALAR"]
                scalar = overlay(param, "value", ctype("SnpeUdo_ScalarParam_t"))
                scalar.dataType = snpe_type(form.dtype)
                overlay(scalar, "dataValue", _plain(form)).value = form.value or 0
        return params

    # ------------------------------------------------------------------ QNN

    def config(self, form: OpForm, memory: Memory, inputs: Mapping[int, int], room: int = 0) -> Any:
        """Return an operation as graphs have it: a ``Qnn_OpConfig_t``.

        Args:
            inputs: Where elements of inputs are, by position.
            room: Axes for which the dimensions of outputs have room at least.
        """
        config = ctype("Qnn_OpConfig_t")()
        self._kept.append(config)
        config.version = constants()["QNN_OPCONFIG_VERSION_1"]
        op = overlay(config, "versions", ctype("Qnn_OpConfigV1_t"))
        op.name, op.packageName, op.typeName = map(self.text, (form.name, form.package, form.type))
        params = (ctype("Qnn_Param_t") * max(len(form.params), 1))()
        for param, param_form in zip(params, form.params, strict=False):
            self._fill_param(param, param_form, memory)
        op.numOfParams, op.params = len(form.params), self.keep(params)
        op.numOfInputs, op.inputTensors = len(form.inputs), self._qnn_tensors(form.inputs, inputs)
        op.numOfOutputs, op.outputTensors = len(form.outputs), self._qnn_tensors(form.outputs, {}, room)
        return config

    def _qnn_tensors(self, forms: Sequence[TensorForm], addresses: Mapping[int, int], room: int = 0) -> int:
        tensors = (ctype("Qnn_Tensor_t") * max(len(forms), 1))()
        for index, form in enumerate(forms):
            self._fill_tensor(tensors[index], form, addresses.get(index), room)
        return self.keep(tensors)

    def _fill_tensor(self, record: Any, form: TensorForm, address: int | None, room: int = 0) -> None:
        codes = constants()
        record.version = codes["QNN_TENSOR_VERSION_1"]
        tensor = overlay(record, "versions", ctype("Qnn_TensorV1_t"))
        tensor.name = self.text(form.name)
        is_static = form.place is not None
        tensor.type = codes[
            f"QNN_TENSOR_TYPE_{'NULL' if form.omitted else 'STATIC' if is_static else 'NATIVE'}"
        ]
        tensor.dataType = form.dtype or codes["QNN_DATATYPE_UNDEFINED"]
        dims = (ctypes.c_uint32 * max(len(form.dims), room, 1))(*(extent or 0 for extent in form.dims))
        tensor.rank, tensor.dimensions = len(form.dims), self.keep(dims)
        _fill_encoding(tensor.quantizeParams, form)
        buffer = overlay(tensor, "memory", ctype("Qnn_ClientBuffer_t"))
        buffer.data, buffer.dataSize = address, form.nbytes

    def _fill_param(self, param: Any, form: ParamForm, memory: Memory) -> None:
        codes = constants()
        param.name = self.text(form.name)
        if form.tensor is not None:
            param.paramType = codes["QNN_PARAMTYPE_TENSOR"]
            tensor = overlay(param, "value", ctype("Qnn_Tensor_t"))
            self._fill_tensor(tensor, form.tensor, memory.address + (form.tensor.place or 0))
            return
        param.paramType = codes["QNN_PARAMTYPE_SCALAR"]
        scalar = overlay(param, "value", ctype("Qnn_Scalar_t"))
        scalar.dataType = form.dtype
        if isinstance(form.value, str):
            overlay(scalar, "value", ctypes.c_void_p).value = self.text(form.value)
            return
        overlay(scalar, "value", _plain(form)).value = form.value or 0

    def node(self, form: OpForm, params: Sequence[ParamForm], memory: Memory) -> Any:
        """Return an operation as the CPU has it: a ``QnnCpuOpPackage_Node_t``."""
        node = ctype("QnnCpuOpPackage_Node_t")()
        node.name, node.packageName, node.typeName = map(self.text, (form.name, form.package, form.type))
        node.numOfParams = len(params)
        node.params = self.pointers([self._cpu_param(param, memory) for param in params])
        return node

    def bind(self, node: Any, form: OpForm, inputs: Mapping[int, int], outputs: Mapping[int, int]) -> None:
        """Give a node the tensors of an operation, whose elements are at some addresses."""
        present = max(
            (index + 1 for index, tensor in enumerate(form.inputs) if not tensor.omitted), default=0
        )
        node.numOfInputs, node.numOfOutputs = present, len(form.outputs)
        node.inputs = self._cpu_tensors(form.inputs[:present], inputs)
        node.outputs = self._cpu_tensors(form.outputs, outputs)

    def _cpu_tensors(self, forms: Sequence[TensorForm], addresses: Mapping[int, int]) -> int:
        return self.pointers(
            [
                0 if form.omitted else self._cpu_tensor(form, addresses.get(at))
                for at, form in enumerate(forms)
            ]
        )

    def _cpu_tensor(self, form: TensorForm, address: int | None) -> int:
        tensor = ctype("QnnCpuOpPackage_Tensor_t")()
        tensor.dataType, tensor.rank, tensor.data = form.dtype, len(form.dims), address
        tensor.maxDimensions = tensor.currentDimensions = self.dims(form)
        _fill_encoding(tensor.quantizeParams, form)
        return self.keep(tensor)

    def _cpu_param(self, form: ParamForm, memory: Memory) -> int:
        codes = constants()
        param = ctype("QnnCpuOpPackage_Param_t")()
        param.name = self.text(form.name)
        if form.tensor is not None:
            param.type = codes["QNN_CPU_PARAMTYPE_TENSOR"]
            address = self._cpu_tensor(form.tensor, memory.address + (form.tensor.place or 0))
            overlay(param, "value", ctypes.c_void_p).value = address
        elif isinstance(form.value, str):
            param.type = codes["QNN_CPU_PARAMTYPE_STRING"]
            overlay(param, "value", ctypes.c_void_p).value = self.text(form.value)
        else:
            param.type = codes["QNN_CPU_PARAMTYPE_SCALAR"]
            overlay(param, "value", ctypes.c_double).value = float(form.value or 0)
        return self.keep(param)


def _plain(form: ParamForm) -> Any:
    """Return the C type of a number.

    Raises:
        BackendError: If the value is out of its range.
    """
    dtype = BY_CODE[form.dtype]
    if dtype.is_float:
        return ctypes.c_double if dtype.bits == 64 else ctypes.c_float
    kind = getattr(ctypes, f"c_{'' if dtype.is_signed else 'u'}int{max(dtype.bits, 8)}")
    if kind(int(form.value or 0)).value != int(form.value or 0):
        raise BackendError(
            f"parameter {form.name}: {form.value} is out of range",
            fix=f"give a number that fits {dtype.name}",
        )
    return kind


def _fill_encoding(params: Any, form: TensorForm) -> None:
    codes = constants()
    word = "DEFINED" if form.scale else "UNDEFINED"
    params.encodingDefinition = codes[f"QNN_DEFINITION_{word}"]
    params.quantizationEncoding = codes[
        "QNN_QUANTIZATION_ENCODING_SCALE_OFFSET" if form.scale else "QNN_QUANTIZATION_ENCODING_UNDEFINED"
    ]
    if form.scale:
        encoding = overlay(params, "encoding", ctype("Qnn_ScaleOffset_t"))
        encoding.scale, encoding.offset = form.scale, form.offset


# ------------------------------------------------------------------ failures


class Reporter:
    """Calls of a library, whose failures become errors with what it printed.

    Args:
        where: Its title in errors.
        names: Names of the statuses of its interface.
    """

    def __init__(self, where: str, names: Mapping[int, str]) -> None:
        self._where, self._names = where, names

    def call(self, doing: str, function: Callable[..., int], *arguments: Any) -> None:
        """Call a function of the library.

        Raises:
            BackendError: If it does not succeed.
        """
        before = os.fstat(2).st_size
        status = function(*arguments)
        if not status:
            return
        name = self._names.get(status, f"the unknown status {status}")
        text = " ".join(_printed_since(before).split())
        raise BackendError(
            f"{doing} returned {name}{f': {text}' if text else ''}",
            where=self._where,
            fix=None if status in self._names else "return one of the statuses of the interface",
        )


def _printed_since(place: int) -> str:
    """Return what is in the file of standard error from a place on."""
    try:
        return os.pread(2, _MESSAGE, place).decode("utf-8", "replace")
    except OSError:  # not a file that can be read
        return ""
