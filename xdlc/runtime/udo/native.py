"""Operations as structures of ``xdlc_udo.h``, for libraries in the worker."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

from xdlc.errors import BackendError
from xdlc.ir.dtype import BY_CODE
from xdlc.runtime.udo import structs
from xdlc.runtime.udo.descriptor import OpForm, ParamForm, TensorForm
from xdlc.runtime.udo.memory import Memory

MESSAGE = 1024


def utf8(text: str) -> bytes:
    """Return a text in UTF-8; other characters are escaped."""
    return text.encode("utf-8", "backslashreplace")


class Native:
    """Structures with the objects that they point to."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def tensors(self, forms: Sequence[TensorForm], addresses: Mapping[int, int]) -> Any:
        """Return an array of tensors.

        Args:
            forms: The tensors.
            addresses: Where their elements are, by position.
        """
        made = (structs.Tensor * max(len(forms), 1))()
        for index, form in enumerate(forms):
            self._fill(made[index], form, addresses.get(index))
        self._kept.append(made)
        return made

    def _fill(self, tensor: structs.Tensor, form: TensorForm, address: int | None) -> None:
        tensor.name = utf8(form.name)
        if form.omitted:
            tensor.flags = structs.OMITTED
            return
        extents = [structs.OPEN_EXTENT if extent is None else extent for extent in form.dims]
        dims = (ctypes.c_uint32 * max(len(extents), 1))(*extents)
        self._kept.append(dims)
        tensor.flags = 0 if form.place is None else structs.STATIC
        tensor.data_type, tensor.layout = form.dtype, structs.LAYOUTS.get(form.layout, 0)
        tensor.rank, tensor.dims = len(extents), dims
        tensor.scale, tensor.offset = form.scale, form.offset
        tensor.num_bytes, tensor.data = form.nbytes, address

    def params(self, forms: Sequence[ParamForm], memory: Memory) -> Any:
        """Return an array of parameters, whose tensors are in a memory."""
        params = (structs.Param * max(len(forms), 1))()
        for param, form in zip(params, forms, strict=False):
            param.name, param.data_type = utf8(form.name), form.dtype
            if form.tensor is not None:
                param.kind = structs.TENSOR
                self._fill(param.tensor, form.tensor, memory.address + (form.tensor.place or 0))
            elif isinstance(form.value, str):
                param.kind, param.string = structs.STRING, utf8(form.value)
            elif BY_CODE[form.dtype].is_float:
                param.real = float(form.value or 0)
            else:
                number = int(form.value or 0)
                param.integer = number - (1 << 64) if number >= 1 << 63 else number
        self._kept.append(params)
        return params

    def op(self, form: OpForm, memory: Memory, addresses: Mapping[int, int] | None = None) -> structs.Op:
        """Return an operation with static data in ``memory``, inputs at ``addresses``."""
        inputs = self.tensors(form.inputs, {**static_addresses(form, memory), **(addresses or {})})
        op = structs.Op(
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
    """Return the text in a buffer, which need not end."""
    raw: bytes = buffer.raw
    return raw.split(b"\0", 1)[0].decode("utf-8", "backslashreplace").strip()


def check(status: int, doing: str, message: str, where: str) -> None:
    """Check what a function of a library returned.

    Raises:
        BackendError: If it failed.
    """
    if status:
        name = structs.STATUS.get(status, f"the unknown status {status}")
        words = " ".join(message.split())
        text = f": {words}" if words else ""
        known = status in structs.STATUS
        raise BackendError(
            f"{doing} returned {name}{text}",
            where=where,
            fix=None if known else "return one of the values of xdlc_udo_status that xdlc_udo.h names",
        )
