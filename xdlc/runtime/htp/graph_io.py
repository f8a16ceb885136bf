"""Inputs and outputs of a running graph: float or quantized values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy

from xdlc.errors import BackendError, UsageError, nearest_names
from xdlc.ir import ScaleOffset, Tensor
from xdlc.ir import dtype as dt
from xdlc.ir.quantization import to_float, to_quantized
from xdlc.options import spell
from xdlc.runtime.array_files import check_shape
from xdlc.runtime.cpu import type_problem

if TYPE_CHECKING:
    from xdlc.runtime.htp.structs import QnnTensor

Array = Any  # numpy.ndarray
_COMPUTED = {dt.INT64: dt.INT32, dt.UINT64: dt.UINT32}


@dataclass(frozen=True, slots=True)
class GraphIO:
    """An input or output of a graph.

    Attributes:
        tensor: Name, shape, dtype and encoding that the caller knows it under.
        lowered: What HTP has in its place, the same elements in another type or shape.
    """

    tensor: Tensor
    lowered: Tensor

    @classmethod
    def of_struct(cls, struct: QnnTensor) -> GraphIO:
        """Return the input or output that a context binary describes."""
        from xdlc.runtime.htp import binary_info

        encoding = binary_info.scale_offset(struct)
        tensor = Tensor(
            (struct.name or b"").decode(errors="replace"),
            binary_info.shape(struct),
            binary_info.tensor_dtype(struct),
            ScaleOffset(*encoding) if encoding else None,
        )
        return cls(tensor, tensor)

    def empty(self) -> Array:
        """Return zeros in the type that HTP stores."""
        return numpy.zeros(self.lowered.shape, self.lowered.dtype.numpy)

    def stored(self, array: Array) -> Array:
        """Return the stored values of ``array``.

        Args:
            array: Float values of any float type, which are quantized for a quantized input, or stored
                values in the input's own type.

        Raises:
            UsageError: If shape or type do not fit.
        """
        tensor, dtype = self.tensor, self.tensor.dtype.numpy
        try:
            check_shape(tensor, array.shape)
            if tensor.encoding is not None and array.dtype.kind == "f":
                return self._lowered(to_quantized(array, tensor))
            if array.dtype != dtype and (tensor.dtype.is_fixed or not _holds(dtype, array)):
                raise type_problem(tensor, array.dtype)
        except UsageError as error:
            error.where = self._where
            raise
        narrow = _COMPUTED.get(tensor.dtype)
        if narrow is not None and not _holds(narrow.numpy, array):
            raise UsageError(
                "the array has values that need more than 32 bits, but HTP computes with 32 bits",
                where=self._where,
                fix="give smaller values, or run the model on the cpu",
            )
        return self._lowered(array)

    def _lowered(self, array: Array) -> Array:
        held = self.lowered
        return numpy.ascontiguousarray(array.astype(held.dtype.numpy, copy=False)).reshape(held.shape)

    def returned(self, array: Array, *, native: bool) -> Array:
        """Return a result as stored, or as float values (float32)."""
        array = array.reshape(self.tensor.shape).astype(self.tensor.dtype.numpy, copy=False)
        if native or self.tensor.encoding is None:
            return array
        return to_float(array, self.tensor.encoding, where=self._where)

    @property
    def _where(self) -> str:
        return f"array for {self.tensor.name!r}"


def _holds(dtype: Any, array: Array) -> bool:
    """Return whether a conversion to a dtype is exact but for float precision."""
    if dtype.kind == "f" or dtype == dt.BFLOAT16.numpy:
        return bool(array.dtype.kind in "fiub")
    if dtype.kind == "b":
        return bool(array.dtype.kind in "iub")
    return bool(array.dtype.kind in "iub" and numpy.array_equal(array.astype(dtype), array))


def stored_feeds(inputs: Sequence[GraphIO], feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Return the stored inputs of a graph by name, in order.

    Raises:
        UsageError: If arrays are missing, left over, or do not fit.
    """
    names = [io.tensor.name for io in inputs]
    missing = [name for name in names if name not in feeds]
    unknown = [name for name in feeds if name not in names]
    if missing or unknown:
        problems = [f"no array for input {name!r}" for name in missing]
        problems += [f"the graph has no input {name!r}" for name in unknown]
        hint = nearest_names(unknown[0], names) if unknown else ""
        raise UsageError(
            "; ".join(problems),
            fix=f"give one array for each of: {', '.join(names)}" + (f" ({hint})" if hint else ""),
        )
    return {io.tensor.name: io.stored(feeds[io.tensor.name]) for io in inputs}


def as_known(tensor: Tensor) -> Tensor:
    """Return an input or output as callers have it, before its graph has HTP's form."""
    return Tensor(tensor.name, tensor.shape, tensor.dtype, tensor.encoding)


def given_results(
    outputs: Sequence[GraphIO], results: Mapping[str, Array], *, native: bool, where: str
) -> dict[str, Array]:
    """Return the outputs of a graph of a cache by name, in the form that callers have.

    Args:
        results: Arrays of the emulation, by name.
        native: Give quantized outputs as quantized values instead of float32.

    Raises:
        BackendError: If one is missing or has another number of elements: the cache is of another graph.
    """
    arrays: dict[str, Array] = {}
    for io in outputs:
        name, shape = io.tensor.name, io.tensor.shape
        array = results.get(name)
        if array is None or array.size != math.prod(shape):
            present = (
                f"only {', '.join(results) or 'none'}" if array is None else f"shape {list(array.shape)}"
            )
            raise BackendError(
                f"the cache has no output {name!r} of shape {list(shape)}, but {present}",
                where=where,
                fix=f"prepare the model again, with {spell('overwrite_cache_records', True)}",
            )
        arrays[name] = io.returned(array, native=native)
    return arrays
