"""Parameters of a checkpoint in the forms that networks of decoders store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xdlc.ir import TensorData
from xdlc.ir.dtype import FLOAT32, UINT8, DType

if TYPE_CHECKING:
    from xdlc.llm.checkpoint import Weight

Change = Callable[[TensorData], TensorData]
LARGEST_BYTE, ZERO_BYTE = 127, 128
"""Largest magnitude of an embedding in 8 bits, and its zero."""


class Weights:
    """Parameters of a checkpoint by name, each of them once.

    Args:
        weights: The parameters by name; their shapes have been checked (``check_parameters``).
        dtype: Type of floats.
        pack: Stores the weights of a linear map, [outputs, inputs], as integers; None keeps them.
    """

    def __init__(
        self,
        weights: Mapping[str, Weight],
        dtype: DType = FLOAT32,
        pack: Callable[[TensorData], TensorData] | None = None,
    ) -> None:
        self._weights, self.dtype, self._pack = weights, dtype, pack
        self._data: dict[tuple[str, str], TensorData] = {}

    @property
    def packs(self) -> bool:
        """Whether weights are stored as integers."""
        return self._pack is not None

    def data(self, name: str, shape: Sequence[int], change: Change | None = None) -> TensorData:
        """Return a parameter as floats, always the same object for the same name.

        Args:
            shape: The shape that the config makes it have.
            change: Changes the parameter.
        """
        return self._once("", name, lambda floats: floats if change is None else change(floats))

    def linear(
        self, name: str, shape: Sequence[int], *, is_transposed: bool = False, start: int = 0
    ) -> TensorData:
        """Return the weights of a linear map: [outputs, inputs]; integers of the checkpoint are kept.

        Args:
            shape: The shape that they have, as they are stored.
            is_transposed: Whether they are stored as [inputs, outputs].
            start: First output that is wanted, of a map that has more of them than ``shape``.
        """
        key = f"linear {start}", name
        if key not in self._data:
            weight = self._weights[name]
            if weight.shape != tuple(shape):
                weight = weight.part(start, start + shape[0])
            floats = weight.floats().transpose((1, 0)) if is_transposed else weight.floats()
            if weight.encoding is None:
                floats = floats.cast(self.dtype.numpy) if self._pack is None else self._pack(floats)
            self._data[key] = floats
        return self._data[key]

    def rows(self, name: str, shape: Sequence[int]) -> tuple[TensorData, TensorData]:
        """Return a table in bytes, and the largest magnitude of each row: [rows, 1]."""
        largest = self._once("largest", name, lambda floats: _by_rows(floats, _largest, (shape[0], 1)))
        whole = self._once("rows", name, lambda floats: _by_rows(floats, _bytes, shape, "uint8"), UINT8)
        return whole, largest

    def _once(self, form: str, name: str, change: Change, dtype: DType | None = None) -> TensorData:
        if (form, name) not in self._data:
            changed = change(self._weights[name].floats())
            self._data[form, name] = changed.cast((dtype or self.dtype).numpy)
        return self._data[form, name]


def _by_rows(
    data: TensorData, function: Callable[[Any], Any], shape: Sequence[int], dtype: str = "float32"
) -> TensorData:
    import numpy as np

    return data.transform(function, shape=tuple(shape), dtype=np.dtype(dtype), by_rows=True)


def _largest(rows: Any) -> Any:
    """Return the largest magnitude of each row, as float16 has it."""
    import numpy as np

    largest = np.abs(rows.astype(np.float32)).max(axis=1, keepdims=True)
    return np.maximum(largest, np.finfo(np.float16).tiny).astype(np.float16).astype(np.float32)


def _bytes(rows: Any) -> Any:
    import numpy as np

    whole = np.rint(rows.astype(np.float32) / _largest(rows) * LARGEST_BYTE)
    return (np.clip(whole, -LARGEST_BYTE, LARGEST_BYTE) + ZERO_BYTE).astype(np.uint8)
