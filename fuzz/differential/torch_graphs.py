"""Random PyTorch networks and operators at the edge, by all three ways in."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fuzz.differential import ways
from fuzz.differential.cases import target
from fuzz.differential.frameworks import Framework, Refused, Undefined
from fuzz.differential.growing import Grower, grow
from fuzz.differential.networks import Network, Tensor
from fuzz.differential.torch_arguments import SHAPES, arguments, edge_value, operators
from fuzz.differential.torch_engine import Exported, Scripted, Torch, engine

IMAGES = ((1, 3, 8, 8), (2, 4, 6, 6), (1, 4, 16), (1, 48), (2, 6, 5), (1, 2, 4, 4, 4), (4, 6), (3,))
UNARY = (
    *("relu.default", "sigmoid.default", "tanh.default", "gelu.default", "silu.default", "hardswish.default"),
    *("elu.default", "softplus.default", "leaky_relu.default", "neg.default", "abs.default", "exp.default"),
    *(
        "floor.default",
        "round.default",
        "sin.default",
        "erf.default",
        "sign.default",
        "mish.default",
        "celu.default",
    ),
)


def any_operator(grower: Grower) -> bool:
    """Add any operator with usual arguments, if torch takes them."""
    op = grower.rng.choice(operators())
    for _ in range(6):
        drawn = arguments(grower, op)
        if drawn is not None and drawn[0] and grower.add(op, *drawn, 1):
            return True
    return False


def _value(grower: Grower, *ranks: int) -> str | None:
    return grower.pick(lambda each: each.dtype == np.float32 and (not ranks or each.ndim in ranks))


def unary(grower: Grower) -> bool:
    """Add a function of each element."""
    x = _value(grower)
    return x is not None and grower.add(grower.rng.choice(UNARY), [x], {"self": "@0"})


def scalar(grower: Grower) -> bool:
    """Add arithmetic with a number."""
    x, rng = _value(grower), grower.rng
    op = rng.choice(("add.Scalar", "mul.Scalar", "div.Scalar", "sub.Scalar"))
    return x is not None and grower.add(
        op, [x], {"self": "@0", "other": rng.choice((0.5, 2.0, -4.0, 255.0, 3))}
    )


def tensors(grower: Grower) -> bool:
    """Add arithmetic with another value or a constant."""
    x, rng = _value(grower), grower.rng
    if x is None:
        return False
    shape = grower.values[x].shape
    same = [
        name for name, array in grower.values.items() if array.shape == shape and array.dtype == np.float32
    ]
    second = (
        rng.choice(same)
        if rng.random() < 0.5
        else grower.weight(*(size if rng.random() < 0.5 else 1 for size in shape))
    )
    op = rng.choice(("add.Tensor", "mul.Tensor", "sub.Tensor", "maximum.default", "minimum.default"))
    return grower.add(op, [x, second], {"self": "@0", "other": "@1"})


def view(grower: Grower) -> bool:
    """Add a view to any factors, or a permutation."""
    x, rng = _value(grower), grower.rng
    if x is None:
        return False
    shape = grower.values[x].shape
    if rng.random() < 0.5:
        return grower.add(
            "permute.default", [x], {"self": "@0", "dims": rng.sample(range(len(shape)), len(shape))}
        )
    rest, sizes = int(np.prod(shape)), []
    for _ in range(rng.choice((1, 2, 3))):
        sizes.append(rng.choice([size for size in range(1, rest + 1) if rest % size == 0]))
        rest //= sizes[-1]
    sizes.append(-1 if rng.random() < 0.4 else rest)
    rng.shuffle(sizes)
    return grower.add("reshape.default", [x], {"self": "@0", "shape": sizes})


def convolution(grower: Grower) -> bool:
    """Add a convolution, perhaps transposed."""
    x, rng = _value(grower, 3, 4, 5), grower.rng
    if x is None:
        return False
    shape = grower.values[x].shape
    axes = len(shape) - 2
    group = rng.choice([size for size in range(1, shape[1] + 1) if shape[1] % size == 0])
    is_transposed = rng.random() < 0.2
    count, kernel = group * rng.choice((1, 2, 3)), [rng.choice((1, 2, 3)) for _ in range(axes)]
    sizes = (shape[1], count // group) if is_transposed else (count, shape[1] // group)
    attributes: dict[str, Any] = {
        "input": "@0",
        "weight": "@1",
        "bias": "@2" if rng.random() < 0.6 else None,
        "stride": [rng.choice((1, 1, 2)) for _ in range(axes)],
        "padding": [rng.choice((0, 0, 1)) for _ in range(axes)],
        "dilation": [rng.choice((1, 1, 1, 2)) for _ in range(axes)],
        "transposed": is_transposed,
        "output_padding": [rng.choice((0, 0, 0, 1)) * is_transposed for _ in range(axes)],
        "groups": group,
    }
    inputs = [x, grower.weight(*sizes, *kernel), grower.weight(count)]
    return grower.add("convolution.default", inputs[: 2 + (attributes["bias"] is not None)], attributes)


def linear(grower: Grower) -> bool:
    """Add a linear layer, or a product of values."""
    x, rng = _value(grower, 2, 3, 4), grower.rng
    if x is None:
        return False
    shape, count = grower.values[x].shape, rng.choice((1, 3, 5))
    if rng.random() < 0.3:
        return grower.add(
            "matmul.default", [x, grower.weight(shape[-1], count)], {"self": "@0", "other": "@1"}
        )
    inputs = [x, grower.weight(count, shape[-1]), grower.weight(count)]
    return grower.add("linear.default", inputs, {"input": "@0", "weight": "@1", "bias": "@2"})


def normalization(grower: Grower) -> bool:
    """Add a batch or layer normalization."""
    x, rng = _value(grower, 2, 3, 4, 5), grower.rng
    if x is None:
        return False
    shape = grower.values[x].shape
    if rng.random() < 0.5:
        inputs = [x, grower.weight(shape[-1]), grower.weight(shape[-1])]
        sizes = {"input": "@0", "normalized_shape": [shape[-1]], "weight": "@1", "bias": "@2", "eps": 1e-2}
        return grower.add("layer_norm.default", inputs, sizes)
    variance = grower.constant(np.random.default_rng(rng.randrange(100)).uniform(0.5, 2, shape[1]))
    inputs = [x, *(grower.weight(shape[1]) for _ in range(3)), variance]
    names = ("input", "weight", "bias", "running_mean", "running_var")
    flags = {"training": False, "momentum": 0.1, "eps": 1e-3, "cudnn_enabled": False}
    attributes = {name: f"@{index}" for index, name in enumerate(names)}
    return grower.add("batch_norm.default", inputs, attributes | flags)


RECIPES: tuple[Callable[[Grower], bool], ...] = (
    *[any_operator] * 8,
    *[view] * 5,
    *[convolution] * 4,
    *(unary, unary, scalar, scalar, tensors, tensors, linear, linear, normalization),
)


def graph(kind: type[Torch], rng: random.Random) -> Network:
    """Return a random network."""
    grower = Grower(rng, engine(kind))
    for _ in range(rng.choice((1, 1, 2))):
        grower.input(Tensor("float32", rng.choice(IMAGES), None, rng.randrange(10**6)))
    return grow(grower, RECIPES, rng.choice((2, 3, 4, 6)))


def edge(kind: type[Torch], rng: random.Random) -> Network:
    """Return one operator, with one or two arguments at the edge that torch takes."""
    framework: Framework = engine(kind)
    while True:
        grower = Grower(rng, framework, edge=True)
        for _ in range(2):
            grower.input(Tensor("float32", rng.choice(SHAPES), None, rng.randrange(10**6)))
        op = rng.choice(operators())
        for _ in range(30):
            drawn = arguments(grower, op)
            if drawn is not None and drawn[0] and grower.add(op, *drawn, 1):
                break
        else:
            continue
        node = grower.network.nodes[-1]
        for _ in range(12):
            attributes = dict(node.attributes)
            names = [
                key
                for key, value in attributes.items()
                if value is not None and not str(value).startswith("@")
            ]
            for key in rng.sample(names, min(len(names), rng.choice((1, 1, 2)))):
                attributes[key] = edge_value(rng, attributes[key])
            changed = replace(node, attributes=attributes)
            network = replace(
                grower.network, constants=grower.network.constants, nodes=(changed,), outputs=changed.outputs
            ).used()
            if not network.inputs:
                break
            try:
                arrays = network.feeds() | {name: array.array() for name, array in network.constants.items()}
                with np.errstate(all="ignore"):
                    results = framework.step(network, changed, [arrays[name] for name in changed.inputs])
            except (Refused, Undefined):
                continue
            if sum(array.size for array in results) < 10**5:
                return replace(network, ways=ways.drawn(rng)[:1])


def _mixed(kind: type[Torch], rng: random.Random) -> Network:
    return edge(kind, rng) if rng.random() < 0.4 else graph(kind, rng)


TARGETS = (
    target("torch-graphs", partial(engine, Scripted), partial(graph, Scripted), "torch", seconds=20),
    target("torch-edges", partial(engine, Scripted), partial(edge, Scripted), "torch", seconds=20),
    target("torch-pt2", partial(engine, Exported), partial(_mixed, Exported), "torch", seconds=40),
    target("torch-modules", partial(engine, Torch), partial(_mixed, Torch), "torch", seconds=40),
)
