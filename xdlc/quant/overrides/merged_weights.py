"""Encodings for weights of the source into which the conversion has merged factors, as of BatchNorm."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Sequence

from xdlc.ir import Model, Tensor
from xdlc.ir.data import Array
from xdlc.opdefs.traits import traits
from xdlc.quant.overrides.override import Grain, Override

FOLLOWS = "is for a bias or factor that was merged with others: it follows from the weights, or is calibrated"
_FITS, _UNLIKE = 0.1, 0.2
"""Logarithms by which scales are off that fit the largest values of channels, and that do not."""


def following(model: Model, override: Override, tensor: Tensor, record: Sequence[str]) -> Override | None:
    """Return the encoding of a merged weight from that of the source's; None if a bias or the like is meant.

    A file may be of a network in which BatchNorm was merged before: scales that fit the merged weight, and
    not that of the source, stay as they are.

    Args:
        model: The float model.
        override: The encoding of the source's weight.
        tensor: The weight of the model.
        record: What ``weight_factors`` of the converter stated of the weight.

    Raises:
        UsageError: If no encoding of the merged weight has the same quantized values.
    """
    op = next(iter(model.main.consumers(tensor)), None)
    if op is None or override.is_float:
        return override
    rule = traits(op)
    if rule.weight is None or op.inputs[rule.weight] is not tensor:
        return None
    text, *notes = record or [""]
    factors = _factors(text, 1 if rule.channel_axis is None else tensor.shape[rule.channel_axis])
    if "reordered" in notes and override.grain not in (Grain.TENSOR, Grain.CHANNEL):
        raise override.error(
            f"has scales per block of inputs, which {op.type} {op.name!r} reads in another order",
            "write scales per channel, or omit the entry",
        )
    if set(factors) == {1.0} or _is_of_merged(override, tensor, factors, rule.channel_axis):
        return override
    result = override.times(factors)
    if result is not None:
        return result
    types = {name: kind for name, kind, _ in model.metadata.get("nodes", ())}
    nodes = [name for name in op.origin.nodes if name in types]
    is_batchnorm = any("batch" in types[name].lower() for name in nodes)
    how = "each channel has its own factor" if factors else "in another way than by a factor per channel"
    symmetric = "write symmetric scales; " if factors else ""
    apart = "or convert with --disable_batchnorm_folding; " if is_batchnorm else ""
    raise override.error(
        f"is for a weight that {', '.join(nodes[1:]) or 'a step before it'} changed when it was merged into "
        f"{op.type} {op.name!r}: {how}",
        f"{symmetric}compute encodings of the network with these merged, {apart}or omit the entry",
    )


def _factors(text: str, count: int) -> list[float]:
    """Return the factors of a text, or none if a file has other than ``count`` numbers there."""
    try:
        factors = struct.unpack(f"<{count}f", base64.b64decode(text))
    except (ValueError, struct.error):
        return []
    return [*factors] if all(map(math.isfinite, factors)) else []


def _is_of_merged(override: Override, tensor: Tensor, factors: Sequence[float], axis: int | None) -> bool:
    """Return whether symmetric scales fit the largest values of a merged weight, and not those before."""
    import numpy

    if not override.symmetric or override.grain not in (Grain.TENSOR, Grain.CHANNEL) or axis is None:
        return False
    sizes = numpy.abs(numpy.moveaxis(tensor.numpy(), axis, 0)).reshape(tensor.shape[axis], -1).max(1)
    alive, reach = sizes > 0, numpy.array(override.scales) * (1 << (override.bits - 1))
    if not alive.any() or (override.grain is Grain.CHANNEL and reach.size != sizes.size):
        return False

    def misfit(largest: Array) -> float:
        fit = reach / largest.max() if override.grain is Grain.TENSOR else reach[alive] / largest
        return float(numpy.median(numpy.abs(numpy.log2(fit))))

    before = sizes[alive] / numpy.abs(numpy.broadcast_to(factors, sizes.shape))[alive] if factors else None
    return misfit(sizes[alive]) < _FITS and (before is None or misfit(before) > _UNLIKE)
