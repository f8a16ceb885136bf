"""Handlers of constants, ranges, identities and windows of signals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xdlc import ir
from xdlc.converter.functions.shapes import dims, reshape
from xdlc.converter.functions.terms import Number, Term, constant
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops._shapes import Size, number, vector_of
from xdlc.converter.pytorch.ops._terms import operator, term
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value, check_table
from xdlc.ir.data import Array
from xdlc.ir.dtype import FLOAT32


def _filled(node: AtenNode, g: Operators, shape: Value, value: Number) -> Value:
    """Return a tensor of one number, in the type of the node's result."""
    if isinstance(value, Value):
        return g("Expand", [term(node, g, value).value, shape])
    element = constant(g, value, node.dtype).numpy().reshape(1)
    return g("ConstantOfShape", [shape], value=ir.ArrayData(element))


_CONSTANTS = {"empty": 0, "empty_permuted": 0, "empty_strided": 0, "new_empty": 0, "new_empty_strided": 0}
_CONSTANTS |= {"new_ones": 1, "new_zeros": 0, "ones": 1, "zeros": 0}


@aten(*_CONSTANTS, symbolic=("size",), ignores=("dtype", "self", "stride", "physical_layout"))
def _constant(node: AtenNode, g: Operators, size: Sequence[Size]) -> Value:
    """Return zeros, also for uninitialized memory."""
    return _filled(node, g, vector_of(g, size), _CONSTANTS[operator(node)])


@aten("full", "new_full", symbolic=("size", "fill_value"), ignores=("dtype", "self", "names"))
def _full(node: AtenNode, g: Operators, size: Sequence[Size], fill_value: Number) -> Value:
    return _filled(node, g, vector_of(g, size), fill_value)


_LIKE = {"empty_like": 0, "ones_like": 1, "zeros_like": 0, "zero": 0}


@aten(*_LIKE, ignores=("dtype",))
def _like(node: AtenNode, g: Operators, self: Value) -> Value:
    return _filled(node, g, g("Shape", [self]), _LIKE[operator(node)])


@aten("full_like", "fill", symbolic=("fill_value", "value"), ignores=("dtype",))
def _full_like(node: AtenNode, g: Operators, self: Value, fill_value: Number = 0, value: Number = 0) -> Value:
    return _filled(node, g, g("Shape", [self]), value if operator(node) == "fill" else fill_value)


@aten("scalar_tensor", "tensor", symbolic=("s", "t"), ignores=("dtype",))
def _scalar_tensor(node: AtenNode, g: Operators, s: Number = 0, t: Number = 0) -> Value:
    return term(node, g, t if operator(node) == "tensor" else s).value


@aten("arange", "range", symbolic=("start", "end", "step"), ignores=("dtype",))
def _arange(node: AtenNode, g: Operators, end: Number, start: Number = 0, step: Number = 1) -> Value:
    """Return a range of numbers; ``range`` includes its end."""
    is_closed = operator(node) == "range"
    if isinstance(start, Value) or isinstance(end, Value) or isinstance(step, Value):
        if is_closed or not node.dtype.is_integer:
            raise node.problem("the bounds of the range depend on data", "use constant bounds")
        ends = (each if isinstance(each, Value) else int(each) for each in (start, end, step))
        return g("Range", [number(g, each) for each in ends])
    share = (end - start) / step
    count = max(math.floor(share) + 1 if is_closed else math.ceil(share), 0)
    check_table(count)
    wide = np.float64 if node.dtype.is_float else np.int64
    return g.builder.const((wide(start) + np.arange(count) * wide(step)).astype(node.dtype.numpy))


