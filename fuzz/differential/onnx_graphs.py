"""Random ONNX networks: of fixed and dynamic sizes, and quantized."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from fuzz.differential.cases import target
from fuzz.differential.growing import Grower, grow
from fuzz.differential.networks import Array, Network, Tensor
from fuzz.differential.onnx_engine import engine

SHAPES = (
    (1, 3, 8, 8),
    (1, 4, 6, 6),
    (2, 4, 4, 4),
    (1, 16, 4),
    (2, 6, 5),
    (1, 48),
    (4, 6),
    (1, 4, 4, 8),
    (1, 2, 3, 4, 2),
    (24,),
    (3, 1, 7),
)
UNARY = (
    *(
        "Abs",
        "Ceil",
        "Cos",
        "Elu",
        "Erf",
        "Exp",
        "Floor",
        "HardSigmoid",
        "HardSwish",
        "Identity",
        "LeakyRelu",
    ),
    *(
        "Mish",
        "Neg",
        "Relu",
        "Relu",
        "Round",
        "Selu",
        "Sigmoid",
        "Sign",
        "Sin",
        "Softplus",
        "Softsign",
        "Tanh",
    ),
    *("Atan", "Sinh", "Asinh", "Celu", "ThresholdedRelu", "Gelu"),
)
REDUCTIONS = (
    *("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2"),
    *("ReduceLogSumExp", "ReduceSumSquare", "ReduceProd"),
)


def is_float(array: Array) -> bool:
    """Return whether an array has floats."""
    return bool(array.dtype == np.float32)


def _floats(grower: Grower, *ranks: int) -> tuple[str, tuple[int, ...]] | None:
    name = grower.pick(lambda each: is_float(each) and (not ranks or each.ndim in ranks))
    return None if name is None else (name, grower.values[name].shape)


def _ints(grower: Grower, values: Any) -> str:
    return grower.constant(np.asarray(values, np.int64), "int64")


Body = Callable[[Grower, str, tuple[int, ...]], bool]


def recipe(*ranks: int, share: int = 1) -> Callable[[Body], Body]:
    """Register a function that adds a node after a float of some ranks (any)."""

    def register(body: Body) -> Body:
        def step(grower: Grower) -> bool:
            value = _floats(grower, *ranks)
            return value is not None and body(grower, *value)

        RECIPES.extend([step] * share)
        return body

    return register


RECIPES: list[Callable[[Grower], bool]] = []


@recipe(share=6)
def binary(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add arithmetic with a scalar, row, channel, value or constant."""
    rng = grower.rng
    op = rng.choice(("Add", "Mul", "Sub", "Div", "Max", "Min", "Mul", "Add", "Pow", "Mod"))
    same = [name for name, each in grower.values.items() if each.shape == shape and is_float(each)]
    others: list[Callable[[], str]] = [
        lambda: grower.constant(rng.choice((0.5, 2.0, -1.0, 0.0, 1.0, 3.0, 255.0))),
        lambda: grower.constant([rng.choice((0.5, 2.0, -1.5))]),
        lambda: grower.weight(*shape[-1:]),
        lambda: grower.weight(shape[1] if len(shape) > 1 else 1, *[1] * (len(shape) - 2)),
        lambda: rng.choice(same),
        lambda: grower.weight(*(size if rng.random() < 0.5 else 1 for size in shape)),
    ]
    other = rng.choice(others)()
    if op in ("Div", "Mod") and other not in grower.values:
        other = grower.constant(rng.choice((0.5, 2.0, -4.0, 255.0)))
    inputs = [x, other]
    if rng.random() < 0.3:
        inputs.reverse()
    return grower.add(op, inputs, {"fmod": 1} if op == "Mod" else None)


