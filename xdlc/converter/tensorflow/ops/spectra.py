"""Handlers of Fourier transforms and complex values, which are pairs of floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdlc.converter.functions import spectra
from xdlc.converter.functions.elementwise import atan2
from xdlc.converter.functions.shapes import dims, ints
from xdlc.converter.functions.spectra import Complex
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.registry import complex_inputs, complex_value, handler
from xdlc.converter.values import Value

_AXES = {f"{kind}FFT{suffix}": count for kind in ("", "I", "R", "IR") for suffix, count in
         (("", 1), ("2D", 2), ("3D", 3))}  # fmt: skip


def _pair(node: Node) -> Complex:
    pairs = complex_inputs(node)
    if not pairs:
        raise node.invalid("the input is not complex")
    return pairs[0]


@handler(*(name for name in _AXES if name.startswith("R")))
def _real_transform(node: Node, g: Operators, x: Value, *sizes: Value) -> Any:
    return [complex_value(spectra.forward(g, x, ints(sizes[0], "the lengths")))]


@handler(*(name for name in _AXES if name[0] != "R"))
def _transform(node: Node, g: Operators) -> Any:
    x, count = _pair(node), _AXES[node.type]
    if node.type.startswith("IR"):
        return spectra.inverse(g, x, ints(node.required(1), "the lengths"), is_real=True)
    sizes = dims(x.real)[-count:]
    if node.type.startswith("I"):
        return [complex_value(spectra.inverse(g, x, sizes, is_real=False))]  # type: ignore[arg-type]
    return [complex_value(spectra.forward(g, x, sizes))]


@handler("Complex")
def _complex(node: Node, g: Operators, x: Value, y: Value) -> Any:
    return [complex_value(Complex(x, y))]


_PARTS: dict[str, Callable[[Operators, Complex], Any]] = {
    "Angle": lambda g, x: atan2(g, x.imag, x.real),
    "ComplexAbs": spectra.magnitude,
    "Conj": lambda g, x: complex_value(Complex(x.real, g("Neg", [x.imag]))),
    "Imag": lambda _g, x: x.imag,
    "Real": lambda _g, x: x.real,
}


@handler(*_PARTS)
def _part(node: Node, g: Operators) -> Any:
    return [_PARTS[node.type](g, _pair(node))]
