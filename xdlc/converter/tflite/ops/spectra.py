"""Handlers of Fourier transforms and complex values."""

from __future__ import annotations

from typing import Any

from xdlc.converter.nhwc import spectra
from xdlc.converter.nhwc.shapes import ints
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tflite.registry import handler
from xdlc.converter.values import SequenceValue, Value


@handler("RFFT2D")
def _transform(node: Node, g: Operators, x: Value, sizes: Value) -> Any:
    return [SequenceValue(tuple(spectra.forward(g, x, ints(sizes, "the lengths"))))]


@handler("REAL", "IMAG", "COMPLEX_ABS", wraps=False)
def _parts(node: Node, g: Operators) -> Value:
    x: Any = node.required(0)
    if not isinstance(x, SequenceValue) or len(x.elements) != 2:
        raise node.invalid("the input is not complex")
    found = spectra.Complex(*x.elements)
    if node.type == "COMPLEX_ABS":
        return spectra.magnitude(g, found)
    return found.real if node.type == "REAL" else found.imag
