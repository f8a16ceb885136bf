"""Handlers of Fourier transforms, and of complex values as pairs of floats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xdlc.converter.functions import spectra
from xdlc.converter.functions.elementwise import atan2
from xdlc.converter.functions.shapes import axis_of, cast, dims, number, permuted, reshape, vector
from xdlc.converter.functions.spectra import Complex
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops._shapes import batched, unbatched
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


def _held(x: Complex | Value) -> Value | list[SequenceValue]:
    return x if isinstance(x, Value) else [SequenceValue((x.real, x.imag))]


def _conjugate(g: Operators, x: Complex) -> Complex:
    return Complex(x.real, g("Neg", [x.imag]))


def _scaled(g: Operators, x: Complex | Value, factor: float) -> Complex | Value:
    if factor == 1:
        return x
    if isinstance(x, Value):
        return g("Mul", [x, factor])
    return Complex(*(g("Mul", [part, factor]) for part in x))


# ---------------------------------------------------------------------------------------------- transforms


def _permuted(g: Operators, x: Complex | Value, order: Numbers) -> Complex | Value:
    return permuted(g, x, order) if isinstance(x, Value) else Complex(*(permuted(g, p, order) for p in x))


def _along(
    g: Operators, x: Complex | Value, axes: Numbers, sizes: Numbers, *, inverse: bool, to_real: bool
) -> Complex | Value:
    """Return the transform along axes; the inverse has the factor 1 / size.

    Args:
        x: Complex values; of real ones, the result has half of the last axis.
        axes: Axes, counted from the front.
        sizes: Number of elements of each, to which it is cut or filled up with 0.
        inverse: Whether the transform is the inverse one.
        to_real: Whether the values are half of a transform along the last axis, and the result is real.
    """
    plan = list(zip(axes, sizes, strict=True))
    for step, (axis, size) in enumerate(reversed(plan) if isinstance(x, Value) else plan, 1):
        rank = x.rank if isinstance(x, Value) else x.real.rank
        order = [*(position for position in range(rank) if position != axis), axis]
        moved = _permuted(g, x, order)
        if inverse:
            pair = Complex(*moved) if isinstance(moved, tuple) else _pair(g, moved)
            spectrum = spectra.inverse(g, pair, [size], is_real=to_real and step == len(plan))
        else:
            spectrum = spectra.forward(g, moved, [size])
        x = _permuted(g, spectrum, [order.index(position) for position in range(rank)])
    return x


_KINDS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
_NAMES = [f"fft_{kind}{form}" for kind in _KINDS for form in ("", "2", "n")]


@aten(*_NAMES, takes_complex=True, names={"n": "s"})
def _transform(
    node: AtenNode,
    g: Operators,
    self: Tensor,
    s: Numbers | int | None,
    dim: Numbers | int | None,
    norm: str | None,
) -> Any:
    """Map all forms; hfft is irfft of the conjugate, ihfft the conjugate of rfft."""
    kind = node.type.removeprefix("fft_").rstrip("2n")
    inverse, to_half = kind in ("ifft", "irfft", "hfft"), kind in ("rfft", "ihfft")
    pair = _pair(g, self)
    shape, to_real = dims(pair.real), inverse and kind != "ifft"
    given = [s] if isinstance(s, int) else s
    if dim is None:
        dim = range(-len(shape if given is None else given), 0)
    axes = [axis_of(axis, len(shape)) for axis in ([dim] if isinstance(dim, int) else dim)]
    sizes = [-1] * len(axes) if given is None else list(given)
    if len(sizes) != len(axes) or not axes:
        raise node.invalid(f"sizes {sizes} do not fit axes {axes}")
    if to_real and sizes[-1] < 0:
        sizes[-1] = 2 * (shape[axes[-1]] - 1)
    sizes = [shape[axis] if size < 0 else size for axis, size in zip(axes, sizes, strict=True)]
    if "hf" in kind:
        norm = {"forward": "backward", "ortho": "ortho"}.get(norm or "", "forward")
        pair = _conjugate(g, pair) if inverse else pair
    x = pair.real if to_half else pair
    made = _along(g, x, axes, sizes, inverse=inverse, to_real=to_real)
    power = {"ortho": 0.5, "forward": 1.0}.get(norm or "", 0.0)  # the inverse has 1 / size already
    made = _scaled(g, made, math.prod(sizes) ** (power if inverse else -power))
    return _held(_conjugate(g, made) if kind == "ihfft" and isinstance(made, Complex) else made)


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
    """Map the decomposed forms; normalization: 0 none, 1 the size's root, 2 the size."""
    pair, to_real = _pair(g, self), node.type == "_fft_c2r"
    axes = [axis_of(axis, pair.real.rank) for axis in dim]
    sizes, inverse = [dims(pair.real)[axis] for axis in axes], to_real or not forward
    if to_real:
        sizes[-1] = last_dim_size
    x = pair.real if node.type == "_fft_r2c" and onesided else pair
    made = _along(g, x, axes, sizes, inverse=inverse, to_real=to_real)
    return _held(_scaled(g, made, math.prod(sizes) ** (inverse - normalization / 2)))


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
    width = n_fft if win_length is None else win_length
    if window is not None and not window.is_static:
        raise node.problem(
            "the window must be constant, but is computed", "make the window a buffer of the module"
        )
    taps, before = np.zeros(n_fft), (n_fft - width) // 2
    taps[before : before + width] = 1 if window is None else window.numpy()
    bins = n_fft if onesided is False else n_fft // 2 + 1
    check_table(2 * bins, n_fft)
    angle = spectra.angles(n_fft, rows=bins)
    table = np.concatenate([np.cos(angle), -np.sin(angle)]) * taps / (math.sqrt(n_fft) if normalized else 1)
    signal = g("Unsqueeze", [batched(g, self, 2), [1]])
    if center:
        mode = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}.get(pad_mode)
        if mode is None:
            raise node.problem(
                f"pad_mode {pad_mode!r} is unknown", "use pad_mode reflect, replicate or constant"
            )
        signal = g("Pad", [signal, [0, 0, n_fft // 2] * 2], mode=mode)
    weight = g.builder.const(table[:, None, :].astype(self.dtype.numpy))
    both = g("Conv", [signal, weight], strides=[n_fft // 4 if hop_length is None else hop_length])
    parts = g.apply("Split", [both, [bins, bins]], {"axis": 1}, 2)
    pair = Complex(*(unbatched(g, part, self, 1) for part in parts))
    return _held(pair) if return_complex else _stacked(g, pair)


# --------------------------------------------------------------------------------------------- complex values


def _stacked(g: Operators, x: Complex) -> Value:
    return g("Concat", [g("Unsqueeze", [part, [-1]]) for part in x], axis=x.real.rank)


@aten("view_as_real", "view_as_real_copy", takes_complex=True)
def _view_as_real(node: AtenNode, g: Operators, self: Tensor) -> Value:
    return _stacked(g, _pair(g, self))


@aten("view_as_complex", "view_as_complex_copy")
def _view_as_complex(node: AtenNode, g: Operators, self: Value) -> Any:
    parts = g.apply("Split", [self, [1, 1]], {"axis": self.rank - 1}, 2)
    return _held(Complex(*(reshape(g, part, dims(self)[:-1]) for part in parts)))


@aten("complex")
def _complex(node: AtenNode, g: Operators, real: Value, imag: Value) -> Any:
    shape = np.broadcast_shapes(dims(real), dims(imag))
    parts = [each if each.shape == shape else g("Expand", [each, vector(g, shape)]) for each in (real, imag)]
    return _held(Complex(*parts))


@aten("polar")
def _polar(node: AtenNode, g: Operators, abs: Value, angle: Value) -> Any:
    return _held(Complex(*(g("Mul", [abs, g(part, [angle])]) for part in ("Cos", "Sin"))))


@aten("real", "imag", domain=COMPLEX)
def _part(node: AtenNode, g: Operators, self: Tensor) -> Value:
    pair = _pair(g, self)
    return pair.real if node.type == "real" else pair.imag


@aten("abs", domain=COMPLEX)
def _abs(node: AtenNode, g: Operators, self: Tensor) -> Value:
    return spectra.magnitude(g, _pair(g, self))


@aten("angle", domain=COMPLEX)
def _angle(node: AtenNode, g: Operators, self: Tensor) -> Value:
    pair = _pair(g, self)
    return atan2(g, pair.imag, pair.real)


@aten("conj", "_conj", "conj_physical", "_conj_physical", "resolve_conj", "resolve_neg", domain=COMPLEX)
def _conj(node: AtenNode, g: Operators, self: Tensor) -> Any:
    pair = _pair(g, self)
    return _held(pair if node.type.startswith("resolve") else _conjugate(g, pair))


def _operand(g: Operators, x: Tensor | complex, like: Value) -> Complex:
    if isinstance(x, Value | SequenceValue):
        return _pair(g, x)
    return Complex(*(number(g, like, part) for part in (complex(x).real, complex(x).imag)))


@aten("add", "sub", domain=COMPLEX)
def _sum(node: AtenNode, g: Operators, self: Tensor, other: Tensor | complex, alpha: float) -> Any:
    first = _pair(g, self)
    second = Complex(*_scaled(g, _operand(g, other, first.real), alpha))  # type: ignore[misc]
    return _held(spectra.combined(g, "Add" if node.type.startswith("add") else "Sub", first, second))


@aten("mul", "div", domain=COMPLEX)
def _product(node: AtenNode, g: Operators, self: Tensor, other: Tensor | complex) -> Any:
    left, right = self, other
    operator = "Mul" if node.type.startswith("mul") else "Div"
    if operator == "Mul" and isinstance(left, Value) and isinstance(right, SequenceValue):
        left, right = right, left
    first = _pair(g, left)
    if isinstance(left, SequenceValue) and not isinstance(right, SequenceValue | complex):
        factor = (
            cast(g, right, first.real.dtype) if isinstance(right, Value) else number(g, first.real, right)
        )
        return _held(Complex(*(g(operator, [part, factor]) for part in first)))
    second = _operand(g, right, first.real)
    if operator == "Mul":
        return _held(spectra.combined(g, "Mul", first, second))
    size = g("Add", [g("Mul", [part, part]) for part in second])
    product = spectra.combined(g, "Mul", first, _conjugate(g, second))
    return _held(Complex(*(g("Div", [part, size]) for part in product)))
