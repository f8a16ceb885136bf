"""Random TFLite networks of ordinary operators, float and int8."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fuzz.differential.cases import target
from fuzz.differential.growing import Grower, grow
from fuzz.differential.networks import Grid, Network, Tensor
from fuzz.differential.tflite_engine import engine

SHAPES = ((1, 6, 6, 4), (1, 5, 8, 3), (2, 4, 4, 2), (1, 8), (3, 6), (1, 4, 6), (1, 1, 7))
FIXED: dict[str, Grid] = {
    "LOGISTIC": (1 / 256, -128),
    "TANH": (1 / 128, 0),
    "SOFTMAX": (1 / 256, -128),
    "LOG_SOFTMAX": (16 / 256, 127),
    "L2_NORMALIZATION": (1 / 128, 0),
}
"""Scales that operators demand of their results."""
UNARY = ("RELU", "RELU6", "RELU_N1_TO_1", "LOGISTIC", "TANH", "HARD_SWISH", "LEAKY_RELU", "ABS", "SOFTMAX")
FLOAT_ONLY = (
    "ELU",
    "GELU",
    "EXP",
    "SQUARE",
    "SIN",
    "COS",
    "FLOOR",
    "CEIL",
    "ROUND",
    "NEG",
    "LOG_SOFTMAX",
    "SIGN",
)
RELUS = (0, 0, 1, 3)
"""Numbers of fused activations: none, ReLU, ReLU6."""

Body = Callable[["Tflite", str, tuple[int, ...]], bool]
RECIPES: list[Callable[[Any], bool]] = []


class Tflite(Grower):
    """A network that is float, or int8 throughout."""

    is_int8 = False

    def grid(self) -> Grid | None:
        """Return a scale and a zero point for a result of its own range."""
        if not self.is_int8:
            return None
        return self.rng.choice((0.02, 0.05, 0.1)), self.rng.choice((0, 0, -10, 5))

    def ints(self, values: Any) -> str:
        """Return the name of a constant of integers."""
        return self.constant(np.asarray(values, np.int32), "int32")

    def kernel(self, *shape: int, axis: int | None = None) -> str:
        """Return the name of weights with one scale, or one per entry of an axis."""
        if not self.is_int8:
            return self.weight(*shape)
        scales = [self.rng.choice((0.004, 0.01, 0.02)) for _ in range(shape[axis] if axis is not None else 1)]
        scale: Any = tuple(scales) if axis is not None and self.rng.random() < 0.6 else scales[0]
        return self.constant(Tensor("int8", shape, None, self.rng.randrange(10**6), quantization=(scale, 0)))

    def bias(self, count: int, x: str, kernel: str) -> str:
        """Return the name of a bias for a value and weights."""
        if not self.is_int8:
            return self.weight(count)
        kernel_grid, grid = self.constants[kernel].quantization, self.grids[x]
        assert kernel_grid is not None
        assert grid is not None
        factors = np.asarray(grid[0], np.float32) * np.atleast_1d(np.asarray(kernel_grid[0], np.float32))
        scales = tuple(map(float, factors))
        values = np.random.default_rng(self.rng.randrange(1000)).integers(-300, 300, count).astype(np.int32)
        return self.constant(Tensor.of(values, (scales if len(scales) > 1 else scales[0], 0)))

    def like(self, x: str) -> list[str]:
        """Return the values of the shape and the scale of a value."""
        shape = self.values[x].shape
        return [
            name
            for name, each in self.values.items()
            if each.shape == shape and self.grids[name] == self.grids[x]
        ]


def recipe(*ranks: int, share: int = 1) -> Callable[[Body], Body]:
    """Register a function that adds an operator after a value of some ranks (not 0)."""

    def register(body: Body) -> Body:
        def step(grower: Tflite) -> bool:
            dtype = np.int8 if grower.is_int8 else np.float32
            x = grower.pick(
                lambda each: each.dtype == dtype and (each.ndim in ranks if ranks else each.ndim > 0)
            )
            return x is not None and body(grower, x, grower.values[x].shape)

        RECIPES.extend([step] * share)
        return body

    return register


def _relu(grower: Tflite) -> dict[str, Any]:
    return {"fused_activation_function": grower.rng.choice(RELUS)}


def _window(grower: Tflite) -> dict[str, Any]:
    rng = grower.rng
    return {"padding": rng.choice((0, 1)), "stride_h": rng.choice((1, 2)), "stride_w": rng.choice((1, 2))}


@recipe(4, share=5)
def convolution(grower: Tflite, x: str, shape: tuple[int, ...]) -> bool:
    """Add a convolution, depthwise too."""
    rng, options = grower.rng, _window(grower) | _relu(grower)
    high, wide = rng.choice((1, 2, 3)), rng.choice((1, 2, 3))
    if rng.random() < 0.2:
        options |= {"dilation_hfactor": rng.choice((1, 2)), "dilation_wfactor": rng.choice((1, 2))}
    if rng.random() < 0.4:
        times = rng.choice((1, 2))
        kernel = grower.kernel(1, high, wide, shape[3] * times, axis=3)
        inputs = [x, kernel, grower.bias(shape[3] * times, x, kernel)]
        return grower.add(
            "DEPTHWISE_CONV_2D", inputs, options | {"depth_multiplier": times}, grids=[grower.grid()]
        )
    count = rng.choice((1, 2, 4))
    kernel = grower.kernel(count, high, wide, shape[3], axis=0)
    return grower.add("CONV_2D", [x, kernel, grower.bias(count, x, kernel)], options, grids=[grower.grid()])


@recipe(4)
def deconvolution(grower: Tflite, x: str, shape: tuple[int, ...]) -> bool:
    """Add a transposed convolution."""
    rng, options = grower.rng, _window(grower)
    sizes, count = [rng.choice((1, 2, 3)) for _ in range(2)], rng.choice((1, 2))
    kernel = grower.kernel(count, *sizes, shape[3], axis=0)
    space = [
        size * options[stride] if options["padding"] == 0 else (size - 1) * options[stride] + window
        for size, stride, window in zip(shape[1:3], ("stride_h", "stride_w"), sizes, strict=True)
    ]
    return grower.add(
        "TRANSPOSE_CONV",
        [grower.ints([shape[0], *space, count]), kernel, x],
        options,
        grids=[grower.grid()],
        types=[grower.values[x].dtype.name],
    )


@recipe(2, 3, 4, share=2)
def fully_connected(grower: Tflite, x: str, shape: tuple[int, ...]) -> bool:
    """Add a FULLY_CONNECTED."""
    count = grower.rng.choice((1, 3, 5))
    kernel = grower.kernel(count, shape[-1], axis=0)
    options = {"keep_num_dims": grower.rng.random() < 0.5, **_relu(grower)}
    return grower.add(
        "FULLY_CONNECTED", [x, kernel, grower.bias(count, x, kernel)], options, grids=[grower.grid()]
    )


@recipe(share=4)
def binary(grower: Tflite, x: str, shape: tuple[int, ...]) -> bool:
    """Add arithmetic with another value or a constant."""
    rng = grower.rng
    same = [
        name
        for name, each in grower.values.items()
        if each.shape == shape and each.dtype == grower.values[x].dtype
    ]
    second = (
        rng.choice(same)
        if rng.random() < 0.5
        else grower.kernel(*(size if rng.random() < 0.5 else 1 for size in shape))
    )
    inputs = [x, second]
    rng.shuffle(inputs)
    op = rng.choice(("ADD", "SUB", "MUL"))
    return grower.add(op, inputs, _relu(grower), grids=[grower.grid()])


@recipe()
def extreme(grower: Tflite, x: str, shape: tuple[int, ...]) -> bool:
    """Add a MAXIMUM or MINIMUM of values of one scale."""
    op = grower.rng.choice(("MAXIMUM", "MINIMUM"))
    return grower.add(op, [x, grower.rng.choice(grower.like(x))], grids=[grower.grids[x]])


@recipe(share=4)
def unary(grower: Tflite, x: str, shape: tuple[int, ...]) -> bool:
    """Add a function of each element."""
    rng = grower.rng
    op = rng.choice(UNARY if grower.is_int8 else (*UNARY, *FLOAT_ONLY))
    grid = None
    if grower.is_int8:
        grid = FIXED.get(op) or (grower.grids[x] if op == "ABS" or rng.random() < 0.3 else grower.grid())
    options: dict[str, dict[str, Any]] = {
        "LEAKY_RELU": {"alpha": 0.2},
        "SOFTMAX": {"beta": 1.0},
        "GELU": {"approximate": rng.random() < 0.5},
    }
    return grower.add(op, [x], options.get(op), grids=[grid])


@recipe(share=2)
def reshape(grower: Tflite, x: str, shape: tuple[int, ...]) -> bool:
    """Add a RESHAPE to any factors."""
    rest, sizes = int(np.prod(shape)), []
    for _ in range(grower.rng.choice((1, 2, 3))):
        sizes.append(grower.rng.choice([size for size in range(1, rest + 1) if rest % size == 0]))
        rest //= sizes[-1]
    sizes.append(rest)
    grower.rng.shuffle(sizes)
    if grower.rng.random() < 0.3:
        sizes[0] = -1
    return grower.add("RESHAPE", [x, grower.ints(sizes)], {"new_shape": sizes}, grids=[grower.grids[x]])


@recipe(share=2)
def transpose(grower: Tflite, x: str, shape: tuple[int, ...]) -> bool:
    """Add a TRANSPOSE."""
    order = grower.rng.sample(range(len(shape)), len(shape))
    return grower.add("TRANSPOSE", [x, grower.ints(order)], grids=[grower.grids[x]])


@recipe(share=2)
def pad(grower: Tflite, x: str, shape: tuple[int, ...]) -> bool:
    """Add a PAD or a MIRROR_PAD."""
    rng = grower.rng
    pads = [[rng.choice((0, 1)), rng.choice((0, 1, 2))] for _ in shape]
    if rng.random() < 0.4:
        return grower.add(
            "MIRROR_PAD", [x, grower.ints(pads)], {"mode": rng.choice((0, 1))}, grids=[grower.grids[x]]
        )
    return grower.add("PAD", [x, grower.ints(pads)], grids=[grower.grids[x]])


@recipe(4, share=2)
def pool(grower: Tflite, x: str, shape: tuple[int, ...]) -> bool:
    """Add a pool."""
    rng = grower.rng
    sizes = {"filter_height": rng.choice((1, 2, 3)), "filter_width": rng.choice((1, 2, 3))}
    op = rng.choice(
        ("AVERAGE_POOL_2D", "MAX_POOL_2D")
        if grower.is_int8
        else ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")
    )
    return grower.add(op, [x], _window(grower) | sizes | _relu(grower), grids=[grower.grids[x]])


@recipe(share=2)
def reduction(grower: Tflite, x: str, shape: tuple[int, ...]) -> bool:
    """Add a reduction, or the place of an extreme."""
    rng = grower.rng
    if rng.random() < 0.2:
        inputs = [x, grower.ints(rng.randrange(-len(shape), len(shape)))]
        return grower.add(rng.choice(("ARG_MAX", "ARG_MIN")), inputs, {"output_type": 2}, types=["int32"])
    axes = [
        axis - len(shape) * (rng.random() < 0.3)
        for axis in rng.sample(range(len(shape)), rng.randint(1, len(shape)))
    ]
    op = rng.choice(
        ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", *(() if grower.is_int8 else ("REDUCE_PROD",)))
    )
    grid = grower.grids[x] if "REDUCE" in op else grower.grid()
    return grower.add(op, [x, grower.ints(axes)], {"keep_dims": rng.random() < 0.5}, grids=[grid])


@recipe()
def concatenation(grower: Tflite, x: str, shape: tuple[int, ...]) -> bool:
    """Add a CONCATENATION or a PACK."""
    rng, others = grower.rng, grower.like(x)
    inputs = [x, *(rng.choice(others) for _ in range(rng.choice((1, 2))))]
    if rng.random() < 0.3:
        options = {"values_count": len(inputs), "axis": rng.randrange(-len(shape) - 1, len(shape) + 1)}
        return grower.add("PACK", inputs, options, grids=[grower.grids[x]])
    return grower.add(
        "CONCATENATION", inputs, {"axis": rng.randrange(-len(shape), len(shape))}, grids=[grower.grids[x]]
    )


@recipe(share=2)
def strided_slice(grower: Tflite, x: str, shape: tuple[int, ...]) -> bool:
    """Add a STRIDED_SLICE with masks, or a SLICE."""
    rng = grower.rng
    begins = [rng.randrange(size) for size in shape]
    ends = [rng.randint(begin + 1, size) for begin, size in zip(begins, shape, strict=True)]
    if rng.random() < 0.3:
        sizes = [rng.choice((-1, end - begin)) for begin, end in zip(begins, ends, strict=True)]
        return grower.add("SLICE", [x, grower.ints(begins), grower.ints(sizes)], grids=[grower.grids[x]])
    shrink = rng.choice((0, 0, 1))
    # An axis in begin_mask and in shrink_axis_mask: LiteRT and TensorFlow take different rows.
    begin_mask = rng.choice((0, 0, 1, 2)) & ~shrink
    steps = [1 if shrink >> axis & 1 else rng.choice((1, 1, 2)) for axis in range(len(shape))]
    inputs = [x, *(grower.ints(each) for each in (begins, ends, steps))]
    options = {"begin_mask": begin_mask, "end_mask": rng.choice((0, 0, 1, 2)), "shrink_axis_mask": shrink}
    return grower.add("STRIDED_SLICE", inputs, options, grids=[grower.grids[x]])


@recipe(4, share=2)
def resize(grower: Tflite, x: str, shape: tuple[int, ...]) -> bool:
    """Add a resize."""
    rng = grower.rng
    sizes = [rng.choice((2, 5, 7, shape[1] * 2)), rng.choice((3, 4, shape[2] * 2))]
    aligned = rng.random() < 0.4
    options = {"align_corners": aligned, "half_pixel_centers": not aligned and rng.random() < 0.5}
    op = rng.choice(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"))
    return grower.add(op, [x, grower.ints(sizes)], options, grids=[grower.grids[x]])


@recipe()
def gather(grower: Tflite, x: str, shape: tuple[int, ...]) -> bool:
    """Add a GATHER."""
    rng, axis = grower.rng, grower.rng.randrange(len(shape))
    places = [rng.randrange(shape[axis]) for _ in range(rng.choice((1, 3)))]
    return grower.add("GATHER", [x, grower.ints(places)], {"axis": axis}, grids=[grower.grids[x]])


@recipe()
def split(grower: Tflite, x: str, shape: tuple[int, ...]) -> bool:
    """Add a SPLIT in two, or an UNPACK."""
    rng, axis = grower.rng, grower.rng.randrange(len(shape))
    if rng.random() < 0.3 and shape[axis] <= 4:
        grids = [grower.grids[x]] * shape[axis]
        types = [grower.values[x].dtype.name] * shape[axis]
        return grower.add("UNPACK", [x], {"num": shape[axis], "axis": axis}, shape[axis], grids, types)
    types = [grower.values[x].dtype.name] * 2
    return grower.add("SPLIT", [grower.ints(axis), x], {"num_splits": 2}, 2, [grower.grids[x]] * 2, types)


@recipe()
def ranks(grower: Tflite, x: str, shape: tuple[int, ...]) -> bool:
    """Add an EXPAND_DIMS or a SQUEEZE."""
    rng = grower.rng
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    if ones and rng.random() < 0.5:
        return grower.add("SQUEEZE", [x], {"squeeze_dims": [rng.choice(ones)]}, grids=[grower.grids[x]])
    axis = rng.randrange(-len(shape) - 1, len(shape) + 1)
    return grower.add("EXPAND_DIMS", [x, grower.ints(axis)], grids=[grower.grids[x]])


@recipe()
def requantized(grower: Tflite, x: str, shape: tuple[int, ...]) -> bool:
    """Add a QUANTIZE to another scale."""
    return grower.is_int8 and grower.add("QUANTIZE", [x], grids=[grower.grid()])


@recipe(share=2)
def moved(grower: Tflite, x: str, shape: tuple[int, ...]) -> bool:
    """Add a TILE, PRELU, BATCH_MATMUL or a move between depth, batch and space."""
    rng, grids = grower.rng, [grower.grids[x]]
    kind = rng.randrange(5)
    if kind == 0:
        return grower.add("TILE", [x, grower.ints([rng.choice((1, 2)) for _ in shape])], grids=grids)
    if kind == 1:
        return grower.add(
            "PRELU", [x, grower.kernel(*[1] * (len(shape) - 2), shape[-1])], grids=[grower.grid()]
        )
    if kind == 2:
        op = rng.choice(("SPACE_TO_DEPTH", "DEPTH_TO_SPACE"))
        return len(shape) == 4 and grower.add(op, [x], {"block_size": 2}, grids=grids)
    if kind == 3:
        op = rng.choice(("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"))
        block, pads = rng.choice(([2, 2], [1, 2])), [[0, rng.choice((0, 1))] for _ in range(2)]
        return len(shape) == 4 and grower.add(op, [x, grower.ints(block), grower.ints(pads)], grids=grids)
    if len(shape) < 2:
        return False
    return grower.add(
        "BATCH_MATMUL", [x, grower.kernel(*shape[:-2], shape[-1], rng.choice((1, 3)))], grids=[grower.grid()]
    )


@recipe(share=2)
def of_floats(grower: Tflite, x: str, shape: tuple[int, ...]) -> bool:
    """Add arithmetic of floats, of two values or a positive one."""
    if grower.is_int8:
        return False
    rng = grower.rng
    op = rng.choice(("LOG", "SQRT", "RSQRT", "POW", "DIV", "FLOOR_DIV", "FLOOR_MOD", "ATAN2", "ADD_N"))
    if op in ("LOG", "SQRT", "RSQRT", "POW"):
        if not grower.add("ABS", [x]):
            return False
        x = grower.network.nodes[-1].outputs[0]
        return grower.add(op, [x, grower.constant(rng.choice((0.5, 2.0, 3.0)))] if op == "POW" else [x])
    other = grower.constant(rng.choice((0.5, -2.0, 3.0))) if op != "ADD_N" else x
    inputs = [x, other] if rng.random() < 0.8 or op in ("FLOOR_MOD", "DIV", "FLOOR_DIV") else [other, x]
    return grower.add(op, inputs)


@recipe(share=2)
def differences(grower: Tflite, x: str, shape: tuple[int, ...]) -> bool:
    """Add a SQUARED_DIFFERENCE, CUMSUM, RELU_0_TO_1 or a normalization."""
    rng, kind = grower.rng, grower.rng.randrange(5)
    if kind == 0:
        return grower.add("SQUARED_DIFFERENCE", [x, rng.choice(grower.like(x))], grids=[grower.grid()])
    if kind == 1:
        return grower.add(
            "L2_NORMALIZATION", [x], grids=[FIXED["L2_NORMALIZATION"] if grower.is_int8 else None]
        )
    if grower.is_int8:
        return False
    if kind == 2:
        options = {"radius": rng.choice((1, 2)), "bias": 1.0, "alpha": 0.1, "beta": 0.75}
        return len(shape) == 4 and grower.add("LOCAL_RESPONSE_NORMALIZATION", [x], options)
    if kind == 3:
        options = {"exclusive": rng.random() < 0.5, "reverse": rng.random() < 0.5}
        return grower.add("CUMSUM", [x, grower.ints(rng.randrange(-len(shape), len(shape)))], options)
    return grower.add("RELU_0_TO_1", [x])


@recipe(share=2)
def selection(grower: Tflite, x: str, shape: tuple[int, ...]) -> bool:
    """Add a comparison, and what joins, negates, reduces or reads it."""
    if grower.is_int8:
        return False
    rng = grower.rng
    op = rng.choice(("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"))
    if not grower.add(op, [x, grower.constant(rng.choice((0.0, 0.3)))], types=["bool"]):
        return False
    mask = grower.network.nodes[-1].outputs[0]
    kind = rng.randrange(5)
    if kind == 0:
        return True
    if kind == 1:
        axes = [axis for axis in range(len(shape)) if rng.random() < 0.6] or [0]
        options = {"keep_dims": rng.random() < 0.5}
        return grower.add(rng.choice(("REDUCE_ALL", "REDUCE_ANY")), [mask, grower.ints(axes)], options)
    if kind == 2:
        return grower.add("LOGICAL_NOT", [mask])
    if kind == 3:
        return grower.add(rng.choice(("LOGICAL_AND", "LOGICAL_OR")), [mask, mask])
    other = rng.choice(grower.like(x))
    return grower.add(rng.choice(("SELECT", "SELECT_V2")), [mask, x, other], types=["float32"])


@recipe(share=2)
def places(grower: Tflite, x: str, shape: tuple[int, ...]) -> bool:
    """Add an operator that moves, repeats, fills or counts elements."""
    rng, grids = grower.rng, [grower.grids[x]]
    axis, dtype = rng.randrange(len(shape)), grower.values[x].dtype.name
    kind = rng.randrange(10)
    if kind == 0:
        return grower.add("REVERSE_V2", [x, grower.ints([axis])], grids=grids)
    if kind == 1:
        first = rng.randint(0, shape[axis])
        sizes = grower.ints([first, rng.choice((-1, shape[axis] - first))])
        options = {"num_splits": 2}
        return grower.add("SPLIT_V", [x, sizes, grower.ints(axis)], options, 2, grids * 2, [dtype] * 2)
    if kind == 2:
        counts = grower.ints(rng.randint(1, shape[-1]))
        return grower.add("TOPK_V2", [x, counts], None, 2, [*grids, None], [dtype, "int32"])
    if kind == 3:
        index = [[rng.randrange(size) for size in shape[: rng.randint(1, len(shape))]]]
        return grower.add("GATHER_ND", [x, grower.ints(index)], grids=grids)
    if kind == 4:
        return grower.add("ZEROS_LIKE", [x], grids=grids)
    if kind == 5:
        return grower.add(rng.choice(("SHAPE", "RANK")), [x], {}, types=["int32"])
    if kind == 6:
        return grower.add("BROADCAST_TO", [x, grower.ints([rng.choice((1, 2)), *shape])], grids=grids)
    if kind == 7:
        begins = grower.ints([rng.randint(0, 1) for _ in shape])
        update = grower.kernel(*[max(1, size - 1) for size in shape])
        return not grower.is_int8 and grower.add("DYNAMIC_UPDATE_SLICE", [x, update, begins], grids=grids)
    if kind == 8:
        pads = grower.ints([[rng.choice((0, 1)), rng.choice((0, 2))] for _ in shape])
        return not grower.is_int8 and grower.add("PADV2", [x, pads, grower.constant(1.5)])
    options = {"seq_dim": 1, "batch_dim": 0}
    lengths = grower.ints([rng.randint(1, shape[1]) for _ in range(shape[0])] if len(shape) > 1 else 1)
    return len(shape) > 1 and grower.add("REVERSE_SEQUENCE", [x, lengths], options, grids=grids)


@recipe()
def integers_of(grower: Tflite, x: str, shape: tuple[int, ...]) -> bool:
    """Add a CAST to integers, and what reads these."""
    if grower.is_int8:
        return False
    rng = grower.rng
    if not grower.add("CAST", [x], {"in_data_type": 0, "out_data_type": 2}, types=["int32"]):
        return False
    whole = grower.network.nodes[-1].outputs[0]
    if rng.random() < 0.5:
        return grower.add("CAST", [whole], {"in_data_type": 2, "out_data_type": 0}, types=["float32"])
    scalars = [grower.ints(4), grower.constant(1.0), grower.constant(0.0)]
    return grower.add("ONE_HOT", [whole, *scalars], {"axis": -1}, types=["float32"])


def begun(rng: random.Random, *, is_int8: bool) -> Tflite:
    """Return a network of one input."""
    grower = Tflite(rng, engine())
    grower.is_int8 = is_int8
    dtype = "int8" if is_int8 else "float32"
    grower.input(Tensor(dtype, rng.choice(SHAPES), None, rng.randrange(10**6), quantization=grower.grid()))
    return grower


def floats(rng: random.Random) -> Network:
    """Return a float network."""
    return grow(begun(rng, is_int8=False), RECIPES, rng.choice((1, 2, 3, 4, 6)))


def integers(rng: random.Random) -> Network:
    """Return a network of int8."""
    network = grow(begun(rng, is_int8=True), RECIPES, rng.choice((1, 2, 3, 4)))
    return replace(network, ways=tuple(way for way in network.ways if way in ("saved", "optimized")))


TARGETS = (
    target("tflite-graphs", engine, floats, "ai_edge_litert"),
    target("tflite-int8", engine, integers, "ai_edge_litert"),
)