@recipe(share=6)
def unary(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a function of each element."""
    return grower.add(grower.rng.choice(UNARY), [x])


@recipe(share=4)
def reshape(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a Reshape to any factors, one of them perhaps -1 or 0."""
    rest, sizes = int(np.prod(shape)), []
    for _ in range(grower.rng.choice((0, 1, 2, 3, 4))):
        sizes.append(grower.rng.choice([size for size in range(1, rest + 1) if rest % size == 0]))
        rest //= sizes[-1]
    sizes.append(rest)
    grower.rng.shuffle(sizes)
    if grower.rng.random() < 0.4:
        sizes[grower.rng.randrange(len(sizes))] = -1
    if grower.rng.random() < 0.2 and shape[:1] == (sizes[0],):
        sizes[0] = 0
    return grower.add("Reshape", [x, _ints(grower, sizes)])


@recipe(share=4)
def transpose(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a Transpose."""
    return grower.add("Transpose", [x], {"perm": grower.rng.sample(range(len(shape)), len(shape))})


@recipe()
def unsqueeze(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add an Unsqueeze."""
    rank = len(shape) + 1
    return grower.add("Unsqueeze", [x, _ints(grower, [grower.rng.randrange(-rank, rank)])])


@recipe()
def squeeze(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a Squeeze of one axis, or of all."""
    axes = [axis for axis, size in enumerate(shape) if size == 1]
    if not axes:
        return False
    return grower.add(
        "Squeeze", [x, _ints(grower, [grower.rng.choice(axes)])] if grower.rng.random() < 0.8 else [x]
    )


@recipe(1, 2, 3, 4, 5, share=2)
def cut(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a Slice of one or two axes, sometimes backwards."""
    rng = grower.rng
    axes = rng.sample(range(len(shape)), min(len(shape), rng.choice((1, 1, 2))))
    starts, ends, steps = [], [], []
    for axis in axes:
        first, last = sorted(rng.randrange(shape[axis] + 1) for _ in range(2))
        backwards = rng.random() < 0.2
        starts.append(last if backwards else first)
        ends.append(
            rng.choice((first - shape[axis] - 1, -shape[axis] - 1))
            if backwards
            else rng.choice((last, 1 << 40))
        )
        steps.append(-rng.choice((1, 2)) if backwards else rng.choice((1, 1, 2)))
    named = [axis - len(shape) * (rng.random() < 0.3) for axis in axes]
    return grower.add("Slice", [x, *(_ints(grower, each) for each in (starts, ends, named, steps))])


@recipe(1, 2, 3, 4, 5, share=2)
def concat(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a Concat of two or three values."""
    rng = grower.rng
    axis = rng.randrange(len(shape))
    rest = np.delete(shape, axis).tolist()
    likely = [
        name
        for name, each in grower.values.items()
        if is_float(each) and each.ndim == len(shape) and np.delete(each.shape, axis).tolist() == rest
    ]
    inputs = [x, *(rng.choice((*likely, grower.weight(*shape))) for _ in range(rng.choice((1, 1, 2))))]
    rng.shuffle(inputs)
    return grower.add("Concat", inputs, {"axis": axis - len(shape) * (rng.random() < 0.4)})


@recipe(1, 2, 3, 4, 5)
def pad(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a Pad."""
    rng = grower.rng
    mode = rng.choice(("constant", "constant", "edge", "reflect"))
    inputs = [x, _ints(grower, [rng.choice((0, 0, 1, 2)) for _ in range(2 * len(shape))])]
    if mode == "constant" and rng.random() < 0.7:
        inputs.append(grower.constant(rng.choice((0.0, 1.5))))
    return grower.add("Pad", inputs, {"mode": mode})


def _window(grower: Grower, axes: int) -> dict[str, Any]:
    rng = grower.rng
    window: dict[str, Any] = {
        "kernel_shape": [rng.choice((1, 2, 3)) for _ in range(axes)],
        "strides": [rng.choice((1, 1, 2)) for _ in range(axes)],
    }
    if rng.random() < 0.7:
        window["pads"] = [rng.choice((0, 1)) for _ in range(2 * axes)]
    elif rng.random() < 0.5:
        window["auto_pad"] = rng.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    return window


@recipe(3, 4, 5, share=4)
def convolution(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a Conv, in groups or depthwise too."""
    rng, window = grower.rng, _window(grower, len(shape) - 2)
    group = (
        rng.choice([size for size in range(1, shape[1] + 1) if shape[1] % size == 0])
        if rng.random() < 0.4
        else 1
    )
    if rng.random() < 0.2:
        window["dilations"] = [rng.choice((1, 2)) for _ in shape[2:]]
    count = group * rng.choice((1, 2, 3))
    inputs = [x, grower.weight(count, shape[1] // group, *window["kernel_shape"])]
    if rng.random() < 0.6:
        inputs.append(grower.weight(count))
    return grower.add("Conv", inputs, window | {"group": group})


@recipe(3, 4)
def deconvolution(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a ConvTranspose."""
    rng, axes = grower.rng, len(shape) - 2
    window = {"kernel_shape": [rng.choice((1, 2, 3)) for _ in range(axes)]}
    window["strides"] = [rng.choice((1, 2)) for _ in range(axes)]
    if rng.random() < 0.5:
        window["pads"] = [rng.choice((0, 1)) for _ in range(2 * axes)]
    if rng.random() < 0.3:
        window["output_padding"] = [rng.randrange(size) for size in window["strides"]]
    group = rng.choice((1, shape[1]))
    inputs = [x, grower.weight(shape[1], rng.choice((1, 2)), *window["kernel_shape"])]
    return grower.add("ConvTranspose", inputs, window | {"group": group})


@recipe(2, 3, 4, share=3)
def product(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a MatMul with a constant on either side, or of two values."""
    rng, size = grower.rng, grower.rng.choice((1, 2, 5))
    others = [
        name
        for name, each in grower.values.items()
        if is_float(each) and each.ndim > 1 and each.shape[-2] == shape[-1]
    ]
    if others and rng.random() < 0.4:
        return grower.add("MatMul", [x, rng.choice(others)])
    if rng.random() < 0.3:
        return grower.add("MatMul", [grower.weight(size, shape[-2]), x])
    return grower.add(
        "MatMul", [x, grower.weight(*(shape[:-2] if rng.random() < 0.2 else ()), shape[-1], size)]
    )


@recipe(2)
def gemm(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a Gemm."""
    rng, size = grower.rng, grower.rng.choice((1, 3))
    turned = [rng.choice((0, 0, 1)), rng.choice((0, 1))]
    inner = shape[0] if turned[0] else shape[1]
    inputs = [x, grower.weight(*((size, inner) if turned[1] else (inner, size)))]
    if rng.random() < 0.6:
        inputs.append(grower.weight(*rng.choice(((size,), (1, size), ()))))
    factors = {"alpha": rng.choice((1.0, 0.5)), "beta": rng.choice((1.0, 2.0))}
    return grower.add("Gemm", inputs, {"transA": turned[0], "transB": turned[1], **factors})


@recipe(3, 4, 5, share=2)
def pool(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a pool."""
    rng, window = grower.rng, _window(grower, len(shape) - 2)
    op = rng.choice(("MaxPool", "AveragePool", "LpPool"))
    if op == "AveragePool":
        window["count_include_pad"] = rng.choice((0, 1))
    if rng.random() < 0.2 and op != "LpPool":
        window["ceil_mode"] = 1
    return grower.add(op, [x], window)


@recipe(3, 4, 5)
def global_pool(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a pool over all of space."""
    return grower.add(grower.rng.choice(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")), [x])


@recipe(2, 3, 4, 5, share=2)
def normalization(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a normalization."""
    rng, count = grower.rng, shape[1]
    op = rng.choice(
        ("BatchNormalization", "BatchNormalization", "InstanceNormalization", "LayerNormalization", "LRN")
    )
    if op == "BatchNormalization":
        variance = grower.constant(np.random.default_rng(rng.randrange(100)).uniform(0.5, 2, count))
        return grower.add(op, [x, *(grower.weight(count) for _ in range(3)), variance], {"epsilon": 1e-3})
    if op == "LayerNormalization":
        axis = rng.randrange(-len(shape), len(shape))
        inputs = [x, *(grower.weight(*shape[axis:]) for _ in range(rng.choice((1, 2))))]
        return grower.add(op, inputs, {"axis": axis, "epsilon": 1e-2})
    if op == "LRN":
        return grower.add(op, [x], {"size": rng.choice((1, 3, 5)), "alpha": 0.1, "beta": 0.75})
    return grower.add(op, [x, grower.weight(count), grower.weight(count)], {"epsilon": 0.1})


@recipe(1, 2, 3, 4, 5, share=3)
def reduction(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a reduction, or the place of an extreme."""
    rng, keep = grower.rng, grower.rng.choice((0, 1))
    if rng.random() < 0.15:
        axis = rng.randrange(-len(shape), len(shape))
        return grower.add(rng.choice(("ArgMax", "ArgMin")), [x], {"axis": axis, "keepdims": keep})
    axes = [
        axis - len(shape) * (rng.random() < 0.3)
        for axis in rng.sample(range(len(shape)), rng.randint(1, len(shape)))
    ]
    op = rng.choice(REDUCTIONS)
    if op == "ReduceSum" or grower.network.opset >= 18:
        return grower.add(op, [x, _ints(grower, axes)], {"keepdims": keep})
    return grower.add(op, [x], {"keepdims": keep, "axes": axes})


@recipe(1, 2, 3, 4, 5)
def softmax(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a Softmax or LogSoftmax."""
    axis = grower.rng.randrange(-len(shape), len(shape))
    return grower.add(grower.rng.choice(("Softmax", "Softmax", "LogSoftmax")), [x], {"axis": axis})


@recipe(3, 4)
def resize(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a Resize by factors or to sizes."""
    rng = grower.rng
    mode = rng.choice(("nearest", "linear", "cubic"))
    modes = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": rng.choice(modes)}
    if mode == "nearest":
        attributes["nearest_mode"] = rng.choice(("floor", "round_prefer_floor", "ceil", "round_prefer_ceil"))
    factors = [1.0, 1.0, *(rng.choice((1.0, 2.0, 1.5, 0.5, 3.0)) for _ in shape[2:])]
    if rng.random() < 0.3:
        return grower.add(
            "Resize",
            [x, "", "", _ints(grower, [int(a * b) for a, b in zip(shape, factors, strict=True)])],
            attributes,
        )
    return grower.add("Resize", [x, "", grower.constant(factors)], attributes)


@recipe(1, 2, 3, 4, 5, share=2)
def gather(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a Gather of one or several places, or a GatherElements."""
    rng, axis = grower.rng, grower.rng.randrange(len(shape))
    places = [rng.randrange(-shape[axis], shape[axis]) for _ in range(rng.choice((1, 2, 3)))]
    if rng.random() < 0.2:
        index = np.random.default_rng(rng.randrange(1000)).integers(0, shape[axis], shape)
        return grower.add("GatherElements", [x, _ints(grower, index)], {"axis": axis})
    return grower.add("Gather", [x, _ints(grower, rng.choice((places[0], places, [places])))], {"axis": axis})


@recipe(1, 2, 3, 4)
def spread(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a Tile or an Expand."""
    rng = grower.rng
    if rng.random() < 0.5:
        return grower.add("Tile", [x, _ints(grower, [rng.choice((1, 1, 2)) for _ in shape])])
    sizes = [rng.choice((2, 3)) if size == 1 and rng.random() < 0.6 else size for size in shape]
    return grower.add("Expand", [x, _ints(grower, [*([2] if rng.random() < 0.2 else []), *sizes])])


@recipe(1, 2, 3, 4, 5)
def flatten(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a Flatten."""
    return grower.add("Flatten", [x], {"axis": grower.rng.randint(-len(shape), len(shape))})


@recipe(4)
def blocks(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a DepthToSpace or SpaceToDepth."""
    if grower.rng.random() < 0.5:
        return grower.add("DepthToSpace", [x], {"blocksize": 2, "mode": grower.rng.choice(("DCR", "CRD"))})
    return grower.add("SpaceToDepth", [x], {"blocksize": 2})


@recipe(share=2)
def selection(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a comparison and a Where, or a Clip or a PRelu."""
    rng = grower.rng
    kind = rng.randrange(4)
    if kind == 0:
        limits = [grower.constant(rng.choice((-0.5, 0.0))), grower.constant(rng.choice((0.7, 6.0)))]
        return grower.add("Clip", [x, *limits[: rng.choice((1, 2))]])
    if kind == 1:
        return grower.add(
            "PRelu", [x, grower.weight(*((shape[1],) + (1,) * (len(shape) - 2) if len(shape) > 1 else shape))]
        )
    if kind == 2:
        op = rng.choice(("Greater", "Less", "GreaterOrEqual", "LessOrEqual"))
        return grower.add(op, [x, grower.constant(rng.choice((0.1, 0.0)))])
    masks = [name for name, each in grower.values.items() if each.dtype == bool and each.shape == shape]
    return bool(masks) and grower.add(
        "Where", [rng.choice(masks), x, grower.constant(rng.choice((0.0, -1.0)))]
    )


@recipe(1, 2, 3, 4, 5)
def split(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a Split in two, or a TopK."""
    rng, axis = grower.rng, grower.rng.randrange(len(shape))
    if shape[axis] < 2:
        return False
    if rng.random() < 0.3:
        attributes = {"axis": axis, "largest": rng.choice((0, 1))}
        return grower.add("TopK", [x, _ints(grower, [rng.randint(1, shape[axis])])], attributes, 2)
    first = rng.randrange(1, shape[axis])
    return grower.add("Split", [x, _ints(grower, [first, shape[axis] - first])], {"axis": axis}, 2)


@recipe(1, 2, 3)
def cumulative(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a CumSum or an Einsum."""
    rng = grower.rng
    if rng.random() < 0.5:
        flags = {"exclusive": rng.choice((0, 1)), "reverse": rng.choice((0, 1))}
        return grower.add("CumSum", [x, _ints(grower, rng.randrange(-len(shape), len(shape)))], flags)
    letters = "abc"[: len(shape)]
    result = "".join(rng.sample(letters + "d", rng.randint(1, len(letters) + 1)))
    return grower.add(
        "Einsum", [x, grower.weight(shape[-1], 3)], {"equation": f"{letters},{letters[-1]}d->{result}"}
    )


@recipe(3)
def recurrence(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add an LSTM, GRU or RNN over the first axis."""
    rng = grower.rng
    op, direction = rng.choice(("LSTM", "GRU", "RNN")), rng.choice(("forward", "reverse", "bidirectional"))
    gates, ways, hidden = (
        {"LSTM": 4, "GRU": 3, "RNN": 1}[op],
        1 + (direction == "bidirectional"),
        rng.choice((1, 3)),
    )
    inputs = [x, grower.weight(ways, gates * hidden, shape[2]), grower.weight(ways, gates * hidden, hidden)]
    if rng.random() < 0.6:
        inputs.append(grower.weight(ways, 2 * gates * hidden))
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if op == "GRU":
        attributes["linear_before_reset"] = rng.choice((0, 1))
    return grower.add(op, inputs, attributes, {"LSTM": 3}.get(op, 2))


@recipe()
def casts(grower: Grower, x: str, shape: tuple[int, ...]) -> bool:
    """Add a Cast and back, a Dropout or a Mish."""
    rng, mish = grower.rng, grower.network.opset >= 18
    if rng.random() < 0.3:
        return grower.add(rng.choice(("Dropout", "Mish") if mish else ("Dropout",)), [x])
    if rng.random() < 0.3 and grower.network.opset >= 15:
        return grower.add("CastLike", [x, grower.constant(1, rng.choice(("int32", "bool")))])
    return grower.add("Cast", [x], {"to": rng.choice((6, 9, 10))}) and grower.add(
        "Cast", [grower.network.nodes[-1].outputs[0]], {"to": 1}
    )


def quantization(grower: Grower) -> bool:
    """Add a QuantizeLinear and a DequantizeLinear behind a float value."""
    value = _floats(grower)
    if value is None:
        return False
    rng, largest = grower.rng, float(np.abs(grower.values[value[0]]).max())
    dtype = rng.choice(("uint8", "int8"))
    zero = rng.choice((0, 100, 128)) if dtype == "uint8" else rng.choice((0, 0, 20))
    grid = [grower.constant(np.float32(max(largest, 1e-3) / 127)), grower.constant(zero, dtype)]
    if not grower.add("QuantizeLinear", [value[0], *grid]):
        return False
    return grower.add("DequantizeLinear", [grower.network.nodes[-1].outputs[0], *grid])


def begun(rng: random.Random) -> Grower:
    """Return a network of inputs."""
    grower = Grower(rng, engine(), opset=rng.choice((13, 17, 18, 20, 21)))
    for _ in range(rng.choice((1, 1, 1, 2))):
        grower.input(Tensor("float32", rng.choice(SHAPES), None, rng.randrange(10**6)))
    return grower


def fixed(rng: random.Random) -> Network:
    """Return a float network."""
    return grow(begun(rng), RECIPES, rng.choice((2, 3, 4, 5, 6, 8)))


def rounded(rng: random.Random) -> Network:
    """Return a network with encodings."""
    return grow(begun(rng), [*RECIPES, *[quantization] * 20], rng.choice((3, 4, 6, 8)))


def dynamic(rng: random.Random) -> Network:
    """Return a network some of whose inputs' sizes are dynamic."""
    from dataclasses import replace

    network = grow(begun(rng), RECIPES, rng.choice((2, 3, 4, 5, 6)))
    sizes = {}
    for name, each in network.inputs.items():
        axes = {axis for axis in range(len(each.shape)) if rng.random() < (0.6 if axis == 0 else 0.3)}
        if axes:
            sizes[name] = tuple(
                size + rng.choice((1, 2, 5)) * (axis in axes) for axis, size in enumerate(each.shape)
            )
    return replace(network, sizes=sizes, ways=("resized", *network.ways) if sizes else network.ways)


TARGETS = (
    target("onnx-graphs", engine, fixed, "onnxruntime"),
    target("onnx-rounded", engine, rounded, "onnxruntime"),
    target("onnx-dynamic", engine, dynamic, "onnxruntime"),
)
