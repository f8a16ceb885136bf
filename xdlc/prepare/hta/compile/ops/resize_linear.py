"""ResizeBilinear: weighted sums with the roundings of the host, which weighs in single precision."""

from __future__ import annotations

from typing import Any

from xdlc.errors import ConstraintError
from xdlc.ir import Op
from xdlc.prepare.hta.compile.bounds import bounds, encoding_of, quantized, real
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.registry import compiler
from xdlc.prepare.hta.compile.tables import activation
from xdlc.runtime.hta.kernels.resize_linear import LARGEST_SHIFT, PART_DROP, WEIGHT_DROP
from xdlc.runtime.ops.resize import corners_of

Array = Any  # numpy.ndarray
_BITS = 24
_REACH = 1 << 61


@compiler("ResizeBilinear")
def resize_linear(op: Op, builder: PlanBuilder) -> None:
    """Emit values, weights and the bounds between which sums are placed.

    Raises:
        ConstraintError: If the input is no image, or shall be smoothed.
    """
    import numpy as np

    source, target = activation(op, 0), op.outputs[0]
    if source.rank != 4:
        raise ConstraintError(f"has an input {list(source.shape)}, should be of rank 4")
    if op.param("antialias", False):
        raise ConstraintError("shall be smoothed", fix="leave the op out of the HTA partition")
    builder.buffer(source), builder.buffer(target)
    held = encoding_of(source)
    steps = (np.arange(source.dtype.limits[1] + 1) + held.offset).astype(np.float32) * np.float32(held.scale)
    values, value_shifts, unit = _numbers(steps, LARGEST_SHIFT)
    room = (LARGEST_SHIFT - int(value_shifts.max())) // 2
    constants = {"values": values, "value_shifts": value_shifts}
    # Where rows stay as they are, the host takes channels last for channels first.
    planes = source.shape[1] == target.shape[1]
    for name, weight, axis in (("rows", "row", 1 + planes), ("columns", "column", 2 + planes)):
        taken, weights = _neighbours(corners_of(op), source.shape[axis], target.shape[axis])
        constants[name] = taken
        numbers, shifts, factor = _numbers(weights, room)
        constants[f"{weight}_weights"], constants[f"{weight}_shifts"] = numbers, shifts
        unit *= factor
    unit *= 2.0 ** (WEIGHT_DROP + PART_DROP)
    place = quantized(target)
    constants["bounds"] = bounds(lambda sums: place(real(sums, unit)), target, -_REACH, _REACH)
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


def _numbers(given: Array, room: int) -> tuple[Array, Array, float]:
    """Return float32 numbers as whole ones of 24 bits, shifts of at most ``room``, and their unit.

    A number far below the largest keeps fewer bits.
    """
    import numpy as np

    exponents = np.frexp(np.abs(given).astype(np.float64))[1].astype(np.int64) - _BITS
    exponents[given == 0] = exponents.max()
    exponents = np.maximum(exponents, exponents.max() - room)
    least = int(exponents.min())
    whole = np.rint(given.astype(np.float64) * np.exp2(-exponents.astype(np.float64)))
    return whole.astype(np.int32), (exponents - least).astype(np.int8), 2.0**least
