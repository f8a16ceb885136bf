"""Handlers of suppressed boxes, Fourier transforms and random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from xdlc.converter.nhwc import detection, spectra
from xdlc.converter.nhwc.shapes import cast, ints, known, number
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.random_inputs import draw_outside
from xdlc.converter.session.node import Node
from xdlc.converter.tflite.ops._forms import dtype_of, values_of
from xdlc.converter.tflite.registry import handler
from xdlc.converter.values import SequenceValue, Value


@handler("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
def _suppressed(node: Node, g: Operators) -> list[Value]:
    boxes, scores, *given = values_of(node)
    limits = [float(known(value, "a limit").reshape(-1)[0]) for value in given]
    count, overlap, threshold = int(limits[0]), limits[1], limits[2]
    # LiteRT drops boxes at the limit too, others only those above it: at 0 it keeps the best box alone.
    overlap = float(np.nextafter(np.float32(overlap), np.float32(-1))) if overlap > 0 else -1.0
    if node.type.endswith("V5") and limits[3] > 0 and count:
        return list(detection.softly_suppressed(g, boxes, scores, count, overlap, threshold, limits[3]))
    most = min(count, 1) if overlap < 0 else count
    chosen = detection.suppressed(g, boxes, scores, most, max(overlap, 0.0), threshold)
    padded, valid = detection.padded_choice(g, chosen, count)
    if node.type.endswith("V4"):
        return [padded, valid]
    is_valid = g("Less", [g.builder.const(np.arange(count, dtype=np.int32)), valid])
    found = g("Where", [is_valid, g("Gather", [scores, padded], axis=0), number(g, scores, 0)])
    return [padded, found, valid]


@handler("RFFT2D")
def _transform(node: Node, g: Operators) -> Any:
    x, sizes = values_of(node)
    return [SequenceValue(tuple(spectra.forward(g, x, ints(sizes, "the lengths"))))]


@handler("REAL", "IMAG", "COMPLEX_ABS", wraps=False)
def _parts(node: Node, g: Operators) -> Value:
    x: Any = node.required(0)
    if not isinstance(x, SequenceValue) or len(x.elements) != 2:
        raise node.invalid("its input is not complex")
    found = spectra.Complex(*x.elements)
    if node.type == "COMPLEX_ABS":
        return spectra.magnitude(g, found)
    return found.real if node.type == "REAL" else found.imag


@handler("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL")
def _random(node: Node, g: Operators) -> Value:
    operands = values_of(node)
    seeds = [int(node.attr(name, 0)) for name in ("seed", "seed2")]
    seed = {"seed": float(seeds[0] ^ seeds[1])} if any(seeds) else {}
    if not g.random_inputs:
        g.context.diagnostics.notices.append(
            f"{node.own_name!r} draws other random numbers than TensorFlow Lite: {draw_outside()}"
        )
    if node.type == "MULTINOMIAL":
        (count,) = ints(operands[1], "the number of samples")
        return cast(g, g("Multinomial", [operands[0]], sample_size=count, dtype=6, **seed), dtype_of(node))
    type = "RandomUniform" if node.type == "RANDOM_UNIFORM" else "RandomNormal"
    return g(type, [], shape=ints(operands[0], "the shape"), dtype=1, **seed)
