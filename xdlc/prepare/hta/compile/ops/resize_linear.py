"""ResizeBilinear: weighted sums with the roundings of the host, which weighs in single precision."""

from __future__ import annotations

from typing import Any

from xdlc.errors import ConstraintError
from xdlc.ir import Op
from xdlc.prepare.hta.compile.bounds import bounds, quantized, real, real_numbers
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.registry import compiler
from xdlc.prepare.hta.compile.singles import REACH, singles
from xdlc.prepare.hta.compile.tables import activation, result
from xdlc.runtime.hta.single import DROP, LARGEST_SHIFT
from xdlc.runtime.ops.resize import corners_of

Array = Any  # numpy.ndarray


@compiler("ResizeBilinear")
def resize_linear(op: Op, builder: PlanBuilder) -> None:
    """Emit values, weights and the bounds between which sums are placed.

    Raises:
        ConstraintError: If the input is no image, or shall be smoothed.
    """
    source, target = activation(op, 0), result(op)
    if source.rank != 4 or target.rank != 4:
        raise ConstraintError(f"has an input {list(source.shape)}, should be of rank 4")
    if op.param("antialias", False):
        raise ConstraintError("shall be smoothed")
    builder.buffer(source), builder.buffer(target)
    values, shifts, unit = singles(real_numbers(source), LARGEST_SHIFT)
    room = (LARGEST_SHIFT - int(shifts.max())) // 2
    constants = {"values": values, "values_shifts": shifts}
    # Where rows stay as they are, the host takes channels last for channels first.
    planes = source.shape[1] == target.shape[1]
    for name, weight, axis in (
        ("rows", "row_weights", 1 + planes),
        ("columns", "column_weights", 2 + planes),
    ):
        taken, weights = _neighbours(corners_of(op), source.shape[axis], target.shape[axis])
        numbers, shifts, factor = singles(weights, room)
        constants |= {name: taken, weight: numbers, f"{weight}_shifts": shifts}
        unit *= factor * 2.0**DROP
    place = quantized(target)
    constants["bounds"] = bounds(lambda sums: place(real(sums, unit)), target, -REACH, REACH)
    builder.emit("resize_linear", op, [source], [target], constants, planes=int(planes))


def _neighbours(corners: str, extent: int, results: int) -> tuple[Array, Array]:
    """Return the two neighbours of each result along an axis, and their weights, as onnxruntime has them."""
    import numpy as np

    one, half = np.float32(1), np.float32(0.5)
    at = np.arange(results, dtype=np.float32)
    scale = np.float32(results) / np.float32(extent)
    if scale == one:
        found = at
    elif corners == "align_corners":
        found = at * np.float32(extent - 1) / np.float32(max(results - 1, 1))
    elif corners == "asymmetric":
        found = at / scale
    elif corners == "pytorch_half_pixel" and results == 1:
        found = at * 0
    else:
        found = (at + half) / scale - half
    found = np.clip(found, 0, np.float32(extent - 1))
    first = np.minimum(found.astype(np.int32), extent - 1)
    second = np.minimum(first + 1, extent - 1)
    weights = np.abs(found - np.stack([first, second]).astype(np.float32))
    weights[:, first == second] = half
    return np.stack([first, second]), weights
