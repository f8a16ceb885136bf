"""A kind of tensors."""

from __future__ import annotations

import json
from typing import Any

from xdlc.errors import UsageError
from xdlc.ir.data import TensorData
from xdlc.udo.plugin.kinds.base import REQUIRED, Kind, numbers
from xdlc.udo.plugin.ports import MAX_RANK


class Tensor(Kind):
    """A tensor.

    Args:
        default: An array.
        dtype: Name of the data type; values must have a form in it.
        rank: Number of axes; None for any.
        source: Name of the source's attribute, if it is another.
        description: What it is.
    """

    text = "a tensor"
    standard = "float32"
    allowed = ("float", "int", "uint", "bool")

    def __init__(
        self,
        default: Any = REQUIRED,
        *,
        dtype: str | None = None,
        rank: int | None = None,
        source: str = "",
        description: str = "",
    ) -> None:
        if rank is not None and not (isinstance(rank, int) and 1 <= rank <= MAX_RANK):
            raise UsageError(f"rank of a tensor is {rank!r}", fix=f"give None or 1 to {MAX_RANK}")
        self._rank = rank
        super().__init__(default, dtype=dtype, source=source, description=description)

    def check(self, value: Any) -> Any:
        import numpy

        array = value.numpy() if isinstance(value, TensorData) else value
        if not isinstance(array, (numpy.ndarray, list, tuple)):
            raise self.wrong(value)
        try:
            given = numpy.asarray(array)
            with numpy.errstate(all="ignore"):
                stored = given.astype(self.dtype.numpy)
        except (ValueError, TypeError, OverflowError) as error:
            raise self.wrong(value) from error
        if self._rank is not None and stored.ndim != self._rank:
            raise UsageError(f"expected a tensor of {self._rank} axes, found shape {list(stored.shape)}")
        if not self.dtype.is_float and not numpy.array_equal(given, stored):
            raise UsageError(f"expected a tensor of {self.dtype.name}, found {given.dtype} values beyond it")
        return stored

    def rank(self) -> int | None:
        return self._rank

    def written(self, value: Any) -> str:
        return json.dumps(numbers(value.tolist()))