def points(start: Term, end: Term, steps: int) -> Term:
    """Return equidistant numbers [n], computed from the nearer end as in PyTorch."""
    g, dtype = start.g, start.value.dtype
    check_table(steps)
    if steps < 2:
        return start("Expand", [steps])
    place = np.arange(steps)
    distance = (end - start) / (steps - 1)
    rising = start + distance * Term(g, g.builder.const(place.astype(dtype.numpy)))
    falling = end - distance * Term(g, g.builder.const((steps - 1 - place).astype(dtype.numpy)))
    return Term(g, g.builder.const(place < steps // 2)).where(rising, falling)


@aten("linspace", "logspace", ignores=("dtype",))
def _linspace(
    node: AtenNode, g: Operators, start: Number, end: Number, steps: int, base: float = 10.0
) -> Value:
    """Compute in double precision for static ends, else in the result's type.

    Integers are truncated.
    """
    bounds = [g.builder.cast(x, FLOAT32) if isinstance(x, Value) else x for x in (start, end)]
    fixed = [x.numpy().item() if isinstance(x, Value) and x.is_static else x for x in bounds]
    numbers = [float(x) for x in fixed if not isinstance(x, Value)]
    if len(numbers) == 2:
        found = _known_points(numbers[0], numbers[1], steps, node.dtype.is_float)
        found = np.power(base, found) if operator(node) == "logspace" else found
        with np.errstate(all="ignore"):
            return g.builder.const(found.astype(node.dtype.numpy))
    ends = [Term(g, x if isinstance(x, Value) else constant(g, x, FLOAT32)) for x in bounds]
    if not node.dtype.is_float:
        ends = [end.to(node.dtype).to(FLOAT32) for end in ends]
    places = points(ends[0], ends[1], steps)
    return (base**places if operator(node) == "logspace" else places).value


def _known_points(start: float, end: float, steps: int, is_float: bool) -> Array:
    check_table(steps)
    if not is_float:
        start, end = float(int(start)), float(int(end))
    place, distance = np.arange(steps), (end - start) / max(steps - 1, 1)
    rising, falling = start + distance * place, end - distance * (steps - 1 - place)
    return np.where(place < max(steps // 2, 1), rising, falling)


@aten("eye", ignores=("dtype",))
def _eye(node: AtenNode, g: Operators, n: int, m: int | None = None) -> Value:
    columns = n if m is None else m
    check_table(n, columns)
    return g.builder.const(np.eye(n, columns, dtype=node.dtype.numpy))


@aten("tril_indices", "triu_indices", ignores=("dtype",))
def _triangle(node: AtenNode, g: Operators, row: int, col: int, offset: int) -> Value:
    check_table(row, col)
    offset = max(-row, min(offset, col))
    places = np.tril_indices if operator(node) == "tril_indices" else np.triu_indices
    return g.builder.const(np.stack(places(row, offset, col)).astype(node.dtype.numpy))


@aten("vander", "linalg_vander")
def _vander(node: AtenNode, g: Operators, x: Value, N: int | None, increasing: bool = False) -> Value:  # noqa: N803
    """Multiply the powers one by one, as PyTorch does."""
    if N == 0:
        raise node.problem("xdlc does not support a matrix without powers", "remove the operator")
    x = x if x.rank else reshape(g, x, (1,))
    count, column = dims(x)[-1] if N is None else N, term(node, g, x).raised(-1)
    check_table(*dims(x), max(count, 1))
    parts = [column.holds().to(node.dtype) * 0 + 1]
    for _ in range(count - 1):
        parts.append(parts[-1] * column)
    parts = parts if increasing or operator(node) == "linalg_vander" else parts[::-1]
    return g("Concat", [each.value for each in parts], axis=x.rank)


@aten("fft_fftfreq", "fft_rfftfreq", ignores=("dtype",))
def _frequencies(node: AtenNode, g: Operators, n: int, d: float) -> Value:
    """Return the frequencies of the bins of a transform, known while converting."""
    check_table(n)
    found = np.fft.fftfreq(n, d) if operator(node) == "fft_fftfreq" else np.fft.rfftfreq(n, d)
    return g.builder.const(found.astype(node.dtype.numpy))


_WINDOWS = ("bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window")


@aten(*_WINDOWS, ignores=("dtype",))
def _window(
    node: AtenNode,
    g: Operators,
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float | None = None,
) -> Value:
    """Return a window by name; periodic windows are cut from a longer symmetric one."""
    check_table(window_length)
    count = window_length + bool(periodic and window_length > 1)
    name = operator(node)
    if name == "bartlett_window":
        window = np.bartlett(count)
    elif name == "kaiser_window":
        window = np.kaiser(count, 12.0 if beta is None else beta)
    elif name == "blackman_window":
        window = np.blackman(count)
    elif window_length < 2:
        window = np.ones(count)
    else:
        share, rest = (0.5, 0.5) if name == "hann_window" else (alpha, 0.46 if beta is None else beta)
        window = share - rest * np.cos(2 * np.pi * np.arange(count) / max(count - 1, 1))
    return g.builder.const(window[:window_length].astype(node.dtype.numpy))
