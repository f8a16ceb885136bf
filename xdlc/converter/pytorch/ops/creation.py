"""Handlers that create tensors: constants, ranges, identities, windows, places in triangles."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xdlc import ir
from xdlc.converter.nhwc.shapes import vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._shapes import Size, number, vector_of
from xdlc.converter.pytorch.ops._terms import Term, constant, operator, term
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value, check_table
from xdlc.ir.data import Array
from xdlc.ir.dtype import FLOAT32

# ---------------------------------------------------------------------------------- constants


def _filled(node: AtenNode, g: Operators, size: Sequence[Size] | Value, value: Value | float) -> Value:
    """Return a tensor of one number, in the type of the node's result."""
    shape = size if isinstance(size, Value) else vector_of(g, size)
    if isinstance(value, Value):
        return g("Expand", [term(node, g, value).value, shape])
    element = constant(g, value, node.dtype).numpy().reshape(1)
    return g("ConstantOfShape", [shape], value=ir.ArrayData(element))


_CONSTANTS = {"empty": 0, "empty_permuted": 0, "empty_strided": 0, "new_empty": 0, "new_empty_strided": 0}
_CONSTANTS |= {"new_ones": 1, "new_zeros": 0, "ones": 1, "zeros": 0}


@aten(*_CONSTANTS, symbolic=("size",), ignores=("dtype", "self", "stride", "physical_layout"))
def _constant(node: AtenNode, g: Operators, size: Sequence[Size]) -> Value:
    """Return zeros also for memory that nothing has written yet."""
    return _filled(node, g, size, _CONSTANTS[operator(node)])


@aten("full", "new_full", symbolic=("size", "fill_value"), ignores=("dtype", "self", "names"))
def _full(node: AtenNode, g: Operators, size: Sequence[Size], fill_value: Value | float) -> Value:
    return _filled(node, g, size, fill_value)


_LIKE = {"empty_like": 0, "ones_like": 1, "zeros_like": 0, "zero": 0}


@aten(*_LIKE, ignores=("dtype",))
def _like(node: AtenNode, g: Operators, self: Value) -> Value:
    return _filled(node, g, g("Shape", [self]), _LIKE[operator(node)])


@aten("full_like", symbolic=("fill_value",), ignores=("dtype",))
def _full_like(node: AtenNode, g: Operators, self: Value, fill_value: Value | float) -> Value:
    return _filled(node, g, g("Shape", [self]), fill_value)


@aten("fill", symbolic=("value",))
def _fill(node: AtenNode, g: Operators, self: Value, value: Value | float) -> Value:
    return _filled(node, g, g("Shape", [self]), value)


@aten("scalar_tensor", symbolic=("s",), ignores=("dtype",))
def _scalar_tensor(node: AtenNode, g: Operators, s: Value | float) -> Value:
    return term(node, g, s).value


@aten("tensor", symbolic=("t",), ignores=("dtype",))
def _tensor(node: AtenNode, g: Operators, t: Value | float) -> Value:
    return term(node, g, t).value


# ---------------------------------------------------------------------------------- ranges


@aten("arange", "range", symbolic=("start", "end", "step"), ignores=("dtype",))
def _arange(
    node: AtenNode,
    g: Operators,
    end: Value | float,
    start: Value | float = 0,
    step: Value | float = 1,
) -> Value:
    """Count from a start; ``range`` has its end, too."""
    if isinstance(start, Value) or isinstance(end, Value) or isinstance(step, Value):
        if operator(node) == "range" or not node.dtype.is_integer:
            raise node.problem("its ends depend on data", "make them constants")
        ends = [number(g, _whole(each)) for each in (start, end, step)]
        return g("Range", ends)
    count = (
        math.floor((end - start) / step) + 1 if operator(node) == "range" else math.ceil((end - start) / step)
    )
    check_table(max(count, 0))
    steps = np.arange(max(count, 0))
    wide = np.float64 if node.dtype.is_float else np.int64
    return g.builder.const((wide(start) + steps * wide(step)).astype(node.dtype.numpy))


def _whole(value: Value | float) -> Size:
    return value if isinstance(value, Value) else int(value)


