"""Handlers of Fourier transforms and of complex values, which are pairs of real ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xdlc.converter.nhwc import spectra
from xdlc.converter.nhwc.elementwise import atan2
from xdlc.converter.nhwc.shapes import axis_of, cast, dims, number, permuted, reshape, vector
from xdlc.converter.nhwc.spectra import Complex
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.registry import COMPLEX, AtenNode, aten
from xdlc.converter.values import SequenceValue, Value, check_table
from xdlc.ir.dtype import FLOAT32

Numbers = Sequence[int]
Tensor = Value | SequenceValue


def _pair(g: Operators, x: Tensor) -> Complex:
    """Return a tensor as a complex value."""
    if isinstance(x, SequenceValue):
        return Complex(*x.elements)
    real = _real(g, x)
    return Complex(real, g.builder.const(np.zeros(dims(real), real.dtype.numpy)))


def _real(g: Operators, x: Value) -> Value:
    return x if x.dtype.is_float else cast(g, x, FLOAT32)


def _held(x: Complex) -> list[SequenceValue]:
    return [SequenceValue((x.real, x.imag))]


def _conjugate(g: Operators, x: Complex) -> Complex:
    return Complex(x.real, g("Neg", [x.imag]))


def _scaled(g: Operators, x: Complex, factor: float) -> Complex:
    return x if factor == 1 else Complex(*(g("Mul", [part, number(g, part, factor)]) for part in x))


# ---------------------------------------------------------------------------------------------- transforms


def _last(g: Operators, x: Value, axis: int) -> Value:
    return permuted(g, x, [*(held for held in range(x.rank) if held != axis), axis])


def _back(g: Operators, x: Value, axis: int) -> Value:
    order = list(range(x.rank - 1))
    order.insert(axis, x.rank - 1)
    return permuted(g, x, order)


def _along(g: Operators, x: Complex, axis: int, size: int, *, inverse: bool) -> Complex:
    """Return the transform along one axis; the inverse one has the factor 1 / size."""
    moved = Complex(*(_last(g, part, axis) for part in x))
    made = spectra.inverse(g, moved, [size], is_real=False) if inverse else spectra.forward(g, moved, [size])
    assert isinstance(made, Complex)
    return Complex(*(_back(g, part, axis) for part in made))


def _to_half(g: Operators, x: Value, axis: int, size: int) -> Complex:
    """Return half of the transform of real values along one axis."""
    made = spectra.forward(g, _last(g, x, axis), [size])
    return Complex(*(_back(g, part, axis) for part in made))


def _from_half(g: Operators, x: Complex, axis: int, size: int) -> Value:
    """Return the real values, times 1 / size, of half of a transform along one axis."""
    moved = Complex(*(_last(g, part, axis) for part in x))
    made = spectra.inverse(g, moved, [size], is_real=True)
    assert isinstance(made, Value)
    return _back(g, made, axis)


def _plan(
    node: AtenNode, x: Value, sizes: Numbers | None, axes: Numbers | None
) -> tuple[list[int], list[int]]:
    """Return the axes of a transform and their sizes; -1 for the size that the axis has."""
    if axes is None:
        axes = range(x.rank) if sizes is None else range(x.rank - len(sizes), x.rank)
    found = [axis_of(axis, x.rank) for axis in axes]
    given = [-1] * len(found) if sizes is None else list(sizes)
    if len(given) != len(found) or not found:
        raise node.invalid(f"sizes {given} of axes {found}")
    return found, given


def _norm(norm: str | None, sizes: Numbers, *, inverse: bool) -> float:
    """Return the factor of the plain transform; the inverse one has 1 / size already."""
    count = math.prod(sizes)
    if norm == "ortho":
        return math.sqrt(count) if inverse else 1 / math.sqrt(count)
    if inverse:
        return float(count) if norm == "forward" else 1.0
    return 1 / count if norm == "forward" else 1.0


_OPPOSITE = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def _complex_transform(
    node: AtenNode, g: Operators, x: Tensor, sizes: Numbers | None, axes: Numbers | None, norm: str | None
) -> list[SequenceValue]:
    pair, inverse = _pair(g, x), "_if" in node.type
    chosen, given = _plan(node, pair.real, sizes, axes)
    whole = [dims(pair.real)[axis] if size < 0 else size for axis, size in zip(chosen, given, strict=True)]
    for axis, size in zip(chosen, whole, strict=True):
        pair = _along(g, pair, axis, size, inverse=inverse)
    return _held(_scaled(g, pair, _norm(norm, whole, inverse=inverse)))


def _real_to_half(
    node: AtenNode, g: Operators, x: Value, sizes: Numbers | None, axes: Numbers | None, norm: str | None
) -> list[SequenceValue]:
    """Return half of the transform; of ihfft, its conjugate under the factor of the inverse."""
    x, hermitian = _real(g, x), "ihfft" in node.type
    chosen, given = _plan(node, x, sizes, axes)
    whole = [dims(x)[axis] if size < 0 else size for axis, size in zip(chosen, given, strict=True)]
    pair = _to_half(g, x, chosen[-1], whole[-1])
    for axis, size in zip(chosen[:-1], whole[:-1], strict=True):
        pair = _along(g, pair, axis, size, inverse=False)
    pair = _scaled(g, pair, _norm(_OPPOSITE[norm] if hermitian else norm, whole, inverse=False))
    return _held(_conjugate(g, pair) if hermitian else pair)


def _half_to_real(
    node: AtenNode, g: Operators, x: Tensor, sizes: Numbers | None, axes: Numbers | None, norm: str | None
) -> Value:
    """Return the real inverse transform; of hfft, that of the conjugate scaled as the forward one."""
    pair, hermitian = _pair(g, x), "_hfft" in node.type
    pair = _conjugate(g, pair) if hermitian else pair
    chosen, given = _plan(node, pair.real, sizes, axes)
    shape = dims(pair.real)
    whole = [shape[axis] if size < 0 else size for axis, size in zip(chosen, given, strict=True)]
    if given[-1] < 0:
        whole[-1] = 2 * (shape[chosen[-1]] - 1)
    for axis, size in zip(chosen[:-1], whole[:-1], strict=True):
        pair = _along(g, pair, axis, size, inverse=True)
    made = _from_half(g, pair, chosen[-1], whole[-1])
    factor = _norm(_OPPOSITE[norm] if hermitian else norm, whole, inverse=True)
    return made if factor == 1 else g("Mul", [made, number(g, made, factor)])


def _form(type: str) -> Any:
    if "rfft" in type or "hfft" in type:
        return _real_to_half if type in _TO_HALF else _half_to_real
    return _complex_transform


_TO_HALF = {f"fft_{name}{suffix}" for name in ("rfft", "ihfft") for suffix in ("", "2", "n")}
_NAMES = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")


@aten(*(f"fft_{name}" for name in _NAMES), takes_complex=True)
def _transform(node: AtenNode, g: Operators, self: Tensor, n: int | None, dim: int, norm: str | None) -> Any:
    return _form(node.type)(node, g, self, None if n is None else [n], [dim], norm)


@aten(*(f"fft_{name}{suffix}" for name in _NAMES for suffix in ("2", "n")), takes_complex=True)
def _transforms(
    node: AtenNode, g: Operators, self: Tensor, s: Numbers | None, dim: Numbers | None, norm: str | None
) -> Any:
    return _form(node.type)(node, g, self, s, dim, norm)


@aten("_fft_c2c", "_fft_r2c", "_fft_c2r", takes_complex=True)
def _planned(
    node: AtenNode,
    g: Operators,
    self: Tensor,
    dim: Numbers,
    normalization: int,
    forward: bool = True,
    onesided: bool = True,
    last_dim_size: int = -1,
) -> Any:
    """Map the forms that decompositions have; normalization is 0 for none, 1 for the root, 2 for the size."""
    pair = _pair(g, self)
    axes = [axis_of(axis, pair.real.rank) for axis in dim]
    sizes = [dims(pair.real)[axis] for axis in axes]
    to_real, inverse = node.type == "_fft_c2r", not forward or node.type == "_fft_c2r"
    if to_real:
        sizes[-1] = last_dim_size
    count = math.prod(sizes)
    factor = (1.0, count**-0.5, 1 / count)[normalization] * (count if inverse else 1)
    if isinstance(self, Value) and onesided and forward and not to_real:
        pair = _to_half(g, _real(g, self), axes[-1], sizes[-1])
        axes, sizes = axes[:-1], sizes[:-1]
    for axis, size in list(zip(axes, sizes, strict=True))[: -1 if to_real else None]:
        pair = _along(g, pair, axis, size, inverse=inverse)
    if not to_real:
        return _held(_scaled(g, pair, factor))
    made = _from_half(g, pair, axes[-1], sizes[-1])
    return made if factor == 1 else g("Mul", [made, number(g, made, factor)])


@aten("stft", ignores=("align_to_window",))
def _stft(
    node: AtenNode,
    g: Operators,
    self: Value,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Value | None,
    normalized: bool,
    onesided: bool | None,
    return_complex: bool | None,
    center: bool = False,
    pad_mode: str = "reflect",
) -> Any:
    step = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    if window is not None and not window.is_static:
        raise node.problem("its window is computed when the graph runs", "make the window a buffer")
    taps = np.zeros(n_fft)
    before = (n_fft - width) // 2
    taps[before : before + width] = 1 if window is None else window.numpy()
    bins = n_fft if onesided is False else n_fft // 2 + 1
    check_table(2 * bins, n_fft)
    angle = 2 * np.pi * (np.outer(np.arange(bins), np.arange(n_fft)) % n_fft) / n_fft
    table = np.concatenate([np.cos(angle), -np.sin(angle)]) * taps
    if normalized:
        table /= math.sqrt(n_fft)
    signal = self if self.rank == 2 else g("Unsqueeze", [self, vector(g, [0])])
    signal = g("Unsqueeze", [signal, vector(g, [1])])
    if center:
        half = n_fft // 2
        mode = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}.get(pad_mode)
        if mode is None:
            raise node.problem(f"pad_mode {pad_mode!r}", "pad with reflect, replicate or zeros")
        signal = g("Pad", [signal, vector(g, [0, 0, half, 0, 0, half])], mode=mode)
    weight = g.builder.const(table[:, None, :].astype(self.dtype.numpy))
    both = g("Conv", [signal, weight], strides=[step])
    real, imag = g.apply("Split", [both, vector(g, [bins, bins])], {"axis": 1}, 2)
    if self.rank == 1:
        real, imag = (g("Squeeze", [part, vector(g, [0])]) for part in (real, imag))
    return _held(Complex(real, imag)) if return_complex else _stacked(g, Complex(real, imag))


# --------------------------------------------------------------------------------------------- complex values


def _stacked(g: Operators, x: Complex) -> Value:
    parts = [g("Unsqueeze", [part, vector(g, [-1])]) for part in x]
    return g("Concat", parts, axis=x.real.rank)


@aten("view_as_real", "view_as_real_copy", takes_complex=True)
def _view_as_real(node: AtenNode, g: Operators, self: Tensor) -> Value:
    return _stacked(g, _pair(g, self))


@aten("view_as_complex", "view_as_complex_copy")
def _view_as_complex(node: AtenNode, g: Operators, self: Value) -> list[SequenceValue]:
    shape = dims(self)
    parts = g.apply("Split", [self, vector(g, [1, 1])], {"axis": self.rank - 1}, 2)
    return _held(Complex(*(reshape(g, part, shape[:-1]) for part in parts)))


@aten("complex")
def _complex(node: AtenNode, g: Operators, real: Value, imag: Value) -> list[SequenceValue]:
    shape = np.broadcast_shapes(dims(real), dims(imag))
    parts = [each if each.shape == shape else g("Expand", [each, vector(g, shape)]) for each in (real, imag)]
    return _held(Complex(*parts))


@aten("polar")
def _polar(node: AtenNode, g: Operators, abs: Value, angle: Value) -> list[SequenceValue]:
    return _held(Complex(g("Mul", [abs, g("Cos", [angle])]), g("Mul", [abs, g("Sin", [angle])])))


@aten("real", domain=COMPLEX)
def _real_part(node: AtenNode, g: Operators, self: Tensor) -> Value:
    return _pair(g, self).real


@aten("imag", takes_complex=True)
def _imaginary_part(node: AtenNode, g: Operators, self: Tensor) -> Value:
    return _pair(g, self).imag


@aten("abs", domain=COMPLEX)
def _abs(node: AtenNode, g: Operators, self: Tensor) -> Value:
    return spectra.magnitude(g, _pair(g, self))


@aten("angle", domain=COMPLEX)
def _angle(node: AtenNode, g: Operators, self: Tensor) -> Value:
    pair = _pair(g, self)
    return atan2(g, pair.imag, pair.real)


@aten("conj", "_conj", "conj_physical", "_conj_physical", "resolve_conj", "resolve_neg", domain=COMPLEX)
def _conj(node: AtenNode, g: Operators, self: Tensor) -> list[SequenceValue]:
    pair = _pair(g, self)
    return _held(pair if node.type.startswith("resolve") else _conjugate(g, pair))


def _operand(g: Operators, x: Tensor | complex, like: Value) -> Complex:
    if isinstance(x, Value | SequenceValue):
        return _pair(g, x)
    parts = (complex(x).real, complex(x).imag)
    return Complex(*(number(g, like, part) for part in parts))


@aten("add", "sub", domain=COMPLEX)
def _sum(
    node: AtenNode, g: Operators, self: Tensor, other: Tensor | complex, alpha: float
) -> list[SequenceValue]:
    first = _pair(g, self)
    second = _scaled(g, _operand(g, other, first.real), alpha)
    return _held(spectra.combined(g, "Add" if node.type.startswith("add") else "Sub", first, second))


@aten("mul", "div", domain=COMPLEX)
def _product(node: AtenNode, g: Operators, self: Tensor, other: Tensor | complex) -> list[SequenceValue]:
    operator = "Mul" if node.type.startswith("mul") else "Div"
    for one, two in ((self, other), (other, self)):
        if isinstance(one, SequenceValue) and not isinstance(two, SequenceValue | complex):
            if operator == "Div" and one is other:
                break
            pair = _pair(g, one)
            factor = two if isinstance(two, Value) else number(g, pair.real, two)
            factor = cast(g, factor, pair.real.dtype)
            return _held(Complex(*(g(operator, [part, factor]) for part in pair)))
    like = next(each for each in (self, other) if isinstance(each, SequenceValue)).elements[0]
    first, second = _operand(g, self, like), _operand(g, other, like)
    if operator == "Mul":
        return _held(spectra.combined(g, "Mul", first, second))
    size = g("Add", [g("Mul", [part, part]) for part in second])
    made = spectra.combined(g, "Mul", first, _conjugate(g, second))
    return _held(Complex(*(g("Div", [part, size]) for part in made)))
