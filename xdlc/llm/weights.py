"""Parameters of a checkpoint in the forms that networks of decoders store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xdlc.ir import ArrayData, TensorData
from xdlc.ir.dtype import FLOAT32, DType

if TYPE_CHECKING:
    from xdlc.llm.checkpoint import Weight

Change = Callable[[TensorData], TensorData]
Pack = Callable[[TensorData, str], TensorData]
LARGEST_BYTE, ZERO_BYTE = 127, 128
"""Largest magnitude of an embedding in 8 bits, and its zero."""
TABLE_BLOCK = 32
"""Elements of a row of a table that share a step."""
LEAST_STEP = 2.0**-24
"""Smallest positive float16."""


class Weights:
    """Parameters of a checkpoint by name, each of them once.

    Args:
        weights: The parameters by name; their shapes have been checked (``check_parameters``).
        pack: Stores the weights of a linear map, [outputs, inputs], as integers; its second argument is the
            name of the map.  None keeps them.
    """

    def __init__(
        self,
        weights: Mapping[str, Weight],
        dtype: DType = FLOAT32,
        pack: Pack | None = None,
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
        if ("", name) not in self._data:
            floats = self._weights[name].floats()
            changed = floats if change is None else change(floats)
            self._data["", name] = changed.cast(self.dtype.numpy)
        return self._data["", name]

    def linear(
        self, name: str, shape: Sequence[int], op: str, *, is_transposed: bool = False, start: int = 0
    ) -> TensorData:
        """Return the weights of a linear map: [outputs, inputs].

        Integers of the checkpoint are kept.

        Args:
            op: Name of the linear map.
            shape: The shape that they have, as they are stored.
            is_transposed: Whether they are stored as [inputs, outputs].
            start: First output, of a map that has more of them than ``shape``.
        """
        key = f"linear {start}", name
        if key not in self._data:
            weight = self._weights[name]
            if weight.shape != tuple(shape):
                weight = weight.part(start, start + shape[0])
            floats = weight.floats().transpose((1, 0)) if is_transposed else weight.floats()
            if weight.encoding is None:
                floats = floats.cast(self.dtype.numpy) if self._pack is None else self._pack(floats, op)
            self._data[key] = floats
        return self._data[key]

    def rows(self, name: str, shape: Sequence[int]) -> tuple[TensorData, TensorData]:
        """Return a table in bytes, and the step of each block of a row: [rows, blocks].

        A value is a step times its byte less ``ZERO_BYTE``.  Signed integers of the checkpoint are kept.
        """
        if ("steps", name) not in self._data:
            stored, steps = _in_bytes(self._weights[name])
            self._data["bytes", name] = stored
            self._data["steps", name] = steps.cast(self.dtype.numpy)
        return self._data["bytes", name], self._data["steps", name]


def _in_bytes(weight: Weight) -> tuple[TensorData, TensorData]:
    """Return a table in bytes, and the steps of blocks."""
    count, width = weight.shape
    encoding = weight.encoding
    is_row = encoding is not None and encoding.block_shape[0] == 1 and weight.data.dtype.kind == "i"
    if encoding is not None and is_row and not np.any(np.asarray(encoding.offsets)):
        steps = np.asarray(encoding.scales, np.float32).reshape(count, -1)
        moved = weight.data.transform(
            lambda rows: (rows.astype(np.int16) + ZERO_BYTE).astype(np.uint8), dtype=np.uint8, by_rows=True
        )
        return moved, ArrayData(steps)
    blocks = width // TABLE_BLOCK if width % TABLE_BLOCK == 0 else 1
    floats = weight.floats()

    def split(rows: Any) -> tuple[Any, Any]:
        parts = rows.astype(np.float32).reshape(len(rows), blocks, -1)
        steps = np.abs(parts).max(axis=2) / LARGEST_BYTE
        return parts, np.maximum(steps, LEAST_STEP).astype(np.float16).astype(np.float32)

    def whole(rows: Any) -> Any:
        parts, steps = split(rows)
        integers = np.clip(np.rint(parts / steps[..., None]), -LARGEST_BYTE, LARGEST_BYTE)
        return (integers + ZERO_BYTE).astype(np.uint8).reshape(rows.shape)

    stored = floats.transform(whole, dtype=np.uint8, by_rows=True)
    return stored, floats.transform(
        lambda rows: split(rows)[1], shape=(count, blocks), dtype=np.float32, by_rows=True
    )
