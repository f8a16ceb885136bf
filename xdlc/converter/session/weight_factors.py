"""Factors by which a conversion has multiplied the weights of the source, per output channel."""

from __future__ import annotations

from collections.abc import Mapping

import numpy

from xdlc.ir import Graph, TensorData
from xdlc.ir.data import Array, is_rearranged
from xdlc.opdefs.traits import traits

_CHUNK, _POWERS = 1 << 16, ("ij->i", "ij,ij->i", "ij,ij,ij->i")
_DIGITS, _POWERS_OF_TEN = 7, numpy.array([float(10**power) for power in range(23)])
"""Digits of a factor after its first, and the powers that float64 holds exactly."""
_ROUNDING, _HALF_ROUNDING, _TINY = 1e-5, 2e-2, 1e-300
"""Relative errors of sums of products that were rounded to float32, or to 16 bits; no bound is 0."""


def weight_factors(graph: Graph, sources: Mapping[str, TensorData]) -> dict[str, list[float]]:
    """Return the factors of weights and biases whose values are not those of the source.

    They are found by the values: whatever pass has changed these, the encoding of a source's weight is to
    follow.  A list without factors is that of values that were changed in another way; one of ones is that of
    a matrix whose inputs have another order.

    Args:
        graph: The graph after the passes.
        sources: Static values of the source by name.
    """
    factors: dict[str, list[float]] = {}
    for name, source in sources.items():
        tensor = graph.tensors.get(name)
        readers = graph.consumers(tensor) if tensor is not None else ()
        if tensor is None or tensor.data is None or not readers:
            continue
        rule, place = traits(readers[0]), readers[0].inputs.index(tensor)
        if place not in (rule.weight, rule.bias, rule.scale):
            continue
        axis = rule.channel_axis if place == rule.weight else None
        if is_rearranged(tensor.data, source):
            if axis is not None and tensor.rank == 2 and not is_rearranged(tensor.data, source, 2):
                factors[name] = [1.0] * tensor.shape[axis]
            continue
        held = _factors(tensor.data, source, axis)
        tensor.data.release()
        source.release()
        if any(factor != 1.0 for factor in held) or not held:
            factors[name] = held
    return factors


def _factors(data: TensorData, source: TensorData, axis: int | None) -> list[float]:
    """Return the factor of each channel along an axis, or of all values; none if there are none."""
    after, before = data.numpy(), source.numpy()
    if axis is None:
        return _of_moments(_moments(after.reshape(1, -1)), _moments(before.reshape(1, -1)), data)
    rows = _moments(numpy.moveaxis(after, axis, 0).reshape(after.shape[axis], -1))
    for other, dim in enumerate(before.shape):
        if dim == after.shape[axis]:
            sums = _moments(numpy.moveaxis(before, other, 0).reshape(dim, -1))
            if factors := _of_moments(rows, sums, data):
                return factors
    return []


def _moments(rows: Array) -> Array:
    """Return the largest size of each row, and its sums of values, squares and cubes, in float64."""
    parts = []
    step = max(1, _CHUNK // max(rows.shape[1], 1))
    for start in range(0, len(rows), step):
        part = rows[start : start + step].astype(numpy.float64)
        sums = [numpy.einsum(places, *[part] * power) for power, places in enumerate(_POWERS, 1)]
        parts.append(numpy.stack([numpy.abs(part).max(1, initial=0.0), *sums]))
    return numpy.concatenate(parts, 1)


def _of_moments(after: Array, before: Array, data: TensorData) -> list[float]:
    """Return the factors that lead from moments of the source's channels to those of ``data``, or none."""
    if not (numpy.isfinite(after).all() and numpy.isfinite(before).all()):
        return []
    largest, squares = before[0], before[2]
    sizes = numpy.divide(after[0], largest, out=numpy.ones_like(largest), where=largest > 0)
    scale = numpy.stack([sizes, sizes, sizes**2, sizes**3])
    bounds = scale * numpy.stack([largest, numpy.sqrt(squares), squares, largest * squares]) + _TINY
    signs = numpy.array([[1, 1, 1, 1], [1, -1, 1, -1]])[..., None]
    errors = (numpy.abs(after - signs * scale * before) / bounds).max(1)
    if errors.min(0).max() > (_ROUNDING if data.dtype.itemsize >= 4 else _HALF_ROUNDING):
        return []
    places = numpy.log10(sizes, out=numpy.zeros_like(sizes), where=sizes > 0)
    powers = _POWERS_OF_TEN[numpy.clip(_DIGITS - numpy.floor(places), 0, 22).astype(int)]
    rounded = numpy.rint(sizes * powers) / powers  # both exact, so that texts are short
    factors: list[float] = numpy.where(errors[1] < errors[0], -rounded, rounded).tolist()
    return factors