def points(start: Term, end: Term, steps: int) -> Term:
    """Return numbers at equal distances, of rank 1, counted from the nearer end as PyTorch does."""
    g, dtype = start.g, start.value.dtype
    check_table(steps)
    if steps < 2:
        return start("Expand", vector(g, [steps]))
    place = np.arange(steps)
    distance = (end - start) / (steps - 1)
    rising = start + distance * Term(g, g.builder.const(place.astype(dtype.numpy)))
    falling = end - distance * Term(g, g.builder.const((steps - 1 - place).astype(dtype.numpy)))
    return Term(g, g.builder.const(place < steps // 2)).where(rising, falling)


@aten("linspace", "logspace", ignores=("dtype",))
def _linspace(
    node: AtenNode,
    g: Operators,
    start: Value | float,
    end: Value | float,
    steps: int,
    base: float = 10.0,
) -> Value:
    """Count in double precision from known ends, else in the type of the result; integers are cut."""
    given = (start, end)
    known = [one.numpy().item() if isinstance(one, Value) else one for one in given if _is_known(one)]
    if len(known) == 2:
        found = _known_points(float(known[0]), float(known[1]), steps, node.dtype.is_float)
        found = np.power(base, found) if operator(node) == "logspace" else found
        with np.errstate(all="ignore"):
            return g.builder.const(found.astype(node.dtype.numpy))
    first, last = (
        Term(g, g.builder.cast(one, FLOAT32) if isinstance(one, Value) else constant(g, one, FLOAT32))
        for one in (start, end)
    )
    if not node.dtype.is_float:
        first, last = first.to(node.dtype).to(FLOAT32), last.to(node.dtype).to(FLOAT32)
    found = points(first, last, steps)
    return (Term(g, constant(g, base, FLOAT32)) ** found if operator(node) == "logspace" else found).value


def _is_known(value: Value | float) -> bool:
    return not isinstance(value, Value) or value.is_static


def _known_points(start: float, end: float, steps: int, is_float: bool) -> Array:
    check_table(steps)
    if not is_float:
        start, end = float(int(start)), float(int(end))
    place, distance = np.arange(steps), (end - start) / max(steps - 1, 1)
    return np.where(
        place < max(steps // 2, 1), start + distance * place, end - distance * (steps - 1 - place)
    )


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


@aten("_dim_arange")
def _dim_arange(node: AtenNode, g: Operators, like: Value, dim: int) -> Value:
    size = g("Shape", [like], start=dim, end=dim + 1 or like.rank)
    return g("Range", [number(g, 0), number(g, size), number(g, 1)])


@aten("vander")
def _vander(
    node: AtenNode,
    g: Operators,
    x: Value,
    N: int | None,  # noqa: N803
    increasing: bool,
) -> Value:
    count = x.shape[-1] if N is None else N
    powers = np.arange(count)
    powers = powers if increasing else powers[::-1]
    base = Term(g, g("Unsqueeze", [term(node, g, x).value, vector(g, [-1])]))
    return (base ** g.builder.const(powers.astype(node.dtype.numpy))).value


@aten("fft_fftfreq", "fft_rfftfreq", ignores=("dtype",))
def _frequencies(node: AtenNode, g: Operators, n: int, d: float) -> Value:
    """Return the frequencies of the bins of a transform, known while converting."""
    check_table(n)
    found = np.fft.fftfreq(n, d) if operator(node) == "fft_fftfreq" else np.fft.rfftfreq(n, d)
    return g.builder.const(found.astype(node.dtype.numpy))


# ---------------------------------------------------------------------------------- windows


@aten(
    "bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window", ignores=("dtype",)
)
def _window(
    node: AtenNode,
    g: Operators,
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float | None = None,
) -> Value:
    """Return the window of a name; a periodic one is the symmetric one of one more without its end."""
    check_table(window_length)
    count = window_length + bool(periodic)
    place = np.arange(count) / max(count - 1, 1)
    turn = 2 * np.pi * place
    name = operator(node).removesuffix("_window")
    if window_length == 1:
        found = np.ones(1)
    elif name == "bartlett":
        found = 1 - np.abs(2 * place - 1)
    elif name == "blackman":
        found = 0.42 - 0.5 * np.cos(turn) + 0.08 * np.cos(2 * turn)
    elif name == "hann":
        found = 0.5 - 0.5 * np.cos(turn)
    elif name == "hamming":
        found = alpha - (0.46 if beta is None else beta) * np.cos(turn)
    else:
        shape = 12.0 if beta is None else beta
        found = np.i0(shape * np.sqrt(np.maximum(1 - (2 * place - 1) ** 2, 0))) / np.i0(shape)
    return g.builder.const(found[:window_length].astype(node.dtype.numpy))
