"""Small quantized graphs for the tests of plans, and the comparison of a plan with the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from xdlc.ir import AxisScaleOffset, Graph, Param, Role, ScaleOffset, Tensor, make_op, static, u32
from xdlc.ir import dtype as dt
from xdlc.prepare.hta.compile import compile_section
from xdlc.runtime import CpuSession
from xdlc.runtime.hta.form import decode, encode
from xdlc.runtime.hta.session import PlanSession

Array = Any  # numpy.ndarray


def both(
    graph: Graph, rng: np.random.Generator, *, stated: bool = False
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the stored outputs that a graph's plan and the host's run give for random inputs."""
    feeds = {
        tensor.name: rng.integers(0, 1 << tensor.dtype.bits, tensor.shape).astype(tensor.dtype.numpy)
        for tensor in graph.inputs
    }
    plan = decode(encode(compile_section(graph, stated=stated)), where="plan")
    expected = CpuSession(graph, plain=stated, threads=1).run(feeds, native=True)
    return PlanSession(plan).run(feeds), expected


def act(name: str, shape: tuple[int, ...], scale: float, offset: int, bits: int = 8) -> Tensor:
    """Return an activation of 8 or 16 bits."""
    return Tensor(name, shape, dt.UFIXED8 if bits == 8 else dt.UFIXED16, ScaleOffset(scale, offset))


def weight(rng: np.random.Generator, shape: tuple[int, ...], axis: int, form: str) -> Tensor:
    """Return random weights.

    Args:
        rng: Where they come from.
        shape: Extents.
        axis: Axis of the output channels.
        form: ``channels`` (signed, a scale per channel), ``signed`` or ``unsigned`` (one scale), ``zeros``
            (unsigned, a scale and a zero point per channel).
    """
    count = shape[axis]
    scales = tuple(map(float, rng.uniform(0.001, 0.02, count)))
    if form == "channels":
        values = rng.integers(-127, 128, shape).astype(np.int8)
        return static("w", values, dt.SFIXED8, AxisScaleOffset(axis, scales))
    if form == "signed":
        return static("w", rng.integers(-128, 128, shape).astype(np.int8), dt.SFIXED8, ScaleOffset(scales[0]))
    values = rng.integers(0, 256, shape).astype(np.uint8)
    if form == "unsigned":
        return static("w", values, dt.UFIXED8, ScaleOffset(scales[0], -int(rng.integers(90, 160))))
    offsets = tuple(-int(offset) for offset in rng.integers(90, 160, count))
    return static("w", values, dt.UFIXED8, AxisScaleOffset(axis, scales, offsets))


def weight_scales(weights: Tensor, count: int) -> Array:
    """Return the scale of each output channel, float32."""
    encoding = weights.encoding
    scales = encoding.scales if isinstance(encoding, AxisScaleOffset) else encoding.scale  # type: ignore[union-attr]
    return np.broadcast_to(np.asarray(scales, np.float32), (count,))


def bias(
    rng: np.random.Generator, source: Tensor, weights: Tensor, count: int, reach: float, form: str
) -> Tensor | None:
    """Return a random bias.

    Args:
        rng: Where it comes from.
        source: The input.
        weights: The weights.
        count: Number of output channels.
        reach: Largest magnitude, in steps of input scale times weight scale.
        form: ``steps`` (int32 in those steps), ``byte`` (8 bits, one scale), ``float`` or ``none``.
    """
    assert isinstance(source.encoding, ScaleOffset)
    scales = np.float32(source.encoding.scale) * weight_scales(weights, count)
    steps = rng.uniform(-reach, reach, count)
    if form == "none":
        return None
    if form == "float":
        return static("b", (steps * scales).astype(np.float32))
    if form == "steps":
        per_channel = isinstance(weights.encoding, AxisScaleOffset)
        encoding = (
            AxisScaleOffset(0, tuple(map(float, scales))) if per_channel else ScaleOffset(float(scales[0]))
        )
        return static("b", np.rint(steps).astype(np.int32), dt.SFIXED32, encoding)
    real = steps * scales
    scale = float(np.abs(real).max() / 127 + 1e-9)
    return static("b", np.rint(real / scale + 128).astype(np.uint8), dt.UFIXED8, ScaleOffset(scale, -128))


def window(**given: Any) -> dict[str, Param]:
    """Return parameters of windows."""
    return {name: static(name, np.array(value, np.uint32)) for name, value in given.items()}


