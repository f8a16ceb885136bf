"""Ops on bytes with the roundings of HTP, compiled by numba.

The formulas are those of :mod:`xdlc.runtime.htp_arithmetic.u8`, in whole numbers.  Images have channels last.
A window is its size, strides, dilations and the padding before the image, each a pair for rows and columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit

from xdlc.runtime.compiled.microkernel import ROWS, WIDTH, multiply

Array = Any  # numpy.ndarray
F = TypeVar("F", bound=Callable[..., Any])
BLOCK = 16 * ROWS
"""Rows that are multiplied with one panel of weights after the other."""
_i4 = np.int32
_MOST = 1 << 13
"""Steps at which every result saturates: one is at least 1/16 of the result's."""


def _compiled(function: F) -> F:
    """Return a function that numba compiles when it is called, once for all processes."""
    compiled: F
    try:
        compiled = njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba has no folder for compiled code
        compiled = njit(nogil=True)(function)
    return compiled


def _inlined(function: F) -> F:
    compiled: F = njit(inline="always")(function)
    return compiled


@_inlined
def _placed(total: Any, shift: Any, factor: Any, zero: Any) -> Any:
    steps = min(max(_i4(total >> shift), _i4(-_MOST)), _i4(_MOST - 1))
    value = _i4(_i4(_i4(factor * _i4(_i4(2) * steps + _i4(1))) + _i4(1 << 15)) >> _i4(16))
    return np.uint8(min(max(_i4(value + zero), _i4(0)), _i4(255)))


@_compiled
def products(
    rows: Array, first: int, count: int, weights: Array, terms: Array, zero: Any, out: Array, begin: int
) -> None:
    """Write the products of some rows with weights.

    Args:
        rows: [ROWS or more, K], see ``multiply``.
        first: The first of ``count`` rows.
        terms: What is added to sums, shifts and factors, by output channel, int32.
        zero: Of the result, int32.
        out: [any, output channels], uint8.
        begin: Row of the first result.
    """
    sums, units = np.empty((ROWS, WIDTH), np.int32), out.shape[1]
    for block in range(first, first + count, BLOCK):
        for panel in range(weights.shape[0]):
            unit = panel * WIDTH
            stop = min(unit + WIDTH, units)
            added, shifts, factors = terms[0, unit:stop], terms[1, unit:stop], terms[2, unit:stop]
            for start in range(block, min(block + BLOCK, first + count), ROWS):
                row = min(start, rows.shape[0] - ROWS)
                multiply(rows, row, weights, panel, sums)
                for number in range(max(first - row, 0), min(ROWS, first + count - row)):
                    target = out[begin + row - first + number, unit:stop]
                    for place in range(target.size):
                        total = _i4(sums[number, place] + added[place])
                        target[place] = _placed(total, shifts[place], factors[place], zero)


@_compiled
def convolve(
    x: Array,
    window: Any,
    padding: Any,
    rows: Array,
    weights: Array,
    terms: Array,
    zero: Any,
    out: Array,
    begin: int,
    end: int,
) -> None:
    """Write some results of a convolution.

    Args:
        x: [images, rows, columns, channels], uint8.
        padding: What padding holds.
        rows: [BLOCK, K], zeros; windows are gathered in it.
        out: [images, rows, columns, output channels], uint8.
        begin: The first of the results, counted over all images.
        end: The last one, exclusive.
    """
    size, strides, dilations, pads = window
    targets, channels = out.reshape(-1, out.shape[3]), x.shape[3]
    # Taps side by side are copied at once.
    width = size[1] if dilations[1] == 1 else 1
    lines = x.reshape(x.shape[0], x.shape[1], -1)
    for block in range(begin, end, rows.shape[0]):
        count = min(rows.shape[0], end - block)
        for number in range(count):
            line, column = divmod(block + number, out.shape[2])
            image, line = divmod(line, out.shape[1])
            place = 0
            for tap_row in range(size[0]):
                y = line * strides[0] - pads[0] + tap_row * dilations[0]
                for tap in range(0, size[1], width):
                    z = column * strides[1] - pads[1] + tap * dilations[1]
                    taps = rows[number, place : place + width * channels]
                    skipped = min(max(-z, 0), width) * channels
                    kept = min(max(x.shape[2] - z, 0), width) * channels
                    if y < 0 or y >= x.shape[1]:
                        skipped = kept = 0
                    taps[:skipped] = padding
                    taps[kept:] = padding
                    if skipped < kept:
                        values = lines[image, y, z * channels + skipped : z * channels + kept]
                        inner = taps[skipped:kept]
                        for channel in range(values.size):
                            inner[channel] = values[channel]
                    place += width * channels
        products(rows, 0, count, weights, terms, zero, targets, block)


