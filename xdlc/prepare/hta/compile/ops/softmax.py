"""Softmax: tables of exponentials.

For 8-bit activations the host has a kernel of its own (onnxruntime's ``QLinearSoftmax``), with exponentials
and sums in single precision, the largest as large as sums allow.  Elsewhere it computes reals, and the plan
is exact where those are not: some of 10,000 results differ, by one step, or in the last bits of a float32.
"""

from __future__ import annotations

import math
from typing import Any

from xdlc.errors import ConstraintError
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import FLOAT32
from xdlc.prepare.hta.compile.bounds import encoding_of
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.registry import compiler
from xdlc.prepare.hta.compile.tables import activation, result
from xdlc.runtime import args

Array = Any  # numpy.ndarray
_BITS = 60
_FACTOR_BITS = 24


@compiler("Softmax")
def softmax(op: Op, builder: PlanBuilder) -> None:
    """Emit exponentials, and the factor from quotients to stored integers.

    Raises:
        ConstraintError: If the result's scale is far from that of probabilities.
    """
    source, target = activation(op, 0), args.result(op)
    builder.buffer(source), builder.buffer(target)
    axis, beta = args.axis(op, source.rank, default=source.rank - 1), float(op.param("beta", 1.0))
    if target.dtype is FLOAT32:
        table = _exponentials(source, beta, min(_BITS - source.shape[axis].bit_length(), 48))
        builder.emit("softmax", op, [source], [target], {"exponentials": table}, axis=axis, single=0)
        return
    result(op)
    single = beta == 1.0 and source.dtype.bits == target.dtype.bits == 8
    factor, shift = _factor(target, single=single)
    width = _BITS - max(source.shape[axis].bit_length() + shift, factor.bit_length())
    width = min(width, 48)
    table = _single_exponentials(source, axis, width) if single else _exponentials(source, beta, width)
    builder.emit(
        "softmax",
        op,
        [source],
        [target],
        {"exponentials": table},
        axis=axis,
        single=int(single),
        factor=factor,
        shift=shift,
        zero=-encoding_of(target).offset,
    )


def _factor(target: Tensor, *, single: bool) -> tuple[int, int]:
    """Return the factor from probabilities to steps of the result, and its shift."""
    import numpy as np

    scale = encoding_of(target).scale
    if not 2.0**-20 <= scale <= 1.0:
        raise ConstraintError(f"has a result in steps of {scale}", fix="quantize the model again")
    if single:  # the host takes whole steps only
        return int(np.floor(np.float32(1) / np.float32(scale))), 0
    shift = max(_FACTOR_BITS - math.ceil(-math.log2(scale)), 0)
    return round(2.0**shift / scale), shift


def _exponentials(source: Tensor, beta: float, width: int) -> Array:
    """Return the exponential for each distance from the largest, of so many bits."""
    import numpy as np

    if beta < 0:
        raise ConstraintError(f"has the factor {beta}, should be positive")
    distance = np.arange(source.dtype.limits[1] + 1) * -(encoding_of(source).scale * beta)
    return np.rint(np.exp(distance) * 2.0**width).astype(np.int64)


def _single_exponentials(source: Tensor, axis: int, width: int) -> Array:
    """Return those of the host's 8-bit kernel: the largest is so that their sum is a float32 just so."""
    import numpy as np

    scale = np.float64(np.float32(encoding_of(source).scale))
    most = np.finfo(np.float32).max / np.float32(source.shape[axis])
    largest = max(0.0, np.log(np.float64(most)) - 5) / scale
    distance = np.arange(source.dtype.limits[1] + 1)
    held = np.exp((largest - distance) * scale).astype(np.float32).astype(np.float64)
    return np.rint(held * np.exp2(width - np.frexp(held[0])[1])).astype(np.int64)