def convolution(
    rng: np.random.Generator,
    kind: str = "Conv2d",
    *,
    channels: int = 5,
    units: int = 6,
    groups: int = 1,
    taps: tuple[int, int] = (3, 3),
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    pads: tuple[tuple[int, int], tuple[int, int]] = ((1, 1), (1, 1)),
    extents: tuple[int, int] = (9, 11),
    batch: int = 1,
    bits: int = 8,
    form: str = "channels",
    biased: str = "steps",
) -> Graph:
    """Return a graph x -> y of one convolution, output ranges chosen so that some results are clipped."""
    top = (1 << bits) - 1
    graph = Graph("g")
    x = graph.add_input(
        act(
            "x",
            (batch, *extents, channels),
            float(rng.uniform(0.001, 0.05)),
            -int(rng.integers(0, top)),
            bits,
        )
    )
    depth = 1 if kind == "DepthWiseConv2d" else channels // groups
    w = weight(rng, (*taps, depth, units), 3, form)
    spread = 70.0 * top / 3 * np.sqrt(taps[0] * taps[1] * depth)
    b = bias(rng, x, w, units, spread, biased)
    results = tuple(
        (extents[at] + sum(pads[at]) - dilation[at] * (taps[at] - 1) - 1) // stride[at] + 1 for at in range(2)
    )
    assert isinstance(x.encoding, ScaleOffset)
    step = x.encoding.scale * float(weight_scales(w, units).mean()) * spread * 4 / top
    y = act("y", (batch, *results, units), step, -int(rng.integers(top // 4, 3 * top // 4)), bits)
    params = window(stride=stride, pad_amount=pads, dilation=dilation)
    if kind == "Conv2d":
        params["group"] = u32(groups)
    graph.append(make_op(graph, kind, [x, w, b], [y], params, name="op"))
    graph.add_output(y)
    return graph


def rows(
    rng: np.random.Generator,
    *,
    shape: tuple[int, ...] = (4, 30),
    width: int = 30,
    units: int = 7,
    bits: int = 8,
    form: str = "channels",
    biased: str = "steps",
) -> Graph:
    """Return a graph x -> y of one fully connected op."""
    top = (1 << bits) - 1
    graph = Graph("g")
    x = graph.add_input(act("x", shape, float(rng.uniform(0.001, 0.05)), -int(rng.integers(0, top)), bits))
    w = weight(rng, (units, width), 0, form)
    spread = 70.0 * top / 3 * np.sqrt(width)
    b = bias(rng, x, w, units, spread, biased)
    assert isinstance(x.encoding, ScaleOffset)
    step = x.encoding.scale * float(weight_scales(w, units).mean()) * spread * 4 / top
    y = act("y", (x.size // width, units), step, -int(rng.integers(top // 4, 3 * top // 4)), bits)
    graph.append(make_op(graph, "FullyConnected", [x, w, b], [y], {}, name="op"))
    graph.add_output(y)
    return graph


def operation(
    rng: np.random.Generator, kind: str, shapes: tuple[tuple[int, ...], tuple[int, ...]], bits: int = 8
) -> Graph:
    """Return a graph a, b -> y of an element-wise op on two activations."""
    top = (1 << bits) - 1
    graph = Graph("g")
    inputs = [
        graph.add_input(
            act(name, shape, float(rng.uniform(0.005, 0.05)) * 255 / top, -int(rng.integers(0, top)), bits)
        )
        for name, shape in zip("ab", shapes, strict=True)
    ]
    shape = tuple(np.broadcast_shapes(*shapes))
    y = act("y", shape, float(rng.uniform(0.02, 0.08)) * 255 / top, -int(rng.integers(top // 4, top)), bits)
    graph.append(make_op(graph, kind, inputs, [y], {}, name="op"))
    graph.add_output(y)
    return graph


def activated(
    rng: np.random.Generator,
    kind: str,
    function: str,
    *,
    rounded_too: bool = False,
    zero: int = 0,
    **options: Any,
) -> Graph:
    """Return ``convolution``, or ``rows`` for FullyConnected, with a function behind it that gives z.

    Args:
        rng: Where numbers come from.
        kind: Type of the product.
        function: Relu, Prelu or HardSwish.
        rounded_too: Whether the product's own result is an output, too.
        zero: Zero point of z.
        options: For the product.
    """
    graph = rows(rng, **options) if kind == "FullyConnected" else convolution(rng, kind, **options)
    y = graph.outputs[0]
    if not rounded_too:
        graph.outputs.clear()
        y.role = Role.NATIVE
    assert isinstance(y.encoding, ScaleOffset)
    reach = 0.02 if function == "HardSwish" else 0.71
    z = act("z", y.shape, y.encoding.scale * reach, -zero)
    inputs: list[Tensor | None] = [y]
    if function == "Prelu":
        values = rng.integers(0, 256, y.shape[-1:]).astype(np.uint8)
        inputs.append(static("slopes", values, dt.UFIXED8, ScaleOffset(0.003, -60)))
    graph.append(make_op(graph, function, inputs, [z], {}, name="function"))
    graph.add_output(z)
    return graph


def transposed(
    rng: np.random.Generator,
    *,
    channels: int = 4,
    units: int = 6,
    groups: int = 1,
    taps: tuple[int, int] = (3, 3),
    stride: tuple[int, int] = (2, 2),
    dilation: tuple[int, int] = (1, 1),
    pads: tuple[tuple[int, int], tuple[int, int]] = ((1, 1), (1, 0)),
    longer: tuple[int, int] = (0, 0),
    extents: tuple[int, int] = (5, 6),
    form: str = "channels",
    biased: str = "float",
) -> Graph:
    """Return a graph x -> y of one transposed convolution."""
    graph = Graph("g")
    x = graph.add_input(
        act("x", (1, *extents, channels), float(rng.uniform(0.001, 0.05)), -int(rng.integers(0, 255)))
    )
    w = weight(rng, (*taps, channels, units // groups), 3, form)
    spread = 70.0 * 85 * np.sqrt(channels / groups)
    scales = np.tile(weight_scales(w, units // groups), groups)
    assert isinstance(x.encoding, ScaleOffset)
    b = None
    if biased != "none":
        b = static("b", (rng.uniform(-spread, spread, units) * x.encoding.scale * scales).astype(np.float32))
    results = tuple(
        (extents[at] - 1) * stride[at] + dilation[at] * (taps[at] - 1) + 1 - sum(pads[at]) + longer[at]
        for at in range(2)
    )
    y = act("y", (1, *results, units), x.encoding.scale * float(scales.mean()) * spread / 61.3, -120)
    params = window(stride=stride, pad_amount=pads, dilation=dilation, output_padding=longer)
    graph.append(
        make_op(graph, "TransposeConv2d", [x, w, b], [y], {**params, "group": u32(groups)}, name="op")
    )
    graph.add_output(y)
    return graph