@_inlined
def _sum_taps(
    x: Array, window: Any, padding: Any, weights: Array, image: Any, line: Any, column: Any, sums: Array
) -> None:
    """Add the products of a window with the weights of its channels to sums."""
    size, strides, dilations, pads = window
    for tap_row in range(size[0]):
        y = line * strides[0] - pads[0] + tap_row * dilations[0]
        for tap in range(size[1]):
            z = column * strides[1] - pads[1] + tap * dilations[1]
            taps = weights[tap_row, tap]
            if 0 <= y < x.shape[1] and 0 <= z < x.shape[2]:
                values = x[image, y, z]
                for channel in range(sums.size):
                    sums[channel] = _i4(sums[channel] + _i4(_i4(values[channel]) * _i4(taps[channel])))
            else:
                for channel in range(sums.size):
                    sums[channel] = _i4(sums[channel] + _i4(padding * _i4(taps[channel])))


@_compiled
def convolve_channels(
    x: Array,
    window: Any,
    padding: Any,
    weights: Array,
    terms: Array,
    zero: Any,
    out: Array,
    begin: int,
    end: int,
) -> None:
    """Write some results of a depthwise convolution; see ``convolve``.

    Args:
        padding: What padding holds, int32.
        weights: [rows, columns, channels], int8.
    """
    targets = out.reshape(-1, out.shape[3])
    sums = np.empty(x.shape[3], np.int32)
    for number in range(begin, end):
        line, column = divmod(number, out.shape[2])
        image, line = divmod(line, out.shape[1])
        sums[:] = terms[0]
        _sum_taps(x, window, padding, weights, image, line, column, sums)
        target = targets[number]
        for channel in range(sums.size):
            target[channel] = _placed(sums[channel], terms[1, channel], terms[2, channel], zero)


@_compiled
def convolve_channels_whole(
    x: Array, window: Any, padding: Any, weights: Array, terms: Array, out: Array, begin: int, end: int
) -> None:
    """Write some results of a depthwise convolution that keeps whole sums.

    Args:
        terms: What is added to sums, which brings in the zero of the result, shifts and factors, int64.
    """
    targets = out.reshape(-1, out.shape[3])
    sums = np.empty(x.shape[3], np.int32)
    for number in range(begin, end):
        line, column = divmod(number, out.shape[2])
        image, line = divmod(line, out.shape[1])
        sums[:] = _i4(0)
        _sum_taps(x, window, padding, weights, image, line, column, sums)
        target = targets[number]
        for channel in range(sums.size):
            shift = terms[1, channel]
            total = terms[2, channel] * (sums[channel] + terms[0, channel])
            value = (total + (np.int64(1) << (shift - 1))) >> shift
            target[channel] = np.uint8(min(max(value, 0), 255))


@_compiled
def largest(x: Array, window: Any, out: Array) -> None:
    """Write the largest value of each window, of those in the image."""
    size, strides, _, pads = window
    for image in range(out.shape[0]):
        for line in range(out.shape[1]):
            for column in range(out.shape[2]):
                target = out[image, line, column]
                target[:] = 0
                top, left = line * strides[0] - pads[0], column * strides[1] - pads[1]
                for y in range(max(top, 0), min(top + size[0], x.shape[1])):
                    for z in range(max(left, 0), min(left + size[1], x.shape[2])):
                        values = x[image, y, z]
                        for channel in range(target.size):
                            target[channel] = max(target[channel], values[channel])


@_compiled
def add(first: Array, second: Array, factors: Any, constant: Any, shift: Any, zero: Any, out: Array) -> None:
    """Write the sum of two activations of one shape; all numbers are int32."""
    x, y, target = first.reshape(-1), second.reshape(-1), out.reshape(-1)
    for place in range(target.size):
        total = _i4(_i4(_i4(x[place]) * factors[0]) + _i4(_i4(y[place]) * factors[1]))
        value = _i4(_i4(_i4(total + constant) >> shift) + zero)
        target[place] = np.uint8(min(max(value, _i4(0)), _i4(255)))
