"""The windows of pools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdlc.errors import ConstraintError
from xdlc.ir import Op, Tensor
from xdlc.runtime import args
from xdlc.runtime.hta.pool_window import MOST_TAPS


@dataclass(frozen=True, slots=True)
class Windows:
    """Settings of a pool over images.

    Attributes:
        size: Rows and columns.
        stride: Steps between windows.
        pads: Padding above, left, below and right.
    """

    size: list[int]
    stride: list[int]
    pads: list[int]

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of instructions; padding behind the input follows from the output's extents."""
        return {"size": self.size, "stride": self.stride, "start": self.pads[:2]}

    def covers(self, source: Tensor, target: Tensor) -> bool:
        """Return whether there is one window, which is the whole image."""
        return (
            tuple(self.size) == source.shape[1:-1] and not any(self.pads) and set(target.shape[1:-1]) == {1}
        )


def windows_of(op: Op, source: Tensor, target: Tensor) -> Windows:
    """Return the windows of a pool.

    Raises:
        ConstraintError: If one lies wholly in the padding or is too large, or the input is no image.
    """
    if source.rank != 4 or target.rank != 4:
        raise ConstraintError(f"has an input {list(source.shape)}, should be of rank 4")
    held = Windows(args.integers(op, "filter_size", 2), args.integers(op, "stride", 2), args.pads(op, 2))
    if not 0 < held.size[0] * held.size[1] <= MOST_TAPS:
        raise ConstraintError(
            f"has windows of {held.size[0]} x {held.size[1]}, the most are {MOST_TAPS} elements"
        )
    for axis in (0, 1):
        last = (target.shape[1 + axis] - 1) * held.stride[axis] - held.pads[axis]
        if held.pads[axis] >= held.size[axis] or last >= source.shape[1 + axis]:
            raise ConstraintError(f"has windows along axis {1 + axis} that hold nothing of its input")
    return held
