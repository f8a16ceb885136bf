"""Lowering of the IR to the structs of the QNN API."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable, Sequence
from ctypes import POINTER, Structure, c_float, c_int32, c_uint8, c_uint16, c_uint32
from typing import Any, TypeVar

import numpy

from xdlc.errors import ConstraintError
from xdlc.ir import (
    AxisScaleOffset,
    BlockScaleOffset,
    BlockwiseExpansion,
    Encoding,
    Op,
    Scalar,
    ScaleOffset,
    Tensor,
)
from xdlc.ir import dtype as dt
from xdlc.ir.derived_data import block_grid
from xdlc.ir.quantization import unpacked
from xdlc.runtime.htp import structs as st

_S = TypeVar("_S", bound=Structure)
_KERNEL_RANK = 4
"""Rank of the weights of a convolution, whose output channels are the last axis."""


class Lowering:
    """Builds API structs and keeps alive the objects that they point to.

    A struct stays valid as long as the Lowering that built it; ``forget_data`` drops the static data,
    which the library copies when a tensor is created.
    """

    def __init__(self) -> None:
        self._keep: list[object] = []
        self._data: list[Any] = []

    def forget_data(self) -> None:
        """Let go of the static data handed over so far."""
        self._data.clear()

    def tensor(self, tensor: Tensor, *, with_data: bool = True) -> st.QnnTensor:
        """Return a tensor's struct, its static data handed over by pointer.

        Raises:
            ConstraintError: If the library has no form for its encoding or the size of its data.
        """
        dims = (c_uint32 * len(tensor.shape))(*tensor.shape)
        described = st.QnnTensor(
            version=2,
            name=tensor.name.encode(),
            type=int(tensor.role),
            data_type=tensor.dtype.code,
            rank=len(tensor.shape),
            dims=ctypes.cast(dims, POINTER(c_uint32)) if tensor.shape else None,
            sparse_layout=st.UNDEFINED,
        )
        self._keep.append(dims)
        if tensor.dynamic_axes:
            flags = (c_uint8 * len(tensor.shape))(
                *[axis in tensor.dynamic_axes for axis in range(len(tensor.shape))]
            )
            described.dynamic = ctypes.cast(flags, POINTER(c_uint8))
            self._keep.append(flags)
        self._encode(described, tensor)
        if tensor.data is not None and with_data:
            is_in_blocks = isinstance(tensor.encoding, BlockScaleOffset)  # the library reads unused bits
            data = unpacked(tensor) if is_in_blocks else tensor.data
            array = numpy.ascontiguousarray(data.numpy())
            if array.nbytes >= 1 << 32:
                raise ConstraintError(
                    f"has {array.nbytes} bytes, but QNN supports at most 4 GiB per tensor",
                    where=f"tensor {tensor.name!r}",
                    fix="split the op that reads the tensor, or quantize the tensor",
                )
            described.client_data, described.client_size = array.ctypes.data, array.nbytes
            self._data.append(array)
        return described

    def null(self) -> st.QnnTensor:
        """Return the struct of an optional input that is omitted."""
        null = st.QnnTensor(version=2, name=b"", type=5, data_type=st.UNDEFINED, sparse_layout=st.UNDEFINED)
        null.quantize.definition = null.quantize.encoding = st.UNDEFINED
        return null

    def op(
        self,
        op: Op,
        params: Sequence[st.QnnParam],
        inputs: Sequence[st.QnnTensor],
        outputs: Sequence[st.QnnTensor],
    ) -> st.QnnOpConfig:
        """Return the config of an op whose operands are described already."""
        return st.QnnOpConfig(
            1,
            op.name.encode(),
            op.package.encode(),
            op.type.encode(),
            len(params),
            self._array(st.QnnParam, params),
            len(inputs),
            self._array(st.QnnTensor, inputs),
            len(outputs),
            self._array(st.QnnTensor, outputs),
        )

    def scalar_param(self, name: str, scalar: Scalar) -> st.QnnParam:
        """Return the struct of a scalar parameter."""
        param = st.QnnParam(kind=0, name=name.encode())
        target = st.QnnScalar.from_buffer(param, st.QnnParam.payload.offset)
        target.data_type = scalar.dtype.code
        if scalar.dtype is dt.STRING:
            text = ctypes.c_char_p(str(scalar.value).encode())
            self._keep.append(text)
            target.value = ctypes.cast(text, ctypes.c_void_p).value or 0
        else:
            target.value = struct.unpack("<Q", _scalar_bytes(scalar).ljust(8, b"\0"))[0]
        return param

    def tensor_param(self, name: str, tensor: st.QnnTensor) -> st.QnnParam:
        """Return the struct of a tensor parameter."""
        param = st.QnnParam(kind=1, name=name.encode())
        ctypes.memmove(
            ctypes.addressof(param) + st.QnnParam.payload.offset, ctypes.byref(tensor), ctypes.sizeof(tensor)
        )
        self._keep.append(tensor)
        return param

    def _array(self, kind: type[_S], items: Sequence[_S]) -> Any:
        array = (kind * len(items))(*items)
        self._keep.extend((array, list(items)))
        return ctypes.cast(array, POINTER(kind))

    def _numbers(self, kind: Any, values: Iterable[float]) -> Any:
        listed = list(values)
        array = (kind * len(listed))(*listed)
        self._keep.append(array)
        return ctypes.cast(array, POINTER(kind))

    def _pairs(self, scales: Sequence[float], offsets: Sequence[int]) -> Any:
        pairs = numpy.empty(len(scales), st.QnnScaleOffset)
        pairs["scale"], pairs["offset"] = scales, offsets or 0
        self._keep.append(pairs)
        return ctypes.cast(pairs.ctypes.data, POINTER(st.QnnScaleOffset))

    def _float_pairs(self, encoding: BlockScaleOffset, shape: tuple[int, ...]) -> int:
        """Return the address of scales and offsets, output channel by output channel."""
        grid = block_grid(encoding, shape)
        pairs = numpy.empty((*grid, 2), numpy.float32)
        pairs[..., 0] = numpy.asarray(encoding.scales).reshape(grid)
        pairs[..., 1] = numpy.asarray(encoding.offsets).reshape(grid)
        if len(shape) == _KERNEL_RANK:
            pairs = pairs.transpose(3, 0, 1, 2, 4)
        ordered = numpy.ascontiguousarray(pairs)
        self._keep.append(ordered)
        return int(ordered.ctypes.data)

    def _encode(self, described: st.QnnTensor, tensor: Tensor) -> None:
        target = described.quantize
        target.definition = target.encoding = st.UNDEFINED
        if tensor.encoding is None:
            return
        kind, value = self._union(tensor.encoding, tensor)
        target.definition, target.encoding = 1, kind
        ctypes.memmove(
            ctypes.addressof(described) + st.QnnTensor.quantize.offset + st.QnnQuantizeParams.union.offset,
            ctypes.byref(value),
            ctypes.sizeof(value),
        )

    def _union(self, encoding: Encoding, tensor: Tensor) -> tuple[int, Any]:
        if isinstance(encoding, ScaleOffset):
            if encoding.bits is None:
                return st.SCALE_OFFSET, st.QnnScaleOffset(encoding.scale, encoding.offset)
            return st.BITS, st.QnnBits(encoding.bits, encoding.scale, encoding.offset)
        if isinstance(encoding, AxisScaleOffset):
            count = len(encoding.scales)
            if encoding.bits is None:
                return st.AXIS, st.QnnAxis(
                    encoding.axis, count, self._pairs(encoding.scales, encoding.offsets)
                )
            return st.BITS_AXIS, st.QnnBitsAxis(
                encoding.bits,
                encoding.axis,
                count,
                self._numbers(c_float, encoding.scales),
                self._numbers(c_int32, encoding.offsets),
            )
        if isinstance(encoding, BlockScaleOffset):
            return st.FLOAT_BLOCK, st.QnnFloatBlock(
                encoding.bits or tensor.dtype.bits,
                self._numbers(c_uint32, encoding.block_shape),
                self._float_pairs(encoding, tensor.shape),
            )
        if isinstance(encoding, BlockwiseExpansion):
            block_scales = self._numbers(c_uint16 if encoding.wide else c_uint8, encoding.block_scales)
            expansion = st.QnnExpansion(
                encoding.axis,
                self._pairs(encoding.scales, encoding.offsets),
                encoding.blocks_per_axis,
                encoding.block_scale_bits,
                int(encoding.wide),
                ctypes.cast(block_scales, ctypes.c_void_p),
            )
            self._keep.append(expansion)
            return st.BLOCKWISE_EXPANSION, ctypes.c_void_p(ctypes.addressof(expansion))
        raise ConstraintError(
            f"has an encoding of type {type(encoding).__name__}, which HTP cannot store",
            where=f"tensor {tensor.name!r}",
            fix="quantize the tensor with a scale and offset per tensor or per axis",
        )


def _scalar_bytes(scalar: Scalar) -> bytes:
    kind = scalar.dtype.kind
    if kind == "bool":
        return bytes([bool(scalar.value)])
    if kind == "float":
        return struct.pack({16: "<e", 32: "<f", 64: "<d"}[scalar.dtype.bits], float(scalar.value))
    low, high = scalar.dtype.limits
    value = int(scalar.value)
    if not low <= value <= high:
        raise ConstraintError(f"parameter value {value} does not fit its type {scalar.dtype}")
    return value.to_bytes(8, "little", signed=low < 0)
