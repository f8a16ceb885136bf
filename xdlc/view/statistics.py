"""Statistics of static data: range, mean, spread, zeros and a histogram."""

from __future__ import annotations

import math
from typing import Any

from xdlc.errors import XdlcError
from xdlc.ir import Tensor, TensorData
from xdlc.ir.data import Array
from xdlc.ir.quantization import as_blocks, scale_and_offset, to_float, unpacked
from xdlc.lazy import is_installed

BINS = 48
MOST = 1 << 21
"""Values of a tensor that are all counted."""
RUN, RUNS = 1 << 10, 1 << 10
"""Neighbours that are counted together in a larger tensor, and how many such runs."""
FEW = 4
"""Values that need no histogram."""
Record = dict[str, Any]


def rounded(value: float) -> float | None:
    """Return a number with five digits; None if it is not finite.

    Example:
        >>> rounded(0.1234567), rounded(12.0), rounded(float("inf"))
        (0.12346, 12, None)
    """
    if not math.isfinite(value):
        return None
    number = float(f"{value:.5g}")
    return int(number) if number.is_integer() else number


def static_statistics(tensor: Tensor) -> Record | None:
    """Return the statistics of a static tensor; None if it has no numbers.

    Values are real: those that fixed-point data stand for.  One tensor is in memory at a time.
    """
    if not is_installed("numpy"):
        return _empty(tensor.size, "this Python has no numpy, which statistics need")
    if tensor.data is None or not tensor.size or tensor.dtype.kind in ("string", "undefined"):
        return None
    try:
        if tensor.dtype.is_fixed and tensor.encoding is not None:
            values = _real_values(tensor)
        elif tensor.dtype.bits == 4:
            values = _sampled(unpacked(tensor).numpy().reshape(-1))
        else:
            values = _sampled(tensor.data.numpy().reshape(-1))
    except (XdlcError, ValueError) as error:
        return _empty(tensor.size, f"xdlc cannot read the values: {getattr(error, 'problem', error)}")
    finally:
        tensor.data.release()
    return _statistics(values, tensor.size)


def data_statistics(data: TensorData) -> Record | None:
    """Return the statistics of numbers; None if the data has none, or other values."""
    count = math.prod(data.shape)
    if not count or data.dtype.kind not in "fiub":
        return None
    try:
        return _statistics(_sampled(data.numpy().reshape(-1)), count)
    except (XdlcError, ValueError) as error:
        return _empty(count, f"xdlc cannot read the values: {getattr(error, 'problem', error)}")
    finally:
        data.release()


def _empty(count: int, note: str) -> Record:
    nothing = dict.fromkeys(("low", "high", "mean", "std", "zeros"))
    return {**nothing, "n": count, "bars": [0, 0, []], "of": "weights", "note": note}


def _places(count: int) -> Array:
    """Return places of a sample: runs of neighbours from all of the values."""
    import numpy as np

    starts = np.linspace(0, count - RUN, RUNS).astype(np.int64)
    return (starts[:, None] + np.arange(RUN)).reshape(-1)


def _sampled(flat: Array) -> Array:
    return flat if flat.size <= MOST else flat[_places(flat.size)]


def _real_values(tensor: Tensor) -> Array:
    """Return the real values of fixed-point data, or of a sample of them."""
    import numpy as np

    encoding, where, shape = tensor.encoding, f"tensor {tensor.name!r}", tensor.shape
    if encoding is None:
        raise ValueError("no encoding")
    quantized = unpacked(tensor).numpy()
    if quantized.size <= MOST:
        return to_float(quantized, encoding, where=where).reshape(-1)
    places = _places(quantized.size)
    chosen = quantized.reshape(-1)[places].astype(np.float64)
    axes = np.unravel_index(places, shape)
    blocks = as_blocks(encoding, shape, where=where)
    if blocks is not None:
        grid = tuple(size // step for size, step in zip(shape, blocks.block_shape, strict=True))
        cells = tuple(axis // step for axis, step in zip(axes, blocks.block_shape, strict=True))
        scale, offset = (np.asarray(part).reshape(grid)[cells] for part in (blocks.scales, blocks.offsets))
    else:
        both = scale_and_offset(encoding, shape, where=where)
        scale, offset = (np.broadcast_to(part, shape)[axes] for part in both)
    return np.asarray((chosen + offset) * scale, np.float32)


def _statistics(values: Array, count: int) -> Record:
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        return _figures(values, count)


def _figures(values: Array, count: int) -> Record:
    import numpy as np

    reals = values.astype(np.float64 if values.dtype.itemsize == 8 else np.float32, copy=False)
    total = reals.size
    if not math.isfinite(float(reals.sum(dtype=np.float64))):
        reals = reals[np.isfinite(reals)]
    notes = [f"counted are {total:,} of {count:,} values"] if total < count else []
    notes += [f"{total - reals.size:,} values are NaN or infinite"] if reals.size < total else []
    if not reals.size:
        return _empty(count, "; ".join(notes))
    low, high = float(reals.min()), float(reals.max())
    mean = float(reals.mean(dtype=np.float64))
    record: Record = {
        "low": rounded(low),
        "high": rounded(high),
        "mean": rounded(mean),
        "std": rounded(float(reals.std(dtype=np.float64))),
        "zeros": rounded(1 - np.count_nonzero(reals) / reals.size),
        "n": count,
        "bars": _bars(reals, low, high),
        "of": "weights",
    }
    return record | ({"note": "; ".join(notes)} if notes else {})


def _bars(reals: Array, low: float, high: float) -> list[Any]:
    """Return the lower end, the width and the counts of the bins."""
    import numpy as np

    width = (high - low) / BINS
    if reals.size <= FEW or not math.isfinite(width) or not width:
        return [rounded(low), 0, [int(reals.size)]]
    places = np.minimum((reals.astype(np.float64) - low) / width, BINS - 1).astype(np.int64)
    return [rounded(low), rounded(width), np.bincount(places, minlength=BINS).tolist()]
