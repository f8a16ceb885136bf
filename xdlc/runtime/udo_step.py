"""The step of a plan that calls the kernel of a user-defined operation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdlc.errors import BackendError
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import FLOAT64
from xdlc.ir.quantization import encoding_of, quantized_limits, scale_and_offset
from xdlc.runtime.engine import contiguous
from xdlc.runtime.lower import as_float
from xdlc.runtime.timeout import Watch

if TYPE_CHECKING:
    from xdlc.runtime.udo.kernels import Kernels
    from xdlc.runtime.udo.operation import Operation

Array = Any  # numpy.ndarray


@dataclass(frozen=True, slots=True)
class Custom:
    """A user-defined operation.

    Attributes:
        op: The op.
        operation: The op with its kernel.
        quantized: Whether fixed-point values are rounded to their encodings.
    """

    op: Op
    operation: Operation
    quantized: bool

    @classmethod
    def of(cls, op: Op, kernels: Kernels | None, *, quantized: bool) -> Custom:
        """Return the step of an op.

        Raises:
            UnsupportedOp: If there is no kernel for it.
            BackendError: If its kernel does not take it.
            ModelError: If a fixed-point value has no usable encoding.
        """
        if kernels is None:
            from xdlc.runtime.udo.kernels import missing

            raise missing(op, None)
        for tensor in (*op.inputs, *op.outputs):
            if tensor is not None and not tensor.is_static and quantized and tensor.dtype.is_fixed:
                scale_and_offset(encoding_of(tensor), tensor.shape, where=f"tensor {tensor.name!r}")
        return cls(op, kernels.operation(op), quantized)

    def run(self, values: dict[str, Array], watch: Watch) -> None:
        """Call the kernel; the loops around it may end it."""
        watch.check()
        arrays = [
            None if tensor is None or tensor.is_static else self._to_kernel(values[tensor.name], tensor)
            for tensor in self.op.inputs
        ]
        try:
            results = self.operation.run(arrays, timeout=watch.remaining())
        except BackendError:
            watch.check()
            raise
        for tensor, array in zip(self.op.outputs, results, strict=True):
            values[tensor.name] = self._from_kernel(array, tensor)

    def _to_kernel(self, array: Array, tensor: Tensor) -> Array:
        import numpy

        if tensor.producer is None:  # what the caller gives is rounded by nobody else
            array = self._rounded(array, tensor)
        if tensor.dtype.is_float and tensor.dtype is not FLOAT64:
            array = array.astype(numpy.float32, copy=False)
        return contiguous(array)

    def _from_kernel(self, array: Array, tensor: Tensor) -> Array:
        import numpy

        if tensor.dtype.name == "bfloat16":
            return array.astype(tensor.dtype.numpy).astype(numpy.float32)
        if not as_float(tensor.dtype):
            return array.astype(tensor.dtype.numpy, copy=False)
        return self._rounded(array, tensor)

    def _rounded(self, array: Array, tensor: Tensor) -> Array:
        """Return reals as the stored integers stand for them, divided in float32 as onnxruntime does."""
        import numpy

        if not self.quantized or not tensor.dtype.is_fixed or tensor.dtype.bits > 16:
            return array
        scale, offset = scale_and_offset(
            encoding_of(tensor), tuple(array.shape), where=f"tensor {tensor.name!r}"
        )
        low, high = quantized_limits(tensor)
        stored = numpy.clip(numpy.rint(array / scale) - offset, low, high)
        return ((stored + offset) * scale).astype(numpy.float32)
